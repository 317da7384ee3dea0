"""Copies of a chat's files: for read-only calls that run concurrently with another call, and for replays.

If the process dies, only the folder of the copy remains, and the next call on a copy deletes it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import with_texts
from covalt_git.system import locked_folder
from covalt_git.workspaces.chat import HEADS, ChatStore
from covalt_git.workspaces.lock import ChatGoneError
from covalt_git.workspaces.switching import write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.outcomes import Outcome

_FOLDER = "beside-"


@dataclass(slots=True)
class Copy(ChatStore):
    """A chat whose workspace is a copy of the files of one commit, and whose active branch may be another one.

    Attributes:
        home: the chat itself, which has the same store.
        base: the commit.
        own_branch: the active branch; None for that of ``home``.
    """

    home: ChatStore
    base: str | None
    own_branch: str | None

    def __post_init__(self) -> None:
        """Share the store of ``home``; only ``home`` closes it."""
        self.store = self.home.store
        self.records = self.home.records
        self.foreign = self.home.foreign

    def active_branch(self) -> str:
        return self.own_branch or self.home.active_branch()

    def head(self) -> str | None:
        """Return the newest commit of the copy's branch; without one, the commit that was copied."""
        return self.store.read_ref(HEADS + self.own_branch) if self.own_branch else self.base


@contextmanager
def copy_of(chat: ChatStore, base: str | None, branch: str | None = None) -> Iterator[Copy]:
    """Yield the chat with a copy of a commit's files in a new folder, with another active ``branch`` or its own.

    Raises:
        ChatGoneError: if the chat is deleted meanwhile.
        CovaltError: if the commit contains files that must not be written to a folder.
    """
    state = chat.state(base)
    try:
        # A killed process leaves its copy; each copy holds a lock, so that only those without a process are deleted.
        locked_folder.clear(chat.folder, _FOLDER)
        with locked_folder.create(chat.folder, _FOLDER) as folder:
            copy = Copy(chat.id, folder, chat.config, chat, base, branch)
            write_folder(chat.store, state, copy.workspace)
            yield copy
    # This call does not hold the chat's lock, so another process can delete the chat while the copy is written.
    except FileNotFoundError:
        if chat.folder.exists():
            raise
        raise ChatGoneError(chat.id) from None


def outcome_with_home_paths(outcome: Outcome, copy: ChatStore, home: ChatStore) -> Outcome:
    """Return an outcome with each path in the copy replaced by the same path in the chat's workspace."""
    error = outcome.error
    if error is not None:
        error = error.model_copy(update=with_home_paths(error.model_dump(), copy, home))
    return outcome._replace(
        result=with_home_paths(outcome.result, copy, home),
        error=error,
        output=with_home_paths(outcome.output, copy, home),
    )


def with_home_paths(value: Any, copy: ChatStore, home: ChatStore) -> Any:
    """Return a JSON value with each path in the copy replaced by the same path in the chat's workspace."""
    paths = {str(copy.workspace.absolute()): str(home.workspace.absolute())}
    # A tool may print either: for a project below a link, getcwd() returns another path than the opened one.
    paths |= {str(copy.workspace.resolve()): str(home.workspace.resolve())}

    def change(text: str) -> str:
        for path, own in paths.items():
            text = text.replace(path, own)
        return text

    return with_texts(value, change, keys=True)
