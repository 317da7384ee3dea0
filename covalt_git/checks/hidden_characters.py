"""Hidden characters in the files of toolsets: the invisible and bidirectional ones of ``text.display``.

Some belong to what authors write and are allowed: the joiners that have an effect, variation
selectors after a character outside of ASCII, direction marks beside letters that run from right to
left, and the flags that are made of tags.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKS = "\u061c\u200e\u200f"
_SELECTORS = re.compile("[\ufe00-\ufe0f]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff]")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{1,6}\U000e007f")
_NEAR = 80
"""How many characters from a mark the letters may stand that it is there for."""

_HIDDEN = ("bidi", "invisible")


class Hidden(NamedTuple):
    """A hidden character: its place in the text, itself, and what is wrong with it in words."""

    place: int
    character: str
    message: str


def hidden_characters(text: str, *, only_turning: bool = False) -> Iterator[Hidden]:
    """Yield the hidden characters of a text; with ``only_turning`` those that change its order."""
    if not any(display.kind(one) in _HIDDEN for one in set(text)):
        return
    text = _FLAG.sub(lambda flag: "x" * len(flag[0]), text)
    for place, character in enumerate(text):
        kind = display.kind(character)
        reverses = kind == "bidi" and character not in _MARKS
        if not reverses and (only_turning or kind not in _HIDDEN or _is_written(text, place)):
            continue
        does = "shows the text in another order" if reverses else "is not seen"
        name = unicodedata.name(character, "a character without a name")
        yield Hidden(place, character, f"the character U+{ord(character):04X} ({name}) {does}")


def _is_written(text: str, place: int) -> bool:
    """Tell a character that belongs to those around it from one that only hides."""
    character = text[place]
    if character in _MARKS:
        return bool(_RIGHT_TO_LEFT.search(text, max(0, place - _NEAR), place + _NEAR))
    if _SELECTORS.match(character) and place and not text[place - 1].isascii():
        return display.kind(text[place - 1]) not in _HIDDEN
    return display.is_joined(text, place)
