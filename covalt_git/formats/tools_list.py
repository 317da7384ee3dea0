"""The format of a ``tools/list`` result of MCP: the definitions of a server's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.model import Format, Imported, Part
from covalt_git.formats.shapes import TEXT, are_objects, schema_of
from covalt_git.names import local_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.json_values import JsonObject

_HINTS: Final = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_TOOL: Final = {
    "title": "name",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
}
_SHAPE: Final = {
    "name!": TEXT,
    "title": str,
    "description": str,
    "inputSchema!": dict,
    "outputSchema": dict,
    "annotations": dict.fromkeys(_HINTS, bool),
}


def _recognize(document: Document) -> bool:
    tools = document.value.get("tools") if isinstance(document.value, dict) else None
    return bool(tools) and are_objects(tools, "inputSchema")


def _read(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    toolset = imported.toolset(document.stem)
    names = local_names(one.peek("name") for one in source.parts("tools"))
    for definition in source.parts("tools"):
        tool = toolset.item("tools")
        imported.merged[definition.loc] = tool.loc
        imported.upstream[tool.loc] = definition.value
        tool.set("id", definition["name"], names[definition.peek("name")])
        tool.copy_texts(definition, {"title": "name"})
        tool.copy(definition, {"description": "description", "outputSchema": "output_schema"})
        imported.set_schema(tool, definition["inputSchema"], definition.peek("inputSchema"))
        if "annotations" in definition:
            tool.node("annotations").copy(definition["annotations"], _HINTS)


def _write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    tools: list[JsonObject] = []
    for manifest in toolsets:
        manifest.take("id")
        tools += map(definition_of, manifest.parts("tools"))
    return {"tools": tools}


def definition_of(tool: Part) -> JsonObject:
    """Return the definition of a tool in the form of MCP."""
    for key in ("entrypoint", "http"):
        if key in tool:
            tool[key].drop("a tools/list result only describes tools; a server runs them")
    made: JsonObject = {"name": tool.take("id"), **tool.taken(_TOOL)}
    made.setdefault("inputSchema", {"type": "object"})
    if "annotations" in tool:
        made["annotations"] = tool["annotations"].taken(_HINTS)
    return made


FORMAT: Final = Format(
    name="mcp-tools",
    title="a tools/list result",
    kind="json",
    file_name="tools.json",
    recognize=_recognize,
    read=_read,
    write=_write,
    schema=schema_of({"tools!": [_SHAPE]}),
    unique=(("tools", "name"),),
)
