"""The formats of published MCP servers: manifests of MCP bundles (MCPB), and ``server.json`` of the registry.

Settings that a user makes become secrets and variables.  A manifest names its own folder ``${__dirname}``,
which is the folder of the toolset.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.documents import FormatError
from covalt_git.formats.http_texts import escaped
from covalt_git.formats.model import Format, Imported, Part
from covalt_git.models.base import HTTP_URL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_SETTING = re.compile(r"\$\{user_config\.([A-Za-z_][A-Za-z0-9_]*)\}")
_FOLDER: Final = "${__dirname}/"
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
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

_MANIFEST_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["name", "version", "server"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "display_name": {"type": "string"},
        "version": {"type": "string"},
        "description": {"type": "string"},
        "user_config": {"type": "object", "additionalProperties": {"type": "object"}},
        "server": {
            "type": "object",
            "properties": {
                "mcp_config": {
                    "type": "object",
                    "properties": {
                        "command": {"type": "string"},
                        "args": _TEXTS,
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                }
            },
        },
    },
}


def _recognize_manifest(document: Document) -> bool:
    value = document.value
    keys = {"manifest_version", "name", "server"}
    return document.kind == "json" and isinstance(value, dict) and keys <= value.keys()


def _read_manifest(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    toolset = imported.toolset(source.peek("name"), name=source.peek("display_name", ""))
    toolset.trace(("id",), ("name",))
    if "display_name" in source:
        toolset.trace(("name",), ("display_name",))
    toolset.copy_texts(source, {"version": "version"})
    toolset.copy(source, {"description": "description"})
    settings = [name for name, _ in source.entries("user_config")]
    if settings:
        toolset.value["secrets"] = list(dict.fromkeys(name.upper() for name in settings))
    config = source["server"].get("mcp_config")
    if config is not None and "command" in config:
        server = toolset.item("mcp_servers", {"id": toolset.value["id"]})
        server.set("command", config["command"], _setting_to_reference(config.peek("command")))
        if "args" in config:
            server.set(
                "args", config["args"], list(map(_setting_to_reference, config.peek("args")))
            )
        for name, value in config.entries("env"):
            server.node("env").set(name, value, _setting_to_reference(value.value))


def _setting_to_reference(text: str) -> str:
    text = _SETTING.sub(lambda found: f"${{{found[1].upper()}}}", text.replace(_FOLDER, ""))
    return escaped(text)


def _write_manifest(toolsets: Sequence[Part], _imported: Imported) -> Any:
    if len(toolsets) != 1 or len(toolsets[0].peek("mcp_servers", [])) > 1:
        raise FormatError("an MCPB manifest has one server", hint="convert each toolset on its own")
    manifest = toolsets[0]
    manifest.take("manifest_version")
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
        for server in servers:
            server.drop("an MCPB manifest has a program, not a URL")
        return {"type": "binary", "entry_point": ""}
    server = servers[0]
    server.take("id")
    command = _reference_to_setting(server.take("command"))
    args = [_reference_to_setting(one) for one in server.take("args", [])]
    config: JsonObject = {"command": command, "args": args}
    if "env" in server:
        config["env"] = {key: _reference_to_setting(one) for key, one in server.take("env").items()}
    kind = _TYPES.get(command.rpartition("/")[2], "binary")
    entry = next((one for one in args if re.search(r"\.(?:js|mjs|cjs|py)$", one)), command)
    return {"type": kind, "entry_point": entry, "mcp_config": config}


def _reference_to_setting(text: str) -> str:
    found = re.sub(
        r"\$\{(?:env:|secret:)?([A-Za-z_]\w*)(?::-[^}]*)?\}",
        lambda one: f"${{user_config.{one[1].lower()}}}",
        text,
    )
    return found.replace("$$", "$")


MCPB: Final = Format(
    name="mcpb",
    title="an MCPB manifest",
    kind="json",
    file_name="manifest.json",
    recognize=_recognize_manifest,
    read=_read_manifest,
    write=_write_manifest,
    schema=_MANIFEST_SCHEMA,
)

_INPUTS: Final = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
}
_SERVER_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "description": {"type": "string"},
        "version": {"type": "string"},
        "packages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "runtime_arguments": _INPUTS,
                    "package_arguments": _INPUTS,
                    "environment_variables": _INPUTS,
                },
            },
        },
        "remotes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["url"],
                "properties": {"url": {"type": "string"}, "headers": _INPUTS},
            },
        },
    },
}


def _recognize_server(document: Document) -> bool:
    value = document.value
    return (
        document.kind == "json"
        and isinstance(value, dict)
        and "name" in value
        and "tools" not in value
        and bool({"packages", "remotes"} & value.keys())
    )


def _read_server(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    toolset = imported.toolset(source.peek("name").rpartition("/")[2], name=source.peek("name"))
    toolset.trace(("id",), ("name",))
    toolset.copy(source, {"description": "description"})
    details = source.get("version_detail")
    toolset.copy_texts(
        details if details is not None and isinstance(details.value, dict) else source,
        {"version": "version"},
    )
    for package in source.parts("packages"):
        name = next(
            (key for key in ("name", "identifier") if isinstance(package.peek(key), str)), None
        )
        registry = str(package.peek("registry_name", package.peek("registryType", "")))
        command = package.peek("runtime_hint", package.peek("runtimeHint")) or _RUNTIMES.get(
            registry
        )
        if name is None or not isinstance(command, str):
            imported.lost[package.loc] = (
                f"packages of {registry or 'this registry'} have no known command"
            )
            continue
        _read_package(toolset, package, name, command, imported)
    for remote in source.parts("remotes"):
        if re.match(HTTP_URL, remote.peek("url")) is None:
            imported.lost[remote.loc] = "the URL is not of http or https"
            continue
        server = toolset.item("mcp_servers", {"id": _server_id(toolset)})
        server.set("url", remote["url"], escaped(remote.peek("url")))
        for key in ("transport_type", "type"):
            transport = _TRANSPORTS.get(str(remote.peek(key)))
            if transport:
                server.set("transport", remote[key], transport)
        for header in remote.parts("headers"):
            if isinstance(header.peek("name"), str):
                name = header.peek("name")
                server.node("headers").set(name, header["name"], _input_value(header))
                imported.merged[header.loc] = (*server.loc, "headers", name)


def _read_package(
    toolset: Node, package: Part, name: str, command: str, imported: Imported
) -> None:
    server = toolset.item("mcp_servers", {"id": _server_id(toolset)})
    server.value["command"] = command
    if "runtime_hint" in package:
        server.trace(("command",), package["runtime_hint"].loc)
    version = package.peek("version")
    marks = {"uvx": "==", "docker": ":"}
    pinned = (
        f"{package.peek(name)}{marks.get(command, '@')}{version}"
        if isinstance(version, str)
        else package.peek(name)
    )
    before = {"npx": ["-y"], "docker": ["run", "-i", "--rm"]}.get(command, [])
    args = [
        *before,
        *_arguments(package, "runtime_arguments"),
        pinned,
        *_arguments(package, "package_arguments"),
    ]
    server.set("args", package[name], args)
    for key in (
        "registry_name",
        "registryType",
        "version",
        "runtime_arguments",
        "package_arguments",
    ):
        if key in package:
            imported.merged[package[key].loc] = (*server.loc, "args")
    for variable in package.parts("environment_variables"):
        if re.fullmatch(r"[A-Za-z_]\w*", str(variable.peek("name", ""))):
            server.node("env").set(variable.peek("name"), variable["name"], _input_value(variable))
            imported.merged[variable.loc] = (*server.loc, "env", variable.peek("name"))


def _server_id(toolset: Node) -> str:
    count = len(toolset.value.get("mcp_servers", []))
    toolset_id: str = toolset.value["id"]
    return toolset_id if not count else f"{toolset_id[:56]}-{count + 1}"


def _arguments(package: Part, key: str) -> list[str]:
    found: list[str] = []
    for one in package.parts(key):
        value = one.peek("value", one.peek("default"))
        hint = one.peek("value_hint") or one.peek("name") or "value"
        text = escaped(value) if isinstance(value, str) else f"${{{_variable(str(hint))}}}"
        found += (
            [one.peek("name"), text]
            if one.peek("type") == "named" and isinstance(one.peek("name"), str)
            else [text]
        )
    return found


def _input_value(part: Part) -> str:
    default = part.peek("value", part.peek("default"))
    if isinstance(default, str) and not part.peek("is_secret", part.peek("isSecret", False)):
        return escaped(default)
    return f"${{{_variable(part.peek('name'))}}}"


def _variable(name: str) -> str:
    words = "_".join(re.findall(r"[A-Za-z0-9]+", name)).upper() or "VALUE"
    return f"_{words}" if words[0].isdigit() else words


SERVER_JSON: Final = Format(
    name="mcp-server-json",
    title="server.json of the MCP registry",
    kind="json",
    file_name="server.json",
    recognize=_recognize_server,
    read=_read_server,
    schema=_SERVER_SCHEMA,
)
