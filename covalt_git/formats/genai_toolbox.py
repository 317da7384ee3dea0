"""The format ``tools.yaml`` of genai-toolbox, of which tools of the type ``http`` are read.

Newer files have a document for each source and tool, as ``kind: tools``, ``name`` and ``type``; older ones have
objects by name, as ``sources`` and ``tools``.  Tools of other types run statements in a database, which covalt-git
does not do: they are reported.  Source: the project's documentation of November 2026.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.formats.http_texts import escaped, is_url, with_arguments
from covalt_git.formats.model import Imported, Part, changed
from covalt_git.formats.shapes import Schema, are_objects, schema_of
from covalt_git.names import local_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_PLACES: Final = {
    "pathParams": "path",
    "queryParams": "query",
    "headerParams": "header",
    "bodyParams": "body",
}
_TYPES: Final = {"float": "number", "map": "object"}
_HINTS: Final = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_LIMITS: Final = {"minValue": "minimum", "maxValue": "maximum"}
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_TEMPLATE = re.compile(r"\{\{-?\s*(?P<function>json\s+)?\.(?P<name>[\w-]+)\s*-?\}\}")
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):(?!-)([^}]*)\}")
_PLAIN_VALUE = re.compile(r"[\w @:/,-]*")
_MARK: Final = "\ue000"

_TYPE_SHAPE: Final = {"type": str, "valueType": str}
_PARAMETER_SHAPE: Final = {
    "name!": str,
    "description": str,
    "required": bool,
    **_TYPE_SHAPE,
    "items": {**_TYPE_SHAPE, "items": {**_TYPE_SHAPE, "items": _TYPE_SHAPE}},
}
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_TOOL_SHAPE: Final = {
    "path": str,
    "description": str,
    "method": _METHODS,
    "headers": {str: str},
    "requestBody": str,
    "annotations": dict,
    **{key: [_PARAMETER_SHAPE] for key in _PLACES},
}
_SOURCE_SHAPE: Final = {"baseUrl": str, "headers": {str: str}, "queryParams": dict}
_IS_HTTP: Final[JsonObject] = {
    "anyOf": [
        {"properties": {key: {"const": "http"}}, "required": [key]} for key in ("kind", "type")
    ]
}


def _of_http(shape: dict[str, Any]) -> Schema:
    """Return the shape of an object that is checked only if its type is http: others have keys of their own."""
    return Schema({"type": "object", "if": _IS_HTTP, "then": schema_of(shape)})


_NESTED: Final = schema_of(
    {"sources": {str: _of_http(_SOURCE_SHAPE)}, "tools!": {str: _of_http(_TOOL_SHAPE)}}
)
_FLAT: Final[JsonObject] = {
    **schema_of({"kind!": str, "name!": str, "type": str}),
    "if": {"type": "object", "properties": {"kind": {"enum": ["tool", "tools"]}}},
    "then": _of_http(_TOOL_SHAPE).value,
    "else": _of_http(_SOURCE_SHAPE).value,
}
SCHEMA: Final[JsonObject] = {
    "if": {"type": "array"},
    "then": {"type": "array", "items": _FLAT},
    "else": {"if": {"required": ["kind"]}, "then": _FLAT, "else": _NESTED},
}

_KINDS: Final = {"source": "sources", "tool": "tools", "toolset": "toolsets"}
_ROLES: Final = "covalt-git has one toolset for a file; use roles to choose tools"


class _Entry(NamedTuple):
    """A source or a tool: its name, its type, and the parts with both."""

    name: str
    type: str
    part: Part
    labels: tuple[Part, ...]


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    value = document.value
    flat = value if isinstance(value, list) else [value]
    if are_objects(flat, "kind", "name") and all(isinstance(item["kind"], str) for item in flat):
        return any(_KINDS.get(item["kind"], item["kind"]) in {"sources", "tools"} for item in flat)
    tools = value.get("tools") if isinstance(value, dict) else None
    if not isinstance(tools, dict) or not tools:
        return False
    return are_objects([*tools.values()], "kind") or are_objects([*tools.values()], "type")


def read(document: Document, imported: Imported) -> None:
    """Add the toolset of a document."""
    entries: dict[str, list[_Entry]] = {"sources": [], "tools": []}
    for kind, entry in _entries(Part(document.value)):
        if kind in entries:
            entries[kind].append(entry)
        elif kind == "toolsets":
            imported.lost[entry.part.loc] = _ROLES
        else:
            imported.lost[entry.part.loc] = f"covalt-git has no {kind} of this format"
    toolset = imported.toolset(document.stem)
    names = local_names(element.name for element in entries["tools"])
    sources = {element.name: element for element in entries["sources"]}
    # A source that no tool uses is in no output, so it has to be reported.
    unused = {**sources}
    for tool in entries["tools"]:
        source_name = str(tool.part.peek("source"))
        source = sources.get(source_name, _Entry("", "", Part({}), ()))
        reason = _refusal(tool, source, source_name)
        if tool.type == "http":
            unused.pop(source_name, None)
        if reason:
            imported.lost[tool.part.loc] = reason
        else:
            output = toolset.item("tools", id=names[tool.name])
            _Reader(output, tool, source, imported).read()
    for element in unused.values():
        imported.lost[element.part.loc] = "no tool of the type http uses this source"


def _entries(root: Part) -> Iterator[tuple[str, _Entry]]:
    """Yield each source, tool and other object of both forms, with its kind."""
    if isinstance(root.value, list) or "kind" in root:
        several = isinstance(root.value, list)
        for part in [root[at] for at in range(len(root.value))] if several else [root]:
            labels = tuple(part[key] for key in ("kind", "name", "type") if key in part)
            kind = part.peek("kind")
            entry = _Entry(part.peek("name"), str(part.peek("type", "")), part, labels)
            yield _KINDS.get(kind, kind), entry
        return
    for kind in root.value:
        if kind not in {"sources", "tools"}:
            yield kind, _Entry("", "", root[kind], ())
            continue
        for name, part in root.entries(kind):
            label = part.get("kind") or part.get("type")
            labels = () if label is None else (label,)
            yield kind, _Entry(name, str(label.value) if label else "", part, labels)


def _refusal(tool: _Entry, source: _Entry, source_name: str) -> str:
    """Return why a tool is not one that covalt-git can run; empty if it is."""
    if tool.type != "http":
        return f"the type {tool.type!r} has no counterpart; only http has"
    if not source.type:
        return f"there is no source {source_name!r}"
    if source.type != "http":
        return f"the source {source_name!r} is of the type {source.type!r}, not http"
    if not is_url(source.part.peek("baseUrl", "") + tool.part.peek("path", "")):
        return f"the source {source_name!r} has no baseUrl of http or https"
    for key in _PLACES:
        for item in tool.part.parts(key):
            # As an argument, the agent would choose whose data it reads.
            if item.peek("authServices"):
                name = item.peek("name")
                return (
                    f"the parameter {name!r} is filled from a login, which covalt-git does not have"
                )
    # A template of Go can compute and branch, and a body without that would be another request.
    foreign = [item for item in re.findall(r"\{\{.*?\}\}", tool.part.peek("requestBody", "")) if not _TEMPLATE.fullmatch(item)]  # fmt: skip
    return f"requestBody has {foreign[0]!r}, and covalt-git only inserts values" if foreign else ""


class _Reader:
    """Reader of one tool of the type http."""

    def __init__(self, output: Node, tool: _Entry, source: _Entry, imported: Imported) -> None:
        self._output = output
        self._tool = tool.part
        output.copy(self._tool, {"description": "description"})
        self._http = output.node("http")
        self._source = source.part
        self._labels = (*tool.labels, *source.labels)
        self._imported = imported
        self._schema = output.node("input_schema")
        self._schema.value["type"] = "object"
        self._places: dict[str, str] = {}

    def read(self) -> None:
        """Fill the tool."""
        tool, base = self._tool, self._source
        self._http.copy(tool, {"method": "method"})
        self._read_parameters()
        path = _TEMPLATE.sub(r"{\g<name>}", tool.peek("path", ""))
        in_path = [name for name, place in self._places.items() if place == "path"]
        self._http.value["url"] = _text(base.peek("baseUrl", "")) + with_arguments(path, in_path)
        for item in (*self._labels, tool.get("source"), tool.get("path"), base.get("baseUrl")):
            if item is not None:
                self._http.trace(("url",), item.loc)
        for name, value in base.entries("queryParams"):
            if isinstance(value.value, str | int | float):
                text = _text(value.value) if isinstance(value.value, str) else value.value
                self._http.node("query").set(name, value, text)
        for owner in (base, tool):
            for header, value in owner.entries("headers"):
                self._http.node("headers").set(header, value, _text(value.value))
        if "requestBody" in tool:
            self._read_body(tool["requestBody"])
        for theirs, ours in _HINTS.items():
            hints = tool.get("annotations")
            if hints is not None and isinstance(hints.peek(theirs), bool):
                self._output.node("annotations").set(ours, hints[theirs])
        self._read_others()

    def _read_others(self) -> None:
        base = self._source
        seconds = _seconds(base.peek("timeout"))
        if seconds:
            self._output.node("limits").set("timeout_s", base["timeout"], seconds)
        if base.peek("disableSslVerification") is False:
            self._http.trace(("url",), base["disableSslVerification"].loc)
        elif "disableSslVerification" in base:
            reason = "covalt-git always verifies the certificates of hosts"
            self._imported.lost[base["disableSslVerification"].loc] = reason
        if "authRequired" in self._tool:
            reason = (
                "covalt-git does not have this login; use roles to choose who may call the tool"
            )
            self._imported.lost[self._tool["authRequired"].loc] = reason

    def _read_parameters(self) -> None:
        tool, required = self._tool, list[str]()
        properties = self._schema.node("properties")
        used = {result["name"] for result in _TEMPLATE.finditer(tool.peek("requestBody", ""))}
        for key, place in _PLACES.items():
            for parameter in tool.parts(key):
                name = parameter.peek("name")
                if place == "body" and "requestBody" in tool and name not in used:
                    self._imported.lost[parameter.loc] = "requestBody does not use it"
                    continue
                inner = properties.node(name)
                _read_schema(inner, parameter)
                if parameter.peek("required", "default" not in parameter):
                    required.append(name)
                if "required" in parameter:
                    inner.trace(("type",), parameter["required"].loc)
                self._places.setdefault(name, place)
                if place == "body" and "requestBody" in tool:
                    inner.trace(("type",), parameter["name"].loc)
                else:
                    node = self._http.node("parameters").node(name)
                    node.set("in", parameter["name"], place)
        if required:
            self._schema.value["required"] = list(dict.fromkeys(required))

    def _read_body(self, source: Part) -> None:
        """Set the body: JSON if the template is JSON once values are inserted, else a text."""
        types = {name: item.get("type") for name, item in self._schema.value["properties"].items()}
        body = self._http.node("body")
        self._http.trace(("url",), source.loc)  # an expression has the value in another form
        # As JSON if possible, because a value in a text is not escaped, and could add keys.
        result = _json_template(source.value, types)
        if result is not None:
            body.value["json"] = result
        else:
            text = _TEMPLATE.sub(_marked_name, source.value.replace(_MARK, ""))
            body.value["text"] = _with_expressions(text)


def _read_schema(schema: Node, parameter: Part) -> None:
    """Fill the JSON Schema of a parameter, or of the items of one."""
    kind = str(parameter.peek("type", "string"))
    schema.value["type"] = _TYPES.get(kind, kind)
    if "type" in parameter:
        schema.trace(("type",), parameter["type"].loc)
    schema.copy(parameter, {"description": "description", "default": "default", **_LIMITS})
    items = parameter.get("items")
    if items is not None and isinstance(items.value, dict):
        _read_schema(schema.node("items"), items)
    if isinstance(parameter.peek("valueType"), str):
        kind = parameter.peek("valueType")
        inner = schema.node("additionalProperties")
        inner.set("type", parameter["valueType"], _TYPES.get(kind, kind))
    for key, negates in (("allowedValues", False), ("excludedValues", True)):
        values = parameter.peek(key)
        if isinstance(values, list) and values:
            target = schema.node("not") if negates else schema
            _read_values(target, parameter[key])


def _read_values(schema: Node, source: Part) -> None:
    """Set the values that a parameter can have; a text with other signs than names have is a pattern."""
    texts = [item for item in source.value if isinstance(item, str)]
    if len(texts) < len(source.value) or all(map(_PLAIN_VALUE.fullmatch, texts)):
        schema.set("enum", source)
        return
    schema.value["pattern"] = f"^(?:{'|'.join(texts)})$"
    for at in range(len(texts)):
        schema.trace(("pattern",), (*source.loc, at))


def _json_template(text: str, types: dict[str, Any]) -> Any:
    """Return a template as JSON with expressions; None if it is not JSON with values as its types have them."""

    def marked(result: re.Match[str]) -> str:
        return f'"{_marked_name(result)}"'

    # A value between quotes is a text; one without has its type, or is JSON by the function `json`.
    pieces = re.split(r'("(?:[^"\\]|\\.)*")', text.replace(_MARK, ""))
    for at, piece in enumerate(pieces):
        if not at % 2:
            pieces[at] = _TEMPLATE.sub(marked, piece)
            continue
        inner = [result["name"] for result in _TEMPLATE.finditer(piece)]
        is_whole = _TEMPLATE.fullmatch(piece[1:-1]) is not None
        if is_whole and types.get(inner[0]) != "string":
            return None
        if any(result["function"] for result in _TEMPLATE.finditer(piece)):
            return None
        pieces[at] = _TEMPLATE.sub(_marked_name, piece)
    try:
        value = json.loads("".join(pieces))
    except ValueError:
        return None
    if value is None or _keys_with_marks(value):
        return None
    return changed(value, _with_expressions)


def _marked_name(template: re.Match[str]) -> str:
    return f"{_MARK}{template['name']}{_MARK}"


def _keys_with_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_MARK in key or _keys_with_marks(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_keys_with_marks, value))


def _with_expressions(text: str) -> str:
    """Return a text with expressions in place of the marked names."""
    plain = re.sub(rf"{_MARK}([\w-]+){_MARK}", r"{\1}", text)
    if f"{_MARK}{plain[1:-1]}{_MARK}" == text:
        return f"$args.{plain[1:-1]}"
    pieces = re.split(rf"{_MARK}([\w-]+){_MARK}", text)
    return "".join(
        f"${{args.{piece}}}" if at % 2 else _text(piece) for at, piece in enumerate(pieces)
    )


def _text(text: str) -> str:
    """Return a text with references, whose defaults follow a colon only."""
    return escaped(_DEFAULT.sub(r"${\1:-\2}", text))


def _seconds(text: Any) -> float | None:
    """Return the seconds of a duration as Go writes it, such as ``1m30s``."""
    if not isinstance(text, str) or not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        return None
    total = sum(
        float(number) * _SECONDS[unit]
        for number, _, unit in re.findall(r"(\d+(\.\d+)?)(ms|s|m|h)", text)
    )
    return int(total) if total == int(total) else total
