"""Parallel map over many items, in forked processes; results keep the order of the items.

Processes of the standard library's pools import all modules first, which takes as long as the work.  A forked
process has the modules already.  If this process has other threads, it does not fork but does the work itself,
because locks of those threads would never be released in a child.
"""

from __future__ import annotations

import marshal
import os
import selectors
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = TypeVar("Item")
Output = TypeVar("Output")

_BATCH = 16
_FEW = 8 * _BATCH
"""Fewer items than this are faster without processes."""

_MAX_BATCHES = 8_000
"""The most batches; their numbers fit into the buffer of a pipe."""

_NUMBER = 8
"""Bytes of a number in a pipe."""


def ignore_progress(done: int, total: int) -> None:
    """Ignore a progress report."""


def each(work: Callable[[Item], Output], items: list[Item]) -> Iterator[Output]:
    """Yield the results of ``work`` for each item, in order; results have types of :mod:`marshal`.

    If a process is killed or cannot start, this process does its work.
    """
    size = max(_BATCH, len(items) // _MAX_BATCHES + 1)
    batches = [items[at : at + size] for at in range(0, len(items), size)]
    workers = _start(work, batches) if len(items) >= _FEW else {}
    try:
        received: Iterator[tuple[int, list[Output]]] = _receive(list(workers))
        early: dict[int, list[Output]] = {}
        for number, batch in enumerate(batches):
            while number not in early and (one := next(received, None)):
                early[one[0]] = one[1]
            yield from early.pop(number) if number in early else map(work, batch)
    finally:
        _stop(workers)


def cores() -> int:
    """Return the number of cores that this process can use; 1 if it is unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _start(work: Callable[[Item], Output], batches: list[list[Item]]) -> dict[int, int]:
    """Start a worker process for each core; return the process ids by the pipes of their results.

    The workers read the numbers of batches from a shared pipe, which balances the load.
    """
    if cores() == 1 or threading.active_count() > 1:
        return {}
    numbers, numbers_end = os.pipe()
    with os.fdopen(numbers_end, "wb") as file:
        file.write(b"".join(number.to_bytes(_NUMBER) for number in range(len(batches))))
    workers: dict[int, int] = {}
    for _ in range(cores()):
        reading, writing = os.pipe()
        try:
            process = os.fork()
        except OSError:  # the limit of processes is reached: use fewer workers
            os.close(reading)
            os.close(writing)
            break
        if process == 0:
            for pipe in (*workers, reading):  # so that writers get an error if the parent ends
                os.close(pipe)
            _run_worker(work, batches, numbers, writing)
        os.close(writing)
        workers[reading] = process
    os.close(numbers)
    return workers


def _stop(workers: dict[int, int]) -> None:
    """Close the pipes, which ends workers that are still writing; wait for all workers."""
    for pipe in workers:
        os.close(pipe)
    for process in workers.values():
        os.waitpid(process, 0)


def _run_worker(
    work: Callable[[Item], Output], batches: list[list[Item]], numbers: int, pipe: int
) -> None:
    """Write results to a pipe, and exit without closing files or running handlers of the parent."""
    status = 1
    try:
        with os.fdopen(pipe, "wb") as file:
            while number := os.read(numbers, _NUMBER):
                content = marshal.dumps([work(item) for item in batches[int.from_bytes(number)]])
                file.write(number + len(content).to_bytes(_NUMBER))
                file.write(content)
                file.flush()
        status = 0
    finally:
        os._exit(status)


def _receive(pipes: list[int]) -> Iterator[tuple[int, list[Output]]]:
    """Yield the number and the results of each finished batch, until all workers have ended."""
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for ready, _ in selector.select():
                head = _read(ready.fd, 2 * _NUMBER)
                number, length = int.from_bytes(head[:_NUMBER]), int.from_bytes(head[_NUMBER:])
                content = _read(ready.fd, length)
                if len(head) < 2 * _NUMBER or len(content) < length:
                    selector.unregister(ready.fd)
                else:
                    yield number, marshal.loads(content)  # noqa: S302 - from our own fork


def _read(pipe: int, size: int) -> bytes:
    """Return ``size`` bytes, or fewer if the writing process has ended."""
    content = b""
    while len(content) < size and (part := os.read(pipe, size - len(content))):
        content += part
    return content
