"""Readable form of the OpenAPI document: operations, objects and their fields, as rows of tables.

``/reference`` of the server and the page of the HTTP API in the documents show them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

_REDIRECTS = 300
_ERROR = 400


class TypePart(NamedTuple):
    """A part of the name of a type; ``schema`` is the object that it means, if it is one."""

    text: str
    schema: str = ""


class FieldText(NamedTuple):
    """A field of an object, or a parameter; ``default`` is JSON, and empty without one."""

    name: str
    type: tuple[TypePart, ...]
    required: bool
    default: str
    description: str


class ContentText(NamedTuple):
    """A body by its media type: the type, and the fields if it is an object."""

    media: str
    type: tuple[TypePart, ...]
    fields: tuple[FieldText, ...]


class OperationText(NamedTuple):
    """An operation as a reader needs it; ``details`` are the paragraphs after the summary."""

    name: str
    area: str
    method: str
    path: str
    summary: str
    details: tuple[str, ...]
    parameters: tuple[FieldText, ...]
    bodies: tuple[ContentText, ...]
    results: tuple[ContentText, ...]
    errors: tuple[str, ...]

    @property
    def slug(self) -> str:
        """The name as a part of a URL; a route of the tool registry has no name of one word."""
        return re.sub(r"\W+", "-", self.name).strip("-")


class ObjectText(NamedTuple):
    """A schema of the document: an object with fields, or another type without any."""

    name: str
    description: str
    type: tuple[TypePart, ...]
    fields: tuple[FieldText, ...]


def operations(document: JsonObject) -> list[OperationText]:
    """Return all operations in the order of the document."""
    return [
        _operation(document, method.upper(), path, entry)
        for path, methods in document["paths"].items()
        for method, entry in methods.items()
        if isinstance(entry, dict) and "responses" in entry
    ]


def objects(document: JsonObject, parts: list[TypePart]) -> list[ObjectText]:
    """Return the objects that parts of types mean, and those of their fields, by name."""
    schemas = document["components"]["schemas"]
    texts: dict[str, ObjectText] = {}
    names = [part.schema for part in parts if part.schema]
    while names:
        name = names.pop()
        if name in texts:
            continue
        schema = schemas[name]
        texts[name] = ObjectText(
            name, schema.get("description", ""), type_parts(schema), fields(schema)
        )
        names += [part.schema for part in parts_of(texts[name]) if part.schema]
    return [texts[name] for name in sorted(texts)]


def parts_of(text: OperationText | ObjectText) -> list[TypePart]:
    """Return the parts of the types of all fields of an operation or an object."""
    if isinstance(text, ObjectText):
        return [*text.type, *(part for field in text.fields for part in field.type)]
    contents = (*text.bodies, *text.results)
    rows = [*text.parameters, *(row for content in contents for row in content.fields)]
    bare = [part for content in contents if not content.fields for part in content.type]
    return [*bare, *(part for field in rows for part in field.type)]


def fields(schema: JsonObject) -> tuple[FieldText, ...]:
    """Return the fields of the schema of an object, those of its choices included."""
    required = schema.get("required", ())
    return tuple(
        FieldText(
            name,
            type_parts(field),
            name in required,
            "" if field.get("default") is None else json.dumps(field["default"]),
            field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    )


def type_parts(schema: Any) -> tuple[TypePart, ...]:
    """Return the type of a schema for readers, such as ``array of ToolText, or null``."""
    return tuple(_type(schema))


def _type(schema: Any) -> Iterator[TypePart]:
    name = pointer.name_of(schema)
    if name:
        yield TypePart(name, name)
        return
    match schema:
        case {"anyOf": [*choices]} | {"oneOf": [*choices]}:
            for number, choice in enumerate(choices):
                yield from () if number == 0 else (TypePart(" or "),)
                yield from _type(choice)
        case {"const": value}:
            yield TypePart(json.dumps(value))
        case {"enum": [*values]}:
            yield TypePart(" or ".join(json.dumps(value) for value in values))
        case {"type": "array", "items": items} if items not in ({}, True):
            yield TypePart("array of ")
            yield from _type(items)
        case {"type": "object", "patternProperties": patterns}:
            yield TypePart("object of ")
            yield from _type(next(iter(patterns.values())))
        case {"type": "object", "additionalProperties": values} if values not in ({}, True, False):
            yield TypePart("object of ")
            yield from _type(values)
        case {"allOf": [choice]}:
            yield from _type(choice)
        case {"type": [*names]}:
            yield TypePart(" or ".join(names))
        case {"type": "string", "format": "binary"}:
            yield TypePart("bytes")
        case {"type": str(name), "format": str(form)}:
            yield TypePart(f"{name} ({form})")
        case {"type": str(name)}:
            yield TypePart(name)
        case _:
            yield TypePart("any JSON")


def _operation(document: JsonObject, method: str, path: str, entry: JsonObject) -> OperationText:
    description: str = {"description": entry["summary"], **entry}["description"]
    summary, *details = description.split("\n\n")
    answers: JsonObject = entry["responses"]
    results: JsonObject = next(
        (answer for status, answer in answers.items() if int(status) < _REDIRECTS), {}
    )
    return OperationText(
        name=entry.get("operationId", f"{method} {path}"),
        area=entry["tags"][0],
        method=method,
        path=path,
        summary=" ".join(summary.split()),
        details=tuple(" ".join(paragraph.split()) for paragraph in details),
        parameters=tuple(
            FieldText(
                parameter["name"],
                type_parts(parameter["schema"]),
                parameter.get("required", False),
                fields({"properties": {"": parameter["schema"]}})[0].default,
                parameter.get("description", ""),
            )
            for parameter in entry.get("parameters", ())
        ),
        bodies=_contents(document, entry.get("requestBody", {})),
        results=_contents(document, results),
        errors=tuple(
            f"{status} {answer['description']}"
            for status, answer in answers.items()
            if int(status) >= _ERROR
        ),
    )


def _contents(document: JsonObject, answer: JsonObject) -> tuple[ContentText, ...]:
    contents = []
    for media, content in answer.get("content", {}).items():
        schema = content.get("schema", {})
        target = pointer.resolve(document, schema)
        contents.append(ContentText(media, type_parts(schema), fields(target)))
    return tuple(contents)
