"""The formats of MCP clients' configuration files: a table of hosts, and one reader and writer for all.

Only servers are converted.  Sources, as of November 2026: the documentation of Claude Desktop, Claude Code,
VS Code, Cursor, Windsurf, OpenCode, Codex, Gemini CLI, Zed, Cline, Continue, Goose and LM Studio.  For Cline,
Continue and Goose also the schemas in their source code (``McpHub``, ``config-yaml``, ``ExtensionConfig``).
"""

from __future__ import annotations

import copy
import functools
import math
import re
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.access.loaded_code import code_words, loaded_by
from covalt_git.credentials.named_values import is_secret
from covalt_git.errors import nearest_name
from covalt_git.formats.carried import stored_extension
from covalt_git.formats.http_texts import escaped, is_server_url, login_message, without_login
from covalt_git.formats.model import (
    Format,
    Imported,
    Note,
    Part,
    changed,
    unused,
    variable_name,
    with_values,
)
from covalt_git.formats.shapes import Schema, are_objects, schema_of
from covalt_git.json_values import canonical_json
from covalt_git.names import local_names, suggest_id
from covalt_git.templating.references import Reference, malformed, references, split, texts
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from covalt_git.formats.documents import Document, Kind
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_HTTP: Final = "streamable-http"
_TRANSPORTS: Final = {
    **dict.fromkeys(("http", _HTTP, "streamableHttp", "streamable_http", "remote"), _HTTP),
    **dict.fromkeys(("stdio", "local"), "stdio"),
    "sse": "sse",
}
"""The words of all hosts for a transport: people copy an entry from one host to another, and hosts add words."""

_PROMPT: Final = "prompt"
"""The approval of Codex for which it asks its user."""

_DISABLED: Final = "disabled_tools"
_ENABLED: Final = "enabled_tools"
_LOGIN: Final = "the login of the client has no effect in a toolset: covalt-git auth login, or a header with a reference to a secret"
_WITHOUT_EFFECT: Final = {
    **dict.fromkeys(("auth", "oauth", "authProviderType", "scopes"), _LOGIN),
    "headersHelper": "no toolset starts this program: write the headers that it prints, with references to secrets",
}
"""The keys of a server's login in all hosts, because people copy entries, and what to do instead."""

_NO_FOLDER: Final = "no server starts in the folder of the chat, which is $workspace in arguments"
_FOLDER_OF_PROJECT: Final = "the path begins in the folder of the client's project: a server starts only in a folder of its toolset"
_FOLDER_OUTSIDE: Final = "a server starts only in a folder of its toolset: copy the folder into it, and write its path there"
_FILE_OF_PROJECT: Final = re.compile(r"\.{1,2}/[^\s$]+")
_SCRIPT: Final = re.compile(
    r"[^\s/\\$@:=<>~-][^\s\\$@:=<>]*\.(?:py|pyz|[cm]?[jt]s|[jt]sx|sh|bash|rb|pl|php|lua|jar|phar|exe)"
)
"""Words that are files of the client's project: any that begin with a dot, and scripts."""

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INPUT = re.compile(r"\$\{input:([^{}]+)\}")
_BRACES = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(
    r"(?P<bearer>Bearer )?\$\{(?:env:|secret:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
)
_STYLES_WITH_DEFAULTS: Final = frozenset({"${NAME}", "${input:name}"})
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_OF_CONTINUE = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][\w.-]*)\s*\}\}")
_PLACE = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<name>workspace|toolset)\b|\{(?P<braced>workspace|toolset)\})"
)
_OF_EDITOR = re.compile(
    r"\$\{(?P<name>userHome|CLAUDE_PROJECT_DIR|cwd|pathSeparator|/|execPath|lineNumber|columnNumber|selectedText|defaultBuildTask"
    r"|(?:workspace|file|relativeFile)[A-Z]\w*|file|relativeFile|config(?=:)|command(?=:))(?::[^{}]*)?\}"
)
"""The predefined variables of VS Code, which Cursor has too.

Source: code.visualstudio.com/docs/reference/variables-reference.
"""

_FOLDERS_OUTSIDE: Final = {
    "userHome": "${env:HOME}",
    **dict.fromkeys(("pathSeparator", "/"), "/"),
}
_FOLDERS_OF_EDITOR: Final = {
    **dict.fromkeys(
        ("workspaceFolder", "workspaceRoot", "CLAUDE_PROJECT_DIR", "cwd"), "${workspace}"
    ),
    **_FOLDERS_OUTSIDE,
}


_FOLDERS_OF_PROJECT: Final = frozenset(
    {"CLAUDE_PROJECT_DIR", "workspaceFolder", "workspaceRoot", "userHome"}
)
"""The folders that people write in files of Claude Code too, in which other names are those of its environment."""

_HOME: Final = re.compile(r"(?<!\$)\$\{(?=(?:HOME|USERPROFILE)(?:\}|:-))")


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
        command: The key of the program.
        lists_servers: Whether the servers are a list of objects with a ``name``.
        repeats_names: Whether each server has its own name too.
        around_headers: The key of the object that has the headers, if it is not the server.
        header_style: How a header refers to a variable, if not as other texts do.
        folder: The variable of the folder that is open in the editor; the host has its other variables too.
        reads_folders: Whether a text can have the variables of the project's folder, which may have no value.
        own_folder: The variable of a plugin's folder, which a toolset calls ``$toolset``.
        is_of_plugin: Whether the servers come from a plugin's file that has the form of a project's.
        loose_env: Whether variables of the environment can be numbers, or null to unset them.
        defaults: What each written server has.
        settings: The keys of settings that several hosts have, their common names, and the milliseconds in a unit of
            time; 0 for lists of tools.
        top: What each written file has.
        approvals: The key of the approval of all tools, and those of one tool: of the tools, and of its approval.
        older_command: The keys that an object in place of the program has in older files, and those of the server.
        elsewhere: The keys, and the values if only some count, by which a server without a command and a URL is one that
            only this host can start; and the reason.
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
    command: str = "command"
    lists_servers: bool = False
    repeats_names: bool = False
    around_headers: str = ""
    header_style: str = ""
    folder: str = ""
    reads_folders: bool = False
    own_folder: str = ""
    is_of_plugin: bool = False
    defaults: Mapping[str, Any] = MappingProxyType({})
    top: Mapping[str, str] = MappingProxyType({})
    loose_env: bool = False
    settings: Mapping[str, tuple[str, int]] = MappingProxyType({})
    approvals: tuple[str, str, str] | None = None
    older_command: Mapping[str, str] = MappingProxyType({})
    elsewhere: tuple[Mapping[str, frozenset[str]], str] = (MappingProxyType({}), "")

    def document(self, servers: Any) -> Any:
        """Return a document with these servers by name, or with another value in their place."""
        if isinstance(servers, dict):
            servers = {name: self.named(name, server) for name, server in servers.items()}
            servers = [*servers.values()] if self.lists_servers else servers
        for key in reversed(self.path):
            servers = {**self.top, key: servers}
        return servers

    def named(self, name: str, server: JsonObject) -> JsonObject:
        """Return a server as the host has it under a name, which some hosts repeat in it."""
        return {"name": name, **server} if self.lists_servers or self.repeats_names else server

    def servers(self, document: Any) -> JsonObject | None:
        """Return the servers of a document by name, of which some can be wrong; None if it has no place for them."""
        for key in self.path:
            document = document.get(key) if isinstance(document, dict) else None
        if not self.lists_servers:
            return document if isinstance(document, dict) else None
        if not are_objects(document):
            return None
        # A server without a name is wrong, but its neighbours must stay readable: its position is its name.
        return {
            str(server.get("name", server.get("uses", at))): server
            for at, server in enumerate(document)
        }

    def around(self, document: Any) -> Any:
        """Return the part of a document, or the object, that has the servers, and ``inputs`` beside them."""
        return functools.reduce(lambda value, key: value[key], self.path[:-1], document)

    def server_parts(self, source: Part) -> list[tuple[str, Part]]:
        """Return the servers of a document that has the host's form, by name."""
        part = functools.reduce(Part.__getitem__, self.path, source)
        if self.lists_servers:
            return [(part[at].peek("name"), part[at]) for at in range(len(part.value))]
        return [(name, part[name]) for name in part.value]

    def url_key(self, server: JsonObject | Part) -> str | None:
        """Return the key of a server's URL; None if it has none."""
        return next((key for key in self.urls if key in server), None)

    def has_server(self, server: JsonObject) -> bool:
        """Return whether an entry is an MCP server: it has a command or a URL."""
        key = self.url_key(server)
        if key is None:
            return self.command in server
        return self.command not in server and is_server_url(server[key])

    def why_elsewhere(self, server: Any) -> str:
        """Return why only this host can start a server that has no command and no URL; empty if it has one, or is wrong."""
        keys, reason = self.elsewhere
        if not isinstance(server, dict) or self.command in server or self.url_key(server):
            return ""
        is_own = any(
            key in server and (not values or str(server[key]) in values)
            for key, values in keys.items()
        )
        return reason if is_own else ""

    def why_wrong(self, server: JsonObject) -> str:
        """Return why an entry is not an MCP server; empty if it is one."""
        key = self.url_key(server)
        if self.has_server(server):
            return ""
        if key is None:
            keys = [self.command, *self.urls]
            similar = [
                f"; did you mean {near!r} instead of {other!r}?"
                for other in server
                if (near := nearest_name(other, keys, cutoff=0.6)) is not None
            ]
            names = " and no ".join(map(repr, keys))
            return f"the server has no {names}" + "".join(similar[:1])
        if self.command in server:
            return f"the server has both {self.command!r} and {key!r}"
        return f"{key!r} is not a URL of http or https, or has a login"


_TYPES: Final = {"stdio": "stdio", "http": _HTTP, "sse": "sse"}
HOSTS: Final = (
    Host("claude-desktop", "Claude Desktop", "claude_desktop_config.json", ("mcpServers",), {}, {}, style=""),
    Host("claude-code", "Claude Code", ".mcp.json", ("mcpServers",), {"url": ""}, _TYPES, more=frozenset({"oauth", "headersHelper", "timeout"}), own_folder="${CLAUDE_PLUGIN_ROOT}", reads_folders=True, settings={"timeout": ("call_timeout", 1)}),
    Host("claude-plugin", "a plugin of Claude Code", ".mcp.json", (), {"url": ""}, _TYPES, own_folder="${CLAUDE_PLUGIN_ROOT}", reads_folders=True),
    Host("vscode", "VS Code", ".vscode/mcp.json", ("servers",), {"url": ""}, _TYPES, style="${input:name}", folder="${workspaceFolder}", loose_env=True),
    Host("vscode-settings", "settings of VS Code", ".vscode/settings.json", ("mcp", "servers"), {"url": ""}, _TYPES, style="${input:name}", folder="${workspaceFolder}", loose_env=True),
    Host("cursor", "Cursor", ".cursor/mcp.json", ("mcpServers",), {"url": ""}, _TYPES, style="${env:NAME}", more=frozenset({"envFile", "auth"}), folder="${workspaceFolder}"),
    Host("windsurf", "Windsurf", "mcp_config.json", ("mcpServers",), {"serverUrl": "", "url": ""}, {}, off=("disabled", True), style="${env:NAME}", more=frozenset({"disabledTools", "alwaysAllow"}), settings={"disabledTools": ("disabled_tools", 0)}),
    Host("opencode", "OpenCode", "opencode.json", ("mcp",), {"url": ""}, {"local": "stdio", "remote": _HTTP}, env="environment", off=("enabled", False), style="{env:NAME}", lists_command=True, settings={"timeout": ("call_timeout", 1)}, elsewhere=({"enabled": frozenset()}, "a switch for a server of another configuration of OpenCode, which has its command or URL")),
    Host("codex", "Codex", "config.toml", ("mcp_servers",), {"url": ""}, {}, kind="toml", headers="http_headers", off=("enabled", False), style="", env_names=("env_vars", "bearer_token_env_var", "env_http_headers"), approvals=("default_tools_approval_mode", "tools", "approval_mode"), settings={"tool_timeout_sec": ("call_timeout", 1000), "startup_timeout_sec": ("start_timeout", 1000), "enabled_tools": ("enabled_tools", 0), "disabled_tools": ("disabled_tools", 0)}),
    Host("gemini-cli", "Gemini CLI", "settings.json", ("mcpServers",), {"httpUrl": _HTTP, "url": "sse"}, {}, style="$NAME", more=frozenset({"timeout", "trust", "includeTools", "excludeTools", "description", "authProviderType", "oauth"}), settings={"timeout": ("call_timeout", 1), "includeTools": ("enabled_tools", 0), "excludeTools": ("disabled_tools", 0)}),
    Host("zed", "Zed", ".zed/settings.json", ("context_servers",), {"url": ""}, {}, off=("enabled", False), style="", defaults={"source": "custom"}, older_command={"path": "command", "args": "args", "env": "env"}, elsewhere=({"settings": frozenset(), "source": frozenset({"extension"})}, "an extension of Zed starts this server: write its command, or its URL")),
    Host("cline", "Cline", "cline_mcp_settings.json", ("mcpServers",), {"url": "sse"}, {"stdio": "stdio", "streamableHttp": _HTTP, "sse": "sse"}, off=("disabled", True), style="${env:NAME}", more=frozenset({"autoApprove", "alwaysAllow", "timeout", "transportType"}), settings={"timeout": ("call_timeout", 1000)}),
    Host("continue", "Continue", ".continue/config.yaml", ("mcpServers",), {"url": ""}, {"stdio": "stdio", "streamable-http": _HTTP, "sse": "sse"}, kind="yaml", style="${{ secrets.NAME }}", lists_servers=True, around_headers="requestOptions", settings={"connectionTimeout": ("start_timeout", 1)}, top={"name": "MCP servers", "version": "0.0.1", "schema": "v1"}, elsewhere=({"uses": frozenset()}, "a block of the hub of Continue, which has the server's command: write it instead of uses")),
    Host("goose", "Goose", "goose/config.yaml", ("extensions",), {"uri": ""}, {"stdio": "stdio", "streamable_http": _HTTP, "sse": "sse"}, kind="yaml", env="envs", off=("enabled", False), style="", env_names=("env_keys", "", ""), command="cmd", repeats_names=True, header_style="$NAME", defaults={"enabled": True, "description": "", "timeout": 300}, settings={"timeout": ("call_timeout", 1000), "available_tools": ("enabled_tools", 0)}, elsewhere=({"type": frozenset({"builtin", "platform", "frontend", "inline_python"})}, "an extension that runs in Goose itself, without a server's command or URL")),
    Host("lm-studio", "LM Studio", ".lmstudio/mcp.json", ("mcpServers",), {"url": ""}, {}, style="", more=frozenset({"timeout"}), settings={"timeout": ("call_timeout", 1)}),
)  # fmt: skip
"""The hosts whose files can be read and written."""


def _server_shape(host: Host) -> dict[str, Any]:
    shape: dict[str, Any] = {
        host.command: Schema({"type": "array", "items": {"type": "string"}, "minItems": 1})
        if host.lists_command
        else str,
        "args": [str],
        "cwd": str,
        host.env: {str: str},
        **dict.fromkeys(host.urls, str),
    }
    headers: dict[str, Any] = {host.headers: {str: str}}
    shape = {**shape, **({host.around_headers: headers} if host.around_headers else headers)}
    if host.types:
        shape["type"] = str
    if host.off:
        shape[host.off[0]] = bool
    if host.env_names:
        variables, bearer, header_variables = host.env_names
        shape[variables] = list
        if bearer:
            shape |= {bearer: str, header_variables: {str: str}}
    return shape


def _schema(host: Host) -> JsonObject:
    server = _server_shape(host)
    shape: Any = [{"name!": str, **server}] if host.lists_servers else {str: server}
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
    if host.kind == "yaml" and not host.lists_servers:  # a toolset has ``extensions`` too
        return bool(servers) and all(
            isinstance(server, dict) and "type" in server for server in servers.values()
        )
    if host.kind != "json" or not servers:
        return bool(host.path)
    objects = [item for item in servers.values() if isinstance(item, dict)]
    names_known = [
        item for item in objects if "command" in item or any(map(item.__contains__, _URLS))
    ]
    if not host.path:  # the document itself, which can be anything
        keys = {*_server_shape(host), *host.more}
        return len(names_known) == len(servers) and all(item.keys() <= keys for item in names_known)
    if f"/{document.path}".endswith(f"/{host.file_name}"):
        return bool(names_known)
    # Several hosts have the same key for servers; the own keys of a host are what distinguishes their files.
    others = [item for item in HOSTS if (item.path, item.kind) == (host.path, host.kind)]
    fewest = min(_unknown_keys(item, names_known) for item in others)
    return bool(names_known) and _unknown_keys(host, names_known) == fewest


def _unknown_keys(host: Host, servers: Sequence[JsonObject]) -> int:
    """Return how many keys of servers a host does not know; Gemini CLI reads ``url`` as the URL of SSE only itself."""
    keys = {*_server_shape(host), *host.more}
    own = {key for key, transport in host.urls.items() if transport == "sse"}
    shows_host = any((host.more | host.urls.keys()) - own & server.keys() for server in servers)
    hidden = () if shows_host else own
    return sum(key not in keys or key in hidden for server in servers for key in server)


def _correct(host: Host, document: Any) -> tuple[Any, list[Note]]:
    """Return a document whose servers have the present form of the host, and no login in a URL."""
    servers = host.servers(document) if isinstance(document, dict) else None
    values: dict[Loc, Any] = {}
    notes = []
    for at, (name, entry) in enumerate((servers or {}).items()):
        if not isinstance(entry, dict):
            continue
        loc = (*host.path, at if host.lists_servers else name)
        server, odd = _with_texts(host, entry)
        if odd:
            values[loc] = server
            notes += [Note((*loc, host.env, key), message) for key, message in odd.items()]
        older = server.get(host.command) if host.older_command else None
        if isinstance(older, dict) and older.keys() <= host.older_command.keys():
            rest = {key: value for key, value in server.items() if key != host.command}
            present = {host.older_command[key]: value for key, value in older.items()}
            values[loc] = {**present, **rest}
            message = (
                f"an older form of {host.title}: the parts of {host.command} are keys of the server"
            )
            notes.append(Note((*loc, host.command), message))
        with_header = _with_login_as_header(host, server)
        if with_header is not None:
            values[loc], message = with_header
            notes.append(Note((*loc, host.url_key(server) or ""), message))
    return with_values(document, values), notes


def _keyed(host: Host, document: Any) -> list[tuple[str | int, Any]]:
    """Return the servers of a document by their keys or positions."""
    servers = host.servers(document) if isinstance(document, dict) else None
    items = (servers or {}).items()
    return [*enumerate(servers.values())] if host.lists_servers and servers else [*items]


def _check(host: Host, document: Any) -> list[tuple[Loc, str]]:
    """Return the servers without a command and a URL, which would vanish from the output."""
    return [
        ((*host.path, name), host.why_wrong(server))
        for name, server in _keyed(host, document)
        # A value of another type is a problem of the schema.
        if isinstance(server, dict)
        and isinstance(server.get(host.url_key(server) or "", ""), str)
        and host.why_wrong(server)
    ]


def _elsewhere(host: Host, document: Any) -> dict[str | int, str]:
    """Return the servers that only their host can start, and why."""
    reasons = {name: host.why_elsewhere(server) for name, server in _keyed(host, document)}
    return {name: why for name, why in reasons.items() if why}


def _with_texts(host: Host, server: JsonObject) -> tuple[JsonObject, dict[str, str]]:
    """Return a server whose variables are texts, as VS Code sets them, and a message for each that was none."""
    variables = server.get(host.env)
    if not host.loose_env or not isinstance(variables, dict):
        return server, {}
    texts_of_variables: JsonObject = {}
    messages: dict[str, str] = {}
    for key, value in variables.items():
        if value is None:
            messages[key] = "null unsets the variable: the output does not set it"
        elif type(value) in {int, float}:
            messages[key] = "the number is written as text"
            texts_of_variables[key] = canonical_json.dumps(value).decode()
        else:
            texts_of_variables[key] = value
    return {**server, host.env: texts_of_variables}, messages


def _with_login_as_header(host: Host, server: JsonObject) -> tuple[JsonObject, str] | None:
    """Return a server with the login of its URL as the header that a client makes of it, and a note; None without one."""
    key = host.url_key(server)
    text = server[key] if key is not None else None
    url, header = without_login(text) if isinstance(text, str) else ("", "")
    around = server.get(host.around_headers, {}) if host.around_headers else server
    headers = around.get(host.headers, {}) if isinstance(around, dict) else None
    if key is None or not header or not isinstance(headers, dict):
        return None
    more = {host.headers: {**headers, "Authorization": header}}
    more = {host.around_headers: {**around, **more}} if host.around_headers else more
    return {**server, key: url, **more}, login_message(header)


def _read(host: Host, document: Document, imported: Imported) -> None:
    source = Part(document.value)
    servers = host.server_parts(source)
    toolset = imported.toolset(
        document.stem, name=servers[0][0] if len(servers) == 1 else "MCP servers"
    )
    # Other clients read files of VS Code too, and people copy its entries to them.
    around: Part = host.around(source)
    inputs = _read_inputs(toolset, around) if isinstance(around.peek("inputs"), list) else {}
    credentials = {note.secret for note in imported.notes}
    names: dict[str, str] = {}
    for name, server in servers:
        if host.has_server(server.value):
            server_id = unused(suggest_id(name) or "server", names)
            names[server_id] = name
            output = toolset.item("mcp_servers", id=server_id)
            _read_server(host, output, server, inputs)
            if "url" in output.value:
                url = _plain_variables(host, output.value["url"], credentials)
                output.value["url"] = url
            _read_settings(host, output, server, imported)
            _read_disabled_tools(host, toolset, server_id, server)
            _read_approvals(host, toolset, output, server)
            imported.notes += _notes(host, server)
            if "command" in output.value:
                _read_folder(host, output, server, imported, inputs)
                imported.without_effect += _files_of_project(host, server)
    # Ids of toolset.yaml are stricter than names of servers, and a host shows the name to its user.
    odd = {server_id: name for server_id, name in names.items() if server_id != name}
    if odd:
        toolset.value["extensions"] = {host.name: {"names": odd}}


def _read_inputs(toolset: Node, source: Part) -> dict[str, str]:
    """Return the references in place of ``${input:NAME}``; inputs for credentials become secrets."""
    others: dict[str, str] = {}
    for part in source.parts("inputs"):
        name = part.peek("id") if isinstance(part.value, dict) else None
        if not isinstance(name, str):
            continue
        variable = variable_name(name)
        default = part.peek("default")
        if part.peek("password") is True or is_secret(name):
            secrets = toolset.value.setdefault("secrets", [])
            if variable not in secrets:
                toolset.trace(("secrets", len(secrets)), part["id"].loc)
                secrets.append(variable)
        elif isinstance(default, str) and default and not {*"${}"} & {*default}:
            others[name] = f"${{env:{variable}:-{default}}}"
        else:
            others[name] = f"${{env:{variable}}}"
    return others


def _notes(host: Host, server: Part) -> Iterator[Note]:
    """Yield what a server refers to and no toolset has: a file of variables, and variables of the editor."""
    if isinstance(server.peek("envFile"), str):
        message = f"the variables of {server.peek('envFile')!r} are not read: add those that the server needs to env"
        yield Note(server["envFile"].loc, message)
    for loc, text in texts(server.value) if host.own_folder else ():
        if host.own_folder in text:
            message = f"{host.own_folder} is $toolset: put the files of the plugin beside the toolset.yaml"
            yield Note((*server.loc, *loc), message)
    code = _code_places(host, server.value)
    for loc, text in texts(server.value):
        for variable in _folder_variables(host, text):
            other = _FOLDERS_OF_EDITOR.get(variable["name"])
            # A working directory in the editor's folder is lost.
            is_cwd = loc == ("cwd",) and other == "${workspace}"
            if is_cwd or loc[0] == "envFile" or other not in {"${workspace}", None}:
                continue
            elif other is None:
                message = f"{variable[0]} has a value in {host.title} only, and stays as text"
            elif loc in code:
                fate = (
                    f"{loc[1]} is left out"
                    if loc[0] == host.env
                    else f"{variable[0]} stays as text"
                )
                message = f"{fate}: a server must load no code from the workspace, where tools write; put it into the toolset"
            else:
                message = f"{variable[0]} is $workspace, the folder of the chat"
            yield Note((*server.loc, *loc), message)


def _folder_variables(host: Host, text: str) -> list[re.Match[str]]:
    """Return the predefined variables of the host in a text."""
    return [
        variable
        for variable in _OF_EDITOR.finditer(text)
        if host.folder or (host.reads_folders and variable["name"] in _FOLDERS_OF_PROJECT)
    ]


def _code_places(host: Host, server: JsonObject) -> frozenset[Loc]:
    """Return the places in a server of the words and variables that programs load code by.

    Without the variable of a folder that tools write in, no place matters.
    """
    if not host.folder and not host.reads_folders:
        return frozenset()
    argv = [server.get(host.command, ""), *(server.get("args") or ())]
    words = [("args", at - 1) if at else (host.command,) for at in code_words(argv)]
    return frozenset(
        (*words, *((host.env, name) for name in server.get(host.env) or () if loaded_by(name)))
    )


def _read_server(host: Host, output: Node, server: Part, inputs: Mapping[str, str]) -> None:
    to_reference = partial(_to_reference, host, inputs)
    code = _code_places(host, server.value)
    key = host.url_key(server)
    if host.lists_command and "command" in server:
        program, *args = changed(server.peek("command"), to_reference)
        output.set("command", server["command"][0], program)
        if args:
            output.value["args"] = args
        for position in range(len(args)):
            output.trace(("args", position), (*server.loc, "command", position + 1))
    elif key is None:
        output.copy(server, {host.command: "command", "args": "args"}, to_reference)
    if key is None:
        for loc in code:
            if loc[0] == "args":
                word = server["args"][int(loc[1])].value
                output.value["args"][loc[1]] = to_reference(word, folders=_FOLDERS_OUTSIDE)
            elif loc[0] == host.command:
                word = server[host.command].value
                output.value["command"] = to_reference(word, folders=_FOLDERS_OUTSIDE)
    else:
        output.copy(server, {key: "url"}, to_reference)
        around = server.get(host.around_headers) if host.around_headers else server
        if around is not None:
            to_header = partial(to_reference, style=host.header_style)
            output.copy(around, {host.headers: "headers"}, to_header)
        if host.urls[key]:
            output.value["transport"] = host.urls[key]
        _read_header_variables(host, output, server)
    for word in ("type", "transportType", "transport"):
        transport = _TRANSPORTS.get(str(server.peek(word)))
        if transport and (transport == "stdio") == (key is None):
            output.set("transport", server[word], transport)
            break
    for variable, value in server.entries(host.env) if key is None else ():
        reference = to_reference(value.value)
        is_code = (host.env, variable) in code and "${workspace}" in reference
        if _ENV_NAME.fullmatch(variable) and not is_code:
            output.node("env").set(variable, value, reference)
    variables, is_of_environment, _ = host.env_names or ("", "", "")
    for item in server.parts(variables) if variables and key is None else ():
        if isinstance(item.value, str) and _ENV_NAME.fullmatch(item.value):
            # Codex reads its environment, Goose its own store of secrets.
            place = "env:" if is_of_environment else ""
            output.node("env").set(item.value, item, f"${{{place}{item.value}}}")
    if host.off and host.off[0] in server:
        output.set("enabled", server[host.off[0]], server.peek(host.off[0]) != host.off[1])


def _read_folder(
    host: Host, output: Node, server: Part, imported: Imported, inputs: Mapping[str, str]
) -> None:
    """Add the working directory if it is in the toolset; any other is for clients only, since the server never starts in it."""
    folder = server.peek("cwd")
    if not isinstance(folder, str) or not folder:
        return
    text = _to_reference(host, inputs, folder)
    if text.startswith("${toolset}"):
        output.set("cwd", server["cwd"], text)
        return
    imported.settings.setdefault(output.loc, {})["cwd"] = text
    output.trace(("cwd",), server["cwd"].loc)
    if text.startswith("${workspace}"):
        reason = _NO_FOLDER
    elif text.startswith(("/", "~", "$", "\\")) or text[1:2] == ":":
        reason = _FOLDER_OUTSIDE
    else:
        reason = _FOLDER_OF_PROJECT
    imported.lost[server["cwd"].loc] = reason


def _files_of_project(host: Host, server: Part) -> Iterator[Note]:
    """Yield a note for each word of a command that is a file of the client's project, which the toolset does not have."""
    command = server.peek(host.command)
    words = list(command) if isinstance(command, list) else [command]
    places: list[Loc] = [(host.command, at) for at in range(len(words))]
    if not isinstance(command, list):
        places = [(host.command,)]
        arguments = server.peek("args") or []
        words += arguments
        places += [("args", at) for at in range(len(arguments))]
    code = code_words(words)
    for at, (word, place) in enumerate(zip(words, places, strict=True)):
        if _FILE_OF_PROJECT.fullmatch(word) or (at in code and _SCRIPT.fullmatch(word)):
            name = word.rpartition("/")[2] or word
            message = (
                f"{word!r} is in the folder of the client's project, not in the toolset: copy it beside the toolset.yaml,"
                f" and write ${{toolset}}/{name}"
            )
            yield Note((*server.loc, *place), message)


def _read_settings(host: Host, output: Node, server: Part, imported: Imported) -> None:
    """Add what only clients have, with common names and times in milliseconds, and what says nothing."""
    imported.implied |= {(*server.loc, key) for key in server.value if not _says(server.peek(key))}
    kind = server.get("transport")
    if kind is not None and isinstance(kind.value, dict) and kind.peek("type") == "stdio":
        imported.implied.add(kind["type"].loc)
    imported.without_effect += [
        Note(server[key].loc, message)
        for key, message in _WITHOUT_EFFECT.items()
        if _says(server.peek(key)) and server.peek(key) is not False
    ]
    for key, (name, unit) in host.settings.items():
        value = server.peek(key)
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if unit and isinstance(value, int | float) and not isinstance(value, bool):
            value = value * unit
        elif unit or not is_list or not value or name == _DISABLED:
            continue
        if name == _ENABLED:
            tools = ", ".join(map(repr, value))
            message = (
                f"{key} has no effect in a toolset: accept only the tools {shorten(tools, 200)}"
            )
            imported.without_effect.append(Note(server[key].loc, message))
        imported.settings.setdefault(output.loc, {})[name] = value
        output.trace((name,), server[key].loc)


def _read_disabled_tools(host: Host, toolset: Node, server_id: str, server: Part) -> None:
    """Add an override for each tool that the host does not offer."""
    own = [key for key, (name, _) in host.settings.items() if name == _DISABLED]
    for key in (*own, *sorted(_KEYS_OF_DISABLED.difference(own))):
        value = server.peek(key)
        names = value if isinstance(value, list) else []
        ids = local_names(item for item in names if isinstance(item, str))
        for at, item in enumerate(names):
            if isinstance(item, str) and item and item not in names[:at]:
                override = toolset.item("tool_overrides")
                override.set("tool_id", server[key][at], f"{server_id}:{ids[item]}")
                override.value["enabled"] = False


def _read_approvals(host: Host, toolset: Node, output: Node, server: Part) -> None:
    """Require the confirmation of calls for which the host asks its user."""
    if host.approvals is None:
        return
    of_all, key, of_tool = host.approvals
    if server.peek(of_all) == _PROMPT:
        output.set("requires_confirmation", server[of_all], value=True)
    tools = server.peek(key)
    names = [name for name in tools if name] if isinstance(tools, dict) else []
    ids = local_names(names)
    for name in names:
        tool = server[key][name]
        if not isinstance(tool.value, dict) or tool.peek(of_tool) != _PROMPT:
            continue
        tool_id = f"{output.value['id']}:{ids[name]}"
        overrides = toolset.value.setdefault("tool_overrides", [])
        at = next((at for at, item in enumerate(overrides) if item["tool_id"] == tool_id), None)
        if at is None:
            at = len(overrides)
            overrides.append({"tool_id": tool_id})
        overrides[at]["requires_confirmation"] = True
        toolset.trace(("tool_overrides", at, "requires_confirmation"), tool[of_tool].loc)


def _write_approvals(host: Host, manifest: Part, server_id: str, output: JsonObject) -> None:
    """Add the tools of a server whose calls need a confirmation, if the host has keys for them."""
    for override in manifest.parts("tool_overrides") if host.approvals is not None else ():
        namespace, _, name = override.peek("tool_id").rpartition(":")
        if namespace == server_id and override.peek("requires_confirmation") is True:
            assert host.approvals is not None
            _, key, of_tool = host.approvals
            override.take("tool_id")
            override.take("requires_confirmation")
            output.setdefault(key, {})[name] = {of_tool: _PROMPT}


def _write_disabled_tools(host: Host, manifest: Part, server_id: str, output: JsonObject) -> None:
    """Add the tools of a server that the toolset disables, if the host has a key for them."""
    keys = [key for key, (name, _) in host.settings.items() if name == _DISABLED]
    for override in manifest.parts("tool_overrides"):
        namespace, _, name = override.peek("tool_id").rpartition(":")
        if namespace != server_id or override.peek("enabled") is not False:
            continue
        if keys:
            override.take("enabled")
            output.setdefault(keys[0], []).append(override["tool_id"].use().rpartition(":")[2])
        else:
            override.drop_keys(
                f"{host.title} has no list of disabled tools: disable {name!r} there",
                *override.value,
            )


def _says(value: Any) -> bool:
    """Return whether a setting of a server says more than its absence."""
    return value is not None and value not in ("", [], {})


def _read_header_variables(host: Host, output: Node, server: Part) -> None:
    if host.env_names is None or not host.env_names[1]:
        return
    _, bearer, headers = host.env_names
    variable = server.peek(bearer)
    if variable is not None and _ENV_NAME.fullmatch(variable):
        text = f"Bearer ${{env:{variable}}}"
        output.node("headers").set("Authorization", server[bearer], text)
    for name, variable in server.entries(headers):
        output.node("headers").set(name, variable, f"${{env:{variable.value}}}")


def _to_reference(
    host: Host,
    inputs: Mapping[str, str],
    text: str,
    *,
    style: str = "",
    folders: Mapping[str, str] = _FOLDERS_OF_EDITOR,
) -> str:
    """Return a text with references of ``toolset.yaml``; other dollars are escaped."""
    style = style or host.style
    text = _INPUT.sub(
        lambda variable: inputs.get(variable[1], f"${{{variable_name(variable[1])}}}"), text
    )
    if style == "{env:NAME}":
        text = _BRACES.sub(r"${env:\1}", text)
    elif style == "$NAME":
        text = _BARE.sub(r"${\1}", text)
    elif style == "${{ secrets.NAME }}":
        text = _OF_CONTINUE.sub(lambda variable: f"${{{variable_name(variable[1])}}}", text)
    if host.own_folder and host.own_folder in text:
        parts = text.split(host.own_folder)
        to_part = partial(_to_reference, host, inputs, style=style, folders=folders)
        return "${toolset}".join(map(to_part, parts))
    pieces: list[str] = []
    end = 0
    # They look like variables of the environment, and would become secrets that the user has to set.
    for variable in _folder_variables(host, text):
        name = variable["name"]
        other = folders.get(name, f"$${variable[0][1:]}")
        pieces += [_escaped(text[end : variable.start()]), other]
        end = variable.end()
    # The home folder is no secret, in whatever form a host has variables.
    return _HOME.sub("${env:", "".join([*pieces, _escaped(text[end:])]))


def _plain_variables(host: Host, url: str, credentials: Collection[str]) -> str:
    """Return a URL in which a variable without the name of a credential is no secret, so that its host is reviewable.

    The host has one form for variables and secrets; ``credentials`` are names that replace literal ones.
    """
    if host.style not in {"${NAME}", "$NAME"}:
        return url
    pieces = [
        piece if isinstance(piece, str) else _plain_variable(piece, credentials)
        for piece in split(url)
    ]
    return "".join(pieces)


def _plain_variable(reference: Reference, credentials: Collection[str]) -> str:
    name = reference.name
    if reference.place != "any" or name in credentials or is_secret(name):
        return reference.text
    return reference.text.replace("${", "${env:", 1)


def _escaped(text: str) -> str:
    plain = escaped(text)
    return plain if not malformed(plain) else escaped(text.replace("${", "$\0{")).replace("\0", "")


def _from_reference(host: Host, part: Part) -> str:
    """Return a text with references in the form of the host."""
    text = part.use()
    named = [reference for _, reference in references(text)]
    names = [reference.name for reference in named]
    defaults = {
        reference.name: reference.default for reference in named if reference.default is not None
    }
    is_header = len(part.loc) > 1 and part.loc[-2] == "headers"
    style = host.header_style if is_header and host.header_style else host.style
    if names and not style:
        listed = ", ".join(_with_default(name, defaults) for name in dict.fromkeys(names))
        part.drop(
            f"{host.title} does not replace variables here: write the value of {listed} into its file"
        )
    elif defaults and style not in _STYLES_WITH_DEFAULTS:
        listed = ", ".join(_with_default(name, defaults) for name in defaults)
        part.drop(f"{host.title} has no default of a variable here: set {listed}")
    folders = {place["name"] or place["braced"] for place in _PLACE.finditer(text)} - {None}
    folders -= {name for name in ("workspace", "toolset") if _folder_of(host, name)}
    if folders:
        listed = " or ".join(f"${name}" for name in sorted(folders))
        part.drop(f"{host.title} has no variable for {listed}: write the path into its file")
    return "".join(
        _PLACE.sub(partial(_folder, host), piece)
        if isinstance(piece, str)
        else _reference(style, piece)
        for piece in split(text)
    )


def _with_default(name: str, defaults: Mapping[str, str]) -> str:
    return f"{name} (by default {shorten(defaults[name], 100)!r})" if name in defaults else name


def _folder(host: Host, place: re.Match[str]) -> str:
    """Return what a host has for an escaped dollar, or for the variable of a folder."""
    if place["escaped"]:
        return "$"
    return _folder_of(host, place["name"] or place["braced"]) or place[0]


def _folder_of(host: Host, name: str) -> str:
    """Return the variable of a host for the folder of the chat or of the toolset; empty if it has none."""
    # Outside of a plugin, Claude Code does not set the variable.
    own = host.own_folder if not host.path or host.is_of_plugin else ""
    return host.folder if name == "workspace" else own


def _reference(style: str, reference: Reference) -> str:
    name = reference.name
    # A variable of VS Code's environment has no default, an input has.
    if style == "${input:name}" and (reference.place != "env" or reference.default is not None):
        return f"${{input:{name.lower()}}}"
    if style in {"${input:name}", "${env:NAME}"}:
        return f"${{env:{name}}}"
    if style == "{env:NAME}":
        return f"{{env:{name}}}"
    if style == "${{ secrets.NAME }}":
        return f"${{{{ secrets.{name} }}}}"
    if style == "${NAME}" and reference.default is not None:
        return f"${{{name}:-{reference.default}}}"
    return f"${{{name}}}"


def _write(host: Host, toolsets: Sequence[Part], _imported: Imported) -> Any:
    servers: JsonObject = {}
    secrets: list[str] = []
    defaults: dict[str, str] = {}
    for manifest in toolsets:
        manifest.take("id")
        names = _names(manifest)
        # A project's file of Claude Code that named the folder of a plugin gets it back.
        earlier = stored_extension(manifest.value, host.name)
        is_of_plugin = bool(host.own_folder) and any(
            host.own_folder in text for _, text in texts(earlier)
        )
        of_manifest = host._replace(is_of_plugin=is_of_plugin)
        in_servers = [*references(manifest.peek("mcp_servers", []))]
        prompted = {reference.name for _, reference in in_servers if reference.place != "env"}
        secrets += [name for name in manifest.take("secrets", []) if name in prompted]
        for server in manifest.parts("mcp_servers"):
            server_id = server.take("id")
            written = written_server(of_manifest, server)
            if written is not None:
                _write_disabled_tools(host, manifest, server_id, written)
                _write_approvals(host, manifest, server_id, written)
                servers[names.get(server_id, server_id)] = written
        for loc, reference in in_servers if host.style == "${input:name}" else ():
            if reference.default is None:
                continue
            first = defaults.setdefault(reference.name, reference.default)
            if reference.default != first:
                part = functools.reduce(Part.__getitem__, loc, manifest["mcp_servers"])
                part.drop(f"the input for {reference.name} has the default {shorten(first, 100)!r}")
    value: JsonObject = host.document(servers)
    if host.top and len(toolsets) == 1:
        value["name"] = toolsets[0].take("name")
    if host.style == "${input:name}" and (secrets or defaults):
        inputs = [
            {
                "type": "promptString",
                "id": name.lower(),
                "description": name,
                **({"password": True} if name in secrets else {}),
                **({"default": defaults[name]} if name in defaults else {}),
            }
            for name in dict.fromkeys((*secrets, *defaults))
        ]
        around = host.around(value)
        # First, as VS Code writes them.
        servers_of_host = dict(around)
        around.clear()
        around |= {"inputs": inputs, **servers_of_host}
    return value


def _complete(host: Host, value: Any, plain: Any, secrets: Collection[str]) -> Any:
    """Return a restored document with the inputs of these secrets: a list of inputs is carried as a whole."""
    if host.style != "${input:name}":
        return value
    completed = copy.deepcopy(value)
    around = host.around(completed)
    inputs = around.get("inputs", [])
    if not isinstance(inputs, list):
        return value
    defined = [item.get("id") for item in inputs if isinstance(item, dict)]
    named = {name.lower() for name in secrets}.difference(map(str, defined))
    more = [item for item in host.around(plain).get("inputs", ()) if item["id"] in named]
    around["inputs"] = [*inputs, *more]
    return completed if more else value


def _names(manifest: Part) -> dict[str, str]:
    """Return the names in the input of servers whose name differs from their id."""
    original: dict[str, str] = {}
    for host in HOSTS:
        names = stored_extension(manifest.value, host.name).get("names")
        if names:
            original |= manifest["extensions"][host.name].take("names")
    return original


def written_server(host: Host, server: Part) -> JsonObject | None:
    """Return a server of ``mcp_servers`` in the form of a host; None if the host cannot have it."""
    transport = server.take("transport", "")
    url_key = next(
        (
            key
            for key, implied in host.urls.items()
            if host.types or implied in ("", transport or _HTTP)
        ),
        None,
    )
    if "url" in server and url_key is None:
        server.drop(f"{host.title} only starts programs, and this server has a URL")
        return None
    kind = transport or ("stdio" if "command" in server else _HTTP)
    types = {ours: theirs for theirs, ours in host.types.items()}
    output: JsonObject = dict(host.defaults)
    if host.types and (transport or kind != "stdio" or host.lists_command or host.defaults):
        output["type"] = types.get(kind, types.get(_HTTP, ""))
    to_text = partial(_from_reference, host)
    keys = {"command": host.command, "args": "args", "cwd": "cwd", "url": url_key or ""}
    output |= {keys[key]: server[key].mapped(to_text) for key in keys if key in server}
    if host.lists_command and "command" in output:
        output["command"] = [output["command"], *output.pop("args", ())]
    for ours, theirs in (("env", host.env), ("headers", host.headers)):
        entries = server.entries(ours)
        rest = [
            (name, value)
            for name, value in entries
            if not _write_variable(host, output, name, value)
        ]
        if rest or server.peek(ours) == {}:
            is_inner = ours == "headers" and host.around_headers
            around = output.setdefault(host.around_headers, {}) if is_inner else output
            around[theirs] = {name: to_text(value) for name, value in rest}
        if ours == "headers" and host.header_style and host.env_names:
            names = {reference.name for _, reference in references(server.peek(ours, {}))}
            if names:
                output[host.env_names[0]] = sorted(names)
    if "enabled" in server and (host.off or server.peek("enabled") is True):
        is_enabled = server.take("enabled")
        if host.off:
            output[host.off[0]] = is_enabled != host.off[1]
    for key, (name, unit) in host.settings.items():
        if name in server:
            value = server[name].mapped(Part.use)
            output[key] = math.ceil(value / unit) if unit else value
    common = dict(host.settings.values())
    if "start_timeout" in common and "call_timeout" not in common:
        server.drop_keys(f"{host.title} limits the time of the connection only", "call_timeout")
    if server.peek("requires_confirmation") is True and host.approvals is not None:
        server.take("requires_confirmation")
        output[host.approvals[0]] = _PROMPT
    elif server.peek("requires_confirmation") is True:
        reason = f"{host.title} has its own settings for approvals"
        server["requires_confirmation"].drop(reason)
    return output


def _write_variable(host: Host, output: JsonObject, name: str, part: Part) -> bool:
    """Write a value that is a variable in the form of the host; return whether it has one."""
    variable = _VARIABLE.fullmatch(part.value) if host.env_names else None
    if variable is None or host.env_names is None:
        return False
    variables, bearer, headers = host.env_names
    is_header, is_bearer = part.loc[-2] == "headers", bool(variable["bearer"])
    if is_bearer and name == "Authorization" and bearer:
        output[bearer] = variable["name"]
    elif is_header and not is_bearer and headers:
        output.setdefault(headers, {})[name] = variable["name"]
    elif not is_header and name == variable["name"]:
        output.setdefault(variables, []).append(name)
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
        correct=partial(_correct, host),
        schema=_schema(host),
        check=partial(_check, host),
        complete=partial(_complete, host),
        elsewhere=partial(_elsewhere, host),
        is_host_config=True,
        parts=host.path,
        # A plugin's file can have the form of a project's.
        other_form=None if host.path else ("mcpServers", "claude-code"),
    )


_KEYS_OF_DISABLED: Final = frozenset(
    key for host in HOSTS for key, (name, _) in host.settings.items() if name == _DISABLED
)
"""The keys of the disabled tools in any host, because people copy entries."""

_URLS: Final = frozenset(key for host in HOSTS for key in host.urls)

FORMATS: Final = tuple(map(_format, HOSTS))
