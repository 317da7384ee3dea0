"""Generator of ``covalt_git/text/unicode_table.py`` from Unicode's character database.

    uv run --no-project --with regex==2025.7.34 python tests/text/write_unicode_table.py | ruff format - > TABLE

The module ``regex`` carries the database; this version carries Unicode 16.0.0.  Python's own
``unicodedata`` has another version in each Python and lacks the derived properties.
"""

from __future__ import annotations

import importlib
from itertools import groupby
from typing import Final

VERSION: Final = "16.0.0"
_PROPERTIES: Final = (
    ("N", r"[\n\v\f\r\x85\p{Zl}\p{Zp}]"),
    ("C", r"\p{Cc}"),
    ("B", r"\p{Bidi_Control}"),
    ("I", r"\p{Default_Ignorable_Code_Point}"),
    ("I", r"(?!\p{Prepended_Concatenation_Mark})\p{Cf}"),
    ("S", r"(?! )[\p{Zs}\u2800\U00016fe4\U0001d159]"),
    ("E", r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]"),
    ("U", r"[\p{Cs}\p{Co}\p{Cn}]"),
    ("L", r"(?!\p{ASCII})[\p{L}\p{M}]"),
    ("V", r"(?s:.)"),
)
"""The letters of ``text.display`` and what they stand for; the first that matches decides."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_WIDTH: Final = 92


def runs() -> list[tuple[int, str]]:
    """Return lengths and kinds of the runs of code points of one kind, from U+0000 to U+10FFFF."""
    regex = importlib.import_module("regex")  # no dependency of the project
    if regex.match(r"\p{Cn}", "\U000105c0") or not regex.match(r"\p{Cn}", "\u20c1"):
        raise SystemExit(f"this version of regex does not have Unicode {VERSION}")
    kinds = [(kind, regex.compile(pattern)) for kind, pattern in _PROPERTIES]
    every = (
        next(kind for kind, one in kinds if one.match(chr(number))) for number in range(0x110000)
    )
    return [(len(list(run)), kind) for kind, run in groupby(every)]


def base36(number: int) -> str:
    """Return a number to the base 36."""
    rest, digit = divmod(number, 36)
    return (base36(rest) if rest else "") + _DIGITS[digit]


def main() -> None:
    """Print the module."""
    lines = [""]
    for length, kind in runs():
        word = base36(length) + kind
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += word
    print(
        f'"""Kinds of all code points in Unicode {VERSION}, made by ``tests/text/write_unicode_table.py``."""'
    )
    print("\nfrom __future__ import annotations\n\nfrom typing import Final\n")
    print(f'VERSION: Final = "{VERSION}"')
    print("RUNS: Final = (")
    print("\n".join(f'    "{line}"' for line in lines))
    print(')\n"""Each run: its length to the base 36, and the letter of its kind."""')


if __name__ == "__main__":
    main()
