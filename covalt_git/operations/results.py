"""Results that several operations share: changed files, and notes on a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from covalt_git.errors import Problem
from covalt_git.models.chats import FileState
from covalt_git.operations.registry import PathText, Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.errors import CovaltError
    from covalt_git.models.chats import FileChange
    from covalt_git.models.commit_record import WorkspaceNotes


class Failure(Result):
    """An error of a part of a request; the other parts were performed."""

    error: str = Field(description="Its code.")
    error_description: str
    hint: str
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, error: CovaltError) -> Self:
        """Return an error as a result."""
        return cls(
            error=error.code,
            error_description=error.message,
            hint=error.hint,
            problems=tuple(error.problems),
        )


class Change(Result):
    """One path that differs between two states; an absent side is null."""

    path: PathText
    kind: Literal["added", "deleted", "modified"]
    old: FileState | None
    new: FileState | None

    @classmethod
    def each(cls, changes: Iterable[FileChange]) -> tuple[Self, ...]:
        """Return changes as results."""
        return tuple(cls(path=one.path, kind=one.kind, old=one.old, new=one.new) for one in changes)


class DamagedChat(Result):
    """A chat whose store cannot be read; lists show it as it was."""

    chat_id: str
    message: str
    hint: str

    @classmethod
    def each(cls, damaged: Iterable[tuple[str, CovaltError]]) -> tuple[Self, ...]:
        """Return the chats that the index could not read."""
        return tuple(
            cls(chat_id=chat_id, message=error.message, hint=error.hint)
            for chat_id, error in damaged
        )


class PathNote(Result):
    """A path that is not as it seems, and why."""

    path: PathText
    reason: str


class Notes(Result):
    """What the files of a state cannot say about the workspace."""

    empty_folders: tuple[PathText, ...] = ()
    not_stored: tuple[PathNote, ...] = ()
    unportable: tuple[PathNote, ...] = ()

    @classmethod
    def of(cls, found: WorkspaceNotes) -> Self:
        """Return a workspace's notes as a result."""
        return cls.model_validate(found.model_dump())
