"""Schemas of OpenAPI documents as JSON Schema 2020-12.

References become ``#/$defs/NAME``, and each definition is converted once for all tools.  A definition with
properties that only requests or only answers have gets two forms.  Keywords with values that no validator would
accept are left out and reported, because a single one would make the tool unusable.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from covalt_git.json_values import json_schema, keywords, pointer
from covalt_git.json_values.canonical_json import MAX_EXACT_INTEGER
from covalt_git.json_values.pointer import REF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.compilers.openapi.documents import DocumentPart, Documents
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

Direction = Literal["request", "response"]

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_ANNOTATIONS = ("title", "description", "format", "contentMediaType", "contentEncoding")
_SINGLE = (
    *("additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_LISTS = ("allOf", "anyOf", "oneOf")
_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
_BOUNDS = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_LIMITS = frozenset(
    {
        *_COUNTS,
        *_BOUNDS,
        *_BOUNDS.values(),
        *("multipleOf", "uniqueItems", "pattern", "required", "dependentRequired"),
    }
)
_NEVER_IN: dict[Direction, str] = {"request": "readOnly", "response": "writeOnly"}
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_HASH_DIGITS: Final = 6


class ObjectParts(NamedTuple):
    """The properties of a schema that describes nothing but an object.

    ``others`` is the schema of other keys, or None if the document does not describe any.
    """

    properties: dict[str, DocumentPart]
    required: tuple[str, ...]
    others: DocumentPart | None


class Schemas:
    """Converter of the schemas of a description; ``definitions`` are those to which converted schemas refer."""

    def __init__(self, documents: Documents, version: str) -> None:
        self.definitions: dict[str, JsonObject] = {}
        self._documents = documents
        self._faults = documents.faults
        self.is_legacy = version in {"2.0", "3.0"}
        self._names: dict[tuple[tuple[str, Loc], str], str] = {}
        self._waiting: list[tuple[str, DocumentPart, Direction]] = []
        self._patterns: dict[str, bool] = {}
        self._marks = _Marks(documents)

    def convert(self, node: DocumentPart, direction: Direction) -> Any:
        """Return the schema of a part of the document, and convert the definitions that it reaches."""
        schema = self._schema(node, direction)
        # A queue, not recursion: a description can have any number of schemas that refer to each other.
        while self._waiting:
            name, target, inner = self._waiting.pop()
            converted = self._schema(target, inner)
            self.definitions[name] = _as_object(converted)
        return schema

    def object_parts(self, node: DocumentPart) -> ObjectParts | None:
        """Return the properties of a schema for requests; None if it says more than that about a value."""
        parts = list(self._plain_parts(node, set()))
        if not parts or any(part is None for part in parts):
            return None
        objects = [part for part in parts if part is not None]
        properties: dict[str, DocumentPart] = {}
        for part in objects:
            for name, inner in part.at("properties").all_entries():
                other = properties.setdefault(name, inner)
                if other.identity != inner.identity:
                    return None
        others = [part.at("additionalProperties") for part in objects]
        stated = [inner for inner in others if inner.value not in (None, {})]
        if len(objects) > 1 and any(inner.value is not True for inner in stated):
            return None
        required = dict.fromkeys(
            name for part in objects for name in _names_in(part.value.get("required"))
        )
        hidden = {name for name, inner in properties.items() if self._is_marked(inner, "readOnly")}
        unnamed = [name for name in required if name not in properties]
        if not properties or unnamed:
            return None
        return ObjectParts(
            {name: inner for name, inner in properties.items() if name not in hidden},
            tuple(name for name in required if name not in hidden),
            next((inner for inner in others if inner.value not in (None, False)), None),
        )

    def is_binary(self, node: DocumentPart) -> bool:
        """Return whether a schema is that of the content of a file."""
        value = self._documents.follow(node).value
        if not isinstance(value, dict):
            return False
        if value.get("type") == "file":
            return True
        if value.get("type") not in ("string", ["string"], None):
            return False
        if value.get("format") == "binary":
            return True
        media = value.get("contentMediaType")
        return isinstance(media, str) and "contentEncoding" not in value and media not in _TEXTUAL

    def kind(self, node: DocumentPart) -> str:
        """Return the type of a schema's values if it has only one besides null: ``array``; empty otherwise."""
        value = self._documents.follow(node).value
        if not isinstance(value, dict):
            return ""
        types = value.get("type")
        names = [types] if isinstance(types, str) else types if isinstance(types, list) else []
        names = [name for name in names if name != "null"]
        if len(names) == 1:
            return str(names[0])
        if not names and ("properties" in value or "allOf" in value):
            return "object" if self.object_parts(node) is not None else ""
        return "array" if not names and "items" in value else ""

    def _plain_parts(
        self, node: DocumentPart, reached: set[tuple[str, Loc]]
    ) -> Iterator[DocumentPart | None]:
        """Yield the objects of which a schema consists; None for a part that is more than an object."""
        if node.reference is not None and not self.is_legacy and len(node.value) > 1:
            yield from self._plain_parts(_without(node, REF), reached)
        target = self._documents.follow(node)
        value = target.value
        if not isinstance(value, dict) or target.identity in reached:
            yield None
            return
        reached.add(target.identity)
        says_more = [key for key in value if key not in _PLAIN_OBJECT and not key.startswith("x-")]
        if (
            says_more
            or value.get("type", "object") not in ("object", ["object"])
            or value.get("nullable") is True
        ):
            yield None
        else:
            if "properties" in value or "required" in value or "additionalProperties" in value:
                yield target
            for inner in target.at("allOf").elements():
                yield from self._plain_parts(inner, reached)

    def _schema(self, node: DocumentPart, direction: Direction) -> Any:
        value = node.value
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            self._faults.add(node, "this is not a schema")
            return {}
        schema: JsonObject = {}
        reference = node.reference or (node.text("$dynamicRef") if not self.is_legacy else "")
        if reference:
            target = self._documents.resolve(node, reference)
            if target is not None:
                schema[REF] = self._reference_to(target, direction)
        if reference and self.is_legacy:
            # Siblings of $ref are ignored before 3.1; texts for people do no harm.
            for key in ("title", "description"):
                if node.text(key):
                    schema[key] = node.text(key)
            return schema
        self._add_annotations(node, schema)
        self._add_types(node, schema)
        self._add_limits(node, schema)
        self._add_parts(node, schema, direction)
        return _with_discriminator(self, node, schema) if "discriminator" in value else schema

    def _reference_to(self, target: DocumentPart, direction: Direction) -> str:
        """Return the reference to the definition of a part, which is converted later."""
        never = _NEVER_IN[direction]
        suffix = f".{direction}" if self._marks.has(target, never) else ""
        key = (target.identity, suffix)
        if key not in self._names:
            name = self._definition_name(target) + suffix
            self._names[key] = name
            self._waiting.append((name, target, direction))
        return str(pointer.reference_to("$defs", self._names[key])[REF])

    def _definition_name(self, target: DocumentPart) -> str:
        """Return the name of a definition, which no other part of the description changes."""
        path, loc = target.identity
        last = str(loc[-1]) if loc else "document"
        is_component = loc[:-1] in (("components", "schemas"), ("definitions",))
        if is_component and path == self._documents.main.path and _NAME.fullmatch(last):
            return last
        ending = hashlib.sha256(json.dumps([path, *loc]).encode()).hexdigest()[:_HASH_DIGITS]
        return f"{'_'.join(_NAME.findall(last)) or 'schema'}-{ending}"

    def _add_annotations(self, node: DocumentPart, schema: JsonObject) -> None:
        value = node.value
        for key in _ANNOTATIONS:
            if isinstance(value.get(key), str):
                schema[key] = value[key]
        for key in ("deprecated", "readOnly", "writeOnly"):
            if value.get(key) is True:
                schema[key] = True
        examples = value.get("examples")
        if "example" in value:
            examples = [value["example"]]
        if isinstance(examples, list) and examples and _is_exact(examples):
            schema["examples"] = examples
        if "default" in value and _is_exact(value["default"]):
            schema["default"] = value["default"]

    def _add_types(self, node: DocumentPart, schema: JsonObject) -> None:
        value = node.value
        stated = value.get("type")
        names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
        if names == ["file"]:
            names = ["string"]
        unknown = [name for name in names if name not in _TYPES]
        if unknown or (stated is not None and not names):
            self._faults.add(node.at("type"), f"{str(stated)[:80]!r} is not a type")
            names = []
        types = list(dict.fromkeys(names))
        if types and value.get("nullable") is True and "null" not in types:
            types.append("null")
        if types:
            schema["type"] = types[0] if len(types) == 1 else types
        for key in ("enum", "const"):
            # Approximate numbers would refuse the exact ones.
            if key in value and _is_exact(value[key]):
                if key == "const" or isinstance(value[key], list):
                    schema[key] = value[key]
                else:
                    self._faults.add(node.at(key), "'enum' is not a list")

    def _add_limits(self, node: DocumentPart, schema: JsonObject) -> None:
        value = node.value
        if value.keys().isdisjoint(
            _LIMITS
        ):  # most schemas have none, which is much faster to find so
            return
        for key in _COUNTS:
            count = value.get(key)
            if keywords.is_number(count) and count >= 0 and int(count) == count:
                schema[key] = min(int(count), MAX_EXACT_INTEGER)
            elif count is not None:
                self._faults.add(node.at(key), f"{key!r} is not a number of at least 0")
        for key, exclusive in _BOUNDS.items():
            is_low = key == "minimum"
            limit, strict = value.get(key), value.get(exclusive)
            if strict is True and keywords.is_number(limit):
                schema[exclusive] = _rounded(limit, is_low=is_low)
                continue
            for name, number in ((key, limit), (exclusive, strict)):
                if keywords.is_number(number):
                    schema[name] = _rounded(number, is_low=is_low)
                elif number is not None and not isinstance(number, bool):
                    self._faults.add(node.at(name), f"{name!r} is not a number")
        multiple = value.get("multipleOf")
        if keywords.is_number(multiple) and 0 < multiple <= MAX_EXACT_INTEGER:
            schema["multipleOf"] = multiple
        if isinstance(value.get("uniqueItems"), bool):
            schema["uniqueItems"] = value["uniqueItems"]
        if "pattern" in value and self._is_pattern(node.at("pattern")):
            schema["pattern"] = value["pattern"]
        required = _names_in(value.get("required"))
        if required:
            schema["required"] = required
        dependent = value.get("dependentRequired")
        if isinstance(dependent, dict):
            schema["dependentRequired"] = {
                name: _names_in(names) for name, names in dependent.items()
            }

    def _add_parts(self, node: DocumentPart, schema: JsonObject, direction: Direction) -> None:
        value = node.value
        for key in _SINGLE:
            if value.get(key) is not None:
                schema[key] = self._schema(node.at(key), direction)
        items = value.get("items")
        if isinstance(items, list):
            schema["prefixItems"] = [
                self._schema(inner, direction) for inner in node.at("items").elements()
            ]
        elif items is not None:
            schema["items"] = self._schema(node.at("items"), direction)
        for key in (*_LISTS, "prefixItems"):
            if key not in value:
                continue
            inners = list(node.at(key).elements())
            if inners:
                schema[key] = [self._schema(inner, direction) for inner in inners]
            elif value.get(key):
                self._faults.add(node.at(key), f"{key!r} is not a list of schemas")
        for key in _BY_NAME:
            if key in value:
                self._add_named(node.at(key), key, schema, direction)
        hidden = self._hidden(node, direction)
        if hidden and "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in hidden]
            if not schema["required"]:
                del schema["required"]

    def _add_named(
        self, node: DocumentPart, key: str, schema: JsonObject, direction: Direction
    ) -> None:
        if node.value is None:
            return
        if not isinstance(node.value, dict):
            self._faults.add(node, f"{key!r} is not an object")
            return
        never = _NEVER_IN[direction]
        schema[key] = {
            name: self._schema(inner, direction)
            for name, inner in node.all_entries()
            if not (key == "properties" and self._is_marked(inner, never))
            and not (key == "patternProperties" and not self._is_pattern_text(inner, name))
        }

    def _hidden(self, node: DocumentPart, direction: Direction) -> set[str]:
        """Return the properties that values of this direction do not have, also those of ``allOf``."""
        never = _NEVER_IN[direction]
        if not node.value.get("required"):
            return set()
        hidden, reached, waiting = set[str](), set[Any](), [node]
        while waiting:
            part = self._documents.follow(waiting.pop())
            if not isinstance(part.value, dict) or part.identity in reached:
                continue
            reached.add(part.identity)
            hidden |= {
                name
                for name, inner in part.at("properties").all_entries()
                if self._is_marked(inner, never)
            }
            waiting += part.at("allOf").elements()
        return hidden

    def _is_marked(self, node: DocumentPart, mark: str) -> bool:
        if node.flag(mark):
            return True
        return node.reference is not None and self._documents.follow(node).flag(mark)

    def _is_pattern(self, node: DocumentPart) -> bool:
        return self._is_pattern_text(node, node.value)

    def _is_pattern_text(self, node: DocumentPart, pattern: Any) -> bool:
        """Return whether the validator knows a pattern; it has no lookaround, which takes exponential time."""
        if not isinstance(pattern, str):
            self._faults.add(node, "the pattern is not a text")
            return False
        if pattern not in self._patterns:
            self._patterns[pattern] = not json_schema.schema_problems({"pattern": pattern})
        if not self._patterns[pattern]:
            self._faults.add(
                node,
                f"the pattern {pattern[:80]!r} is not checked: it is invalid, or has lookaround or backreferences",
            )
        return self._patterns[pattern]


class _Marks:
    """Which parts reach a property that is ``readOnly`` or ``writeOnly``, directly or by references."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._of: dict[Any, tuple[set[str], list[DocumentPart]]] = {}
        self._reaching: dict[str, set[Any]] | None = None
        self._others: dict[tuple[Any, str], bool] = {}

    def has(self, target: DocumentPart, mark: str) -> bool:
        """Return whether a part reaches a property with a mark."""
        if self._reaching is None:
            self._reaching = {name: self._marked(name) for name in ("readOnly", "writeOnly")}
        if target.identity in self._of:
            return target.identity in self._reaching[mark]
        key = (target.identity, mark)
        if key not in self._others:
            self._others[key] = self._reaches(target, mark)
        return self._others[key]

    def _marked(self, mark: str) -> set[Any]:
        """Return the components that reach a mark, in time linear in the document."""
        users: dict[Any, list[Any]] = {}
        root = self._documents.root
        waiting = [
            inner
            for components in (root.at("components", "schemas"), root.at("definitions"))
            for _, inner in components.all_entries()
        ]
        marked = []
        scanned = set[Any]()
        while waiting:
            node = waiting.pop()
            if node.identity in scanned:
                continue
            scanned.add(node.identity)
            marks, targets = self._scanned(node)
            if mark in marks:
                marked.append(node.identity)
            for target in targets:
                users.setdefault(target.identity, []).append(node.identity)
                waiting.append(target)
        reaching = set[Any]()
        while marked:
            identity = marked.pop()
            if identity not in reaching:
                reaching.add(identity)
                marked += users.get(identity, ())
        return reaching

    def _reaches(self, target: DocumentPart, mark: str) -> bool:
        waiting, reached = [target], set[Any]()
        assert self._reaching is not None
        while waiting:
            node = waiting.pop()
            if node.identity in reached:
                continue
            reached.add(node.identity)
            if node.identity in self._reaching[mark]:
                return True
            marks, targets = self._scanned(node)
            if mark in marks:
                return True
            waiting += targets
        return False

    def _scanned(self, node: DocumentPart) -> tuple[set[str], list[DocumentPart]]:
        if node.identity not in self._of:
            marks, waiting = set[str](), [node]
            targets: list[DocumentPart] = []
            while waiting:
                part = waiting.pop()
                marks |= {name for name in ("readOnly", "writeOnly") if part.flag(name)}
                if part.reference is not None:
                    target = self._documents.resolve(part, part.reference)
                    targets += [target] if target is not None else []
                waiting += part.children()
            self._of[node.identity] = marks, targets
        return self._of[node.identity]


_TEXTUAL = frozenset({"application/json", "text/plain", "text/html", "application/xml", "text/xml"})
_PLAIN_OBJECT = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "allOf", "nullable"),
        *("title", "description", "example", "examples", "default", "xml", "externalDocs"),
        *("deprecated", "readOnly", "writeOnly", "discriminator"),
        *("$id", "$schema", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$comment"),
    }
)
"""Keywords of a schema whose properties can become arguments."""


def _with_discriminator(schemas: Schemas, node: DocumentPart, schema: JsonObject) -> JsonObject:
    """Return a schema whose alternatives have the value of the discriminator that selects each."""
    name = node.text("discriminator") or node.at("discriminator").text("propertyName")
    mapping = node.at("discriminator", "mapping")
    keys: dict[Any, list[str]] = {}
    for key, inner in mapping.all_entries():
        target = _mapped(schemas, node, inner.value)
        if target is not None:
            keys.setdefault(target.identity, []).append(key)
    for kind in ("oneOf", "anyOf"):
        branches = schema.get(kind)
        if not name or not isinstance(branches, list):
            continue
        schema[kind] = [
            _tagged(schemas, part, branch, name, keys)
            for part, branch in zip(node.at(kind).elements(), branches, strict=True)
        ]
    return schema


def _tagged(
    schemas: Schemas, part: DocumentPart, branch: Any, name: str, keys: dict[Any, list[str]]
) -> Any:
    reference = part.reference
    if reference is None or not isinstance(branch, dict) or "properties" in branch:
        return branch  # an alternative without a name has no value that selects it
    target = schemas._documents.resolve(part, reference)  # noqa: SLF001 - a part of the converter
    if target is None:
        return branch
    implied = str(target.loc[-1]) if target.loc else ""
    values = list(dict.fromkeys([*keys.get(target.identity, ()), implied]))
    return branch | {"properties": {name: {"enum": values}}, "required": [name]}


def _mapped(schemas: Schemas, node: DocumentPart, value: Any) -> DocumentPart | None:
    """Return the schema that a mapping names, by a reference or by its name."""
    if not isinstance(value, str):
        return None
    documents = schemas._documents  # noqa: SLF001 - a part of the converter
    if _NAME.fullmatch(value):
        named = documents.root.at("components", "schemas", value)
        if named.value is not None:
            return named
    return documents.resolve(node, value)


def _without(node: DocumentPart, key: str) -> DocumentPart:
    return node._replace(value={name: inner for name, inner in node.value.items() if name != key})


def _as_object(schema: Any) -> JsonObject:
    if isinstance(schema, dict):
        return schema
    return {} if schema else {"not": {}}


def _names_in(value: Any) -> list[str]:
    """Return the texts of a list, each once; nothing for other values, such as the ``true`` of old documents."""
    if not isinstance(value, list):
        return []
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _is_exact(value: Any) -> bool:
    """Return whether JSON parsers agree on all numbers in a value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, int) and abs(part) > MAX_EXACT_INTEGER:
            return False
    return True


def _rounded(number: float, *, is_low: bool) -> int | float:
    """Return a limit that every parser reads exactly, and that allows at least the same values."""
    if not isinstance(number, int) or abs(number) <= MAX_EXACT_INTEGER:
        return number
    try:
        double = float(number)
    except OverflowError:
        return -1.7e308 if number < 0 else 1.7e308
    if (double > number) == is_low and double != number:
        double = math.nextafter(double, -math.inf if is_low else math.inf)
    return double
