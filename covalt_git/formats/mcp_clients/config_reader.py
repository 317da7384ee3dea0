"""Reading of a host's file: its servers as ``mcp_servers`` of one toolset.

The document was checked against the host's schema, and corrected.  What a toolset cannot have, such as a login of the client,
a working directory or a file of the client's project, becomes a note of the import or a setting for clients.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.access.loaded_code import (
    code_words,
    loaded_by,
    program_name,
    runs_named_program,
    start_folder,
)
from covalt_git.credentials.named_values import is_secret
from covalt_git.formats.mcp_clients import host_variables, tool_rules
from covalt_git.formats.mcp_clients.hosts import (
    DISABLED_TOOLS,
    ENABLED_TOOLS,
    HOSTS,
    HTTP,
    KEYS_OF_DISABLED,
    PROMPT,
    WRITES,
    empty_lists,
    keys_of_off,
)
from covalt_git.formats.mcp_clients.process_variables import VARIABLES_OF_PROCESSES
from covalt_git.formats.model import Note, Part, changed, unused, variable_name
from covalt_git.models.project_config import DEFAULT_TIMEOUT_S
from covalt_git.names import local_names, suggest_id
from covalt_git.templating.references import texts
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.formats.mcp_clients.tool_rules import ToolRule
    from covalt_git.formats.model import Imported, Node
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_TRANSPORTS: Final = {
    **dict.fromkeys(("http", HTTP, "streamableHttp", "streamable_http", "remote"), HTTP),
    **dict.fromkeys(("stdio", "local"), "stdio"),
    "sse": "sse",
}
"""The words of all hosts for a transport: people copy an entry from one host to another, and hosts add words."""

_LOGIN: Final = "the login of the client has no effect in a toolset: covalt-git auth login, or a header with a reference to a secret"
_OF_SANDBOX: Final = ("sandbox", "sandboxEnabled")
"""Limits that no user misses: a toolset's program has the sandbox of the project, and no grants."""

_WITHOUT_EFFECT: Final = {
    **dict.fromkeys(
        (
            *("auth", "oauth", "authProviderType", "scopes", "oauth_resource", "apiKey"),
            *("client_id", "client_secret_key"),
        ),
        _LOGIN,
    ),
    "socket": "a toolset reaches a server at its URL only, not by a socket",
    **dict.fromkeys(
        _OF_SANDBOX,
        "the limits that the client sets for the server's program have no effect in a toolset",
    ),
    "headersHelper": "no toolset starts this program: write the headers that it prints, with references to secrets",
}
"""The keys of a server's login and limits in all hosts, because people copy entries, and what to do instead."""

_OF_REQUESTS: Final = {
    "proxy": "a toolset connects to servers without this proxy",
    "noProxy": "a toolset connects to servers without a proxy",
    **dict.fromkeys(
        ("verifySsl", "caBundlePath", "clientCertificate"),
        "a toolset checks the server's certificate with the authorities of this system, and has none of its own",
    ),
    "extraBodyProperties": "a toolset adds nothing to requests",
}
"""The settings of Continue for requests to a server, and what a toolset does instead."""

_LOGINS_OF_ALL: Final[tuple[Any, ...]] = ("oauth", "dynamic_discovery", {"enabled": True})
"""Values of a login that ``covalt-git auth login`` does in the same way."""

_TIMES: Final = {"timeout": ("call_timeout", 0), "startup_timeout_ms": ("start_timeout", 1)}
"""Limits of time that hosts have beside those of their settings, such as an older one of Codex."""

_NO_FOLDER: Final = "no server starts in the folder of the chat, which is $workspace in arguments"
_FOLDER_OF_PROJECT: Final = "the path begins in the folder of the client's project: a server starts only in a folder of its toolset"
_FOLDER_OUTSIDE: Final = "a server starts only in a folder of its toolset: copy the folder into it, and write its path there"
_PATH: Final = re.compile(
    r"\.{1,2}/?|\.{1,2}/[^\s$]+|(?:[\w.-]+/)*(?:\.env(?:\.[\w-]+)?|[\w-][\w.-]*\.(?:ya?ml|json[cl5]?|toml|ini|cfg|conf|env|properties|xml"
    r"|db|sqlite3?|duckdb|sql|csv|tsv|parquet|xlsx|txt|pem|crt))"
)
"""Words that are files where the client starts the server: any that begin with a dot, and files of settings or data."""

_SCRIPT: Final = re.compile(
    r"[^\s/\\$@:=<>~-][^\s\\$@:=<>]*\.(?:py|pyz|[cm]?[jt]s|[jt]sx|sh|bash|rb|pl|php|lua|jar|phar|exe)"
)
"""Words that are scripts there, if they are at the place of one."""

_SETTING_OF_PATH: Final = re.compile(r"-{0,2}[A-Za-z][\w.-]*=")
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl"})
_OPTIONS_OF_CONTAINERS: Final = frozenset(
    {"-v", "--volume", "--mount", "--env-file", "-f", "--file"}
)
"""The options of containers whose values are paths outside of the container."""

_SOURCE_OF_MOUNT: Final = re.compile(r"(?:\A|,)(?:source|src)=([^,]+)")
_SEPARATOR: Final = re.compile(r";|(?<!\b[A-Za-z]):(?!//)")
"""Between the paths of a variable, but not after the drive of a path of Windows."""


_CALLS: Final = re.compile(r"\(.*\)\Z", re.DOTALL)
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read(host: Host, document: Document, imported: Imported) -> None:
    """Add the toolset with the servers of a document that has the host's form; entries that are no servers are left out."""
    source = Part(document.value)
    servers = host.server_parts(source)
    toolset = imported.toolset(
        document.stem, name=servers[0][0] if len(servers) == 1 else "MCP servers"
    )
    # Other clients read files of VS Code too, and people copy its entries to them.
    around: Part = host.around(source)
    has_inputs = isinstance(around.peek("inputs"), list)
    inputs = _read_inputs(toolset, around, servers, imported) if has_inputs else {}
    # If only one server of the file is imported, the settings are read from the whole file, but only those of this server.
    settings = document.value if document.file_value is None else document.file_value
    server_names = [name for name, server in servers if host.has_server(server.value)]
    rules, notes_of_rules = tool_rules.read(host, settings, server_names)
    imported.without_effect += notes_of_rules
    credentials = {note.secret for note in imported.notes}
    longest = _longest_calls(host, settings, [server for _, server in servers])
    imported.without_effect += _common_limits(host, settings, longest)
    imported.without_effect += _servers_of_older_form(host, settings)
    names: dict[str, str] = {}
    for name, server in servers:
        if host.has_server(server.value):
            server_id = unused(suggest_id(name) or "server", names)
            names[server_id] = name
            output = toolset.item("mcp_servers", id=server_id)
            _read_server(host, output, server, inputs)
            if "url" in output.value:
                url = host_variables.plain_variables(host, output.value["url"], credentials)
                output.value["url"] = url
            _read_settings(host, output, server, imported)
            imported.without_effect += _limits_of_server(host, server, longest)
            _read_disabled_tools(host, toolset, server_id, server)
            _read_approvals(host, toolset, output, server)
            imported.without_effect += _other_approvals(host, server)
            _read_rules(toolset, output, [rule for rule in rules if rule.server == name])
            notes = [*_notes(host, server)]
            imported.notes += [note for note in notes if not note.is_lost]
            imported.without_effect += [note for note in notes if note.is_lost]
            if "command" in output.value:
                _read_folder(host, output, server, imported, inputs)
                imported.without_effect += _files_of_project(host, server)
    # Ids of toolset.yaml are stricter than names of servers, and a host shows the name to its user.
    odd = {server_id: name for server_id, name in names.items() if server_id != name}
    if odd:
        toolset.value["extensions"] = {host.name: {"names": odd}}


def _input(name: str) -> str:
    return f"${{input:{name}}}"


def _read_inputs(
    toolset: Node, source: Part, servers: Sequence[tuple[str, Part]], imported: Imported
) -> dict[str, str]:
    """Return the references in place of ``${input:NAME}``; inputs for credentials become secrets."""
    others: dict[str, str] = {}
    variables = dict[str, str]()
    users = {name: str([*texts(server.value)]) for name, server in servers}
    for part in source.parts("inputs"):
        name = part.peek("id") if isinstance(part.value, dict) else None
        if not isinstance(name, str):
            continue
        variable = variable_name(name)
        if variable in VARIABLES_OF_PROCESSES:
            owner = next(
                (owner for owner, texts_of in users.items() if _input(name) in texts_of), ""
            )
            variable = variable_name(owner or "input", name)
        # `api-key` and `api_key` are two values.
        variable = variables.setdefault(name, unused(variable, variables.values(), "_"))
        default = part.peek("default")
        if part.peek("password") is True or is_secret(name):
            if variable != variable_name(name):
                others[name] = f"${{{variable}}}"
            secrets = toolset.value.setdefault("secrets", [])
            if variable not in secrets:
                toolset.trace(("secrets", len(secrets)), part["id"].loc)
                secrets.append(variable)
        elif isinstance(default, str) and default and not {*"${}"} & {*default}:
            others[name] = f"${{env:{variable}:-{default}}}"
        else:
            others[name] = f"${{env:{variable}}}"
            options = part.peek("options")
            options = options if isinstance(options, list) else []
            labels = [item.get("value") if isinstance(item, dict) else item for item in options]
            listed = " to " + " or ".join(map(repr, labels)) if labels else ""
            message = f"the client asks for this value: set the variable {variable} of the environment{shorten(listed, 200)}"
            if any(_input(name) in text for _, text in texts(source.value)):
                imported.without_effect.append(Note(part.loc, message))
    return others


def _notes(host: Host, server: Part) -> Iterator[Note]:
    """Yield what a server refers to and no toolset has: a file of variables, and variables of the editor."""
    for key in keys_of_off(host, server.value):
        message = f"{host.title} does not document this key, and may start the server: disabled in the toolset"
        yield Note(server[key].loc, message)
    for key in empty_lists(host, server.value):
        message = f"{host.title} offers no tool of this server: disabled in the toolset"
        yield Note(server[key].loc, message)
    # A credential has become a secret, with a note of its own.
    for loc, text in texts(server.value) if host.file_variable else ():
        start = text.partition(host.file_variable)[2]
        if start and loc[0] not in _WITHOUT_EFFECT:
            path = start.partition("}")[0]
            message = f"{host.title} reads the file {path!r} here, and the text stays: write a reference to a secret with its content"
            yield Note((*server.loc, *loc), message)
    if isinstance(server.peek("envFile"), str):
        message = f"the variables of {server.peek('envFile')!r} are not read: add those that the server needs to env"
        yield Note(server["envFile"].loc, message, is_lost=True)
    for loc, text in texts(server.value) if host.own_folder else ():
        if host.own_folder in text:
            message = f"{host.own_folder} is $toolset: put the files of the plugin beside the toolset.yaml"
            yield Note((*server.loc, *loc), message)
    code = _code_places(host, server.value)
    for loc, text in texts(server.value):
        for variable in host_variables.folder_variables(host, text):
            other = host_variables.FOLDERS_OF_EDITOR.get(variable["name"])
            # A working directory in the editor's folder is lost.
            is_cwd = loc == ("cwd",) and other == "${workspace}"
            # Settings of the client are carried as they are.
            is_carried = loc[0] == "envFile" or loc[0] in _WITHOUT_EFFECT
            is_left_out = False
            if is_cwd or is_carried or other not in {"${workspace}", None}:
                continue
            elif other is None:
                message = f"{variable[0]} has a value in {host.title} only, and stays as text"
            elif loc in code:
                is_left_out = loc[0] == host.env
                fate = f"{loc[1]} is left out" if is_left_out else f"{variable[0]} stays as text"
                message = f"{fate}: a server must load no code from the workspace, where tools write; put it into the toolset"
            else:
                message = f"{variable[0]} is $workspace, the folder of the chat"
            # A script that no process can open ends the server's start.
            yield Note((*server.loc, *loc), message, is_lost=is_left_out or loc in code)


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
    to_reference = partial(host_variables.to_reference, host, inputs)
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
                output.value["args"][loc[1]] = to_reference(
                    word, folders=host_variables.FOLDERS_OUTSIDE
                )
            elif loc[0] == host.command:
                word = server[host.command].value
                output.value["command"] = to_reference(word, folders=host_variables.FOLDERS_OUTSIDE)
    else:
        own = {name: to_reference(text.value) for name, text in server.entries(host.env)}
        to_header = partial(to_reference, style=host.header_style)
        if host.header_style:  # the host's own variables of this server have values in its file
            to_header = partial(host_variables.with_values_of, own, to_header)
        output.copy(server, {key: "url"}, to_header)
        around = server.get(host.around_headers) if host.around_headers else server
        if around is not None:
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
        named = item["name"] if isinstance(item.value, dict) and "name" in item else item
        if isinstance(named.value, str) and _ENV_NAME.fullmatch(named.value):
            # Codex reads its environment, Goose its own store of secrets.
            place = "env:" if is_of_environment else ""
            output.node("env").set(named.value, named, f"${{{place}{named.value}}}")
    if host.off and host.off[0] in server:
        output.set("enabled", server[host.off[0]], server.peek(host.off[0]) != host.off[1])
    for key in (*keys_of_off(host, server.value), *empty_lists(host, server.value)):
        output.set("enabled", server[key], value=False)


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


def _read_folder(
    host: Host, output: Node, server: Part, imported: Imported, inputs: Mapping[str, str]
) -> None:
    """Add the working directory if it is in the toolset; any other is for clients only, since the server never starts in it."""
    folder = server.peek("cwd")
    if not isinstance(folder, str) or not folder:
        return
    text = host_variables.to_reference(host, inputs, folder)
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
    imported.without_effect.append(Note(server["cwd"].loc, reason, is_lost=True))


def _files_of_project(host: Host, server: Part) -> Iterator[Note]:
    """Yield a note for each word of a command that is a file where the client starts it, which the toolset does not have.

    So does each such file in a flag or a variable.
    """
    command = server.peek(host.command)
    words = list(command) if isinstance(command, list) else [command]
    places: list[Loc] = [(host.command, at) for at in range(len(words))]
    if not isinstance(command, list):
        places = [(host.command,)]
        arguments = server.peek("args") or []
        words += arguments
        places += [("args", at) for at in range(len(arguments))]
    start = server.peek("cwd")
    start = start if isinstance(start, str) else ""
    if host.own_folder and start.startswith(host.own_folder):
        return  # the toolset's own
    code = code_words(words)
    position, folder = start_folder(words) or (0, "")
    # The script of a runner with an option for its folder is there, and a package names its own.
    is_in_project = not folder and not runs_named_program(words)
    is_container = program_name(words[0]) in _CONTAINERS
    for at, (word, place) in enumerate(zip(words, places, strict=True)):
        path, rest = _host_path(words[at - 1], word) if is_container and at else (word, "")
        path = path.partition("=")[2] if _SETTING_OF_PATH.match(path) else path
        is_script = at in code and _SCRIPT.fullmatch(word) is not None and is_in_project
        is_folder = at == position > 0 and _is_relative(folder)
        if is_folder:
            yield _note_on_file((*server.loc, *place), folder, start)
        elif is_script or _PATH.fullmatch(path):
            is_there = at > position > 0 or not start
            yield _note_on_file((*server.loc, *place), path, folder if is_there else start, rest)
    for name, value in server.entries(host.env):
        is_list = name.upper().endswith("PATH") and loaded_by(name)
        paths = _SEPARATOR.split(value.value) if is_list else []
        relative = [path for path in paths if _is_relative(path)]
        if _PATH.fullmatch(value.value):
            relative = [value.value]
        for path in relative[:1]:
            yield _note_on_file(value.loc, path, folder or start)


def _host_path(option: str, word: str) -> tuple[str, str]:
    """Return the path outside of a container in a word of its command, and the rest of the word; empty if it has none."""
    key, is_joined, value = word.partition("=")
    if is_joined and key in _OPTIONS_OF_CONTAINERS:
        option, word = key, value
    if option == "--mount":
        source = _SOURCE_OF_MOUNT.search(word)
        return (source[1], "") if source else ("", "")
    if option in {"-v", "--volume"}:
        path, colon, rest = word.partition(":")
        # Without a dot, it is the name of a volume.
        return (path, colon + rest) if path.startswith(".") else ("", "")
    return (word, "") if option in _OPTIONS_OF_CONTAINERS else ("", "")


def _is_relative(path: str) -> bool:
    return bool(path) and not path.startswith(("/", "~", "$", "%", "{")) and ":" not in path


def _note_on_file(loc: Loc, path: str, start: str, rest: str = "") -> Note:
    name = path.rstrip("/").rpartition("/")[2] or path
    place = repr(start) if start else "the folder of the client's project"
    if name in {".", ".."}:
        message = f"{path!r} begins in {place}: write ${{toolset}} for files beside the toolset.yaml, or $workspace for those of the chat"
    else:
        message = (
            f"{path!r} is in {place}, not in the toolset: copy it beside the toolset.yaml,"
            f" and write ${{toolset}}/{name}{rest}"
        )
    return Note(loc, message)


def _read_settings(host: Host, output: Node, server: Part, imported: Imported) -> None:
    """Add what only clients have, with common names and times in milliseconds, and what says nothing."""
    imported.implied |= {(*server.loc, key) for key in server.value if not _says(server.peek(key))}
    kind = server.get("transport")
    if kind is not None and isinstance(kind.value, dict) and kind.peek("type") == "stdio":
        imported.implied.add(kind["type"].loc)
    imported.without_effect += [
        Note(server[key].loc, message, is_lost=_misses(key, server.peek(key)))
        for key, message in _WITHOUT_EFFECT.items()
        if _says(server.peek(key)) and server.peek(key) is not False
    ]
    requests = server.get(host.around_headers) if host.around_headers else None
    if requests is not None:
        imported.without_effect += [
            Note(requests[key].loc, message, is_lost=True)
            for key, message in _OF_REQUESTS.items()
            if _says(requests.peek(key)) and (key, requests.peek(key)) != ("verifySsl", True)
        ]
    imported.without_effect += _ignored(host, server)
    for key, (name, unit) in host.settings.items():
        value = server.peek(key)
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if unit and isinstance(value, int | float) and not isinstance(value, bool):
            value = value * unit
        elif unit or not is_list or not value or name == DISABLED_TOOLS:
            continue
        if name == ENABLED_TOOLS:
            # Gemini CLI: `name(arguments)` is the tool, for some calls only.
            names = dict.fromkeys(_CALLS.sub("", tool) for tool in value)
            offered = [tool for tool in names if tool not in _disabled(host, server)]
            tools = ", ".join(map(repr, offered))
            accepted = f"only the tools {shorten(tools, 200)}" if offered else "no tool"
            message = f"{key} has no effect in a toolset: accept {accepted}"
            imported.without_effect.append(Note(server[key].loc, message, is_lost=True))
        imported.settings.setdefault(output.loc, {})[name] = value
        output.trace((name,), server[key].loc)


def _ignored(host: Host, server: Part) -> Iterator[Note]:
    """Yield a note for the command and each URL of a server that its host ignores, because it prefers another URL."""
    key = host.url_key(server)
    for other in (*host.urls, host.command) if key == host.prefers else ():
        if other != key and other in server:
            message = f"{host.title} connects to {key}, and ignores this value"
            yield Note(server[other].loc, message, is_lost=True)


def _misses(key: str, value: Any) -> bool:
    """Return whether a user misses a setting that a toolset does not have, because its server is another one without it."""
    return key not in _OF_SANDBOX and value not in _LOGINS_OF_ALL


class _Limit(NamedTuple):
    """A limit of time: its place, its common name, and its milliseconds; 0 if its unit is not documented."""

    loc: Loc
    name: str
    milliseconds: float


def _limits_of_time(host: Host, server: Part) -> Iterator[_Limit]:
    units = {**_TIMES, **host.settings}
    limits = [(server[key], *units[key]) for key in units if key in server]
    around = server.get(host.around_headers) if host.around_headers else None
    if around is not None and "timeout" in around:
        limits.append((around["timeout"], "call_timeout", 0))
    for part, name, unit in limits:
        if isinstance(part.value, dict):  # OpenCode 2
            for key, inner in part.value.items():
                kind = "call_timeout" if key == "execution" else "start_timeout"
                yield from _limit((*part.loc, key), kind, inner, 1)
        yield from _limit(part.loc, name, part.value, unit)


def _limit(loc: Loc, name: str, value: Any, unit: int) -> Iterator[_Limit]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield _Limit(loc, name, value * unit)


def _limits_of_file(host: Host, settings: Any) -> Iterator[_Limit]:
    """Yield the limits that a file has for all of its servers."""
    for path, name, unit in host.limits:
        value = settings
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        yield from _limit(path, name, value, unit)


def _longest_calls(host: Host, settings: Any, servers: Sequence[Part]) -> float:
    """Return the longest time, in milliseconds, that the host gives to the calls of one of its servers."""
    limits = [*_limits_of_file(host, settings)]
    limits += [limit for server in servers for limit in _limits_of_time(host, server)]
    return max((item.milliseconds for item in limits if item.name == "call_timeout"), default=0)


def _common_limits(host: Host, settings: Any, longest: float) -> Iterator[Note]:
    for limit in _limits_of_file(host, settings):
        yield _note_on_limit(host, limit, longest)


def _limits_of_server(host: Host, server: Part, longest: float) -> Iterator[Note]:
    for limit in _limits_of_time(host, server):
        yield _note_on_limit(host, limit, longest)


def _note_on_limit(host: Host, limit: _Limit, longest: float) -> Note:
    """Return a note on a limit: a toolset has none for the tools of a server, and the project's is for all calls.

    So the notes of a file all name the ``longest`` limit in it.
    """
    message = f"{limit.loc[-1]} has no effect in a toolset"
    if limit.name != "call_timeout":
        return Note(limit.loc, message)
    seconds = f": {math.ceil(longest / 1000)}" if limit.milliseconds else ""
    message += f": set limits.timeout_s{seconds} in covalt.yaml, for all calls ({DEFAULT_TIMEOUT_S:g} s by default)"
    # A host writes its usual limit into each server, so its user did not choose it.
    usual = host.defaults.get("timeout", 0) * host.settings.get("timeout", ("", 0))[1]
    is_longer = limit.milliseconds > max(DEFAULT_TIMEOUT_S * 1000, usual)
    return Note(limit.loc, message, is_lost=is_longer)


def _servers_of_older_form(host: Host, settings: Any) -> Iterator[Note]:
    """Yield a note for each server in the older form of its host, in a file that has the present form too."""
    for older in HOSTS:
        path, name = older.other_form or ((), "")
        around = settings.get(path[0]) if path[1:] and name == host.name else None
        for key, server in around.items() if isinstance(around, dict) else ():
            if key != path[1] and isinstance(server, dict) and older.has_server(server):
                message = f"a server in the older form of {host.title} is not read: move it into {'.'.join(path)}"
                yield Note((path[0], key), message, is_lost=True)


def _says(value: Any) -> bool:
    """Return whether a setting of a server says more than its absence."""
    return value is not None and value not in ("", [], {})


def _keys_of_disabled(host: Host) -> list[str]:
    own = [key for key, (name, _) in host.settings.items() if name == DISABLED_TOOLS]
    return [*own, *sorted(KEYS_OF_DISABLED.difference(own))]


def _disabled(host: Host, server: Part) -> list[str]:
    """Return the tools that a server has and the host does not offer."""
    lists = [server.peek(key) for key in _keys_of_disabled(host)]
    return [item for names in lists if isinstance(names, list) for item in names]


def _read_disabled_tools(host: Host, toolset: Node, server_id: str, server: Part) -> None:
    """Add an override for each tool that the host does not offer."""
    for key in _keys_of_disabled(host):
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
    if server.peek(of_all) == PROMPT:
        output.set("requires_confirmation", server[of_all], value=True)
    tools = server.peek(key)
    names = [name for name in tools if name] if isinstance(tools, dict) else []
    ids = local_names(names)
    for name in names:
        tool = server[key][name]
        if not isinstance(tool.value, dict) or tool.peek(of_tool) != PROMPT:
            continue
        override = _override(toolset, f"{output.value['id']}:{ids[name]}")
        override.set("requires_confirmation", tool[of_tool], value=True)


def _other_approvals(host: Host, server: Part) -> Iterator[Note]:
    """Yield a note for each approval that depends on the call, and each variable of another machine."""
    if host.approvals is None:
        return
    of_all, key, of_tool = host.approvals
    tools = server.peek(key)
    written = [(server, of_all)] if of_all in server else []
    of_tools = tools if isinstance(tools, dict) else {}
    written += [
        (server[key][name], of_tool)
        for name, tool in of_tools.items()
        if isinstance(tool, dict) and of_tool in tool
    ]
    for part, approval in written:
        if part.peek(approval) == WRITES:
            message = f"{host.title} asks its user before calls that write: set requires_confirmation for the tools that do"
            yield Note(part[approval].loc, message, is_lost=True)
    for item in server.parts(host.env_names[0]) if host.env_names else ():
        if isinstance(item.value, dict) and item.value.get("source") not in {None, "local"}:
            message = f"{host.title} reads this variable on the machine of the task, the toolset on this machine"
            yield Note(item["source"].loc, message, is_lost=True)


def _read_rules(toolset: Node, output: Node, rules: Sequence[ToolRule]) -> None:
    """Do with the tools of a server what the rules beside the servers say."""
    ids = local_names(rule.tool for rule in rules if rule.tool)
    for rule in rules:
        node = _override(toolset, f"{output.value['id']}:{ids[rule.tool]}") if rule.tool else output
        key, value = tool_rules.KEYS[rule.action]
        node.set(key, Part(value, rule.loc))


def _override(toolset: Node, tool_id: str) -> Node:
    """Return the override of a tool, which is added if it is missing."""
    overrides = toolset.value.get("tool_overrides", [])
    at = next((at for at, item in enumerate(overrides) if item["tool_id"] == tool_id), None)
    return (
        toolset.item("tool_overrides", tool_id=tool_id)
        if at is None
        else toolset.at("tool_overrides", at)
    )
