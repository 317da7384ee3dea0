"""Edit of one server in a host's file, of any syntax, which leaves all other lines unchanged.

In TOML and YAML the lines then end with a line feed alone, also those that ended with CRLF.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from covalt_git import yaml_text
from covalt_git.formats.documents import FormatError, parse, toml_text
from covalt_git.formats.mcp_clients import json_edit
from covalt_git.json_values.difference import same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.json_values import JsonObject

_TABLE = re.compile(r"\s*\[\[?(?P<path>[^\[\]]+)\]\]?\s*(?:#.*)?$")


def with_server(host: Host, text: str, name: str, server: JsonObject, display_path: str) -> str:
    """Return the text of a host's file after its server ``name`` is set.

    Raises:
        FormatError: if the text is invalid, or cannot be edited safely.
    """
    if host.kind == "json":
        return json_edit.with_value(text, (*host.path, name), server, display_path)
    if not text.strip():
        return _new_file(host, name, server)
    value = _value(host, text, display_path)
    expected = _expected(host, value, name, server)
    edited = (
        _toml(host, text, name, server)
        if host.kind == "toml"
        else _yaml(host, text, name, server, value)
    )
    try:
        # As for JSON: the lines around the server are the user's, and have comments that no writer keeps.
        is_safe = same(_value(host, edited, display_path), expected)
    except FormatError:
        is_safe = False
    if not is_safe:
        raise FormatError(f"{display_path!r} cannot be edited safely", hint="edit it by hand")
    return edited


def _new_file(host: Host, name: str, server: JsonObject) -> str:
    value = host.document({name: server})
    return toml_text(value) if host.kind == "toml" else yaml_text.dump(value, sort_keys=False)


def _value(host: Host, text: str, display_path: str) -> Any:
    if host.kind == "toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise FormatError(f"{display_path!r} is not valid TOML: {error}") from None
    value = parse(text.encode(), display_path).value
    if not isinstance(value, dict):
        raise FormatError(f"{display_path!r} must contain an object")
    return value


def _expected(host: Host, value: JsonObject, name: str, server: JsonObject) -> JsonObject:
    """Return the value of the file with the server."""
    (key,) = host.path
    servers: Any = value.get(key) or ([] if host.lists_servers else {})
    if not host.lists_servers:
        return {**value, key: {**servers, name: host.named(name, server)}}
    listed = host.named(name, server)
    at = _position(servers, name)
    items = [*servers, listed] if at is None else [*servers[:at], listed, *servers[at + 1 :]]
    return {**value, key: items}


def _position(servers: list[Any], name: str) -> int | None:
    """Return the index of the server with a name in a list; None without it."""
    names = [server.get("name") if isinstance(server, dict) else None for server in servers]
    return names.index(name) if name in names else None


def _toml(host: Host, text: str, name: str, server: JsonObject) -> str:
    """Return the text with the tables of the server in place of its own, or at the end."""
    added = toml_text(host.document({name: server})).splitlines()
    rest: list[str] = []
    at: int | None = None
    is_own = False
    for line in text.splitlines():
        table = _TABLE.match(line)
        if table is not None:
            path = _toml_path(table["path"])
            is_own = path[: len(host.path) + 1] == (*host.path, name)
            at = len(rest) if is_own and at is None else at
        if not is_own:
            rest.append(line)
    if at is None:
        while rest and not rest[-1].strip():
            rest.pop()
        at = len(rest)
        added = ["", *added]
    elif at < len(rest):
        added = [*added, ""]
    return "\n".join([*rest[:at], *added, *rest[at:]]) + "\n"


def _toml_path(text: str) -> tuple[str, ...]:
    """Return the keys of a table's header."""
    try:
        value: Any = tomllib.loads(f"[{text}]")
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        keys.append(key)
    return tuple(keys)


def _yaml(host: Host, text: str, name: str, server: JsonObject, value: JsonObject) -> str:
    """Return the text with the lines of the server in place of its own, or after the last one."""
    (key,) = host.path
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if re.match(rf"{key}\s*:", line)), None)
    if start is None or not value.get(key):
        servers = host.document({name: server})[key]
        block = yaml_text.dump({key: servers}, sort_keys=False).splitlines()
        if start is None:
            return "\n".join([*lines, *block]) + "\n"
        return "\n".join([*lines[:start], *block, *lines[start + 1 :]]) + "\n"
    entries = list(_entries(lines, start + 1, is_list=host.lists_servers))
    if not entries:
        return text  # a flow mapping: the caller refuses it
    indent = " " * (len(lines[entries[0][0]]) - len(lines[entries[0][0]].lstrip()))
    named = host.named(name, server)
    entry = [named] if host.lists_servers else {name: named}
    block = [f"{indent}{line}" for line in yaml_text.dump(entry, sort_keys=False).splitlines()]
    at = (
        _position(value[key], name)
        if host.lists_servers
        else next(
            (at for at, key_of_server in enumerate(value[key]) if key_of_server == name), None
        )
    )
    begin, end = (entries[-1][1],) * 2 if at is None else entries[at]
    return "\n".join([*lines[:begin], *block, *lines[end:]]) + "\n"


def _entries(lines: list[str], start: int, *, is_list: bool) -> Iterator[tuple[int, int]]:
    """Yield the first line of each entry of a block, and the line after its last one; comments between them stay."""
    indent: int | None = None
    begin: int | None = None
    last = start
    for at in range(start, len(lines)):
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        is_item = line.lstrip().startswith("-")
        if depth < indent or (depth == 0 and not (is_list and is_item)):
            break
        if depth == indent and (is_item or not is_list):
            if begin is not None:
                yield begin, last
            begin = at
        last = at + 1
    if begin is not None:
        yield begin, last


def entry_text(host: Host, name: str, server: JsonObject) -> str:
    """Return the text of a server in the syntax of the host's file."""
    # The entry alone: the lines around it in the file can have credentials.
    value = host.document({name: server})
    if host.kind == "toml":
        return toml_text(value)
    for key in host.path:
        value = value[key]
    if host.kind == "yaml":
        return yaml_text.dump(value, sort_keys=False)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
