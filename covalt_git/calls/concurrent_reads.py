"""A call that only reads, made beside one that runs: on its own copy of the branch's files.

The chat is held only to record it.  Until then nothing of it is in the chat, so that a process which
dies over it leaves nothing but a folder, which the next such call clears away.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.system import file_lock
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.lock import ChatGoneError
from covalt_git.workspaces.switching import write_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.outcomes import Outcome

_FOLDER = "beside-"
_GUARD = "beside.lock"


@dataclass(slots=True)
class Copy(ChatStore):
    """A chat as a call sees it that works on a copy of the files of one manifest."""

    home: ChatStore
    base: str | None

    def __post_init__(self) -> None:
        """Share the store, which whoever opened it closes."""
        self.store = self.home.store
        self.records = self.home.records
        self.foreign = self.home.foreign

    def head(self) -> str | None:
        """Return the manifest that was copied."""
        return self.base


@contextmanager
def copied(chat: ChatStore, base: str | None) -> Iterator[Copy]:
    """Yield a chat with the files of a manifest in a folder of their own.

    Raises:
        ChatGoneError: when the chat is deleted meanwhile.
        UnsafeTreeError: when the manifest holds what must not come into a folder.
    """
    state = chat.state(base)
    try:
        with _folder(chat.folder) as folder:
            copy = Copy(chat.id, folder, chat.config, chat, base)
            write_folder(chat.store, state, copy.workspace)
            yield copy
    except FileNotFoundError:
        if chat.folder.exists():
            raise
        raise ChatGoneError(chat.id) from None


@contextmanager
def _folder(home: Path) -> Iterator[Path]:
    """Yield a new folder in ``home`` that is held, so that nobody takes it for a dead process's."""
    with contextlib.ExitStack() as held:
        with file_lock.held(home / _GUARD, create=True):
            for left in home.glob(f"{_FOLDER}*"):
                with contextlib.suppress(BlockingIOError), file_lock.held(left, wait=False):
                    shutil.rmtree(left, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=home))
            held.enter_context(file_lock.held(folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def at_home(outcome: Outcome, there: ChatStore, home: ChatStore) -> Outcome:
    """Return an outcome as it were, had the call run in the chat's own folder and said so."""
    error = outcome.error
    if error is not None:
        shown = {name: with_home_paths(getattr(error, name), there, home) for name in _SAID}
        error = error.model_copy(update=shown)
    return outcome._replace(
        result=with_home_paths(outcome.result, there, home),
        error=error,
        output=with_home_paths(outcome.output, there, home),
    )


_SAID = ("message", "traceback")


def with_home_paths(value: Any, there: ChatStore, home: ChatStore) -> Any:
    """Return a value in which the chat's own folder is named for the one that the call ran in."""
    if isinstance(value, str):
        for path, own in (
            (there.workspace.absolute(), home.workspace.absolute()),
            (there.workspace.resolve(), home.workspace.resolve()),
        ):
            value = value.replace(str(path), str(own))
        return value
    if isinstance(value, list):
        return [with_home_paths(one, there, home) for one in value]
    if isinstance(value, dict):
        return {
            with_home_paths(name, there, home): with_home_paths(one, there, home)
            for name, one in value.items()
        }
    return value
