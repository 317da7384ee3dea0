"""Merging texts by lines: as git does where lines tell themselves apart, and byte for byte."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.merging import line_merge
from tests.merging.merges import TEXT, text
from tests.workspaces.stores import scratch

if TYPE_CHECKING:
    from pathlib import Path

MANY = [b"%d\n" % number for number in range(3000)]


def test_changes_of_both_sides_come_together() -> None:
    assert line_merge.merge(TEXT, text(_1="ours"), text(_7="theirs")) == text(
        _1="ours", _7="theirs"
    )


def test_thousands_of_changes_among_lines_that_repeat_come_together_in_no_time() -> None:
    base = b"".join(b"- id: t%d\n  on: 1\n  name: x\n" % number for number in range(30_000))
    ours = base.replace(b"on: 1", b"on: 2")
    theirs = base.replace(b"t29999\n  on: 1\n  name: x", b"t29999\n  on: 1\n  name: x\n  tag: y")

    assert line_merge.merge(base, ours, theirs) == ours + b"  tag: y\n"
    assert line_merge.merge(base, ours, base.replace(b"on: 1", b"on: 3")) is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(text(_4="ours"), text(_4="theirs"), id="same-line"),
        pytest.param(text(_4="ours"), text(_5="theirs"), id="lines-that-touch"),
        pytest.param(TEXT + b"ours\n", TEXT + b"theirs\n", id="both-at-the-end"),
        pytest.param(TEXT.replace(b"line 4\n", b""), text(_4="theirs"), id="deleted-and-changed"),
        pytest.param(TEXT.replace(b"\n", b"\r\n"), text(_4="theirs"), id="line-ends-and-a-line"),
    ],
)
def test_changes_of_the_same_lines_are_a_conflict(ours: bytes, theirs: bytes) -> None:
    assert line_merge.merge(TEXT, ours, theirs) is None
    assert line_merge.merge(TEXT, theirs, ours) is None


def test_carriage_returns_and_a_missing_last_newline_come_through() -> None:
    base = b"one\r\ntwo\r\nthree\rstill three\r\nfour\r\nfive"
    ours = base.replace(b"one", b"ONE")
    theirs = base.replace(b"five", b"FIVE\x0b\x0cstill FIVE")

    assert line_merge.merge(base, ours, theirs) == theirs.replace(b"one", b"ONE")


def test_a_newline_at_the_end_is_a_change_like_others() -> None:
    assert line_merge.merge(b"a\nb\nc", b"A\nb\nc", b"a\nb\nc\n") == b"A\nb\nc\n"
    assert line_merge.merge(b"a\nb\nc\n", b"a\nb\nc", b"a\nb\nd\n") is None


def test_lines_that_are_all_alike_are_merged_all_the_same() -> None:
    base = [b"%d\n" % (number % 3) for number in range(900)]
    ours, theirs = [b"first\n", *base], [*base[:450], b"middle\n", *base[450:]]

    merged = line_merge.merge(*(b"".join(lines) for lines in (base, ours, theirs)))

    assert merged == b"".join([b"first\n", *base[:450], b"middle\n", *base[450:]])


def test_a_text_that_was_written_anew_is_compared_too() -> None:
    base, new = MANY, [b"new %d\n" % number for number in range(3000)]
    ours, theirs = [*new, *base[-9:]], [*base, b"last\n"]

    merged = line_merge.merge(*(b"".join(lines) for lines in (base, ours, theirs)))

    assert merged == b"".join([*new, *base[-9:], b"last\n"])


def test_a_union_has_the_lines_of_both_and_those_in_common_once() -> None:
    ours, theirs = TEXT + b"both\nours\n", TEXT + b"both\ntheirs\n"

    assert line_merge.union(TEXT, ours, theirs) == TEXT + b"both\nours\ntheirs\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_union_ends_a_line_before_another_begins(end: bytes) -> None:
    base = b"a" + end

    assert line_merge.union(base, base + b"ours", base + b"theirs" + end) == (
        base + b"ours" + end + b"theirs" + end
    )


def test_what_git_calls_binary_is_no_text() -> None:
    assert line_merge.is_text(b"", b"a\r\n", "ü".encode(), b"\xff")
    assert not line_merge.is_text(b"a", b"\0")
    assert line_merge.is_text(b"a" * 8000 + b"\0")  # git looks no further


lines = st.lists(st.integers(0, 30), max_size=14, unique=True)


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """Make up a text in which every line is another, and two that came of it."""
    base = draw(lines)
    sides = [base]
    for number in (100, 200):
        side = list(base)
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(side)))
            kept = draw(st.booleans())
            side[at : at + draw(st.integers(0, 2))] = [draw(st.integers(number, number + 3))] * kept
        sides.append(side)
    ends = [draw(st.sampled_from([b"\n", b"\n", b""])) for _ in sides]
    texts = [
        b"\n".join(b"%d" % one for one in side) + end for side, end in zip(sides, ends, strict=True)
    ]
    return texts[0], texts[1], texts[2]


def gits(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    for name, content in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_bytes(content)
    argv = ["git", "merge-file", "-p", "ours", "base", "theirs"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
    assert done.returncode < 128, done.stderr
    return None if done.returncode else done.stdout


@settings(deadline=None)
@given(edits())
def test_git_finds_the_same_conflicts_and_the_same_text(texts: tuple[bytes, bytes, bytes]) -> None:
    with scratch() as folder:
        assert line_merge.merge(*texts) == gits(folder, *texts)


@settings(deadline=None)
@given(st.tuples(*[st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d"]), max_size=9)] * 3))
def test_laws_of_merging(drawn: tuple[list[bytes], list[bytes], list[bytes]]) -> None:
    base, ours, theirs = (b"".join(one) for one in drawn)

    assert line_merge.merge(base, ours, base) == ours
    assert line_merge.merge(base, base, theirs) == theirs
    assert line_merge.merge(base, ours, ours) == ours
    assert line_merge.merge(base, ours, theirs) == line_merge.merge(base, theirs, ours)
    merged = line_merge.merge(base, ours, theirs)
    if merged is not None:
        assert line_merge.union(base, ours, theirs) == merged


@settings(deadline=None)
@given(lines, st.data())
def test_changes_that_do_not_touch_are_both_made(base: list[int], data: st.DataObject) -> None:
    split = data.draw(st.integers(0, len(base)))
    head, tail = base[:split], base[split:]
    if len(head) < 2 or len(tail) < 2:
        return
    new_head = [*data.draw(st.lists(st.integers(100, 110), max_size=3)), *head[1:]]
    new_tail = [*tail[:-1], *data.draw(st.lists(st.integers(200, 210), max_size=3))]

    def spelled(*parts: list[int]) -> bytes:
        return b"".join(b"%d\n" % one for part in parts for one in part)

    merged = line_merge.merge(spelled(base), spelled(new_head, tail), spelled(head, new_tail))

    assert merged == spelled(new_head, new_tail)
