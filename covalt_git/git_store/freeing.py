"""Files that lose their name: nobody waits until the file system has freed them.

Whoever closes a file that has no name any more waits while its blocks are given back, which takes
longer than all else that removing or replacing a file takes, and what is flushed meanwhile waits,
too.  So they are held until that is durable, and another thread lets go of them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from typing import Self

_PATH_ONLY = getattr(os, "O_PATH", None)  # no watch hears of it, and nothing can be read; Linux's
_MOST = 128  # of some 1,024 handles that a process may have


@dataclass(slots=True)
class Freeing:
    """Handles of files that are to go; after its block they are let go of."""

    _handles: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Begin to hold files."""
        return self

    def __exit__(self, *_: object) -> None:
        """Have them let go of, some ms from now."""
        if not self._handles:
            return
        try:
            threading.Thread(target=self._let_go).start()
        except RuntimeError:  # there are too many threads
            self._let_go()

    def hold(self, path: str, *, folder: int | None = None) -> None:
        """Hold a file, named as from an open folder if one is given, unless so many are held."""
        if _PATH_ONLY is None or len(self._handles) == _MOST:
            return
        flags = _PATH_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            self._handles.append(os.open(path, flags, dir_fd=folder))

    def _let_go(self) -> None:
        while self._handles:
            os.close(self._handles.pop())
