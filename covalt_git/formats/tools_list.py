"""The formats of definitions of an MCP server's tools: a ``tools/list`` result, and a lock file.

A lock file is only written: ``toolsets/locks/SERVER.yaml``.  A user accepts its tools as after a refresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.documents import FormatError
from covalt_git.formats.model import Imported, Part
from covalt_git.formats.shapes import TEXT, are_objects, schema_of
from covalt_git.models.sources.tool_lock import BadDefinitionError, ToolLock, locked_tool
from covalt_git.names import suggest_id

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
SCHEMA: Final = schema_of({"tools!": [_SHAPE]})


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    tools = document.value.get("tools") if isinstance(document.value, dict) else None
    return bool(tools) and are_objects(tools, "inputSchema")


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    source = Part(document.value)
    toolset = imported.toolset(document.stem)
    for definition, tool in toolset.tools(source.parts("tools")):
        imported.known[tool.loc] = {"definition": definition.value}
        tool.trace(("definition",), definition.loc)
        tool.copy_texts(definition, {"title": "name"})
        tool.copy(definition, {"description": "description", "outputSchema": "output_schema"})
        imported.set_schema(tool, definition["inputSchema"])
        if "annotations" in definition:
            tool.node("annotations").copy(definition["annotations"], _HINTS)


def write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return the document of toolsets."""
    tools: list[JsonObject] = []
    for manifest in toolsets:
        manifest.take("id")
        tools += map(_definition, manifest.parts("tools"))
    return {"tools": tools}


def _definition(tool: Part) -> JsonObject:
    """Return the definition of a tool in the form of MCP."""
    tool.drop_keys(
        "a tools/list result only describes tools; a server runs them", "entrypoint", "http"
    )
    output: JsonObject = {"name": tool.take("id"), **tool.taken(_TOOL)}
    output.setdefault("inputSchema", {"type": "object"})
    if "annotations" in tool:
        output["annotations"] = tool["annotations"].taken(_HINTS)
    return output


def write_lock(toolsets: Sequence[Part], imported: Imported) -> Any:
    """Write the lock of an MCP server, which lists its tools before it is started for the first time."""
    if len(toolsets) != 1:
        message = f"a lock file is for one MCP server, but the input has {len(toolsets)} toolsets"
        raise FormatError(message, hint="convert each toolset on its own")
    manifest = toolsets[0]
    server_id = suggest_id(imported.output) or manifest.peek("id")
    manifest.take("id")
    tools = {}
    for tool in manifest.parts("tools"):
        # The complete definition: its digest is compared with that of the server's tool.
        upstream = tool.peek("definition")
        if upstream is not None:
            tool.use()
        try:
            tools[tool.peek("id")] = locked_tool(upstream or _definition(tool))
        except BadDefinitionError as error:
            raise FormatError(error.message) from None
    lock = ToolLock(namespace=server_id, toolset_id=server_id, kind="mcp", tools=tools)
    return lock.model_dump(mode="json", exclude_defaults=True) | {"version": 1}
