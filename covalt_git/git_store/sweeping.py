"""Removing objects that nothing reaches any more.

A pack with such objects is written anew without them, its compressed bytes as they stand; the new
one is on the disk before the old one goes, so that whoever is killed, or reads meanwhile, finds every
object that is reached in one of them.  Files that are young stay as they are: somebody who writes to
the store in another way may be about to lead a ref to what is in them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import DamagedObjectError
from covalt_git.git_store.pack_writing import Entry, PackWriter, copied_entry, object_entry
from covalt_git.git_store.packing import is_ours, remove_pack
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from covalt_git.git_store.object_folder import ObjectFolder
    from covalt_git.git_store.packs import Pack, PackedEntry


@dataclass(frozen=True, slots=True)
class Usage:
    """What a store takes: bytes of its files, objects, and how many packs they lie in."""

    size: int
    objects: int
    packs: int


def usage(objects: ObjectFolder) -> Usage:
    """Return what the objects of a store take."""
    objects.refresh()
    files = [path for path in objects.path.rglob("*") if path.is_file()]
    return Usage(
        size=sum(path.stat().st_size for path in files),
        objects=sum(pack.count for pack in objects.packs) + len(list(_loose(objects.path))),
        packs=len(objects.packs),
    )


def sweep(
    objects: ObjectFolder, live: Container[str], *, until: float, told: Callable[[str], None]
) -> None:
    """Remove the objects that are not ``live`` and lie in files last written before ``until``.

    That is in seconds since 1970; ``told`` hears what is being done, where it takes its time.
    """
    objects.refresh()
    for pack in [pack for pack in objects.packs if is_ours(pack)]:
        if os.stat(pack.file(".pack")).st_mtime < until and any(  # noqa: PTH116 - it is a string
            oid.hex() not in live for oid, *_ in pack.ids()
        ):
            told(f"writing {pack.name[:13]} anew")
            _sweep_pack(objects, pack, live)
    for path in _loose(objects.path):
        if path.parent.name + path.name not in live and path.stat().st_mtime < until:
            path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()
    objects.refresh()


def _loose(folder: Path) -> Iterator[Path]:
    return folder.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 38 + "*")


def _sweep_pack(objects: ObjectFolder, pack: Pack, live: Container[str]) -> None:
    """Write a pack anew with its live objects only; a damaged one stays as it is."""
    if not pack.is_whole():
        return
    writer = PackWriter(pack.folder, objects.object_format)
    ids = {offset: oid for oid, offset, _ in pack.ids()}
    places = [*sorted(ids), pack.body_end()]
    try:
        for place, end in itertools.pairwise(places):
            if ids[place].hex() in live and ids[place] not in writer:
                entry = pack.entry(place)
                writer.append(ids[place], _copied(writer, pack, entry, end, ids))
        if len(writer):
            writer.finish(durable=True)
            fsync(pack.folder)
    except DamagedObjectError:
        return
    finally:
        writer.abandon()
    remove_pack(pack)


def _copied(
    writer: PackWriter, pack: Pack, entry: PackedEntry, end: int, ids: dict[int, bytes]
) -> Entry:
    """Return an entry as it stands; whole, where what it starts from is not in the new pack."""
    stream = pack.bytes_between(entry.start, end)
    if entry.base is None:
        return copied_entry(entry.kind, entry.size, stream)
    base = ids.get(entry.base) if isinstance(entry.base, int) else entry.base
    if base is None or base not in writer:
        return object_entry(*pack.read(entry.offset))
    back = writer.end - writer.offset_of(base)
    return copied_entry(entry.kind, entry.size, stream, distance=back)
