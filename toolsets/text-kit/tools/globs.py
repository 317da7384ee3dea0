"""Patterns of paths, similar to those of ``git grep`` and ``.gitignore``.

``*`` matches any number of characters of a name, ``**`` any number of folders.  A pattern without
``/`` matches names in any folder: ``*.py`` matches every Python file.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Chosen:
    """Selected files: all, or those matching ``include``, minus those matching ``exclude``."""

    include: tuple[tuple[str, ...], ...]
    exclude: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> Chosen:
        """Read the patterns.

        Raises:
            ValueError: for an empty pattern.
        """
        return cls(tuple(map(_parts, include)), tuple(map(_parts, exclude)))

    def __call__(self, path: str) -> bool:
        """Return whether the file at ``path``, relative to the workspace, is selected."""
        names = path.split("/")
        if any(matches(names, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(matches(names, pattern) for pattern in self.include)


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a path, split at its slashes, matches a pattern.

    The time is proportional to the product of both lengths.
    """
    reached = {0}
    for name in (*names, None):
        # ``**`` also matches zero folders, so the part after it may match this name too.
        for place, part in enumerate(pattern):
            if place in reached and part == "**":
                reached.add(place + 1)
        if name is None:
            break
        reached = {
            place if pattern[place] == "**" else place + 1
            for place in reached
            if place < len(pattern)
            and (pattern[place] == "**" or fnmatchcase(name, pattern[place]))
        }
    return len(pattern) in reached


def _parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in {"", "."})
    if not parts:
        raise ValueError(f"{pattern!r} is no pattern: write one such as '*.py' or 'src/**'")
    if pattern.endswith("/"):
        parts = (*parts, "**")
    return parts if "/" in pattern.rstrip("/") else ("**", *parts)
