"""Work on many items on every core, in processes that are forked for it; answers keep their order.

A pool of the standard library would start anew and import everything in each process, which takes as
long as it saves; a fork has all of it.  It is for the one thread of a command: a process with other
threads does not fork, because what they hold would stay held in its copy.
"""

from __future__ import annotations

import gc
import marshal
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_BATCH = 32
_FEW = 4 * _BATCH
"""Fewer items take less time than starting to share them."""

_LENGTH = 8
"""Bytes of the number that goes before each batch of answers."""


def unheard(done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def each(work: Callable[[Item], Answer], items: list[Item]) -> Iterator[Answer]:
    """Yield what ``work`` answers for each item, in their order; answers are of :mod:`marshal`'s types.

    What a process cannot do, because it was killed or could not start, is done here.
    """
    with _without_collecting(len(items)):
        batches = [items[at : at + _BATCH] for at in range(0, len(items), _BATCH)]
        helpers = _start(work, batches) if len(items) >= _FEW else []
        try:
            for number, batch in enumerate(batches):
                answers: list[Answer] | None = None
                if helpers:
                    answers = _receive(helpers[number % len(helpers)][1])
                yield from map(work, batch) if answers is None else answers
        finally:
            _stop(helpers)


def _start(work: Callable[[Item], Answer], batches: list[list[Item]]) -> list[tuple[int, BinaryIO]]:
    """Start a process for each core, and return their ids and what they write to."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if cores == 1 or threading.active_count() > 1:
        return []
    helpers: list[tuple[int, BinaryIO]] = []
    count = min(cores, len(batches))
    for number in range(count):
        reading, writing = os.pipe()
        try:
            process = os.fork()
        except OSError:  # no room for another process
            os.close(reading)
            os.close(writing)
            _stop(helpers)
            return []
        if process == 0:
            for _, pipe in helpers:  # so that whoever writes to it learns when the parent is gone
                os.close(pipe.fileno())
            os.close(reading)
            _serve(work, batches[number::count], writing)
        os.close(writing)
        helpers.append((process, os.fdopen(reading, "rb")))
    return helpers


def _stop(helpers: list[tuple[int, BinaryIO]]) -> None:
    """Let go of the processes; one that still writes has nobody to write to, and ends."""
    for _, pipe in helpers:
        pipe.close()
    for process, _ in helpers:
        os.waitpid(process, 0)


def _serve(work: Callable[[Item], Answer], batches: list[list[Item]], pipe: int) -> None:
    """Write the answers to a pipe, and end without a trace: nothing of the parent's is closed."""
    status = 1
    try:
        with os.fdopen(pipe, "wb") as file:
            for batch in batches:
                content = marshal.dumps([work(item) for item in batch])
                file.write(len(content).to_bytes(_LENGTH))
                file.write(content)
                file.flush()
        status = 0
    finally:
        os._exit(status)


def _receive(pipe: BinaryIO) -> list[Answer] | None:
    """Return a batch of answers, or None where the process ended before it was whole."""
    length = pipe.read(_LENGTH)
    content = pipe.read(int.from_bytes(length))
    if len(length) < _LENGTH or len(content) < int.from_bytes(length):
        return None
    answers: list[Answer] = marshal.loads(content)  # noqa: S302 - of our own fork
    return answers


@contextmanager
def _without_collecting(count: int) -> Iterator[None]:
    """Look for no cycles while very much is made and kept: it takes a third of the time."""
    if count < _FEW or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
