"""Files that the git repositories around a project track, found without loading dulwich where possible.

Every command asks whether git tracks the project's ``data/``.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.system.checkouts import GIT, checkouts_around
from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHORT_NAMES = b"\0\0\0\4"
"""Version of an index that stores only the end of a name that begins like the one before."""

_SPLIT = b"link"
"""Signature of the extension of a split index; the word may also be part of a name, which only costs a search."""

_MOST = 0xFFF
"""The length of a name in an index, at most; longer names have this one."""

_POINTER = b"gitdir: "


class TrackedDataError(CovaltError):
    """Git brought files of ``data/``, so that another user may have written them."""

    code = "data_is_tracked"
    http_status = 409

    def __init__(self, fact: str, hint: str) -> None:
        super().__init__(
            f"{fact}: the chats and approvals in data/ may be another user's, so they are not used",
            hint=hint,
        )


class UnreadableIndexError(CovaltError):
    """The index of a repository around a project cannot be read."""

    code = "unreadable_index"
    http_status = 409

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"{str(file)!r} cannot be read, so it is unknown whether git tracks data/",
            hint=shlex.join(["git", f"--git-dir={file.parent}", "status"]),
        )


class Repository(NamedTuple):
    """A repository around a project: the folder that it is in, and the file of its index, both real paths."""

    top: str
    index_file: str


def repositories_around(folder: Path) -> Iterator[Repository]:
    """Yield each repository that may track files of a folder, the nearest first."""
    for top, git in checkouts_around(folder, (GIT,)):
        try:
            mode = os.stat(git).st_mode  # noqa: PTH116 - each call of a tool comes here
        except (FileNotFoundError, NotADirectoryError):
            continue  # a link to nothing
        if stat.S_ISDIR(mode):
            yield Repository(top, f"{git}/index")
        elif stat.S_ISREG(mode):  # a linked worktree or a submodule
            content = Path(git).read_bytes()
            if content.startswith(_POINTER):
                pointed = os.fsdecode(content[len(_POINTER) :].strip())
                yield Repository(top, os.path.join(top, pointed, "index"))  # noqa: PTH118 - as above


def has_submodule(folder: Path | str) -> bool:
    """Return whether a folder has what git creates in one into which it checks out a submodule."""
    return os.path.isfile(f"{folder}/.git")  # noqa: PTH113 - each chat is asked when chats are listed


def submodules_below(repository: Repository, folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Yield what submodules have checked out in ``folder/name``, and the repository of each.

    Git leaves the files of a submodule that a pull removes, and its repository in ``modules``, which names them.
    """
    modules = os.path.join(os.path.dirname(repository.index_file), "modules")  # noqa: PTH118, PTH120 - as above
    if not os.path.lexists(modules):
        return
    waiting = [Path(modules)]
    while waiting:
        git = waiting.pop()
        if not (git / "HEAD").is_file():  # a part of a submodule's name, which may have slashes
            with contextlib.suppress(OSError):
                waiting += [entry for entry in git.iterdir() if entry.is_dir()]
            continue
        waiting.append(git / "modules")
        for tree in _work_trees(git):
            if os.path.lexists(tree) and _is_below(tree, folder / name):
                yield os.path.relpath(tree, os.path.realpath(folder)), git


def _work_trees(git: Path) -> Iterator[str]:
    """Yield the real paths of the work tree that the settings of a repository name.

    Raises:
        UnreadableIndexError: if a file of settings cannot be read, so that the work tree may be anywhere.
    """
    # Git quotes and escapes values in several ways, and the author of a submodule chooses its path.
    from dulwich.config import ConfigFile  # noqa: PLC0415 - every command comes here, few need it

    for file in (git / "config", git / "config.worktree"):
        try:
            with file.open("rb") as lines:
                settings = ConfigFile.from_file(lines, expand_includes=False)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise UnreadableIndexError(file) from error
        with contextlib.suppress(KeyError):  # neither file needs the section
            for value in settings.get_multivar((b"core",), b"worktree"):
                yield os.path.realpath(git / os.fsdecode(value))


def _is_below(path: str, folder: Path) -> bool:
    """Return whether a path is a folder or below it, also where the file system ignores case."""
    try:
        status = folder.stat()
        return any(
            os.path.samestat(place.stat(), status) for place in (Path(path), *Path(path).parents)
        )
    except OSError:
        return False


def tracked_files(repository: Repository, folder: Path, name: str) -> Iterator[str]:
    """Yield the paths of tracked files below ``folder/name``, or itself, relative to ``folder``.

    A submodule, a file or a link at ``folder/name`` is an entry with exactly that name.  An index may have a million
    names.  So it is searched for the name as bytes first, and parsed only with a hit.

    Raises:
        UnreadableIndexError: if the index exists but cannot be read, so that anything may be tracked.
    """
    file = Path(repository.index_file)
    above = folder.resolve().relative_to(repository.top).as_posix()
    tracked = os.fsencode(name if above == "." else f"{above}/{name}")
    try:
        content = file.read_bytes()
    except FileNotFoundError:  # nothing was ever added
        return
    except OSError as error:
        raise UnreadableIndexError(file) from error
    place = _Place(repository.top, tracked)
    ending = os.fsencode(name).lower()
    lower = content.lower()
    # An index of version 4 stores only how a name differs from the one before it, so the search cannot find it there.
    may_be_tracked = ending + b"/" in lower or ending + b"\0" in lower
    # A split index has most of its names in another file, and dulwich reads that one only.
    shared = [*file.parent.glob("sharedindex.*")] if _SPLIT in content else []
    if not shared and not may_be_tracked and content[4:8] != _SHORT_NAMES:
        return
    for path in dict.fromkeys(path for index in shared or [file] for path in _names(index)):
        if place.has(path):
            yield os.fsdecode(b"/".join(path.split(b"/")[tracked.count(b"/") :]))
    if shared and _has_entry(content, tracked):
        yield name


class _Place:
    """The place of a folder in a repository, under each name by which the file system knows it.

    On most file systems of macOS and Windows, git's ``Data/x`` is a file of ``data``, and é has two spellings.
    """

    def __init__(self, top: str, path: bytes) -> None:
        self._top = top
        self._path = path
        self._depth = path.count(b"/") + 1
        self._folded = _folded(path)
        self._same = {path: True}

    def has(self, path: bytes) -> bool:
        """Return whether a path of the index is the folder, or below it."""
        prefix = b"/".join(path.split(b"/", self._depth)[: self._depth])
        if prefix not in self._same:
            is_alike = _folded(prefix) == self._folded
            self._same[prefix] = is_alike and self._is_same_file(prefix)
        return self._same[prefix]

    def _is_same_file(self, prefix: bytes) -> bool:
        top = os.fsencode(self._top)
        try:
            tracked, folder = (os.stat(top + b"/" + path) for path in (prefix, self._path))  # noqa: PTH116 - bytes
            return os.path.samestat(tracked, folder)
        except OSError:
            return False


def _folded(path: bytes) -> str:
    return normalized("NFC", os.fsdecode(path)).casefold()


def _has_entry(content: bytes, path: bytes) -> bool:
    """Return whether an index that dulwich cannot read has an entry at a path or below it, in whichever case.

    An entry has the length of its name just before it (gitformat-index(5)), also with two bytes of more flags in
    between.  So the same bytes in a longer name, or in the list of cached trees, are no entry.
    """
    lower, path = content.lower(), path.lower()
    at = lower.find(path)
    while at >= 0:
        entry = lower[at:].partition(b"\0")[0]
        lengths = {int.from_bytes(content[at - end : at - end + 2]) & _MOST for end in (2, 4)}
        is_path = entry == path or entry.startswith(path + b"/")
        if is_path and min(len(entry), _MOST) in lengths:
            return True
        at = lower.find(path, at + 1)
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
