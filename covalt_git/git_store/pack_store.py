"""Objects folder of a store: its packs, and the removal of packs and temporary files.

Format: ``gitformat-pack(5)``.  Dulwich's ``repack`` and ``pack_refs`` are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dulwich.objects import ObjectID, hex_to_sha
from dulwich.pack import PackFileDisappeared

from covalt_git.git_store.object_reader import ObjectStore
from covalt_git.git_store.pack_writer import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dulwich.pack import Pack

_SUFFIXES = (".pack", ".idx", ".rev", ".bitmap", ".mtimes")
_KEPT_BY_GIT = (".keep", ".promisor")


class PackStore(ObjectStore):
    """The ``objects`` folder of a store, for reading."""

    def __init__(self, folder: Path, object_format: str) -> None:
        super().__init__(folder, object_format)
        self.pack_folder = folder / "pack"
        self._use_midx = False  # dulwich would search for a multi-pack-index at every read

    def __del__(self) -> None:
        """Close the packs; dulwich warns of a store that was left open."""
        self.close()

    def _mark_pack_used(self, pack_hash: str) -> None:
        """Search this pack first from now on: the next object is mostly in the same one."""
        if next(iter(self._pack_cache)) != pack_hash:
            found = self._pack_cache.pop(pack_hash)
            self._pack_cache = {pack_hash: found, **self._pack_cache}

    def refresh(self) -> None:
        """Find packs that other processes have written or removed."""
        self._update_pack_cache()

    def is_packed(self, oid: str) -> bool:
        """Return whether an object is in a pack that is open."""
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
        """Return all packs without a ``.keep`` or ``.promisor`` file, by the path of the pack."""
        self.refresh()
        found = {self.pack_folder / f"{name}.pack": pack for name, pack in self._pack_cache.items()}
        return {path: pack for path, pack in found.items() if not _is_kept(path)}

    def forget_packs(self) -> None:
        """Close all packs, as when files were replaced under their names."""
        self._clear_cached_packs()


def _is_kept(pack: Path) -> bool:
    return any(pack.with_suffix(suffix).exists() for suffix in _KEPT_BY_GIT)


def remove_packs(folder: Path, packs: Iterable[Path]) -> None:
    """Remove packs.

    A multi-pack-index is removed first, since it would name removed packs; git writes it again.
    """
    (folder / "multi-pack-index").unlink(missing_ok=True)
    for pack in packs:
        for suffix in _SUFFIXES:  # the index after the pack: alone it is ignored, and cleared
            pack.with_suffix(suffix).unlink(missing_ok=True)


def clear_temporary(objects: Path) -> None:
    """Remove temporary files of processes that died from an ``objects`` folder.

    Empty loose objects are removed, too: a power cut leaves them of writes without fsync.
    """
    for path in [*objects.glob(f"{TEMPORARY}*"), *objects.glob(f"pack/{TEMPORARY}*")]:
        path.unlink(missing_ok=True)
    for index in objects.glob("pack/*.idx"):
        if not index.with_suffix(".pack").exists():
            index.unlink(missing_ok=True)
    for path in objects.glob("[0-9a-f][0-9a-f]/*"):
        if not path.stat().st_size:
            path.unlink()
