"""Parallel map over many items, in forked processes; results keep the order of the items.

Processes of the standard library's pools import all modules first, which takes as long as the work.  A forked
process has the modules already.  If this process has other threads, it does not fork but does the work itself,
because locks of those threads would never be released in a child.
"""

from __future__ import annotations

import marshal
import os
import threading
from typing import IO, TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = TypeVar("Item")
Output = TypeVar("Output")

_BATCH = 16
_FEW = 8 * _BATCH
"""Fewer items than this are faster without processes."""

_NO_PROCESS = -1


def ignore_progress(done: int, total: int) -> None:
    """Ignore a progress report."""


def each(work: Callable[[Item], Output], items: list[Item]) -> Iterator[Output]:
    """Yield the results of ``work`` for each item, in order; results have types of :mod:`marshal`.

    Worker processes take turns with batches of items.  If one is killed or cannot start, this process does its work.
    """
    # In turn, so that the first results are there at once, and no worker has all of the slow items.
    batches = [items[at : at + _BATCH] for at in range(0, len(items), _BATCH)]
    workers = _start(work, batches) if len(items) >= _FEW else {}
    pipes = list(workers)
    try:
        for number, batch in enumerate(batches):
            results = _receive(pipes[number % len(pipes)]) if pipes else None
            yield from map(work, batch) if results is None else results
    finally:
        for pipe, process in workers.items():
            pipe.close()  # which ends a worker that is still writing
            if process != _NO_PROCESS:
                os.waitpid(process, 0)


def cores() -> int:
    """Return the number of cores that this process can use; 1 if it is unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _start(work: Callable[[Item], Output], batches: list[list[Item]]) -> dict[IO[bytes], int]:
    """Start a worker process for each core; return the process ids by the pipes of their results."""
    workers: dict[IO[bytes], int] = {}
    if cores() == 1 or threading.active_count() > 1:
        return workers
    for number in range(cores()):
        reading, writing = os.pipe()
        try:
            process = os.fork()
        except OSError:  # the limit of processes is reached, so the pipe stays empty
            process = _NO_PROCESS
        if process == 0:
            os.close(reading)
            for pipe in workers:  # so that workers get an error if the parent ends
                pipe.close()
            _run_worker(work, batches[number :: cores()], writing)
        os.close(writing)
        workers[os.fdopen(reading, "rb")] = process
    return workers


def _run_worker(work: Callable[[Item], Output], batches: list[list[Item]], pipe: int) -> None:
    """Write results to a pipe, and exit without closing files or running handlers of the parent."""
    status = 1
    try:
        with os.fdopen(pipe, "wb") as file:
            for batch in batches:
                marshal.dump([work(item) for item in batch], file)
                file.flush()  # the parent waits for this batch
        status = 0
    finally:
        os._exit(status)


def _receive(pipe: IO[bytes]) -> list[Any] | None:
    """Return the results of the next batch of a worker; None if it has ended."""
    try:
        results: list[Any] = marshal.load(pipe)  # noqa: S302 - from our own fork
    except EOFError:
        return None
    return results
