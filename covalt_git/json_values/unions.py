"""The branch of a union (``anyOf``, ``oneOf``) that a refused value was meant for, so that a message is about that one.

A value chooses a branch by its type, or by a tag: a property that has other values in each branch, as the
discriminator of a pydantic model or of OpenAPI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import pointer
from covalt_git.json_values.pointer import BadReferenceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import jsonschema_rs

    from covalt_git.json_values import JsonObject


class UnionTag(NamedTuple):
    """A property of all branches of a union that has other values in each of them.

    Attributes:
        name: the property.
        values: its possible values, by branch.
    """

    name: str
    values: tuple[tuple[Any, ...], ...]


def is_union(error: jsonschema_rs.ValidationError) -> bool:
    """Return whether a value matched no branch of a union."""
    return type(error.kind).__name__ in {"AnyOf", "OneOfNotValid"}


def types_of(
    branches: Sequence[Sequence[jsonschema_rs.ValidationError]],
    error: jsonschema_rs.ValidationError,
) -> list[str]:
    """Return the types of a union whose branches only restrict the type; else an empty list."""
    types: list[str] = []
    for branch in branches:
        if len(branch) != 1 or type(branch[0].kind).__name__ != "Type":
            return []
        if list(branch[0].instance_path) != list(error.instance_path):
            return []
        kind: Any = branch[0].kind
        types += kind.types
    return list(dict.fromkeys(types))


def tag_of(error: jsonschema_rs.ValidationError, schema: JsonObject) -> UnionTag | None:
    """Return the tag of the union that an object did not match; None if it has none."""
    if not isinstance(error.instance, dict):
        return None
    place: Any = schema
    try:
        for step in error.schema_path:
            place = place[step]
        branches = [pointer.resolve(schema, branch) for branch in place]
    except (BadReferenceError, KeyError, IndexError, TypeError):  # it has an id of its own
        return None
    fixed = [_fixed_values(branch) for branch in branches]
    for name in fixed[0]:
        values = [branch.get(name, ()) for branch in fixed]
        # With the type, because True equals 1 in Python (test_true_is_not_the_tag_1).
        every = [(type(value), value) for group in values for value in group]
        if all(values) and len(set(every)) == len(every):
            return UnionTag(name, tuple(values))
    return None


def of_meant_branch(
    error: jsonschema_rs.ValidationError, schema: JsonObject
) -> Iterator[jsonschema_rs.ValidationError]:
    """Yield the errors of the branch of a union that the value was meant for, or the error itself."""
    kind: Any = error.kind
    if is_union(error) and not types_of(kind.context, error):
        branches = [branch for branch in kind.context if not types_of([branch], error)]
        tag = tag_of(error, schema)
        if tag is not None:
            instance: Any = error.instance
            value = instance.get(tag.name)
            branches = [
                branch
                for branch, values in zip(kind.context, tag.values, strict=True)
                if any(type(value) is type(option) and value == option for option in values)
            ]
        if len(branches) == 1:
            for inner in branches[0]:
                yield from of_meant_branch(inner, schema)
            return
    yield error


def _fixed_values(branch: Any) -> dict[str, tuple[Any, ...]]:
    """Return the properties of a branch that have one of a few texts or numbers."""
    properties = branch.get("properties") if isinstance(branch, dict) else None
    if not isinstance(properties, dict):
        return {}
    fixed: dict[str, tuple[Any, ...]] = {}
    for name, part in properties.items():
        if isinstance(part, dict) and ("const" in part or isinstance(part.get("enum"), list)):
            values = tuple(part["enum"] if "enum" in part else [part["const"]])
            if not any(isinstance(value, dict | list) for value in values):
                fixed[name] = values
    return fixed
