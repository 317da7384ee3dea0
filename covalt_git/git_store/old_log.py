r"""Write-ahead log of stores of version 0.1, which is replayed once.

Version 0.1 appended the files of a small commit to ``wal`` with one fsync, and then wrote packs and refs
without one.  After a power cut, a pack or ref may be missing or damaged, but its content is in the log.
:func:`replay` writes the content again, and renames the log to ``wal.settled``, which gc removes.

The log is one record after another::

    <sha1 of what follows the boot> <boot> {"at": <nanoseconds since 1970>, "ref": [name, old, new],
    "files": [[path, size], ...]}\n
    <the bytes of the files>

An incomplete record was never acknowledged, and ends the log.  Zeros may follow the last record.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.system.boot import boot_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from covalt_git.git_store.store import GitStore

NAME = "wal"
_START = re.compile(rb"([0-9a-f]{40}) ([0-9a-f-]+) (?=\{\"at\":)")
_FILE = re.compile(r"objects/(?:[0-9a-f]{2}|pack)/(?:pack-)?[0-9a-f]{38,64}(?:\.idx|\.pack)?")


class _Record(NamedTuple):
    """A record: at the time ``at``, a ref moved to ``new`` (None: was deleted); and the files that it needs, by path."""

    ref: str
    new: str | None
    files: dict[str, bytes]
    at: int


def is_left(store: Path) -> bool:
    """Return whether a store has a log that is not replayed yet."""
    with contextlib.suppress(FileNotFoundError):
        return (store / NAME).stat().st_size > 0
    return False


def replay(store: GitStore, *, aside: str) -> None:
    """Write the files and refs of the log again, if there is one.  It is idempotent.

    A ref that has moved since then does not change.  If the name of a lost ref is in use, a new ref below
    ``aside`` gets its commit.  Only the holder of the chat's lock may call it.

    Raises:
        BrokenStoreError: when an object cannot be restored; then the log is kept.
    """
    if not is_left(store.path):
        return
    content = (store.path / NAME).read_bytes()
    records = list(_records(content))
    if (start := _START.match(content)) and start[2].decode() != boot_id():
        for path, wanted in [item for record in records for item in record.files.items()]:
            file = store.path / path
            if _FILE.fullmatch(path) and not (file.exists() and file.read_bytes() == wanted):
                atomic_write.replace(file, wanted)
        store.close()
        for ref in dict.fromkeys(record.ref for record in records):
            _restore(store, ref, [record for record in records if record.ref == ref], aside)
    atomic_write.fsync_tree(store.path)
    atomic_write.rename(store.path / NAME, store.path / "wal.settled")


def _restore(store: GitStore, ref: str, records: Sequence[_Record], aside: str) -> None:
    """Move a ref to the commit of its last record, unless the ref has moved since."""
    for record in records:
        if record.files and record.new and not store.has(record.new):
            raise BrokenStoreError(f"the object {record.new} of {store.path} cannot be restored")
    file = store.path / ref
    try:
        at = store.read_ref(ref)
    except BrokenStoreError:  # a power cut emptied it
        file.unlink()
        at = store.read_ref(ref)
    is_later = file.is_file() and file.stat().st_mtime_ns > records[-1].at
    known = [record.new for record in records if record.new is None or store.has(record.new)]
    if not known or at == known[-1] or is_later:
        return
    # A folder may have the name of the ref, or a ref the name of its folder.
    with contextlib.suppress(OSError):
        if store.swap_ref(ref, at, known[-1]):
            return
    if known[-1] is not None:
        store.swap_ref(f"{aside}{new_id()}/{ref.removeprefix('refs/heads/')}", None, known[-1])


def _records(content: bytes) -> Iterator[_Record]:
    """Yield the complete records at the beginning of a log."""
    place = 0
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
        while start := _START.match(content, place):
            files, end = {}, content.find(b"\n", place) + 1
            head = json.loads(content[start.end() : end])
            ref, _, new = head["ref"]
            for path, size in head["files"]:
                files[str(path)] = content[end : end + int(size)]
                end += int(size)
            found = hashlib.sha1(content[start.end() : end], usedforsecurity=False).hexdigest()
            if found.encode() != start[1]:
                return
            yield _Record(ref, new, files, int(head["at"]))
            place = end
