"""Arguments of a tool, with their schemas and their places in the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.json_values import object_schema
from covalt_git.json_values.keywords import is_number
from covalt_git.json_values.pointer import REF

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.compilers.compilation import ArgumentPlace
    from covalt_git.compilers.openapi.documents import DocumentPart
    from covalt_git.json_values import JsonObject

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class OperationArguments:
    """The arguments of one tool, while its parameters and its body add them."""

    def __init__(self) -> None:
        self.properties: JsonObject = {}
        self.required: list[str] = []
        self.places: dict[str, JsonObject] = {}
        self.described_at: dict[str, ArgumentPlace] = {}
        self.others: Any = False
        self.dependent: dict[str, list[str]] = {}

    def add(
        self,
        name: str,
        schema: Any,
        place: JsonObject | None,
        *,
        is_required: bool = False,
        part: DocumentPart | None = None,
    ) -> None:
        """Add an argument; ``place`` is its entry in ``parameters`` of the request, if it needs one.

        ``part`` is what describes it in the document.
        """
        self.properties[name] = _with_usable_default(schema if isinstance(schema, dict) else {})
        if is_required:
            self.required.append(name)
        if place is not None:
            self.places[name] = place
        if part is not None and part.value is not None:
            self.described_at[name] = lambda: (part.document.path, *part.place)

    def free_name(self, name: str, *endings: str) -> str:
        """Return a name that no argument has: the name itself, or with an ending."""
        candidates = [name, *(f"{name}_{ending}" for ending in endings)]
        candidates += [f"{name}_{number}" for number in range(2, len(self.properties) + 3)]
        return next(candidate for candidate in candidates if candidate not in self.properties)

    def has_any(self, names: Iterable[str]) -> bool:
        """Return whether one of the names is that of an argument."""
        return not self.properties.keys().isdisjoint(names)

    def schema(self) -> JsonObject:
        """Return the schema of the arguments."""
        schema = object_schema(self.properties, self.required)
        if not self.required:
            del schema["required"]
        schema["additionalProperties"] = self.others
        if self.dependent:
            schema["dependentRequired"] = self.dependent
        return schema


def with_an_item(schema: JsonObject) -> JsonObject:
    """Return the schema of a required argument outside of JSON: a list without items is no value there."""
    if schema.get("type") != "array":
        return schema
    return schema | {"minItems": max(schema.get("minItems", 1), 1)}


def _with_usable_default(schema: JsonObject) -> JsonObject:
    """Return a schema without a default that is not one of its values: it would be sent, and be refused."""
    if "default" not in schema or _allows(schema, schema["default"]):
        return schema
    return {key: value for key, value in schema.items() if key != "default"}


def _allows(schema: JsonObject, value: Any) -> bool:
    stated = schema.get("type")
    types = [stated] if isinstance(stated, str) else stated or []
    if "enum" in schema and value not in schema["enum"]:
        return False
    if not types:
        return REF not in schema
    for name in types:
        if name in {"integer", "number"}:
            if is_number(value) and (name == "number" or value == int(value)):
                return True
        elif name in _KINDS and isinstance(value, _KINDS[name]):
            return True
    return False
