"""The formats of published MCP servers: manifests of MCP bundles (MCPB), and ``server.json`` of the registry.

Settings that a user makes become secrets and variables.  A manifest names its own folder ``${__dirname}``,
which is the folder of the toolset.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.documents import FormatError
from covalt_git.formats.http_texts import escaped, with_references
from covalt_git.formats.model import Imported, Part, changed, variable_name
from covalt_git.formats.shapes import TEXT, are_objects, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.json_values import JsonObject

_SETTING = re.compile(r"\$\{user_config\.([^{}]+)\}")
_FOLDER: Final = "${__dirname}/"
_TYPES: Final = {
    "node": "node",
    "npx": "node",
    "python": "python",
    "python3": "python",
    "uv": "uv",
    "uvx": "uv",
}

_CONFIG: Final = {key: key for key in ("command", "args", "env")}
_CONFIG_SHAPE: Final = {"command": str, "args": [str], "env": {str: str}}
MANIFEST_SCHEMA: Final = schema_of(
    {
        "name!": TEXT,
        "display_name": str,
        "version!": str,
        "description": str,
        "user_config": {str: dict},
        "server!": {"mcp_config": _CONFIG_SHAPE},
    }
)


def recognize_manifest(document: Document) -> bool:
    """Return whether a document is an MCPB manifest."""
    return are_objects([document.value], "manifest_version", "name", "server")


def read_manifest(document: Document, imported: Imported) -> None:
    """Add the toolset of an MCPB manifest."""
    source = Part(document.value)
    toolset = imported.toolset(source.peek("name"), name=source.peek("display_name", ""))
    toolset.trace(("id",), ("name",))
    if "display_name" in source:
        toolset.trace(("name",), ("display_name",))
    toolset.copy_texts(source, {"version": "version"})
    toolset.copy(source, {"description": "description"})
    settings = [name for name, _ in source.entries("user_config")]
    if settings:
        toolset.value["secrets"] = list(dict.fromkeys(map(variable_name, settings)))
    config = source["server"].get("mcp_config")
    if config is not None and "command" in config:
        server = toolset.item("mcp_servers", id=toolset.value["id"])
        server.copy(config, _CONFIG, _setting_to_reference)


def _setting_to_reference(text: str) -> str:
    text = _SETTING.sub(lambda found: f"${{{variable_name(found[1])}}}", text.replace(_FOLDER, ""))
    return escaped(text)


def write_manifest(toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return the MCPB manifest of a toolset."""
    if len(toolsets) != 1 or len(toolsets[0].peek("mcp_servers", [])) > 1:
        raise FormatError("an MCPB manifest has one server", hint="convert each toolset on its own")
    manifest = toolsets[0]
    made: JsonObject = {
        "manifest_version": "0.3",
        "name": manifest.take("id"),
        "display_name": manifest.take("name"),
        "version": manifest.take("version"),
        "description": manifest.take("description", ""),
        "author": {"name": "unknown"},
        "server": _manifest_server(manifest),
    }
    secrets = manifest.take("secrets", [])
    if secrets:
        fields = {"type": "string", "sensitive": True, "required": True}
        made["user_config"] = {
            name.lower(): {**fields, "title": name, "description": f"The value of {name}."}
            for name in secrets
        }
    return made


def _manifest_server(manifest: Part) -> JsonObject:
    servers = manifest.parts("mcp_servers")
    if not servers or "command" not in servers[0]:
        manifest.drop_keys("an MCPB manifest has a program, not a URL", "mcp_servers")
        return {"type": "binary", "entry_point": ""}
    server = servers[0]
    server.take("id")
    config = changed({"args": [], **server.taken(_CONFIG)}, _reference_to_setting)
    command, args = config["command"], config["args"]
    kind = _TYPES.get(command.rpartition("/")[2], "binary")
    entry = next((one for one in args if re.search(r"\.(?:js|mjs|cjs|py)$", one)), command)
    return {"type": kind, "entry_point": entry, "mcp_config": config}


def _reference_to_setting(text: str) -> str:
    return with_references(text, lambda one: f"${{user_config.{one.name.lower()}}}")
