"""Reader of a git object store that verifies every object against its id: packs, loose objects and alternates.

Missing and damaged objects raise ``BrokenStoreError``.

Formats: ``gitrepository-layout(5)``, ``gitformat-pack(5)``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import zlib
from typing import TYPE_CHECKING

from dulwich.errors import ApplyDeltaError, ObjectFormatException
from dulwich.object_format import get_object_format
from dulwich.objects import parse_tree

from covalt_git.git_store.objects import (
    KINDS,
    BrokenStoreError,
    CommitObject,
    DamagedObjectError,
    TreeEntry,
    decode_commit,
    is_object_id,
    object_id,
)
from covalt_git.git_store.packs import PackFile, encoded, new_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from covalt_git.git_store.packs import PackEntry

    _Row = tuple[bytes, int, bytes]

DAMAGE = (
    ApplyDeltaError,
    AssertionError,  # of dulwich, for indexes
    DamagedObjectError,
    ObjectFormatException,
    OSError,
    OverflowError,
    RecursionError,  # alternates that name each other
    ValueError,
    struct.error,
    zlib.error,
)
"""What is raised for objects, packs and indexes that are not as git wrote them."""


@contextlib.contextmanager
def damage_of(oid: str, path: Path) -> Iterator[None]:
    """Convert errors about an object of the store at ``path`` to ``BrokenStoreError``."""
    try:
        yield
    except KeyError:
        raise BrokenStoreError(f"{path} lacks the object {oid}") from None
    except DAMAGE as error:
        raise BrokenStoreError(
            f"the object {oid} of {path} is damaged: {error}",
            hint=f"git -C {path} fsck lists all damaged objects",
        ) from None


class ObjectReader:
    """Reader of one object store.  Packs stay open until :meth:`close`.  Not for use by several threads at once.

    Attributes:
        folder: the folder ``objects`` of the store.
        path: the store, for messages.

    Objects that are not stored yet are in ``_pending``: their kinds and contents by their ids.
    """

    def __init__(self, folder: Path, object_format: str) -> None:
        self.folder = folder
        self.pack_folder = folder / "pack"
        self.path = folder.parent
        self.object_format = object_format
        self.format = get_object_format(object_format)
        self._packs: list[PackFile] = []
        self._pending: dict[str, tuple[bytes, bytes]] = {}

    def close(self) -> None:
        """Close all packs, for example after their files were replaced."""
        self._packs = []  # each mapping is closed when its last reference is deleted

    # Packs, loose objects and alternates

    @functools.cached_property
    def alternates(self) -> Sequence[ObjectReader]:
        """Readers of the folders that ``info/alternates`` lists."""
        try:
            lines = (self.folder / "info" / "alternates").read_bytes().splitlines()
        except FileNotFoundError:
            return ()
        paths = [os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
        return [ObjectReader(self.folder / path, self.object_format) for path in paths]

    def refresh(self) -> bool:
        """Find packs that other processes have written or removed; return whether any is new."""
        names: set[str] = set()
        with contextlib.suppress(FileNotFoundError), os.scandir(self.pack_folder) as entries:
            names.update(entry.name for entry in entries)
        # A writer renames the index before the pack, and gc removes it after the pack: with both names, a pack
        # is complete.
        usable = {name for name in names if name.endswith(".pack") and f"{name[:-5]}.idx" in names}
        still_there = [pack for pack in self._packs if pack.path.name in usable]
        new = [
            PackFile(self.pack_folder / name, self.format)
            for name in usable.difference(pack.path.name for pack in still_there)
        ]
        self._packs = new + still_there
        return bool(new)

    @property
    def packs(self) -> list[PackFile]:
        """The packs that exist now."""
        self.refresh()
        return list(self._packs)

    def loose_objects(self) -> dict[str, Path]:
        """Return the files of the loose objects by their ids."""
        files = self.folder.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 38 + "*")
        return {path.parent.name + path.name: path for path in files}

    def find_packed(self, oid: str) -> tuple[PackFile, int] | None:
        """Return the pack of an object and its offset in the pack; None if no known pack has it."""
        raw = bytes.fromhex(oid)
        for number, pack in enumerate(self._packs):
            try:
                offset = pack.find(raw)
            except FileNotFoundError:  # another process has removed it
                continue
            if offset is not None:
                if number:  # the next object is usually in the same pack
                    self._packs.insert(0, self._packs.pop(number))
                return pack, offset
        return None

    # Objects

    def has(self, oid: str) -> bool:
        """Return whether an object is stored or pending; False for a damaged loose object."""
        # A damaged loose object counts as missing, so that the next writer stores its content again.
        with contextlib.suppress(KeyError, *DAMAGE):
            return bool(oid in self._pending or self.find_packed(oid) or self.find_object(oid))
        return False

    def find_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object, stored or pending, not verified.

        Raises:
            KeyError: when neither the store nor an alternate has the object.
        """
        if oid in self._pending:
            return self._pending[oid]
        # An id may come from an object that others made, and becomes a path below.
        if not is_object_id(oid) or len(oid) != self.format.hex_length:
            raise KeyError(oid)
        # Another process may repack while this looks: then the object is in a pack that was not there at the
        # last listing (test_pack_that_appears_or_goes_while_a_store_is_open_is_no_matter).
        while True:
            if place := self.find_packed(oid):
                pack, offset = place
                return pack.read(offset, self.find_object)
            with contextlib.suppress(FileNotFoundError):
                return _loose_object(self.folder / oid[:2] / oid[2:])
            if not self.refresh():
                break
        for other in self.alternates:
            with contextlib.suppress(KeyError):
                return other.find_object(oid)
        raise KeyError(oid)

    def read_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object of any kind."""
        with damage_of(oid, self.path):
            kind, content = self.find_object(oid)
            if object_id(kind, content, self.object_format) != oid:
                raise DamagedObjectError("its content does not match its id")
            return kind, content

    def read_content(self, oid: str, kind: bytes) -> bytes:
        """Return the content of an object of a kind."""
        stored_kind, content = self.read_object(oid)
        if stored_kind != kind:
            raise BrokenStoreError(f"the object {oid} of {self.path} is not a {kind.decode()}")
        return content

    def entries(self, ids: Iterable[str]) -> Iterator[PackEntry]:
        """Yield the entries of some objects for a pack, each once.

        Entries of existing packs are copied, a delta only if its base precedes it; every other object is read.
        """

        def complete(oid: bytes) -> PackEntry:
            return new_entry(oid.hex(), *self.read_object(oid.hex()))

        left = dict.fromkeys(map(bytes.fromhex, ids))
        sent: set[bytes] = set()
        for pack in self.packs:
            with (
                damage_of(f"in {pack.path.name}", self.path),
                # If gc has removed the pack, its objects are read one by one below.
                contextlib.suppress(FileNotFoundError),
            ):
                for entry in pack.copies(left):
                    # Only after its base: entries of several packs could otherwise be based on each other in a
                    # circle.
                    is_complete = entry.base is None or entry.base in sent
                    sent.add(entry.oid)
                    del left[entry.oid]
                    yield entry if is_complete else complete(entry.oid)
        yield from map(complete, left)

    def pack(self, ids: Iterable[str]) -> Iterator[bytes]:
        """Yield a pack of some objects."""
        oids = dict.fromkeys(ids)  # the header of a pack has their number, so each counts once
        return encoded(self.entries(oids), len(oids), self.format, {})

    def blob_size(self, oid: str) -> int:
        """Return the size of a blob in bytes; if it is packed, only the header of its pack entry is read."""
        with damage_of(oid, self.path):
            for reader in (self, *self.alternates):
                place = reader.find_packed(oid)
                if place is None and reader.refresh():
                    place = reader.find_packed(oid)
                if place is not None:
                    pack, offset = place
                    return pack.size(offset)
            return len(self.find_object(oid)[1])

    def read_blob(self, oid: str) -> bytes:
        return self.read_content(oid, b"blob")

    def read_tree(self, oid: str) -> list[TreeEntry]:
        """Return a tree's entries in git's order."""
        return [_entry(row) for row in self._rows(oid)]

    def find_in_tree(self, oid: str, name: bytes) -> TreeEntry | None:
        """Return the entry of a name in a tree, or None."""
        return next((_entry(row) for row in self._rows(oid) if row[0] == name), None)

    def read_commit(self, oid: str) -> CommitObject:
        with damage_of(oid, self.path):
            return decode_commit(self.read_content(oid, b"commit"))

    def tree_differences(
        self, old: str | None, new: str | None
    ) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """Return the names that differ between two trees, with both entries; None is the empty tree."""
        contents = [self.read_content(oid, b"tree") if oid else b"" for oid in (old, new)]
        with damage_of(f"{old} or {new}", self.path):
            return tree_differences(contents[0], contents[1], self.format.oid_length)

    def read_note(self, oid: str) -> str:
        """Return the text of a blob, or of a tag object."""
        kind, content = self.read_object(oid)  # version 0.1 stored calls and approvals as tags
        text = content if kind == b"blob" else self.read_content(oid, b"tag").partition(b"\n\n")[2]
        return text.decode("utf-8", "replace")

    def _rows(self, oid: str) -> list[_Row]:
        content = self.read_content(oid, b"tree")
        with damage_of(oid, self.path):
            return list(parse_tree(content, self.format.oid_length))


def tree_differences(
    old: bytes, new: bytes, id_length: int
) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
    """Return the names that differ between the contents of two trees, with both entries.

    It takes a quarter of the time of dulwich's ``tree_changes`` (0.8 ms for 94 changes in 1,000 files).
    """
    old_rows, new_rows = set(parse_tree(old, id_length)), set(parse_tree(new, id_length))
    gone = {row[0]: _entry(row) for row in old_rows - new_rows}
    come = {row[0]: _entry(row) for row in new_rows - old_rows}
    return [(name, gone.get(name), come.get(name)) for name in gone | come]


def _entry(row: _Row) -> TreeEntry:
    name, mode, oid = row
    return TreeEntry(name, mode, oid.decode())


def _loose_object(path: Path) -> tuple[bytes, bytes]:
    header, _, content = zlib.decompress(path.read_bytes()).partition(b"\0")
    kind, _, size = header.partition(b" ")
    if kind not in KINDS or int(size) != len(content):
        raise DamagedObjectError("its header is damaged")
    return kind, content
