"""What was made of files is kept until one of them changes: a list of thousands of tools is no small work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from covalt_git.index.signatures import signature

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

Made = TypeVar("Made")


class Kept:
    """The latest of each thing that was made of some files; for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._signature: str | None = None
        self._made: dict[Hashable, Any] = {}

    def of(self, key: Hashable, files: tuple[Path, ...], make: Callable[[], Made]) -> Made:
        """Return what ``make`` returns, or returned for the same key and the same files."""
        # Before it is made: what changes meanwhile makes the signature an old one.
        seen = signature(*files)
        with self._lock:
            if seen != self._signature:
                self._signature = seen
                self._made.clear()
            elif seen is not None and key in self._made:
                made: Made = self._made[key]
                return made
        made = make()
        with self._lock:
            if seen is not None and seen == self._signature:
                self._made[key] = made
        return made
