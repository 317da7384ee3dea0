"""The lock of a chat: one process writes at a time, in the order of coming, and says who it is.

``lock`` is held with ``flock(2)`` by whoever writes; the kernel lets go of it when a process ends,
however that ends.  Who finds it taken, or others waiting, draws a number: a file in ``queue/`` that
is held the same way for as long as its owner waits.  Only the lowest number may take the lock, so
that nobody is overtaken; one whose owner died is cleared by whoever stands behind it.

The first line of ``lock`` says who holds it, and nothing once that one has let go without an error.
It is written over, never cut off: that takes no room on a disk that is full by then, and less time.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

_NEXT_S = 0.001
_BEHIND_S = 0.008
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
_NOBODY = b"\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody stands who waits for a chat: who holds it, and how many have come before."""

    holder: str
    before: int


class CancelledError(CovaltError):
    """What was to be done was cancelled before it began, so that there is nothing to record."""

    code = "cancelled"
    exit_code = 130
    http_status = 409


class ChatBusyError(CovaltError):
    """Somebody else is writing to the chat and did not finish in time."""

    code = "chat_busy"
    http_status = 409


class ChatGoneError(CovaltError):
    """The chat was deleted while somebody waited to write to it."""

    code = "unknown_chat"
    http_status = 404

    def __init__(self, chat_id: str) -> None:
        super().__init__(
            f"chat {chat_id!r} was deleted meanwhile", hint="list them with `covalt-git chat list`"
        )


_held_before: set[tuple[int, int]] = set()
"""Device and inode of the locks that this process has held and let go of."""


@contextlib.contextmanager
def held(
    folder: Path,
    chat_id: str,
    *,
    timeout_s: float,
    waiting: Callable[[Place], None] | None,
    cancel: threading.Event | None = None,
) -> Iterator[bool]:
    """Hold the lock of the chat in ``folder``; ``waiting`` is told the place in the queue when it changes.

    Yields whether the last one who held it may have left something unfinished: that is so unless he
    let go of it without an error, and for each process the first time, since the text may be lost
    where the power was.

    Raises:
        ChatBusyError: when it is not free after ``timeout_s`` seconds, naming who has it.
        CancelledError: when ``cancel`` is set before it is free.
        ChatGoneError: when the chat is no longer there, or another one of that id.
    """
    path, queue = f"{folder}/lock", f"{folder}/queue"
    try:
        lock = _opened(path)
    except FileNotFoundError:
        raise ChatGoneError(chat_id) from None
    try:
        if os.access(queue, os.F_OK) or not _take(lock):
            until = time.monotonic() + timeout_s
            _Wait(path, queue, lock, chat_id, until, waiting, cancel).end_it()
        found = os.fstat(lock)
        if not _is_at(found, path):
            raise ChatGoneError(chat_id)
        name = found.st_dev, found.st_ino
        unclean = name not in _held_before or os.pread(lock, 1, 0) not in {b"", _NOBODY}
        _write(lock, f"process {os.getpid()} ({_command()}) since {time.time():.0f}\n".encode())
        yield unclean
        _held_before.add(name)
        _write(lock, _NOBODY)
    finally:
        os.close(lock)


def was_left(folder: Path, *, noted: bool) -> bool:
    """Tell whether somebody ended who held the lock of a chat, and may have left something unfinished.

    Where the power went the lock may not say so: ``noted`` is whether something else does.
    """
    with contextlib.suppress(OSError):
        lock = os.open(f"{folder}/lock", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if noted or os.pread(lock, 1, 0) not in {b"", _NOBODY}:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # whoever writes holds it alone
                return True
        finally:
            os.close(lock)
    return False


@dataclass(slots=True)
class _Wait:
    """Somebody's wait for a chat: in a queue, until a moment of the monotonic clock."""

    path: str
    queue: str
    lock: int
    chat_id: str
    until: float
    waiting: Callable[[Place], None] | None
    cancel: threading.Event | None
    told: Place | None = None

    def end_it(self) -> None:
        """Take the lock once it is free and nobody stands before."""
        if self._numbers() or not _take(self.lock):
            with self._ticket() as number:
                while not (self._is_next(number) and _take(self.lock)):
                    self._pause(sum(other < number for other in self._numbers()))

    @contextlib.contextmanager
    def _ticket(self) -> Iterator[int]:
        """Draw a number and hold it."""
        try:
            Path(self.queue).mkdir(exist_ok=True)
            ticket, drawn = tempfile.mkstemp(prefix="new-", dir=self.queue)
        except FileNotFoundError:
            raise ChatGoneError(self.chat_id) from None
        name = Path(drawn)
        try:
            _take(ticket)  # before it has its name, or it would seem to be a dead one's
            number = max(self._numbers(), default=0)
            while name.name.startswith("new-"):
                number += 1
                place = Path(self.queue, f"{number:09}")
                with contextlib.suppress(FileExistsError):
                    os.link(name, place)
                    name.unlink()
                    name = place
            yield number
        finally:
            name.unlink(missing_ok=True)
            os.close(ticket)

    def _is_next(self, number: int) -> bool:
        """Tell whether nobody who is alive has a lower number."""
        for other in self._numbers():
            if other >= number:
                break
            place = f"{self.queue}/{other:09}"
            with contextlib.suppress(FileNotFoundError):
                ticket = _opened(place, create=False)
                try:
                    if not _take(ticket):
                        return False
                    os.unlink(place)  # noqa: PTH108 - it is a string
                finally:
                    os.close(ticket)
        return True

    def _numbers(self) -> list[int]:
        """Return the numbers that were drawn, the lowest first."""
        try:
            names = os.listdir(self.queue)  # noqa: PTH208 - it is a string
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdigit())

    def _pause(self, before: int) -> None:
        """Wait a little, behind so many others.

        Raises:
            CancelledError: when nobody wants it any more.
            ChatBusyError: when that was long enough.
            ChatGoneError: when there is nothing to wait for.
        """
        try:
            text = Path(self.path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            raise ChatGoneError(self.chat_id) from None
        holder = _readable(text.partition("\n")[0])
        if self.cancel is not None and self.cancel.is_set():
            raise CancelledError("it was cancelled before it began")
        if time.monotonic() >= self.until:
            process, _, since = (holder or "another process").partition(" since ")
            number = re.match(r"process ([0-9]+)", holder)
            raise ChatBusyError(
                f"chat {self.chat_id!r} is busy: {process} is writing"
                + (f" since {since}" if since else ""),
                hint="try again when it has finished"
                + (f"; see what it does: ps -fp {number[1]}" if number else ""),
            )
        place = Place(holder, before)
        if self.waiting is not None and holder and place != self.told:
            self.told = place
            self.waiting(place)
        time.sleep(_BEHIND_S if before else _NEXT_S)


def _opened(path: str, *, create: bool = True) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(found: os.stat_result, path: str) -> bool:
    """Tell whether an open file is still the one at ``path``."""
    try:
        return os.path.samestat(found, os.stat(path))  # noqa: PTH116 - asked by every writer
    except FileNotFoundError:
        return False


def _write(handle: int, line: bytes) -> None:
    """Let the lock say who holds it; that it cannot, as on a full disk, is no reason to fail."""
    with contextlib.suppress(OSError):
        os.pwrite(handle, line, 0)


def _command() -> str:
    """Return this process's name and the words it was given, none of which can be a secret."""
    return _spelled(*(sys.argv or ["python"])[:3])


@functools.cache
def _spelled(path: str, *given: str) -> str:
    program = Path(path or "python").name
    program = "covalt-git" if program == "__main__.py" else program
    return " ".join([program, *itertools.takewhile(_WORD.fullmatch, given)])


def _readable(holder: str) -> str:
    """Return who holds a lock with the moment as people write it, not in seconds since 1970."""
    return re.sub(r"(?<= since )[0-9]{1,11}$", lambda found: _moment(int(found[0])), holder)


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
