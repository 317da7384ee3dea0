"""The pack that answers a fetch: what lies packed is sent as it lies, without being inflated.

Format: ``gitformat-pack(5)``.  Whoever fetches checks every object by its id, as git does.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.git_store.pack_writing import copied_entry, object_entry
from covalt_git.git_store.packs import PACK_HEADER, PACK_START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.git_store.object_folder import ObjectFolder
    from covalt_git.git_store.packs import Pack

_PART = 1 << 16
_FEW = (
    16  # of a pack of which less than a 16th is sent, finding out what lies where is not worth it
)


def pack_of(
    objects: ObjectFolder,
    oids: Iterable[str],
    read: Callable[[str], tuple[bytes, bytes]],
    *,
    deltas: bool = True,
) -> Iterator[bytes]:
    """Yield a pack of some objects, each named once; ``read`` returns the kind and content of one.

    Without ``deltas`` each of them is sent whole.

    Raises:
        BrokenStoreError: when ``read`` does.
    """
    return _Outgoing(objects, read, deltas).parts(list(oids))


@dataclass(slots=True)
class _Layout:
    """What lies where in a pack: the places of its objects, in order, and the id at each."""

    places: list[int]
    ids: dict[int, bytes]
    end: int

    @classmethod
    def of(cls, pack: Pack) -> _Layout:
        ids = {offset: oid for oid, offset, _ in pack.ids()}
        return cls(sorted(ids), ids, pack.body_end())

    def after(self, offset: int) -> int:
        """Return where the object that begins at ``offset`` ends."""
        next_one = bisect_right(self.places, offset)
        return self.places[next_one] if next_one < len(self.places) else self.end


@dataclass(slots=True)
class _Outgoing:
    """A pack on its way out."""

    objects: ObjectFolder
    read: Callable[[str], tuple[bytes, bytes]]
    deltas: bool
    _sent: dict[bytes, int] = field(default_factory=dict)
    _end: int = PACK_HEADER

    def parts(self, oids: list[str]) -> Iterator[bytes]:
        """Yield the pack's header, its entries and its checksum, some at a time."""
        hasher = hashlib.new(self.objects.object_format, usedforsecurity=False)
        waiting = [PACK_START + struct.pack(">I", len(oids))]
        size = 0
        for oid, entry in self._entries(oids):
            self._sent[oid] = self._end
            self._end += len(entry)
            waiting.append(entry)
            size += len(entry)
            if size >= _PART:
                part = b"".join(waiting)
                hasher.update(part)
                yield part
                waiting, size = [], 0
        part = b"".join(waiting)
        hasher.update(part)
        yield part + hasher.digest()

    def _entries(self, oids: list[str]) -> Iterator[tuple[bytes, bytes]]:
        # Loose ones first: one that was packed up meanwhile makes the folder look for its packs anew.
        for oid in oids:
            if self.objects.find_packed(oid) is None:
                yield bytes.fromhex(oid), object_entry(*self.read(oid)).written
        packed: dict[Pack, list[tuple[int, str]]] = {}
        for oid in oids:
            found = self.objects.find_packed(oid)
            if found is not None and bytes.fromhex(oid) not in self._sent:
                packed.setdefault(found[0], []).append((found[1], oid))
        for pack, places in packed.items():
            layout = _Layout.of(pack) if len(places) * _FEW > pack.count else None
            for offset, oid in sorted(
                places
            ):  # so that what a delta starts from is there before it
                yield bytes.fromhex(oid), self._packed(pack, layout, offset, oid)

    def _packed(self, pack: Pack, layout: _Layout | None, offset: int, oid: str) -> bytes:
        if layout is not None:
            entry = pack.entry(offset)
            back = self._distance(layout, entry.base)
            if entry.base is None or (back and self.deltas):
                stream = pack.bytes_between(entry.start, layout.after(offset))
                return copied_entry(entry.kind, entry.size, stream, distance=back).written
        return object_entry(*self.read(oid)).written

    def _distance(self, layout: _Layout, base: int | bytes | None) -> int:
        """Return how far back the base of a delta was sent; 0 where it was not, or is none."""
        raw = layout.ids.get(base) if isinstance(base, int) else base
        sent = None if raw is None else self._sent.get(raw)
        return 0 if sent is None else self._end - sent
