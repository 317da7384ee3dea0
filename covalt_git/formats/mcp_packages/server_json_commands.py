"""The command that runs a package of a ``server.json``: the program of its registry, which runs it, and the arguments.

The result is words for ``args``, with their origins in the document; the caller adds them to a toolset.  Source, as of
November 2026: the guide to package types of the MCP registry.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.formats.http_texts import escaped
from covalt_git.formats.mcp_packages.server_json_inputs import (
    BRACES,
    Word,
    items_of,
    part_of,
    value_of,
)
from covalt_git.formats.model import Part

if TYPE_CHECKING:
    from covalt_git.formats.mcp_packages.server_json_inputs import Inputs

_TAG: Final = re.compile(r"(?<=[\w.-])(@[^/]*|:[^/]*|==.*)\Z")
"""The version or digest at the end of a package's name."""

_LONG: Final = {"--yes": "-y", "--interactive": "-i", "-it": "-i", "-ti": "-i"}


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
RUNNER_OF_REGISTRY: Final = {
    "npm": "npx",
    "pypi": "uvx",
    "oci": "docker",
    "docker": "docker",
    "nuget": "dnx",
}
"""The program that runs a package of a registry, unless the package has a hint of another one."""

_CONTAINERS: Final = frozenset({"docker", "podman"})
_PUBLIC: Final = re.compile(
    r"https://(registry\.npmjs\.org|(www\.)?pypi\.org|api\.nuget\.org|(registry-1\.|index\.)?docker\.io|hub\.docker\.com)(/.*)?\Z"
)
"""The registries that the runners use by default."""


class CommandLine:
    """The arguments of the command that runs a package.

    Attributes:
        words: the arguments so far.
        implied: parts that the command has without an argument.
        left_out: the names of optional arguments without a value.
        repeated: the parts by which an argument with a value of the user can have several.
    """

    def __init__(self, package: Part, registry: str, command: str, inputs: Inputs) -> None:
        self.words: list[Word] = []
        self.implied: list[Part] = []
        self.left_out: list[str] = []
        self.repeated: list[Part] = []
        self._package = package
        self._is_image = registry in {"oci", "docker"}
        self._program = command.replace("\\", "/").rpartition("/")[2]
        self._runner = _RUNNERS.get(self._program, _Runner(()))
        self._inputs = inputs

    def read(self, identifier: Part, variables: list[str]) -> None:
        """Add all arguments: of the runner, the package, and of the package's program.

        A container gets the ``variables`` of its program's environment only by options.
        """
        for argument in items_of(self._package, "runtime_arguments"):
            self._read_argument(argument)
        own = {_LONG.get(item.text, item.text): item for item in self.words}
        first = [own.get(item, Word(item)) for item in self._runner.first]
        rest = [item for item in self.words if item not in first]
        name = self._name(identifier.value, first)
        self.words = [*first, *rest]
        at = self._position(identifier.value)
        # A container does not inherit the environment of the program that starts it.
        if self._program in _CONTAINERS:
            texts = " ".join(item.text for item in self.words[:at])
            missing = [item for item in variables if not re.search(rf"\b{item}\b", texts)]
            options = [Word(text) for item in missing for text in ("-e", item)]
            start = len(self.words) if at is None else at
            self.words[start:start] = options
            at = at if at is None else at + len(options)
        arguments = items_of(self._package, "package_arguments")
        if at is None and "--from" in own and _begins_with_program(arguments, identifier.value):
            self.implied += [
                item for item in (identifier, part_of(self._package, "version")) if item is not None
            ]
        else:
            self._add_package(identifier, name, at, is_named="--from" in own)
        if self._program == "dnx" and arguments:
            self.words.append(Word("--"))
        for argument in arguments:
            self._read_argument(argument)

    def _name(self, identifier: str, first: list[Word]) -> str:
        """Return the name of a package with the host of its registry, which an image needs; other runners have an option."""
        base = part_of(self._package, "registry_base_url")
        if base is None or not isinstance(base.value, str):
            return identifier
        is_public = _PUBLIC.match(base.value) is not None
        if not is_public and not self._is_image and self._runner.registry:
            first.append(Word(self._runner.registry.format(escaped(base.value)), (base,)))
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
        version = part_of(self._package, "version")
        origins: tuple[Part, ...] = (identifier,)
        if version is not None and isinstance(version.value, str) and version.value:
            origins += (version,)
            if not is_named and not (self._is_image and _TAG.search(name)):
                name += self._runner.version + version.value
        if at is None:
            self.words.append(Word(_template(name), origins))
            self.words += map(Word, self._runner.after)
        else:
            text = self.words[at].text
            tag = _TAG.search(name)
            # An argument with a version of its own wins; without it, the runner would take the latest one.
            text += (
                _template(tag[0]) if tag and self._runner.version and not _TAG.search(text) else ""
            )
            self.words[at] = Word(text, (*self.words[at].origins, *origins))

    def _read_argument(self, argument: Part) -> None:
        """Add an argument of the document: its name if it has one, and its value."""
        name = argument.peek("name") if argument.peek("type") == "named" else None
        filled = (
            self._inputs.filled(argument["name"], argument) if isinstance(name, str) else Word("")
        )
        flag = filled.text
        origins = (*(argument[key] for key in ("type",) if key in argument), *filled.origins)
        # Some files have the value in the name, as `--port={port}`.
        if "=" in flag[:-1] and "value" not in argument and flag != escaped(str(name)):
            self.words.append(Word(flag, origins))
            return
        if flag and _is_switch(argument):
            self._add_switch(flag, argument, origins)
            return
        hint = value_of(argument, "value_hint")
        result = self._inputs.value(argument, str(hint or name or "value"))
        repeated = part_of(argument, "is_repeated")
        has_text = "value" in argument and not BRACES.search(str(argument.peek("value")))
        if repeated is not None and repeated.value is True and not has_text and result is not None:
            self.repeated.append(repeated)
        if result is None:
            self.left_out.append(str(name or hint or "a value"))
        elif flag.endswith("="):
            self.words.append(Word(flag + result.text, (*origins, *result.origins)))
        elif flag:
            self.words += [Word(flag, origins), result]
        else:
            self.words.append(Word(result.text, (*origins, *result.origins)))

    def _add_switch(self, flag: str, argument: Part, origins: tuple[Part, ...]) -> None:
        keys = ("value", "default", "format", "is_required")
        parts = (part_of(argument, key) for key in keys)
        origins += tuple(item for item in parts if item is not None)
        text = str(value_of(argument, "value", "default") or "true").lower()
        if text == "true":
            self.words.append(Word(flag, origins))
        elif "value" in argument:
            self.words.append(Word(f"{flag}=false", origins))
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
    text = value_of(argument, "value", "default")
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
    is_alone = not any(part_of(argument, key) is not None for key in described)
    return argument.peek("value") == "" or ("value" not in argument and is_alone)
