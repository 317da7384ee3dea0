r"""Write-ahead log of stores that version 0.1 wrote: read once, and put away.

Version 0.1 appended the files of a small commit to ``wal`` with one fsync, and then stored them where git
looks for them without one.  So after a power cut a pack or a ref may be missing or damaged whose content
is in the log.  ``GitStore.catch_up`` stores it again; then the file is ``wal.settled``, which the
next gc removes.

The log is one record after another::

    <sha1 of what follows the boot> <boot> {"at": <nanoseconds since 1970>, "ref": [name, old, new],
    "files": [[path, size], ...]}\n
    <the bytes of the files>

A record that is not whole was never acknowledged, and ends the log.  Zeros may follow the last one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.system import atomic_write
from covalt_git.system.atomic_write import fsync, fsync_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_START = re.compile(rb"([0-9a-f]{40}) ([0-9a-f-]+) (?=\{\"at\":)")
DECIDED = "-"
_FILE = re.compile(
    r"objects/(?:[0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(?:idx|pack))"
)


@dataclass(frozen=True, slots=True)
class Record:
    """A ref that moved from ``old`` to ``new`` (None: no ref), and the files that it needs by path.

    ``at`` is when, in nanoseconds since 1970: after the new file of the ref was written, and before
    that took the place of the old one.
    """

    ref: str
    old: str | None
    new: str | None
    files: dict[str, bytes]
    at: int


@dataclass(frozen=True, slots=True)
class OldLog:
    """The log of the store in a folder."""

    store: Path

    @property
    def _path(self) -> Path:
        return self.store / "wal"

    def exists(self) -> bool:
        """Return whether the store has a log that was not replayed."""
        try:
            return self._path.stat().st_size > 0
        except FileNotFoundError:
            return False

    def read(self) -> tuple[str, list[Record]]:
        """Return the boot id that it names, ``-`` for one that :meth:`decide` wrote, and its records."""
        content = self._path.read_bytes()
        start = _START.match(content)
        return start[2].decode() if start else "", list(_records(content))

    def decide(self, records: Iterable[Record]) -> None:
        """Replace the log by the records that have to be stored again.

        To store them changes what the decision depends on; a process that is killed then finds it here.
        """
        atomic_write.replace(self._path, b"".join(map(_line, records)))

    def store_files(self, records: Iterable[Record]) -> None:
        """Write the files of records where git looks for them, and fsync them."""
        for record in records:
            for path, content in record.files.items():
                file = self.store / path
                if _FILE.fullmatch(path) and not _has(file, content):
                    file.parent.mkdir(exist_ok=True)
                    atomic_write.replace(file, content)

    def put_away(self, records: Iterable[Record]) -> None:
        """Fsync what the records name, and rename the log."""
        paths = {path for record in records for path in (*record.files, record.ref)}
        files = {self.store / path for path in paths}
        folders = {
            above
            for file in files
            for above in file.parents
            if self.store in (above, *above.parents)
        }
        fsync_many([str(one) for one in files | folders if one.exists()])
        with contextlib.suppress(FileNotFoundError):
            self._path.rename(self.store / "wal.settled")
        fsync(self.store)


def this_boot() -> str:
    """Return the id of this boot of the machine; nothing where the system has none."""
    with contextlib.suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return ""


def _has(file: Path, content: bytes) -> bool:
    with contextlib.suppress(OSError):
        return file.read_bytes() == content
    return False


def _line(record: Record) -> bytes:
    files = [[path, len(content)] for path, content in record.files.items()]
    head = {"at": record.at, "ref": [record.ref, record.old, record.new], "files": files}
    line = json.dumps(head, separators=(",", ":")).encode()
    body = b"".join([line, b"\n", *record.files.values()])
    return f"{hashlib.sha1(body, usedforsecurity=False).hexdigest()} {DECIDED} ".encode() + body


def _records(content: bytes) -> Iterator[Record]:
    """Yield the whole records that a log begins with."""
    place = 0
    while start := _START.match(content, place):
        line_end = content.find(b"\n", place)
        try:
            head = json.loads(content[start.end() : max(line_end, 0)])
            (ref, old, new), sizes = (
                head["ref"],
                [(str(path), int(size)) for path, size in head["files"]],
            )
            at = int(head["at"])
        except (ValueError, KeyError, TypeError):
            return
        files, end = {}, line_end + 1
        for path, size in sizes:
            files[path] = content[end : end + size]
            end += size
        if (
            hashlib.sha1(content[start.end() : end], usedforsecurity=False).hexdigest().encode()
            != start[1]
        ):
            return
        yield Record(ref, old, new, files, at)
        place = end
