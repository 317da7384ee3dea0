"""Excerpt of a problem on a terminal: the carets are below the value."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.errors import Problem
from covalt_git.problems.excerpts import Sources, excerpt, width
from covalt_git.text import display


def drawn(line: str, col: int, room: int = 80) -> list[str]:
    found = excerpt(1, line, col, room)
    return [found.text, " " * found.start + "^" * found.width]


@pytest.mark.parametrize(
    ("line", "col", "carets"),
    [
        pytest.param("  entrypont: a", 3, "  ^^^^^^^^^", id="key"),
        pytest.param("name: 'two words' # a", 7, "      ^^^^^^^^^^^", id="quoted-text"),
        pytest.param("a: [b, c]", 4, "   ^", id="bracket"),
        pytest.param("a:", 3, "  ^", id="behind-the-end"),
        pytest.param("a: 日本 b: 2", 7, "        ^", id="wide-characters"),
        pytest.param("a: e\u0301 b", 7, "     ^", id="combining-accent"),
        pytest.param("a: 日本", 4, "   ^^^^", id="pointing-at-wide-ones"),
    ],
)
def test_carets_are_below_the_word(line: str, col: int, carets: str) -> None:
    assert drawn(line, col) == [line, carets]


def test_hidden_characters_are_escaped() -> None:
    assert drawn("a\u202eb: \x1b[2Jc", 1)[0] == "a\\u{202e}b: \\u{1b}[2Jc"


@given(st.text(max_size=60), st.integers(1, 80), st.integers(20, 60))
def test_any_line_fits_and_has_carets(line: str, col: int, room: int) -> None:
    found = excerpt(1, line, col, room)

    assert display.in_line(found.text) == found.text
    assert width(found.text) <= room
    assert 0 <= found.start <= room
    assert found.width >= 1


def test_problem_without_a_line_or_file_has_no_excerpt(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    (tmp_path / "a.yaml").write_bytes(b"\xff\r\nb: 1")

    assert sources.excerpt(Problem("a.yaml", 0, 0, "CG101", ""), 80) is None
    assert sources.excerpt(Problem("gone.yaml", 1, 1, "CG101", ""), 80) is None
    assert sources.excerpt(Problem("a.yaml", 9, 1, "CG101", ""), 80) is None
    found = sources.excerpt(Problem("a.yaml", 2, 1, "CG201", ""), 80)
    assert found is not None
    assert found.text == "b: 1"
