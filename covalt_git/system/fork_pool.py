"""Work on many items on every core, in processes that are forked for it; answers keep their order.

A pool of the standard library would start anew and import everything in each process, which takes as
long as it saves; a fork has all of it.  It is for the one thread of a command: a process with other
threads does not fork, because what they hold would stay held in its copy.
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
Answer = TypeVar("Answer")

_BATCH = 16
_FEW = 8 * _BATCH
"""Fewer items take less time than starting to share them."""

_TURNS = 8_000
"""Batches at most: a pipe has room for the numbers of so many."""

_NUMBER = 8
"""Bytes of a number in a pipe."""


def ignore_progress(done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def each(work: Callable[[Item], Answer], items: list[Item]) -> Iterator[Answer]:
    """Yield what ``work`` answers for each item, in their order; answers are of :mod:`marshal`'s types.

    What a process cannot do, because it was killed or could not start, is done here.
    """
    size = max(_BATCH, len(items) // _TURNS + 1)
    batches = [items[at : at + size] for at in range(0, len(items), size)]
    helpers = _start(work, batches) if len(items) >= _FEW else {}
    try:
        answered: Iterator[tuple[int, list[Answer]]] = _receive(list(helpers))
        early: dict[int, list[Answer]] = {}
        for number, batch in enumerate(batches):
            while number not in early and (one := next(answered, None)):
                early[one[0]] = one[1]
            yield from early.pop(number) if number in early else map(work, batch)
    finally:
        _stop(helpers)


def cores() -> int:
    """Return how many cores this process may use, one where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _start(work: Callable[[Item], Answer], batches: list[list[Item]]) -> dict[int, int]:
    """Start a process for each core, and return their ids by the pipes that they write to.

    They draw the numbers of batches from one pipe: none waits for one whose core is slower, or whose
    items are harder.
    """
    if cores() == 1 or threading.active_count() > 1:
        return {}
    turns, giving = os.pipe()
    with os.fdopen(giving, "wb") as file:
        file.write(b"".join(number.to_bytes(_NUMBER) for number in range(len(batches))))
    helpers: dict[int, int] = {}
    for _ in range(cores()):
        reading, writing = os.pipe()
        try:
            process = os.fork()
        except OSError:  # no room for another process: those that are there take its share
            os.close(reading)
            os.close(writing)
            break
        if process == 0:
            for pipe in (*helpers, reading):  # so that who writes to it learns of the parent's end
                os.close(pipe)
            _serve(work, batches, turns, writing)
        os.close(writing)
        helpers[reading] = process
    os.close(turns)
    return helpers


def _stop(helpers: dict[int, int]) -> None:
    """Let go of the processes; one that still writes has nobody to write to, and ends."""
    for pipe in helpers:
        os.close(pipe)
    for process in helpers.values():
        os.waitpid(process, 0)


def _serve(
    work: Callable[[Item], Answer], batches: list[list[Item]], turns: int, pipe: int
) -> None:
    """Write the answers to a pipe, and end without a trace: nothing of the parent's is closed."""
    status = 1
    try:
        with os.fdopen(pipe, "wb") as file:
            while turn := os.read(turns, _NUMBER):
                content = marshal.dumps([work(item) for item in batches[int.from_bytes(turn)]])
                file.write(turn + len(content).to_bytes(_NUMBER))
                file.write(content)
                file.flush()
        status = 0
    finally:
        os._exit(status)


def _receive(pipes: list[int]) -> Iterator[tuple[int, list[Answer]]]:
    """Yield the number of each batch and its answers as they come, until every process has ended."""
    with selectors.DefaultSelector() as waiting:
        for pipe in pipes:
            waiting.register(pipe, selectors.EVENT_READ)
        while waiting.get_map():
            for ready, _ in waiting.select():
                head = _read(ready.fd, 2 * _NUMBER)
                number, length = int.from_bytes(head[:_NUMBER]), int.from_bytes(head[_NUMBER:])
                content = _read(ready.fd, length)
                if len(head) < 2 * _NUMBER or len(content) < length:
                    waiting.unregister(ready.fd)
                else:
                    yield number, marshal.loads(content)  # noqa: S302 - of our own fork


def _read(pipe: int, size: int) -> bytes:
    """Return as many bytes, fewer only where the process that writes them has ended."""
    content = b""
    while len(content) < size and (part := os.read(pipe, size - len(content))):
        content += part
    return content
