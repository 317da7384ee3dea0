"""Characters that nobody sees in a text, and those that show it in another order than it has.

They make a name look like another one, and hide instructions from whoever reviews a description
(Unicode's UTS 39 and UTR 36; "Trojan Source", CVE-2021-42574).  What people write stays allowed: the
joiners within emoji and within other scripts than Latin, direction marks beside letters that run
from right to left, and the flags that are made of tags.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TURNS = "\u202a-\u202e\u2066-\u2069"
_MARKS = "\u061c\u200e\u200f"
_NOT_SEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f"
_SUSPECT = re.compile(f"[{_TURNS}{_MARKS}{_NOT_SEEN}{_JOINERS}{_SELECTORS}]")
_TURNING = re.compile(f"[{_TURNS}]")

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff]")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{1,6}\U000e007f")
_NEAR = 80
"""How many characters from a mark the letters may stand that it is there for."""

_KEYCAPS = "0123456789#*"


class Hidden(NamedTuple):
    """A hidden character: its place in the text, itself, and what is wrong with it in words."""

    place: int
    character: str
    message: str


def hidden_characters(text: str, *, only_turning: bool = False) -> Iterator[Hidden]:
    """Yield the hidden characters of a text; with ``only_turning`` those that change its order."""
    if text.isascii():
        return
    text = _FLAG.sub(lambda flag: "x" * len(flag[0]), text)
    for found in (_TURNING if only_turning else _SUSPECT).finditer(text):
        character, place = found[0], found.start()
        if _is_written(text, place, character):
            continue
        does = "shows the text in another order" if _TURNING.match(character) else "is not seen"
        name = unicodedata.name(character, "a character without a name")
        yield Hidden(place, character, f"the character U+{ord(character):04X} ({name}) {does}")


def written_out(text: str) -> str:
    """Return a text with its hidden characters as escapes that everybody sees."""
    shown, end = [], 0
    for one in hidden_characters(text):
        number = ord(one.character)
        escape = f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004
        shown += [text[end : one.place], escape]
        end = one.place + 1
    return "".join([*shown, text[end:]])


def _is_written(text: str, place: int, character: str) -> bool:
    """Tell a character that belongs to those around it from one that only hides."""
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if character in _JOINERS:
        return bool(before and after) and not before.isascii() and not after.isascii()
    if character in _MARKS:
        return bool(_RIGHT_TO_LEFT.search(text, max(0, place - _NEAR), place + _NEAR))
    if "\ufe00" <= character <= "\ufe0f":
        return before in _KEYCAPS if before.isascii() else not _SUSPECT.match(before)
    return False
