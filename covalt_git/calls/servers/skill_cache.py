"""Cache of files of servers' skills that were read, by their digests; with it a reviewer compares a change with what was accepted.

It is below the user's cache folder, where no program looks for skills of its own.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from covalt_git.system import atomic_write, private_files

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 1 << 20
_MOST_FILES = 500


def store(content: bytes) -> None:
    """Store the content of a file; the oldest of too many is removed.  An error of the disk is ignored."""
    if len(content) > _MOST_BYTES:
        return
    with suppress(OSError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / hashlib.sha256(content).hexdigest()
        if not file.exists():
            atomic_write.replace(file, content, private=True)
        files = sorted(folder.iterdir(), key=_age)
        for old in files[: max(len(files) - _MOST_FILES, 0)]:
            old.unlink(missing_ok=True)


def stored(digest: str) -> bytes | None:
    """Return the content with a digest, ``sha256:HEX``; None if it is not stored."""
    name = digest.removeprefix("sha256:")
    with suppress(OSError):
        content = (_folder() / name).read_bytes()
        # Another program may have written to the cache since.
        return content if hashlib.sha256(content).hexdigest() == name else None
    return None


def _folder() -> Path:
    return private_files.cache_folder() / "skills"


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
