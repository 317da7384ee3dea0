"""Patterns over paths, as people write them for ``git grep`` and ``.gitignore``.

``*`` is any number of characters of one name and ``**`` any number of folders.  A pattern without
``/`` is about names, wherever they stand: ``*.py`` is every Python file.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Chosen:
    """Which files are meant: those that ``include`` names, or all, without those of ``exclude``."""

    include: tuple[tuple[str, ...], ...]
    exclude: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> Chosen:
        """Read the patterns.

        Raises:
            ValueError: for one that says nothing.
        """
        return cls(tuple(map(_parts, include)), tuple(map(_parts, exclude)))

    def __call__(self, path: str) -> bool:
        """Tell whether the file at ``path``, relative to the workspace, is meant."""
        names = path.split("/")
        if any(matches(names, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(matches(names, pattern) for pattern in self.include)


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a path, split at its slashes, fits a pattern; in time of their lengths' product."""
    reached = {0}
    for name in (*names, None):
        # ``**`` may stand for no folder at all, so that what follows it is reached as well.
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
