"""Writing the documents of a source: all of them, or none."""

from __future__ import annotations

import contextlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def replaced_files(folder: Path, files: Mapping[str, bytes]) -> Iterator[None]:
    """Write files below a folder by their paths, and restore what was there if the block fails.

    Raises:
        CovaltError: if a path leads through a link.
    """
    old: dict[Path, bytes | None] = {}
    created: list[Path] = []
    try:
        for path, content in files.items():
            file = folder / path
            _check_no_link(folder, file)
            for parent in reversed(file.relative_to(folder).parents):
                if not (folder / parent).exists():
                    (folder / parent).mkdir()
                    created.append(folder / parent)
            existing = file.read_bytes() if file.exists() else None
            if existing != content:
                old[file] = existing
                atomic_write.replace(file, content)
        yield
    except BaseException:
        for file, earlier in old.items():
            if earlier is None:
                file.unlink(missing_ok=True)
            else:
                atomic_write.replace(file, earlier)
        for parent in reversed(created):
            with contextlib.suppress(OSError):  # another process has put a file there
                parent.rmdir()
        raise


def _check_no_link(folder: Path, file: Path) -> None:
    part = file
    while part != folder:
        if part.is_symlink():
            raise CovaltError(
                f"{part.name!r} in toolsets/{folder.name} is a link",
                hint="remove it, and try again",
            )
        part = part.parent
