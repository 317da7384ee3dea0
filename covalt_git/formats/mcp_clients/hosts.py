"""The hosts, which are MCP clients, and the form of each one's configuration file, as data.

What differs between the files of hosts is an attribute of :class:`Host`: the reader and the writer test attributes, never
names.  Its methods find the servers of a document in the host's form, and build such a document; they convert no server.

Sources, as of November 2026: the documentation of Claude Desktop, Claude Code, VS Code, Cursor, Windsurf, OpenCode, Codex,
Gemini CLI, Zed, Cline, Continue, Goose and LM Studio.  For Cline, Continue and Goose also the schemas in their source code
(``McpHub``, ``config-yaml``, ``ExtensionConfig``).
"""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.errors import nearest_name
from covalt_git.formats.http_texts import is_server_url
from covalt_git.formats.mcp_clients.host_variables import without_blanks
from covalt_git.formats.model import Part, unused
from covalt_git.formats.shapes import are_objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.formats.documents import Kind
    from covalt_git.json_values import JsonObject

HTTP: Final = "streamable-http"
"""The transport of ``toolset.yaml`` for most servers with a URL."""

PROMPT: Final = "prompt"
"""The approval of Codex for which it asks its user."""

WRITES: Final = "writes"
"""The approval of Codex for which it asks before the calls of tools that are not read-only."""

DISABLED_TOOLS: Final = "disabled_tools"
"""The common name, in the settings of hosts, of the list of tools that a server has and a host does not offer."""


class RulesPlace(NamedTuple):
    """A place beside the servers with rules for tools: an object of names and actions, a list of names, or one action.

    Attributes:
        path: The keys; ``{owner}`` is the name of an agent or profile for which alone the rules hold, and ``{server}`` that
            of a server.
        action: What an item of a list means.
        key: The key of the action of a rule that is an object.
        lists_servers: Whether the names in a list are those of servers.
        name: The key of the tool's name in a rule of a list, if its rules are objects.
        calls: The key of the calls that such a rule concerns; ``*`` is all of them.
    """

    path: tuple[str, ...]
    action: str = ""
    key: str = ""
    lists_servers: bool = False
    name: str = ""
    calls: str = ""


class Profiles(NamedTuple):
    """The profiles of a host's agent, each with a choice of tools.

    Attributes:
        path: The keys of the object with the profiles.
        active: The keys of the name of the profile that is active at the start.
        all_servers: The key by which a profile offers all tools of servers that it does not name.
        built_in: For each profile that the host has itself, first the default one, whether it offers them.
    """

    path: tuple[str, ...]
    active: tuple[str, ...]
    all_servers: str
    built_in: Mapping[str, bool]


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
        file_variable: How a variable of a file begins, whose value is the file's content.
        folder: The variable of the folder that is open in the editor; the host has its other variables too.
        reads_folders: Whether a text can have the variables of the project's folder, which may have no value.
        own_folder: The variable of a plugin's folder, which a toolset calls ``$toolset``.
        is_of_plugin: Whether the servers come from a plugin's file that has the form of a project's.
        loose_env: Whether variables of the environment can be numbers, or null to unset them.
        defaults: What each written server has.
        settings: The keys of settings that several hosts have, their common names, and the milliseconds in a unit of
            time; 0 for lists of tools.
        top: What each written file has.
        empty_enables_all: Whether an empty list of enabled tools means all tools.
        approvals: The key of the approval of all tools, and those of one tool: of the tools, and of its approval.
        choices: For each version of the host, the key of an object of the file, or an empty text for the file itself, and in
            it the keys of two lists: of the servers that the host starts, and of those that it does not start.
        profiles: Where the profiles of its agent are, if its tools depend on them.
        tool_names: How the name of a server's tool begins in the host.
        rules: The places of rules for tools; of two rules for a tool, the later one decides.
        own_tools: The host's own tools, which rules can name too, if a rule can name a tool without its server.
        older_command: The keys that an object in place of the program has in older files, and those of the server.
        limits: The paths of limits of time for all servers, their common names, and the milliseconds in a unit.
        other_form: The path of the servers in the host's present form, if the file has it, and the host with that form.
        sockets: How the URLs of sockets begin, to which only the host can connect.
        prefers: The key of the URL to which the host connects if a server has a command or another URL too.
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
    file_variable: str = ""
    folder: str = ""
    reads_folders: bool = False
    own_folder: str = ""
    is_of_plugin: bool = False
    defaults: Mapping[str, Any] = MappingProxyType({})
    top: Mapping[str, str] = MappingProxyType({})
    loose_env: bool = False
    settings: Mapping[str, tuple[str, int]] = MappingProxyType({})
    empty_enables_all: bool = False
    approvals: tuple[str, str, str] | None = None
    choices: tuple[tuple[str, str, str], ...] = ()
    profiles: Profiles | None = None
    tool_names: tuple[str, ...] = ()
    rules: tuple[RulesPlace, ...] = ()
    own_tools: frozenset[str] = frozenset()
    older_command: Mapping[str, str] = MappingProxyType({})
    limits: tuple[tuple[tuple[str, ...], str, int], ...] = ()
    other_form: tuple[tuple[str, ...], str] | None = None
    sockets: tuple[str, ...] = ()
    prefers: str = ""
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
        servers: JsonObject = {}
        for at, server in enumerate(document):
            # A server without a name is wrong, but its neighbours must stay readable: its position is its name.
            name = str(server.get("name", server.get("uses", at)))
            # Two servers can have one name, and each must keep its position.
            servers[unused(name, servers)] = server
        return servers

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
        url = server[key]
        # No URL has blanks, but a variable in it can.
        url = without_blanks(url) if isinstance(url, str) else url
        return (key == self.prefers or self.command not in server) and is_server_url(url)

    def why_elsewhere(self, server: Any) -> str:
        """Return why only this host can start a server that has no command and no URL; empty if it has one, or is wrong."""
        keys, reason = self.elsewhere
        url = server.get(self.url_key(server) or "") if isinstance(server, dict) else None
        if isinstance(url, str) and self.sockets and url.startswith(self.sockets):
            return f"{self.title} connects to this server by a socket, a toolset at a URL of http or https only"
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
        if self.has_server(server) or self.why_elsewhere(server):
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


_RULES_OF_CLAUDE: Final = (
    RulesPlace(("permissions", "ask"), action="ask"),
    RulesPlace(("permissions", "deny"), action="off"),
    RulesPlace(("disabledMcpServers",), action="off", lists_servers=True),
    RulesPlace(("disabledMcpjsonServers",), action="off", lists_servers=True),
)
_RULES_OF_OPENCODE: Final = (
    RulesPlace(("tools",)),
    RulesPlace(("permission",), key="*"),
    *(
        RulesPlace((kind, "{owner}", *place), key="*")
        for kind in ("agent", "mode")
        for place in (("tools",), ("permission",))
    ),
)
_RULES_OF_OPENCODE_2: Final = (
    *_RULES_OF_OPENCODE,
    RulesPlace(("permissions",), key="effect", name="action", calls="resource"),
    RulesPlace(("agents", "{owner}", "permissions"), key="effect", name="action", calls="resource"),
)
_LIMITS_OF_OPENCODE: Final = (
    (("experimental", "mcp_timeout"), "call_timeout", 1),
    (("mcp", "timeout", "startup"), "start_timeout", 1),
    (("mcp", "timeout", "catalog"), "start_timeout", 1),
    (("mcp", "timeout", "execution"), "call_timeout", 1),
)
_RULES_OF_GEMINI: Final = (
    RulesPlace(("excludeTools",), action="off"),
    RulesPlace(("tools", "exclude"), action="off"),
)
_RULES_OF_ZED: Final = (
    RulesPlace(("agent", "tool_permissions", "default")),
    RulesPlace(("agent", "tool_permissions", "tools"), key="default"),
    RulesPlace(("agent", "profiles", "{owner}", "context_servers", "{server}", "tools")),
)
_PROFILES_OF_ZED: Final = Profiles(
    ("agent", "profiles"),
    ("agent", "default_profile"),
    "enable_all_context_servers",
    MappingProxyType({"write": True, "ask": False, "minimal": False}),
)
_TOOLS_OF_GEMINI: Final = (
    "run_shell_command write_file replace read_file read_many_files list_directory glob search_file_content grep_search"
    " web_fetch google_web_search save_memory write_todos ask_user activate_skill get_internal_docs enter_plan_mode"
    " exit_plan_mode ShellTool WriteFileTool EditTool ReadFileTool ReadManyFilesTool LSTool GlobTool GrepTool RipGrepTool"
    " WebFetchTool WebSearchTool MemoryTool"
)
_TYPES: Final = {"stdio": "stdio", "http": HTTP, "sse": "sse"}
HOSTS: Final = (
    Host("claude-desktop", "Claude Desktop", "claude_desktop_config.json", ("mcpServers",), {}, {}, style=""),
    Host("claude-code", "Claude Code", ".mcp.json", ("mcpServers",), {"url": ""}, _TYPES, more=frozenset({"oauth", "headersHelper", "timeout"}), own_folder="${CLAUDE_PLUGIN_ROOT}", reads_folders=True, tool_names=("mcp__{server}__",), rules=_RULES_OF_CLAUDE, settings={"timeout": ("call_timeout", 1)}),
    Host("claude-plugin", "a plugin of Claude Code", ".mcp.json", (), {"url": ""}, _TYPES, own_folder="${CLAUDE_PLUGIN_ROOT}", reads_folders=True, other_form=(("mcpServers",), "claude-code")),
    Host("vscode", "VS Code", ".vscode/mcp.json", ("servers",), {"url": ""}, _TYPES, style="${input:name}", folder="${workspaceFolder}", loose_env=True, sockets=("unix:", "pipe:")),
    Host("vscode-settings", "settings of VS Code", ".vscode/settings.json", ("mcp", "servers"), {"url": ""}, _TYPES, style="${input:name}", folder="${workspaceFolder}", loose_env=True, sockets=("unix:", "pipe:")),
    Host("cursor", "Cursor", ".cursor/mcp.json", ("mcpServers",), {"url": ""}, _TYPES, style="${env:NAME}", more=frozenset({"envFile", "auth"}), folder="${workspaceFolder}"),
    Host("windsurf", "Windsurf", "mcp_config.json", ("mcpServers",), {"serverUrl": "", "url": ""}, {}, off=("disabled", True), style="${env:NAME}", file_variable="${file:", more=frozenset({"disabledTools", "alwaysAllow"}), settings={"disabledTools": ("disabled_tools", 0)}),
    Host("opencode", "OpenCode", "opencode.json", ("mcp",), {"url": ""}, {"local": "stdio", "remote": HTTP}, env="environment", off=("enabled", False), style="{env:NAME}", file_variable="{file:", lists_command=True, tool_names=("{server}_",), rules=_RULES_OF_OPENCODE, settings={"timeout": ("call_timeout", 1)}, limits=_LIMITS_OF_OPENCODE[:1], other_form=(("mcp", "servers"), "opencode-v2"), elsewhere=({"enabled": frozenset()}, "a switch for a server of another configuration of OpenCode, which has its command or URL")),
    Host("opencode-v2", "OpenCode 2", "opencode.json", ("mcp", "servers"), {"url": ""}, {"local": "stdio", "remote": HTTP}, env="environment", off=("disabled", True), style="{env:NAME}", file_variable="{file:", lists_command=True, tool_names=("{server}_",), rules=_RULES_OF_OPENCODE_2, more=frozenset({"codemode", "timeout", "oauth"}), limits=_LIMITS_OF_OPENCODE),
    Host("codex", "Codex", "config.toml", ("mcp_servers",), {"url": ""}, {}, kind="toml", headers="http_headers", off=("enabled", False), style="", env_names=("env_vars", "bearer_token_env_var", "env_http_headers"), approvals=("default_tools_approval_mode", "tools", "approval_mode"), settings={"tool_timeout_sec": ("call_timeout", 1000), "startup_timeout_sec": ("start_timeout", 1000), "enabled_tools": ("enabled_tools", 0), "disabled_tools": ("disabled_tools", 0)}),
    Host("gemini-cli", "Gemini CLI", "settings.json", ("mcpServers",), {"httpUrl": HTTP, "url": ""}, {"http": HTTP, "sse": "sse"}, style="$NAME", prefers="httpUrl", choices=(("mcp", "allowed", "excluded"), ("", "allowMCPServers", "excludeMCPServers")), tool_names=("mcp_{server}_", "mcp__{server}__", "{server}__"), rules=_RULES_OF_GEMINI, own_tools=frozenset(_TOOLS_OF_GEMINI.split()), more=frozenset({"timeout", "trust", "includeTools", "excludeTools", "description", "authProviderType", "oauth"}), settings={"timeout": ("call_timeout", 1), "includeTools": ("enabled_tools", 0), "excludeTools": ("disabled_tools", 0)}),
    Host("zed", "Zed", ".zed/settings.json", ("context_servers",), {"url": ""}, {}, off=("enabled", False), style="", defaults={"source": "custom"}, profiles=_PROFILES_OF_ZED, tool_names=("mcp:{server}:",), rules=_RULES_OF_ZED, limits=((("context_server_timeout",), "call_timeout", 1000),), older_command={"path": "command", "args": "args", "env": "env"}, elsewhere=({"settings": frozenset(), "source": frozenset({"extension"})}, "an extension of Zed starts this server: write its command, or its URL")),
    Host("cline", "Cline", "cline_mcp_settings.json", ("mcpServers",), {"url": "sse"}, {"stdio": "stdio", "streamableHttp": HTTP, "sse": "sse"}, off=("disabled", True), style="${env:NAME}", more=frozenset({"autoApprove", "alwaysAllow", "timeout", "transportType"}), settings={"timeout": ("call_timeout", 1000)}),
    Host("continue", "Continue", ".continue/config.yaml", ("mcpServers",), {"url": ""}, {"stdio": "stdio", "streamable-http": HTTP, "sse": "sse"}, kind="yaml", style="${{ secrets.NAME }}", lists_servers=True, around_headers="requestOptions", settings={"connectionTimeout": ("start_timeout", 1)}, top={"name": "MCP servers", "version": "0.0.1", "schema": "v1"}, elsewhere=({"uses": frozenset()}, "a block of the hub of Continue, which has the server's command: write it instead of uses")),
    Host("goose", "Goose", "goose/config.yaml", ("extensions",), {"uri": ""}, {"stdio": "stdio", "streamable_http": HTTP, "sse": "sse"}, kind="yaml", env="envs", off=("enabled", False), style="", env_names=("env_keys", "", ""), command="cmd", repeats_names=True, header_style="$NAME", defaults={"enabled": True, "description": "", "timeout": 300}, settings={"timeout": ("call_timeout", 1000), "available_tools": ("enabled_tools", 0)}, empty_enables_all=True, elsewhere=({"type": frozenset({"builtin", "platform", "frontend", "inline_python"})}, "an extension that runs in Goose itself, without a server's command or URL")),
    Host("lm-studio", "LM Studio", ".lmstudio/mcp.json", ("mcpServers",), {"url": ""}, {}, style="", more=frozenset({"timeout"}), settings={"timeout": ("call_timeout", 1)}),
)  # fmt: skip
"""The hosts whose files can be read and written."""

ENABLED_TOOLS: Final = "enabled_tools"
"""The common name of the list of the only tools that a host offers."""

KEYS_OF_DISABLED: Final = frozenset(
    key for host in HOSTS for key, (name, _) in host.settings.items() if name == DISABLED_TOOLS
)
"""The keys of the disabled tools in any host, because people copy entries."""


def keys_of_off(host: Host, server: JsonObject) -> list[str]:
    """Return the keys by which a server is disabled in other hosts only: its author wanted that, and copied the entry."""
    own = host.off[0] if host.off else ""
    offs = dict(item.off for item in HOSTS if item.off and item.off[0] != own)
    return [key for key, off in offs.items() if server.get(key) is off]


def empty_lists(host: Host, server: JsonObject) -> list[str]:
    """Return the keys of empty lists by which a host offers no tool of a server."""
    keys = [key for key, (name, _) in host.settings.items() if name == ENABLED_TOOLS]
    return [key for key in keys if server.get(key) == [] and not host.empty_enables_all]
