"""Expressions in a renderer's configuration and in HTTP requests: their syntax and values.

They make section 5.2 of the specification exact.  They occur in the texts of a configuration, not in keys::

    $args  $args.path     the arguments, or one of them; in the same way $return is the result
    $return.items.0.name  keys and list indexes, joined by dots
    $chat_id              the chat's id
    $workspace/out.txt    "workspace:out.txt", never a path on this machine;
                          in the same way $toolset
    ${args.my-key}        the same in braces, for keys with hyphens, or directly before other text
    $$                    a dollar

A text that is exactly one expression becomes its value, of any type, and its keys may contain hyphens.
In a longer text, strings are inserted unchanged and other values as JSON.  In such a text, an expression
without braces includes every ``.word`` after it, so that the meaning of a text never depends on the
data.  ``$chat_id``, ``$workspace`` and ``$toolset`` have no parts.  All other dollars stay, as in prices
and shell variables.  Values are never searched for expressions.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = ("workspace", "toolset")
MAX_DEPTH = 64
"""Deepest nesting of mappings and lists in a configuration."""

_EXPRESSION = re.compile(
    r"""
    \$ (?: (?P<dollar> \$ )
         | (?P<with_parts> (?: args | return ) (?!\w) (?: \.\w+ )* )
         | (?P<without_parts> (?: chat_id | workspace | toolset ) (?!\w) )
         | \{ (?P<in_braces> (?: args | return | chat_id | workspace | toolset ) (?: \.[\w-]+ )* ) \}
    )
    """,
    re.VERBOSE,
)
# Keys with hyphens only here: within a text, `$args.a-b` could also be the value `$args.a` before "-b".
_WHOLE = re.compile(r"\$((?:args|return)(?:\.[\w-]+)+)")
_INDEX = re.compile(r"[0-9]{1,9}")
_TOO_DEEP = f"more than {MAX_DEPTH} mappings and lists inside each other"


class Values(NamedTuple):
    """Values of expressions: the arguments of a call, its result and its chat."""

    args: dict[str, Any]
    returned: Any
    chat_id: str


class Expression(NamedTuple):
    """One expression: its root, the keys after it, and its source text."""

    root: str
    path: tuple[str, ...]
    text: str


Piece: TypeAlias = str | Expression


class _UnresolvedError(Exception):
    """An expression without a value."""


def interpolate(value: Any, values: Values) -> tuple[Any, tuple[str, ...]]:
    """Return ``value`` with its expressions replaced, and a message for each unresolved one.

    The text of an unresolved expression stays.
    """
    unresolved: list[str] = []
    return _interpolated(value, values, unresolved, 0), tuple(unresolved)


def expressions(value: Any) -> Iterator[Expression]:
    """Yield every expression of a configuration, in document order."""
    yield from _expressions(value, 0)


def split(text: str) -> tuple[Piece, ...]:
    """Return the expressions of ``text`` and the plain texts between them, with ``$$`` as ``$``."""
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        return (_parse(whole[1], text),)
    pieces: list[Piece] = []
    plain = ""
    position = 0
    for match in _EXPRESSION.finditer(text):
        plain += text[position : match.start()]
        position = match.end()
        if match["dollar"]:
            plain += "$"
            continue
        pieces += [plain] if plain else []
        plain = ""
        pieces.append(_parse(match[match.lastgroup or 0], match[0]))
    plain += text[position:]
    pieces += [plain] if plain else []
    return tuple(pieces)


def _parse(dotted: str, text: str) -> Expression:
    root, *path = dotted.split(".")
    return Expression(root, tuple(path), text)


def _expressions(value: Any, depth: int) -> Iterator[Expression]:
    if isinstance(value, str):
        yield from (piece for piece in split(value) if isinstance(piece, Expression))
    elif isinstance(value, dict | list) and depth < MAX_DEPTH:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _expressions(item, depth + 1)


def _interpolated(value: Any, values: Values, unresolved: list[str], depth: int) -> Any:
    if isinstance(value, str):
        return _interpolated_text(value, values, unresolved)
    if not isinstance(value, dict | list):
        return value
    if depth == MAX_DEPTH:
        unresolved.append(_TOO_DEEP)
        return None
    if isinstance(value, dict):
        return {
            key: _interpolated(item, values, unresolved, depth + 1) for key, item in value.items()
        }
    return [_interpolated(item, values, unresolved, depth + 1) for item in value]


def _interpolated_text(text: str, values: Values, unresolved: list[str]) -> Any:
    pieces = split(text)
    try:
        if len(pieces) == 1 and isinstance(pieces[0], Expression):
            return _value(pieces[0], values)
    except _UnresolvedError as error:
        unresolved.append(str(error))
        return text
    joined = ""
    after_place = False
    for piece in pieces:
        if isinstance(piece, str):
            # `workspace:` is followed by a relative path: with the slash, it would be an absolute one.
            joined += piece.removeprefix("/") if after_place else piece
            after_place = False
            continue
        after_place = piece.root in PLACES
        try:
            joined += _as_text(piece, values)
        except _UnresolvedError as error:
            unresolved.append(str(error))
            joined += piece.text
    return joined


def _as_text(expression: Expression, values: Values) -> str:
    value = _value(expression, values)
    if isinstance(value, str):
        return value
    try:  # a value comes from a call, and may be nested deeper than Python's stack
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise _UnresolvedError(
            f"the value of {expression.text} is nested too deeply to be written as text"
        ) from None


def _value(expression: Expression, values: Values) -> Any:
    if expression.root == "args":
        return _part(expression, values.args, "the arguments")
    if expression.root == "return":
        return _part(expression, values.returned, "the result")
    if expression.path:
        raise _UnresolvedError(f"{expression.text}: ${expression.root} has no parts")
    return values.chat_id if expression.root == "chat_id" else f"{expression.root}:"


def _part(expression: Expression, value: Any, name: str) -> Any:
    for position, key in enumerate(expression.path):
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            outer = ".".join(expression.path[:position])
            holder = f"{outer!r} of {name}" if outer else name
            verb = "have" if holder == "the arguments" else "has"
            raise _UnresolvedError(f"{expression.text}: {holder} {verb} no {key!r}")
    return value
