"""What a folder was when it was last read, so that what has not changed need not be read again.

It is only ever a cache.  Everything in it is checked against the folder by stat: a file is what it
was while its change time, inode, size and mode are, and a folder still holds the same names while
its change time and inode are.  What changed within the last tick of the file system's clock before
it was read could change again unseen; it is remembered as not to be trusted.  Stat cannot show one
thing, to us as little as to git: another store through a mapping that was already being written to
when the file was read.

A process remembers the folders it saw last, and ``stat.cache`` beside the workspace holds them for
the next one: a header, then for each folder a record with its length and CRC-32, the last of a path
counting.  Of another version, other settings or an earlier boot (after which a file may not hold
what it held), damaged or missing, it is as if there were none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import struct
import threading
import unicodedata
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import __version__
from covalt_git.git_store import blob_id
from covalt_git.workspaces.folders import mode_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.project_config import WorkspaceConfig

Seen = tuple[int, int, int, int, int, bytes]
"""A file as stat shows it (change and modification time in ns, inode, size, mode), and its blob's id,
raw.  A change time of 0 says that it has to be read again."""

Mark = tuple[int, int, int]
"""A folder as stat shows it: change time in ns (0: to be read again), inode and device."""

Note = tuple[str, str, str]
"""Something about a name of a folder (nothing: the folder itself): what kind of note, name, reason."""

_NAME = "stat.cache"
_FORMAT = b"covalt-git stat cache 1\n"
_TICK = 20_000_000  # ns; no kernel's clock ticks slower
_COARSE_TICK = 2_000_000_000  # of file systems that count in seconds
_SECOND = 1_000_000_000
_MOST_FILES = 400_000  # remembered in a process, of all folders together: some 150 MB

_RECORD = struct.Struct("<II")
_FOLDER = struct.Struct("<qQQ?BIII")
_FILE = {length: struct.Struct(f"<qqQqI{length}s") for length in (20, 32)}


def _boot() -> str:
    """Return what tells this boot of the machine from others, or nothing where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


_BOOT = _boot()


def doubt(workspace: Path) -> None:
    """Believe nothing that is known of a workspace: the next look, of any process, reads it all."""
    workspace.with_name(_NAME).unlink(missing_ok=True)


@functools.lru_cache(maxsize=16)
def _settings(object_format: str, max_file_mb: int, ignore: tuple[str, ...]) -> tuple[bytes, int]:
    """Return the digest of all that what is known depends on, and how many bytes an id has."""
    parts = [__version__, unicodedata.unidata_version, _BOOT, object_format, str(max_file_mb)]
    text = "\0".join([*parts, *ignore]).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).digest(), len(blob_id(b"", object_format)) // 2


class Anchor(NamedTuple):
    """A ref and the manifest that it was at: while it is, all that the manifest's tree names is stored."""

    ref: str
    manifest: str


@dataclass(slots=True, eq=False)
class KnownFolder:
    """A folder as it was: never changed once it is made, and shared by all who remember it.

    ``others`` are the names of which nothing is stored; they are looked at every time.  ``odd``
    says that some name is to be noted as unportable.  The ``notes`` on its names are not kept in the
    file, but found again; ``noted`` says that there are some, on it or on what is in it.
    ``anchor`` is set later: the last manifest that was made of this tree, or found to be of it.
    """

    mark: Mark
    tree: str | None
    files: dict[str, Seen]
    folders: dict[str, KnownFolder]
    others: tuple[str, ...]
    odd: bool
    notes: tuple[Note, ...] = ()
    noted: bool = False
    anchor: Anchor | None = None
    _count: int | None = None
    _size: int | None = None

    def all_notes(self, path: str = "") -> Iterator[tuple[str, str, str]]:
        """Yield the notes on all that is in it: what kind, path, reason."""
        if not self.noted:
            return
        for kind, name, reason in self.notes:
            yield kind, f"{path}{name}" if name else path[:-1], reason
        for name, folder in self.folders.items():
            yield from folder.all_notes(f"{path}{name}/")

    def changed_paths(self, before: KnownFolder, path: str = "") -> Iterator[str]:
        """Yield the paths of files that are in only one of two states of a folder, or differ."""
        for name, now in self.files.items() if self.files is not before.files else ():
            was = before.files.get(name)
            if now is not was and _state_of(now) != _state_of(was):
                yield path + name
        if self.files is not before.files:
            for name in before.files.keys() - self.files.keys():
                yield path + name
        for name, folder in self.folders.items():
            known = before.folders.get(name, NOTHING_KNOWN)
            if folder is not known:
                yield from folder.changed_paths(known, f"{path}{name}/")
        for name in before.folders.keys() - self.folders.keys():
            yield from NOTHING_KNOWN.changed_paths(before.folders[name], f"{path}{name}/")

    def count(self) -> int:
        """Return how many files it and the folders in it hold."""
        if self._count is None:
            below = sum([folder.count() for folder in self.folders.values()])
            self._count = len(self.files) + below
        return self._count

    def size(self) -> int:
        """Return how many bytes those files hold."""
        if self._size is None:
            below = sum([folder.size() for folder in self.folders.values()])
            self._size = sum([seen[3] for seen in self.files.values()]) + below
        return self._size


NOTHING_KNOWN = KnownFolder((0, 0, 0), None, {}, {}, (), odd=False)
"""What is known of a folder that was never seen."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A moment in ns on the clock of a device's file system; 0 where none could be asked."""

    ns: int
    device: int

    def trusted(self, changed: int, device: int) -> int:
        """Return a change time (ns) as it is to be remembered: 0 where another could look like it."""
        tick = _TICK if changed % _SECOND else _COARSE_TICK
        return changed if device == self.device and changed < self.ns - tick else 0


@dataclass(slots=True)
class _Remembered:
    root: KnownFolder
    saved: KnownFolder | None
    file_size: int
    count: int


_remembered: OrderedDict[tuple[str, bytes], _Remembered] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class StatCache:
    """What is known of one workspace: in this process, and in the file for the next one."""

    file: str
    settings: bytes = field(repr=False)
    id_length: int

    @classmethod
    def beside(cls, workspace: Path, config: WorkspaceConfig, object_format: str) -> StatCache:
        """Return the cache of a workspace; what other settings have led to is not in it."""
        settings, id_length = _settings(object_format, config.max_file_mb, config.ignore)
        file = os.path.join(os.path.dirname(workspace), _NAME)  # noqa: PTH118, PTH120 - every look asks
        return cls(file, settings, id_length)

    def recall(self) -> tuple[KnownFolder | None, Clock]:
        """Return what is known of the workspace, if anything, and the time of its file system.

        Whoever removes the file is understood to doubt what this process remembers, too.
        """
        clock, size = self._now()
        key = (self.file, self.settings)
        with _lock:
            if not size:
                _remembered.pop(key, None)
            if key in _remembered:
                _remembered.move_to_end(key)
                return _remembered[key].root, clock
        root, size = self._load()
        if root is not None:
            self._keep(root, root, size)
        return root, clock

    def remember(self, root: KnownFolder) -> None:
        """Keep the result of a scan for this process and the next; only the chat's writer may."""
        key = (self.file, self.settings)
        with _lock:
            before = _remembered.get(key)
        if before is not None and before.root is root and before.saved is root:
            return
        saved, size = (None, 0) if before is None else (before.saved, before.file_size)
        with contextlib.suppress(OSError):  # without it the next process reads the folder
            saved, size = self._save(root, saved, size)
        self._keep(root, saved, size)

    def _keep(self, root: KnownFolder, saved: KnownFolder | None, size: int) -> None:
        with _lock:
            key = (self.file, self.settings)
            _remembered[key] = _Remembered(root, saved, size, root.count())
            _remembered.move_to_end(key)
            total = sum(known.count for known in _remembered.values())
            while total > _MOST_FILES and len(_remembered) > 1:
                total -= _remembered.popitem(last=False)[1].count

    # The file

    def _now(self) -> tuple[Clock, int]:
        """Return the time at which the file is touched, and its size."""
        try:
            try:
                os.utime(self.file)
            except FileNotFoundError:
                Path(self.file).touch()
            status = os.stat(self.file)  # noqa: PTH116 - it is a string
        except OSError:
            return Clock(0, 0), 0
        return Clock(status.st_ctime_ns, status.st_dev), status.st_size

    def _save(
        self, root: KnownFolder, saved: KnownFolder | None, whole: int
    ) -> tuple[KnownFolder, int]:
        """Write what the file lacks; return what it holds, and its size when it was last made."""
        if not _BOOT:
            Path(self.file).write_bytes(self._header)
            return root, 0
        if saved is not None:
            records = b"".join(_records(root, saved, ""))
            with open(self.file, "r+b", buffering=0) as file:  # noqa: PTH123 - it is a string
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                if file.read(len(self._header)) == self._header and size < 2 * whole + (1 << 18):
                    file.seek(size)
                    file.write(records)
                    return root, whole
        content = self._header + b"".join(_records(root, None, ""))
        temporary = Path(self.file).with_suffix(".tmp")
        temporary.write_bytes(content)
        temporary.replace(self.file)
        return root, len(content)

    def _load(self) -> tuple[KnownFolder | None, int]:
        """Return what the file holds and the size of that."""
        try:
            content = Path(self.file).read_bytes()
        except OSError:
            return None, 0
        if not content.startswith(self._header):
            return None, 0
        found: dict[str, tuple[KnownFolder, list[str]]] = {}
        at = len(self._header)
        while at < len(content):
            if len(content) - at < _RECORD.size:
                return None, 0
            length, check = _RECORD.unpack_from(content, at)
            record = content[at + _RECORD.size : at + _RECORD.size + length]
            if length < _FOLDER.size or len(record) < length or zlib.crc32(record) != check:
                return None, 0
            path, folder, below = _folder_of(record, self.id_length)
            found[path] = folder, below
            at += _RECORD.size + length
        for path, (folder, below) in found.items():
            for name in below:
                child = found.get(f"{path}{name}/")
                if child is None:
                    return None, 0
                folder.folders[name] = child[0]
        return (found[""][0], len(content)) if "" in found else (None, 0)

    @property
    def _header(self) -> bytes:
        return _FORMAT + self.settings


def _state_of(seen: Seen | None) -> tuple[int, bytes] | None:
    """Return what a tree has of a file: git's mode and the id."""
    return None if seen is None else (mode_of(seen[4]), seen[5])


def _records(folder: KnownFolder, saved: KnownFolder | None, path: str) -> Iterator[bytes]:
    """Yield the records of a folder and those in it, as far as they are not the ones saved."""
    if folder is saved:
        return
    record = _record_of(folder, path)
    yield _RECORD.pack(len(record), zlib.crc32(record)) + record
    for name, child in folder.folders.items():
        before = None if saved is None else saved.folders.get(name)
        if child is not before:
            yield from _records(child, before, f"{path}{name}/")


def _record_of(folder: KnownFolder, path: str) -> bytes:
    names = "\0".join([path, *folder.files, *folder.folders, *folder.others])
    text = names.encode("utf-8", "surrogateescape")
    tree = b"" if folder.tree is None else bytes.fromhex(folder.tree)
    counts = len(tree), len(folder.files), len(folder.folders), len(text)
    seen = [_FILE[len(one[5])].pack(*one) for one in folder.files.values()]
    return b"".join([_FOLDER.pack(*folder.mark, folder.odd, *counts), tree, text, *seen])


def _folder_of(record: bytes, id_length: int) -> tuple[str, KnownFolder, list[str]]:
    """Return the path of a record's folder, the folder, and the names of the folders in it."""
    *mark, odd, tree_length, files, folders, text_length = _FOLDER.unpack_from(record)
    text_at = _FOLDER.size + tree_length
    seen_at = text_at + text_length
    text = record[text_at:seen_at].decode("utf-8", "surrogateescape")
    path, *names = text.split("\0")
    folder = KnownFolder(
        mark=(mark[0], mark[1], mark[2]),
        tree=record[_FOLDER.size : text_at].hex() or None,
        files=dict(zip(names, _FILE[id_length].iter_unpack(record[seen_at:]), strict=False)),
        folders={},
        others=tuple(names[files + folders :]),
        odd=odd,
    )
    return path, folder, names[files : files + folders]
