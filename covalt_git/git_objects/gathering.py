"""Objects that will be stored together: a few of them in memory, many in a pack that is being made."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from covalt_git.git_objects.deflating import Deflater
from covalt_git.git_objects.objects import KINDS
from covalt_git.git_objects.pack_writing import Entry, PackWriter, copied_entry, object_entry
from covalt_git.helper_process import HelperGoneError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

MANY = 64
_MANY_BYTES = 16 << 20
_BATCH = 256
_LARGE = 1 << 16
_WAITING_BYTES = 64 << 20
_THREADS = 2

Objects = dict[str, tuple[bytes, bytes]]
"""Kind and content of objects by their ids."""

_Batch = list[tuple[str, bytes, bytes]]
_Compressed = list[tuple[str, Entry]]


class Gathering:
    """Objects on their way into a store; end it with :meth:`finish` or :meth:`abandon`.

    With no ``folder`` to put a pack in, all stay in memory.

    Attributes:
        made: the pack that :meth:`finish` made of them, if it did.
    """

    def __init__(self, folder: Path | None, object_format: str) -> None:
        """Begin with none."""
        self.made: Path | None = None
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
            self.made = self._pack.finish(durable=durable)
            self._pack = None
        elif len(few) > most_loose and self._folder is not None:
            writer = PackWriter(self._folder, self._hash)
            try:
                for oid, (kind, content) in few.items():
                    writer.append(bytes.fromhex(oid), object_entry(kind, content))
                self.made = writer.finish(durable=durable)
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
    """A pack writer, and those who compress what it will write next.

    Small objects go by batches to a process, while it has nothing to do; large ones to two threads.
    """

    def __init__(self, writer: PackWriter) -> None:
        self.ids: set[str] = set()
        self._writer = writer
        self._threads: ThreadPoolExecutor | None = None
        self._large: deque[tuple[Future[_Compressed], int]] = deque()
        self._large_bytes = 0
        self._deflater: Deflater | None = None
        self._may_deflate = True
        self._given: _Batch = []
        self._batch: _Batch = []
        self._trees: dict[str, bytes] = {}  # they are small, and the first that is asked for

    def add(self, oid: str, kind: bytes, content: bytes) -> None:
        self.ids.add(oid)
        if kind == b"tree":
            self._trees[oid] = content
        if len(content) >= _LARGE:
            self._add_large((oid, kind, content))
            return
        self._batch.append((oid, kind, content))
        if len(self._batch) >= _BATCH:
            self._write_batch()

    def read(self, oid: str) -> tuple[bytes, bytes]:
        if oid in self._trees:
            return b"tree", self._trees[oid]
        self._write_all()
        return self._writer.read(bytes.fromhex(oid))

    def finish(self, *, durable: bool) -> Path:
        try:
            self._write_all()
            return self._writer.finish(durable=durable)
        finally:
            self.abandon()

    def abandon(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._deflater is not None:
            self._deflater.close()
            self._deflater = None
        self._writer.abandon()

    def _add_large(self, one: tuple[str, bytes, bytes]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deflate")
        self._large.append((self._threads.submit(_compressed, [one]), len(one[2])))
        self._large_bytes += len(one[2])
        while self._large and (self._large_bytes > _WAITING_BYTES or self._large[0][0].done()):
            self._write_large()

    def _write_large(self) -> None:
        waiting, size = self._large.popleft()
        self._large_bytes -= size
        self._write(waiting.result())

    def _write_batch(self) -> None:
        """Give the batch to the process, or compress it here where that is still at another one."""
        batch, self._batch = self._batch, []
        try:
            if self._may_deflate and self._deflater is None:
                self._deflater = Deflater()
            if self._deflater is not None and self._deflater.is_done():
                self._take()
            if self._deflater is not None and not self._deflater.is_working:
                self._given = batch
                self._deflater.give([content for _, _, content in batch])
                return
        except HelperGoneError:
            if batch is not self._given:
                self._batch = batch
            self._do_without()
            batch, self._batch = self._batch, []
        self._write(_compressed(batch))

    def _take(self) -> None:
        assert self._deflater is not None
        streams = self._deflater.take()
        given, self._given = self._given, []
        for (oid, kind, content), stream in zip(given, streams, strict=True):
            entry = copied_entry(KINDS.index(kind), len(content), stream)
            self._writer.append(bytes.fromhex(oid), entry)

    def _do_without(self) -> None:
        """Compress here what the process was given, and everything that comes."""
        self._may_deflate = False
        if self._deflater is not None:
            self._deflater.close()
            self._deflater = None
        given, self._given = self._given, []
        self._write(_compressed(given))

    def _write(self, entries: _Compressed) -> None:
        for oid, entry in entries:
            self._writer.append(bytes.fromhex(oid), entry)

    def _write_all(self) -> None:
        batch, self._batch = self._batch, []
        self._write(_compressed(batch))
        try:
            if self._deflater is not None and self._deflater.is_working:
                self._take()
        except HelperGoneError:
            self._do_without()
        while self._large:
            self._write_large()


def _compressed(batch: _Batch) -> _Compressed:
    return [(oid, object_entry(kind, content)) for oid, kind, content in batch]
