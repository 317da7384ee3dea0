"""Unicode normalization of any text in linear time."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

MOST_MARKS = 128
"""Consecutive combining marks that count; the name of a file, of at most 255 bytes, has fewer."""

# Marks are no letters, except the sound marks of half width, which become marks.
_MAYBE_MARKS = re.compile(rf"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){{{MOST_MARKS},}}")


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a normal form, without the marks of a character after the first 128."""
    # CPython sorts a run of marks by insertion, without releasing the GIL: 37 s for 120,000 marks.
    bounded = text if text.isascii() else _MAYBE_MARKS.sub(_bounded, text)
    return unicodedata.normalize(form, bounded)  # noqa: TID251 - bounded


def _bounded(run: re.Match[str]) -> str:
    left: list[str] = []
    marks = 0
    for character in run[0]:
        # Some characters are several marks (U+0344).
        split = unicodedata.normalize("NFKD", character)  # noqa: TID251 - one character
        marks = marks + len(split) if unicodedata.combining(split[0]) else 0
        if marks <= MOST_MARKS:
            left.append(character)
    return "".join(left)
