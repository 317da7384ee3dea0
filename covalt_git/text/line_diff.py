"""Difference of texts by lines, the one place that compares them with ``difflib``."""

from __future__ import annotations

from difflib import SequenceMatcher, unified_diff  # noqa: TID251 - here is their home
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def unified(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the unified difference of two texts, which ``git apply`` and ``patch`` take.

    ``names`` are what it calls the two files, as ``a/covalt.yaml``.
    """
    old, new = (list(StringIO(text, newline="\n")) for text in (before, after))
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(old, new, *names)
    )


def marked_lines(old: Sequence[str], new: Sequence[str], around: int) -> Iterator[tuple[str, str]]:
    """Yield lines with their marks: ``-`` and ``+``, and a space for ``around`` lines that stay beside."""
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(around):
        for kind, start, end, new_start, new_end in group:
            yield from ((" " if kind == "equal" else "-", line) for line in old[start:end])
            if kind != "equal":
                yield from (("+", line) for line in new[new_start:new_end])


def lines_that_stay(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the positions, in the old and in the new text, of each line that both have in order."""
    for start, new_start, length in SequenceMatcher(None, old, new).get_matching_blocks():
        yield from ((start + at, new_start + at) for at in range(length))
