"""Stat cache of a workspace: its last scan, in memory and in the file ``stat.cache`` next to the workspace.

The cache only saves reading.  A file is unchanged while its change time, inode, size and mode are the same;
a folder has the same names while its change time and inode are the same.  If an entry changed less
than one clock tick before the scan, a second change could leave the same time.  Such an entry is stored with
the time 0, which no real entry has, so that the next scan reads it again.  Neither we nor git notice a later
write through an ``mmap`` that was open when the file was read: it need not change what ``stat`` returns.

The cache does not contain whether the objects of a scan are still in the store, because git's own gc may have
removed them.  A scan knows that the objects of the branch's tree are there, and checks all others.

The file has a header line, a CRC-32 and the scan in the format of :mod:`marshal`.  It is ignored if it is
damaged, or if another version, other settings or an earlier boot wrote it: after a power cut, workspace files
may have lost writes.  If two processes write the cache at once, the file may be damaged, which is harmless.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import unicodedata
import zlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git import __version__
from covalt_git.system.boot import boot_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig

FileStat = tuple[int, int, int, int, int, bytes]
"""A file: its change and modification time in ns, inode, size and mode, and the raw id of its blob."""

Note = tuple[str, str, str]
"""The kind of a note on an entry of a folder, the entry's name (empty: the folder itself), the reason."""

_TICK = 20_000_000  # ns; no kernel's clock ticks slower
_COARSE_TICK = 2_000_000_000  # of file systems that count in seconds
_SECOND = 1_000_000_000
_CRC_BYTES = 4


class FolderScan(NamedTuple):
    """Result of the scan of one folder.  It never changes, and later scans share it.

    A later scan is compared with it, so a change of it in place would hide a change of the workspace.

    ``mark`` is the folder's change time in ns, inode and device.  ``tree`` is None if nothing is stored.
    """

    mark: tuple[int, int, int]
    tree: str | None
    files: Mapping[str, FileStat]
    folders: Mapping[str, FolderScan]
    notes: tuple[Note, ...]

    def all_files(self) -> Iterator[FileStat]:
        """Yield the files of the folder and of all folders in it."""
        yield from self.files.values()
        for folder in self.folders.values():
            yield from folder.all_files()

    def all_notes(self, prefix: str = "") -> Iterator[Note]:
        """Yield the notes on the folder and on everything in it, with paths instead of names."""
        for kind, name, reason in self.notes:
            yield kind, f"{prefix}{name}" if name else prefix[:-1], reason
        for name, folder in self.folders.items():
            yield from folder.all_notes(f"{prefix}{name}/")

    def folder_paths(self, prefix: str = "") -> set[str]:
        paths = {f"{prefix}{name}" for name in self.folders}
        return paths.union(
            *(below.folder_paths(f"{prefix}{name}/") for name, below in self.folders.items())
        )


NOT_SCANNED = FolderScan((0, 0, 0), None, MappingProxyType({}), MappingProxyType({}), ())


class Clock(NamedTuple):
    """Time in ns on the clock of a device's file system; 0 if that is unknown."""

    ns: int
    device: int

    def trusted(self, changed: int, device: int) -> int:
        """Return a change time in ns, or 0 if a later change could have the same one."""
        tick = _TICK if changed % _SECOND else _COARSE_TICK
        return changed if device == self.device and changed < self.ns - tick else 0


@dataclass(slots=True)
class StatCache:
    """The stat cache of one open chat.  Removing the file empties the memory, too.

    Attributes:
        head: the commit of the active branch when the last writer ended; None if it is unknown.
    """

    file: Path
    header: bytes
    scan: FolderScan = NOT_SCANNED
    head: str | None = None
    _saved: tuple[FolderScan, str | None] = field(default=(NOT_SCANNED, None), repr=False)

    @classmethod
    def of(cls, workspace: Path, config: WorkspaceConfig, object_format: str) -> StatCache:
        """Return the cache of a workspace for these settings."""
        settings = (object_format, config.max_file_mb, config.ignore)
        versions = (__version__, unicodedata.unidata_version, boot_id())
        header = f"covalt-git stat cache 4 {versions} {settings}\n"
        return cls(workspace.with_name("stat.cache"), header.encode("utf-8", "surrogatepass"))

    def recall(self) -> tuple[FolderScan, Clock]:
        """Return the last scan, and the current time of the file system."""
        # The time before the scan, on the clock that stamps its files: of a network share it is another machine's.
        try:
            try:
                os.utime(self.file)
            except FileNotFoundError:
                self.scan = NOT_SCANNED
                self.file.touch()
            status = self.file.stat()
        except OSError:
            return NOT_SCANNED, Clock(0, 0)
        if self.scan is NOT_SCANNED and status.st_size:
            self.scan, self.head = self._saved = self._load()
        return self.scan, Clock(status.st_ctime_ns, status.st_dev)

    def clear(self) -> None:
        """Empty the cache, so that the next scan reads everything."""
        self.scan, self.head = self._saved = NOT_SCANNED, None
        self.file.unlink(missing_ok=True)

    def save(self) -> None:
        """Write the last scan for other processes; if this fails, they only have to read more files."""
        saved, head = self._saved
        # Without the boot's id, a cache from before a power cut would be believed.
        if (self.scan is saved and self.head == head) or not boot_id():
            return
        content = marshal.dumps((self.head, _packed(self.scan)))
        check = zlib.crc32(content).to_bytes(_CRC_BYTES, "little")
        with contextlib.suppress(OSError):
            self.file.write_bytes(self.header + check + content)
            self._saved = self.scan, self.head

    def _load(self) -> tuple[FolderScan, str | None]:
        content = b""
        with contextlib.suppress(OSError):
            content = self.file.read_bytes()
        start = len(self.header) + _CRC_BYTES
        check = zlib.crc32(content[start:]).to_bytes(_CRC_BYTES, "little")
        if content[:start] != self.header + check:
            return NOT_SCANNED, None
        head, packed = marshal.loads(content[start:])  # noqa: S302 - it is our own file
        return _unpacked(packed), head


def _packed(scan: FolderScan) -> tuple[Any, ...]:
    below = {name: _packed(folder) for name, folder in scan.folders.items()}
    return scan.mark, scan.tree, dict(scan.files), below, scan.notes


def _unpacked(packed: tuple[Any, ...]) -> FolderScan:
    mark, tree, files, below, notes = packed
    folders = {name: _unpacked(folder) for name, folder in below.items()}
    return FolderScan(mark, tree, MappingProxyType(files), MappingProxyType(folders), notes)
