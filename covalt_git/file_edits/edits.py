"""Changing single files of a workspace from outside it: what is checked before anything is written.

Whoever edits says which content they edited, so that nobody's later work is overwritten unseen; and
a name that only some systems can check out is refused here, where a person can still choose another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, StaleError
from covalt_git.git_store import FILE, LINK, blob_id
from covalt_git.paths import check_path, collisions
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.rules import check_storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.writer import Writer


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


def edit_file(writer: Writer, path: str, content: bytes, *, before: str | None) -> str:
    """Write one file as a manifest of its own; return the id of the blob that it is now.

    ``before`` is the blob that was edited, None where the file is new.  It stays executable if
    it was.  Other edits in the folder are saved first; the same content again makes nothing.

    Raises:
        MovedFileError: when the file is not ``before``; nothing was written.
        BadPathError: when the path is not one that every system can check out.
        CovaltError: when such a file is not stored.
    """
    store = writer.chat.store
    check_portable(path)
    check_storable(path, content, writer.chat.config)
    oid = blob_id(content, store.object_format)
    with Folder.opened(writer.chat.workspace) as root:
        found = check_before(root, path, before, store.object_format)
        if found is None:
            check_new(root, path, writer.chat.files(writer.chat.head()))
        elif found.mode == LINK:
            raise BadPathError(
                f"{path!r} is a link, which is not edited", hint="edit what it leads to"
            )
        if oid == before:
            return oid
        writer.save_edits()
        check_before(root, path, before, store.object_format)  # saving took its time
        writer.folder.put(root, [(path, found.mode if found else FILE, content)])
    writer.commit_files("edit", path)
    return oid


def delete_file(writer: Writer, path: str, *, before: str) -> None:
    """Delete one file as a manifest of its own; the blob ``before`` is the one that is meant.

    Raises:
        MovedFileError: when the file is not ``before``; nothing was deleted.
    """
    with Folder.opened(writer.chat.workspace) as root:
        object_format = writer.chat.store.object_format
        check_before(root, path, before, object_format)
        writer.save_edits()
        check_before(root, path, before, object_format)
        writer.folder.remove(root, path)
    writer.commit_files("edit", path)
