"""Files that the git repository around a project tracks, found without loading dulwich where possible.

Every command asks whether git tracks the project's ``data/``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SHORT_NAMES = b"\0\0\0\4"
"""Version of an index that stores only the end of a name that begins like the one before."""

_SPLIT = b"link"
"""Signature of the extension of a split index; the word may also be part of a name, which only costs a search."""

_MOST = 0xFFF
"""The length of a name in an index, at most; longer names have this one."""

_POINTER = b"gitdir: "


class UnreadableIndexError(CovaltError):
    """The index of the repository around a project cannot be read."""

    code = "unreadable_index"
    http_status = 409

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"{str(file)!r} cannot be read, so it is unknown whether git tracks data/",
            hint="git status",
        )


def index_file(folder: Path) -> Path | None:
    """Return the path of the index of the repository around ``folder``; None without a repository."""
    found = _repository(folder)
    return found[1] if found else None


def tracked_files(folder: Path, name: str) -> Iterator[str]:
    """Yield the paths of tracked files below ``folder/name``, or itself, relative to ``folder``.

    A submodule, a file or a link at ``folder/name`` is an entry with exactly that name.  An index may have a million
    names.  So it is searched for the name as bytes first, and parsed only with a hit.

    Raises:
        UnreadableIndexError: if the index exists but cannot be read, so that anything may be tracked.
    """
    found = _repository(folder)
    if found is None:
        return
    top, file = found
    above = folder.resolve().relative_to(top).as_posix()
    base = os.fsencode("" if above == "." else f"{above}/")
    wanted = base + os.fsencode(name)
    try:
        content = file.read_bytes()
    except FileNotFoundError:  # nothing was ever added
        return
    except OSError as error:
        raise UnreadableIndexError(file) from error
    may_be_tracked = wanted + b"/" in content or wanted + b"\0" in content
    # A split index has most of its names in another file, and dulwich reads that one only.
    shared = [*file.parent.glob("sharedindex.*")] if _SPLIT in content else []
    if not shared and not may_be_tracked and content[4:8] != _SHORT_NAMES:
        return
    for path in dict.fromkeys(path for index in shared or [file] for path in _names(index)):
        if path == wanted or path.startswith(wanted + b"/"):
            yield os.fsdecode(path[len(base) :])
    if shared and _has_entry(content, wanted):
        yield name


def _has_entry(content: bytes, wanted: bytes) -> bool:
    """Return whether an index that dulwich cannot read has an entry at a path or below it.

    An entry has the length of its name just before it (gitformat-index(5)), also with two bytes of more flags in
    between.  So the same bytes in a longer name, or in the list of cached trees, are no entry.
    """
    at = content.find(wanted)
    while at >= 0:
        entry = content[at:].partition(b"\0")[0]
        lengths = {int.from_bytes(content[at - end : at - end + 2]) & _MOST for end in (2, 4)}
        is_path = entry == wanted or entry.startswith(wanted + b"/")
        if is_path and min(len(entry), _MOST) in lengths:
            return True
        at = content.find(wanted, at + 1)
    return False


def _names(file: Path) -> list[bytes]:
    from dulwich.index import Index  # noqa: PLC0415 - every command comes here, few need it
    from dulwich.object_format import SHA1, SHA256  # noqa: PLC0415

    for object_format in (
        SHA1,
        SHA256,
    ):  # the index does not name it, but its checksum has only one of these sizes
        try:
            return list(Index(os.fspath(file), object_format=object_format))
        except Exception:  # noqa: BLE001, S112 - a stranger may have written the index; dulwich raises many types
            continue
    raise UnreadableIndexError(file)


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
