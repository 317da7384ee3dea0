"""Half of a long look taken by another process, as git's ``core.preloadIndex`` has threads do it.

Asking the file system for each known file is nearly all of a look at which nothing has changed;
reading, hashing and compressing nearly all of one at which much has.  Of Python's threads only one
does such things at a time.  So a look that is long has a helper on another core (:mod:`.preloader`),
which comes from the last folders and files while the walk comes from the first: where they meet, both
are done, and the helper goes on to the next folder.  Nobody waits for it, but for the one folder that
it is reading when the walk comes there: what was not heard of yet is looked at here, and whoever finds
the helper busy does without.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.git_store import ISAL_FOLDER
from covalt_git.git_store.helper_process import HelperGoneError, HelperProcess
from covalt_git.system.fork_pool import cores

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from covalt_git.workspaces.stat_cache import KnownFolder, Seen

Read = tuple[int, int, int, int, int, bytes, int, int, bytes]
"""A file that was read: all of :data:`.stat_cache.Seen`, its device, how many names it has, and its
content as a zlib stream."""

Taken = tuple["Seen", int]
"""A file that was read and stored, and how many names it has."""

Take = Callable[[str, dict[str, Read]], dict[str, Taken]]
"""What stores files of a folder when they are heard of, and returns those that it stored."""

_Asked = tuple[str, bytes | None, list[str] | None]

_PROGRAM = Path(__file__).with_name("preloader.py")
_FEW = 2_000
"""Files of a workspace: to look at fewer takes hardly longer than to tell of half of them."""

_FEW_READ = 400
"""Files that were read in a look before a helper is started to read, too."""

_FEW_READ_OF_TWO = 50
"""Files that were read in a look before a helper that is there reads, too."""

_FIRST_LOOKS = 2
"""Long looks of a process before it has a helper for them: a command takes no more."""

_BEHIND = 64
"""Answers that may still be to come when the helper is asked for others."""

_SHARE = 0.65
"""How much the helper is told of: half of it, and some because less is left to do by it for each."""

_SHARE_READ = 0.9
"""How much it is asked to read, of which it leaves what it has not come to when asked for more."""

_PATIENCE_S = 0.1
"""How long to wait for the folder that the helper is at: of what is slow it may be the slower half."""

_PAUSE_MS = 10
_TOGETHER = 32  # files of a folder that are asked for at once
_MOST = 8_192  # files that are asked for at once: what of them is read is heard of only on the way


@dataclass(slots=True)
class _Helper:
    """The process, if it was started; whoever asks it holds ``lock``.

    ``owing`` has who waits for its answers that are still to come, and about which folders; ``looks``
    counts the long looks at what was known.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    process: HelperProcess | None = None
    owing: deque[tuple[Preload, str]] = field(default_factory=deque)
    looks: int = 0
    _heard: bytearray = field(default_factory=bytearray)

    def ask(self, look: Preload, folders: list[_Asked]) -> None:
        """Ask it about some folders, unless it is far behind or nothing can be asked."""
        if not folders:
            return
        try:
            if self.process is None:
                self.process = HelperProcess(_PROGRAM, *filter(None, [ISAL_FOLDER]))
            self.hear()
            if len(self.owing) > _BEHIND:
                return
            question = marshal.dumps((look.workspace, look.hash_name, folders))
            self.process.tell(len(question).to_bytes(8, "big") + question)
        except HelperGoneError:
            self.end()
            return
        self.owing.extend((look, folder[0]) for folder in folders)
        look.expect(folder[0] for folder in folders)

    def hear(self, *, within_ms: int = 0) -> None:
        """Hand on what it has answered since, or answers in so many milliseconds.

        Raises:
            HelperGoneError: when it has ended.
        """
        if self.process is None or not self.owing:
            return
        if within_ms:
            self.process.wait(within_ms)
        heard = self._heard
        heard += self.process.answered()
        while (end := 4 + int.from_bytes(heard[:4])) <= len(heard):
            answer = marshal.loads(heard[4:end])  # noqa: S302 - of our own
            del heard[:end]
            look, path = self.owing.popleft()
            look.hear(path, answer)

    def end(self) -> None:
        """Do without it until the next look."""
        if self.process is not None:
            self.process.close()
        self._start_anew()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        if self.process is not None:
            self.process.forget()
        self._start_anew()
        self.lock = threading.Lock()

    def _start_anew(self) -> None:
        self.process = None
        self.owing.clear()
        self._heard.clear()


@dataclass(slots=True)
class Preload:
    """What the helper was asked in one look at a workspace, and what it has answered so far."""

    workspace: str
    hash_name: str
    take: Take | None = None
    over: bool = False
    _told: dict[str, KnownFolder] = field(default_factory=dict)
    _expected: dict[str, int] = field(default_factory=dict)
    _same: set[str] = field(default_factory=set)
    _taken: dict[str, dict[str, Taken]] = field(default_factory=dict)

    # Asking

    def ask_known(self, root: KnownFolder, watched: Container[str] | None) -> None:
        """Ask whether the last folders of a workspace are as known, if that is long to find out.

        All that is known of it has to be in the store.  Where there is a watch, ``watched`` are the
        folders that it has; the others it has to see first.
        """
        if root.count() < _FEW:
            return
        _helper.looks += 1
        if _helper.looks <= _FIRST_LOOKS:
            return
        left = root.count() * _SHARE
        asked: list[_Asked] = []
        for path, folder in _backwards(root, ""):
            if folder.is_plain and folder.files and (watched is None or path in watched):
                self._told[path] = folder
                asked.append((path, folder.told(), None))
            left -= len(folder.files)
            if left <= 0:
                break
        _helper.ask(self, asked)

    def reads_more(self, read: int) -> bool:
        """Tell whether to have more files read when so many were."""
        return read >= (_FEW_READ if _helper.process is None else _FEW_READ_OF_TWO)

    def ask_new(self, path: str, folders: Sequence[str], files: Sequence[str]) -> bool:
        """Ask for the last folders and files that are new in a folder; return whether there are any."""
        some = folders[len(folders) - int(len(folders) * _SHARE_READ) :]
        asked: list[_Asked] = [(f"{path}/{name}" if path else name, None, None) for name in some]
        names = files[max(len(files) - int(len(files) * _SHARE_READ), len(files) - _MOST) :]
        if len(names) > _TOGETHER:
            parts = [list(names[at : at + _TOGETHER]) for at in range(0, len(names), _TOGETHER)]
            asked += [(path, None, part) for part in parts]
        _helper.ask(self, asked[::-1])
        return bool(asked)

    def forget(self) -> None:
        """Forget what it has read: that is not stored any more."""
        self._taken.clear()

    def expect(self, paths: Iterator[str]) -> None:
        """Take note of what was asked."""
        for path in paths:
            self._expected[path] = self._expected.get(path, 0) + 1

    # Hearing

    def is_as_known(self, path: str, known: KnownFolder) -> bool:
        """Tell whether the helper has found a folder, and each file in it, to be as it is known."""
        if self._told.get(path) is not known:
            return False
        if self._expected.get(path):
            self.listen()
        return path in self._same

    def taken(self, path: str) -> dict[str, Taken]:
        """Return the files of a folder that the helper has read in this look; more may come to them."""
        self.listen()
        return self._taken.setdefault(path, {})

    def is_reading(self, path: str) -> bool:
        """Tell whether the helper is at a folder, as far as is heard of it."""
        if not _helper.owing:
            return False
        look, asked = _helper.owing[0]
        return look is self and asked == path

    def await_taken(self, path: str) -> None:
        """Wait until the helper has read the folder that it is at: half as long as to read it here."""
        until = time.monotonic() + _PATIENCE_S
        while self.is_reading(path) and time.monotonic() < until:
            self.listen(within_ms=_PAUSE_MS)

    def hear(self, path: str, answer: bool | dict[str, Read]) -> None:  # noqa: FBT001 - an answer
        """Take an answer about a folder."""
        if self.over:
            return
        self._expected[path] -= 1
        if answer is True:
            self._same.add(path)
        elif isinstance(answer, dict) and self.take is not None:
            self._taken.setdefault(path, {}).update(self.take(path, answer))

    def listen(self, *, within_ms: int = 0) -> None:
        """Take what was answered since, or is in so many milliseconds."""
        if _helper.owing:
            try:
                _helper.hear(within_ms=within_ms)
            except HelperGoneError:
                _helper.end()


_helper = _Helper()
os.register_at_fork(after_in_child=_helper.forget)
atexit.register(_helper.end)


@contextlib.contextmanager
def preload(workspace: Path, hash_name: str) -> Iterator[Preload | None]:
    """Begin a look at a workspace, in which the helper may be asked; None: it cannot."""
    if cores() == 1 or not _helper.lock.acquire(blocking=False):
        yield None
        return
    look = Preload(str(workspace), hash_name)
    try:
        yield look
    finally:
        look.over = True
        _helper.lock.release()


def _backwards(folder: KnownFolder, path: str) -> Iterator[tuple[str, KnownFolder]]:
    """Yield the folders in a folder, and all that are in them, the last that is walked first."""
    for name, child in reversed(folder.folders.items()):
        yield from _backwards(child, f"{path}{name}/")
        yield f"{path}{name}", child
