"""References to values that live outside the project: ``${NAME}``, as manifests write them.

``${NAME}`` and ``${secret:NAME}`` stand for a secret or a variable of the environment, ``${env:NAME}``
for a variable only; ``:-`` gives what it is where neither has it: ``${NAME:-default}``.  ``$$`` is a
dollar and begins nothing.  What a reference stands for is never searched for references.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = Literal["any", "env", "secret"]

_EXPRESSION_ROOTS = "args|return|chat_id|workspace|toolset"
_REFERENCE = re.compile(
    r"\$\$|\$\{(?:(?P<place>env|secret):)?"
    rf"(?!(?:{_EXPRESSION_ROOTS})[.}}])"  # which are no names of secrets, but expressions
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
)
_OPENING = re.compile(rf"\$\$|\$\{{(?!(?:{_EXPRESSION_ROOTS})[.}}])[^}}]*\}}?")


class Reference(NamedTuple):
    """One reference: the name, where its value may come from, and the text it was written as."""

    name: str
    place: Place
    default: str | None
    text: str


def split(text: str) -> tuple[str | Reference, ...]:
    """Return the references of ``text`` and the texts between them, in which ``$$`` is left."""
    found: list[str | Reference] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        if match["name"] is None:
            continue
        if match.start() > position:
            found.append(text[position : match.start()])
        position = match.end()
        place: Place = "env" if match["place"] == "env" else "any"
        if match["place"] == "secret":
            place = "secret"
        found.append(Reference(match["name"], place, match["default"], match[0]))
    if position < len(text):
        found.append(text[position:])
    return tuple(found)


def references(value: object) -> Iterator[tuple[tuple[str | int, ...], Reference]]:
    """Yield every reference in the texts of a value, each with its place in it."""
    for loc, text in texts(value):
        for piece in split(text):
            if isinstance(piece, Reference):
                yield loc, piece


def malformed(text: str) -> list[str]:
    """Return what begins as a reference and is none: ``${API-KEY}``, ``${``."""
    whole = {match.start() for match in _REFERENCE.finditer(text)}
    return [match[0] for match in _OPENING.finditer(text) if match.start() not in whole]


def texts(value: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the texts of a value, each with its place in it."""
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while waiting:
        loc, one = waiting.pop()
        if isinstance(one, str):
            yield loc, one
        elif isinstance(one, dict):
            waiting += [((*loc, key), inner) for key, inner in reversed(one.items())]
        elif isinstance(one, list | tuple):
            waiting += [((*loc, at), inner) for at, inner in reversed(list(enumerate(one)))]
