"""Folders watched for changes through the kernel's queue: the one room of watchdog.

Of watchdog it takes the binding of inotify, not the threads: those hand an event on after half a
second, while here whoever asks gets everything that was done before they asked, in the order it was
done.  A call that changes a file puts its event into the queue before it returns, so that none is
missing; the queue holds so many, and the kernel tells when it was full.

What no event tells, whoever believes them has to know: stores through a mapping of a file that is
still mapped; changes by another name of the same file (a hard link) outside the watched folders;
and what other machines do to a file system of the network (see :func:`tells_all`).
"""

from __future__ import annotations

import errno
import importlib
import os
import struct
import weakref
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["changed", "opened", "closed", "written", "ended"]
"""What an event tells: an entry was changed, made, removed or moved; opened; closed; closed after it
was open for writing; or the watched folder itself went elsewhere, and its watch means nothing."""

_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 20
_LOCAL = {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
_MOUNTS = Path("/proc/self/mountinfo")


class CannotWatchError(Exception):
    """Why folders cannot be watched here."""


class Event(NamedTuple):
    """Something that was done to an entry of the folder of a watch, or to that folder."""

    watch: int
    name: str
    kind: Kind


class FolderEvents:
    """The queue of any number of watched folders."""

    def __init__(self) -> None:
        """Open a queue.

        Raises:
            CannotWatchError: where the system has no such thing, or allows no more of them.
        """
        try:
            self._binding: Any = importlib.import_module("watchdog.observers.inotify_c")
        except Exception as error:  # noqa: BLE001 - watchdog's own kinds, on other systems
            raise CannotWatchError(f"this system has no inotify: {error}") from None
        bits = self._binding.InotifyConstants
        self._any_change: int = (
            bits.IN_MODIFY | bits.IN_ATTRIB | bits.IN_CREATE | bits.IN_DELETE | bits.IN_MOVE
        )
        self._ended: int = bits.IN_MOVE_SELF | bits.IN_DELETE_SELF | bits.IN_UNMOUNT
        self._kinds: dict[int, Kind | None] = {}
        self._handle: int = self._binding.inotify_init()
        if self._handle < 0:
            raise CannotWatchError("the limit fs.inotify.max_user_instances is reached")
        self._close = weakref.finalize(self, os.close, self._handle)
        os.set_inheritable(self._handle, False)
        os.set_blocking(self._handle, False)

    def close(self) -> None:
        """Forget all watches."""
        self._close()

    def watch(self, folder: int) -> int:
        """Watch the folder of an open handle, whatever its path; return the number of its watch.

        A folder has one watch, however often it is asked for and wherever it has moved.

        Raises:
            CannotWatchError: when no more can be watched.
            OSError: when this one cannot.
        """
        bits = self._binding.InotifyConstants
        wanted = self._any_change | self._ended | bits.IN_OPEN | bits.IN_ONLYDIR
        wanted |= bits.IN_CLOSE_WRITE | bits.IN_CLOSE_NOWRITE
        path = f"/proc/self/fd/{folder}".encode()
        number: int = self._binding.inotify_add_watch(self._handle, path, wanted)
        if number >= 0:
            return number
        reason: int = self._binding.ctypes.get_errno()
        if reason == errno.ENOSPC:
            raise CannotWatchError("the limit fs.inotify.max_user_watches is reached")
        raise OSError(reason, os.strerror(reason))

    def drain(self) -> list[Event] | None:
        """Return what was done before this call; None where the queue was full, and some is lost."""
        events: list[Event] = []
        overflow = False
        while True:
            try:
                content = os.read(self._handle, _BUFFER)
            except BlockingIOError:
                return None if overflow else events
            at = 0
            while at < len(content):
                number, bits, _, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size + length
                overflow = overflow or number < 0
                kind = self._kinds.get(bits) or self._kind_of(bits)
                if kind is not None:
                    name = content[at - length : at].rstrip(b"\0")
                    events.append(Event(number, name.decode("utf-8", "surrogateescape"), kind))

    def _kind_of(self, bits: int) -> Kind | None:
        """Return what the bits of an event tell; None where it is nothing that matters."""
        names = self._binding.InotifyConstants
        kind: Kind | None = None
        if bits & (self._ended | names.IN_IGNORED):
            kind = "ended"
        elif bits & self._any_change:
            kind = "changed"
        elif not bits & names.IN_ISDIR:  # folders are opened by everybody who looks
            if bits & names.IN_CLOSE_WRITE:
                kind = "written"
            else:
                kind = "opened" if bits & names.IN_OPEN else "closed"
        self._kinds[bits] = kind
        return kind


def tells_all(device: int) -> bool:
    """Tell whether the kernel sees all that happens on a device's file system (``st_dev``).

    It does not where other machines write, too, or where what is written there does not pass it.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    # 36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/root rw
    kinds = {
        line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2] == wanted
    }
    return bool(kinds) and kinds <= _LOCAL
