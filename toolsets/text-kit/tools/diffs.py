"""Unified diffs in git's format, which ``git apply`` and :mod:`tools.patches` read."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_END = "\\ No newline at end of file\n"

_QUOTED = re.compile(r'[\x00-\x1f"\\\x7f]')
_ITSELF = '"\\'
_ESCAPES = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r"}


def unified(
    old: Sequence[str], new: Sequence[str], *, old_name: str, new_name: str, context: int = 3
) -> str:
    """Return the unified diff of two lists of lines with their ends; empty text if they are equal."""
    lines = difflib.unified_diff(
        old, new, header(f"a/{old_name}"), header(f"b/{new_name}"), n=context
    )
    return "".join(line if line.endswith("\n") else f"{line}\n{NO_END}" for line in lines)


def counts(diff: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines of a diff of :func:`unified`."""
    lines = diff.split("\n")[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def header(name: str) -> str:
    """Return a file's name for a diff: quoted as in C if it has special characters."""
    if not _QUOTED.search(name):
        # Git writes a tab after a name with a space, so that other programs find its end.
        return f"{name}\t" if " " in name else name
    return '"' + _QUOTED.sub(lambda sign: _escaped(sign[0]), name) + '"'


def _escaped(sign: str) -> str:
    if sign in _ITSELF:
        return f"\\{sign}"
    return f"\\{_ESCAPES[sign]}" if sign in _ESCAPES else f"\\{ord(sign):03o}"
