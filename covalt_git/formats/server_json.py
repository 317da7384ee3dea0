"""The format ``server.json`` of the MCP registry, of its schemas from 2025-07-09 to 2025-12-11.

Keys are in camelCase since 2025-09-29, and were in snake_case before; both are read.  A package becomes the
command that its registry's runner starts it with.  Sources, as of November 2026: the schemas, and the guide to
package types of the registry.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.credentials.named_values import is_secret
from covalt_git.formats.http_texts import escaped, is_server_url, login_message, without_login
from covalt_git.formats.model import Imported, Note, Part, owned_variable, unused
from covalt_git.formats.shapes import TEXT, are_objects, schema_of

if TYPE_CHECKING:
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node

_TRANSPORTS: Final = {
    "sse": "sse",
    "streamable": "streamable-http",
    "streamable-http": "streamable-http",
}
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACES: Final = re.compile(r"\{([^{}]+)\}")
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=\{[^{}]+\}")
_TAG: Final = re.compile(r"(?<=[\w.-])(@[^/]*|:[^/]*|==.*)\Z")
"""The version or digest at the end of a package's name."""

_LONG: Final = {"--yes": "-y", "--interactive": "-i", "-it": "-i", "-ti": "-i"}

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


class _Runner(NamedTuple):
    """How a program runs a package: its first arguments, and what is before the version and after the package."""

    first: tuple[str, ...]
    version: str = "@"
    after: tuple[str, ...] = ()
    registry: str = ""


_RUNNERS: Final = {
    "npx": _Runner(("-y",), registry="--registry={}"),
    "bunx": _Runner(()),
    "bun": _Runner(("x",)),
    "pnpm": _Runner(("dlx",)),
    "yarn": _Runner(("dlx",)),
    "uvx": _Runner((), "==", registry="--default-index={}"),
    "uv": _Runner(("tool", "run"), "==", registry="--default-index={}"),
    "pipx": _Runner(("run",), "==", registry="--index-url={}"),
    "docker": _Runner(("run", "-i", "--rm"), ":"),
    "podman": _Runner(("run", "-i", "--rm"), ":"),
    "dnx": _Runner((), after=("--yes",), registry="--source={}"),
}
_RUNTIMES: Final = {
    "npm": "npx",
    "pypi": "uvx",
    "oci": "docker",
    "docker": "docker",
    "nuget": "dnx",
}
_CONTAINERS: Final = frozenset({"docker", "podman"})
_PUBLIC: Final = re.compile(
    r"https://(registry\.npmjs\.org|(www\.)?pypi\.org|api\.nuget\.org|(registry-1\.|index\.)?docker\.io|hub\.docker\.com)(/.*)?\Z"
)
"""The registries that the runners use by default."""


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
    inputs = _Inputs(toolset.value["id"])
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
        _set(server.node("headers"), "Authorization", _Word(header_value, (remote["url"],)))
        imported.notes.append(Note(remote["url"].loc, login_message(header_value)))


def _read_package(toolset: Node, package: Part, imported: Imported) -> None:
    """Add the server of a package, or the reason why it has no command."""
    identifier = _part(package, "identifier", "name")
    registry = str(_peek(package, "registry_type", "registry_name") or "")
    reason = _refusal(package, registry, identifier)
    hint = _peek(package, "runtime_hint")
    command = hint if hint and isinstance(hint, str) else _RUNTIMES.get(registry, "")
    if not reason and not command:
        reason = f"packages of {registry or 'this registry'} have no known command"
    if reason or identifier is None:
        imported.lost[package.loc] = reason
        return
    server = toolset.item("mcp_servers", id=_server_id(toolset), command=command)
    for origin in (
        _part(package, "runtime_hint"),
        _part(package, "registry_type"),
        _part(package, "registry_name"),
        (_part(package, "transport") or Part({})).get("type"),
    ):
        if origin is not None:
            server.trace(("command",), origin.loc)
    inputs = _Inputs(toolset.value["id"])
    for variable in _items(package, "environment_variables"):
        if _ENV_NAME.fullmatch(str(variable.peek("name", ""))):
            _set(server.node("env"), variable.peek("name"), inputs.setting(variable, is_env=True))
    command_line = _CommandLine(package, registry, command, inputs)
    command_line.read(identifier, list(server.value.get("env", ())))
    server.value["args"] = [entry.text for entry in command_line.words]
    for at, word in enumerate(command_line.words):
        for origin in word.origins:
            server.trace(("args", at), origin.loc)
    for origin in command_line.implied:
        server.trace(("command",), origin.loc)
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
        return f"the package is a bundle, with files of its own: covalt-git bundle import {url}"
    transport = package.peek("transport")
    kind = transport.get("type") if isinstance(transport, dict) else None
    # The client of such a package would wait for messages on a stdout that has none.
    if kind in _TRANSPORTS:
        url = _own_url(package, str(transport.get("url", "a URL")))
        return f"the program serves {url} itself: start it, and add a server with this URL"
    return ""


def _own_url(package: Part, url: str) -> str:
    """Return the URL that a package serves, in which arguments and variables have their values or defaults."""
    keys = ("package_arguments", "runtime_arguments", "environment_variables")
    inputs = [item for key in keys for item in _items(package, key)]
    values = {
        str(name).lstrip("-").lower(): _peek(item, "value", "default")
        for item in reversed(inputs)
        for name in (item.peek("name"), _peek(item, "value_hint"))
        if name and not _is_secret(item, str(name))
    }
    for name, variable in package["transport"].entries("variables"):
        values[name.lower()] = _peek(variable, "value", "default")

    def filled(braces: re.Match[str]) -> str:
        value = values.get(braces[1].lower())
        return str(value) if isinstance(value, str | int | float) else f"<{braces[1]}>"

    return _BRACES.sub(filled, url)


class _Word(NamedTuple):
    """A text of the output, and the parts of the document that it has."""

    text: str
    origins: tuple[Part, ...] = ()


class _CommandLine:
    """The arguments of the command that runs a package.

    Attributes:
        words: the arguments so far.
        implied: parts that the command has without an argument.
        left_out: the names of optional arguments without a value.
    """

    def __init__(self, package: Part, registry: str, command: str, inputs: _Inputs) -> None:
        self.words: list[_Word] = []
        self.implied: list[Part] = []
        self.left_out: list[str] = []
        self._package = package
        self._is_image = registry in {"oci", "docker"}
        self._program = command.replace("\\", "/").rpartition("/")[2]
        self._runner = _RUNNERS.get(self._program, _Runner(()))
        self._inputs = inputs

    def read(self, identifier: Part, variables: list[str]) -> None:
        """Add all arguments: of the runner, the package, and of the package's program.

        A container gets the ``variables`` of its program's environment only by options.
        """
        for argument in _items(self._package, "runtime_arguments"):
            self._read_argument(argument)
        own = {_LONG.get(item.text, item.text): item for item in self.words}
        first = [own.get(item, _Word(item)) for item in self._runner.first]
        rest = [item for item in self.words if item not in first]
        name = self._name(identifier.value, first)
        self.words = [*first, *rest]
        at = self._position(identifier.value)
        # A container does not inherit the environment of the program that starts it.
        if self._program in _CONTAINERS:
            texts = " ".join(item.text for item in self.words[:at])
            missing = [item for item in variables if not re.search(rf"\b{item}\b", texts)]
            options = [_Word(text) for item in missing for text in ("-e", item)]
            start = len(self.words) if at is None else at
            self.words[start:start] = options
            at = at if at is None else at + len(options)
        arguments = _items(self._package, "package_arguments")
        if at is None and "--from" in own and _begins_with_program(arguments, identifier.value):
            self.implied += [
                item for item in (identifier, _part(self._package, "version")) if item is not None
            ]
        else:
            self._add_package(identifier, name, at, is_named="--from" in own)
        if self._program == "dnx" and arguments:
            self.words.append(_Word("--"))
        for argument in arguments:
            self._read_argument(argument)

    def _name(self, identifier: str, first: list[_Word]) -> str:
        """Return the name of a package with the host of its registry, which an image needs; other runners have an option."""
        base = _part(self._package, "registry_base_url")
        if base is None or not isinstance(base.value, str):
            return identifier
        is_public = _PUBLIC.match(base.value) is not None
        if not is_public and not self._is_image and self._runner.registry:
            first.append(_Word(self._runner.registry.format(escaped(base.value)), (base,)))
        elif is_public or self._is_image:
            self.implied.append(base)
        host = re.sub(r"\Ahttps?://", "", base.value).rstrip("/")
        is_other = self._is_image and not is_public and not identifier.startswith(host)
        return f"{host}/{identifier}" if is_other else identifier

    def _position(self, identifier: str) -> int | None:
        """Return the position of the package in any version; None if no argument has it."""
        plain = re.escape(_TAG.sub("", identifier))
        named = re.compile(rf"([\w.:-]+/)?{plain}([@:=~<>!\[].*)?")
        numbered = enumerate(self.words)
        return next(
            (
                at
                for at, item in numbered
                if named.fullmatch(item.text) and self._before(at) != "--from"
            ),
            None,
        )

    def _before(self, at: int) -> str:
        return self.words[at - 1].text if at else ""

    def _add_package(self, identifier: Part, name: str, at: int | None, *, is_named: bool) -> None:
        """Add the package with its version, unless an argument has it already.

        After ``--from`` it ``is_named`` only: it is the program of that package.
        """
        version = _part(self._package, "version")
        origins: tuple[Part, ...] = (identifier,)
        if version is not None and isinstance(version.value, str) and version.value:
            origins += (version,)
            if not is_named and not (self._is_image and _TAG.search(name)):
                name += self._runner.version + version.value
        if at is None:
            self.words.append(_Word(_template(name), origins))
            self.words += map(_Word, self._runner.after)
        else:
            text = self.words[at].text
            tag = _TAG.search(name)
            # An argument with a version of its own wins; without it, the runner would take the latest one.
            text += (
                _template(tag[0]) if tag and self._runner.version and not _TAG.search(text) else ""
            )
            self.words[at] = _Word(text, (*self.words[at].origins, *origins))

    def _read_argument(self, argument: Part) -> None:
        """Add an argument of the document: its name if it has one, and its value."""
        name = argument.peek("name") if argument.peek("type") == "named" else None
        flag = escaped(name) if isinstance(name, str) else ""
        origins = tuple(argument[key] for key in ("type", "name") if key in argument)
        if flag and _is_switch(argument):
            self._add_switch(flag, argument, origins)
            return
        hint = _peek(argument, "value_hint")
        result = self._inputs.value(argument, str(hint or name or "value"))
        if result is None:
            self.left_out.append(str(name or hint or "a value"))
        elif flag.endswith("="):
            self.words.append(_Word(flag + result.text, (*origins, *result.origins)))
        elif flag:
            self.words += [_Word(flag, origins), result]
        else:
            self.words.append(_Word(result.text, (*origins, *result.origins)))

    def _add_switch(self, flag: str, argument: Part, origins: tuple[Part, ...]) -> None:
        keys = ("value", "default", "format", "is_required")
        parts = (_part(argument, key) for key in keys)
        origins += tuple(item for item in parts if item is not None)
        text = str(_peek(argument, "value", "default") or "true").lower()
        if text == "true":
            self.words.append(_Word(flag, origins))
        elif "value" in argument:
            self.words.append(_Word(f"{flag}=false", origins))
        else:  # it is off unless a user wants it
            self.implied += origins


def _begins_with_program(arguments: list[Part], identifier: str) -> bool:
    """Return whether the arguments of a package begin with the program that ``--from`` needs.

    Such a program has the name of the package, or the first part of it; any other text is an argument of the program
    that has the package's name.
    """
    first = arguments[0] if arguments else Part({})
    program = first.peek("value")
    is_positional = first.peek("type") != "named" and isinstance(program, str)
    return (
        is_positional
        and bool(program)
        and re.split(r"[-_.]", identifier)[0] == re.split(r"[-_.]", program)[0]
    )


def _template(text: str) -> str:
    """Return a text in which ``${VERSION}``, which a publisher's script did not fill, is a variable of the user."""
    return re.sub(r"(?<!\$)\$\{(\w+)\}", r"${env:\1}", escaped(text))


def _is_switch(argument: Part) -> bool:
    """Return whether an argument is a flag without a value."""
    text = _peek(argument, "value", "default")
    if argument.peek("format") == "boolean":
        return str(text).lower() in {"true", "false"}
    described = (
        "format",
        "value_hint",
        "description",
        "default",
        "placeholder",
        "choices",
        "is_required",
    )
    # Many files have only the name of a flag without a value.
    is_alone = not any(_part(argument, key) is not None for key in described)
    return argument.peek("value") == "" or ("value" not in argument and is_alone)


class _Inputs:
    """Reader of values that the document or a user sets: variables, headers and arguments.

    A secret becomes a reference to it.  Another value is its fixed value or its default, else a reference to a
    variable of the environment.  Names of references begin with the server's, unless they are of variables.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def setting(self, source: Part, *, is_env: bool = False) -> _Word:
        """Return the value of a variable or a header; an optional one has an empty default."""
        name = source.peek("name")
        result = self.value(source, name, variable=name if is_env else "")
        result = result or self._reference(
            source, name if is_env else owned_variable(self._owner, name), ":-"
        )
        return _Word(result.text, (source["name"], *result.origins))

    def value(self, source: Part, name: str, *, variable: str = "") -> _Word | None:
        """Return a value; None if it is optional and not known.

        ``variable`` is the name of the variable that a user sets, if it is not made of ``name``.
        """
        is_hidden = _is_secret(source, variable or name)
        text = source.peek("value")
        # A fixed value of a secret is a credential of the author.
        if isinstance(text, str) and (not is_hidden or re.search(r"\{.+\}", text)):
            return self.filled(source["value"], source, variable)
        default = source.peek("default")
        if isinstance(default, str | int | float) and not _peek(source, "is_secret"):
            excerpt = default if isinstance(default, str) else json.dumps(default)
            return _Word(escaped(excerpt), (source["default"], *_flags(source)))
        if not _peek(source, "is_required", "required") and "value" not in source:
            return None
        return self._reference(source, variable or owned_variable(self._owner, name))

    def filled(self, part: Part, source: Part, variable: str = "") -> _Word:
        """Return a text in which ``{name}`` of the ``variables`` of its source has a value.

        ``variable`` is the name for its only variable, if the text is nothing else.
        """
        variables = dict(source.entries("variables"))
        text = part.value
        assigned = _ASSIGNED.fullmatch(text)
        if assigned is not None:
            variable = assigned[1]
        elif not _BRACES.fullmatch(text):
            variable = ""
        origins = [part, *_flags(source)]
        pieces: list[str] = []
        end = 0
        for result in _BRACES.finditer(text):
            if result[1] in variables:
                value = self.value(variables[result[1]], result[1], variable=variable)
                value = value or self._reference(
                    variables[result[1]], variable or owned_variable(self._owner, result[1])
                )
                pieces += [escaped(text[end : result.start()]), value.text]
                origins += value.origins
                end = result.end()
        return _Word("".join([*pieces, escaped(text[end:])]), tuple(origins))

    def _reference(self, source: Part, name: str, default: str = "") -> _Word:
        place = "" if _is_secret(source, name) else "env:"
        origins = tuple(source[key] for key in ("value",) if key in source)
        return _Word(f"${{{place}{name}{default}}}", (*origins, *_flags(source)))


def _flags(source: Part) -> tuple[Part, ...]:
    """Return the properties of a value that a reference, or the lack of one, says too; some files write ``required``."""
    parts = (_part(source, key) for key in ("is_required", "required", "is_secret"))
    return tuple(part for part in parts if part is not None)


def _is_secret(source: Part, name: str) -> bool:
    """Return whether a value is a secret: if the document does not say it, by its name."""
    is_marked = _peek(source, "is_secret")
    return is_secret(name) if is_marked is None else bool(is_marked)


def _part(source: Part, *keys: str) -> Part | None:
    """Return the first part with one of these keys, which are in snake_case, in either case."""
    for key in keys:
        for item in (key, re.sub(r"_(\w)", lambda result: result[1].upper(), key)):
            if item in source:
                return source[item]
    return None


def _peek(source: Part, *keys: str) -> Any:
    part = _part(source, *keys)
    return None if part is None else part.value


def _items(source: Part, key: str) -> list[Part]:
    listed = _part(source, key)
    return [] if listed is None else [listed[at] for at in range(len(listed.value))]


def _set(node: Node, key: str, word: _Word) -> None:
    node.value[key] = word.text
    for origin in word.origins:
        node.trace((key,), origin.loc)


def _server_id(toolset: Node) -> str:
    existing = [server["id"] for server in toolset.value.get("mcp_servers", ())]
    return unused(toolset.value["id"], existing)
