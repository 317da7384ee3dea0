"""Folders watched for changes through the kernel's queue: the one room of watchdog.

Of watchdog it takes the binding of inotify, not the threads: those hand an event on after half a
second, while here whoever asks gets everything that was done before they asked, in the order it was
done.  A call that changes a file puts its event into the queue before it returns, so that none is
missing; the queue holds so many, and the kernel tells when it was full.

What no event tells, whoever believes them has to know: stores through a mapping of a file that is
still mapped; changes by another name of the same file (a hard link) outside the watched folders;
and what other machines do to a file system of the network (see :func:`reports_all_changes`).
"""

from __future__ import annotations

import errno
import importlib
import os
import select
import struct
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

Kind = Literal[
    "made", "folder", "moved", "deleted", "changed", "opened", "closed", "written", "ended"
]
"""What an event tells.  An entry is there that was not, or another in its place ("made", of a folder
"folder"); it went elsewhere or is no more; its content or what stat shows is another; it was opened,
closed, or closed after it was open for writing.  Or the watched folder itself went elsewhere, and its
watch means nothing ("ended")."""

_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16
_LONGEST = _EVENT.size + 256
_LOCAL = {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
_MOUNTS = Path("/proc/self/mountinfo")


class CannotWatchError(Exception):
    """Why folders cannot be watched here."""


class Event(NamedTuple):
    """Something that was done to an entry of the folder of a watch, or to that folder.

    Where an entry went from one watched folder to another, both events have the same ``move``; it is
    0 of all others.
    """

    watch: int
    name: str
    kind: Kind
    move: int = 0


class FolderEvents:
    """The queue of any number of watched folders.

    ``unheard`` kinds are none of its events: who reads what it watches, and hears of that, too, fills
    the queue by reading.
    """

    def __init__(self, *, unheard: Collection[Kind] = ()) -> None:
        """Open a queue.

        Raises:
            CannotWatchError: where the system has no such thing, or allows no more of them.
        """
        try:
            self._binding: Any = importlib.import_module("watchdog.observers.inotify_c")
        except Exception as error:  # noqa: BLE001 - watchdog's own kinds, on other systems
            raise CannotWatchError(f"this system has no inotify: {error}") from None
        bits = self._binding.InotifyConstants
        self._meanings: list[tuple[int, Kind]] = [
            (bits.IN_MOVE_SELF | bits.IN_DELETE_SELF | bits.IN_UNMOUNT | bits.IN_IGNORED, "ended"),
            (bits.IN_CREATE | bits.IN_MOVED_TO, "made"),
            (bits.IN_MOVED_FROM, "moved"),
            (bits.IN_DELETE, "deleted"),
            (bits.IN_MODIFY | bits.IN_ATTRIB, "changed"),
            (bits.IN_CLOSE_WRITE, "written"),
            (bits.IN_OPEN, "opened"),
            (bits.IN_CLOSE_NOWRITE, "closed"),
        ]
        self._meanings = [(some, kind) for some, kind in self._meanings if kind not in unheard]
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

    def wait(self, timeout_s: float, *others: int) -> bool:
        """Wait until something was done, or one of ``others`` can be read; False if nothing was."""
        ready, _, _ = select.select([self._handle, *others], [], [], max(timeout_s, 0))
        return self._handle in ready

    def watch(self, folder: int) -> int:
        """Watch the folder of an open handle, whatever its path; return the number of its watch.

        A folder has one watch, however often it is asked for and wherever it has moved.

        Raises:
            CannotWatchError: when no more can be watched.
            OSError: when this one cannot.
        """
        wanted = self._binding.InotifyConstants.IN_ONLYDIR
        for bits, _ in self._meanings:
            wanted |= bits
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
                number, bits, move, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size + length
                overflow = overflow or number < 0
                kind = self._kinds[bits] if bits in self._kinds else self._kind_of(bits)
                if kind is not None:
                    name = content[at - length : at].rstrip(b"\0")
                    decoded = name.decode("utf-8", "surrogateescape")
                    events.append(Event(number, decoded, kind, move))
            if len(content) <= _BUFFER - _LONGEST:  # there was room for another
                return None if overflow else events

    def _kind_of(self, bits: int) -> Kind | None:
        """Return what the bits of an event tell; None where it is nothing that matters."""
        kind = next((kind for some, kind in self._meanings if bits & some), None)
        if bits & self._binding.InotifyConstants.IN_ISDIR:
            if kind in {"opened", "closed"}:
                kind = None  # by everybody who looks
            elif kind == "made":
                kind = "folder"
        self._kinds[bits] = kind
        return kind


def reports_all_changes(device: int) -> bool:
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
