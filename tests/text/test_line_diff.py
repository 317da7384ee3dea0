"""Differences by lines say how one text becomes the other."""

import subprocess
import tracemalloc
from collections import Counter
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.text import line_diff
from tests.examples import examples

texts = st.lists(st.sampled_from(["a", "b", "", "\x0c", "c\r", "\u2028x"])).map("\n".join)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_the_lines_with_marks_are_those_of_both_texts(old: list[str], new: list[str]) -> None:
    marked = list(line_diff.marked_lines(old, new, around=len(old) + len(new)))

    if old != new:
        assert [line for mark, line in marked if mark != "+"] == old
        assert [line for mark, line in marked if mark != "-"] == new


@given(st.lists(st.sampled_from([b"a", b"b", b"c"])), st.lists(st.sampled_from([b"a", b"b", b"c"])))
def test_the_numbers_of_changed_lines_are_those_of_a_difference(
    old: list[bytes], new: list[bytes]
) -> None:
    added, deleted = line_diff.count_changes(old, new)
    same = len(new) - added

    assert same == len(old) - deleted
    assert 0 <= same <= (Counter(old) & Counter(new)).total()
    assert (added + deleted == 0) == (old == new)


def test_a_long_text_is_counted_without_the_order_of_its_lines() -> None:
    lines = [b"%d" % number for number in range(50_000)]

    assert line_diff.count_changes(lines, [b"new", *lines[:-1]]) == (1, 1)
    assert line_diff.count_changes(lines, [*lines[:9], b"new", *lines[9:]]) == (1, 0)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_large_texts_are_counted_as_if_their_lines_had_no_order(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(line_diff, "_CHUNK", chunk)
    contents = st.lists(st.sampled_from(["a", "bb", "", "c\r"])).map("\n".join).map(str.encode)

    @settings(max_examples=examples(200))
    @given(contents, contents, contents, contents)
    def check(beginning: bytes, old: bytes, new: bytes, end: bytes) -> None:
        sides = beginning + old + end, beginning + new + end
        before, after = (Counter(BytesIO(side).readlines()) for side in sides)
        expected = (after - before).total(), (before - after).total()
        assert line_diff.count_changes_of_large(*sides) == expected

    check()


def test_large_texts_need_little_memory_to_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_diff, "_MOST_DIFFERENT", 100)
    old, new = ("".join(f"{word} {number}\n" for number in range(50_000)).encode() for word in "ab")
    tracemalloc.start()
    try:
        assert line_diff.count_changes_of_large(old, new) == (50_000, 50_000)
        assert tracemalloc.get_traced_memory()[1] < len(old)
    finally:
        tracemalloc.stop()
    assert line_diff.count_changes_of_large(b"", old[:-1]) == (50_000, 0)
    assert line_diff.count_changes_of_large(old, old + b"more\n") == (1, 0)


def test_git_applies_a_unified_difference(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("repository")
    file = root / "a.txt"

    @settings(max_examples=examples(100), deadline=None)
    @given(texts, texts)
    def check(before: str, after: str) -> None:
        patch = line_diff.unified(before, after, ("a/a.txt", "b/a.txt"))
        file.write_bytes(before.encode())
        if patch:
            command = ["git", "-C", str(root), "apply", "--whitespace=nowarn", "-"]
            subprocess.run(command, input=patch.encode(), check=True)
        assert file.read_bytes().decode() == after

    check()
