"""The limits that the system itself holds a process to (``setrlimit``)."""

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
"""How many processes other programs of the user may start meanwhile, where they are counted too."""

_MIB = 1 << 20
_RESERVE_MB = 16
"""What a process that has used up its memory may take besides, to say so."""

_reserve: tuple[int, int] | None = None
"""The limit of memory that :func:`open_reserve` sets: made ready, for then nothing can be made."""

_MOST_OF_ALL = 1 << 20
_GRACE_S = 2
"""Seconds between ``SIGXCPU`` and ``SIGKILL``."""


def apply(limits: RunLimits, *, others: int) -> None:
    """Hold this process and its children to ``limits``.

    ``others`` is how many processes and threads are counted with the tool's own and are not the tool's.
    """
    global _reserve  # noqa: PLW0603 - it is this process's, as its limits are
    wanted: dict[int, int | None] = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        # One more than the limit, so that an observer can see that it was exceeded.
        resource.RLIMIT_NPROC: limits.processes + others + 1,
        resource.RLIMIT_FSIZE: limits.file_mb and limits.file_mb * _MIB + 1,
    }
    if sys.platform == "darwin":
        del wanted[resource.RLIMIT_NPROC]  # it counts all of the user's, whose number is unknown
    for kind, value in wanted.items():
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
    """Give a process whose memory is used up the little more that it takes to say so."""
    if _reserve is not None:
        resource.setrlimit(resource.RLIMIT_AS, _reserve)


def processes_of_the_user() -> int:
    """Return about how many processes and threads the user of this process has, and room for more.

    Where no namespace counts a tool's own, the system counts all of its user's, and other programs of
    that user must not use up what the tool may start.
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

    /proc shows a container less than the system counts.
    """
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    try:
        while True:
            _lower(resource.RLIMIT_NPROC, most, before[1])
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
        resource.setrlimit(resource.RLIMIT_NPROC, before)


def _lower(kind: int, soft: int, hard: int) -> None:
    _, now = resource.getrlimit(kind)
    if now != resource.RLIM_INFINITY:
        soft = min(soft, now)
        hard = now if hard == resource.RLIM_INFINITY else min(hard, now)
    resource.setrlimit(kind, (soft, hard))
