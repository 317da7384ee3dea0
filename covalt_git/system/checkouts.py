"""Checkouts that a folder is in: the repositories of git and of other systems that can write files into it.

A project may be in several: one that was cloned, one that ``git init`` made within it, and a home folder of dotfiles.
A pull into any of them writes files, also into the folder of an inner repository, which then does not know them.
So nothing may stop at the nearest one.  Only this module looks for them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

GIT = ".git"
MERCURIAL = ".hg"
SYSTEMS = frozenset(
    {
        *(GIT, MERCURIAL, ".jj", ".svn", ".sl", ".bzr"),
        *(".pijul", "_darcs", "CVS", ".fslckout", "_FOSSIL_"),
    }
)
"""Files and folders that a system makes at the top of what it checks out."""


class Checkout(NamedTuple):
    """A folder into which a system checks out files, as a real path, and the path of the system's own files."""

    top: str
    path: str


def checkouts_around(folder: Path, systems: Collection[str] = SYSTEMS) -> Iterator[Checkout]:
    """Yield each checkout that a folder is in, the nearest first, up to the root of the file system.

    Mounts are no borders: a pull writes into them too.
    """
    # Paths are texts here: every call of a tool comes here, and looks into each folder up to the root.
    top = os.path.realpath(folder)
    while True:
        for system in systems:
            path = os.path.join(top, system)  # noqa: PTH118 - as above
            if os.path.lexists(path):
                yield Checkout(top, path)
        above = os.path.dirname(top)  # noqa: PTH120 - as above
        if above == top:
            return
        top = above
