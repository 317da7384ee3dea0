"""Differences: changed words of paired lines, lines that are hidden, and files that are folded."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from covalt_server.render import differences
from covalt_server.render.differences import DiffRenderer, changed_words, why_folded
from tests.examples import examples
from tests.server.fragments import Fragment

WORDS = st.lists(st.sampled_from("abc=(<ü"), max_size=12)


@given(WORDS, WORDS)
@settings(max_examples=examples(200))
def test_unmarked_words_are_what_both_lines_share(old: list[str], new: list[str]) -> None:
    """A naive comparison: what is unmarked is the same text, and what only one line has is marked."""
    sides = changed_words(old, new)
    if not sides:
        assert old != new
        return

    for words, parts in zip((old, new), sides, strict=True):
        assert "".join(text for text, _ in parts) == "".join(words)
    same = ["".join(text for text, is_changed in parts if not is_changed) for parts in sides]
    assert same[0] == same[1]
    for words, other, parts in ((old, new, sides[0]), (new, old, sides[1])):
        unmarked = "".join(text for text, is_changed in parts if not is_changed)
        assert not ({*words} - {*other}) & {*unmarked}
    assert old != new or all(not is_changed for _, is_changed in sides[0])


def test_hidden_characters_and_markup_of_changed_words_are_escaped() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-the old <b>name</b> of it\n+the old <b>na\u202eme</b> of it\n"
    html = DiffRenderer()(patch)

    assert Fragment(html).of("b") == []
    assert "\\u{202e}" in html
    assert "\u202e" not in html
    assert html.count("<mark>") == 2


def test_the_comparison_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def patch(line: str, count: int = 1) -> str:
        pairs = f"@@ -1 +1 @@\n-old {line}\n+new {line}\n" * count
        return f"--- a/x\n+++ b/x\n{pairs}"

    long = "a " * differences.MOST_WORDS_OF_LINE
    assert "<mark>" not in DiffRenderer()(patch(long))
    monkeypatch.setattr(differences, "MOST_WORDS", 12)
    page = DiffRenderer(_words=12)
    assert page(patch("is", count=3)).count("<mark>") == 4  # two pairs of three
    assert "<mark>" not in page(patch("is"))  # the page has one limit


def test_generated_and_long_files_are_folded() -> None:
    for path in (
        *("uv.lock", "web/package-lock.json", "go.sum", "a/app.min.js", "a/app.js.map"),
        *("dist/app.js", "x/node_modules/y.js", "api_pb2.py"),
    ):
        assert why_folded(path, 1) == "generated", path
    for path in ("lock.py", "distance/app.js", "min.js", "my-uv.lock.md"):
        assert why_folded(path, differences.MOST_OPEN_LINES) == "", path
    assert why_folded("a.py", differences.MOST_OPEN_LINES + 1) == "long"


def test_no_link_leads_to_lines_after_the_end_of_the_file() -> None:
    lines = "".join(f" {number}\n" for number in (2, 3, 4))
    patch = f"--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n-1\n+one\n{lines}"
    lengths: list[tuple[int | None, int]] = [(4, 0), (5, 1), (None, 1)]
    for view in (False, True):
        for length, links in lengths:
            page = DiffRenderer(is_split=view, hidden_url=lambda *_: "#")
            page.length_of = {"x": length}.get
            assert page(patch).count('href="#"') == links, (view, length)


@given(st.data())
@settings(max_examples=examples(50))
def test_hidden_lines_complete_a_patch_to_the_whole_file(data: st.DataObject) -> None:
    """Follow links in any order, as a reader does, until each line of the file is shown once."""
    size = data.draw(st.integers(2, 130))
    lines = [f"line {number}" for number in range(1, size + 1)]
    shown: list[int] = []
    gaps: list[tuple[differences.Gap, differences.Way]] = []

    def url(_: str, gap: differences.Gap, way: differences.Way) -> str:
        gaps.append((gap, way))
        return "#"

    page = DiffRenderer(hidden_url=url)
    gap = data.draw(
        st.sampled_from(
            [differences.Gap(1, size, 5), differences.Gap(2, size, 0), differences.Gap(1, 0, 0)]
        )
    )
    way: differences.Way = data.draw(st.sampled_from(["up", "down"]))
    for _ in range(20):
        gaps.clear()
        rows = Fragment(page.excerpt("x", lines, gap, way))
        assert rows.others == []
        numbers = [int(number) for number in re.findall(r"line (\d+)$", rows.text, re.MULTILINE)]
        assert len(numbers) <= differences.MORE_LINES
        shown += numbers
        if not gaps:
            break
        gap, way = data.draw(st.sampled_from(gaps))
    assert sorted(shown) == list(range(min(shown), size + 1))
    assert isinstance(page.excerpt("x", [], differences.Gap(7, 0, 0), "down"), Markup)
