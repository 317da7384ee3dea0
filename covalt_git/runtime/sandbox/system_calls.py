"""The kernel's own calls that Python has no function for, by ctypes; Linux on x86_64 and aarch64.

Numbers, flags and structures are those of Linux's ``include/uapi``.  Every function raises ``OSError``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
from typing import Final

from covalt_git.runtime.sandbox.syscall_numbers import NUMBERS

_LIBC: Final = ctypes.CDLL(None, use_errno=True)

MACHINE: Final = platform.machine()

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

READ_ONLY = 0x1
NO_SUID = 0x2
NO_DEVICES = 0x4
NO_PROGRAMS = 0x8
_MAPPED_IDS = 0x00100000

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 22, 24, 28
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_CLONE_TREE = 0x1 | os.O_CLOEXEC
_FROM_EMPTY_PATH = 0x4
_MS_PRIVATE = 1 << 18
_MS_REC = 1 << 14
_DETACH = 2
_SET_STRING, _CREATE = 1, 6
_MOUNT_ATTRIBUTES = struct.Struct("=4Q")
"""``struct mount_attr``: attributes to set and to clear, propagation, and a user namespace."""
_CAPABILITIES = struct.Struct("=Ii")
"""``struct __user_cap_header_struct``: version, and a process, 0 for this one."""
_NO_CAPABILITIES = bytes(24)


def call(name: str, *arguments: object) -> int:
    """Make a call by its name; integers are passed as ``long``, bytes by address."""
    # A variadic function: an int would leave the upper half of its register undefined.
    widened = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    return _checked(int(_LIBC.syscall(ctypes.c_long(NUMBERS[MACHINE][name]), *widened)))


def prctl(option: int, *arguments: object) -> int:
    """Change or read something of this process; what is not given is 0."""
    widened = [ctypes.c_ulong(item) if isinstance(item, int) else item for item in arguments]
    widened += [ctypes.c_ulong(0)] * (4 - len(widened))
    return _checked(int(_LIBC.prctl(ctypes.c_int(option), *widened)))


def die_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends, however that ends.

    The kernel forgets this whenever a process changes its user or its capabilities.
    """
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent that ended before the request is not reported.
    if os.getppid() != parent:
        os._exit(1)


def unshare(flags: int) -> None:
    """Move this process, or for pids its next child, into new namespaces."""
    _checked(_LIBC.unshare(ctypes.c_int(flags)))


def make_mounts_private() -> None:
    """Hide later mounts of this namespace from other namespaces, and theirs from this one."""
    nothing = ctypes.c_char_p(None)
    _checked(_LIBC.mount(nothing, b"/", nothing, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), nothing))


def clone_tree(path: str) -> int:
    """Return a descriptor on a copy of the mounts at and below ``path``; it shows nowhere yet."""
    return call("open_tree", _AT_FDCWD, os.fsencode(path), _CLONE_TREE | _AT_RECURSIVE)


def restrict_tree(tree: int, attributes: int, *, namespace: int | None = None) -> None:
    """Set ``attributes`` on every mount of a tree; ``namespace`` maps the owners of its files."""
    if namespace is not None:
        attributes |= _MAPPED_IDS
    # Private: a mount that the host makes later below one of these folders must not appear inside.
    change = _MOUNT_ATTRIBUTES.pack(attributes, 0, _MS_PRIVATE, namespace or 0)
    call("mount_setattr", tree, b"", _AT_RECURSIVE | _AT_EMPTY_PATH, change, len(change))


def make_read_only(path: str) -> None:
    """Make the one mount at ``path`` read-only."""
    change = _MOUNT_ATTRIBUTES.pack(READ_ONLY, 0, 0, 0)
    call("mount_setattr", _AT_FDCWD, os.fsencode(path), 0, change, len(change))


def new_file_system(kind: str, attributes: int, **options: str) -> int:
    """Return a descriptor on a new mount of a file system with these options."""
    context = call("fsopen", kind.encode(), 1)
    try:
        for name, value in options.items():
            call("fsconfig", context, _SET_STRING, name.encode(), value.encode(), 0)
        call("fsconfig", context, _CREATE, 0, 0, 0)
        return call("fsmount", context, 1, attributes)
    finally:
        os.close(context)


def attach(tree: int, path: str) -> None:
    """Mount a tree at ``path``, and close its descriptor."""
    try:
        call("move_mount", tree, b"", _AT_FDCWD, os.fsencode(path), _FROM_EMPTY_PATH)
    finally:
        os.close(tree)


def change_root(path: str) -> None:
    """Make ``path``, the root of a mount, the root of this mount namespace; let go of the old one."""
    os.chdir(path)
    call("pivot_root", b".", b".")  # now the old root is above the new one: pivot_root(2)
    _checked(_LIBC.umount2(b".", ctypes.c_int(_DETACH)))
    os.chdir("/")


def close_all_but(descriptor: int) -> None:
    if descriptor:
        call("close_range", 0, descriptor - 1, 0)
    call("close_range", descriptor + 1, 0xFFFFFFFF, 0)


def give_up_capabilities() -> None:
    # Version 3, whose sets have two words: the kernel logs a warning about programs that use an older one.
    _checked(_LIBC.capset(_CAPABILITIES.pack(0x20080522, 0), _NO_CAPABILITIES))


def _checked(returned: int) -> int:
    if returned == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return returned
