r"""Escaping of hidden characters for display, as ``\u{...}``.

Hidden characters can make different names look equal, hide a part of a command from its reviewer, or
change the order of a text (UTS 39, UTR 36, "Trojan Source" CVE-2021-42574).  Use ``in_line`` for names and
for texts that users decide on, ``in_lines`` if they have several lines, ``arguments`` for the JSON of a
call, and ``running`` for prose.  Data
(JSON output, API, downloads, the text in an editor) is never escaped.

The kinds of characters come from Unicode 16.0.0 in every version of Python (``unicode_table.py``):

- ``line-break``: line feed, vertical tab, form feed, carriage return, U+0085, U+2028, U+2029
  (classes BK, CR, LF and NL of UAX 14).  ``control``: all other characters of general category Cc.
- ``bidi``: Bidi_Control (PropList.txt).
- ``invisible``: Default_Ignorable_Code_Point (DerivedCoreProperties.txt), assigned or not, and the
  other format characters (Cf) except Prepended_Concatenation_Mark, which have a glyph.
- ``blank``: spaces (Zs) except U+0020, and the symbols without ink U+2800, U+16FE4 and U+1D159.
- ``no-glyph``: surrogates (Cs), private use (Co), and unassigned code points and noncharacters (Cn).
  They look different in each font, and some terminals print nothing.
- ``pictograph``: Extended_Pictographic (emoji-data.txt), including code points reserved for emoji,
  and Emoji_Modifier.
- ``letter``: letters and marks (L, M) outside of ASCII.  ``visible``: everything else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal

from covalt_git.text.unicode_table import RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

Kind = Literal[
    "control",
    "line-break",
    "bidi",
    "invisible",
    "blank",
    "no-glyph",
    "pictograph",
    "letter",
    "visible",
]

CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""Control characters and line breaks, for a character class in a regular expression."""

_KINDS: Final[dict[str, Kind]] = {
    "C": "control",
    "N": "line-break",
    "B": "bidi",
    "I": "invisible",
    "S": "blank",
    "U": "no-glyph",
    "E": "pictograph",
    "L": "letter",
    "V": "visible",
}
_VISIBLE: Final = frozenset({"pictograph", "letter", "visible"})
_BLANKS_OF_PROSE: Final = "\u00a0\u2009\u202f\u3000"
"""Spaces that typography uses inside of a line, such as before a French ``!``."""

_JOINER: Final = re.compile(f"[\u200c\u200d\ufe0f{_BLANKS_OF_PROSE}]")
_KEYCAP: Final = "\u20e3"

LONG_RUN: Final = 8
"""Length of a run of spaces from which ``arguments`` prints its length instead."""

_LONG_RUN: Final = re.compile(f" {{{LONG_RUN},}}")


def kind(character: str) -> Kind:
    starts, kinds = _table()
    return kinds[bisect_right(starts, ord(character)) - 1]


def is_shown(text: str) -> bool:
    """Return whether a text has no characters that ``in_line`` would escape."""
    return in_line(text) == text


def escape(character: str) -> str:
    r"""Return ``\u{200b}`` for U+200B."""
    return f"\\u{{{ord(character):x}}}"


def in_line(text: str) -> str:
    """Return a name, argument or command on one line; tabs and line breaks are escaped, too."""
    return _escaped(text, "", _VISIBLE, escape)


def arguments(json_text: str) -> str:
    r"""Return the JSON of a call's arguments on one line, for the user who decides whether it runs.

    A long run of spaces could move the end of a command out of sight, so it is printed as
    ``\{400 spaces}``.  No text in JSON contains this, because JSON writes a backslash as two.
    """
    return count_spaces(in_line(json_text))


def duration(seconds: int) -> str:
    """Return a duration in its largest unit, rounded down: ``40 s``, ``3 min``, ``5 h``, ``2 d``."""
    value, unit = seconds, "s"
    for size, larger in ((60, "min"), (60, "h"), (24, "d")):
        if value < size:
            break
        value, unit = value // size, larger
    return f"{value} {unit}"


def count_spaces(text: str, counted: Callable[[str], str] | None = None) -> str:
    r"""Return a text with ``\{400 spaces}`` for each long run of spaces; ``counted`` returns its mark."""
    return _LONG_RUN.sub(lambda run: (counted or run_of_spaces)(run[0]), text)


def run_of_spaces(run: str) -> str:
    return f"\\{{{len(run)} spaces}}"


def in_lines(text: str, escape_one: Callable[[str], str] = escape) -> str:
    """Return a text of several lines, such as a log; only tabs and line feeds are not escaped.

    ``escape_one`` returns the escape of a character.
    """
    return _escaped(text, "\t\n", _VISIBLE, escape_one)


def shorten(text: str, most: int = 80) -> str:
    """Return at most ``most`` characters of a text; the last one is an ellipsis if it is truncated."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def running(text: str, escape_one: Callable[[str], str] = escape) -> str:
    """Return prose; joiners, emoji selectors and typographic blanks are escaped only if they have no effect."""
    allowed = _VISIBLE
    parts, end = [], 0
    for joiner in _JOINER.finditer(text):
        if is_joined(text, joiner.start()):
            parts += [_escaped(text[end : joiner.start()], "\t\n", allowed, escape_one), joiner[0]]
            end = joiner.end()
    return "".join([*parts, _escaped(text[end:], "\t\n", allowed, escape_one)])


def is_joined(text: str, place: int) -> bool:
    """Return whether a joiner or emoji selector changes the appearance of the adjacent characters.

    These are U+200C and U+200D between two non-ASCII letters or two emoji, U+FE0F after a pictograph or in
    a keycap, and a typographic blank between two visible characters.
    """
    left, right = text[max(place - 1, 0) : place], text[place + 1 : place + 2]
    if not left:
        return False
    if text[place] == "\ufe0f":
        return kind(left) == "pictograph" or (left in "0123456789#*" and right == _KEYCAP)
    # Two blanks together could move a part of a text out of sight, or look like one space.
    if text[place] in _BLANKS_OF_PROSE:
        return left != " " and right not in {"", " "} and {kind(left), kind(right)} <= _VISIBLE
    if not right or not _JOINER.match(text[place]):
        return False
    if left == "\ufe0f" and is_joined(text, place - 1):  # the emoji is before its selector
        left = text[place - 2]
    return kind(left) == kind(right) and kind(right) in {"letter", "pictograph"}


def _escaped(
    text: str, exempt: str, allowed: Collection[str], escape_one: Callable[[str], str]
) -> str:
    if text.isascii() and text.isprintable():
        return text
    hidden = {char for char in set(text) if char not in exempt and kind(char) not in allowed}
    return text.translate({ord(char): escape_one(char) for char in hidden}) if hidden else text


@lru_cache(maxsize=1)
def _table() -> tuple[list[int], list[Kind]]:
    """Return the first code point of each run of characters of the same kind, and the kinds."""
    runs = re.findall("([0-9a-z]+)([A-Z])", RUNS)
    starts = accumulate((int(length, 36) for length, _ in runs), initial=0)
    return list(starts)[:-1], [_KINDS[letter] for _, letter in runs]
