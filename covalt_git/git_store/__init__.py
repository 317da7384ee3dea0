"""Git's objects and refs in a bare store, on dulwich's plumbing: the only package that knows dulwich.

It owns reading and durable writing of blobs, trees, commits, notes and refs, and nothing of what
they mean to a chat.  Objects, packs and their indexes are written to a temporary name, flushed, by
themselves or in a log, and renamed, so that a name never stands for half of one; refs move by
compare-and-swap only.  Deltas,
trees and patches are dulwich's; finding, reading and packing objects is ours, where dulwich takes
three to ten times as long.  Formats: git's ``gitformat-loose(5)``, ``gitformat-pack(5)``,
``git-commit-tree(1)``.
"""

from covalt_git.git_store.bundles import SIGNATURES as BUNDLE_SIGNATURES
from covalt_git.git_store.bundles import BadBundleError, read_bundle_header, write_bundle
from covalt_git.git_store.checking import SUBMODULE
from covalt_git.git_store.compression import ISAL_FOLDER
from covalt_git.git_store.new_store import make_store
from covalt_git.git_store.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    BrokenStoreError,
    CommitObject,
    TreeEntry,
    blob_id,
    encode_raw_tree,
    is_object_id,
    object_id,
    with_other_ids,
)
from covalt_git.git_store.store import (
    GitStore,
    create_work_repository,
    is_binary_content,
)
from covalt_git.git_store.sweeping import Usage

__all__ = [
    "BUNDLE_SIGNATURES",
    "EXECUTABLE",
    "FILE",
    "FOLDER",
    "ISAL_FOLDER",
    "LINK",
    "SUBMODULE",
    "BadBundleError",
    "BrokenStoreError",
    "CommitObject",
    "GitStore",
    "TreeEntry",
    "Usage",
    "blob_id",
    "create_work_repository",
    "encode_raw_tree",
    "is_binary_content",
    "is_object_id",
    "make_store",
    "object_id",
    "read_bundle_header",
    "with_other_ids",
    "write_bundle",
]
