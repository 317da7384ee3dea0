"""Store of toolset versions that were imported or granted: ``data/toolsets/<id>/<digest>.zip``.

An update compares with the imported version, which may never have been committed.  A version that is
not in the store is searched in the Git history of the project.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from covalt_git.bundles.archive import pack_files
from covalt_git.bundles.archive_reader import (
    BadBundleError,
    Entry,
    digest_of_entries,
    read_archive,
    read_folder,
    unpack,
)
from covalt_git.git_store.outer_repository import UnknownRevisionError, folder_versions
from covalt_git.manifests.toolset_files import PYCACHE
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.toolsets.toolset import Toolset

_MOST = 50
"""The store has at most this many versions of a toolset: the last used ones."""


def store_version(root: Path, toolset_id: str, entries: Sequence[Entry]) -> Path:
    """Store a version of a toolset, and return the path of its bundle."""
    folder = data_of(root) / "toolsets" / toolset_id
    path = folder / f"{digest_of_entries(entries).removeprefix('sha256:')}.zip"
    if path.exists():
        os.utime(path)
        return path
    content = pack_files((entry.path, entry.content, entry.executable) for entry in entries)
    atomic_write.replace(path, content)
    for old in sorted(folder.glob("*.zip"), key=lambda bundle: bundle.stat().st_mtime)[:-_MOST]:
        old.unlink(missing_ok=True)
    return path


def store_current_version(root: Path, toolset: Toolset) -> None:
    """Store the current files of a toolset, unless a bundle cannot contain them."""
    with contextlib.suppress(BadBundleError):
        store_version(root, toolset.id, read_folder(toolset.folder))


def find_version(root: Path, toolset_id: str, digest: str) -> list[Entry] | None:
    """Return the files of the version with that digest, or None if it is not stored any more."""
    bundle = data_of(root) / "toolsets" / toolset_id / f"{digest.removeprefix('sha256:')}.zip"
    if bundle.exists():
        with contextlib.suppress(BadBundleError):  # damaged: Git may have it, too
            entries = unpack(read_archive(bundle), bundle.name)
            if digest_of_entries(entries) == digest:
                os.utime(bundle)
                return entries
    with contextlib.suppress(UnknownRevisionError):
        for files in folder_versions(root / "toolsets" / toolset_id):
            entries = [Entry(*file) for file in files if PYCACHE not in file[0].split("/")]
            if digest_of_entries(entries) == digest:
                return entries
    return None
