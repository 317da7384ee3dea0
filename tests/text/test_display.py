"""Which characters are written as escapes where, for all code points."""

import functools
import itertools
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.text import display
from tests.tables import tables

TABLES = tables(__file__)

EVERY = [chr(number) for number in range(0x110000)]
# From DerivedCoreProperties.txt and PropList.txt of Unicode 16.0.0.
DEFAULT_IGNORABLE = (
    "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e 2060-206f 3164 fe00-fe0f feff ffa0"
    " fff0-fff8 1bca0-1bca3 1d173-1d17a e0000-e0fff"
)
BIDI_CONTROL = "61c 200e-200f 202a-202e 2066-2069"
OTHER_FORMATS = "fff9-fffb 13430-1343f"


@functools.cache
def every_kind() -> list[display.Kind]:
    return [display.kind(one) for one in EVERY]


@functools.cache
def every_category() -> list[str]:
    """Return the general categories of all code points in this Python's version of Unicode."""
    return [unicodedata.category(one) for one in EVERY]


NEW_IN_16 = "\U000105c0"
RESERVED_FOR_EMOJI = "\U0001fac8"
NEW_IN_17 = "\u20c1"


def of_ranges(text: str) -> set[str]:
    ends = [one.partition("-") for one in text.split()]
    return {
        chr(number)
        for first, _, last in ends
        for number in range(int(first, 16), int(last or first, 16) + 1)
    }


def of_kind(*kinds: display.Kind) -> set[str]:
    return {one for one, kind in zip(EVERY, every_kind(), strict=True) if kind in kinds}


def of_category(*categories: str) -> set[str]:
    return {
        one for one, category in zip(EVERY, every_category(), strict=True) if category in categories
    }


def test_every_default_ignorable_or_bidi_code_point_is_invisible_or_bidi() -> None:
    bidi = of_ranges(BIDI_CONTROL)

    assert of_kind("bidi") == bidi
    assert of_kind("invisible") == of_ranges(f"{DEFAULT_IGNORABLE} {OTHER_FORMATS}") - bidi


def test_controls_and_line_breaks_are_those_of_unicode() -> None:
    assert of_kind("line-break") == {*"\n\v\f\r\x85\u2028\u2029"}
    assert of_kind("line-break", "control") == of_category("Cc", "Zl", "Zp")


def test_surrogates_private_use_and_noncharacters_have_no_glyph() -> None:
    noncharacters = {chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF)}

    assert of_category("Cs", "Co") | noncharacters <= of_kind("no-glyph")


def test_unicode_16_decides_in_every_python() -> None:
    assert display.kind(NEW_IN_16) == "letter"
    assert display.kind(RESERVED_FOR_EMOJI) == "pictograph"
    assert display.kind(NEW_IN_17) == "no-glyph"


@pytest.mark.parametrize(
    ("view", "also"),
    [
        pytest.param(display.in_line, "", id="line"),
        pytest.param(display.in_lines, "\t\n", id="lines"),
        pytest.param(display.running, "\t\n", id="prose"),
    ],
)
def test_code_point_is_kept_or_escaped_by_its_kind(view: Callable[[str], str], also: str) -> None:
    """The first and last code point of each run of one kind are tried."""
    kept = {"visible", "letter", "pictograph"}
    also += "\u00a0\u2009\u202f\u3000" if view is display.running else ""
    runs = [list(run) for _, run in itertools.groupby(EVERY, display.kind)]
    ends = [one for run in runs for one in (run[0], run[-1])]

    assert view("x".join(ends)) == "x".join(
        one if one in also or display.kind(one) in kept else f"\\u{{{ord(one):x}}}" for one in ends
    )


@pytest.mark.parametrize("text", TABLES["prose_keeps_joined_and_selected_characters"])
def test_prose_keeps_joined_and_selected_characters(text: str) -> None:
    assert display.running(text) == text
    assert display.in_line(text).isprintable()


@pytest.mark.parametrize(("text", "shown"), TABLES["prose_escapes_hidden_characters"])
def test_prose_escapes_hidden_characters(text: str, shown: str) -> None:
    assert display.running(text) == shown


def test_command_shows_tag_characters_and_line_ends() -> None:
    hidden = "".join(chr(0xE0000 + ord(one)) for one in "; rm")

    assert display.in_line(f"ls{hidden}\nok") == (
        "ls\\u{e003b}\\u{e0020}\\u{e0072}\\u{e006d}\\u{a}ok"
    )


@given(
    st.text(
        st.characters()
        | st.sampled_from("\u200c\u200d\ufe0f\u00a0\u2800\u2764\u0646\u202e\n1\u20e3")
    )
)
def test_prose_without_its_joined_characters_is_shown_as_lines_with_spaces(text: str) -> None:
    joined = [place for place in range(len(text)) if display.is_joined(text, place)]

    assert [text[place] for place in joined] == [
        one for one in display.running(text) if one in "\u200c\u200d\ufe0f\u00a0\u2009\u202f\u3000"
    ]
    assert display.running(text, escape_one=lambda _: "") == "".join(
        one
        for place, one in enumerate(text)
        if place in joined
        or one in "\t\n"
        or display.kind(one) in {"visible", "letter", "pictograph"}
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (86399, "23 h"), (200000, "2 d")],
)
def test_a_duration_is_rounded_down_in_its_largest_unit(seconds: int, text: str) -> None:
    assert display.duration(seconds) == text
