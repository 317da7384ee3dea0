"""Line-based differences of texts; the only module that uses ``difflib``."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher, unified_diff  # noqa: TID251 - the only use
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_COMPARED = 2_000
"""Lines of one side that are compared in order; difflib's time can grow with their square."""


def unified(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the unified diff of two texts, for ``git apply`` and ``patch``.

    ``names`` are the names of the two files in it, such as ``a/covalt.yaml``.
    """
    old, new = (list(StringIO(text, newline="\n")) for text in (before, after))
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(old, new, *names)
    )


def marked_lines(old: Sequence[str], new: Sequence[str], around: int) -> Iterator[tuple[str, str]]:
    """Yield lines with their marks: ``-``, ``+``, and a space for ``around`` lines of context."""
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(around):
        for kind, start, end, new_start, new_end in group:
            yield from ((" " if kind == "equal" else "-", line) for line in old[start:end])
            if kind != "equal":
                yield from (("+", line) for line in new[new_start:new_end])


def count_changes(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """Return the numbers of added and deleted lines, without the lines that both texts begin and end with.

    If more than 2,000 lines are left, a line that only moved counts as unchanged.
    """
    start, end, shorter = 0, 0, min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not (old and new):
        return len(new), len(old)
    if max(len(old), len(new)) > _MOST_COMPARED:
        same = (Counter(old) & Counter(new)).total()
    else:
        same = sum(block.size for block in SequenceMatcher(None, old, new).get_matching_blocks())
    return len(new) - same, len(old) - same
