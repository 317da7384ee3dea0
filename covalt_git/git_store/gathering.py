"""Objects that will be stored together: a few of them in memory, many in a pack that is being made."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from covalt_git.git_store.compression import inflate
from covalt_git.git_store.objects import KINDS
from covalt_git.git_store.pack_writing import (
    Entry,
    PackWriter,
    object_entry,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

MANY = 64
_MANY_BYTES = 16 << 20
_LARGE = 1 << 16
_WAITING_BYTES = 64 << 20
_THREADS = 2
_BLOB = KINDS.index(b"blob")

Objects = dict[str, tuple[bytes, bytes]]
"""Kind and content of objects by their ids."""

Deflated = dict[str, tuple[int, bytes]]
"""Sizes of blobs, and their zlib streams, by their ids."""


class Gathering:
    """Objects on their way into a store; end it with :meth:`finish` or :meth:`abandon`.

    With no ``folder`` to put a pack in, all stay in memory.

    Attributes:
        made: the name of the pack that :meth:`finish` made of them, if it did.
    """

    def __init__(self, folder: str | None, object_format: str) -> None:
        """Begin with none."""
        self.made: str | None = None
        self._folder = folder
        self._hash = object_format
        self._few: Objects = {}
        self._deflated: Deflated = {}
        self._size = 0
        self._pack: _PackInTheMaking | None = None

    def __contains__(self, oid: str) -> bool:
        if self._pack is not None:
            return oid in self._pack.ids
        return oid in self._few or oid in self._deflated

    def __bool__(self) -> bool:
        return bool(self._few or self._deflated) or self._pack is not None

    @property
    def is_large(self) -> bool:
        """Whether a pack is being made of it."""
        return self._pack is not None

    def add(self, oid: str, kind: bytes, content: bytes) -> None:
        """Add an object that is not among them yet; where it cannot be written, none is left."""
        try:
            if self._pack is not None:
                self._pack.add(oid, kind, content)
            else:
                self._few[oid] = (kind, content)
                self._has_more(len(content))
        except BaseException:
            self.abandon()
            raise

    def add_deflated_blobs(self, blobs: Deflated) -> None:
        """Do what :meth:`add` does for blobs that are compressed already."""
        try:
            if self._pack is not None:
                self._pack.append_deflated_blobs(blobs)
            else:
                self._deflated |= blobs
                self._has_more(sum(len(stream) for _, stream in blobs.values()))
        except BaseException:
            self.abandon()
            raise

    def _has_more(self, size: int) -> None:
        self._size += size
        is_many = len(self._few) + len(self._deflated) > MANY or self._size > _MANY_BYTES
        if is_many and self._folder is not None:
            self._begin_pack(self._folder)

    def extent(self) -> tuple[int, int, int]:
        """Return how much there is, for :meth:`cut`; what is in a pack is not counted."""
        return len(self._few), len(self._deflated), self._size

    def cut(self, few: int = 0, deflated: int = 0, size: int = 0) -> None:
        """Forget all that came after there was so much; what has gone into a pack stays."""
        for objects, count in ((self._few, few), (self._deflated, deflated)):
            for oid in list(objects)[count:]:
                del objects[oid]
        self._size = size

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of one of them."""
        if self._pack is not None:
            return self._pack.read(oid)
        if oid in self._few:
            return self._few[oid]
        size, stream = self._deflated[oid]
        return b"blob", inflate(stream, size)

    def finish(self, *, most_loose: int, durable: bool) -> Objects:
        """Make a pack of them, unless they are no more than ``most_loose``: return those few."""
        if len(self._few) + len(self._deflated) > most_loose and self._folder is not None:
            self._begin_pack(self._folder)
        if self._pack is not None:
            self.made = self._pack.finish(durable=durable)
            self._pack = None
            return {}
        few = self._objects()
        self._few, self._deflated = {}, {}
        return few

    def abandon(self) -> None:
        """Leave nothing of them."""
        if self._pack is not None:
            self._pack.abandon()
        self._pack, self._few, self._deflated, self._size = None, {}, {}, 0

    def _begin_pack(self, folder: str) -> None:
        """Put all of them into a pack."""
        self._pack = self._packed(folder)
        self._few, self._deflated = {}, {}

    def _packed(self, folder: str) -> _PackInTheMaking:
        pack = _PackInTheMaking(PackWriter(folder, self._hash))
        try:
            for oid, (kind, content) in self._few.items():
                pack.add(oid, kind, content)
            pack.append_deflated_blobs(self._deflated)
        except BaseException:
            pack.abandon()
            raise
        return pack

    def _objects(self) -> Objects:
        return self._few | {oid: self.read(oid) for oid in self._deflated}


class _PackInTheMaking:
    """A pack writer, and two threads that compress what is large and write it once it is.

    While they do, the next is read and its id computed.
    """

    def __init__(self, writer: PackWriter) -> None:
        self.ids: set[str] = set()
        self._writer = writer
        self._writing = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._large: deque[tuple[Future[None], int]] = deque()
        self._large_bytes = 0
        self._trees: dict[str, bytes] = {}  # they are small, and the first that is asked for

    def add(self, oid: str, kind: bytes, content: bytes) -> None:
        if kind == b"tree":
            self._trees[oid] = content
        self.ids.add(oid)
        if len(content) < _LARGE:
            self._append(oid, object_entry(kind, content))
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deflate")
        self._large.append(
            (self._threads.submit(self._add_large, oid, kind, content), len(content))
        )
        self._large_bytes += len(content)
        while self._large and (self._large_bytes > _WAITING_BYTES or self._large[0][0].done()):
            self._end_large()

    def _add_large(self, oid: str, kind: bytes, content: bytes) -> None:
        self._append(oid, object_entry(kind, content))

    def _append(self, oid: str, entry: Entry) -> None:
        with self._writing:
            self._writer.append(bytes.fromhex(oid), entry)

    def append_deflated_blobs(self, blobs: Deflated) -> None:
        self.ids.update(blobs)
        streams = ((bytes.fromhex(oid), *blob) for oid, blob in blobs.items())
        with self._writing:
            self._writer.append_streams(_BLOB, streams)

    def read(self, oid: str) -> tuple[bytes, bytes]:
        if oid in self._trees:
            return b"tree", self._trees[oid]
        self._end_all()
        return self._writer.read(bytes.fromhex(oid))

    def finish(self, *, durable: bool) -> str:
        try:
            self._end_all()
            return self._writer.finish(durable=durable)
        finally:
            self.abandon()

    def abandon(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        self._writer.abandon()

    def _end_large(self) -> None:
        written, size = self._large.popleft()
        self._large_bytes -= size
        written.result()

    def _end_all(self) -> None:
        while self._large:
            self._end_large()
