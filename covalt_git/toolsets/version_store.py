"""The versions of toolsets that something was decided about: what was imported, and what was granted.

What a digest stands for is found in Git, where the project is checked in, or in ``data/toolsets``, where
it was put when it was decided: the next update needs what was imported even if it was never committed.
Each is kept as the bundle of it.
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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.toolsets.toolset import Toolset

_MOST = 50
"""So many versions of a toolset are kept, those that were used last."""


def keep(root: Path, toolset_id: str, entries: Sequence[Entry]) -> Path:
    """Keep a version, and return the bundle that it is now."""
    folder = root / "data" / "toolsets" / toolset_id
    path = folder / f"{digest_of_entries(entries).removeprefix('sha256:')}.zip"
    if path.exists():
        os.utime(path)
        return path
    content = pack_files((one.path, one.content, one.executable) for one in entries)
    atomic_write.replace(path, content)
    for old in sorted(folder.glob("*.zip"), key=lambda one: one.stat().st_mtime)[:-_MOST]:
        old.unlink(missing_ok=True)
    return path


def store_current_version(root: Path, toolset: Toolset) -> None:
    """Keep a toolset of the project as it is now, unless it could be no bundle."""
    with contextlib.suppress(BadBundleError):
        keep(root, toolset.id, read_folder(toolset.folder))


def find_version(root: Path, toolset_id: str, digest: str) -> list[Entry] | None:
    """Return the files of the version with that digest, or None where there are none any more."""
    kept = root / "data" / "toolsets" / toolset_id / f"{digest.removeprefix('sha256:')}.zip"
    if kept.exists():
        with contextlib.suppress(BadBundleError):  # damaged: Git may have it, too
            entries = unpack(read_archive(kept), kept.name)
            if digest_of_entries(entries) == digest:
                os.utime(kept)
                return entries
    with contextlib.suppress(UnknownRevisionError):
        for files in folder_versions(root / "toolsets" / toolset_id):
            entries = [Entry(*file) for file in files if PYCACHE not in file[0].split("/")]
            if digest_of_entries(entries) == digest:
                return entries
    return None
