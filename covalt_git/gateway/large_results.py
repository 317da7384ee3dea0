"""Large results for MCP clients, which are sent in part, and completely in pages of a resource.

A result of up to 16 KiB is sent as text and as structured content.  The text of a larger one is its beginning.
Above ``limits.result_kb``, the structured content only has the URI of the resource and the shape of the result.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types

from covalt_git.errors import CovaltError
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import embedded, json_path

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

TEXT_BYTES = 16 << 10
"""Largest result that is sent completely as text in addition to structured content."""

_MOST_KEYS = 20
_MOST_KEY = 40
_DEEPEST = 3
_MOST_PROBLEMS = 5

TRUNCATED: JsonObject = {
    "type": "object",
    "properties": {
        "truncated": {"const": True},
        "resource": {"type": "string"},
        "shape": {"type": "string"},
    },
    "required": ["truncated", "resource", "shape"],
}
"""Schema of the structured content in place of a result that is too large."""

MISMATCHED: JsonObject = {
    "type": "object",
    "properties": {"mismatch": {"type": "string"}, "value": {}},
    "required": ["mismatch", "value"],
}
"""Schema of the structured content in place of a result that does not match the tool's output schema."""


RESULT = "result"
"""Key of the structured content of a result that is no object."""

_DEFS = "$defs"
_WRAPS = "x-fastmcp-wrap-result"
"""Key of an output schema with which clients of FastMCP unwrap the result."""


class NoSuchPageError(CovaltError):
    """A page of a result that has fewer pages, or that is not text."""

    code = "unknown_page"
    http_status = 404


class Delivery(NamedTuple):
    """What a client can receive, which decides how much of a result it gets at once.

    Attributes:
        structured: whether its protocol version has structured content, as since 2025-06-18.
        modern: whether structured content can be any JSON value, as since 2026-07-28.
        most_bytes: the size in bytes up to which a result is sent completely.
        apps: whether it is a host of MCP Apps.
        schema: the output schema of the called tool, if it was listed with one.
        wraps: whether structured content is ``{"result": VALUE}``, as :func:`is_wrapped`.
        names_chat: whether it names its chat in an argument, because it has no session.
    """

    structured: bool
    modern: bool
    most_bytes: int = TEXT_BYTES
    apps: bool = False
    schema: JsonObject | None = None
    wraps: bool = False
    names_chat: bool = False

    def has_structured(self, value: Any) -> bool:
        """Return whether the client gets a value as structured content."""
        return self.structured and (self.modern or self.wraps or isinstance(value, dict))

    def matching(self, value: Any) -> Any:
        """Return a result as structured content that matches the listed output schema.

        Clients replace a result that does not match by an error, although the tool ran.  Results can differ from the
        schema: those of MCP servers, which are stored as they are, and those in which a secret was masked.
        """
        # See test_structured_content_always_matches_the_listed_output_schema.
        if self.schema is None or not (problems := _mismatch(self.schema, value)):
            return self._wrapped(value)
        if isinstance(value, dict) and value.keys() == {"structured_content", "content"}:
            inner = value["structured_content"]
            if not _mismatch(self.schema, inner):
                return self._wrapped(inner)  # the other content blocks are content here too
        return {"mismatch": problems, "value": value}

    def _wrapped(self, value: Any) -> Any:
        return {RESULT: value} if self.wraps else value


def truncate(
    value: Any, text: str, resource: str | None, delivery: Delivery
) -> tuple[list[types.ContentBlock], Any]:
    """Return the content and the structured content that a client gets at once, with a link to the whole.

    ``text`` is the result as text.  Without a ``resource`` that has the whole, nothing is left out, but it is
    sent once only.
    """
    size, structured = len(text.encode()), delivery.has_structured(value)
    # If the result is a text, many hosts give the model the text content only, and not the structured content.
    is_text = not structured or (delivery.wraps and isinstance(value, str))
    most = delivery.most_bytes if is_text else TEXT_BYTES
    if size <= most or (resource is None and not structured):
        return [types.TextContent(text=text)], value
    beginning, _ = page_of(text, 1, most)
    note = f"the result has {size:,} bytes; this is the beginning. Its shape: {shape(value)}"
    content: list[types.ContentBlock] = [types.TextContent(text=beginning)]
    if resource is None:
        note += "\nthe structured content is complete"
        return [*content, types.TextContent(text=note)], value
    _, pages = page_of(text, 1, delivery.most_bytes)
    note += (
        f"\nread it with read_result {json.dumps({'resource': resource})}, which has {pages} pages"
    )
    about = f"the complete result, in {pages} pages"
    link = types.ResourceLink(uri=resource, name="result", description=about, size=size)
    content += [types.TextContent(text=note), link]
    return content, truncated(value, size, resource, delivery) if structured else value


def truncated(value: Any, size: int, resource: str, delivery: Delivery) -> Any:
    """Return the structured content of a result of ``size`` bytes: its shape and its resource if it is too large."""
    if size <= delivery.most_bytes:
        return value
    return {"truncated": True, "resource": resource, "shape": shape(value)}


def as_text(value: Any) -> str:
    """Return a result as text: a string unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def page_of(text: str, number: int, size: int) -> tuple[str, int]:
    """Return page ``number`` of a text, from 1, and the number of pages of about ``size`` bytes; no character is split.

    Raises:
        NoSuchPageError: if the text has fewer pages.
    """
    content = text.encode()
    pages = max(1, -(-len(content) // size))
    if number > pages:
        raise NoSuchPageError(f"page {number} does not exist", hint=f"there are {pages} pages")
    begin, end = (_character_start(content, at * size) for at in (number - 1, number))
    return content[begin:end].decode(), pages


def _character_start(content: bytes, at: int) -> int:
    while 0 < at < len(content) and content[at] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
        at -= 1
    return at


def shape(value: Any, depth: int = 0) -> str:
    """Return the structure of a JSON value, such as ``{rows: [5000 x {name: string}], total: number}``."""
    if isinstance(value, list):
        inner = f" x {shape(value[0], depth + 1)}" if value and depth < _DEEPEST else ""
        return f"[{len(value)}{inner}]"
    if isinstance(value, dict):
        if depth >= _DEEPEST:
            return f"{{{len(value)} keys}}"
        keys = [*value][:_MOST_KEYS]
        parts = [f"{key[:_MOST_KEY]}: {shape(value[key], depth + 1)}" for key in keys]
        rest = len(value) - len(keys)
        return f"{{{', '.join([*parts, *([f'{rest} more'] if rest else [])])}}}"
    names = {str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _mismatch(schema: JsonObject, value: Any) -> str:
    """Return how a value differs from a schema; an empty text if it matches."""
    problems = json_schema.value_problems(schema, value)
    return "; ".join(
        f"{json_path(place)}: {problem}" for place, problem in problems[:_MOST_PROBLEMS]
    )


def is_wrapped(schema: JsonObject | None) -> bool:
    """Return whether results with an output schema are wrapped in an object, ``{"result": 3}``.

    Before 2026-07-28, structured content must be an object.  FastMCP and the SDK wrap other values in the same way.
    """
    return schema is not None and schema.get("type") != "object"


def output_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of a tool's structured content: of its result, :data:`TRUNCATED` or :data:`MISMATCHED`."""
    if not is_wrapped(schema):
        first = embedded(schema, "anyOf", "0")
        # A client checks each result against the listed schema, so it also has to allow what is sent in place
        # of a result.
        return {"type": "object", "anyOf": [first, TRUNCATED, MISMATCHED]}
    # Where the clients of FastMCP read them: in `properties` and `$defs` of the root.
    rest = {key: value for key, value in schema.items() if key != _DEFS or "$id" in schema}
    place = ("properties", RESULT)
    listed: JsonObject = {
        "type": "object",
        "properties": {RESULT: embedded(rest, *place, stays=f"#/{_DEFS}/")},
        "anyOf": [{"required": [RESULT]}, TRUNCATED, MISMATCHED],
        _WRAPS: True,
    }
    if _DEFS in schema and _DEFS not in rest:
        listed[_DEFS] = embedded(schema[_DEFS], *place, stays=f"#/{_DEFS}/")
    return listed
