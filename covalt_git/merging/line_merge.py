r"""Merge of texts by lines, with the library merge3.

As in git, a line ends after ``\n``, so that ``\r\n`` and a missing last newline do not change.  Changes of
adjacent lines are a conflict, also as in git.
"""

from __future__ import annotations

import hashlib
import io
import itertools
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from merge3 import Merge3

from covalt_git.git_store.objects import is_binary_content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_AROUND = 3
"""How many lines are shown before and after a conflict."""

_MARKS = ("<" * 7, ">" * 7)
_BETWEEN = [b"=======\n"]

_MOST_EDITS = 500
"""Up to so many inserted and deleted lines the shortest edit is looked for; it takes their square."""


HunkDecision = Literal["ours", "theirs", "both"]
"""The lines of a side, or those of both, ours first, as in :func:`union`."""


class Hunk(NamedTuple):
    """The conflicting lines of the base and of both sides; ``line`` is the number of our first line."""

    line: int
    base: Sequence[bytes]
    ours: Sequence[bytes]
    theirs: Sequence[bytes]

    @property
    def versions(self) -> str:
        """An id of the lines of all three sides."""
        digest = hashlib.sha256()
        for lines in (self.base, self.ours, self.theirs):
            content = b"".join(lines)
            # With the length: lines that move from one side to the next one change it.
            digest.update(len(content).to_bytes(8, "big") + content)
        return digest.hexdigest()[:16]


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the text with the changes of both sides; None if they conflict."""
    parts = list(_parts(base, ours, theirs))
    return None if any(len(part) > 1 for part in parts) else b"".join(_together(parts))


def union(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Return the text with the changes of both sides; in a conflict, the lines of both sides, ours first."""
    return b"".join(_together(part[-2:] for part in _parts(base, ours, theirs, refined=True)))


def hunks(base: bytes, ours: bytes, theirs: bytes) -> tuple[list[Hunk], int]:
    """Return the conflicts in order, and the number of other changed places, which are merged in any case."""
    texts = _merger(base, ours, theirs)
    conflicts, merged = [], 0
    for kind, start, end, *places in texts.merge_regions():
        if kind == "conflict":
            mine, other = texts.a[places[0] : places[1]], texts.b[places[2] : places[3]]
            conflicts.append(Hunk(places[0] + 1, texts.base[start:end], mine, other))
        else:
            merged += kind != "unchanged"
    return conflicts, merged


def decided(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    decisions: Iterable[HunkDecision | None],
    names: tuple[str, str] = ("", ""),
) -> bytes:
    """Return the text with the changes of both sides, and with the decision about each of :func:`hunks`.

    A hunk without a decision has git's conflict markers, with ``names`` as their labels, ours first.
    """
    begin, end = _marks(names, _line_end(ours))
    between = [f"======={_line_end(ours)}".encode()]
    texts = _merger(base, ours, theirs)
    decisions = iter(decisions)
    parts: list[Sequence[Sequence[bytes]]] = []
    for region in texts.merge_regions():
        decision = next(decisions, None) if region[0] == "conflict" else None
        for part in _regions(texts, iter([region]), refined=decision not in {"ours", "theirs"}):
            if len(part) == 1 or decision == "both":
                parts.append(part[-2:])
            elif decision is None:
                parts.append((begin, part[1], between, part[2], end))
            else:
                parts.append((part[1 if decision == "ours" else 2],))
    return b"".join(_together(parts))


def conflicting(base: bytes, ours: bytes, theirs: bytes, names: tuple[str, str]) -> list[bytes]:
    """Return the lines in conflict in git's style diff3, each with some lines around them.

    The lines of the base are between those of the two sides.  ``names`` are the labels of the sides in the
    markers, ours first.  A line ``...`` separates distant conflicts.
    """
    begin, end = _marks(names)
    lines: list[bytes] = []
    near: set[int] = set()
    for part in _parts(base, ours, theirs):
        if len(part) == 1:
            lines += part[0]
            continue
        old, mine, other = part
        first = len(lines)
        lines += _together([(begin, mine, [b"||||||| base\n"], old, _BETWEEN, other, end)])
        near.update(range(max(0, first - _AROUND), len(lines) + _AROUND))
    excerpt: list[bytes] = []
    for at, line in enumerate(lines):
        if at in near:
            excerpt += [line] if at == 0 or at - 1 in near else [b"...\n", line]
    return excerpt


def is_text(*contents: bytes) -> bool:
    """Return whether git would treat all the contents as text."""
    return not any(is_binary_content(content) for content in contents)


def _marks(names: tuple[str, str], line_end: str = "\n") -> list[list[bytes]]:
    return [[f"{mark} {name}{line_end}".encode()] for mark, name in zip(_MARKS, names, strict=True)]


def _line_end(text: bytes) -> str:
    # As git does: an editor would change the breaks of all lines if those of the markers were others.
    return "\r\n" if text.partition(b"\n")[0].endswith(b"\r") else "\n"


def _parts(
    base: bytes, ours: bytes, theirs: bytes, *, refined: bool = False
) -> Iterator[tuple[Sequence[bytes], ...]]:
    """Yield each region: merged lines, or for a conflict the lines of the base and of both sides.

    If ``refined``, lines that are equal on both sides are not part of the conflict, and it has no base.
    """
    texts = _merger(base, ours, theirs)
    yield from _regions(texts, texts.merge_regions(), refined=refined)


def _merger(base: bytes, ours: bytes, theirs: bytes) -> Merge3[bytes]:
    return Merge3(_lines(base), _lines(ours), _lines(theirs), sequence_matcher=_Matcher)


def _regions(
    texts: Merge3[bytes], regions: Iterator[Any], *, refined: bool
) -> Iterator[tuple[Sequence[bytes], ...]]:
    for kind, start, end, *places in texts.reprocess_merge_regions(regions) if refined else regions:
        if kind == "conflict":
            old = () if refined else texts.base[start:end]
            yield old, texts.a[places[0] : places[1]], texts.b[places[2] : places[3]]
        else:
            yield ({"unchanged": texts.base, "b": texts.b}.get(kind, texts.a)[start:end],)


def _together(parts: Iterable[Sequence[Sequence[bytes]]]) -> list[bytes]:
    """Return the lines of all parts; a line without a newline gets one if another line follows."""
    merged: list[bytes] = []
    for lines in itertools.chain.from_iterable(parts):
        # The last line of one side can come before lines of the other: without a newline, two lines would become one.
        if merged and lines and not merged[-1].endswith(b"\n"):
            merged[-1] += b"\r\n" if lines[0].endswith(b"\r\n") else b"\n"
        merged += lines
    return merged


def _lines(text: bytes) -> list[bytes]:
    # splitlines() also splits at a lone carriage return, which is part of a line in git.
    return io.BytesIO(text).readlines()


class Path(NamedTuple):
    """Blocks of lines that two texts have in common: the last block, and the path with those ``before`` it."""

    before: Path | None
    in_a: int
    in_b: int
    length: int


class _Matcher:
    """The lines that two texts have in common, with difflib's interface, which merge3 calls.

    Difflib ignores lines that are frequent in a long text, so it finds nothing in a table with few different
    lines.  This class computes the shortest edit, as git does; the time grows with the number of changes.  If
    there are too many changes, it compares only the lines that occur once in each text.
    """

    def __init__(
        self,
        isjunk: Callable[[bytes], bool] | None = None,
        a: Sequence[bytes] = (),
        b: Sequence[bytes] = (),
        autojunk: bool = True,  # noqa: FBT001, FBT002 - difflib's signature
    ) -> None:
        del isjunk, autojunk
        self._a = a
        self._b = b

    def get_matching_blocks(self) -> list[tuple[int, int, int]]:
        """Return the blocks in order: where each begins in either text, and its length; the last block is empty."""
        a, b = self._a, self._b
        most = min(len(a), len(b))
        # Most edits change a few lines of a long text, and the search below takes memory for each diagonal.
        start = next((at for at in range(most) if a[at] != b[at]), most)
        most -= start  # a line must not count for the beginning and for the end
        end = next((at for at in range(most) if a[-1 - at] != b[-1 - at]), most)
        middle = a[start : len(a) - end], b[start : len(b) - end]
        path = _shortest_edit(*middle) or _unique_lines(*middle)
        blocks = []
        while path is not None:
            path, i, j, length = path
            blocks.append((start + i, start + j, length))
        after = (len(a) - end, len(b) - end, end)
        return [(0, 0, start), *blocks[::-1], after, (len(a), len(b), 0)]


def _unique_lines(a: Sequence[bytes], b: Sequence[bytes]) -> Path | None:
    """Return the longest common sequence of the lines that occur once in each text."""
    in_a, in_b = Counter(a), Counter(b)
    places = {line: at for at, line in enumerate(b) if in_b[line] == 1}
    # ends[n] is the smallest last position in b of a common subsequence of length n + 1, which is paths[n].
    ends: list[int] = []
    paths: list[Path] = []
    for at, line in enumerate(a):
        place = places.get(line)
        if place is not None and in_a[line] == 1:
            n = bisect_left(ends, place)
            ends[n : n + 1] = [place]
            paths[n : n + 1] = [Path(paths[n - 1] if n else None, at, place, 1)]
    return paths[-1] if paths else None


def _shortest_edit(a: Sequence[bytes], b: Sequence[bytes]) -> Path | None:
    """Return the unchanged lines of the shortest edit from ``a`` to ``b``; None if it is too long.

    Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), section 2: on the diagonal ``k``, the
    position in ``a`` minus the position in ``b`` is ``k``.  ``furthest[k]`` is the last position in ``a`` that
    a path with the current number of edits reaches there, and that path.
    """
    furthest: dict[int, tuple[int, Path | None]] = {1: (0, None)}
    for edits in range(min(len(a) + len(b), _MOST_EDITS) + 1):
        reached: dict[int, tuple[int, Path | None]] = {}
        for k in range(-edits, edits + 1, 2):
            if k == -edits or (k != edits and furthest[k - 1][0] < furthest[k + 1][0]):
                start, path = furthest[k + 1]  # by a line of b
            else:
                start, path = furthest[k - 1]
                start += 1
            at = start
            while at < len(a) and at - k < len(b) and a[at] == b[at - k]:
                at += 1
            if at > start:
                path = Path(path, start, start - k, at - start)
            if at >= len(a) and at - k >= len(b):
                return path
            reached[k] = at, path
        furthest = reached
    return None
