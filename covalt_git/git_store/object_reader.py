"""Reader of a git object store that verifies every object against its id.

Missing and damaged objects raise ``BrokenStoreError``, whatever dulwich raises for them.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import traceback
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    ObjectFormatException,
)
from dulwich.object_format import get_object_format
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID, RawObjectID
from dulwich.pack import PackFileDisappeared, UnresolvedDeltas

from covalt_git.git_store.checking import why_bad_commit, why_bad_tree
from covalt_git.git_store.objects import (
    KINDS,
    BrokenStoreError,
    CommitObject,
    DamagedObjectError,
    TreeEntry,
    decode_commit,
    decode_tree,
    is_object_id,
    object_id,
    tree_differences,
)
from covalt_git.git_store.pack_entries import object_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dulwich.object_store import BaseObjectStore
    from dulwich.pack import Pack

DAMAGE = (
    ApplyDeltaError,
    AssertionError,
    ChecksumMismatch,
    DamagedObjectError,
    FileFormatException,
    ObjectFormatException,
    OSError,
    OverflowError,
    PackFileDisappeared,
    TypeError,
    UnresolvedDeltas,
    ValueError,
    struct.error,
    zlib.error,
)
"""What dulwich raises for objects, packs and indexes that are not as git wrote them."""


class ObjectStore(DiskObjectStore):
    """Dulwich's store of an ``objects`` folder, with alternates of the same object format."""

    def __init__(self, folder: Path | str, object_format: str) -> None:
        super().__init__(
            str(folder),
            object_format=get_object_format(object_format),
            loose_object_size_limit=sys.maxsize >> 1,
        )

    @property
    def alternates(self) -> list[BaseObjectStore]:
        """The stores that ``info/alternates`` lists; dulwich would open them as sha1."""
        if self._alternates is None:
            paths = self._read_alternate_paths()
            self._alternates = [ObjectStore(path, self.object_format.name) for path in paths]
        return self._alternates

    @property
    def packs(self) -> list[Pack]:
        """The packs that exist now; dulwich would return removed ones once more."""
        self._update_pack_cache()
        return list(self._iter_cached_packs())


@contextlib.contextmanager
def damage_of(oid: str, path: Path | str) -> Iterator[None]:
    """Raise dulwich's errors over an object of the store at ``path`` as ``BrokenStoreError``."""
    try:
        yield
    except KeyError:
        raise BrokenStoreError(f"{path} lacks the object {oid}") from None
    except DAMAGE as error:
        # Dulwich cannot close a pack while the frames of zlib's error hold a view of it.
        traceback.clear_frames(error.__traceback__)
        raise BrokenStoreError(
            f"the object {oid} of {path} is damaged: {error}",
            hint=f"git -C {path} fsck names everything that is",
        ) from None


class ObjectReader:
    """Reader of one object store.  Not for use by several threads at once."""

    path: Path
    objects: DiskObjectStore

    def __init__(self, objects: DiskObjectStore) -> None:
        self.path = Path(objects.path).parent
        self.objects = objects

    @property
    def object_format(self) -> str:
        """Git's hash here: ``sha1`` or ``sha256``."""
        return self.objects.object_format.name

    def has(self, oid: str) -> bool:
        """Return whether the store has an object."""
        return is_object_id(oid) and ObjectID(oid.encode()) in self.objects

    def find_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object, not verified.

        Raises:
            KeyError: when the store has no such object.
        """
        if not is_object_id(oid) or len(oid) != self.objects.object_format.hex_length:
            raise KeyError(oid)
        number, content = self.objects.get_raw(ObjectID(oid.encode()))
        return KINDS[number], bytes(content)

    def read_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object of any kind."""
        with damage_of(oid, self.path):
            found = self.find_object(oid)
            verified = object_id(*found, self.object_format) == oid
        if not verified:
            raise BrokenStoreError(f"the object {oid} of {self.path} is damaged: it is another one")
        return found

    def read_blob(self, oid: str) -> bytes:
        """Return a blob's content."""
        return self._read(oid, b"blob")

    def read_tree(self, oid: str) -> list[TreeEntry]:
        """Return a tree's entries in git's order."""
        content = self._read(oid, b"tree")
        with damage_of(oid, self.path):
            return decode_tree(content, self._id_length)

    def read_commit(self, oid: str) -> CommitObject:
        """Return a commit."""
        content = self._read(oid, b"commit")
        with damage_of(oid, self.path):
            return decode_commit(content)

    def blob_size(self, oid: str) -> int:
        """Return the size of a blob in bytes, from the header of its pack entry where it is packed."""
        with damage_of(oid, self.path):
            stores = (self.objects, *self.objects.alternates)
            for pack in (pack for store in stores for pack in store.packs):
                with contextlib.suppress(KeyError, FileNotFoundError):
                    offset = pack.index.object_offset(RawObjectID(bytes.fromhex(oid)))
                    return object_size(pack, offset)
        return len(self.read_blob(oid))

    def tree_differences(
        self, old: str | None, new: str | None
    ) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """Return the names that differ between two trees, with both entries; None is the empty tree."""
        before = self._read(old, b"tree") if old else b""
        after = self._read(new, b"tree") if new else b""
        with damage_of(f"{old} or {new}", self.path):
            return list(tree_differences(before, after, self._id_length))

    def read_note(self, oid: str) -> str:
        """Return the text of a blob, or of a tag object."""
        kind, content = self.read_object(oid)
        text = content if kind == b"blob" else self._read(oid, b"tag").partition(b"\n\n")[2]
        return text.decode("utf-8", "replace")

    def check_tree(self, oid: str) -> str:
        """Return what ``git fsck --strict`` reports of a tree apart from its names, or nothing."""
        return why_bad_tree(self._read(oid, b"tree"), self._id_length)

    def check_commit(self, oid: str) -> str:
        """Return what ``git fsck --strict`` reports of a commit by itself, or nothing."""
        return why_bad_commit(self._read(oid, b"commit"), self._id_length)

    @property
    def _id_length(self) -> int:
        return self.objects.object_format.oid_length

    def _read(self, oid: str, kind: bytes) -> bytes:
        found, content = self.read_object(oid)
        if found != kind:
            raise BrokenStoreError(f"the object {oid} of {self.path} is no {kind.decode()}")
        return content
