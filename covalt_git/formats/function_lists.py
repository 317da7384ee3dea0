"""Writers of function lists for OpenAI, Anthropic and Gemini; these formats cannot be read.

A provider accepts names of certain characters and a subset of JSON Schema.  Sources, as of November 2026:
OpenAI's guide to function calling, Anthropic's page "Define tools", and the reference of Gemini's
``FunctionDeclaration`` and ``Schema``.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.formats.model import Format, Part
from covalt_git.formats.shapes import are_objects
from covalt_git.json_values import pointer
from covalt_git.json_values.keywords import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Imported
    from covalt_git.json_values import JsonObject

MAX_NAME: Final = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 8
_TOP_LEVEL: Final = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})
_GEMINI_KEYS: Final = frozenset(
    {"type", "format", "title", "description", "nullable", "enum", "required", "anyOf"}
    | {"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength", "minimum", "maximum"}
    | {"pattern", "default", "example"}
)  # fmt: skip
_GEMINI_KINDS: Final = {
    "properties": ("object",),
    "required": ("object",),
    "items": ("array",),
    "enum": ("string",),
    "const": ("string",),
    "format": ("string", "number", "integer"),
}
"""The types of schemas in which Gemini accepts a keyword; otherwise it rejects the request."""

_BOUNDS: Final = frozenset({"minimum", "maximum", "anyOf", "oneOf"})
"""Keywords whose place in the output the choices of a number take."""

_BESIDE: Final = frozenset({"title", "description", "default"})
"""Keywords beside a reference that count more than those of its target."""

_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_GEMINI_FORMATS: Final = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_MAX_REFERENCES: Final = 500
"""The most references of a schema that are replaced by their targets."""

_MAX_DEPTH: Final = 16
_MAX_RANGES: Final = 20
"""The most alternatives that a choice of numbers becomes."""


_NO_TYPE: Final = "Gemini needs a type, so the output has the type string"

_NO_ARGUMENTS: Final[JsonObject] = {"type": "object"}


class _Provider(NamedTuple):
    """A provider: its form of a function and of a list, and the subset of a schema that it accepts."""

    name: str
    title: str
    schema: Callable[[Part], JsonObject]
    function: Callable[[str, str, JsonObject], JsonObject]
    every: Callable[[list[JsonObject]], Any] = list


def _chat_function(name: str, description: str, schema: JsonObject) -> JsonObject:
    inner = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": inner}


def _responses_function(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {"type": "function", "name": name, "description": description, "parameters": schema}


def _anthropic_tool(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "description": description, "input_schema": schema}


def _gemini_function(name: str, description: str, schema: JsonObject) -> JsonObject:
    function: JsonObject = {"name": name, "description": description}
    # Gemini rejects parameters without properties.
    return {**function, "parameters": schema} if schema.get("properties") else function


def _gemini_list(functions: list[JsonObject]) -> Any:
    return [{"functionDeclarations": functions}]


def _object_schema(title: str, argument: re.Pattern[str], part: Part) -> JsonObject:
    """Return a schema of type object without keywords that combine schemas at the top.

    A provider would reject a request with a name of an argument that does not match the pattern.
    """
    output: JsonObject = {}
    dropped: set[str] = set()
    for key in part.value:
        inner = part[key]
        if key in _TOP_LEVEL or (key == "type" and inner.value != "object"):
            inner.drop(f"{title} does not support {key} at the top of a schema")
        elif key == "properties" and inner.value and isinstance(inner.value, dict):
            # Left out: the provider would reject the request with all tools for the name of one argument.
            dropped = {name for name in inner.value if not argument.fullmatch(name)}
            inner.drop_keys(f"{title} does not accept this name of an argument", *dropped)
            output[key] = {name: inner.take(name) for name in inner.value if name not in dropped}
        else:
            output[key] = inner.use()
    required = output.get("required")
    if dropped and isinstance(required, list):
        for position, name in enumerate(required):
            if name in dropped:
                part["required"][position].drop("the argument is not in the output")
        output["required"] = [name for name in required if name not in dropped]
    return {"type": "object", "properties": {}, **output}


class _GeminiSchema:
    """A schema with Gemini's subset of keywords, in which references are replaced by their targets."""

    def __init__(self, root: Part) -> None:
        self._root = root
        self._remaining = _MAX_REFERENCES
        self._circular: list[Part] = []

    def subset(self) -> JsonObject:
        """Return the subset of the whole schema."""
        output = self.written(self._root)
        for part in self._circular:  # also if another way to the same part is no circle
            part.drop(f"Gemini does not support the reference {part.value[pointer.REF]!r}")
        return output

    def written(self, part: Part, active: tuple[str, ...] = ()) -> JsonObject:
        """Return the subset of a part; ``active`` are the references on the way to it."""
        if pointer.reference_of(part.value) is not None:
            return self._target(part, active)
        output: JsonObject = {}
        kinds, is_nullable = self._kinds(part.value)
        kind = kinds[0] if len(kinds) == 1 else None
        for key in part.value:
            inner = part[key]
            if key in _DEFINITIONS:
                continue  # what refers to one has it in its place
            ranges = _ranges(part.value, key, kind)
            if ranges:
                inner.use()
                output |= ranges[0] if len(ranges) == 1 else {"anyOf": ranges}
                output |= {"nullable": True} if is_nullable else {}
            elif len(kinds) > 1 and (key in _GEMINI_KINDS or key == "type"):
                _of_several_types(key, inner)
            elif kind not in (None, *_GEMINI_KINDS.get(key, (kind,))):
                inner.drop(f"Gemini does not support {key} of the type {kind}")
            elif key == "properties" and inner.value and isinstance(inner.value, dict):
                output[key] = {name: self._inner(inner[name], active) for name in inner.value}
            elif key == "properties" and inner.value == {}:
                inner.use()  # Gemini rejects an empty object here; without it, the schema means the same
            elif key == "items" and isinstance(inner.value, dict):
                output[key] = self._inner(inner, active)
            elif key in {"anyOf", "oneOf"} and inner.value and isinstance(inner.value, list):
                output["anyOf"] = [self._inner(branch, active) for branch in part.parts(key)]
            elif key == "type" and isinstance(inner.value, list):
                output |= _one_type(inner)
            elif key == "const" and isinstance(inner.value, str) and inner.value:
                output["enum"] = [inner.use()]
            elif key in _GEMINI_KEYS and _is_fitting(key, inner.value):
                output[key] = inner.use()
            elif key in _GEMINI_KEYS or key in _GEMINI_KINDS or key in {"anyOf", "oneOf", "const"}:
                inner.drop(f"Gemini does not support {key} with this value")
            else:
                inner.drop(f"schemas of Gemini have no {key}")
        if "type" in output and "anyOf" in output and not part.value.keys() & {"anyOf", "oneOf"}:
            del output["type"]  # each range of a choice has it
        if "type" not in output and "anyOf" not in output:
            # Gemini rejects a schema without a type; one of the wrong type would refuse all valid values.
            types = [{"type": kind_name} for kind_name in kinds or ("string",)]
            output |= types[0] if len(types) == 1 else {"anyOf": types}
            if not kinds:
                part.drop(_NO_TYPE)
            if is_nullable:
                output["nullable"] = True
        return output

    def _kinds(self, schema: JsonObject, depth: int = 0) -> tuple[list[str], bool]:
        """Return the types of a schema, also those that ``allOf`` or ``not`` leaves, which Gemini does not support."""
        kinds, is_nullable = _kinds(schema)
        if kinds or is_nullable or depth > _MAX_DEPTH:
            return kinds, is_nullable
        reference = pointer.reference_of(schema)
        with suppress(pointer.BadReferenceError):
            target = pointer.target(self._root.value, reference) if reference else None
            if isinstance(target, dict):
                return self._kinds(target, depth + 1)
        # `allOf: [{const: 5}]` became a string, so that every value that the model may send was refused.
        branches = schema.get("allOf")
        for branch in branches if isinstance(branches, list) else ():
            of_branch = self._kinds(branch, depth + 1) if isinstance(branch, dict) else ([], False)
            if of_branch != ([], False):
                return of_branch
        excluded = schema.get("not")
        if isinstance(excluded, dict) and excluded.keys() == {"type"}:
            refused = _kinds(excluded)[0]
            if "string" in refused:
                return [
                    name for name in ("number", "boolean", "object") if name not in refused
                ], False
        return [], False

    def _inner(self, part: Part, active: tuple[str, ...]) -> JsonObject:
        if not isinstance(part.value, dict):
            part.drop("Gemini does not support this schema")
            return {"type": "string"}
        return self.written(part, active)

    def _target(self, part: Part, active: tuple[str, ...]) -> JsonObject:
        reference = pointer.reference_of(part.value) or ""
        try:
            target = pointer.target(self._root.value, reference)
        except pointer.BadReferenceError:
            target = None
        # A schema of a few lines can have references that multiply to gigabytes.
        if reference in active or not self._remaining or not isinstance(target, dict):
            self._circular.append(part)
            kinds, _ = self._kinds(part.value)
            return {"type": kinds[0] if len(kinds) == 1 else "string"}
        self._remaining -= 1
        output = self.written(self._definition(target), (*active, reference))
        for key in part.value:
            if key == pointer.REF:
                part[key].use()
            elif key in _BESIDE:
                output[key] = part[key].use()
            else:
                part[key].drop(f"Gemini does not support {key} beside a reference")
        return output

    def _definition(self, target: JsonObject) -> Part:
        """Return the part that a reference leads to; one without a record if it is no definition of the whole schema."""
        for key in _DEFINITIONS & self._root.value.keys():
            definitions = self._root[key]
            for name in definitions.value if isinstance(definitions.value, dict) else ():
                if definitions.value[name] is target:
                    return definitions[name]
        return Part(target)


def _ranges(schema: JsonObject, key: str, kind: str | None) -> list[JsonObject]:
    """Return the choices of a number as ranges, of which a valid value has one; empty if they are not, or too many.

    Gemini supports choices of texts only.
    """
    if key not in {"enum", "const"} or kind not in {"integer", "number"} or schema.keys() & _BOUNDS:
        return []
    values = schema[key] if key == "enum" else [schema[key]]
    if not isinstance(values, list) or not all(
        is_number(value) or value is None for value in values
    ):
        return []
    ranges: list[JsonObject] = []
    for value in sorted({value for value in values if value is not None}):
        if ranges and kind == "integer" and value == ranges[-1]["maximum"] + 1:
            ranges[-1]["maximum"] = value
        else:
            ranges.append({"type": kind, "minimum": value, "maximum": value})
    return ranges if len(ranges) <= _MAX_RANGES else []


def _kinds(schema: JsonObject) -> tuple[list[str], bool]:
    """Return the types of a schema other than null, and whether null is one of them.

    Without ``type``, they are the types of its only values, or the one to which its keywords apply.
    """
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind], False
    if isinstance(kind, list):
        types = kind
    else:
        values = schema.get("enum")
        values = [schema["const"]] if "const" in schema else values
        types = [_type_of(value) for value in values] if isinstance(values, list) else []
    names = dict.fromkeys(name for name in types if name != "null")
    if {"integer", "number"} <= names.keys():
        del names["integer"]
    if not types:
        names = dict.fromkeys(
            [kinds[0] for key, kinds in _GEMINI_KINDS.items() if key in schema][:1]
        )
    return [*names], "null" in types


def _type_of(value: Any) -> str:
    """Return the JSON type of a value."""
    names = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object"}
    return "null" if value is None else names.get(type(value), "number")


def _of_several_types(key: str, inner: Part) -> None:
    """Record that a keyword is not written, because Gemini permits one type and null."""
    if key == "type":
        inner.use()  # each type is an alternative
    else:
        inner.drop(f"Gemini does not support {key} with several types")


def _one_type(part: Part) -> JsonObject:
    types = [name for name in part.value if name != "null"]
    if len(types) != 1:
        part.drop("Gemini supports one type and null")
        return {}
    part.use()
    return {"type": types[0], **({"nullable": True} if len(types) < len(part.value) else {})}


def _is_fitting(key: str, value: Any) -> bool:
    if key == "enum":
        return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    return key != "format" or value in _GEMINI_FORMATS


_openai_schema = partial(_object_schema, "OpenAI", re.compile(r"(?s).*"))
_anthropic_schema = partial(_object_schema, "Anthropic", re.compile(r"[a-zA-Z0-9_.-]{1,64}"))


def _gemini_schema(part: Part) -> JsonObject:
    return _GeminiSchema(part).subset()


_PROVIDERS: Final = (
    _Provider("openai", "OpenAI", _openai_schema, _chat_function),
    _Provider("openai-responses", "OpenAI", _openai_schema, _responses_function),
    _Provider("anthropic", "Anthropic", _anthropic_schema, _anthropic_tool),
    _Provider("gemini", "Gemini", _gemini_schema, _gemini_function, _gemini_list),
)


def function_name(tool_id: str, toolset_id: str, existing: set[str]) -> str:
    """Return a name that all providers accept, which is not one of the ``existing``."""
    plain = _ILLEGAL.sub("_", tool_id)
    plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"
    if plain not in existing and len(plain) <= MAX_NAME:
        return plain
    # A number would depend on the order of the toolsets, and a program knows its functions by name.
    digest = hashlib.sha256(f"{toolset_id}:{tool_id}".encode()).hexdigest()
    return f"{plain[: MAX_NAME - 1 - _HASH_DIGITS]}_{digest[:_HASH_DIGITS]}"


def _recognize(name: str, document: Document) -> bool:
    """Return whether a document is the function list of a provider, of the present form or without its wrapper."""
    value = document.value
    items = value.get("tools") if isinstance(value, dict) else value
    if not items or not are_objects(items):
        return False
    # Tools of the provider itself, such as a web search, can be among them.
    if name == "gemini":
        return any(
            {"functionDeclarations", "function_declarations"} & item.keys() for item in items
        )
    if name == "anthropic":
        return any({"name", "input_schema"} <= item.keys() for item in items)
    functions = [item for item in items if item.get("type") == "function"]
    has_wrapper = any("function" in item for item in functions)
    return bool(functions) and has_wrapper == (name == "openai")


def _write(provider: _Provider, toolsets: Sequence[Part], _imported: Imported) -> Any:
    functions: list[JsonObject] = []
    names: set[str] = set()
    for manifest in toolsets:
        manifest.take("id")
        reason = "the tools of MCP servers are not in this file; convert their tools/list results"
        manifest.drop_keys(reason, "mcp_servers")
        for tool in manifest.parts("tools"):
            if tool.peek("enabled") is False:
                tool.drop("the tool is disabled")
                continue
            name = function_name(tool.take("id"), manifest.peek("id"), names)
            names.add(name)
            functions.append(_function(provider, tool, name))
    return provider.every(functions)


def _function(provider: _Provider, tool: Part, name: str) -> JsonObject:
    reason = "a list of functions only describes them; your program makes the call"
    tool.drop_keys(reason, "entrypoint", "http")
    schema = tool.get("input_schema") or Part(_NO_ARGUMENTS)
    return provider.function(name, tool.take("description", ""), provider.schema(schema))


FORMATS: Final = tuple(
    Format(
        name=provider.name,
        title=provider.title,
        kind="json",
        file_name=f"{provider.name}.json",
        recognize=partial(_recognize, provider.name),
        write=partial(_write, provider),
        other_source="a list of functions has no requests and no code: convert the toolset, or the MCP server, that has them",
    )
    for provider in _PROVIDERS
)
