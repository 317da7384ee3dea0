"""Landlock: the kernel restricts a process and its children to a list of places.

No kernel's landlock restricts these so far: checking whether a file exists; modes, owners and timestamps
of files; Unix sockets with a path; UDP.  The level ``landlock`` leaves those to seccomp.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox import system_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

_BENEATH = 1
_ASK_VERSION = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_EVERYTHING = (1 << 16) - 1
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_READ_AND_WRITE = _EVERYTHING & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
_OF_A_FILE = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV

HOLDS_TRUNCATION = 3
"""The first version (Linux 6.2) in which no file outside can be emptied."""
_RESTRICTS_TCP = 4
"""The first version (Linux 6.7) with rights on TCP."""
RESTRICTS_SIGNALS = 6
"""The first version (Linux 6.12) in which a signal stays among the restricted processes."""

_RULESET = struct.Struct("=3Q")
"""``struct landlock_ruleset_attr``: rights on files, on the network, and on other processes."""
_PATH_BENEATH = struct.Struct("=Qi")
"""``struct landlock_path_beneath_attr``: allowed rights, and a descriptor of the path."""


def version() -> int:
    """Return the version of this kernel's landlock; 0 means that it has none."""
    try:
        return system_calls.call("landlock_create_ruleset", 0, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str], abi: int, *, tcp: bool) -> None:
    """Restrict this process to files and folders, with the rights that landlock version ``abi`` supports.

    Each path includes all that is below it.  No device can be created in a ``writable`` one.  Requires
    ``no_new_privs``.  ``tcp`` leaves TCP unrestricted.
    """
    # A kernel refuses the whole ruleset for a right that it does not know.  Fields that it does not know must be zero.
    files = _EVERYTHING
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if abi < since:
            files &= ~right
    network = _BIND_TCP | _CONNECT_TCP if abi >= _RESTRICTS_TCP and not tcp else 0
    processes = _ABSTRACT_SOCKETS | _SIGNALS if abi >= RESTRICTS_SIGNALS else 0
    handled = _RULESET.pack(files, network, processes)
    ruleset = system_calls.call("landlock_create_ruleset", handled, len(handled), 0)
    try:
        _allow(ruleset, readable, _READ)
        _allow(ruleset, writable, _READ_AND_WRITE & files)
        system_calls.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            # For a file, the kernel refuses a rule with rights on folders.
            folder = stat.S_ISDIR(os.fstat(place).st_mode)
            allowed = _PATH_BENEATH.pack(rights if folder else rights & _OF_A_FILE, place)
            system_calls.call("landlock_add_rule", ruleset, _BENEATH, allowed, 0)
        finally:
            os.close(place)
