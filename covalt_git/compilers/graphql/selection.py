"""The fields that a tool asks for by default, the schema of that answer, and the types with which others are checked.

The default fields are all scalars to three levels below the field of the operation, the nearer ones first, without a
type inside of itself, and at most 200 fields.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from covalt_git.compilers.graphql.schema import NO_DEFAULT, SCALARS, name_of, reached
from covalt_git.json_values import canonical_json
from covalt_git.json_values.pointer import REF

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.compilers.graphql.schema import GraphQLSchema, InputValue, OutputField
    from covalt_git.json_values import JsonObject

MAX_DEPTH: Final = 3
"""Levels of fields below the field of an operation."""

MAX_FIELDS: Final = 200

_TYPENAME: Final = "__typename"
_MIN_SHARED: Final = 300
_MOST_IN_EXAMPLE: Final = 3
_HASH_DIGITS: Final = 12
_JSON_TYPES = {
    "Int": "integer",
    "Float": "number",
    "String": "string",
    "Boolean": "boolean",
    "ID": "string",
}


@dataclass(slots=True)
class _Part:
    """Fields of a type: an object's, or those of a member of a union, which are a fragment without a level."""

    type: str
    depth: int
    above: frozenset[str]
    parent: _Part | None
    is_fragment: bool = False
    entries: list[_Entry] = field(default_factory=list)
    fragments: list[_Part] = field(default_factory=list)
    has_fields: bool = False


@dataclass(slots=True)
class _Entry:
    key: str
    name: str
    type: str
    part: _Part | None

    @property
    def is_selected(self) -> bool:
        return self.part is None or self.part.has_fields


def default_selection(
    schema: GraphQLSchema, type_text: str, shared: dict[str, JsonObject]
) -> tuple[str, JsonObject]:
    """Return the default fields of a type as text, without braces, and the schema of its values.

    No field is required in the schema: so it holds for other selections as well.  Its larger objects are added to
    ``shared``, and it refers to them.
    """
    root = _selected(schema, name_of(type_text))
    return _text(root), _with_references(_value_schema(schema, type_text, root), shared)


def example_selection(schema: GraphQLSchema, type_name: str) -> str:
    """Return a short selection of an object or interface, to show its form: ``id title author { name }``."""
    scalars, nested = _leaves(schema, type_name), ""
    for name, output in schema.types[type_name].fields.items():
        inner = _leaves(schema, name_of(output.type))
        if inner and _is_selectable(schema, type_name, name, output):
            nested = f"{name} {{ {inner[0]} }}"
            break
    return " ".join([*scalars[:_MOST_IN_EXAMPLE], *([nested] if nested else [])]) or _TYPENAME


def _leaves(schema: GraphQLSchema, type_name: str) -> list[str]:
    return [
        name
        for name, output in schema.types[type_name].fields.items()
        if _is_selectable(schema, type_name, name, output)
        and not schema.types[name_of(output.type)].is_composite
    ]


def leaf_schema(schema: GraphQLSchema, type_text: str) -> JsonObject:
    """Return the schema of the values of a scalar or an enum."""
    return _value_schema(schema, type_text, None)


class _Budget:
    def __init__(self) -> None:
        self.left = MAX_FIELDS

    def takes(self, part: _Part) -> bool:
        """Take one field of a part, and those that lead to it; return whether they fit."""
        leading: list[_Part] = []
        above: _Part | None = part
        while above is not None and not above.has_fields:
            leading.append(above)
            above = above.parent
        # The limit is one of fields, and neither a fragment nor the answer itself is a field.
        cost = 1 + sum(not item.is_fragment and item.parent is not None for item in leading)
        if cost > self.left:
            return False
        self.left -= cost
        for item in leading:
            item.has_fields = True
        return True


def _selected(schema: GraphQLSchema, type_name: str) -> _Part:
    root = _Part(type_name, 1, frozenset({type_name}), None)
    budget = _Budget()
    keys: dict[str, dict[tuple[str, str], str]] = {}
    waiting = deque([root])
    while waiting and budget.left:
        part = waiting.popleft()
        described = schema.types[part.type]
        if described.kind in {"union", "interface"} and budget.takes(part):
            part.entries.append(_Entry(_TYPENAME, _TYPENAME, "String!", None))
        if described.kind == "union":
            part.fragments = [
                _Part(member, part.depth, part.above | {member}, part, is_fragment=True)
                for member in described.members
                if member not in part.above
            ]
            # Before the parts of deeper levels: a field of a fragment is on the level of the field that has the fragment.
            waiting.extendleft(reversed(part.fragments))
            continue
        for name, output in described.fields.items():
            if not _is_selectable(schema, part.type, name, output):
                continue
            below, key = name_of(output.type), name
            if part.is_fragment and part.parent is not None:
                union = part.parent.type
                keys[union] = keys.get(union) or _keys(schema, union)
                key = keys[union][part.type, name]
            if not schema.types[below].is_composite:
                if budget.takes(part):
                    part.entries.append(_Entry(key, name, output.type, None))
            elif part.depth < MAX_DEPTH and below not in part.above:
                inner = _Part(below, part.depth + 1, part.above | {below}, part)
                part.entries.append(_Entry(key, name, output.type, inner))
                waiting.append(inner)
    if not root.has_fields:
        root.entries = [_Entry(_TYPENAME, _TYPENAME, "String!", None)]
        root.has_fields = True
    return root


def _is_selectable(schema: GraphQLSchema, type_name: str, name: str, output: OutputField) -> bool:
    is_broken = (type_name, name) in schema.broken
    return not is_broken and not any(arg.is_required for arg in output.args.values())


def _keys(schema: GraphQLSchema, union: str) -> dict[tuple[str, str], str]:
    """Return the keys of the fields of a union's members: different ones where types differ, as answers must (5.3.2).

    They depend on the union only, because an answer can have its values from several places.
    """
    types: dict[str, str] = {}
    keys: dict[tuple[str, str], str] = {}
    for member in schema.types[union].members:
        for name, output in schema.types[member].fields.items():
            key = name
            while types.setdefault(key, output.type) != output.type:
                key += "_" if key.endswith(f"_{member}") else f"_{member}"
            keys[member, name] = key
    return keys


def _text(part: _Part) -> str:
    words = [
        (f"{entry.key}: " if entry.key != entry.name else "")
        + entry.name
        + (f" {{ {_text(entry.part)} }}" if entry.part is not None else "")
        for entry in part.entries
        if entry.is_selected
    ]
    words += [
        f"... on {fragment.type} {{ {_text(fragment)} }}"
        for fragment in part.fragments
        if fragment.has_fields
    ]
    return " ".join(words)


def _value_schema(schema: GraphQLSchema, text: str, part: _Part | None) -> JsonObject:
    nullable = not text.endswith("!")
    text = text.removesuffix("!")
    value: JsonObject
    if text.startswith("["):
        value = {"type": "array", "items": _value_schema(schema, text[1:-1], part)}
    elif part is not None:
        properties = _properties(schema, part)
        value = {"title": part.type, "type": "object", "properties": properties}
    elif schema.types[text].kind == "enum":
        value = {
            "type": "string"
        }  # without its values: a server adds some, and callers can handle them
    elif text in _JSON_TYPES:
        value = {"type": _JSON_TYPES[text]}
    else:
        return {}
    return value | {"type": [value["type"], "null"]} if nullable else value


def _properties(schema: GraphQLSchema, part: _Part) -> JsonObject:
    properties: JsonObject = {
        entry.key: _value_schema(schema, entry.type, entry.part)
        for entry in part.entries
        if entry.is_selected
    }
    for fragment in part.fragments:
        if fragment.has_fields:
            _merge(properties, _properties(schema, fragment))
    return properties


def _merge(properties: JsonObject, others: JsonObject) -> None:
    """Add the properties of another member of a union; equal keys have equal types, but maybe other fields."""
    for key, schema in others.items():
        properties.setdefault(key, schema)
        mine, other = properties[key], schema
        while "items" in mine:
            mine, other = mine["items"], other["items"]
        if mine is not other and "properties" in mine:
            _merge(mine["properties"], other["properties"])


def _with_references(value: JsonObject, shared: dict[str, JsonObject]) -> JsonObject:
    """Return a schema with references to its larger objects, which are added to ``shared``.

    Many mutations have the same answer.  The name of a definition depends on its content only, so that a new tool does
    not change the others.
    """
    value = dict(value)
    if "items" in value:
        value["items"] = _with_references(value["items"], shared)
    if "properties" not in value:
        return value
    properties = value["properties"].items()
    value["properties"] = {key: _with_references(inner, shared) for key, inner in properties}
    plain = value | {"type": "object"}
    content = canonical_json.dumps(plain)
    if len(content) < _MIN_SHARED:
        return value
    name = f"{value['title']}.{hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]}"
    shared[name] = plain
    reference: JsonObject = {REF: f"#/$defs/{name}"}
    is_nullable = value["type"] != "object"
    return {"anyOf": [reference, {"type": "null"}]} if is_nullable else reference


def selectable_types(schema: GraphQLSchema, names: Iterable[str]) -> JsonObject:
    """Return the types that a selection below the types with these names can reach.

    The form is that of :mod:`covalt_git.http_tools.selections`; scalars are left out.
    """

    def following(name: str) -> list[str]:
        described = schema.types[name]
        outputs = [
            output
            for field_name, output in described.fields.items()
            if (name, field_name) not in schema.broken
        ]
        inputs = [arg for output in outputs for arg in output.args.values()]
        inputs += described.inputs.values()
        texts = [output.type for output in outputs] + [arg.type for arg in inputs]
        return [name_of(text) for text in texts]

    types: JsonObject = {}
    for name in sorted(reached(names, following) - set(SCALARS)):
        described = schema.types[name]
        if described.is_composite:
            types[name] = {
                "fields": {
                    key: _short(output)
                    for key, output in described.fields.items()
                    if (name, key) not in schema.broken
                }
            }
        elif described.kind == "enum":
            types[name] = {"values": list(described.values)}
        elif described.kind == "input":
            types[name] = {"inputs": _arguments(described.inputs)}
    return types


def _short(output: OutputField) -> Any:
    return {"type": output.type, "args": _arguments(output.args)} if output.args else output.type


def _arguments(args: dict[str, InputValue]) -> dict[str, str]:
    return {
        name: arg.type + ("=" if arg.default is not NO_DEFAULT else "")
        for name, arg in args.items()
    }
