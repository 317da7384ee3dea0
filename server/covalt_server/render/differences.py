"""HTML of git patches: lines with their numbers, changed words, hidden lines, and side by side.

The signs of lines are content of the style sheet, so that a copied selection is the text of the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple

from markupsafe import Markup

from covalt_git.text import display, line_diff
from covalt_server.render import code
from covalt_server.render.patches import PatchLine, read_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalt_server.render.patches import Kind, PatchedFile

MOST_PATCH_LINES = 5_000
LONGEST_PATCH_LINE = 2_000
"""Limits of a patch in lines and characters of a line."""

MOST_OPEN_LINES = 400
"""Number of lines of a patch after which it is folded."""

MORE_LINES = 20
"""Number of hidden lines that a link shows."""

MOST_WORDS = 20_000
MOST_WORDS_OF_LINE = 100
"""Limits of the comparison of words: on one page, and of a line; a longer line has no marked words."""

_LEAST_COMMON = 3
"""Words are marked if a third of the longer line is the same; the marks of other lines would cover nearly all of it."""

_GENERATED = re.compile(
    r"""(?:^|/)(?:
        package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|deno\.lock
        |uv\.lock|poetry\.lock|pdm\.lock|Pipfile\.lock|Cargo\.lock|composer\.lock|Gemfile\.lock|flake\.lock|go\.sum
        |[^/]+\.min\.(?:js|css)|[^/]+\.(?:js|css)\.map|[^/]+_pb2\.py|[^/]+\.pb\.go
    )$|(?:^|/)(?:dist|node_modules|vendor|__generated__)/""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_CONTEXT = 3  # lines around the changes of a hunk; fewer after the last change: the file ends

_BADGE = Markup('<span class="badge">{}</span>')
_COUNT = Markup('<span class="count-{}">{}{:,}</span>')
_HINT = Markup('<p class="hint">{}</p>')
_MORE = Markup('<p class="hint"><a href="{}">{}</a></p>')
_PATCH_HEAD = Markup('<summary><span class="mono">{}</span> {}</summary>')
_PATCH = Markup('<details class="patch"{}>{}</details>')
# `tabindex` makes a block that scrolls sideways reachable by keyboard.
_BLOCK = Markup('<pre class="code diff" tabindex="0"><code>{}</code></pre>')
_SIDES = Markup('<div class="sides">{}</div>')
_HIDDEN = Markup(
    '<a href="{0}" hx-get="{0}" hx-target="closest .line" hx-swap="outerHTML">{1}</a> '
)
_HIDDEN_PAGE = Markup('<a href="{}">{}</a> ')
_BLANK_HEADER = '<span class="line hunk"> \n</span>'
_BLANK = '<span class="line blank"> \n</span>'
_SIGNS: dict[Kind, str] = {"add": "+", "del": "\N{MINUS SIGN}"}

Way = Literal["up", "down"]
_ARROWS: dict[Way, str] = {"up": "\N{UPWARDS ARROW}", "down": "\N{DOWNWARDS ARROW}"}


class Gap(NamedTuple):
    """Lines between hunks, by their numbers in the new file; ``to`` is 0 if the gap is up to the end of the file.

    ``shift`` is the number of an old line minus that of the new one.
    """

    start: int
    to: int
    shift: int


class Row(NamedTuple):
    """A line and its HTML, with marked words."""

    line: PatchLine
    html: str


@dataclass
class DiffRenderer:
    """Renderer of the patches of one page, which share its limits.

    Args:
        most: the number of lines of a patch.
        rest: the URL of a page with more lines.
        is_split: whether the versions are side by side.
        hidden_url: returns the URL that shows lines of a gap in the file at a path; None: there are no links.
        length_of: returns the number of lines of the file at a path; None if that is not known.
    """

    most: int = MOST_PATCH_LINES
    rest: str = ""
    is_split: bool = False
    hidden_url: Callable[[str, Gap, Way], str] | None = None
    length_of: Callable[[str], int | None] = lambda _: None
    _words: int = MOST_WORDS

    def __call__(self, patch: str) -> Markup:
        """Return a git patch as a listing for each file; empty if the text is not a patch."""
        left = self.most
        files: list[Markup] = []
        for file in read_patch(patch):
            files.append(self._file(file, file.lines[:left]))
            left -= min(left, len(file.lines))
        return Markup("\n").join(files)

    def excerpt(self, path: str, texts: Sequence[str], gap: Gap, way: Way) -> Markup:
        """Return lines of a gap, next to the hunk after it (``up``) or before it, and links to those that stay hidden.

        ``texts`` are the lines of the file.
        """
        last = min(gap.to or len(texts), len(texts))
        if way == "up":
            numbers = range(max(gap.start, last - MORE_LINES + 1), last + 1)
            left = gap._replace(to=numbers.start - 1)
        else:
            numbers = range(gap.start, min(gap.start + MORE_LINES - 1, last) + 1)
            left = gap._replace(start=numbers.stop, to=gap.to and last)
        lines = [
            PatchLine("same", f" {texts[at - 1]}", old=at + gap.shift, new=at) for at in numbers
        ]
        rows = [_row(row, width=_width(lines)) for row in self._rows(lines)]
        is_hidden = left.start <= (left.to if way == "up" or gap.to else last)
        if is_hidden:
            links = f'<span class="line hunk">{self._links(path, left)}\n</span>'
            rows = [links, *rows] if way == "up" else [*rows, links]
        return Markup("".join(rows))  # noqa: S704 - of escaped lines

    def _file(self, file: PatchedFile, lines: list[PatchLine]) -> Markup:
        reason = why_folded(file.path, len(lines))
        facts = [_BADGE.format(what) for what in (*file.what, reason) if what]
        for kind, sign in _SIGNS.items():
            if count := file.count(kind):
                facts.append(_COUNT.format(kind, sign, count))
        parts = [_PATCH_HEAD.format(display.in_line(file.path), Markup(" ").join(facts))]
        left = len(file.lines) - len(lines)
        if lines:
            parts.append(self._listing(file, lines, is_complete=not left))
        if left and self.rest:
            parts.append(_MORE.format(self.rest, f"{left:,} more lines"))
        elif left:
            parts.append(_HINT.format(f"{left:,} more lines: the patch is too long to show."))
        return _PATCH.format(Markup() if reason else Markup(" open"), Markup().join(parts))

    def _listing(self, file: PatchedFile, lines: list[PatchLine], *, is_complete: bool) -> Markup:
        is_changed = not {"added", "deleted"} & {*file.what}
        gaps = _gaps(lines, is_complete=is_complete) if is_changed and self.hidden_url else {}
        # The patch does not say whether lines follow its last hunk.
        if (end := gaps.get(len(lines))) and (length := self.length_of(file.path)) is not None:
            if end.start > length:
                gaps.pop(len(lines))
            elif length - end.start < MORE_LINES:
                gaps[len(lines)] = end._replace(to=length)  # its link says how many there are
        width = _width(lines)
        columns: tuple[list[str], ...] = ([], []) if self.is_split else ([],)
        start = 0
        for at, line in enumerate([*lines, PatchLine("hunk", "")]):
            if line.kind != "hunk":
                continue
            for column, rows in zip(columns, self._columns(lines[start:at], width), strict=True):
                column.extend(rows)
            header = self._header(file.path, line, gaps.get(at))
            for number, column in enumerate(columns if header else ()):
                # The links are in one column only; the other one has a row of the same height.
                column.append(
                    header if not number else self._header("", line, None) or _BLANK_HEADER
                )
            start = at + 1
        blocks = Markup().join(
            _BLOCK.format(Markup("".join(column)))  # noqa: S704 - of escaped lines
            for column in columns
        )
        return _SIDES.format(blocks) if self.is_split else blocks

    def _columns(self, lines: Sequence[PatchLine], width: int) -> tuple[list[str], ...]:
        """Return the rows of the lines of a hunk; for both sides, a row without a line on one side is blank there."""
        rows = self._rows(lines)
        if not self.is_split:
            return ([_row(row, width=width) for row in rows],)
        columns: tuple[list[str], list[str]] = ([], [])
        for is_change, group in groupby(rows, lambda row: row.line.kind in _SIGNS):
            both = [*group]
            old, new = (
                [row for row in both if not is_change or row.line.kind != other]
                for other in ("add", "del")
            )
            for pair in zip_longest(old, new):
                for side, (column, row) in enumerate(zip(columns, pair, strict=True)):
                    column.append(_BLANK if row is None else _row(row, width=width, side=side))
        return columns

    def _header(self, path: str, line: PatchLine, gap: Gap | None) -> str:
        """Return the row of a hunk's header, or of the end of the file, with links to the hidden lines before it."""
        links = self._links(path, gap) if gap is not None else ""
        text = code.escaped(_cut(line.text))
        return f'<span class="line hunk">{links}{text}\n</span>' if links or text else ""

    def _links(self, path: str, gap: Gap) -> str:
        assert self.hidden_url is not None
        number = min(gap.to - gap.start + 1, MORE_LINES) if gap.to else MORE_LINES
        ways: tuple[Way, ...] = ("down", "up")
        if gap.start == 1:
            ways = ("up",)
        elif not gap.to or gap.to - gap.start < MORE_LINES:
            ways = ("down",)
        lines = f"{number} more {'line' if number == 1 else 'lines'}"
        # The answer has one column.
        link = _HIDDEN_PAGE if self.is_split else _HIDDEN
        return "".join(
            link.format(self.hidden_url(path, gap, way), f"{_ARROWS[way]} {lines}") for way in ways
        )

    def _rows(self, lines: Sequence[PatchLine]) -> list[Row]:
        """Return lines with their different words marked: the first deleted and the first added line are a pair."""
        rows = [Row(line, str(code.escaped(_text(line)))) for line in lines]
        start = 0
        for _, group in groupby(lines, lambda line: line.kind == "same"):
            end = start + len([*group])
            old = [at for at in range(start, end) if lines[at].kind == "del"]
            new = [at for at in range(start, end) if lines[at].kind == "add"]
            for pair in zip(old, new, strict=False):
                marked = self._marked(*(lines[at].text for at in pair))
                for at, html in zip(pair, marked or (rows[at].html for at in pair), strict=True):
                    rows[at] = rows[at]._replace(html=html)
            start = end
        return rows

    def _marked(self, old: str, new: str) -> tuple[str, ...]:
        """Return the HTML of two lines of a patch with their different words marked; empty beyond a limit."""
        if max(len(old), len(new)) > LONGEST_PATCH_LINE:
            return ()
        words = [_WORD.findall(line[1:]) for line in (old, new)]
        self._words -= sum(map(len, words))
        if self._words < 0 or max(map(len, words)) > MOST_WORDS_OF_LINE:
            return ()
        return tuple("".join(_html(*part) for part in side) for side in changed_words(*words))


def diff(patch: str, *, most: int = MOST_PATCH_LINES, rest: str = "") -> Markup:
    """Return a git patch as a listing for each file, without links to hidden lines."""
    return DiffRenderer(most, rest)(patch)


def why_folded(path: str, lines: int) -> str:
    """Return why the patch of a file is folded; an empty string if it is not."""
    if _GENERATED.search(path):
        return "generated"
    return "long" if lines > MOST_OPEN_LINES else ""


def changed_words(
    old: Sequence[str], new: Sequence[str]
) -> tuple[list[tuple[str, bool]], ...] | tuple[()]:
    """Return the parts of two lines and whether they are changed; empty if the lines have little in common."""
    blocks = line_diff.common_blocks(old, new)
    common = sum(len(word) for at, _, size in blocks for word in old[at : at + size])
    if common * _LEAST_COMMON < max(len("".join(old)), len("".join(new))):
        return ()
    return tuple(
        _parts(words, [(block[side], block[2]) for block in blocks])
        for side, words in enumerate((old, new))
    )


def _parts(words: Sequence[str], blocks: list[tuple[int, int]]) -> list[tuple[str, bool]]:
    is_changed = [True] * len(words)
    for start, size in blocks:
        is_changed[start : start + size] = [False] * size
    for at in range(1, len(words) - 1):
        # Two changed words with a space between them read as one change.
        if words[at].isspace() and is_changed[at - 1] and is_changed[at + 1]:
            is_changed[at] = True
    return [
        ("".join(words[at] for at in group), key)
        for key, group in groupby(range(len(words)), is_changed.__getitem__)
    ]


def _html(text: str, is_changed: bool) -> str:  # noqa: FBT001 - the parts of changed_words
    return f"<mark>{code.escaped(text)}</mark>" if is_changed else str(code.escaped(text))


def _row(row: Row, *, width: int, side: int | None = None) -> str:
    numbers = (row.line.old, row.line.new)
    shown = numbers if side is None else (numbers[side],)
    number = " ".join(f"{number or '':>{width}}" for number in shown)
    # There may be thousands, and formatting Markup takes ten times as long.
    return f'<span class="line {row.line.kind}"><span class="number">{number}</span>{row.html}\n</span>'


def _gaps(lines: list[PatchLine], *, is_complete: bool) -> dict[int, Gap]:
    """Return the hidden lines before each hunk by its index, and those after the last line."""
    gaps: dict[int, Gap] = {}
    start = 1  # the first hidden line
    shift = 0
    for at, line in enumerate(lines):
        if line.start is not None:
            old, new = line.start
            shift = old - new
            if new > start:
                gaps[at] = Gap(start, new - 1, shift)
            start = new
        elif line.new is not None:
            start = line.new + 1
        elif line.old is not None:
            shift += 1
        if line.kind == "add":
            shift -= 1
    after = [line.kind for line in lines[-_CONTEXT:]]
    if is_complete and after == ["same"] * _CONTEXT:
        gaps[len(lines)] = Gap(start, 0, shift)
    return gaps


def _width(lines: Sequence[PatchLine]) -> int:
    numbers = [number for line in lines for number in (line.old, line.new) if number]
    return len(str(max(numbers, default=0)))


def _text(line: PatchLine) -> str:
    """Return a line without the sign of the patch."""
    return _cut(line.text) if line.kind == "note" else _cut(line.text)[1:]


def _cut(text: str) -> str:
    start = text[:LONGEST_PATCH_LINE]
    if cut := len(text) - len(start):
        start += f"\N{HORIZONTAL ELLIPSIS} {cut:,} more"
    return start
