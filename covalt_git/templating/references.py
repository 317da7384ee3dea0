"""References in manifests to secrets and environment variables.

``${NAME}`` and ``${secret:NAME}`` name a secret or an environment variable, ``${env:NAME}`` an environment
variable only.  ``${auth:ID}`` names an entry of the toolset's ``auth``, and ``${basic:NAME}`` the value in base64, as Basic
authentication sends it.  ``${NAME:-default}`` has a default.  ``$$`` is a
literal dollar.  Values are never searched for references.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from covalt_git.json_values import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = Literal["any", "env", "secret", "basic", "auth"]

AUTH = "auth:"
"""Beginning of the names of entries of ``auth`` among names of secrets, which have no colon."""

_EXPRESSION_ROOTS = "args|return|chat_id|workspace|toolset"
_REFERENCE = re.compile(
    r"\$\$|\$\{(?:(?P<auth>auth:[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*)|(?:(?P<place>env|secret|basic):)?"
    rf"(?!(?:{_EXPRESSION_ROOTS})[.}}])"  # these are expressions, not names of secrets
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*))(?::-(?P<default>[^}]*))?\}"
)
_OPENING = rf"\$\$|\$\{{(?!(?:{_EXPRESSION_ROOTS})[.}}])[^}}]*\}}?"


class Reference(NamedTuple):
    """One reference: the name, where its value may come from, and its source text.

    The name of an entry of ``auth`` begins with :data:`AUTH`, so that grants and masks treat it as a secret's.
    """

    name: str
    place: Place
    default: str | None
    text: str


def secret_words(name: str, *, quoted: bool = False) -> str:
    """Return the words for a name of a reference in messages: the secret KEY, or the token of the sign-in github."""
    short = name.removeprefix(AUTH)
    what = "the secret" if short == name else "the token of the sign-in"
    return f"{what} {short!r}" if quoted else f"{what} {short}"


def split(text: str) -> tuple[str | Reference, ...]:
    """Return the references of ``text`` and the texts between them, in which ``$$`` stays."""
    pieces: list[str | Reference] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        # `$$` is matched so that no reference begins at its second dollar.  It stays, as expressions and URLs have it
        # too and are read after this.
        if match["name"] is None and match["auth"] is None:
            continue
        if match.start() > position:
            pieces.append(text[position : match.start()])
        position = match.end()
        place = cast("Place", match["place"] or ("auth" if match["auth"] else "any"))
        name = match["auth"] or match["name"]
        pieces.append(Reference(name, place, match["default"], match[0]))
    if position < len(text):
        pieces.append(text[position:])
    return tuple(pieces)


def references(value: object) -> Iterator[tuple[tuple[str | int, ...], Reference]]:
    """Yield every reference in the texts of a value, each with its keys and list indexes."""
    for loc, text in texts(value):
        for piece in split(text):
            if isinstance(piece, Reference):
                yield loc, piece


def malformed(text: str) -> list[str]:
    """Return the malformed references of a text, such as ``${API-KEY}`` and ``${``."""
    whole = {match.start() for match in _REFERENCE.finditer(text)}
    return [match[0] for match in re.finditer(_OPENING, text) if match.start() not in whole]


def texts(value: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the texts of a value, each with its keys and list indexes."""
    return ((loc, leaf) for loc, leaf in leaves(value) if isinstance(leaf, str))
