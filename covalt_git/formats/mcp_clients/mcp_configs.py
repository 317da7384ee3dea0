"""The formats of MCP clients' configuration files: a table of hosts, and one reader and writer for all.

Only servers are converted.  Sources, as of November 2026: the documentation of Claude Desktop, Claude Code,
VS Code, Cursor, Windsurf, OpenCode, Codex and Gemini CLI.
"""

from __future__ import annotations

import functools
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.formats.carried import stored_extension
from covalt_git.formats.http_texts import escaped, is_server_url, with_references
from covalt_git.formats.model import Format, Imported, Note, Part, changed, unused, variable_name
from covalt_git.formats.shapes import Schema, schema_of
from covalt_git.names import suggest_id
from covalt_git.templating.references import Reference, malformed, references

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.formats.documents import Document, Kind
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_HTTP: Final = "streamable-http"
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INPUT = re.compile(r"\$\{input:([^{}]+)\}")
_BRACES = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(
    r"(?P<bearer>Bearer )?\$\{(?:env:|secret:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
)
_FOLDER = re.compile(r"(?<!\$)(?:\$\$)*\$(?:(?:toolset|workspace)\b|\{(?:toolset|workspace)\})")
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Host(NamedTuple):
    """The form of one host's file.

    Attributes:
        path: The keys of the object with the servers; without keys, that is all of the file.
        urls: The keys of a server's URL, and the transport of each; empty if ``type`` has it.
        types: The values of ``type``, and their transports.
        env: The key of the environment variables.
        headers: The key of the headers.
        off: The key and the value that disable a server.
        style: How a text refers to a variable; empty if the host replaces none.
        env_names: The keys for variables without values: of a list of names, of a bearer token, and of
            headers by the names of their variables.
        lists_command: Whether ``command`` is a list with the arguments.
        more: Other keys of a server that only this host knows.
    """

    name: str
    title: str
    file_name: str
    path: tuple[str, ...]
    urls: Mapping[str, str]
    types: Mapping[str, str]
    kind: Kind = "json"
    env: str = "env"
    headers: str = "headers"
    off: tuple[str, bool] | None = None
    style: str = "${NAME}"
    env_names: tuple[str, str, str] | None = None
    lists_command: bool = False
    more: frozenset[str] = frozenset()

    def document(self, servers: Any) -> Any:
        """Return a document with these servers, or with another value in their place."""
        for key in reversed(self.path):
            servers = {key: servers}
        return servers

    def servers(self, document: Any) -> JsonObject | None:
        """Return the servers of a document, of which some can be wrong; None if it has no object for them."""
        for key in self.path:
            document = document.get(key) if isinstance(document, dict) else None
        return document if isinstance(document, dict) else None

    def url_key(self, server: JsonObject | Part) -> str | None:
        """Return the key of a server's URL; None if it has none."""
        return next((key for key in self.urls if key in server), None)

    def has_server(self, server: JsonObject) -> bool:
        """Return whether an entry is an MCP server: it has a command or a URL."""
        key = self.url_key(server)
        if key is None:
            return "command" in server
        return "command" not in server and is_server_url(server[key])


_TYPES: Final = {"stdio": "stdio", "http": _HTTP, "sse": "sse"}
HOSTS: Final = (
    Host("claude-desktop", "Claude Desktop", "claude_desktop_config.json", ("mcpServers",), {}, {}, style=""),
    Host("claude-code", "Claude Code", ".mcp.json", ("mcpServers",), {"url": ""}, _TYPES, more=frozenset({"oauth", "headersHelper", "timeout"})),
    Host("claude-plugin", "a plugin of Claude Code", ".mcp.json", (), {"url": ""}, _TYPES),
    Host("vscode", "VS Code", ".vscode/mcp.json", ("servers",), {"url": ""}, _TYPES, style="${input:name}"),
    Host("cursor", "Cursor", ".cursor/mcp.json", ("mcpServers",), {"url": ""}, _TYPES, style="${env:NAME}", more=frozenset({"envFile", "auth"})),
    Host("windsurf", "Windsurf", "mcp_config.json", ("mcpServers",), {"serverUrl": "", "url": ""}, {}, off=("disabled", True), style="${env:NAME}", more=frozenset({"disabledTools", "alwaysAllow"})),
    Host("opencode", "OpenCode", "opencode.json", ("mcp",), {"url": ""}, {"local": "stdio", "remote": _HTTP}, env="environment", off=("enabled", False), style="{env:NAME}", lists_command=True),
    Host("codex", "Codex", "config.toml", ("mcp_servers",), {"url": ""}, {}, kind="toml", headers="http_headers", off=("enabled", False), style="", env_names=("env_vars", "bearer_token_env_var", "env_http_headers")),
    Host("gemini-cli", "Gemini CLI", "settings.json", ("mcpServers",), {"httpUrl": _HTTP, "url": "sse"}, {}, style="$NAME", more=frozenset({"timeout", "trust", "includeTools", "excludeTools", "description", "authProviderType", "oauth"})),
)  # fmt: skip
"""The hosts whose files can be read and written."""


def _server_shape(host: Host) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "command": Schema({"type": "array", "items": {"type": "string"}, "minItems": 1})
        if host.lists_command
        else str,
        "args": [str],
        "cwd": str,
        host.env: {str: str},
        host.headers: {str: str},
        **dict.fromkeys(host.urls, str),
    }
    if host.types:
        shape["type"] = str
    if host.off:
        shape[host.off[0]] = bool
    if host.env_names:
        variables, bearer, headers = host.env_names
        shape |= {variables: list, bearer: str, headers: {str: str}}
    return shape


def _schema(host: Host) -> JsonObject:
    shape: dict[Any, Any] = {str: _server_shape(host)}
    for key in reversed(host.path):
        shape = {f"{key}!": shape}
    return schema_of(shape)


def _recognize(host: Host, document: Document) -> bool:
    """Return whether the file has the host's name for it, or its servers have as few unknown keys as for any host.

    A wrong server does not hide the format of its file: reading it reports the place.
    """
    servers = host.servers(document.value)
    if servers is None or document.kind != host.kind:
        return False
    if host.kind == "toml" or not servers:
        return bool(host.path)
    objects = [item for item in servers.values() if isinstance(item, dict)]
    names_known = [
        item for item in objects if "command" in item or any(map(item.__contains__, _URLS))
    ]
    if not host.path:  # the document itself, which can be anything
        keys = {*_server_shape(host), *host.more}
        return len(names_known) == len(servers) and all(item.keys() <= keys for item in names_known)
    if f"/{document.path}".endswith(f"/{host.file_name}") or host.path in _OWN_KEYS:
        return bool(names_known)
    others = [item for item in HOSTS if (item.path, item.kind) == (host.path, host.kind)]
    fewest = min(_unknown_keys(item, names_known) for item in others)
    return bool(names_known) and _unknown_keys(host, names_known) == fewest


def _unknown_keys(host: Host, servers: Sequence[JsonObject]) -> int:
    """Return how many keys of servers a host does not know; Gemini CLI reads ``url`` as the URL of SSE only itself."""
    known = {*_server_shape(host), *host.more}
    own = {key for key, transport in host.urls.items() if transport == "sse"}
    shows_host = any((host.more | host.urls.keys()) - own & one.keys() for one in servers)
    hidden = () if shows_host else own
    return sum(key not in known or key in hidden for one in servers for key in one)


def _read(host: Host, document: Document, imported: Imported) -> None:
    source = functools.reduce(Part.__getitem__, host.path, Part(document.value))
    title = next(iter(source.value)) if len(source.value) == 1 else "MCP servers"
    toolset = imported.toolset(document.stem, name=title)
    if host.style == "${input:name}" and isinstance(document.value.get("inputs"), list):
        _read_inputs(toolset, Part(document.value))
    names: dict[str, str] = {}
    for name in source.value:
        server = source[name]
        if host.has_server(server.value):
            server_id = unused(suggest_id(name) or "server", names)
            names[server_id] = name
            _read_server(host, toolset.item("mcp_servers", id=server_id), server)
        else:
            message = "it has no command and no URL that a server can have: it is not a server of the output"
            imported.notes.append(Note(server.loc, message))
    odd = {server_id: name for server_id, name in names.items() if server_id != name}
    if odd:
        toolset.value["extensions"] = {host.name: {"names": odd}}


def _read_inputs(toolset: Node, source: Part) -> None:
    secrets = toolset.value.setdefault("secrets", [])
    for one in source.parts("inputs"):
        name = one.peek("id") if isinstance(one.value, dict) else None
        if isinstance(name, str) and variable_name(name) not in secrets:
            toolset.trace(("secrets", len(secrets)), one["id"].loc)
            secrets.append(variable_name(name))


def _read_server(host: Host, made: Node, server: Part) -> None:
    to_reference = partial(_to_reference, host)
    key = host.url_key(server)
    if host.lists_command and "command" in server:
        program, *args = changed(server.peek("command"), to_reference)
        made.set("command", server["command"][0], program)
        if args:
            made.value["args"] = args
        for position in range(len(args)):
            made.trace(("args", position), (*server.loc, "command", position + 1))
    elif key is None:
        made.copy(server, {"command": "command", "args": "args"}, to_reference)
    if key is None:
        made.copy(server, {"cwd": "cwd"}, to_reference)
    else:
        made.copy(server, {key: "url", host.headers: "headers"}, to_reference)
        if host.urls[key]:
            made.value["transport"] = host.urls[key]
        _read_header_variables(host, made, server)
    transport = host.types.get(str(server.peek("type")))
    if transport and (transport == "stdio") == (key is None):
        made.set("transport", server["type"], transport)
    for variable, value in server.entries(host.env) if key is None else ():
        if _ENV_NAME.fullmatch(variable):
            made.node("env").set(variable, value, to_reference(value.value))
    for item in server.parts(host.env_names[0]) if host.env_names and key is None else ():
        if isinstance(item.value, str) and _ENV_NAME.fullmatch(item.value):
            made.node("env").set(item.value, item, f"${{env:{item.value}}}")
    if host.off and host.off[0] in server:
        made.set("enabled", server[host.off[0]], server.peek(host.off[0]) != host.off[1])


def _read_header_variables(host: Host, made: Node, server: Part) -> None:
    if host.env_names is None:
        return
    _, bearer, headers = host.env_names
    variable = server.peek(bearer)
    if variable is not None and _ENV_NAME.fullmatch(variable):
        text = f"Bearer ${{env:{variable}}}"
        made.node("headers").set("Authorization", server[bearer], text)
    for name, variable in server.entries(headers):
        made.node("headers").set(name, variable, f"${{env:{variable.value}}}")


def _to_reference(host: Host, text: str) -> str:
    """Return a text with references of ``toolset.yaml``; other dollars are escaped."""
    if host.style == "${input:name}":
        text = _INPUT.sub(lambda found: f"${{{variable_name(found[1])}}}", text)
    elif host.style == "{env:NAME}":
        text = _BRACES.sub(r"${env:\1}", text)
    elif host.style == "$NAME":
        text = _BARE.sub(r"${\1}", text)
    found = escaped(text)
    return found if not malformed(found) else escaped(text.replace("${", "$\0{")).replace("\0", "")


def _from_reference(host: Host, part: Part) -> str:
    """Return a text with references in the form of the host."""
    text = part.use()
    found = [one.name for _, one in references(text)]
    if found and not host.style:
        names = ", ".join(dict.fromkeys(found))
        part.drop(
            f"{host.title} does not replace variables here: write the value of {names} into its file"
        )
    elif _FOLDER.search(text):
        part.drop(f"{host.title} does not know this folder: write its path into the file")
    return with_references(text, partial(_reference, host))


def _reference(host: Host, reference: Reference) -> str:
    name = reference.name
    if host.style == "${input:name}" and reference.place != "env":
        return f"${{input:{name.lower()}}}"
    if host.style in {"${input:name}", "${env:NAME}"}:
        return f"${{env:{name}}}"
    if host.style == "{env:NAME}":
        return f"{{env:{name}}}"
    if host.style == "${NAME}" and reference.default is not None:
        return f"${{{name}:-{reference.default}}}"
    return f"${{{name}}}"


def _write(host: Host, toolsets: Sequence[Part], _imported: Imported) -> Any:
    servers: JsonObject = {}
    secrets: list[str] = []
    for manifest in toolsets:
        manifest.take("id")
        names = _names(manifest)
        found = references(manifest.peek("mcp_servers", []))
        prompted = {one.name for _, one in found if one.place != "env"}
        secrets += [name for name in manifest.take("secrets", []) if name in prompted]
        for server in manifest.parts("mcp_servers"):
            server_id = server.take("id")
            written = _server(host, server)
            if written is not None:
                servers[names.get(server_id, server_id)] = written
    value: JsonObject = host.document(servers)
    if host.style == "${input:name}" and secrets:
        inputs = [
            {"type": "promptString", "id": name.lower(), "description": name, "password": True}
            for name in dict.fromkeys(secrets)
        ]
        value = {"inputs": inputs, **value}
    return value


def _names(manifest: Part) -> dict[str, str]:
    """Return the names in the input of servers whose name differs from their id."""
    found: dict[str, str] = {}
    for host in HOSTS:
        names = stored_extension(manifest.value, host.name).get("names")
        if names:
            found |= manifest["extensions"][host.name].take("names")
    return found


def _server(host: Host, server: Part) -> JsonObject | None:
    transport = server.take("transport", "")
    url_key = next((key for key, one in host.urls.items() if one in ("", transport or _HTTP)), None)
    if "url" in server and url_key is None:
        server.drop(f"{host.title} only starts programs, and this server has a URL")
        return None
    kind = transport or ("stdio" if "command" in server else _HTTP)
    types = {ours: theirs for theirs, ours in host.types.items()}
    made: JsonObject = {}
    if host.types and (transport or kind != "stdio" or host.lists_command):
        made["type"] = types.get(kind, types.get(_HTTP, ""))
    to_text = partial(_from_reference, host)
    keys = {"command": "command", "args": "args", "cwd": "cwd", "url": url_key or ""}
    made |= {keys[key]: server[key].mapped(to_text) for key in keys if key in server}
    if host.lists_command and "command" in made:
        made["command"] = [made["command"], *made.pop("args", ())]
    for ours, theirs in (("env", host.env), ("headers", host.headers)):
        entries = server.entries(ours)
        rest = [(name, one) for name, one in entries if not _write_variable(host, made, name, one)]
        if rest or server.peek(ours) == {}:
            made[theirs] = {name: to_text(one) for name, one in rest}
    if host.off and "enabled" in server:
        made[host.off[0]] = server.take("enabled") != host.off[1]
    if server.peek("requires_confirmation") is True:
        reason = f"{host.title} has its own settings for approvals"
        server["requires_confirmation"].drop(reason)
    return made


def _write_variable(host: Host, made: JsonObject, name: str, part: Part) -> bool:
    """Write a value that is a variable in the form of the host; return whether it has one."""
    found = _VARIABLE.fullmatch(part.value) if host.env_names else None
    if found is None or host.env_names is None:
        return False
    variables, bearer, headers = host.env_names
    is_header, is_bearer = part.loc[-2] == "headers", bool(found["bearer"])
    if is_bearer and name == "Authorization":
        made[bearer] = found["name"]
    elif is_header and not is_bearer:
        made.setdefault(headers, {})[name] = found["name"]
    elif not is_header and name == found["name"]:
        made.setdefault(variables, []).append(name)
    else:
        return False
    part.use()
    return True


def _format(host: Host) -> Format:
    return Format(
        name=host.name,
        title=host.title,
        kind=host.kind,
        file_name=host.file_name,
        recognize=partial(_recognize, host),
        read=partial(_read, host),
        write=partial(_write, host),
        schema=_schema(host),
        is_host_config=True,
        parts=host.path,
    )


_URLS: Final = frozenset(key for host in HOSTS for key in host.urls)
_OWN_KEYS: Final = frozenset({("servers",), ("mcp",)})
"""Keys that only one host has."""

FORMATS: Final = tuple(map(_format, HOSTS))
