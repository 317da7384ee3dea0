"""Log of refused and asked calls: ``data/decisions.jsonl``, one record a line, in the order of their times.

A line is appended under a lock, and is durable before the caller gets the answer.  At 64 MiB the file is renamed to
``decisions-000001.jsonl`` and so on.  No file is ever deleted: otherwise an agent could remove the traces of its attempts
by many more.  The files are no part of the index, so ``index rebuild`` does not touch them.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from covalt_git import timestamps
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.models.decisions import DecisionRecord
from covalt_git.names import new_id
from covalt_git.system import atomic_write, file_lock
from covalt_git.system.node_folder import data_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOG = logging.getLogger(__name__)

_NAME = "decisions.jsonl"
_LOCK = "decisions.lock"
_ROTATED = re.compile(r"decisions-([0-9]{6,})\.jsonl")
MOST_BYTES = 64 << 20
_MOST_LINE = 64 << 10


class DecisionLogError(CovaltError):
    """A decision cannot be logged."""

    code = "decision_log"
    http_status = 503

    def __init__(self, why: str) -> None:
        super().__init__(
            f"data/{_NAME} cannot be written: {why}",
            hint="a call that needs approval is refused until its request can be logged",
        )


class DecisionLog(NamedTuple):
    """The log of the project in ``root``."""

    root: Path
    most_bytes: int = MOST_BYTES

    def add(self, **fields: Any) -> DecisionRecord:
        """Append a record of a decision, with an id and the current time; return it.

        Raises:
            DecisionLogError: if the line cannot be written; the file is then unchanged.
        """
        try:
            with self._locked() as handle:
                # Under the lock, so that the order of the lines is that of the times.
                record = DecisionRecord(id=new_id(), at=timestamps.now(), **fields)
                line = canonical_json.dumps(record.model_dump(mode="json", exclude_defaults=True))
                _append(handle, line + b"\n")
        except OSError as error:
            raise DecisionLogError((error.strerror or str(error)).lower()) from None
        return record

    def read(self) -> Iterator[DecisionRecord]:
        """Yield the records of all files, oldest first.  Lines that are no records are left out, with a warning."""
        for file in [*self._rotated().values(), self._file]:
            try:
                lines = file.open("rb")
            except FileNotFoundError:
                continue
            with lines:
                number = 0
                while line := lines.readline(_MOST_LINE):
                    number += 1
                    try:
                        yield DecisionRecord.model_validate(canonical_json.loads(line))
                    except (canonical_json.NotJsonError, ValidationError):
                        if line.strip():
                            _LOG.warning("%s:%d is not a decision; it is left out", file, number)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the file, open for appending, while no other process or thread appends to it."""
        self._folder.mkdir(exist_ok=True)
        with file_lock.held(self._folder / _LOCK, create=True):
            self._rotate()
            is_new = not self._file.exists()
            # No link: a folder that was unpacked can have one, which leads to a file elsewhere.
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self._file, flags, 0o600)
            try:
                if is_new:
                    atomic_write.fsync(self._folder)
                yield handle
            finally:
                os.close(handle)

    def _rotate(self) -> None:
        try:
            if self._file.stat().st_size < self.most_bytes:
                return
        except FileNotFoundError:
            return
        number = max(self._rotated(), default=0) + 1
        atomic_write.rename(self._file, self._folder / f"decisions-{number:06}.jsonl")

    def _rotated(self) -> dict[int, Path]:
        """Return the earlier files by their numbers, oldest first."""
        files = {}
        if self._folder.is_dir():
            for file in self._folder.iterdir():
                if match := _ROTATED.fullmatch(file.name):
                    files[int(match[1])] = file
        return dict(sorted(files.items()))

    @property
    def _folder(self) -> Path:
        return data_of(self.root)

    @property
    def _file(self) -> Path:
        return self._folder / _NAME


def _append(handle: int, line: bytes) -> None:
    """Append a line durably; if an error is raised, the file is unchanged."""
    size = os.fstat(handle).st_size
    # A killed process can leave a part of a line, to which this one must not be added.
    if size and os.pread(handle, 1, size - 1) != b"\n":
        line = b"\n" + line
    try:
        written = 0
        while written < len(line):
            written += os.write(handle, line[written:])
        atomic_write.fsync_data(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise
