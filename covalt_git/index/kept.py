"""What was made of files is kept until one of them changes: reading thousands of tools is no small work."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from covalt_git.index.signatures import signature

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

Made = TypeVar("Made")


class Kept:
    """The latest of each thing that was made of files, for many threads.

    Of more than ``most`` the one that was longest not asked for goes.
    """

    def __init__(self, *, most: int = 64) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()

    def of(
        self,
        key: Hashable,
        files: tuple[Path, ...],
        make: Callable[[], Made],
        *,
        beside: Hashable = (),
    ) -> Made:
        """Return what ``make`` returns, or returned for the same key and files, and ``beside`` them."""
        # Before it is made: what changes meanwhile makes the signature an old one.
        now = signature(*files)
        seen = (now, beside)
        with self._lock:
            kept = self._made.get(key)
            if kept is not None and kept[0] == seen:
                self._made.move_to_end(key)
                found: Made = kept[1]
                return found
        made = make()
        if now is not None:
            with self._lock:
                self._made[key] = (seen, made)
                self._made.move_to_end(key)
                if len(self._made) > self._most:
                    self._made.popitem(last=False)
        return made
