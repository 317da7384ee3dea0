"""Paths that an argument of a program, or a variable, can name, and whether they lead into a folder.

What a project's programs load must be outside of the project, where a pull could change it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from covalt_git.system import links

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BETWEEN_PATHS = r"\s=:,;|&<>(){}'\"`@"
"""Characters between the paths of a text, for a class of a regular expression."""

_MOST_CHARACTERS = 4096
"""Linux opens no longer path (``PATH_MAX``)."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE_URL = re.compile(r"file:(?://[^/]*)?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)
"""Also as a part of another scheme, such as ``git+file:``; programs ignore its host."""

_GAP = re.compile(f"[{BETWEEN_PATHS}]+")


def paths(argument: str) -> Iterator[str]:
    """Yield the texts of an argument that can be paths: ``FILE``, ``NAME=FILE``, ``-fFILE``, a list, a ``file:`` URL."""
    url = _FILE_URL.search(argument)
    if url is not None:
        yield from paths(unquote(url["path"]))
    elif _URL.match(argument):
        return
    # The rest of the argument as well: names of folders can have spaces, commas and the like.
    rests = (argument[gap.end() : gap.end() + _MOST_CHARACTERS] for gap in _GAP.finditer(argument))
    # More texts than there are paths: what is no path leads nowhere, and a missed one could be changed by a
    # pull.
    for text in (argument, *rests, *_GAP.split(argument)):
        yield text
        if text.startswith("-"):
            yield text[2:]
            yield "/" + text.partition("/")[2]


def leads_into(path: str, folder: Path) -> bool:
    """Return whether a path, seen from ``/``, is in a resolved folder, or passes through it by a link."""
    return any(
        place.is_relative_to(folder) or _is_same(place, folder) for place in links.visited(path)
    )


def _is_same(place: Path, folder: Path) -> bool:
    """Return whether two paths are one folder, as ``/P`` and ``/p`` are where the file system ignores case."""
    try:
        return os.path.samestat(place.lstat(), folder.stat())
    except (OSError, ValueError):
        return False
