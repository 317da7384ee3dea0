"""Folder ``objects`` of a store: its packs, loose objects and alternates; linking and removing packs.

Formats: ``gitrepository-layout(5)``, ``gitformat-pack(5)``.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import zlib
from typing import TYPE_CHECKING

from dulwich.object_format import get_object_format

from covalt_git.git_store.objects import KINDS, BrokenStoreError, DamagedObjectError
from covalt_git.git_store.pack_file import PackFile
from covalt_git.git_store.pack_writer import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_SUFFIXES = (".pack", ".idx", ".rev", ".bitmap", ".mtimes")
_PROTECTED_BY_GIT = (".keep", ".promisor")
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


class ObjectFolder:
    """The ``objects`` folder of a store, for reading.  Packs stay open until :meth:`close`."""

    def __init__(self, path: Path, object_format: str) -> None:
        self.path = path
        self.pack_folder = path / "pack"
        self.object_format = get_object_format(object_format)
        self._packs: list[PackFile] = []

    def close(self) -> None:
        """Close all packs, for example after their files were replaced."""
        self._packs = []  # each mapping is closed when its last reference is deleted

    @functools.cached_property
    def alternates(self) -> Sequence[ObjectFolder]:
        """The folders that ``info/alternates`` lists."""
        try:
            lines = (self.path / "info" / "alternates").read_bytes().splitlines()
        except FileNotFoundError:
            return ()
        paths = [os.fsdecode(line) for line in lines if line and not line.startswith(b"#")]
        return [ObjectFolder(self.path / path, self.object_format.name) for path in paths]

    def refresh(self) -> bool:
        """Find packs that other processes have written or removed; return whether any is new."""
        names: set[str] = set()
        with contextlib.suppress(FileNotFoundError), os.scandir(self.pack_folder) as entries:
            names.update(entry.name for entry in entries)
        found = {name for name in names if name.endswith(".pack") and f"{name[:-5]}.idx" in names}
        known = [pack for pack in self._packs if pack.path.name in found]
        length = self.object_format.oid_length
        new = [
            PackFile(self.pack_folder / name, length)
            for name in found.difference(pack.path.name for pack in known)
        ]
        self._packs = new + known
        return bool(new)

    @property
    def packs(self) -> list[PackFile]:
        """The packs that exist now."""
        self.refresh()
        return list(self._packs)

    def replaceable_packs(self) -> dict[Path, PackFile]:
        """Return the packs without a ``.keep`` or ``.promisor`` file by their paths."""
        return {pack.path: pack for pack in self.packs if not _is_protected(pack.path)}

    def loose_objects(self) -> dict[str, Path]:
        """Return the files of the loose objects by their ids."""
        files = self.path.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 38 + "*")
        return {path.parent.name + path.name: path for path in files}

    def find(self, oid: str) -> tuple[PackFile, int] | None:
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

    def has(self, oid: str) -> bool:
        """Return whether an object is in this folder or an alternate; a loose object is read to check it."""
        if self.find(oid):
            return True
        with contextlib.suppress(KeyError):
            return bool(self.read(oid))
        return False

    def read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object, not verified.

        Raises:
            KeyError: when neither this folder nor an alternate has it.
        """
        while True:
            if found := self.find(oid):
                pack, offset = found
                return pack.read(offset, lambda base: self.read(base.hex()))
            with contextlib.suppress(FileNotFoundError):
                return _loose_object(self.path / oid[:2] / oid[2:])
            if not self.refresh():
                break
        for other in self.alternates:
            with contextlib.suppress(KeyError):
                return other.read(oid)
        raise KeyError(oid)

    def size(self, oid: str) -> int:
        """Return the size of an object, from the header of its entry where it is packed."""
        for folder in (self, *self.alternates):
            folder.refresh()
            if found := folder.find(oid):
                pack, offset = found
                return pack.size(offset)
        return len(self.read(oid)[1])


def _loose_object(path: Path) -> tuple[bytes, bytes]:
    header, _, content = zlib.decompress(path.read_bytes()).partition(b"\0")
    kind, _, size = header.partition(b" ")
    if kind not in KINDS or int(size) != len(content):
        raise DamagedObjectError("its header is damaged")
    return kind, content


def _is_protected(pack: Path) -> bool:
    return any(pack.with_suffix(suffix).exists() for suffix in _PROTECTED_BY_GIT)


def link_objects(source: ObjectFolder, target: ObjectFolder) -> None:
    """Hard-link all packs and loose objects into another folder, so that they exist as long as one folder has them.

    The caller holds the lock of the source's chat, and fsyncs the target.

    Raises:
        BrokenStoreError: if the source has alternates, that is, borrows objects from a third folder.
    """
    if source.alternates:
        store = source.path.parent
        raise BrokenStoreError(
            f"{store} borrows objects from another store",
            hint=f"git -C {store} repack -a -d, then rm {source.path}/info/alternates",
        )
    packs = [pack.path for pack in source.packs]
    indexes = [pack.with_suffix(".idx") for pack in packs]
    for path in [*indexes, *packs, *source.loose_objects().values()]:
        copy = target.path / path.relative_to(source.path)
        copy.parent.mkdir(exist_ok=True)
        try:
            os.link(path, copy)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            shutil.copy(path, copy)
    target.refresh()


def remove_packs(folder: Path, packs: Iterable[Path]) -> None:
    """Remove packs.

    A multi-pack-index is removed first, because it would name removed packs; git writes a new one.
    """
    (folder / "multi-pack-index").unlink(missing_ok=True)
    for pack in packs:
        for (
            suffix
        ) in _SUFFIXES:  # the index last: an index without its pack is ignored, and deleted
            pack.with_suffix(suffix).unlink(missing_ok=True)


def clear_temporary(objects: Path) -> None:
    """Remove temporary files of processes that died from an ``objects`` folder.

    Empty loose objects are removed, too: a power cut can leave them after writes without fsync.
    """
    for path in [*objects.glob(f"{TEMPORARY}*"), *objects.glob(f"pack/{TEMPORARY}*")]:
        path.unlink(missing_ok=True)
    for index in objects.glob("pack/*.idx"):
        if not index.with_suffix(".pack").exists():
            index.unlink(missing_ok=True)
    for path in objects.glob("[0-9a-f][0-9a-f]/*"):
        if not path.stat().st_size:
            path.unlink()
