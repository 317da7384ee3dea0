"""Edits of single files of a workspace by a user.

The user passes the blob id of the content that was edited, so that a change by another user since then is not
overwritten.  A name that only some systems can check out is refused, because the user can still choose
another one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, StaleError
from covalt_git.git_store.objects import FILE, LINK, TreeEntry, blob_id
from covalt_git.paths import check_path, collisions
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import Folder, folders_above
from covalt_git.workspaces.rules import check_storable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer


class MovedFileError(StaleError):
    """A file was changed, created or removed since it was read for an edit.

    Attributes:
        before: the blob id that was edited; None for a new file.
        now: the current blob id; None if the file was removed.
    """

    def __init__(self, path: str, before: str | None, now: str | None) -> None:
        was = f"you edited {before}" if before else "you created it"
        there = f"now it is {now}" if now else "now it does not exist"
        super().__init__(
            f"{path!r} has changed meanwhile: {was}, {there}",
            hint="read it again, and repeat the change in the current content",
        )
        self.before = before
        self.now = now


class BadPathError(CovaltError):
    """A path that a file cannot have on this or another system."""

    code = "bad_path"


def check_portable(path: str) -> None:
    """Check that every system can check out a file at ``path``.

    Raises:
        BadPathError: with the reason.
    """
    reason = check_path(path).reason
    if reason:
        raise _bad(path, reason)


def _check_before(path: str, found: FileState | None, before: str | None) -> None:
    """Check that a file or link that was found at ``path`` is the blob ``before``; None means that it does not exist.

    Raises:
        MovedFileError: if it is not.
    """
    now = found.oid if found else None
    if now != before:
        raise MovedFileError(path, before, now)


def check_new(root: Folder, path: str, known: Iterable[str]) -> None:
    """Check that a file can be created at ``path``, and checked out together with the ``known`` ones.

    Raises:
        BadPathError: with the reason.
    """
    if not root.is_free(path):
        raise _bad(path, "another file or folder is in its place")
    own = {path, *folders_above(path)}
    others = itertools.chain.from_iterable((*folders_above(one), one) for one in known)
    pairs = collisions(dict.fromkeys([*others, *own]))
    other = next((first for first, second in pairs if second in own), None)
    if other is not None:
        raise _bad(path, f"on some systems it is the same as {other!r}")


def _bad(path: str, reason: str) -> BadPathError:
    return BadPathError(f"{path!r} cannot be a file's path: {reason}", hint="choose another name")


def check_edit(
    writer: Writer, path: str, content: bytes, *, before: str | None
) -> FileState | None:
    """Check that a file can get new content, and return its state; None for a new file.

    Raises:
        CovaltError: as :func:`edit_file`.
    """
    chat = writer.chat
    check_portable(path)
    check_storable(path, content, chat.config)
    with Folder.opened(chat.workspace) as root:
        found = root.state(path, chat.store.object_format)
        _check_before(path, found, before)
        if found is None:
            check_new(root, path, chat.files(chat.head()))
        elif found.mode == LINK:
            raise BadPathError(
                f"{path!r} is a link, which cannot be edited",
                hint="edit the file that it points to",
            )
    return found


def edit_file(writer: Writer, path: str, content: bytes, *, before: str | None) -> str:
    """Write one file and commit it alone; return its blob id.

    ``before`` is the blob that was edited, None for a new file.  An executable file stays executable.
    Other uncommitted changes are committed first.  If the content is equal, there is no commit.

    Raises:
        MovedFileError: when the file is not ``before``; nothing was written.
        BadPathError: when some system cannot check out the path.
        InTheWayError: if the file is not part of commits, for example because it was too large.
        CovaltError: if a commit could not contain the file.
    """
    oid = blob_id(content, writer.chat.store.object_format)
    found = check_edit(writer, path, content, before=before)
    if oid != before:
        now = _committed(writer, path, before)
        writer.chat.store.write_blob(content)
        mode = found.mode if found else FILE
        files = trees.edited_state(writer.chat.store, now, {path: TreeEntry(b"", mode, oid)})
        writer.commit_files("edit", files, subject=path)
    return oid


def delete_file(writer: Writer, path: str, *, before: str) -> None:
    """Delete one file, which must be the blob ``before``, in a separate commit.

    Raises:
        MovedFileError: when the file is not ``before``; nothing was deleted.
    """
    chat = writer.chat
    with Folder.opened(chat.workspace) as root:
        _check_before(path, root.state(path, chat.store.object_format), before)
    now = _committed(writer, path, before)
    files = trees.edited_state(chat.store, now, {path: None})
    writer.commit_files("edit", files, subject=path)


def _committed(writer: Writer, path: str, before: str | None) -> FolderState:
    """Commit uncommitted changes, and return the files of the commit; there, ``path`` must be the blob ``before``."""
    state = writer.chat.state(writer.commit_changes())
    _check_before(path, trees.find(writer.chat.store, state.tree, path), before)
    return state
