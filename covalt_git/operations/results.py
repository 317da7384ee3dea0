"""Results that several operations share: changed files, calls in one line, notes on a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from covalt_git.errors import CovaltError, Problem
from covalt_git.models.calls import CallStatus
from covalt_git.models.chats import FileState
from covalt_git.operations.registry import PathText, Result

if TYPE_CHECKING:
    from collections.abc import Iterable


class Failure(Result):
    """An error of one part of a request; the other parts were performed."""

    error: str = Field(description="Its code.")
    error_description: str
    hint: str
    problems: tuple[Problem, ...]

    @classmethod
    def of_error(cls, error: CovaltError) -> Self:
        """Return an error as a result."""
        return cls.of(error, error=error.code, error_description=error.message)

    def as_error(self) -> CovaltError:
        """Return this result as an error that can be raised."""
        error = CovaltError(self.error_description, hint=self.hint, problems=self.problems)
        error.code = self.error
        return error


class Change(Result):
    """A path that differs between two commits; a missing side is null."""

    path: PathText
    kind: Literal["added", "deleted", "modified"]
    old: FileState | None
    new: FileState | None


class CallLine(Result):
    """A call in one line."""

    id: str
    tool_id: str
    object: str = Field(description="The argument that names what it works on; empty if none does.")
    status: CallStatus
    error: str | None = Field(description="code: message")
    started_at: str
    run_started_at: str | None = Field(
        description="When it began to run: after its approval, if it needed one; null if it did not run."
    )
    finished_at: str | None
    renderer: str | None = Field(description="The renderer of its result.")


class MessageFacts(Result):
    """Fields of a message in a list and in a conversation; siblings follow the same message."""

    id: str
    ref: str | None = Field(description="The application's own id.")
    role: str
    text: str | None = Field(description="null: only the application has it.")
    by: str
    created_at: str
    own_manifest_id: str = Field(description="The commit of the message itself.")
    parent_id: str | None = Field(description="The message before it.")
    number: int = Field(description="Position among its siblings, from 1 for the oldest.")
    siblings: int = Field(description="Number of messages with the same parent, including itself.")


class DamagedChat(Result):
    """A chat whose store cannot be read; lists show its last indexed facts."""

    chat_id: str
    message: str
    hint: str

    @classmethod
    def each(cls, damaged: Iterable[tuple[str, CovaltError]]) -> tuple[Self, ...]:
        """Return the chats that the index could not read."""
        return tuple(cls.of(error, chat_id=chat_id) for chat_id, error in damaged)


class PathNote(Result):
    """A path with a note, such as the reason why it is not stored."""

    path: PathText
    reason: str


class Notes(Result):
    """Notes on paths of a workspace: not stored, not portable, lost without ever being stored, empty folders."""

    empty_folders: tuple[PathText, ...] = ()
    not_stored: tuple[PathNote, ...] = ()
    unportable: tuple[PathNote, ...] = ()
    lost: tuple[PathNote, ...] = Field(
        (),
        description="Paths that were not stored and were changed or removed, or that cannot be restored as they were.",
    )
