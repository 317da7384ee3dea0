"""Writers of function lists for OpenAI, Anthropic and Gemini; these formats cannot be read.

A provider accepts names of certain characters and a subset of JSON Schema.  Sources, as of November 2026:
OpenAI's guide to function calling, Anthropic's page "Define tools", and the reference of Gemini's
``FunctionDeclaration`` and ``Schema``.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.formats.model import Format, Part
from covalt_git.json_values import pointer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from covalt_git.formats.model import Imported
    from covalt_git.json_values import JsonObject

MAX_NAME: Final = 64
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_HASH_DIGITS: Final = 8
_TOP_LEVEL: Final = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})
_GEMINI_KEYS: Final = frozenset(
    {"type", "format", "title", "description", "nullable", "enum", "items", "properties", "required", "anyOf"}
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

_GEMINI_FORMATS: Final = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_MAX_REFERENCES: Final = 500
"""The most references of a schema that are replaced by their targets."""


class _References(NamedTuple):
    """The references of a schema: their document, those on the way to this one, and how many may still be replaced."""

    root: JsonObject
    active: tuple[str, ...]
    remaining: list[None]


class _Provider(NamedTuple):
    """A provider: its form of a function and of a list, and the schemas and argument names that it accepts."""

    name: str
    title: str
    function: Callable[[str, str, JsonObject], JsonObject]
    every: Callable[[list[JsonObject]], Any] = list
    schema: Callable[[_Provider, Part, _References], JsonObject] | None = None
    argument: re.Pattern[str] = re.compile(r"(?s).*")


def _chat_function(name: str, description: str, schema: JsonObject) -> JsonObject:
    inner = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": inner}


def _responses_function(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {"type": "function", "name": name, "description": description, "parameters": schema}


def _anthropic_tool(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "description": description, "input_schema": schema}


def _gemini_function(name: str, description: str, schema: JsonObject) -> JsonObject:
    made: JsonObject = {"name": name, "description": description}
    return {**made, "parameters": schema} if schema.get("properties") else made


def _gemini_list(functions: list[JsonObject]) -> Any:
    return [{"functionDeclarations": functions}]


def _object_schema(provider: _Provider, part: Part, _references: _References) -> JsonObject:
    """Return a schema of type object without keywords that combine schemas at the top."""
    found: JsonObject = {}
    for key in part.value:
        if key in _TOP_LEVEL or (key == "type" and part.peek(key) != "object"):
            part[key].drop(f"{provider.title} does not support {key} at the top of a schema")
        elif key == "properties" and isinstance(part.peek(key), dict):
            names = [name for name in part.peek(key) if _is_legal(provider, part[key][name], name)]
            found[key] = {name: part[key].take(name) for name in names}
            if not part.peek(key):
                part[key].use()
        else:
            found[key] = part.take(key)
    return _with_known_names({"type": "object", "properties": {}, **found}, part)


def _is_legal(provider: _Provider, part: Part, name: str) -> bool:
    """Return whether a provider accepts the name of an argument; if not, it would reject the request."""
    legal = provider.argument.fullmatch(name) is not None
    if not legal:
        part.drop(f"{provider.title} does not accept this name of an argument")
    return legal


def _with_known_names(schema: JsonObject, part: Part) -> JsonObject:
    """Return a schema whose ``required`` has only names of its properties."""
    required = schema.get("required")
    dropped = part.peek("properties", {}).keys() - schema.get("properties", {}).keys()
    if isinstance(required, list) and dropped:
        for position, name in enumerate(required):
            if name in dropped:
                part["required"][position].drop("the argument is not in the output")
        schema["required"] = [name for name in required if name not in dropped]
    return schema


def _gemini_schema(provider: _Provider, part: Part, references: _References) -> JsonObject:
    """Return a schema with Gemini's subset of keywords; references are replaced by their targets."""
    if pointer.reference_of(part.value) is not None:
        return _gemini_target(provider, part, references)
    found: JsonObject = {}
    kind = _kind(part.value)
    for key in part.value:
        inner = part[key]
        if kind not in (None, *_GEMINI_KINDS.get(key, (kind,))):
            inner.drop(f"{provider.title} does not support {key} of the type {kind}")
        elif key == "properties" and isinstance(inner.value, dict) and inner.value:
            named = [(name, inner[name]) for name in inner.value]
            found[key] = {name: _inner(provider, one, references) for name, one in named}
        elif key == "properties" and inner.value == {}:
            inner.use()  # Gemini rejects an empty object here; without it, the schema means the same
        elif key == "items" and isinstance(inner.value, dict):
            found[key] = _inner(provider, inner, references)
        elif key in {"anyOf", "oneOf"} and isinstance(inner.value, list) and inner.value:
            branches = [inner[position] for position in range(len(inner.value))]
            found["anyOf"] = [_inner(provider, one, references) for one in branches]
        elif key == "type" and isinstance(inner.value, list):
            found |= _one_type(inner)
        elif key == "const" and isinstance(inner.value, str):
            found["enum"] = [inner.use()]
        elif key in _GEMINI_KEYS and _is_fitting(key, inner.value):
            found[key] = inner.use()
        else:
            inner.drop(f"{provider.title} does not support {key} with this value")
    if "type" not in found and "anyOf" not in found:
        found["type"] = kind or "string"  # Gemini rejects a schema without a type
    return found


def _kind(schema: JsonObject) -> str | None:
    """Return the type of a schema; without ``type``, the one to which its keywords apply."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        return str(kinds[0]) if len(kinds) == 1 else "string"
    if kind is not None:
        return str(kind)
    return next((kinds[0] for key, kinds in _GEMINI_KINDS.items() if key in schema), None)


def _inner(provider: _Provider, part: Part, references: _References) -> JsonObject:
    if isinstance(part.value, dict):
        if not part.value:
            part.drop(f"{provider.title} needs a type, so the output has the type string")
        return _gemini_schema(provider, part, references)
    part.drop(f"{provider.title} does not support this schema")
    return {"type": "string"}


def _gemini_target(provider: _Provider, part: Part, references: _References) -> JsonObject:
    reference = pointer.reference_of(part.value) or ""
    try:
        target = pointer.target(references.root, reference)
    except pointer.BadReferenceError:
        target = None
    is_circular = reference in references.active or not references.remaining
    if is_circular or not isinstance(target, dict):
        part.drop(f"{provider.title} does not support the reference {reference!r}")
        return {"type": "string"}
    part.use()
    references.remaining.pop()
    inner = references._replace(active=(*references.active, reference))
    return _gemini_schema(provider, Part(target), inner)


def _one_type(part: Part) -> JsonObject:
    types = [one for one in part.value if one != "null"]
    if len(types) != 1:
        part.drop("Gemini supports one type and null")
        return {}
    part.use()
    return {"type": types[0], **({"nullable": True} if len(types) < len(part.value) else {})}


def _is_fitting(key: str, value: Any) -> bool:
    if key == "enum":
        return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    if key == "items":
        return isinstance(value, dict)
    return key != "format" or value in _GEMINI_FORMATS


_PROVIDERS: Final = (
    _Provider("openai", "OpenAI", _chat_function, schema=_object_schema),
    _Provider("openai-responses", "OpenAI", _responses_function, schema=_object_schema),
    _Provider(
        "anthropic",
        "Anthropic",
        _anthropic_tool,
        schema=_object_schema,
        argument=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
    ),
    _Provider("gemini", "Gemini", _gemini_function, _gemini_list, _gemini_schema),
)


def function_name(tool_id: str, toolset_id: str, existing: set[str]) -> str:
    """Return a name that all providers accept, which is not one of the ``existing``."""
    plain = _ILLEGAL.sub("_", tool_id)
    plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"
    if plain not in existing and len(plain) <= MAX_NAME:
        return plain
    digest = hashlib.sha256(f"{toolset_id}:{tool_id}".encode()).hexdigest()
    return f"{plain[: MAX_NAME - 1 - _HASH_DIGITS]}_{digest[:_HASH_DIGITS]}"


def _write(provider: _Provider, toolsets: Sequence[Part], _imported: Imported) -> Any:
    functions: list[JsonObject] = []
    names: set[str] = set()
    for manifest in toolsets:
        manifest.take("id")
        if "mcp_servers" in manifest:
            manifest["mcp_servers"].drop(
                "the tools of MCP servers are not in this file; convert their tools/list results"
            )
        for tool in manifest.parts("tools"):
            if tool.peek("enabled") is False:
                tool.drop("the tool is disabled")
                continue
            name = function_name(tool.take("id"), manifest.peek("id"), names)
            names.add(name)
            functions.append(_function(provider, tool, name))
    return provider.every(functions)


def _function(provider: _Provider, tool: Part, name: str) -> JsonObject:
    for key in ("entrypoint", "http"):
        if key in tool:
            tool[key].drop("a list of functions only describes them; your program makes the call")
    description = tool.take("description", "")
    schema = tool.get("input_schema") or Part({"type": "object"})
    references = _References(schema.value, (), [None] * _MAX_REFERENCES)
    assert provider.schema is not None
    return provider.function(name, description, provider.schema(provider, schema, references))


FORMATS: Final = tuple(
    Format(
        name=one.name,
        title=one.title,
        kind="json",
        file_name=f"{one.name}.json",
        write=partial(_write, one),
    )
    for one in _PROVIDERS
)
