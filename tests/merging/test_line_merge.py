"""Merging texts by lines: as git does if all lines differ, and byte for byte."""

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.merging import line_merge
from tests.merging.merges import TEXT
from tests.workspaces.stores import scratch


def test_thousands_of_changes_among_lines_that_repeat_come_together_in_no_time() -> None:
    base = b"".join(b"- id: t%d\n  on: 1\n  name: x\n" % number for number in range(4_000))
    ours = base.replace(b"on: 1", b"on: 2")
    theirs = base.replace(b"t3999\n  on: 1\n  name: x", b"t3999\n  on: 1\n  name: x\n  tag: y")

    assert line_merge.merge(base, ours, theirs) == ours + b"  tag: y\n"
    assert line_merge.merge(base, ours, base.replace(b"on: 1", b"on: 3")) is None


def test_a_union_has_the_lines_of_both_and_those_in_common_once() -> None:
    ours, theirs = TEXT + b"both\nours\n", TEXT + b"both\ntheirs\n"

    assert line_merge.union(TEXT, ours, theirs) == TEXT + b"both\nours\ntheirs\n"


def test_lines_in_conflict_come_with_those_of_the_base_and_three_around_them() -> None:
    base = b"".join(b"%d\n" % number for number in range(20))
    ours = base.replace(b"\n9\n", b"\nours\n").replace(b"19\n", b"end")
    theirs = base.replace(b"\n9\n", b"\ntheirs\n").replace(b"19\n", b"")
    shown = b"".join(line_merge.conflicting(base, ours, theirs, ("main", "idea")))

    assert shown.decode().splitlines() == [
        *("...", "6", "7", "8"),
        *("<<<<<<< main", "ours", "||||||| base", "9", "=======", "theirs", ">>>>>>> idea"),
        *("10", "11", "12", "...", "16", "17", "18"),
        *("<<<<<<< main", "end", "||||||| base", "19", "=======", ">>>>>>> idea"),
    ]


def test_what_git_calls_binary_is_no_text() -> None:
    assert line_merge.is_text(b"", b"a\r\n", "ü".encode(), b"\xff")
    assert not line_merge.is_text(b"a", b"\0")
    assert line_merge.is_text(b"a" * 8000 + b"\0")  # git looks no further


lines = st.lists(st.integers(0, 30), max_size=14, unique=True)


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """Generate a text of unique lines, and two changed versions of it."""
    base = draw(lines)
    sides = [base]
    for number in (100, 200):
        side = list(base)
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(side)))
            kept = draw(st.booleans())
            side[at : at + draw(st.integers(0, 2))] = [draw(st.integers(number, number + 3))] * kept
        sides.append(side)
    line_end = draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\x0b\r\x0c\n"]))
    ends = [draw(st.sampled_from([line_end, line_end, b""])) for _ in sides]
    texts = [
        line_end.join(b"%d" % one for one in side) + end
        for side, end in zip(sides, ends, strict=True)
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
@given(edits(), st.data())
def test_each_hunk_takes_its_lines_and_nothing_else_changes(
    texts: tuple[bytes, bytes, bytes], data: st.DataObject
) -> None:
    hunks, merged = line_merge.hunks(*texts)
    ways: st.SearchStrategy[line_merge.HunkDecision] = st.sampled_from(["ours", "theirs", "both"])
    decisions = data.draw(st.lists(ways, min_size=len(hunks), max_size=len(hunks)))

    # Independent of the code under test: git's own merge, its conflicts in the style diff3 filled by hand.
    with scratch() as folder:
        parts = gits_hunks(folder, *texts)
    sides = {"ours": ("ours",), "theirs": ("theirs",), "both": ("ours", "theirs")}
    filled, left = [], iter(decisions)
    for part in parts:
        names = ("text",) if "text" in part else sides[next(left)]
        filled += [line for name in names for line in part[name]]
    assert next(left, None) is None
    result = line_merge.decided(*texts, decisions)
    if "both" not in decisions:  # git repeats lines that both sides have
        assert result.split() == b"".join(filled).split()
    both: list[line_merge.HunkDecision] = ["both"] * len(hunks)
    assert line_merge.decided(*texts, both) == line_merge.union(*texts)
    if not merged and hunks:
        assert line_merge.decided(*texts, ["ours"] * len(hunks)) == texts[1]


def gits_hunks(
    folder: Path, base: bytes, ours: bytes, theirs: bytes
) -> list[dict[str, list[bytes]]]:
    """Return git's merge as parts: merged ``text``, or the lines of each side of a conflict."""
    for name, content in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_bytes(content)
    argv = ["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
    parts: list[dict[str, list[bytes]]] = [{"text": []}]
    side = "text"
    for line in done.stdout.split(b"\n"):
        mark = line.rstrip(b"\r")
        if mark.startswith(b"<" * 7):
            parts.append({"ours": [], "base": [], "theirs": []})
            side = "ours"
        elif mark.startswith(b"|" * 7):
            side = "base"
        elif mark == b"=" * 7:
            side = "theirs"
        elif mark.startswith(b">" * 7):
            parts.append({"text": []})
            side = "text"
        else:
            parts[-1][side].append(line + b"\n")
    return parts
