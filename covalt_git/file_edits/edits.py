"""Edits of single files of a workspace by a user.

The user passes the blob id of the content that was edited, so that a change by another user since then is not
overwritten.  A name that only some systems can check out is refused, because the user can still choose
another one.
"""

from __future__ import annotations

import itertools
import os
import stat
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, StaleError
from covalt_git.git_store.objects import FILE, LINK, TreeEntry, blob_id
from covalt_git.paths import check_path, collisions, typed
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import Folder, folders_above
from covalt_git.workspaces.rules import check_storable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer


def check_portable(path: str) -> None:
    """Check that every system can check out a file at ``path``.

    Raises:
        CovaltError: with the reason and the code ``bad_path``.
    """
    reason = check_path(path).reason
    if reason:
        raise _bad(path, reason)


def check_no_collision(path: str, existing: Iterable[str]) -> None:
    """Check that every system can check out a file at ``path`` together with the ``existing`` ones.

    Raises:
        CovaltError: with the reason and the code ``bad_path``.
    """
    own = {path, *folders_above(path)}
    # The folders too: on a system that ignores case, `Notes/b` is a file of the folder of `notes/a`.
    others = itertools.chain.from_iterable((*folders_above(file), file) for file in existing)
    pairs = collisions(dict.fromkeys([*others, *own]))
    other = next((first for first, second in pairs if second in own), None)
    if other is not None:
        raise _bad(path, f"on some systems it is the same as {other!r}")


def _bad(path: str, reason: str) -> CovaltError:
    message = f"{path!r} cannot be a file's path: {reason}"
    return CovaltError(message, hint="choose another name", code="bad_path")


def _not_stored(chat: ChatStore, root: Folder, path: str) -> CovaltError | None:
    """Return the error about a regular file at a path that no commit stores, which must not be lost by an edit."""
    try:
        with root.parent_of(path) as (parent, name):
            status = os.lstat(name, dir_fd=parent)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    hint = f"move it out of the workspace, for example: mv {typed(chat.workspace / path)} /tmp/"
    reason = "it cannot be read, or workspace.ignore in covalt.yaml leaves it out"
    if status.st_size > chat.config.max_file_mb << 20:
        reason = f"it is larger than {chat.config.max_file_mb} MiB"
        hint = f"raise workspace.max_file_mb in covalt.yaml, or {hint}"
    message = (
        f"{path!r} is not overwritten, because the file in the workspace is not stored: {reason}"
    )
    return CovaltError(message, hint=hint, code="bad_path")


def find_editable(
    chat: ChatStore, files: FolderState, path: str, *, before: str | None
) -> FileState | None:
    """Return the file at ``path`` in ``files``, if it can be edited; None for a new file.

    Raises:
        CovaltError: as :func:`edit_file`.
    """
    file = _unchanged(chat, files, path, before)
    if file is None:
        # The commit does not have the path, but the folder may have a file there that is in no commit.
        with Folder.opened(chat.workspace) as root:
            if root.state(path, chat.store.object_format, most=0) is not None:
                raise _not_stored(chat, root, path) or _bad(
                    path, "another file or folder is in its place"
                )
        check_no_collision(path, trees.files(chat.store, files.tree))
    elif file.mode == LINK:
        raise CovaltError(
            f"{path!r} is a link, which cannot be edited",
            hint="edit the file that it points to",
            code="bad_path",
        )
    return file


def edit_file(writer: Writer, path: str, content: bytes, *, before: str | None) -> str:
    """Write one file and commit it alone; return its blob id.

    ``before`` is the blob that was edited, None for a new file.  An executable file stays executable.
    Other uncommitted changes are committed first.  If the content is equal, there is no commit.

    Raises:
        StaleError: when the file is not ``before``; it was not written.
        CovaltError: when some system cannot check out the path, when an untracked file is there, or if a commit
            could not contain the file.
    """
    chat = writer.chat
    check_portable(path)
    check_storable(path, content, chat.config)
    # First all other changes, and then the comparison with the commit that has them: between a comparison with
    # the folder and its scan, another process could change the file.
    head = writer.commit_changes()
    files = chat.state(head)
    file = find_editable(chat, files, path, before=before)
    oid = blob_id(content, chat.store.object_format)
    if oid != before:
        chat.store.write_blob(content)
        entry = TreeEntry(b"", file.mode if file else FILE, oid)
        after = trees.edited_state(chat.store, files, {path: entry})
        writer.commit_files("edit", after, head, subject=path)
    return oid


def delete_file(writer: Writer, path: str, *, before: str) -> None:
    """Delete one file, which must be the blob ``before``, in a separate commit.

    Raises:
        StaleError: when the file is not ``before``; it was not deleted.
    """
    chat = writer.chat
    head = writer.commit_changes()
    files = chat.state(head)
    _unchanged(chat, files, path, before)
    after = trees.edited_state(chat.store, files, {path: None})
    writer.commit_files("edit", after, head, subject=path)


def _unchanged(
    chat: ChatStore, files: FolderState, path: str, before: str | None
) -> FileState | None:
    """Return the file or link at ``path``, if it is the blob ``before``; None means that it does not exist.

    Raises:
        StaleError: if it is not.
    """
    file = trees.find(chat.store, files.tree, path)
    current = file.oid if file else None
    if current != before:
        # Without the ids: users do not know them, and a caller that does reads the file again in any case.
        if before is None:
            message = f"{path!r} exists already: another call or user has created it meanwhile"
        else:
            verb = "changed" if current else "deleted"
            message = f"{path!r} has been {verb} since you read it"
        raise StaleError(
            message, hint="read it again, and repeat the change in the current content"
        )
    return file
