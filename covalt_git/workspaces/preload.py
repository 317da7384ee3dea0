"""Half of a look at a large workspace taken by another process, as git's ``core.preloadIndex`` does it.

Asking the file system for each known file is nearly all of a look at which nothing has changed, and
of Python's threads only one asks at a time.  So a process that lives long has a helper on another
core (:mod:`.preloader`), which goes through the known folders from the last to the first while the
walk comes from the first: where they meet, both are done.  Nobody waits for it: a folder of which
nothing was heard yet is looked at here, and whoever finds the helper busy does without.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.helper_process import HelperGoneError, HelperProcess, has_a_core

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from covalt_git.workspaces.stat_cache import KnownFolder

_PROGRAM = Path(__file__).with_name("preloader.py")
_FEW = 2_000
"""Files of a workspace: to look at fewer takes hardly longer than to tell of half of them."""

_FIRST_LOOKS = 2
"""Looks of a process before it has a helper: a command takes no more, and starting one takes a third."""

_BEHIND = 64
"""Folders that it may still have to look at when it is asked of others."""

_SHARE = 0.65
"""How much of a workspace the helper is told of: half of it, and some if this process is slower."""


@dataclass(slots=True)
class _Helper:
    """The process, if it was started; whoever asks it holds ``lock``.

    ``owing`` counts its answers that are still to come, of which nobody wants the first ``unwanted``
    any more; ``looks`` how often there was something to ask.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    process: HelperProcess | None = None
    unwanted: int = 0
    owing: int = 0
    looks: int = 0

    def answers(self) -> bytes:
        """Return what it has answered since this was last asked.

        Raises:
            HelperGoneError: when it has ended.
        """
        if self.process is None or not self.owing:
            return b""
        found = self.process.answered()
        unwanted = min(self.unwanted, len(found))
        self.unwanted -= unwanted
        self.owing -= len(found)
        return found[unwanted:]

    def ask(self, workspace: Path, folders: list[tuple[str, bytes]]) -> bool:
        """Ask it of some folders, unless it is far behind; return whether it was asked.

        Raises:
            HelperGoneError: when it has ended.
        """
        if self.process is None:
            self.process = HelperProcess(_PROGRAM)
        self.answers()
        self.unwanted = self.owing
        if self.unwanted > _BEHIND:
            return False
        question = marshal.dumps((str(workspace), folders))
        self.process.tell(len(question).to_bytes(8, "big") + question)
        self.owing += len(folders)
        return True

    def end(self) -> None:
        """Do without it until the next look."""
        if self.process is not None:
            self.process.close()
        self.process, self.owing, self.unwanted = None, 0, 0

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        if self.process is not None:
            self.process.forget()
        self.process, self.owing, self.unwanted = None, 0, 0
        self.lock = threading.Lock()


_helper = _Helper()
os.register_at_fork(after_in_child=_helper.forget)
atexit.register(_helper.end)


@dataclass(slots=True)
class Preload:
    """What the helper was asked in one look, and what it has answered so far."""

    _asked: dict[str, tuple[int, KnownFolder]]
    _answers: bytearray = field(default_factory=bytearray)

    def is_as_known(self, path: str, known: KnownFolder) -> bool:
        """Tell whether the helper has found a folder, and each file in it, to be as it is known."""
        number, asked = self._asked.get(path, (0, None))
        if asked is not known:
            return False
        if number >= len(self._answers):
            with contextlib.suppress(HelperGoneError):
                self._answers += _helper.answers()
        return number < len(self._answers) and self._answers[number] == 1


@contextlib.contextmanager
def preload(
    workspace: Path, root: KnownFolder, watched: Container[str] | None
) -> Iterator[Preload | None]:
    """Have the last folders of a workspace looked at that is known as ``root``; None: nobody does.

    All that is known of it has to be in the store.  Where there is a watch, ``watched`` are the
    folders that it has; the others it has to see first.
    """
    if root.count() < _FEW or not _helper.lock.acquire(blocking=False):
        yield None
        return
    try:
        yield _begun(workspace, root, watched)
    finally:
        _helper.lock.release()


def _begun(workspace: Path, root: KnownFolder, watched: Container[str] | None) -> Preload | None:
    _helper.looks += 1
    if _helper.looks <= _FIRST_LOOKS or not has_a_core():
        return None
    folders: list[tuple[str, KnownFolder]] = []
    left = root.count() * _SHARE
    for path, folder in _backwards(root, ""):
        if folder.is_plain and folder.files and (watched is None or path in watched):
            folders.append((path, folder))
        left -= len(folder.files)
        if left <= 0:
            break
    try:
        asked = _helper.ask(workspace, [(path, folder.told()) for path, folder in folders])
    except HelperGoneError:
        _helper.end()
        return None
    numbered = enumerate(folders)
    return Preload({path: (number, one) for number, (path, one) in numbered}) if asked else None


def _backwards(folder: KnownFolder, path: str) -> Iterator[tuple[str, KnownFolder]]:
    """Yield the folders in a folder, and all that are in them, the last that is walked first."""
    for name, child in reversed(folder.folders.items()):
        yield from _backwards(child, f"{path}{name}/")
        yield f"{path}{name}", child
