"""Giving up every power that a process could use or win back."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from covalt_git.runtime.sandbox import system_calls

_EVERY_ID = ["0", "0", "4294967295"]
"""What only the first user namespace maps, and containers without one of their own."""

_LOCKED_BITS = 0b1110_1111
"""Root is nobody special, no capability is kept or raised, and none of that can be changed back."""


def is_root() -> bool:
    """Tell whether this is the machine's root, not one of a user namespace such as a container's."""
    if os.geteuid() != 0:
        return False
    return Path("/proc/self/uid_map").read_text(encoding="utf-8").split() == _EVERY_ID


def drop() -> None:
    """Give up all capabilities, those of programs started later too."""
    try:
        system_calls.prctl(system_calls.PR_SET_SECUREBITS, _LOCKED_BITS)
    except PermissionError:
        pass  # an ordinary user has none, and wins none once `no_new_privs` is set
    else:
        _empty_bounding_set()
    system_calls.give_up_capabilities()
    system_calls.prctl(system_calls.PR_SET_NO_NEW_PRIVS, 1)


def _empty_bounding_set() -> None:
    for capability in range(64):
        try:
            system_calls.prctl(system_calls.PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return  # the last one that this kernel knows was the one before
            raise
