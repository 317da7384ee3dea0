"""Exclusive lock of a chat, for threads and processes; its file contains the name of the holder.

A writer takes ``lock.next``, then ``lock``, and then releases ``lock.next``, all by ``flock(2)``.  So
a writer that has just released ``lock`` cannot take it again before a waiting writer.  The kernel
releases the locks of a process that ends.

The first line of ``lock`` names the holder; it is empty after a holder released the lock without an error.  Then
the second line is a mark of this boot and this file, a space and the holder's note to the next one.  If the mark is
missing or different, as after a power cut and in a copy of the chat's folder, the next holder assumes that the last
one left work unfinished.  New lines overwrite old ones in place, which works on a full disk too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.system import file_lock
from covalt_git.system.boot import boot_id

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

# At most one writer waits for `lock`, so it may ask often: a call is delayed by half a millisecond.  All others
# wait for `lock.next`.
_NEXT_POLL_S = 0.004
_POLL_S = 0.0005
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


class CancelledError(CovaltError):
    """An operation was cancelled before it began, so that there is nothing to record."""

    code = "cancelled"
    exit_code = 130
    http_status = 409


class ChatBusyError(CovaltError):
    """Another writer holds the chat's lock and did not release it in time."""

    code = "chat_busy"
    http_status = 409


class LeaseLostError(CovaltError):
    """Another node took over the chat, so the operation was not stored as a part of it.

    Attributes:
        may_repeat: whether the lease was only assumed, so that the caller can repeat its work.
    """

    code = "lease_lost"
    http_status = 409
    may_repeat = False


class ChatGoneError(CovaltError):
    """The chat was deleted while a writer waited for it."""

    code = "unknown_chat"
    http_status = 404

    def __init__(self, chat_id: str) -> None:
        super().__init__(
            f"chat {chat_id!r} was deleted meanwhile", hint="list them with `covalt-git chat list`"
        )


@dataclass(slots=True)
class Handover:
    """What the last holder of a lock left to the next one.

    Attributes:
        unclean: whether the last holder may have left work unfinished.
        note: its note, of one word; empty if it is ``unclean``.  The holder sets it for the next one.
    """

    unclean: bool
    note: str = ""


@contextlib.contextmanager
def held(
    folder: Path,
    chat_id: str,
    *,
    timeout_s: float,
    waiting: Callable[[str], None] | None,
    cancel: threading.Event | None = None,
) -> Iterator[Handover]:
    """Hold the lock of the chat in ``folder``; while this waits, ``waiting`` is called with each holder.

    Yields what the last holder left.

    Raises:
        ChatBusyError: if the lock is not free after ``timeout_s`` seconds; the message names the holder.
        CancelledError: if ``cancel`` is set before the lock is free.
        ChatGoneError: if the chat was deleted, or replaced by another chat with its id.
    """
    until = time.monotonic() + timeout_s
    reported = {""}

    def acquire(handle: int, poll_s: float) -> None:
        # Polled, because flock(2) can be neither cancelled nor limited in time.
        while not file_lock.acquire(handle, wait=False):
            _check_exists(lock, folder, chat_id)
            holder = _lines(lock)[0]
            if cancel is not None and cancel.is_set():
                raise CancelledError("it was cancelled before it began")
            if time.monotonic() >= until:
                raise _busy(chat_id, holder)
            if waiting is not None and holder not in reported:
                reported.add(holder)
                waiting(holder)
            time.sleep(poll_s)

    with _opened(folder, chat_id, "lock") as lock:
        # A writer that ends and comes again has to wait here behind the one that holds `lock.next`
        # (test_a_writer_that_comes_again_does_not_overtake_the_next).
        with _opened(folder, chat_id, "lock.next") as next_lock:
            acquire(next_lock, _NEXT_POLL_S)
            acquire(lock, _POLL_S)
        # A deletion renames the folder while others wait, and a new chat may have the id already: their lock is
        # another file (test_a_chat_that_is_deleted_meanwhile_is_not_written_to).
        _check_exists(lock, folder, chat_id)
        boot, status = boot_id(), os.fstat(lock)
        mark = f"{boot} {status.st_dev}:{status.st_ino}" if boot else ""
        handover = _handover(_lines(lock), mark)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        holder = f"process {os.getpid()} ({_command()}) since {since}"
        _write(lock, [holder])
        try:
            yield handover
        except BaseException:
            # The name stays, and the next holder recovers the chat.  It is written again, because those who follow the
            # times of this file may have read the chat before its last change (index/change_feed.py).
            _write(lock, [holder])
            raise
        _write(lock, ["", f"{mark} {handover.note}"])


def is_abandoned(folder: Path, *, has_call: bool) -> bool:
    """Return whether a holder ended without releasing the lock, and may have left work unfinished.

    After a power cut, the lock may look released.  So ``has_call`` is whether the chat has a note of a running call.
    """
    with contextlib.suppress(FileNotFoundError), (folder / "lock").open("rb") as file:
        is_left = has_call or _lines(file.fileno())[0] != ""
        return is_left and file_lock.acquire(file.fileno(), shared=True, wait=False)
    return False


def _check_exists(lock: int, folder: Path, chat_id: str) -> None:
    """Check that an open lock file is still the file of the chat."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(lock), (folder / "lock").stat()):
            return
    raise ChatGoneError(chat_id)


def _busy(chat_id: str, holder: str) -> ChatBusyError:
    process, _, since = (holder or "another process").partition(" since ")
    number = re.match(r"process ([0-9]+)", holder)
    return ChatBusyError(
        f"chat {chat_id!r} is busy: {process} is writing" + (f" since {since}" if since else ""),
        hint="try again when it has finished"
        + (f"; see what it does: ps -fp {number[1]}" if number else ""),
    )


@contextlib.contextmanager
def _opened(folder: Path, chat_id: str, name: str) -> Iterator[int]:
    """Open a file of the lock, and create it if it is missing."""
    try:
        handle = os.open(
            folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
    except FileNotFoundError:
        raise ChatGoneError(chat_id) from None
    try:
        yield handle
    finally:
        os.close(handle)


def _handover(lines: list[str], mark: str) -> Handover:
    """Return what the lines of a lock with a mark say."""
    holder, (last_mark, _, note) = lines[0], "".join(lines[1:2]).rpartition(" ")
    is_clean = holder == "" and mark != "" and last_mark == mark
    return Handover(unclean=not is_clean, note=note if is_clean else "")


def _lines(handle: int) -> list[str]:
    return os.pread(handle, 512, 0).decode("utf-8", "replace").split("\n")


def _write(handle: int, lines: list[str]) -> None:
    """Write the first lines; if that fails, empty the file, which also counts as unfinished work."""
    # In place, because a full disk has no block for a longer or a new file; what follows the lines is not read.
    with contextlib.suppress(OSError):
        try:
            os.pwrite(handle, "".join(f"{line}\n" for line in lines).encode(), 0)
        except OSError:
            os.ftruncate(handle, 0)


def _command() -> str:
    """Return this program's name and the subcommand; neither can contain a secret."""
    path, *arguments = (sys.argv or ["python"])[:3]
    program = Path(path or "python").name
    program = "covalt-git" if program == "__main__.py" else program
    return " ".join([program, *itertools.takewhile(_WORD.fullmatch, arguments)])
