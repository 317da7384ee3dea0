"""Files that the git repository around a project tracks, found without loading dulwich where possible.

Every command asks whether git tracks the project's ``data/``.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SHORT_NAMES = 4
"""Version of the index that stores only the end of a name that begins like the one before."""

_POINTER = b"gitdir: "


def index_file(folder: Path) -> Path | None:
    """Return the path of the index of the repository around ``folder``; None without a repository."""
    found = _repository(folder)
    return found[1] if found else None


def tracked_files(folder: Path, name: str) -> Iterator[str]:
    """Yield the paths of tracked files below ``folder/name``, relative to ``folder``; none if the index is unreadable.

    An index may have a million names.  So it is searched for the name as bytes first, and parsed only with a hit.
    """
    found = _repository(folder)
    if found is None:
        return
    top, file = found
    above = folder.resolve().relative_to(top).as_posix()
    base = os.fsencode("" if above == "." else f"{above}/")
    wanted = base + os.fsencode(name) + b"/"
    try:
        content = file.read_bytes()
        (version,) = struct.unpack(">I", content[4:8])
    except (OSError, struct.error):
        return
    if version != _SHORT_NAMES and wanted not in content:
        return
    from dulwich.index import Index  # noqa: PLC0415 - every command comes here, few need it

    for path in Index(os.fspath(file)):
        if path.startswith(wanted):
            yield os.fsdecode(path[len(base) :])


def _repository(folder: Path) -> tuple[Path, Path] | None:
    """Return the folder that a repository is in, and its index."""
    for top in (folder.resolve(), *folder.resolve().parents):
        git = top / ".git"
        if git.is_dir():
            return top, git / "index"
        if git.is_file():  # a linked worktree or a submodule
            content = git.read_bytes()
            if not content.startswith(_POINTER):
                return None
            return top, top / os.fsdecode(content[len(_POINTER) :].strip()) / "index"
    return None
