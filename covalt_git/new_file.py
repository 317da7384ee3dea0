"""Making a file that somebody named: whole or not at all, and never in the place of another."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.flushing import flush
from covalt_git.names import new_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that has the name ``path`` once the block has ended, and is on the disk then.

    Raises:
        CovaltError: when there is a file already, or none can be made.
    """
    if os.path.lexists(path):
        raise CovaltError(
            f"there is a file {str(path)!r}", hint="name another: -o FILE, or move it away"
        )
    temporary = path.with_name(f".{path.name}.{new_id()}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        flush(path.parent)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{str(path)!r} cannot be written: {reason}") from None
    finally:
        temporary.unlink(missing_ok=True)
