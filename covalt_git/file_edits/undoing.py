"""Undo of the last change of a chat's files, and redo; each is a new commit, so nothing is lost.

An undo commit has the files from before the commit that it undoes.  A redo commit has the files from before
the undo.  The next undo or redo treats an undo or redo commit as the earlier commit that has the same files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.conversations.commit_names import SHOWN_DIGITS
from covalt_git.errors import CovaltError
from covalt_git.file_edits import restoring
from covalt_git.models.commit_record import RestoreRecord

if TYPE_CHECKING:
    from covalt_git.file_edits.restoring import Restored
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer


class NothingToUndoError(CovaltError):
    """No earlier commit has other files."""

    code = "nothing_to_undo"
    http_status = 409


class NothingToRedoError(CovaltError):
    """The last change of the files is not an undo."""

    code = "nothing_to_redo"
    http_status = 409


def undo(writer: Writer) -> Restored:
    """Restore the files from before the last change of files, which may be uncommitted.

    Raises:
        NothingToUndoError: when no commit of the active branch has changed a file.
        InTheWayError: if an untracked path is where a file must be written.
    """
    chat = writer.chat
    last = _last_change(chat, writer.commit_changes(), "undo", "redo")
    if last is None:
        raise NothingToUndoError(
            f"there is nothing to undo on {chat.active_branch()!r}",
            hint=f"list the commits of all branches: covalt-git chat log {chat.id} --all",
        )
    restored = RestoreRecord(manifest_id=last.parent_id, command="undo")
    subject = f"undo of {last.id[:SHOWN_DIGITS]}"
    return restoring.commit_state(writer, chat.state(last.parent_id), restored, subject=subject)


def redo(writer: Writer) -> Restored:
    """Restore the files from before the last undo.

    Raises:
        NothingToRedoError: when there was no undo, or files have changed since.
        InTheWayError: if an untracked path is where a file must be written.
    """
    chat = writer.chat
    last = _last_undo(chat, writer.commit_changes())
    if last is None:
        raise NothingToRedoError(
            f"there is nothing to redo on {chat.active_branch()!r}",
            hint=f"restore any commit: covalt-git chat restore {chat.id} COMMIT",
        )
    restored = RestoreRecord(manifest_id=last.parent_id, command="redo")
    subject = f"redo, takes back {last.id[:SHOWN_DIGITS]}"
    return restoring.commit_state(writer, chat.state(last.parent_id), restored, subject=subject)


def is_redoable(chat: ChatStore) -> bool:
    """Return whether the newest commit is an undo or redo, and another redo is possible."""
    head = chat.head()
    restored = None if head is None else chat.manifest(head).record.restore
    if restored is None or restored.command is None:
        return False
    return _last_undo(chat, head) is not None


def _last_undo(chat: ChatStore, oid: str | None) -> WorkspaceManifest | None:
    """Return the undo that the next redo reverts; None without an undo, or if files have changed since."""
    last = _last_change(chat, oid, "redo")
    restored = None if last is None else last.record.restore
    return last if restored is not None and restored.command == "undo" else None


def _last_change(chat: ChatStore, oid: str | None, *commands: str) -> WorkspaceManifest | None:
    """Return the last commit, on first parents, that changed files or empty folders; or None.

    A commit of one of the ``commands`` (``undo``, ``redo``) counts as the earlier commit with the same files.
    """
    while oid is not None:
        manifest = chat.manifest(oid)
        restored = manifest.record.restore
        if restored is not None and restored.command in commands:
            oid = restored.manifest_id
        elif chat.state(oid) != chat.state(manifest.parent_id):
            return manifest
        else:
            oid = manifest.parent_id
    return None
