"""A pack that somebody sends: kept apart from every store until all of it has been looked at.

It lies in a file without a name, which is gone with the process however that ends.  Every entry is
inflated under limits, every delta resolved, and every object known by the hash of what it really
holds.  Deltas may start from what the store has (git's "thin packs").

Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import hashlib
import mmap
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Self, TypeAlias

from covalt_git.errors import CovaltError
from covalt_git.git_store.compression import inflate_within
from covalt_git.git_store.objects import KINDS, DamagedObjectError, object_id
from covalt_git.git_store.pack_writing import Entry, copied_entry, object_entry
from covalt_git.git_store.packs import (
    ID_DELTA,
    LONGEST_HEADER,
    OFFSET_DELTA,
    PACK_HEADER,
    PACK_START,
    applied,
    delta_sizes,
    distance_back,
    kind_and_size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from covalt_git.git_store.pkt_lines import Stream

_PART = 1 << 18
_LONGEST_CHAIN = 4_095  # git itself makes none beyond
_KEPT_BYTES = 64 << 20
_DELTAS = (OFFSET_DELTA, ID_DELTA)

_Base: TypeAlias = int | str
"""What a delta starts from: the object at a place in the pack, or the one of an id."""


class BadPackError(CovaltError):
    """A pack that is none, is cut off, or holds what is too large."""

    code = "bad_pack"


@dataclass(frozen=True, slots=True)
class PackLimits:
    """What somebody may send; sizes are in bytes.

    Attributes:
        pack: of the pack itself.
        objects: how many there may be.
        blob: of the content of one file.
        other: of one commit or tree.
        together: of all objects and deltas, inflated.
    """

    pack: int
    objects: int
    blob: int
    other: int
    together: int


@dataclass(frozen=True, slots=True)
class _Stream:
    """Compressed bytes in the pack: where they begin and end, and how many they hold."""

    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of the pack; with a ``base``, the id of another, its stream is a delta of that."""

    stream: _Stream
    kind: bytes
    size: int
    base: str | None = None
    depth: int = 0


class IncomingPack:
    """The objects of one pack, once it was received."""

    def __init__(
        self,
        folder: Path,
        object_format: str,
        limits: PackLimits,
        otherwise: Callable[[str], tuple[bytes, bytes] | None],
    ) -> None:
        """Begin with none.

        ``folder`` is where there is room for it.  ``otherwise`` returns the kind and content of an
        object that is in the store already.
        """
        self._folder = folder
        self._hash = object_format
        self._limits = limits
        self._otherwise = otherwise
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._objects: dict[str, _Object] = {}
        self._kept: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self._kept_bytes = 0
        self._together = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._map is not None:
            self._map.close()
        if self._file is not None:
            self._file.close()

    def __contains__(self, oid: str) -> bool:
        return oid in self._objects

    # Receiving

    def receive(self, stream: Stream) -> None:
        """Take in a pack up to the stream's end, and find out what is in it.

        Raises:
            BadPackError: when it is none that may come in.
        """
        self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed on exit
        hasher = hashlib.new(self._hash, usedforsecurity=False)
        end = self._take_in(stream, self._file) - hasher.digest_size
        if end < PACK_HEADER:
            raise BadPackError("the pack is cut off")
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        with memoryview(self._map) as whole, whole[:end] as body:
            hasher.update(body)
            if hasher.digest() != whole[end:]:
                raise BadPackError("the pack is cut off, or was damaged on its way")
            try:
                deltas = self._scan(body)
                self._resolve(deltas)
            except DamagedObjectError as error:
                raise BadPackError(f"the pack holds what is no object: {error}") from None

    def _take_in(self, stream: Stream, file: IO[bytes]) -> int:
        """Write the pack to its file and return its size.

        One that is too large is read to its end all the same: git hears nothing while it sends.
        """
        size = 0
        while part := stream.read(_PART):
            size += len(part)
            if size <= self._limits.pack:
                file.write(part)
        if size > self._limits.pack:
            raise BadPackError(f"the pack is larger than {_in_mib(self._limits.pack)}")
        file.flush()
        return size

    def _scan(self, body: memoryview) -> _Deltas:
        """Find every entry of the pack and hash those that are whole; return the others."""
        if body[: len(PACK_START)] != PACK_START:
            raise BadPackError("the pack is of no version we know")
        count = int.from_bytes(body[len(PACK_START) : PACK_HEADER])
        if count > self._limits.objects:
            raise BadPackError(f"the pack holds {count:,} objects, {self._limits.objects:,} may be")
        deltas = _Deltas()
        at = PACK_HEADER
        for _ in range(count):
            place, start = at, bytes(body[at : at + LONGEST_HEADER])
            base: _Base | None = None
            try:
                number, size, length = kind_and_size(start)
                if number == OFFSET_DELTA:
                    back, length = distance_back(start, length)
                    base = place - back
                elif number == ID_DELTA:
                    width = hashlib.new(self._hash, usedforsecurity=False).digest_size
                    base = start[length : length + width].hex()
                    length += width
            except IndexError:
                raise BadPackError("the pack is cut off") from None
            if number not in _DELTAS and not 0 < number < len(KINDS):
                raise BadPackError(f"the pack has no object at {place}")
            self._check_size(b"blob" if number in _DELTAS else KINDS[number], size)
            content, at = inflate_within(body, place + length, size)
            stream = _Stream(place + length, at, size)
            if base is None:
                kind = KINDS[number]
                deltas.whole.append((place, self._note(_Object(stream, kind, size), content)))
            else:
                self._count(size)
                deltas.waiting.setdefault(base, []).append((place, stream))
        if at != len(body):
            raise BadPackError("the pack has more in it than it says")
        return deltas

    def _resolve(self, deltas: _Deltas) -> None:
        """Hash what is a delta, each after what it starts from."""
        for place, oid in deltas.whole:
            self._follow(oid, place, deltas)
        # What is left starts from what the store has, or from nothing at all.
        for base in list(deltas.waiting):
            if isinstance(base, str) and base in deltas.waiting and self._otherwise(base):
                self._follow(base, None, deltas)
        if deltas.waiting:
            raise BadPackError("a delta in the pack starts from what is neither there nor here")

    def _follow(self, oid: str, place: int | None, deltas: _Deltas) -> None:
        """Hash all that starts from an object, and from what that makes."""
        ready: list[tuple[str, int | None]] = [(oid, place)]
        while ready:
            base, at = ready.pop()
            for made_at, stream in deltas.of(base, at):
                ready.append((self._apply(base, stream), made_at))

    def _apply(self, base: str, stream: _Stream) -> str:
        """Hash what a delta makes of the object ``base``; return its id."""
        kind, content = self.read(base)
        delta = self._inflated(stream)
        try:
            size = delta_sizes(delta)[1]
        except IndexError:
            raise DamagedObjectError("a delta that is cut off") from None
        self._check_size(kind, size)
        depth = self._objects[base].depth + 1 if base in self._objects else 1
        if depth > _LONGEST_CHAIN:
            raise BadPackError("its deltas never end")
        return self._note(_Object(stream, kind, size, base, depth), applied(content, delta))

    def _note(self, found: _Object, content: bytes) -> str:
        self._count(found.size)
        oid = object_id(found.kind, content, self._hash)
        self._objects.setdefault(oid, found)
        self._keep(oid, found.kind, content)
        return oid

    def _check_size(self, kind: bytes, size: int) -> None:
        most = self._limits.blob if kind == b"blob" else self._limits.other
        if size > most:
            name = "file" if kind == b"blob" else kind.decode()
            raise BadPackError(f"the pack holds a {name} of more than {_in_mib(most)}")

    def _count(self, size: int) -> None:
        self._together += size
        if self._together > self._limits.together:
            most = _in_mib(self._limits.together)
            raise BadPackError(f"the pack holds more than {most} of objects")

    # Reading

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object that is here, or of one that the store has.

        Raises:
            DamagedObjectError: when it is in neither.
        """
        deltas: list[bytes] = []
        at = oid
        while (found := self._kept.get(at)) is None and at in self._objects:
            entry = self._objects[at]
            content = self._inflated(entry.stream)
            if entry.base is None:
                found = (entry.kind, content)
                break
            deltas.append(content)
            at = entry.base
        found = found or self._otherwise(at)
        if found is None:
            raise DamagedObjectError(f"{at} is gone")
        kind, content = found
        for delta in reversed(deltas):
            content = applied(content, delta)
        self._keep(oid, kind, content)
        return kind, content

    def size(self, oid: str) -> int:
        """Return how many bytes an object has that is here."""
        return self._objects[oid].size

    def in_order(self) -> Iterator[str]:
        """Yield the ids of the objects as they stand in the pack."""
        return iter(sorted(self._objects, key=lambda oid: self._objects[oid].stream.start))

    def entry(self, oid: str, distance: Callable[[str], int]) -> Entry:
        """Return an object as it stands in another pack.

        ``distance`` says how far back an object begins in that, 0 where it is not there.
        """
        found = self._objects[oid]
        back = 0 if found.base is None else distance(found.base)
        if found.base is not None and not back:
            return object_entry(*self.read(oid))
        assert self._map is not None
        stream = found.stream
        compressed = self._map[stream.start : stream.end]
        return copied_entry(KINDS.index(found.kind), stream.size, compressed, distance=back)

    def _inflated(self, stream: _Stream) -> bytes:
        assert self._map is not None
        with memoryview(self._map) as whole:
            return inflate_within(whole, stream.start, stream.size)[0]

    def _keep(self, oid: str, kind: bytes, content: bytes) -> None:
        """Keep an object for those that start from it; the oldest makes room."""
        if oid in self._kept:
            self._kept.move_to_end(oid)
            return
        self._kept[oid] = (kind, content)
        self._kept_bytes += len(content)
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1][1])


@dataclass(slots=True)
class _Deltas:
    """The whole objects of a pack with their places, and the deltas that wait for their base."""

    whole: list[tuple[int, str]] = field(default_factory=list)
    waiting: dict[_Base, list[tuple[int, _Stream]]] = field(default_factory=dict)

    def of(self, oid: str, place: int | None) -> list[tuple[int, _Stream]]:
        """Take out the deltas that start from an object: their places and their streams."""
        found = self.waiting.pop(oid, [])
        return found if place is None else found + self.waiting.pop(place, [])


def _in_mib(size: int) -> str:
    return f"{size >> 20} MiB"
