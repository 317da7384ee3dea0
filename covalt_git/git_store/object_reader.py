"""Reader of a git object store that verifies every object against its id.

Missing and damaged objects raise ``BrokenStoreError``, whatever dulwich raises for them.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from typing import TYPE_CHECKING

from dulwich.errors import ApplyDeltaError

from covalt_git.git_store.checking import why_bad_commit, why_bad_tree
from covalt_git.git_store.objects import (
    BrokenStoreError,
    CommitObject,
    DamagedObjectError,
    TreeEntry,
    decode_commit,
    decode_tree,
    find_in_tree,
    is_object_id,
    object_id,
    tree_differences,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.git_store.object_folder import ObjectFolder

DAMAGE = (
    ApplyDeltaError,
    DamagedObjectError,
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
    except (KeyError, *DAMAGE) as error:
        raise _broken(oid, path, error) from None


def _broken(oid: str, path: Path, error: Exception) -> BrokenStoreError:
    if isinstance(error, KeyError):
        return BrokenStoreError(f"{path} lacks the object {oid}")
    return BrokenStoreError(
        f"the object {oid} of {path} is damaged: {error}",
        hint=f"git -C {path} fsck lists all damaged objects",
    )


class ObjectReader:
    """Reader of one object store.  Not for use by several threads at once."""

    def __init__(self, objects: ObjectFolder) -> None:
        self.path = objects.path.parent
        self.objects = objects

    @property
    def object_format(self) -> str:
        """The hash of the store: ``sha1`` or ``sha256``."""
        return self.objects.object_format.name

    def has(self, oid: str) -> bool:
        """Return whether the store has an object."""
        return is_object_id(oid) and self.objects.has(oid)

    def find_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object, not verified.

        Raises:
            KeyError: when the store has no such object.
        """
        if not is_object_id(oid) or len(oid) != self.objects.object_format.hex_length:
            raise KeyError(oid)
        return self.objects.read(oid)

    def read_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object of any kind."""
        try:
            found = self.find_object(oid)
            if object_id(*found, self.object_format) != oid:
                raise DamagedObjectError("its content does not match its id")
        except (KeyError, *DAMAGE) as error:
            raise _broken(oid, self.path, error) from None
        return found

    def read_blob(self, oid: str) -> bytes:
        """Return a blob's content."""
        return self._read(oid, b"blob")

    def read_tree(self, oid: str) -> list[TreeEntry]:
        """Return a tree's entries in git's order."""
        with damage_of(oid, self.path):
            return decode_tree(self._read(oid, b"tree"), self._id_length)

    def find_in_tree(self, oid: str, name: bytes) -> TreeEntry | None:
        """Return the entry of a name in a tree, or None."""
        with damage_of(oid, self.path):
            return find_in_tree(self._read(oid, b"tree"), name, self._id_length)

    def read_commit(self, oid: str) -> CommitObject:
        """Return a commit."""
        with damage_of(oid, self.path):
            return decode_commit(self._read(oid, b"commit"))

    def blob_size(self, oid: str) -> int:
        """Return the size of a blob in bytes; if it is packed, only the header of its pack entry is read."""
        with damage_of(oid, self.path):
            return self.objects.size(oid)

    def tree_differences(
        self, old: str | None, new: str | None
    ) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """Return the names that differ between two trees, with both entries; None is the empty tree."""
        with damage_of(f"{old} or {new}", self.path):
            before, after = (self._read(oid, b"tree") if oid else b"" for oid in (old, new))
            return list(tree_differences(before, after, self._id_length))

    def read_note(self, oid: str) -> str:
        """Return the text of a blob, or of a tag object."""
        kind, content = self.read_object(oid)
        text = content if kind == b"blob" else self._read(oid, b"tag").partition(b"\n\n")[2]
        return text.decode("utf-8", "replace")

    def check_tree(self, oid: str) -> str:
        """Return the first error that ``git fsck --strict`` reports for a tree, except for its names; or an empty text."""
        return why_bad_tree(self._read(oid, b"tree"), self._id_length)

    def check_commit(self, oid: str) -> str:
        """Return the first error that ``git fsck --strict`` reports for a commit alone, or an empty text."""
        return why_bad_commit(self._read(oid, b"commit"), self._id_length)

    @property
    def _id_length(self) -> int:
        return self.objects.object_format.oid_length

    def _read(self, oid: str, kind: bytes) -> bytes:
        found, content = self.read_object(oid)
        if found != kind:
            raise BrokenStoreError(f"the object {oid} of {self.path} is not a {kind.decode()}")
        return content
