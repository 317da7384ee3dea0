"""Check that expressions in a renderer's configuration resolve, by the schemas of the tool.

Only expressions that can never resolve are reported, as warnings: they are errors of the render plan, not
of the call.  A part about which the schema says nothing may exist.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.errors import MOST_LISTED, Problem, listed, nearest_name
from covalt_git.json_values import pointer
from covalt_git.problems import codes
from covalt_git.templating.expressions import Expression, expressions
from covalt_git.templating.references import texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading

_ROOTS = ("args", "return", "chat_id", "workspace", "toolset")
_CORRECTIONS = {
    **dict.fromkeys(("arg", "argument", "arguments", "input"), "args"),
    **dict.fromkeys(("returns", "returned", "result", "results", "output"), "return"),
}
"""Frequent mistakes for the roots of expressions, and the correct roots."""

_NEARLY = re.compile(r"\$\{?(?P<root>[a-z_]+)(?P<rest>(?:\.[\w-]+)*)\}?")
_MANY_WAYS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "$dynamicRef"}
)
_MOST_DIGITS = 10
_NO_PARTS = frozenset({"string", "integer", "number", "boolean", "null"})


def check_expressions(
    reading: Reading[Any],
    config: JsonObject,
    *,
    takes: JsonObject | None,
    gives: JsonObject | None,
) -> Iterator[Problem]:
    """Find expressions in ``config`` that cannot resolve.

    ``takes`` is the schema of the tool's arguments, ``gives`` that of its result; None: unknown.
    """
    for at, text in texts(config):
        for expression in expressions(text):
            yield from _check(reading, at, expression, takes, gives)
        nearly = _NEARLY.fullmatch(text)
        if nearly and nearly["root"] not in _ROOTS:
            root = _CORRECTIONS.get(nearly["root"])
            if root is not None:
                message = f"{text[:60]!r} is not an expression: '${nearly['root']}' is unknown"
                hint = f"write ${root}{nearly['rest']}"
                yield reading.warning(codes.UNKNOWN_EXPRESSION, at, message, hint=hint)


def _check(
    reading: Reading[Any],
    at: Loc,
    expression: Expression,
    takes: JsonObject | None,
    gives: JsonObject | None,
) -> Iterator[Problem]:
    schema = {"args": takes, "return": gives}.get(expression.root)
    if schema is None:
        return
    missing = _first_missing(schema, expression.path, listed=expression.root == "args")
    if missing is None:
        return
    position, names = missing
    part = expression.path[position]
    root = "the arguments" if expression.root == "args" else "the result"
    outer = ".".join(expression.path[:position])
    holder = f"{outer!r} of {root}" if outer else root
    near = nearest_name(part, names)
    hint = f"known here: {listed(list(names), MOST_LISTED)}"
    if not names:
        hint = f"write ${'.'.join([expression.root, *expression.path[:position]])}"
    if near:
        path = [*expression.path[:position], near, *expression.path[position + 1 :]]
        hint = f"write ${'.'.join([expression.root, *path])}; {hint}"
    has = "have" if holder == "the arguments" else "has"
    message = f"{expression.text} cannot be resolved: {holder} {has} no {part!r}"
    yield reading.warning(codes.UNKNOWN_EXPRESSION, at, message, hint=hint)


def _first_missing(
    schema: JsonObject, path: tuple[str, ...], *, listed: bool
) -> tuple[int, list[str]] | None:
    """Return the index of the first part of a path that cannot exist, and the names that can.

    With ``listed``, only the listed properties exist at the top level, unless the schema explicitly allows
    others.  This is for arguments, because callers send declared arguments only.
    """
    here: Any = schema
    for position, part in enumerate(path):
        try:
            here = pointer.resolve(schema, here)
        except pointer.BadReferenceError:
            return None
        # Which properties exist then depends on the value, and only what can never resolve is reported.
        if not isinstance(here, dict) or here.keys() & _MANY_WAYS:
            return None
        properties = here.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        names = sorted(properties)
        if part in names:
            here = properties[part]
            continue
        kind = here.get("type")
        if kind == "array" and part.isdecimal():
            # Digits that int() refuses are an index beyond every list.
            first: Any = here.get("prefixItems")
            index = int(part) if len(part) < _MOST_DIGITS else -1
            is_listed = isinstance(first, list) and 0 <= index < len(first)
            here = first[index] if is_listed else here.get("items", {})
            continue
        others = here.get("additionalProperties")
        closed = others is False or (others is None and listed and not position and names)
        if kind == "array" or (isinstance(kind, str) and kind in _NO_PARTS):
            return position, []
        if closed and kind in {"object", None}:
            return position, names
        # By default, a schema allows properties that it does not list.
        if not isinstance(others, dict):
            return None
        here = others
    return None
