"""Change events of watched folders, by inotify.

Only watchdog's binding of inotify is used.  Its threads deliver events after half a second, while
:meth:`FolderEvents.read` returns all changes before the call.

The kernel does not report writes through memory mappings, changes through a hard link outside of the
watched folders, and changes to a network file system by other machines (see
:func:`reports_all_changes`).
"""

from __future__ import annotations

import errno
import importlib
import os
import select
import struct
import weakref
from pathlib import Path
from typing import Any

_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16
_LOCAL = {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
_MOUNTS = Path("/proc/self/mountinfo")


class CannotWatchError(Exception):
    """Folders cannot be watched on this system."""


class FolderEvents:
    """Queue of the events of any number of watched folders."""

    def __init__(self) -> None:
        """Open a queue.

        Raises:
            CannotWatchError: when the system has no inotify, or its limit of queues is reached.
        """
        try:
            self._binding: Any = importlib.import_module("watchdog.observers.inotify_c")
        except Exception as error:  # noqa: BLE001 - watchdog raises its own types on other systems
            raise CannotWatchError(f"this system has no inotify: {error}") from None
        bits = self._binding.InotifyConstants
        self._moves = bits.IN_CREATE | bits.IN_MOVED_TO | bits.IN_MOVED_FROM
        self._ends = bits.IN_MOVE_SELF | bits.IN_DELETE_SELF | bits.IN_UNMOUNT | bits.IN_IGNORED
        self._handle: int = self._binding.inotify_init()
        if self._handle < 0:
            raise CannotWatchError("the limit fs.inotify.max_user_instances is reached")
        self._close = weakref.finalize(self, os.close, self._handle)
        os.set_inheritable(self._handle, False)
        os.set_blocking(self._handle, False)

    def close(self) -> None:
        self._close()

    def wait(self, timeout_s: float, *others: int) -> bool:
        """Wait for an event, or until one of ``others`` is readable; return whether there is an event."""
        ready, _, _ = select.select([self._handle, *others], [], [], max(timeout_s, 0))
        return self._handle in ready

    def watch(self, folder: int) -> None:
        """Watch an open folder, also after it is moved; a second call changes nothing.

        Raises:
            CannotWatchError: when the limit of watches is reached.
            OSError: when this folder cannot be watched.
        """
        bits = self._binding.InotifyConstants
        content = bits.IN_DELETE | bits.IN_MODIFY | bits.IN_ATTRIB | bits.IN_CLOSE_WRITE
        mask = bits.IN_ONLYDIR | self._moves | self._ends | content
        # By its descriptor: at its path, another process may have put a link meanwhile
        # (test_a_link_in_place_of_a_folder_is_not_watched).
        path = f"/proc/self/fd/{folder}".encode()
        if self._binding.inotify_add_watch(self._handle, path, mask) >= 0:
            return
        reason: int = self._binding.ctypes.get_errno()
        if reason == errno.ENOSPC:
            raise CannotWatchError("the limit fs.inotify.max_user_watches is reached")
        raise OSError(reason, os.strerror(reason))

    def read(self) -> bool:
        """Read all events; return whether the folders must be watched again.

        This is the case if a folder was created or moved, a watch ended, or the queue overflowed.
        """
        is_stale = False
        while True:
            try:
                content = os.read(self._handle, _BUFFER)
            except BlockingIOError:
                return is_stale
            at = 0
            while at < len(content):
                watch, bits, _, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size + length
                # A watch of -1 is the event of a full queue, whose other events are lost
                # (test_a_full_queue_lets_folders_be_watched_anew).  What is in a new folder is not watched yet.
                is_folder = bits & self._binding.InotifyConstants.IN_ISDIR
                is_stale |= watch < 0 or bool(
                    bits & self._ends or (is_folder and bits & self._moves)
                )


def reports_all_changes(device: int) -> bool:
    """Return whether the kernel reports every change of a file system, by its device (``st_dev``).

    It does not for network file systems and file systems in user space.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    # 36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/root rw
    kinds = {
        line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2] == number
    }
    return bool(kinds) and kinds <= _LOCAL
