"""Symbolic links in place of folders and files that commands write, which a clone or an archive can bring."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_MOST_LINKS = 40
"""As Linux; a longer chain cannot be opened."""


class LinkedFolderError(CovaltError):
    """A symbolic link in place of a folder or a file that commands write."""

    code = "linked_folder"
    http_status = 409


def find_link(root: Path, path: Path) -> Path | None:
    """Return the first link on the way from ``root``, exclusive, to ``path``, inclusive."""
    relative = path.relative_to(root)
    parts = (*reversed(relative.parents[:-1]), relative)
    return next((root / part for part in parts if (root / part).is_symlink()), None)


def visited(path: str) -> Iterator[Path]:
    """Yield each file, folder and link that opening a path passes, also within links; relative paths begin at ``/``.

    ``Path.resolve`` returns the end only: a link on the way may be in a folder that others can change.
    """
    at, links = Path("/"), 0
    names = path.split("/")[::-1]
    yield at
    while names:
        name = names.pop()
        if name == "..":  # of a real folder, since each link was replaced by its target
            at = at.parent
        elif name not in {"", "."}:
            at /= name
            yield at
            try:
                target = str(at.readlink())
            except (OSError, ValueError):  # no link, nothing, or no path at all
                continue
            links += 1
            if links > _MOST_LINKS:
                return
            at = Path("/") if target.startswith("/") else at.parent
            names += target.split("/")[::-1]


def links_in(folder: Path | str) -> list[str]:
    """Return the names of the links in a folder, sorted; empty if it is missing or a link itself."""
    # This runs about fifteen times for each call of a tool, so paths are texts here: they are made in a tenth of the time.
    if os.path.islink(folder):  # noqa: PTH114
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_symlink())
    except (FileNotFoundError, NotADirectoryError):
        return []


def check_entries(folder: Path, inner: Iterable[str], *, but: Collection[str] = ()) -> None:
    """Check that some folders within a folder have no links as entries, except for names in ``but``.

    Raises:
        LinkedFolderError: with the first link.
    """
    for name in inner:
        for link in links_in(f"{folder}/{name}"):
            if link not in but:
                raise refusal(folder / name / link)


def refusal(link: Path) -> LinkedFolderError:
    return LinkedFolderError(
        f"{str(link)!r} is a symbolic link to {str(link.readlink())!r}: commands would leave its folder",
        hint=f"ls -l {link}",
    )
