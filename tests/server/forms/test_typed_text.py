from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covalt_server.forms.parsing import with_breaks_of

TEXTS = st.lists(st.sampled_from(["a", "b", "", "\n", "\r\n", "\r", "\u2028"])).map("".join)


def sent(text: str) -> str:
    """Return what a browser sends of a textarea with a text that nobody touched (HTML 4.10.11)."""
    return re.sub(r"\r\n|\r|\n", "\r\n", text)


@given(TEXTS)
def test_a_text_that_nobody_touched_comes_back_as_it_was(text: str) -> None:
    assert with_breaks_of(text, sent(text)) == text


@given(TEXTS, TEXTS)
@example("\naa\r", "aa\n\n")
def test_whatever_is_typed_keeps_its_lines(before: str, typed: str) -> None:
    breaks = re.compile(r"\r\n|\r|\n")

    assert breaks.split(with_breaks_of(before, sent(typed))) == breaks.split(typed)


@pytest.mark.parametrize(
    ("before", "typed", "after"),
    [
        pytest.param("", "a\r\nb\r\n", "a\nb\n", id="a-new-file-has-line-feeds"),
        pytest.param("a\n", "a\r\nb\r\n", "a\nb\n", id="line-feeds-stay"),
        pytest.param("a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n", id="those-of-windows-stay"),
        pytest.param("a\rb", "a\r\nc", "a\rc", id="old-ones-stay"),
        pytest.param(
            "a\r\nb\nc\n", "new\r\na\r\nb\r\nc\r\n", "new\na\r\nb\nc\n", id="mixed-ones-stay-each"
        ),
    ],
)
def test_line_breaks_are_those_of_the_file(before: str, typed: str, after: str) -> None:
    assert with_breaks_of(before, typed) == after
