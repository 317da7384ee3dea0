"""Whether the expressions of a renderer's configuration stand for something the tool takes or returns.

Only what surely resolves to nothing is told, and as warnings: such an expression is an error of the
render plan, never of the call.  A schema that says nothing of a part allows every part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.errors import Problem, nearest_name
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
_MEANT = {
    **dict.fromkeys(("arg", "argument", "arguments", "input"), "args"),
    **dict.fromkeys(("returns", "returned", "result", "results", "output"), "return"),
}
"""What people write for the roots of expressions."""

_NEARLY = re.compile(r"\$\{?(?P<root>[a-z_]+)(?P<rest>(?:\.[\w-]+)*)\}?")
_MANY_WAYS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "$dynamicRef"}
)
_NO_PARTS = frozenset({"string", "integer", "number", "boolean", "null"})


def check_expressions(
    reading: Reading[Any],
    loc: Loc,
    config: JsonObject,
    *,
    takes: JsonObject | None,
    gives: JsonObject | None,
) -> Iterator[Problem]:
    """Find expressions at ``loc`` that resolve to nothing, as the schemas of a tool say."""
    for place, text in texts(config):
        at = (*loc, *place)
        for expression in expressions(text):
            yield from _check(reading, at, expression, takes, gives)
        nearly = _NEARLY.fullmatch(text)
        if nearly and nearly["root"] not in _ROOTS:
            root = _MEANT.get(nearly["root"])
            if root is not None:
                yield reading.problem(
                    codes.UNKNOWN_EXPRESSION,
                    at,
                    f"{text[:60]!r} is a plain text: nothing is called '${nearly['root']}'",
                    hint=f"write ${root}{nearly['rest']}",
                    severity="warning",
                )


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
    found = _nothing_at(schema, expression.path, listed=expression.root == "args")
    if found is None:
        return
    position, known = found
    part = expression.path[position]
    whole = "the arguments" if expression.root == "args" else "the result"
    outer = ".".join(expression.path[:position])
    holder = f"{outer!r} of {whole}" if outer else whole
    near = nearest_name(part, known)
    hint = f"known here: {', '.join(known)}"
    if not known:
        hint = f"write ${'.'.join([expression.root, *expression.path[:position]])}"
    if near:
        path = [*expression.path[:position], near, *expression.path[position + 1 :]]
        hint = f"write ${'.'.join([expression.root, *path])}; {hint}"
    yield reading.problem(
        codes.UNKNOWN_EXPRESSION,
        at,
        f"{expression.text} stands for nothing: {holder} {_has(holder)} no {part!r}",
        hint=hint,
        severity="warning",
    )


def _has(holder: str) -> str:
    return "have" if holder == "the arguments" else "has"


def _nothing_at(
    schema: JsonObject, path: tuple[str, ...], *, listed: bool
) -> tuple[int, list[str]] | None:
    """Return the position of the first part that cannot be there, and the names that can.

    With ``listed`` the properties at the top are all there are, unless the schema says otherwise:
    a caller gives what is declared.
    """
    here: Any = schema
    for position, part in enumerate(path):
        try:
            here = pointer.resolve(schema, here)
        except pointer.BadReferenceError:
            return None
        if not isinstance(here, dict) or here.keys() & _MANY_WAYS:
            return None
        properties = here.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        known = sorted(properties)
        if part in known:
            here = properties[part]
            continue
        kind = here.get("type")
        if kind == "array" and part.isdecimal() and "prefixItems" not in here:
            here = here.get("items", {})
            continue
        others = here.get("additionalProperties")
        closed = others is False or (others is None and listed and not position and known)
        if kind == "array" or (isinstance(kind, str) and kind in _NO_PARTS):
            return position, []
        if closed and kind in {"object", None}:
            return position, known
        if not isinstance(others, dict):
            return None
        here = others
    return None
