"""JSON Schemas of the arguments of fields, by the rules of input coercion (section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.compilers.graphql.schema import NO_DEFAULT, described, name_of, reached
from covalt_git.json_values import object_schema
from covalt_git.json_values.pointer import REF

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.compilers.graphql.schema import GraphQLSchema, InputValue, NamedType
    from covalt_git.json_values import JsonObject

_TYPES = {
    "Int": ["integer"],
    "Float": ["number"],
    "String": ["string"],
    "Boolean": ["boolean"],
    "ID": ["string", "integer"],
}


def input_schema(schema: GraphQLSchema, args: Mapping[str, InputValue]) -> JsonObject:
    """Return the schema of the arguments of a field; types with names are references to definitions."""
    return _object(schema, args)


def definitions(schema: GraphQLSchema, names: Iterable[str]) -> dict[str, JsonObject]:
    """Return the schemas of types with names, and of all that they refer to."""

    def following(name: str) -> list[str]:
        return [name_of(arg.type) for arg in schema.types[name].inputs.values()]

    return {
        name: _definition(schema, schema.types[name])
        for name in sorted(reached(names, following))
        if name not in _TYPES
    }


def _definition(schema: GraphQLSchema, described_type: NamedType) -> JsonObject:
    definition: JsonObject = {}
    if described_type.description.strip():
        definition["description"] = described_type.description.strip()
    if described_type.kind == "enum":
        texts = {name: text.strip() for name, text in described_type.values.items() if text.strip()}
        definition |= {"type": "string", "enum": list(described_type.values)}
        if texts:
            lines = [f"{name}: {text}" for name, text in texts.items()]
            definition["description"] = "\n".join(
                [definition.get("description", ""), *lines]
            ).strip()
    elif described_type.kind == "input":
        definition |= _object(schema, described_type.inputs, is_one_of=described_type.is_one_of)
    elif described_type.specified_by:
        about = f"Values: {described_type.specified_by}"
        definition["description"] = f"{definition.get('description', '')}\n{about}".strip()
    return definition


def _object(
    schema: GraphQLSchema, args: Mapping[str, InputValue], *, is_one_of: bool = False
) -> JsonObject:
    properties = {name: _property(schema, arg, is_one_of=is_one_of) for name, arg in args.items()}
    value = object_schema(properties, [name for name, arg in args.items() if arg.is_required])
    if not value["required"]:
        del value["required"]
    if is_one_of:  # exactly one of the fields, and not null
        value |= {"minProperties": 1, "maxProperties": 1}
    return value


def _property(schema: GraphQLSchema, arg: InputValue, *, is_one_of: bool) -> JsonObject:
    text = arg.type if arg.type.endswith("!") or not is_one_of else f"{arg.type}!"
    value = _type_schema(text)
    description = described(arg.description, arg.deprecated)
    if description:
        value["description"] = description
    if arg.deprecated is not None:
        value["deprecated"] = True
    if arg.default is not NO_DEFAULT and arg.default is not None:
        value["default"] = _coerced(schema, arg.default, arg.type)
    return value


def _type_schema(text: str) -> JsonObject:
    """Return the schema of a type; a type without ``!`` accepts null too."""
    nullable = not text.endswith("!")
    text = text.removesuffix("!")
    if text.startswith("["):
        types: list[str] = ["array"]
        value: JsonObject = {"items": _type_schema(text[1:-1])}
    elif text in _TYPES:
        types, value = list(_TYPES[text]), {}
    else:
        reference: JsonObject = {REF: f"#/$defs/{text}"}
        return {"anyOf": [reference, {"type": "null"}]} if nullable else reference
    types += ["null"] if nullable else []
    return {"type": types[0] if len(types) == 1 else types, **value}


def _coerced(schema: GraphQLSchema, value: Any, text: str) -> Any:
    """Return a default in the form that the schema describes: a single value of a list is a list."""
    text = text.removesuffix("!")
    if text.startswith("["):
        items = value if isinstance(value, list) else [value]
        return [None if item is None else _coerced(schema, item, text[1:-1]) for item in items]
    if isinstance(value, dict) and text in schema.types:
        inputs = schema.types[text].inputs
        return {
            name: _coerced(schema, item, inputs[name].type) if name in inputs else item
            for name, item in value.items()
        }
    return value
