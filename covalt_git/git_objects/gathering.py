"""Objects that will be stored together: a few of them in memory, many in a pack that is being made.

Two threads compress what goes into the pack, in batches of small objects or one by one where they
are large; zlib lets the interpreter go meanwhile.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from covalt_git.git_objects.pack_writing import Entry, PackWriter, object_entry

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

MANY = 64
_MANY_BYTES = 16 << 20
_BATCH = 512
_BATCH_BYTES = 4 << 20
_WAITING_BYTES = 64 << 20
_THREADS = 2

Objects = dict[str, tuple[bytes, bytes]]
"""Kind and content of objects by their ids."""


class Gathering:
    """Objects on their way into a store; end it with :meth:`finish` or :meth:`abandon`.

    With no ``folder`` to put a pack in, all stay in memory.
    """

    def __init__(self, folder: Path | None, object_format: str) -> None:
        """Begin with none."""
        self._folder = folder
        self._hash = object_format
        self._few: Objects = {}
        self._size = 0
        self._pack: _PackInTheMaking | None = None

    def __contains__(self, oid: str) -> bool:
        return oid in self._few or (self._pack is not None and oid in self._pack.ids)

    def __bool__(self) -> bool:
        return bool(self._few) or self._pack is not None

    @property
    def is_large(self) -> bool:
        """Whether a pack is being made of it."""
        return self._pack is not None

    def add(self, oid: str, kind: bytes, content: bytes) -> None:
        """Add an object that is not among them yet."""
        if self._pack is not None:
            self._pack.add(oid, kind, content)
            return
        self._few[oid] = (kind, content)
        self._size += len(content)
        if self._folder is not None and (len(self._few) > MANY or self._size > _MANY_BYTES):
            self._begin_pack(self._folder)

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of one of them."""
        return self._pack.read(oid) if self._pack is not None else self._few[oid]

    def finish(self, *, most_loose: int, durable: bool) -> Objects:
        """Make a pack of them, unless they are no more than ``most_loose``: return those few."""
        few, self._few = self._few, {}
        if self._pack is not None:
            self._pack.finish(durable=durable)
            self._pack = None
        elif len(few) > most_loose and self._folder is not None:
            writer = PackWriter(self._folder, self._hash)
            try:
                for oid, (kind, content) in few.items():
                    writer.append(bytes.fromhex(oid), object_entry(kind, content))
                writer.finish(durable=durable)
            finally:
                writer.abandon()
        else:
            return few
        return {}

    def abandon(self) -> None:
        """Leave nothing of them."""
        if self._pack is not None:
            self._pack.abandon()
        self._pack, self._few = None, {}

    def _begin_pack(self, folder: Path) -> None:
        self._pack = _PackInTheMaking(PackWriter(folder, self._hash))
        for oid, (kind, content) in self._few.items():
            self._pack.add(oid, kind, content)
        self._few = {}


class _PackInTheMaking:
    """A pack writer, and the threads that compress what it will write next."""

    def __init__(self, writer: PackWriter) -> None:
        self.ids: set[str] = set()
        self._writer = writer
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deflate")
        self._batch: list[tuple[str, bytes, bytes]] = []
        self._batch_bytes = 0
        self._waiting: deque[tuple[Future[list[tuple[str, Entry]]], int]] = deque()
        self._waiting_bytes = 0
        self._trees: dict[str, bytes] = {}  # they are small, and the first that is asked for

    def add(self, oid: str, kind: bytes, content: bytes) -> None:
        self.ids.add(oid)
        if kind == b"tree":
            self._trees[oid] = content
        self._batch.append((oid, kind, content))
        self._batch_bytes += len(content)
        if len(self._batch) >= _BATCH or self._batch_bytes >= _BATCH_BYTES:
            self._submit()
            while self._waiting_bytes > _WAITING_BYTES or self._waiting[0][0].done():
                self._write_one()
                if not self._waiting:
                    break

    def read(self, oid: str) -> tuple[bytes, bytes]:
        if oid in self._trees:
            return b"tree", self._trees[oid]
        self._write_all()
        return self._writer.read(bytes.fromhex(oid))

    def finish(self, *, durable: bool) -> None:
        try:
            self._write_all()
            self._writer.finish(durable=durable)
        finally:
            self.abandon()

    def abandon(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._writer.abandon()

    def _submit(self) -> None:
        self._waiting.append((self._threads.submit(_compressed, self._batch), self._batch_bytes))
        self._waiting_bytes += self._batch_bytes
        self._batch, self._batch_bytes = [], 0

    def _write_one(self) -> None:
        batch, size = self._waiting.popleft()
        self._waiting_bytes -= size
        self._write(batch.result())

    def _write(self, entries: list[tuple[str, Entry]]) -> None:
        for oid, entry in entries:
            self._writer.append(bytes.fromhex(oid), entry)

    def _write_all(self) -> None:
        if self._batch and not self._waiting:
            self._write(_compressed(self._batch))  # nobody else has anything to do meanwhile
            self._batch, self._batch_bytes = [], 0
        elif self._batch:
            self._submit()
        while self._waiting:
            self._write_one()


def _compressed(batch: list[tuple[str, bytes, bytes]]) -> list[tuple[str, Entry]]:
    return [(oid, object_entry(kind, content)) for oid, kind, content in batch]
