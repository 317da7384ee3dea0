r"""Display forms of texts: characters that a person cannot see are written as ``\u{...}``.

Hidden characters make two names look the same, hide a part of a command from its reviewer, or show
a text in another order than it runs (UTS 39, UTR 36, "Trojan Source" CVE-2021-42574).  Use ``in_line``
for everything that a person decides on or identifies, ``in_lines`` where it has lines, and
``running`` for prose.  Data (JSON output, API, downloads, an editor's text) is never escaped.

The kinds of characters come from Unicode 16.0.0 in every version of Python (``unicode_table.py``):

- ``line-break``: line feed, vertical tab, form feed, carriage return, U+0085, U+2028, U+2029
  (classes BK, CR, LF and NL of UAX 14).  ``control``: the others of general category Cc.
- ``bidi``: Bidi_Control (PropList.txt).
- ``invisible``: Default_Ignorable_Code_Point (DerivedCoreProperties.txt), assigned or not, and the
  other format characters (Cf) except Prepended_Concatenation_Mark, which have a glyph.
- ``blank``: spaces (Zs) except U+0020, and the symbols without ink U+2800, U+16FE4 and U+1D159.
- ``no-glyph``: surrogates (Cs), private use (Co), and unassigned code points and noncharacters (Cn).
  Each font shows something else for them, and some terminals print nothing.
- ``pictograph``: Extended_Pictographic (emoji-data.txt), with the places reserved for later emoji,
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
"""Controls and line breaks for the character class of a pattern."""

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
_SEEN: Final = frozenset({"pictograph", "letter", "visible"})
_JOINER: Final = re.compile("[\u200c\u200d\ufe0f]")
_KEYCAP: Final = "\u20e3"


def kind(character: str) -> Kind:
    """Return the kind of a character."""
    starts, kinds = _table()
    return kinds[bisect_right(starts, ord(character)) - 1]


def is_shown(text: str) -> bool:
    """Tell whether a text on one line has no character that ``in_line`` would escape."""
    return in_line(text) == text


def escape(character: str) -> str:
    r"""Return ``\u{200b}`` for U+200B."""
    return f"\\u{{{ord(character):x}}}"


def in_line(text: str) -> str:
    """Return a name, argument or command on one line: tabs and line breaks are escaped too."""
    return _escaped(text, "", _SEEN, escape)


def in_lines(text: str, written: Callable[[str], str] = escape) -> str:
    """Return a text of several lines, such as a log: only tabs and line feeds are kept.

    ``written`` returns the escape of a character.
    """
    return _escaped(text, "\t\n", _SEEN, written)


def shorten(text: str, most: int = 80) -> str:
    """Return at most so many characters of a text, the last one an ellipsis where it is cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def running(text: str, written: Callable[[str], str] = escape) -> str:
    """Return prose: it also keeps spaces, and joiners and emoji selectors where they have an effect."""
    seen = {*_SEEN, "blank"}
    shown, end = [], 0
    for found in _JOINER.finditer(text):
        if is_joined(text, found.start()):
            shown += [_escaped(text[end : found.start()], "\t\n", seen, written), found[0]]
            end = found.end()
    return "".join([*shown, _escaped(text[end:], "\t\n", seen, written)])


def is_joined(text: str, place: int) -> bool:
    """Tell whether a joiner or emoji selector changes how the characters beside it are drawn.

    That is U+200C and U+200D between two letters outside of ASCII or between two emoji, and U+FE0F
    after a pictograph or in a keycap.
    """
    before, after = text[max(place - 1, 0) : place], text[place + 1 : place + 2]
    if not before:
        return False
    if text[place] == "\ufe0f":
        return kind(before) == "pictograph" or (before in "0123456789#*" and after == _KEYCAP)
    if not after or not _JOINER.match(text[place]):
        return False
    if before == "\ufe0f" and is_joined(text, place - 1):
        before = text[place - 2]
    return kind(before) == kind(after) and kind(after) in {"letter", "pictograph"}


def _escaped(text: str, kept: str, seen: Collection[str], written: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    found = {one for one in set(text) if one not in kept and kind(one) not in seen}
    return text.translate({ord(one): written(one) for one in found}) if found else text


@lru_cache(maxsize=1)
def _table() -> tuple[list[int], list[Kind]]:
    """Return where each run of characters of one kind begins, and its kind."""
    runs = re.findall("([0-9a-z]+)([A-Z])", RUNS)
    starts = accumulate((int(length, 36) for length, _ in runs), initial=0)
    return list(starts)[:-1], [_KINDS[letter] for _, letter in runs]
