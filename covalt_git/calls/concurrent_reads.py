"""Copies of a branch's files, on which read-only calls run concurrently with another call.

The chat is locked only while the call is recorded.  If the process dies before that, only the folder of the
copy remains, and the next call on a copy deletes it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git.system import locked_folder
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.lock import ChatGoneError
from covalt_git.workspaces.switching import write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.outcomes import Outcome

_FOLDER = "beside-"


@dataclass(slots=True)
class Copy(ChatStore):
    """A chat whose workspace is a copy of the files of one commit."""

    home: ChatStore
    base: str | None

    def __post_init__(self) -> None:
        """Share the store of ``home``; only ``home`` closes it."""
        self.store = self.home.store
        self.records = self.home.records
        self.foreign = self.home.foreign

    def head(self) -> str | None:
        """Return the commit that was copied."""
        return self.base


@contextmanager
def copy_of(chat: ChatStore, base: str | None) -> Iterator[Copy]:
    """Yield the chat with a copy of a commit's files in a new folder.

    Raises:
        ChatGoneError: if the chat is deleted meanwhile.
        UnsafeTreeError: if the commit contains files that must not be written to a folder.
    """
    state = chat.state(base)
    try:
        locked_folder.clear(chat.folder, _FOLDER)
        with locked_folder.create(chat.folder, _FOLDER) as folder:
            copy = Copy(chat.id, folder, chat.config, chat, base)
            write_folder(chat.store, state, copy.workspace)
            yield copy
    except FileNotFoundError:
        if chat.folder.exists():
            raise
        raise ChatGoneError(chat.id) from None


def outcome_with_home_paths(outcome: Outcome, copy: ChatStore, home: ChatStore) -> Outcome:
    """Return an outcome with each path in the copy replaced by the same path in the chat's workspace."""
    error = outcome.error
    if error is not None:
        texts = {name: with_home_paths(getattr(error, name), copy, home) for name in _TEXTS}
        error = error.model_copy(update=texts)
    return outcome._replace(
        result=with_home_paths(outcome.result, copy, home),
        error=error,
        output=with_home_paths(outcome.output, copy, home),
    )


_TEXTS = ("message", "traceback")


def with_home_paths(value: Any, copy: ChatStore, home: ChatStore) -> Any:
    """Return a JSON value with each path in the copy replaced by the same path in the chat's workspace."""
    if isinstance(value, str):
        for path, own in (
            (copy.workspace.absolute(), home.workspace.absolute()),
            (copy.workspace.resolve(), home.workspace.resolve()),
        ):
            value = value.replace(str(path), str(own))
        return value
    if isinstance(value, list):
        return [with_home_paths(one, copy, home) for one in value]
    if isinstance(value, dict):
        return {
            with_home_paths(name, copy, home): with_home_paths(one, copy, home)
            for name, one in value.items()
        }
    return value
