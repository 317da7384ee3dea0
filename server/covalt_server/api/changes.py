"""What changed in a workspace, and what is to be known of it, as answers of the API tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from covalt_git.models.chats import FileState  # noqa: TC001 - pydantic reads it
from covalt_server.api.http import Answer, PathText

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.chats import FileChange
    from covalt_git.models.commit_record import WorkspaceNotes


class Change(Answer):
    """One path that differs between two states; an absent side is null."""

    path: PathText
    kind: Literal["added", "deleted", "modified"]
    old: FileState | None
    new: FileState | None


class PathNote(Answer):
    """A path that is not as it seems, and why."""

    path: PathText
    reason: str


class Notes(Answer):
    """What the files of a state cannot say about the workspace."""

    empty_folders: tuple[PathText, ...] = ()
    not_stored: tuple[PathNote, ...] = ()
    unportable: tuple[PathNote, ...] = ()


def told(changes: Iterable[FileChange]) -> tuple[Change, ...]:
    """Return changes as an answer tells them."""
    return tuple(Change(path=one.path, kind=one.kind, old=one.old, new=one.new) for one in changes)


def notes(found: WorkspaceNotes) -> Notes:
    """Return a workspace's notes as an answer tells them."""
    return Notes.model_validate(found.model_dump())
