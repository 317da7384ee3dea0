"""Changing single files of a workspace from outside it: what is checked before anything is written.

Whoever edits says which content they edited, so that nobody's later work is overwritten unseen; and
a name that only some systems can check out is refused here, where a person can still choose another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, StaleError
from covalt_git.paths import check_path, collisions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.folders import Folder


class MovedFileError(StaleError):
    """A file is not what was edited: somebody else changed, made or removed it meanwhile.

    Attributes:
        before: the blob id that was edited; None where there was to be no file.
        now: the blob id that is there; None where no file is.
    """

    def __init__(self, path: str, before: str | None, now: str | None) -> None:
        was = f"{before} was edited" if before else "it was to be new"
        there = f"{now} is there" if now else "no file is there"
        super().__init__(
            f"{path!r} has changed meanwhile: {was}, {there}",
            hint="read it again, and make the change in what is there now",
        )
        self.before = before
        self.now = now


class BadPathError(CovaltError):
    """A path that a file cannot have, here or on another system."""

    code = "bad_path"


def check_portable(path: str) -> None:
    """Make sure that every system can check out a file at ``path``.

    Raises:
        BadPathError: with the reason.
    """
    reason = check_path(path).reason
    if reason:
        raise _bad(path, reason)


def check_before(
    root: Folder, path: str, before: str | None, object_format: str
) -> FileState | None:
    """Return the file or link at ``path``, which has to be the blob ``before``, or nothing.

    Raises:
        MovedFileError: when it is another.
    """
    found = root.state(path, object_format)
    now = found.oid if found else None
    if now != before:
        raise MovedFileError(path, before, now)
    return found


def check_new(root: Folder, path: str, known: Iterable[str]) -> None:
    """Make sure that a file can be made at ``path``, and be checked out beside the ``known`` ones.

    Raises:
        BadPathError: with the reason.
    """
    if not root.is_free(path):
        raise _bad(path, "something else is in its place")
    own = set(_ways((path,)))
    pairs = collisions(dict.fromkeys([*_ways(known), *own]))
    taken = next((first for first, second in pairs if second in own), None)
    if taken is not None:
        raise _bad(path, f"some systems take it for {taken!r}")


def _bad(path: str, reason: str) -> BadPathError:
    return BadPathError(f"{path!r} cannot be a file's path: {reason}", hint="choose another name")


def _ways(paths: Iterable[str]) -> Iterator[str]:
    """Yield every path and the folders above it."""
    for path in paths:
        yield from (path[:at] for at, letter in enumerate(path) if letter == "/")
        yield path
