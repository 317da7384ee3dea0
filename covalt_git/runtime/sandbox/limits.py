"""Limits of a process that the kernel enforces (``setrlimit``)."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.runtime.sandbox.policy import RunLimits

SLACK = 64
"""How many processes other programs of the user may start meanwhile, if the kernel counts them too."""

_MIB = 1 << 20
_RESERVE_MB = 16
"""Memory that a process gets in addition after it reached its limit, to report that."""

_reserve: tuple[int, int] | None = None
"""The memory limit that :func:`open_reserve` sets: created early, as it cannot be created then."""

_MOST_OF_ALL = 1 << 20
_GRACE_S = 2
"""Seconds between ``SIGXCPU`` and ``SIGKILL``."""


def apply(limits: RunLimits, *, others: int) -> None:
    """Apply ``limits`` to this process and its children.

    ``others`` is the number of other processes and threads that the kernel counts toward the tool's limit.
    """
    global _reserve  # noqa: PLW0603 - it is this process's, as its limits are
    values: dict[int, int | None] = {
        # A core file would be committed with the workspace, and has the secrets of the call.
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        # One more than the limit, so that an observer can see that it was exceeded.
        resource.RLIMIT_NPROC: limits.processes + others + 1,
        resource.RLIMIT_FSIZE: limits.file_mb and limits.file_mb * _MIB + 1,
    }
    if sys.platform == "darwin":
        del values[resource.RLIMIT_NPROC]  # it counts all of the user's, whose number is unknown
    for kind, value in values.items():
        if value is not None:
            _lower(kind, value, value)
    if limits.memory_mb is not None and sys.platform != "darwin":  # which may refuse to set it
        most = limits.memory_mb * _MIB
        _lower(resource.RLIMIT_AS, most, most + _RESERVE_MB * _MIB)
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        _reserve = hard, hard
    if limits.cpu_s is not None:
        # Our own check is exact and counts all processes; the kernel counts clock ticks, and may overestimate
        # a busy process by a tenth.
        seconds = math.ceil(limits.cpu_s) + 1
        _lower(resource.RLIMIT_CPU, seconds, seconds + _GRACE_S)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit raises instead


def open_reserve() -> None:
    """Raise the memory limit a little, so that a process that reached it can report that."""
    if _reserve is not None:
        resource.setrlimit(resource.RLIMIT_AS, _reserve)


def processes_of_the_user() -> int:
    """Return about how many processes and threads the current user has, plus a reserve.

    Without a user namespace, the kernel counts all processes of the user.  The reserve keeps other
    programs from using up the tool's limit.
    """
    if sys.platform == "darwin":
        return 0
    user, counted = os.getuid(), 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    tasks = os.stat(f"/proc/{entry.name}/task")  # noqa: PTH116 - one of thousands
                    counted += tasks.st_nlink - 2 if tasks.st_uid == user else 0
    return _enough_to_fork(counted + SLACK)


def _enough_to_fork(most: int) -> int:
    """Return ``most``, or as much more as it takes until this process can start another at all.

    In a container, /proc shows fewer processes than the kernel counts.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    try:
        while True:
            _lower(resource.RLIMIT_NPROC, most, hard)
            try:
                child = os.fork()
            except BlockingIOError:
                if most > _MOST_OF_ALL:
                    raise
                most *= 2
                continue
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            return most
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


def _lower(kind: int, soft: int, hard: int) -> None:
    # The effective limit may be lower: only root could raise it, and a tool would get more than its user has.
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))
