"""Projections of an answer: the parts that callers get, such as ``items[].id`` or ``[].owner.name``.

A name leads to a member of an object, and ``[]`` to every item of a list.  A part of an answer that has another shape
than a path expects is returned whole, so that a projection never hides an answer that differs from its description.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.errors import nearest_name
from covalt_git.json_values import pointer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.json_values import JsonObject

ITEMS = "[]"
"""Step of a path to every item of a list."""

_PATH = re.compile(r"(?:\[\]|[^.\[\]]+)(?:\[\]|\.[^.\[\]]+)*")
_STEP = re.compile(r"\[\]|[^.\[\]]+")
_MOST_STEPS = 32
_COMBINING = ("allOf", "anyOf", "oneOf")

_TEXTS = ("title", "description")
_OF_ANY_VALUE = ("type", *_TEXTS)
"""Keywords that are as true of a projection as of the whole value."""

_MOST_PARTS = 2_000
"""The most parts of a schema of projections; answers of APIs have less than a hundred."""

_Tree = dict[str, Any]


def path_problem(path: str) -> str | None:
    """Return why a text is no path, or None."""
    if _PATH.fullmatch(path) and len(_STEP.findall(path)) <= _MOST_STEPS:
        return None
    return f"{path!r} is not a path such as items[].id"


def project(value: Any, paths: Sequence[str]) -> Any:
    """Return the parts of a value at paths; the whole value without paths."""
    return _projected(value, _tree(paths)) if paths else value


def _tree(paths: Sequence[str]) -> _Tree:
    tree: _Tree = {}
    for path in paths:
        branch = tree
        for step in _STEP.findall(path):
            branch = branch.setdefault(step, {})
        branch[""] = {}  # everything below
    return tree


def _projected(value: Any, tree: _Tree) -> Any:
    if "" in tree:
        return value
    if isinstance(value, list) and ITEMS in tree:
        return [_projected(item, tree[ITEMS]) for item in value]
    if isinstance(value, dict) and tree.keys() - {ITEMS}:
        return {key: _projected(value[key], tree[key]) for key in tree if key in value}
    return value


def projected_schema(
    schema: JsonObject, paths: Sequence[str], definitions: Mapping[str, JsonObject]
) -> JsonObject | None:
    """Return a schema of the projections of the values of a schema; None if it would be too large.

    The whole values match it too, as callers get a part whole that has another shape than a path expects.
    """
    try:
        return _Projection(definitions).of(schema, _tree(paths), frozenset())
    except _TooLargeError:
        return None


class _TooLargeError(Exception):
    pass


class _Projection:
    """The schema of a projection, while its parts are counted: references can lead to the same part many times."""

    def __init__(self, definitions: Mapping[str, JsonObject]) -> None:
        self._definitions = definitions
        self._room = _MOST_PARTS

    def of(self, schema: Any, tree: _Tree, reached: frozenset[str]) -> JsonObject:
        """Return the schema of a part; ``reached`` are the definitions that have led to it."""
        self._room -= 1
        if self._room < 0:
            raise _TooLargeError
        if not isinstance(schema, dict):
            return {}
        if "" in tree:
            return schema
        # Other keywords are about values that the projection has no longer, such as minProperties.
        result = {key: schema[key] for key in _OF_ANY_VALUE if key in schema}
        combined = [*schema.get("allOf", ())]
        name = str(schema.get(pointer.REF, "")).removeprefix("#/$defs/")
        if name in self._definitions and name not in reached:
            target = self.of(self._definitions[name], tree, reached | {name})
            if not combined and schema.keys() <= {pointer.REF, *_TEXTS}:
                return target | result
            result["allOf"] = [target]
        if combined:
            parts = [self.of(part, tree, reached) for part in combined]
            result["allOf"] = [*result.get("allOf", ()), *parts]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                # Of one alternative at most before; projections of values of two can be equal.
                parts = [self.of(part, tree, reached) for part in schema[key]]
                either = {"anyOf": parts}
                if "anyOf" in result:
                    result["allOf"] = [*result.get("allOf", ()), either]
                else:
                    result |= either
        self._add_members(schema, tree, result)
        return result

    def _add_members(self, schema: JsonObject, tree: _Tree, result: JsonObject) -> None:
        names = schema.get("properties", {})
        kept = {
            key: self.of(names[key], branch, frozenset())
            for key, branch in tree.items()
            if key in names
        }
        if kept:
            result["properties"] = kept
        required = [key for key in schema.get("required", ()) if key in tree]
        if required:
            result["required"] = required
        if ITEMS in tree and "items" in schema and "prefixItems" not in schema:
            result["items"] = self.of(schema["items"], tree[ITEMS], frozenset())


def schema_problem(
    path: str, schema: JsonObject, definitions: Mapping[str, JsonObject]
) -> str | None:
    """Return why answers of a schema have no part at a path, or None.

    Parts of the schema that say nothing about their members permit every path.
    """
    schemas: list[Any] = [schema]
    for step in _STEP.findall(path):
        expanded = [branch for part in schemas for branch in _branches(part, definitions)]
        key = "items" if step == ITEMS else "properties"
        if any(key not in branch and not _is_closed(branch, step) for branch in expanded):
            return None
        described = [branch[key] for branch in expanded if key in branch]
        if step == ITEMS:
            schemas = described
        else:
            names = {name: value for names in described for name, value in names.items()}
            schemas = [names[step] for names in described if step in names]
            if not schemas:
                near = nearest_name(step, names)
                hint = f"; did you mean {near!r}?" if near else ""
                return f"answers have no {step!r} at {path!r}{hint}"
        if not schemas:
            return f"answers have no list at {path!r}"
    return None


def _is_closed(schema: JsonObject, step: str) -> bool:
    """Return whether a schema without the keyword for a step does not permit it: it is of another type."""
    types = schema.get("type")
    names = {types} if isinstance(types, str) else set(types or ())
    return bool(names) and ("array" if step == ITEMS else "object") not in names


def _branches(schema: Any, definitions: Mapping[str, JsonObject]) -> Iterator[JsonObject]:
    """Yield a schema and the schemas that it refers to or combines, each once."""
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        combined = [inner for key in _COMBINING for inner in part.get(key, ())]
        reference = part.get(pointer.REF)
        if isinstance(reference, str):
            combined.append(definitions.get(reference.removeprefix("#/$defs/"), {}))
        waiting += combined
        # Not a schema that only combines others: its properties are those of the others.
        if not combined or part.keys() & {"properties", "items"}:
            yield part
