"""Check that the parameters of a tool's function match the input schema in the manifest.

Calls use the schema of the manifest, so these problems are warnings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.errors import MOST_LISTED, Problem, listed, nearest_name
from covalt_git.json_values import pointer
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest
    from covalt_git.python_reader.source import ToolDefinition

COMPOSING = frozenset({pointer.REF, "$dynamicRef", "allOf", "anyOf", "oneOf", "patternProperties"})
"""Keywords that can declare arguments outside of ``properties``."""

_HINTS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
_MAX_DEPTH = 8


def check_parameters(
    reading: Reading[ToolsetManifest], tool: ToolDeclaration, source: ToolDefinition
) -> Iterator[Problem]:
    """Find arguments that only the schema or only the function has, and arguments of different types.

    The schema is at the place of ``reading``.
    """
    schema = tool.input_schema or {}
    if schema.keys() & COMPOSING:
        return  # the declared arguments depend on the value
    declared = schema.get("properties", {})
    takes = source.input_schema
    parameters = takes.get("properties", {})
    function = str(tool.entrypoint).partition(":")[2]
    # A function with **names, or with an unknown signature, may take any argument.
    if takes.get("additionalProperties") is False:
        for name in declared:
            if name not in parameters:
                near = nearest_name(name, parameters)
                others = (
                    f"its parameters: {listed(list(parameters), MOST_LISTED)}"
                    if parameters
                    else "it has no parameters"
                )
                message = f"{function}() has no parameter {name!r}"
                hint = f"did you mean {near!r}?" if near else others
                at = ("properties", name)
                yield reading.warning(codes.WRONG_PARAMETERS, at, message, hint=hint, key=True)
    for name in takes.get("required", []):
        if name not in declared:
            message = f"{function}() requires an argument {name!r} that is not declared"
            hint = f"add {name} to properties, or give it a default in the function"
            yield reading.warning(
                codes.WRONG_PARAMETERS, ("properties",), message, hint=hint, key=True
            )
    for name in parameters:
        if name in declared:
            yield from _check_type(reading, name, schema, takes, function)


def _check_type(
    reading: Reading[ToolsetManifest],
    name: str,
    schema: JsonObject,
    takes: JsonObject,
    function: str,
) -> Iterator[Problem]:
    mismatch = _mismatch((schema, schema["properties"][name]), (takes, takes["properties"][name]))
    if mismatch is None:
        return
    way, wrong, accepted = mismatch
    hints = " | ".join(_HINTS[kind] for kind in sorted(accepted, key=list(_HINTS).index))
    what = "the items of " * len(way) + repr(name)
    at = ("properties", name, *way, "type")
    message = f"{function}() takes {what} as {hints}, not as {_HINTS[wrong]}"
    hint = f"write type: {min(accepted, key=list(_HINTS).index)}, or change the type hint"
    yield reading.warning(codes.WRONG_PARAMETERS, at, message, hint=hint)


_Sided = tuple["JsonObject", Any]
"""A schema, and the part of it that is compared."""


def _mismatch(declared: _Sided, hinted: _Sided) -> tuple[Loc, str, set[str]] | None:
    """Return the path of the first type that the hint does not accept, that type, and the accepted types."""
    way: Loc = ()
    # The items of a list may refer to the list itself.
    for _ in range(_MAX_DEPTH):
        allowed, accepted = _types(*declared), _types(*hinted)
        if allowed is None or accepted is None:
            return None
        # JSON has only one type of numbers, so a float takes 5 as well as 5.5.
        with_integers = accepted | ({"integer"} if "number" in accepted else set())
        wrong = sorted(allowed - with_integers - {"null"})
        if wrong:
            return way, wrong[0], accepted
        if allowed != {"array"} or accepted - {"null"} != {"array"}:
            return None
        declared = (declared[0], declared[1].get("items", {}))
        hinted = (hinted[0], _array(*hinted).get("items", {}))
        way = (*way, "items")
    return None


def _types(root: JsonObject, part: Any) -> set[str] | None:
    """Return the types that a part of a schema allows, or None if it does not restrict them."""
    types: set[str] = set()
    waiting, count = [part], 0
    while waiting:
        try:
            schema, count = pointer.resolve(root, waiting.pop()), count + 1
        except pointer.BadReferenceError:
            return None
        if not isinstance(schema, dict) or count > 50:  # noqa: PLR2004 - recursive references
            return None
        if "type" in schema:
            kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            types.update(str(kind) for kind in kinds)
        elif isinstance(schema.get("anyOf"), list):
            waiting += schema["anyOf"]
        else:
            return None
    return types if types <= _HINTS.keys() else None


def _array(root: JsonObject, part: JsonObject) -> JsonObject:
    """Return the array among the alternatives of a part."""
    choices = part.get("anyOf", [part])
    return (
        next((choice for choice in choices if choice.get("type") == "array"), {})
        if choices
        else root
    )
