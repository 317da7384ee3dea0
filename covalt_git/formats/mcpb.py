"""The formats of published MCP servers: manifests of MCP bundles (MCPB), and ``server.json`` of the registry.

Settings that a user makes become secrets and variables.  A manifest names its own folder ``${__dirname}``,
which is the folder of the toolset.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.documents import FormatError
from covalt_git.formats.http_texts import escaped, is_url, with_references
from covalt_git.formats.model import Imported, Part, changed, unused, variable_name
from covalt_git.formats.shapes import TEXT, are_objects, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_SETTING = re.compile(r"\$\{user_config\.([^{}]+)\}")
_FOLDER: Final = "${__dirname}/"
_RUNTIMES: Final = {"npm": "npx", "pypi": "uvx", "docker": "docker"}
_TRANSPORTS: Final = {
    "sse": "sse",
    "streamable": "streamable-http",
    "streamable-http": "streamable-http",
}
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
_INPUTS: Final = [{"name": str}]
_PACKAGE_SHAPE: Final = {
    "runtime_arguments": _INPUTS,
    "package_arguments": _INPUTS,
    "environment_variables": _INPUTS,
}
SERVER_SCHEMA: Final = schema_of(
    {
        "name!": TEXT,
        "description": str,
        "version": str,
        "packages": [_PACKAGE_SHAPE],
        "remotes": [{"url!": str, "headers": _INPUTS}],
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


def recognize_server(document: Document) -> bool:
    """Return whether a document is a ``server.json``."""
    value = document.value
    named = are_objects([value], "name") and "tools" not in value
    return named and bool({"packages", "remotes"} & value.keys())


def read_server(document: Document, imported: Imported) -> None:
    """Add the toolset of a ``server.json``."""
    source = Part(document.value)
    toolset = imported.toolset(source.peek("name").rpartition("/")[2], name=source.peek("name"))
    toolset.trace(("id",), ("name",))
    toolset.copy(source, {"description": "description"})
    details = source.get("version_detail")
    is_nested = details is not None and isinstance(details.value, dict)
    toolset.copy_texts(details if details and is_nested else source, {"version": "version"})
    for package in source.parts("packages"):
        _read_package(toolset, package, imported)
    for remote in source.parts("remotes"):
        if not is_url(remote.peek("url")):
            imported.lost[remote.loc] = "the URL is not of http or https"
            continue
        server = toolset.item("mcp_servers", id=_server_id(toolset))
        server.set("url", remote["url"], escaped(remote.peek("url")))
        for key in ("transport_type", "type"):
            transport = _TRANSPORTS.get(str(remote.peek(key)))
            if transport:
                server.set("transport", remote[key], transport)
        for header in remote.parts("headers"):
            if "name" in header:
                _read_input(server.node("headers"), header)


def _read_package(toolset: Node, package: Part, imported: Imported) -> None:
    names = [key for key in ("name", "identifier") if isinstance(package.peek(key), str)]
    registry = str(package.peek("registry_name", package.peek("registryType", "")))
    hint = package.peek("runtime_hint", package.peek("runtimeHint"))
    command = hint or _RUNTIMES.get(registry)
    if not names or not isinstance(command, str):
        reason = f"packages of {registry or 'this registry'} have no known command"
        imported.lost[package.loc] = reason
        return
    server = toolset.item("mcp_servers", id=_server_id(toolset), command=command)
    for key in ("runtime_hint", "runtimeHint", "registry_name", "registryType"):
        if key in package:
            server.trace(("command",), package[key].loc)
    target, version = package.peek(names[0]), package.peek("version")
    if isinstance(version, str):
        target += {"uvx": "==", "docker": ":"}.get(command, "@") + version
    args = {"npx": ["-y"], "docker": ["run", "-i", "--rm"]}.get(command, [])
    server.value["args"] = args
    for argument in package.parts("runtime_arguments"):
        _read_argument(server, argument)
    args.append(target)
    for key in (names[0], "version"):
        if key in package:
            server.trace(("args", len(args) - 1), package[key].loc)
    for argument in package.parts("package_arguments"):
        _read_argument(server, argument)
    for variable in package.parts("environment_variables"):
        if re.fullmatch(r"[A-Za-z_]\w*", str(variable.peek("name", ""))):
            _read_input(server.node("env"), variable)


def _server_id(toolset: Node) -> str:
    existing = [one["id"] for one in toolset.value.get("mcp_servers", ())]
    return unused(toolset.value["id"], existing)


def _read_argument(server: Node, argument: Part) -> None:
    """Append an argument to the command's: its value, or a reference to it, after its name if it has one."""
    name, value = argument.peek("name"), argument.peek("value", argument.peek("default"))
    hint = str(argument.peek("value_hint") or name or "value")
    args = server.value["args"]
    args += [name] if argument.peek("type") == "named" and name else []
    args.append(escaped(value) if isinstance(value, str) else f"${{{variable_name(hint)}}}")
    server.trace(("args", len(args) - 1), argument.loc)


def _read_input(values: Node, source: Part) -> None:
    """Read a variable or a header: its value, or a reference to it."""
    name, value = source.peek("name"), source.peek("value", source.peek("default"))
    is_secret = source.peek("is_secret", source.peek("isSecret", False))
    is_fixed = isinstance(value, str) and not is_secret
    values.value[name] = escaped(value) if is_fixed else f"${{{variable_name(name)}}}"
    values.trace((name,), source.loc)
