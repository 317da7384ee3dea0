"""The ``objects`` folder of a store: loose objects, packs, and those on their way there.

Nothing ever stands under an object's or a pack's name but the whole of it.  What is found there may
have been written by a process that was killed before the name was on the disk; whoever builds on it
makes the name durable again.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from covalt_git.git_store.compression import inflate, inflate_start
from covalt_git.git_store.gathering import Gathering
from covalt_git.git_store.new_store import loose_stream
from covalt_git.git_store.objects import KINDS, DamagedObjectError, object_id
from covalt_git.git_store.pack_writing import TEMPORARY, UnnamedFile
from covalt_git.git_store.packs import Pack
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


MOST_LOOSE = 2
"""Of objects that are stored together, how many lie loose: each costs two flushes, a pack three."""

_SMALL = 1024  # objects of a pack whose ids are kept by heart: there are many such packs
_LOOSE_TEMPORARY = "tmp_obj_"
_LOOSE_HEADER = 32
_LOOSE_START = 128
_A_SECOND = 1_000_000_000


class ObjectFolder:
    """The objects of one store.  Not for use by several threads at once; close it after use."""

    def __init__(self, at: str, object_format: str, id_length: int, *, durable: bool) -> None:
        """Look at the folder that lies ``at`` a path; an id has ``id_length`` bytes."""
        self.at = at
        self.pack_folder = f"{at}/pack"
        self.durable = durable
        self.packs: list[Pack] = []
        self._large: list[Pack] = []
        self._in_small: dict[bytes, Pack] = {}
        self.object_format = object_format
        self.id_length = id_length
        self._listed_at: int | None = None
        self._listed: frozenset[str] = frozenset()
        self._touched: set[str] = set()
        self._settled: set[str] = set()
        self._safe: frozenset[str] = frozenset()
        self._pending: Gathering | None = None
        self._scratch: Gathering | None = None
        self._together = 0
        self._names: dict[str, frozenset[str]] = {}

    @property
    def path(self) -> Path:
        """The path that it lies ``at``, for what is not asked by every writer."""
        return Path(self.at)

    def close(self) -> None:
        """Let go of open packs and of what was never flushed."""
        if self._pending is not None:
            self._pending.abandon()
        for pack in self.packs:
            pack.close()
        self.packs, self._listed = [], frozenset()
        self._large, self._in_small = [], {}

    def reopen(self) -> None:
        """Let go of open packs: their files may be others by now, under the same names."""
        self.close()
        self._listed_at = None

    # Reading

    def read(self, oid: str) -> tuple[bytes, bytes] | None:
        """Return the kind and content of an object, or None where it is not here.

        Raises:
            DamagedObjectError: when it cannot be read.
        """
        for apart in (self._scratch, self._pending):
            if apart is not None and oid in apart:
                return apart.read(oid)
        found = self._read_packed(oid) or self._read_loose(oid)
        if found is None and self.refresh():
            found = self._read_packed(oid)
        return found

    def size(self, oid: str) -> int | None:
        """Return how many bytes an object has, or None where it is not here.

        Raises:
            DamagedObjectError: when it cannot be told.
        """
        for gathered in (self._scratch, self._pending):
            if gathered is not None and oid in gathered:
                return len(gathered.read(oid)[1])
        found = self.find_packed(oid)
        if found is not None:
            return found[0].size_of(found[1])
        with contextlib.suppress(FileNotFoundError), self._open_loose(oid) as file:
            return _start_of(file.read(_LOOSE_START))[2]
        return None

    def has(self, oid: str) -> bool:
        """Tell whether an object is here; its name will be durable after the next flush."""
        folder = self._folder_of(oid)
        if folder and not (folder == self.pack_folder and self._is_safe(oid)):
            self._touched.add(folder)
        return folder is not None

    def _is_safe(self, oid: str) -> bool:
        """Tell whether an object lies in a pack whose name is durable, or in the log."""
        found = self.find_packed(oid)
        return found is not None and found[0].name in self._safe

    def can_read(self, oid: str) -> bool:
        """Tell whether an object is here, for somebody who stores nothing that leads to it."""
        return self._folder_of(oid) is not None

    def _folder_of(self, oid: str) -> str | None:
        """Return the folder that an object lies in: an empty one while it is in none yet."""
        if self._scratch is not None and oid in self._scratch:
            return ""
        if self._pending is not None and oid in self._pending:
            return ""
        # An empty file in place of an object is what a power cut leaves of others' unsynced writes.
        if self._may_be_loose(oid) and self._loose_size(oid):
            return f"{self.at}/{oid[:2]}"
        return None if self.find_packed(oid) is None else self.pack_folder

    def refresh(self) -> bool:
        """Look for packs that others have made or removed; return whether there may be any."""
        try:
            changed = os.stat(self.pack_folder).st_mtime_ns  # noqa: PTH116 - asked by every writer
        except FileNotFoundError:
            self._listed_at = 0
            return False
        if changed == self._listed_at:
            return False
        # Within one tick of a clock another pack may come and the folder's time stay as it is.
        self._listed_at = changed if time.time_ns() - changed > _A_SECOND else 0
        return self._take_up(_names_in(self.pack_folder))

    def _take_up(self, names: frozenset[str]) -> bool:
        """Open the packs among the names in their folder; return whether there may be others now."""
        if names == self._listed:
            return False
        self._listed = names
        self._safe &= names
        known = {pack.name: pack for pack in self.packs}
        self.packs, fresh = [], []
        for name in sorted(name for name in names if name.endswith(".pack")):
            if not name.startswith("pack-") or f"{name[:-5]}.idx" not in names:
                continue
            pack = known.pop(name, None)
            if pack is None:
                # One of another version, or damaged, is left to dulwich; one may be gone by now.
                with contextlib.suppress(OSError, DamagedObjectError):
                    pack = Pack(self.pack_folder, name, self.id_length)
                    fresh.append(pack)
            if pack is not None:
                self.packs.append(pack)
            else:
                self._listed = frozenset()
        for pack in known.values():
            pack.close()
        self._know_by_heart(fresh if not known else self.packs, anew=bool(known))
        return True

    def _take_in(self, name: str, content: tuple[bytes, bytes] | None = None) -> None:
        """Open a pack that has just been made, without looking for others."""
        names = {name, f"{name.removesuffix('.pack')}.idx"}
        if names <= self._listed:
            return
        pack = Pack(self.pack_folder, name, self.id_length, content=content)
        self._listed |= names
        self.packs.append(pack)
        self._know_by_heart([pack], anew=False)

    def _know_by_heart(self, packs: list[Pack], *, anew: bool) -> None:
        """Note which objects lie in small packs; ``anew``: some pack is gone."""
        if anew:
            self._large, self._in_small = [], {}
        for pack in packs:
            if pack.count <= _SMALL:
                self._in_small.update(dict.fromkeys(pack.names, pack))
            else:
                self._large.append(pack)

    # Writing

    def write(self, kind: bytes, content: bytes) -> str:
        """Store an object and return its id; durable after :meth:`flush`."""
        oid = object_id(kind, content, self.object_format)
        if self.has(oid):
            return oid
        gathering = self._gathering()
        if gathering is None:
            self._write_loose(oid, kind, content)
        else:
            gathering.add(oid, kind, content)
        return oid

    def write_deflated_blobs(self, blobs: Iterable[tuple[str, int, bytes]]) -> None:
        """Store blobs whose ids are known, each given as its size and a zlib stream of that."""
        fresh = {oid: (size, stream) for oid, size, stream in blobs if not self.has(oid)}
        gathering = self._gathering()
        if gathering is not None:
            gathering.add_deflated_blobs(fresh)
            return
        for oid, (size, stream) in fresh.items():
            self._write_loose(oid, b"blob", inflate(stream, size))

    def _gathering(self) -> Gathering | None:
        """Return what is being gathered, if anything is."""
        if self._scratch is None and self._pending is None and self._together:
            self._pending = Gathering(self.pack_folder, self.object_format)
        return self._pending if self._scratch is None else self._scratch

    def write_loose(self, kind: bytes, content: bytes) -> str:
        """Store an object that may be discarded again; return its id."""
        self.put()
        return self.write(kind, content)

    @contextlib.contextmanager
    def together(self) -> Iterator[Callable[[], None]]:
        """Store what is written meanwhile, and until the next flush, in one go at that flush.

        Yields what forgets what was written meanwhile, as long as that is little.
        """
        extent = self._pending.extent() if self._pending is not None else ()

        def forget() -> None:
            if self._pending is not None:
                self._pending.cut(*extent)

        self._together += 1
        try:
            yield forget
        finally:
            self._together -= 1
            self._names.clear()

    @property
    def has_pending(self) -> bool:
        """Whether something was written that has no name yet."""
        return bool(self._pending)

    @property
    def in_scratch(self) -> bool:
        """Whether what is written is kept in memory only."""
        return self._scratch is not None

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """Keep what is written meanwhile in memory only."""
        self._scratch = Gathering(None, self.object_format)
        try:
            yield
        finally:
            self._scratch = None

    def flush(self) -> None:
        """Store what was written together, and make the names of all objects durable."""
        self.put()
        self.sync()

    def put(self) -> None:
        """Give what was written together its names; they are durable after :meth:`sync`."""
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        try:
            few = pending.finish(most_loose=MOST_LOOSE, durable=self.durable)
            for oid, (kind, content) in few.items():
                self._write_loose(oid, kind, content)
        finally:
            pending.abandon()
        if pending.made is not None:
            self._touched.add(self.pack_folder)
            self._take_in(pending.made)

    def sync(self) -> None:
        """Make the names durable of all objects that have one, and were written or found."""
        if self._touched and self.durable:
            for folder in self._touched:
                fsync(folder)
            if self.pack_folder in self._touched:
                self._safe = self._listed
            # The folder of packs stays where it is; one of loose objects may have come and gone.
            if self._touched - self._settled:
                fsync(self.at)
                self._settled.update(self._touched & {self.pack_folder})
        self._touched.clear()

    def flush_names(self) -> None:
        """Make durable which packs and folders there are."""
        for folder in (self.pack_folder, self.at):
            if os.path.isdir(folder):  # noqa: PTH112 - it is a string
                fsync(folder)

    def loose_kind(self, oid: str) -> bytes:
        """Return the kind of an object that lies loose; nothing where it is none or damaged."""
        with contextlib.suppress(OSError, DamagedObjectError), self._open_loose(oid) as file:
            return _start_of(file.read(_LOOSE_START))[0]
        return b""

    def discard(self, oid: str) -> None:
        """Remove an object if it lies loose."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._loose(oid))  # noqa: PTH108 - beside the other calls on such names

    def clear_temporary(self) -> None:
        """Remove what processes that died were writing."""
        for name in _names_in(self.at):
            if name.startswith(_LOOSE_TEMPORARY):
                Path(self.at, name).unlink(missing_ok=True)
        names = _names_in(self.pack_folder)
        for name in names:
            is_index_alone = name.endswith(".idx") and f"{name[:-4]}.pack" not in names
            if is_index_alone or name.startswith(TEMPORARY):
                Path(self.pack_folder, name).unlink(missing_ok=True)
        self._take_up(names)

    def _write_loose(self, oid: str, kind: bytes, content: bytes) -> None:
        with contextlib.closing(UnnamedFile(self.at, _LOOSE_TEMPORARY)) as file:
            file.write(loose_stream(kind, content))
            file.flush(durable=self.durable)
            file.rename(self._loose(oid))
        self._touched.add(f"{self.at}/{oid[:2]}")

    # Where an object is

    def _loose(self, oid: str) -> str:
        return f"{self.at}/{oid[:2]}/{oid[2:]}"

    def _loose_size(self, oid: str) -> int | None:
        path = self._loose(oid)
        if not os.access(path, os.F_OK):  # as mostly, and quicker told than by an error
            return None
        try:
            return os.stat(path).st_size  # noqa: PTH116 - a hot line of a snapshot
        except FileNotFoundError:
            return None

    def _may_be_loose(self, oid: str) -> bool:
        """Tell whether to look for a loose object; while a pack is being made, by 256 listings."""
        if self._pending is None or not self._pending.is_large:
            return True
        if not self._names:
            self._names[""] = _names_in(self.at)
        start = oid[:2]
        if start not in self._names[""]:
            return False
        if start not in self._names:
            self._names[start] = _names_in(f"{self.at}/{start}")
        return oid[2:] in self._names[start]

    def find_packed(self, oid: str) -> tuple[Pack, int] | None:
        """Return the pack that an object lies in and where it begins there; None where in none."""
        if self._listed_at is None:
            self.refresh()
        if not self.packs:
            return None
        raw = bytes.fromhex(oid)
        pack = self._in_small.get(raw)
        for one in self._large if pack is None else [pack]:
            offset = one.find(raw)
            if offset is not None:
                return one, offset
        return None

    def _read_packed(self, oid: str) -> tuple[bytes, bytes] | None:
        found = self.find_packed(oid)
        return None if found is None else found[0].read(found[1])

    def _open_loose(self, oid: str) -> IO[bytes]:
        return open(self._loose(oid), "rb", buffering=0)  # noqa: PTH123 - who asks closes it

    def _read_loose(self, oid: str) -> tuple[bytes, bytes] | None:
        try:
            with self._open_loose(oid) as file:
                stream = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedObjectError(str(error)) from None
        kind, start, size = _start_of(stream)
        return kind, inflate(stream, start + size)[start:]


def _names_in(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - asked by every writer
    except FileNotFoundError:
        return frozenset()


def _start_of(stream: bytes) -> tuple[bytes, int, int]:
    """Return a loose object's kind, where its content begins, and how long that is."""
    start, found, _ = inflate_start(stream, _LOOSE_HEADER).partition(b"\0")
    kind, _, size = start.partition(b" ")
    if not found or kind not in KINDS[1:] or not size.isdigit():
        raise DamagedObjectError("it is no object")
    return kind, len(start) + 1, int(size)
