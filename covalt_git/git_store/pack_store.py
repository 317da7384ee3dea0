"""Packs of one store: dulwich's object store for reading, and a writer of new packs.

A pack gets its name after its content and its index are fsynced, the index first, so that git never finds
a pack without one.  Format: ``gitformat-pack(5)``.  Dulwich's own ``add_objects`` names the pack before
its index and does not fsync the folder; its ``repack`` and ``pack_refs`` are not used.
"""

from __future__ import annotations

import os
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from dulwich.objects import ObjectID, hex_to_sha
from dulwich.pack import (
    OFS_DELTA,
    PackFileDisappeared,
    pack_header_chunks,
    pack_object_header,
    write_pack_index,
)

from covalt_git.git_store.object_reader import ObjectStore
from covalt_git.names import new_id
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dulwich.object_format import ObjectFormat
    from dulwich.pack import Pack

TEMPORARY = "tmp_"
"""Start of the names of files that are being written, which git ignores and prunes, too."""

LEVEL = 1
"""zlib's level: higher ones take several times as long and save a tenth."""

_SUFFIXES = (".pack", ".idx", ".rev", ".bitmap", ".mtimes")
_KEPT_BY_GIT = (".keep", ".promisor")


class PackStore(ObjectStore):
    """The ``objects`` folder of a store, for reading; packs that others write are found when needed."""

    def __init__(self, folder: Path, object_format: str) -> None:
        super().__init__(folder, object_format)
        self.pack_folder = folder / "pack"
        self._use_midx = False  # dulwich would look for one at every read; the packs have all of it

    def __del__(self) -> None:
        """Close the packs; dulwich warns of a store that was left open."""
        self.close()

    def refresh(self) -> None:
        """Look for packs that others have written or removed."""
        self._update_pack_cache()

    def is_packed(self, oid: str) -> bool:
        """Return whether an object is in a pack that is open, without looking for others."""
        raw = hex_to_sha(ObjectID(oid.encode()))
        try:
            return any(raw in pack for pack in self._iter_cached_packs())
        except PackFileDisappeared:  # git has replaced it
            self.refresh()
            return any(raw in pack for pack in self._iter_cached_packs())

    @property
    def pack_count(self) -> int:
        """How many packs are open."""
        return len(self._pack_cache)

    def open_packs(self) -> dict[Path, Pack]:
        """Return all packs by the path of their ``.pack`` file, but those that git is told to keep."""
        self.refresh()
        found = {self.pack_folder / f"{name}.pack": pack for name, pack in self._pack_cache.items()}
        return {path: pack for path, pack in found.items() if not _is_kept(path)}

    def forget_packs(self) -> None:
        """Close all packs: there may be others under the same names by now."""
        self._clear_cached_packs()


def _is_kept(pack: Path) -> bool:
    return any(pack.with_suffix(suffix).exists() for suffix in _KEPT_BY_GIT)


def remove_packs(folder: Path, packs: Iterable[Path]) -> None:
    """Remove packs whose objects are elsewhere, or needed no more; other packs are not touched.

    An index over several packs goes first: it would name what is gone, and git makes it again.
    """
    (folder / "multi-pack-index").unlink(missing_ok=True)
    for pack in packs:
        for suffix in _SUFFIXES:  # the index after the pack: alone it is ignored, and cleared
            pack.with_suffix(suffix).unlink(missing_ok=True)


class PackWriter:
    """A pack of a known number of objects, under temporary names until :meth:`finish`."""

    def __init__(self, folder: Path, object_format: ObjectFormat, count: int) -> None:
        folder.mkdir(exist_ok=True)
        self.entries: dict[bytes, tuple[int, int]] = {}
        self._folder = folder
        self._format = object_format
        self._hasher = object_format.new_hash()
        self._place = 0
        self._files = ExitStack()
        self._file = self._temporary_file("pack")
        for chunk in pack_header_chunks(count):
            self._write(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, raw: bytes, kind: int, content: bytes, *, base: bytes | None = None) -> None:
        """Add an object of a raw id; with a ``base``, which was added before, ``content`` is the delta."""
        self.add_compressed(raw, kind, len(content), zlib.compress(content, LEVEL), base=base)

    def add_compressed(
        self, raw: bytes, kind: int, size: int, stream: bytes, *, base: bytes | None = None
    ) -> None:
        """Add an object whose ``size`` bytes of content, or delta, are a zlib stream already."""
        distance = None if base is None else self._place - self.entries[base][0]
        number = kind if base is None else OFS_DELTA
        start = self._place
        header = bytes(pack_object_header(number, distance, size, self._format))
        self._write(header)
        self._write(stream)
        self.entries[raw] = start, zlib.crc32(stream, zlib.crc32(header))

    def finish(self, *, durable: bool) -> Path:
        """Give the pack its name, fsynced if it is to be ``durable``; return its path."""
        checksum = self._hasher.digest()
        self._file.write(checksum)
        index = self._temporary_file("idx")
        rows = sorted((raw, place, check) for raw, (place, check) in self.entries.items())
        write_pack_index(index, rows, checksum)
        for file in (self._file, index):
            file.flush()
            os.fchmod(file.fileno(), 0o444)
            if durable:
                os.fsync(file.fileno())
        path = self._folder / f"pack-{checksum.hex()}.pack"
        Path(index.name).rename(path.with_suffix(".idx"))
        Path(self._file.name).rename(path)
        if durable:
            fsync(self._folder)
        return path

    def _write(self, part: bytes) -> None:
        self._hasher.update(part)
        self._file.write(part)
        self._place += len(part)

    def _temporary_file(self, kind: str) -> IO[bytes]:
        path = self._folder / f"{TEMPORARY}{kind}_{new_id()}"
        file = self._files.enter_context(path.open("xb"))
        self._files.callback(path.unlink, missing_ok=True)
        return file


def clear_temporary(objects: Path) -> None:
    """Remove what processes that died were writing to an ``objects`` folder.

    An empty loose object is what a power cut leaves of others' unsynced writes.
    """
    for path in [*objects.glob(f"{TEMPORARY}*"), *objects.glob(f"pack/{TEMPORARY}*")]:
        path.unlink(missing_ok=True)
    for index in objects.glob("pack/*.idx"):
        if not index.with_suffix(".pack").exists():
            index.unlink(missing_ok=True)
    for path in objects.glob("[0-9a-f][0-9a-f]/*"):
        if not path.stat().st_size:
            path.unlink()
