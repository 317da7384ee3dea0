r"""Patterns of pydantic as patterns of JSON Schema.

Pydantic reads patterns as the regular expressions of Rust (https://docs.rs/regex/latest/regex/#syntax), where ``\w``,
``\d`` and ``\s`` are about all of Unicode.  JSON Schema reads them as those of ECMA-262, where they are about ASCII.
"""

from __future__ import annotations

import re

_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
_CLASSES = {
    r"\d": r"\p{Nd}",
    r"\D": r"\P{Nd}",
    r"\s": r"\p{White_Space}",
    r"\S": r"\P{White_Space}",
}
"""Classes of Rust as properties of Unicode, which are equal in both languages."""

_PART = re.compile(r"\\.|\[\^?\]?|\]|&&|--|~~|\(\?[a-zA-Z]*-?[a-zA-Z]*[:)]|.", re.DOTALL)
_OTHER_READING = re.compile(r"\(\?[a-zA-Z-]*[ux]")
"""Flags that change what a class or a blank means."""


def as_json_schema(pattern: str) -> str | None:
    """Return the pattern that means in JSON Schema what ``pattern`` means in pydantic; None if JSON Schema has none.

    Rust alone has classes in classes, such as ``[[:alpha:]]`` and ``[a-z&&[^aeiou]]``.
    """
    written: list[str] = []
    in_class = False
    for part in _PART.findall(pattern):
        if part[0] == "[":
            if in_class or part[-1] == "]":  # ECMA reads [] as a class of nothing
                return None
            in_class = True
        elif in_class and (part == r"\W" or part in {"&&", "--", "~~"}):
            return None
        elif part == "]":
            in_class = False
        elif not in_class and _OTHER_READING.match(part):
            return None
        if part == r"\w":
            written.append(_WORD if in_class else f"[{_WORD}]")
        elif part == r"\W":
            written.append(f"[^{_WORD}]")
        else:
            written.append(_CLASSES.get(part, part))
    return "".join(written)
