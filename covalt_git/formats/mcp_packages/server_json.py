"""The format ``server.json`` of the MCP registry, of its schemas from 2025-07-09 to 2025-12-11.

Keys are in camelCase since 2025-09-29, and were in snake_case before; both are read.  Each package and each remote becomes
a server of the toolset, or has a reason why not.  Source, as of November 2026: the schemas.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import is_server_url, login_message, without_login
from covalt_git.formats.mcp_packages.server_json_commands import RUNNER_OF_REGISTRY, CommandLine
from covalt_git.formats.mcp_packages.server_json_inputs import (
    BRACES,
    Inputs,
    Word,
    is_secret_input,
    items_of,
    part_of,
    value_of,
)
from covalt_git.formats.model import Imported, Note, Part, unused
from covalt_git.formats.shapes import TEXT, are_objects, schema_of

if TYPE_CHECKING:
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node

_TRANSPORTS: Final = {
    "sse": "sse",
    "streamable": "streamable-http",
    "streamable-http": "streamable-http",
}
_SHA256: Final = re.compile(r"[0-9A-Fa-f]{64}")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INPUT: Final = {"name": str, "value": str, "variables": {str: dict}}
_INPUTS: Final = [_INPUT]
_PACKAGE_SHAPE: Final = {
    "runtime_arguments": _INPUTS,
    "package_arguments": _INPUTS,
    "environment_variables": _INPUTS,
    "runtimeArguments": _INPUTS,
    "packageArguments": _INPUTS,
    "environmentVariables": _INPUTS,
    "transport": {"type": str, "url": str},
}
_SERVER_SHAPE: Final = {
    "name!": TEXT,
    "description": str,
    "version": str,
    "packages": [_PACKAGE_SHAPE],
    "remotes": [{"url!": str, "headers": _INPUTS, "variables": {str: dict}}],
}
_ANSWER_SHAPE: Final = {"server!": _SERVER_SHAPE}
SCHEMA: Final = {
    "if": {"required": ["servers"]},
    "then": schema_of({"servers!": [_ANSWER_SHAPE]}),
    "else": {
        "if": {"required": ["server"]},
        "then": schema_of(_ANSWER_SHAPE),
        "else": schema_of(_SERVER_SHAPE),
    },
}
"""A ``server.json``, and the answers of the registry, which have one below ``server``, or a list of such objects."""


def recognize(document: Document) -> bool:
    """Return whether a document is a ``server.json``, or an answer of the registry."""
    value = document.value
    if not isinstance(value, dict):
        return False
    answers = value["servers"] if are_objects(value.get("servers"), "server") else [value]
    return bool(answers) and all(_is_server(answer.get("server", answer)) for answer in answers)


def _is_server(value: Any) -> bool:
    named = are_objects([value], "name") and "tools" not in value
    return named and bool({"packages", "remotes"} & value.keys())


def read(document: Document, imported: Imported) -> None:
    """Add the toolset of a ``server.json``, or that of each server in an answer of the registry."""
    source = Part(document.value)
    for answer in source.parts("servers") if "servers" in source else [source]:
        _read_server(answer.get("server") or answer, imported)


def _read_server(source: Part, imported: Imported) -> None:
    name = source.peek("name")
    title = source.peek("title") if isinstance(source.peek("title"), str) else ""
    toolset = imported.toolset(name.rpartition("/")[2], name=title or name)
    toolset.trace(("id",), ("name",))
    if title:
        toolset.trace(("name",), ("title",))
    toolset.copy(source, {"description": "description"})
    details = source.get("version_detail")
    is_nested = details is not None and isinstance(details.value, dict)
    toolset.copy_texts(details if details and is_nested else source, {"version": "version"})
    for package in source.parts("packages"):
        _read_package(toolset, package, imported)
        _disable_alternative(toolset, package, imported)
    for remote in source.parts("remotes"):
        _read_remote(toolset, remote, imported)
        _disable_alternative(toolset, remote, imported)


def _disable_alternative(toolset: Node, origin: Part, imported: Imported) -> None:
    """Disable the last server unless it is the first: packages and remotes are ways to reach the same server."""
    servers = toolset.value.get("mcp_servers", [])
    if len(servers) > 1 and "enabled" not in servers[-1] and origin.loc not in imported.lost:
        servers[-1]["enabled"] = False
        message = f"another way to reach the same server: {servers[-1]['id']!r} is disabled, and {servers[0]['id']!r} is not"
        imported.notes.append(Note(origin.loc, message))


def _read_remote(toolset: Node, remote: Part, imported: Imported) -> None:
    if not is_server_url(remote.peek("url")):
        imported.lost[remote.loc] = "the URL is not of http or https, or has a login"
        return
    server = toolset.item("mcp_servers", id=_server_id(toolset))
    inputs = Inputs(toolset.value["id"])
    _set(server, "url", inputs.filled(remote["url"], remote))
    for name, variable in remote.entries("variables"):
        default = variable.peek("value", variable.peek("default"))
        if f"{{{name}}}" in remote.peek("url") and isinstance(default, str | int):
            message = f"the URL has the default {str(default)!r} for {{{name}}}; write another value into it"
            imported.notes.append(Note(variable.loc, message))
    for key in ("transport_type", "type"):
        transport = _TRANSPORTS.get(str(remote.peek(key)))
        if transport:
            server.set("transport", remote[key], transport)
    for header in remote.parts("headers"):
        if "name" in header:
            _set(server.node("headers"), header.peek("name"), inputs.setting(header))
    server.value["url"], header_value = without_login(server.value["url"])
    if header_value:
        _set(server.node("headers"), "Authorization", Word(header_value, (remote["url"],)))
        imported.notes.append(Note(remote["url"].loc, login_message(header_value)))


def _read_package(toolset: Node, package: Part, imported: Imported) -> None:
    """Add the server of a package, or the reason why it has no command."""
    identifier = part_of(package, "identifier", "name")
    registry = str(value_of(package, "registry_type", "registry_name") or "")
    reason = _refusal(package, registry, identifier)
    hint = value_of(package, "runtime_hint")
    command = hint if hint and isinstance(hint, str) else RUNNER_OF_REGISTRY.get(registry, "")
    if not reason and not command:
        reason = f"packages of {registry or 'this registry'} have no known command"
    if reason or identifier is None:
        imported.lost[package.loc] = reason
        return
    server = toolset.item("mcp_servers", id=_server_id(toolset), command=command)
    digest = part_of(package, "file_sha256")
    if digest is not None and digest.value:
        message = f"{command} does not check this digest of the package"
        imported.without_effect.append(Note(digest.loc, message))
    for origin in (
        part_of(package, "runtime_hint"),
        part_of(package, "registry_type"),
        part_of(package, "registry_name"),
        (part_of(package, "transport") or Part({})).get("type"),
    ):
        if origin is not None:
            server.trace(("command",), origin.loc)
    inputs = Inputs(toolset.value["id"])
    for variable in items_of(package, "environment_variables"):
        if _ENV_NAME.fullmatch(str(variable.peek("name", ""))):
            _set(server.node("env"), variable.peek("name"), inputs.setting(variable, is_env=True))
        else:
            imported.lost[variable.loc] = "its name is not that of a variable of the environment"
    command_line = CommandLine(package, registry, command, inputs)
    command_line.read(identifier, list(server.value.get("env", ())))
    server.value["args"] = [entry.text for entry in command_line.words]
    for at, word in enumerate(command_line.words):
        for origin in word.origins:
            server.trace(("args", at), origin.loc)
    for origin in command_line.implied:
        server.trace(("command",), origin.loc)
    for part in command_line.repeated:
        message = "the argument can have several values: write an argument for each of them"
        imported.notes.append(Note(part.loc, message))
    # A note, not a loss: a program whose optional arguments have no value starts without them.
    if command_line.left_out:
        names = ", ".join(command_line.left_out)
        message = (
            f"optional arguments without a value are left out: {names}; add to args what you need"
        )
        imported.notes.append(Note(package.loc, message))


def _refusal(package: Part, registry: str, identifier: Part | None) -> str:
    """Return why a package is not a command that can be started; empty if it may be."""
    if identifier is None:
        return "the package has no identifier"
    if not isinstance(identifier.value, str):
        return "the identifier of the package is not a text"
    if registry == "mcpb":
        # The URL is the author's, and the message is a command to paste.
        url = shlex.quote(identifier.value)
        digest = value_of(package, "file_sha256")
        is_pinned = isinstance(digest, str) and _SHA256.fullmatch(digest)
        pinned = f" --sha256 {digest}" if is_pinned else ""
        return f"the package is a bundle, with files of its own, which convert does not download: covalt-git bundle import {url}{pinned}"
    transport = package.peek("transport")
    kind = transport.get("type") if isinstance(transport, dict) else None
    # The client of such a package would wait for messages on a stdout that has none.
    if kind in _TRANSPORTS:
        url, missing = _own_url(package, str(transport.get("url", "a URL")))
        listed = f", with your {', '.join(missing)}" if missing else ""
        return f"the program serves {url} itself: start it, and add a server with this URL{listed}"
    return ""


def _own_url(package: Part, url: str) -> tuple[str, list[str]]:
    """Return the URL that a package serves, and the variables in it that only its user knows.

    Arguments and variables of the environment have their values or defaults; a URL names them by their names, with or
    without dashes, or by their hints.
    """
    inputs = Inputs("")
    values: dict[str, str] = {}
    keys = ("package_arguments", "runtime_arguments", "environment_variables")
    sources = [
        (name, item)
        for key in keys
        for item in items_of(package, key)
        for name in (item.peek("name"), value_of(item, "value_hint"))
    ]
    sources += package["transport"].entries("variables")
    for name, source in reversed(sources):
        if not name or not isinstance(name, str) or is_secret_input(source, name):
            continue
        word = inputs.value(source, name)
        if word is not None and "$" not in word.text:
            values[_variable_key(name)] = word.text
    missing: list[str] = []

    def filled(braces: re.Match[str]) -> str:
        value = values.get(_variable_key(braces[1]))
        if value is None and braces[1] not in missing:
            missing.append(braces[1])
        return f"<{braces[1]}>" if value is None else value

    return BRACES.sub(filled, url), missing


def _variable_key(name: str) -> str:
    return name.strip("-= ").lower()


def _set(node: Node, key: str, word: Word) -> None:
    node.value[key] = word.text
    for origin in word.origins:
        node.trace((key,), origin.loc)


def _server_id(toolset: Node) -> str:
    existing = [server["id"] for server in toolset.value.get("mcp_servers", ())]
    return unused(toolset.value["id"], existing)
