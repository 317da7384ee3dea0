"""Git objects, packs and refs of bare stores: the only package that imports dulwich.

It reads blobs, trees, commits and refs, and writes them durably; their meaning in a chat is defined in
``workspaces``.  Dulwich makes and applies deltas, moves refs, and parses configs and the protocol's lines.  This
package reads and writes objects and packs, and decides in which order files are written and fsynced.
"""

from covalt_git.git_store.bundles import BadGitBundleError, read_bundle_header, write_bundle
from covalt_git.git_store.checking import SUBMODULE
from covalt_git.git_store.objects import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    BrokenStoreError,
    CommitObject,
    TreeEntry,
    blob_id,
)
from covalt_git.git_store.repacking import ObjectUsage
from covalt_git.git_store.store import (
    GitStore,
    commit_files,
    create_work_repository,
    is_binary_content,
)

__all__ = [
    "EXECUTABLE",
    "FILE",
    "FOLDER",
    "LINK",
    "SUBMODULE",
    "BadGitBundleError",
    "BrokenStoreError",
    "CommitObject",
    "GitStore",
    "ObjectUsage",
    "TreeEntry",
    "blob_id",
    "commit_files",
    "create_work_repository",
    "is_binary_content",
    "read_bundle_header",
    "write_bundle",
]
