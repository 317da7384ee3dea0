"""The format of a ``tools/list`` result of MCP: the definitions of a server's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.model import Format, Imported, Part, duplicates, legal_tool_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Problems
    from covalt_git.json_values import JsonObject

_HINTS: Final = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["tools"],
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "inputSchema"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "inputSchema": {"type": "object"},
                    "outputSchema": {"type": "object"},
                    "annotations": {
                        "type": "object",
                        "properties": {key: {"type": "boolean"} for key in _HINTS},
                    },
                },
            },
        }
    },
}


def _recognize(document: Document) -> bool:
    value = document.value
    tools = value.get("tools") if isinstance(value, dict) else None
    return (
        document.kind == "json"
        and isinstance(tools, list)
        and bool(tools)
        and all(isinstance(one, dict) and "inputSchema" in one for one in tools)
    )


def _check(value: Any) -> Problems:
    return duplicates(value["tools"], "name", ("tools",), "tool name")


def _read(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    toolset = imported.toolset(document.stem)
    names = legal_tool_names([one.peek("name") for one in source.parts("tools")])
    for definition in source.parts("tools"):
        tool = toolset.item("tools")
        tool.set("id", definition["name"], names[definition.peek("name")])
        tool.copy_texts(definition, {"title": "name"})
        tool.copy(definition, {"description": "description", "outputSchema": "output_schema"})
        imported.set_schema(tool, definition["inputSchema"], definition.peek("inputSchema"))
        if "annotations" in definition:
            tool.node("annotations").copy(definition["annotations"], _HINTS)


def _write(toolsets: Sequence[Part], imported: Imported) -> Any:
    tools: list[JsonObject] = []
    for position, manifest in enumerate(toolsets):
        for key in ("manifest_version", "id"):
            manifest.take(key)
        tools += [_definition(tool, imported, position) for tool in manifest.parts("tools")]
    return {"tools": tools}


def _definition(tool: Part, imported: Imported, position: int) -> JsonObject:
    known = imported.definitions.get((position, tool.peek("id")), {})
    for key in ("entrypoint", "http"):
        if key in tool:
            tool[key].drop("a tools/list result only describes tools; a server runs them")
    made: JsonObject = {"name": tool.take("id")}
    if "name" in tool:
        made["title"] = tool.take("name")
    description = tool.take("description", known.get("description"))
    if description is not None:
        made["description"] = description
    made["inputSchema"] = tool.take("input_schema", known.get("input_schema") or {"type": "object"})
    if "output_schema" in tool:
        made["outputSchema"] = tool.take("output_schema")
    hints = tool.get("annotations")
    if hints is not None:
        made["annotations"] = {
            theirs: hints.take(ours) for theirs, ours in _HINTS.items() if ours in hints
        }
    return made


FORMAT: Final = Format(
    name="mcp-tools",
    title="a tools/list result",
    kind="json",
    file_name="tools.json",
    recognize=_recognize,
    read=_read,
    write=_write,
    schema=_SCHEMA,
    check=_check,
)
