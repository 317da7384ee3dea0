"""Files as they are in a chat's folder now, edits that no state has among them: what an editor opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_objects import FILE, LINK
from covalt_git.models.chats import FileChange, FileState
from covalt_git.workspaces import trees
from covalt_server.render.previews import preview

if TYPE_CHECKING:
    from covalt_git.workspaces.chats import ChatStore


class NotEditableError(CovaltError):
    """The file is of a kind that an editor would not give back as it was."""

    code = "not_editable"
    http_status = 409


@dataclass(frozen=True, slots=True)
class FolderText:
    """A text file of the folder, and the blob id that it has or would have."""

    text: str
    oid: str


def read_text(chat: ChatStore, path: str) -> FolderText | None:
    """Return a text of the folder, or None where there is no file.

    Raises:
        NotEditableError: when it is no text that a form could carry there and back.
    """
    with chat.looking() as seen:
        found = trees.find(chat.store, seen.tree, path)
        if found is None:
            return None
        content = chat.store.read_blob(found.oid)
    if found.mode == LINK or not preview(path, content).editable:
        raise NotEditableError(
            f"{path!r} cannot be edited here", hint="download it, change it, and upload it again"
        )
    return FolderText(content.decode("utf-8"), found.oid)


def edited_text(chat: ChatStore, path: str) -> FolderText:
    """Return a text of the folder that is to be edited.

    Raises:
        UnknownNameError: naming the nearest file.
        NotEditableError: as :func:`read_text`.
    """
    found = read_text(chat, path)
    if found is None:
        known = chat.files(chat.head())
        raise UnknownNameError("file", path, known, list_with=f"covalt-git chat files {chat.id}")
    return found


def patch_of(chat: ChatStore, path: str, typed: str) -> str:
    """Return what writing ``typed`` would change in the folder's file, as git's patch."""
    with chat.looking() as seen:
        there = trees.find(chat.store, seen.tree, path)
        oid = chat.store.write_blob(typed.encode())
        new = FileState(mode=there.mode if there else FILE, oid=oid)
        return chat.patch(FileChange(path=path, old=there, new=new))
