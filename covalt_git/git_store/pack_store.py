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
    """The ``objects`` folder of a store, for reading; packs that others write are found when needed."""

    def __init__(self, folder: Path, object_format: str) -> None:
        super().__init__(folder, object_format)
        self.pack_folder = folder / "pack"
        self._use_midx = False  # dulwich would look for one at every read; the packs have all of it

    def __del__(self) -> None:
        """Close the packs; dulwich warns of a store that was left open."""
        self.close()

    def _mark_pack_used(self, pack_hash: str) -> None:
        """Search this pack first: the next object is mostly there, too."""
        if next(iter(self._pack_cache)) != pack_hash:
            found = self._pack_cache.pop(pack_hash)
            self._pack_cache = {pack_hash: found, **self._pack_cache}

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
