"""Search for hidden characters: the invisible and bidirectional ones of ``text.display``.

Characters with an effect on visible text are allowed: joiners, variation selectors after a non-ASCII
character, direction marks near letters that are written from right to left, and tags of flags.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKS = "\u061c\u200e\u200f"
_SELECTORS = "[\ufe00-\ufe0f]"
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff]")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{1,6}\U000e007f")
_NEAR = 80
"""The maximum distance of a direction mark from such a letter, in characters."""

_HIDDEN = ("bidi", "invisible")


class Hidden(NamedTuple):
    """A hidden character, its index in the text, and the message for users."""

    place: int
    character: str
    message: str


def hidden_characters(text: str, *, only_reordering: bool = False) -> Iterator[Hidden]:
    """Yield the hidden characters of a text; with ``only_reordering``, those that change its order."""
    if text.isascii() and text.isprintable():
        return  # most of the 100,000 texts of a large lock, each of which would be looked up by its characters
    # Nearly all others end here: their different characters are far fewer than their characters.
    if not any(display.kind(character) in _HIDDEN for character in set(text)):
        return
    # As long as the flag, so that the places of later characters stay those of the file.
    text = _FLAG.sub(lambda flag: "x" * len(flag[0]), text)
    for place, character in enumerate(text):
        kind = display.kind(character)
        reverses = kind == "bidi" and character not in _MARKS
        if not reverses and (only_reordering or kind not in _HIDDEN or _has_effect(text, place)):
            continue
        does = "changes the order of the text" if reverses else "is invisible"
        name = unicodedata.name(character, "a character without a name")
        yield Hidden(place, character, f"the character U+{ord(character):04X} ({name}) {does}")


def _has_effect(text: str, place: int) -> bool:
    """Return whether a character has an effect on the visible characters around it."""
    character = text[place]
    if character in _MARKS:
        return bool(_RIGHT_TO_LEFT.search(text, max(0, place - _NEAR), place + _NEAR))
    # An ASCII letter has no variants, and a second selector none either: a row of them would hide a text.
    if re.match(_SELECTORS, character) and place and not text[place - 1].isascii():
        return display.kind(text[place - 1]) not in _HIDDEN
    return display.is_joined(text, place)
