"""The formats of MCP clients' configuration files, one for each host; only servers are converted.

Here is what happens to a document before it is read: which host it is recognized as, its schema, the corrections of older and
odd forms, and the servers that are wrong or that only their host can start.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import login_message, without_login
from covalt_git.formats.mcp_clients import config_reader, config_writer, host_variables
from covalt_git.formats.mcp_clients.hosts import HOSTS
from covalt_git.formats.model import Format, Note, with_values
from covalt_git.formats.shapes import Schema, has_servers_at, schema_of
from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_URLS: Final = frozenset(key for host in HOSTS for key in host.urls)


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
    if host.path and host.other_form and has_servers_at(document.value, host.other_form[0]):
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
    unknown = {item.name: _unknown_keys(item, names_known, others) for item in others}
    return bool(names_known) and unknown[host.name] == min(unknown.values())


def _unknown_keys(host: Host, servers: Sequence[JsonObject], others: Sequence[Host]) -> int:
    """Return how many keys of servers, and types that only others have, a host does not know.

    Gemini CLI reads ``url`` as the URL of SSE only itself.
    """
    keys = {*_server_shape(host), *host.more}
    own = {key for key, transport in host.urls.items() if transport == "sse"}
    shows_host = any((host.more | host.urls.keys()) - own & server.keys() for server in servers)
    hidden = () if shows_host else own
    types = {word for item in others for word in item.types} - host.types.keys()
    odd = sum(str(server.get("type")) in types for server in servers) if host.types else 0
    return odd + sum(key not in keys or key in hidden for server in servers for key in server)


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


def _format(host: Host) -> Format:
    return Format(
        name=host.name,
        title=host.title,
        kind=host.kind,
        file_name=host.file_name,
        recognize=partial(_recognize, host),
        read=partial(config_reader.read, host),
        write=partial(config_writer.write, host),
        correct=partial(_correct, host),
        schema=_schema(host),
        check=partial(_check, host),
        complete=partial(config_writer.complete, host),
        secret_text=partial(host_variables.secret_text, host),
        elsewhere=partial(_elsewhere, host),
        is_host_config=True,
        has_bare_references=partial(host_variables.has_bare_references, host),
        replaces_carried=bool(host.style),
        parts=host.path,
        other_form=host.other_form,
    )


FORMATS: Final = tuple(map(_format, HOSTS))
