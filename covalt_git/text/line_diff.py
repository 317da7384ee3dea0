"""Line-based differences of texts; the only module that uses ``difflib``."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher, unified_diff  # noqa: TID251 - the only use
from io import BytesIO, StringIO
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_COMPARED = 2_000
"""Lines of one side that are compared in order; difflib's time can grow with their square."""

_MOST_DIFFERENT = 100_000
"""Changed lines of large texts that are remembered at a time."""

_CHUNK = 64 << 10


def unified(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the unified diff of two texts, for ``git apply`` and ``patch``.

    ``names`` are the names of the two files in it, such as ``a/covalt.yaml``.
    """
    # At line feeds only: `git apply` refuses a patch that is split at a form feed or U+2028, as `splitlines` does
    # (test_git_applies_a_unified_difference).
    old, new = (list(StringIO(text, newline="\n")) for text in (before, after))
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(old, new, *names)
    )


def marked_lines(old: Sequence[str], new: Sequence[str], around: int) -> Iterator[tuple[str, str]]:
    """Yield lines with their marks: ``-``, ``+``, and a space for ``around`` lines of context."""
    # `autojunk` ignores lines that are frequent in a longer text, and can show them as changed.
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(around):
        for kind, start, end, new_start, new_end in group:
            yield from ((" " if kind == "equal" else "-", line) for line in old[start:end])
            if kind != "equal":
                yield from (("+", line) for line in new[new_start:new_end])


def common_blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return what two short sequences have in common: where each block begins in either one, and its length."""
    return [
        (block.a, block.b, block.size)
        for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    ]


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


def count_changes_of_large(old: bytes, new: bytes) -> tuple[int, int]:
    """Return the numbers of added and deleted lines of two large texts, in linear time and little memory.

    The lines that both texts begin and end with are not counted.  A line that only moved counts as unchanged, unless it
    moved past more than 100,000 other changed lines.
    """
    start = old.rfind(b"\n", 0, _common_beginning(old, new)) + 1  # of the line that differs
    end = _common_end(old, new, start)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not (old and new):
        return _count_lines(new), _count_lines(old)
    added = deleted = 0
    more: Counter[int] = Counter()  # by the hash of a line: how many more the new text has so far
    # In step, so that lines that both texts have near each other leave memory at once.
    for old_line, new_line in zip_longest(BytesIO(old), BytesIO(new)):
        for line, sign in ((old_line, -1), (new_line, 1)):
            if line is not None:
                key = hash(line)
                more[key] += sign
                if not more[key]:
                    del more[key]
        if len(more) > _MOST_DIFFERENT:
            added, deleted = added + _sum(more, 1), deleted + _sum(more, -1)
            more.clear()
    return added + _sum(more, 1), deleted + _sum(more, -1)


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n") and bool(text))


def _sum(more: Counter[int], sign: int) -> int:
    return sum(max(count * sign, 0) for count in more.values())


def _common_beginning(old: bytes, new: bytes) -> int:
    """Return the number of bytes that both texts begin with."""
    at, shorter = 0, min(len(old), len(new))
    # By chunks, which the C library compares: a loop of Python over the bytes takes hundreds of times as long.
    while at < shorter and old[at : at + _CHUNK] == new[at : at + _CHUNK]:
        at += _CHUNK
    same = takewhile(
        lambda pair: pair[0] == pair[1],
        zip(old[at : at + _CHUNK], new[at : at + _CHUNK], strict=False),
    )
    return min(at + sum(1 for _ in same), shorter)


def _common_end(old: bytes, new: bytes, start: int) -> int:
    """Return the size of the lines that both texts end with, after the first ``start`` bytes."""
    size, shorter = 0, min(len(old), len(new)) - start
    while size + _CHUNK <= shorter and _end(old, size) == _end(new, size):
        size += _CHUNK
    # A part of a line at the beginning of this end is not counted as common.
    first = old.find(b"\n", len(old) - size) + 1 if size else 0
    return len(old) - first if first else 0


def _end(text: bytes, size: int) -> bytes:
    """Return the chunk before the last ``size`` bytes."""
    return text[len(text) - size - _CHUNK : len(text) - size]
