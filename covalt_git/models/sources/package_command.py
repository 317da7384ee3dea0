"""Commands that run a package of a registry: which package, which program of it, and with which arguments.

The forms are those of npm 11 (``npx``, ``npm exec``), pnpm 10, Yarn 4, Bun 1.3, uv 0.9 and pipx 1.8.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.toolset_state import WORKSPACE, WRITABLE
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ProgramSandbox

Ecosystem = Literal["npm", "pypi"]


_WORKSPACE = ("$workspace", "${workspace}")


class NotPinnableError(CovaltError):
    """A command that runs a package without a version and hash of a registry."""

    code = "not_pinnable"
    http_status = 422


class PackageCommand(NamedTuple):
    """A command that runs a program of a package.

    Attributes:
        ecosystem: the registry that has the package.
        requirements: the package and others to install beside it: ``name@range`` for npm, ``name==1`` for PyPI.
        program: name of the program; None for that of the package.
        arguments: arguments of the program.
        python: name or version of the interpreter; None for ours.
    """

    ecosystem: Ecosystem
    requirements: tuple[str, ...]
    program: str | None
    arguments: tuple[str, ...]
    python: str | None = None


class _Runner(NamedTuple):
    """Options of a program that runs packages; ``flags`` have no value and change nothing that is pinned."""

    ecosystem: Ecosystem
    flags: frozenset[str]
    package: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NPM = _Runner(
    "npm",
    _words(
        "-y --yes -q --quiet -s --silent --ignore-scripts --prefer-offline --prefer-online --no-audit --no-fund"
        " --no-progress --no-update-notifier"
    ),
    package=("-p", "--package"),
)
_DLX = _Runner("npm", _words("-q --quiet -s --silent"), package=("-p", "--package"))
_BUN = _Runner("npm", _words("-y --yes --silent --verbose"), package=("-p", "--package"))
_UV = _Runner(
    "pypi",
    _words(
        "-q --quiet -v --verbose -n --no-cache --isolated --refresh -U --upgrade --no-progress --no-config"
    ),
    package=("--from",),
    extra=("--with", "-w"),
    python=("-p", "--python"),
)
_PIPX = _Runner(
    "pypi",
    _words("-q --quiet -v --verbose --no-cache --fetch-missing-python"),
    package=("--spec",),
    extra=("--with",),
    python=("--python",),
)
_RUNNERS: dict[tuple[str, ...], _Runner] = {
    ("npx",): _NPM,
    ("npm", "exec"): _NPM,
    ("npm", "x"): _NPM,
    ("pnpm", "dlx"): _DLX,
    ("pnpx",): _DLX,
    ("yarn", "dlx"): _DLX,
    ("bunx",): _BUN,
    ("bun", "x"): _BUN,
    ("uvx",): _UV,
    ("uv", "tool", "run"): _UV,
    ("pipx", "run"): _PIPX,
}

_NPM_NAME = r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*"
_NPM_PACKAGE = re.compile(rf"(?i)({_NPM_NAME})(?:@([\w.^~<>=|* +-]+))?")
_PYPI_NAME = r"[A-Z0-9](?:[A-Z0-9._-]*[A-Z0-9])?"
_VERSION = r"[A-Z0-9][A-Z0-9.!+*-]*"
_SPECIFIER = rf"(?:===|==|~=|!=|<=|>=|<|>)\s*{_VERSION}"
_PYPI_PACKAGE = re.compile(
    rf"(?i)({_PYPI_NAME}(?:\[[A-Z0-9._, -]*\])?)\s*"
    rf"(?:@\s*(latest|{_VERSION})|({_SPECIFIER}(?:\s*,\s*{_SPECIFIER})*))?"
)


def package_command(server: McpServer) -> PackageCommand | None:
    """Return the package that a server's command runs; None if the command runs no package of a registry.

    Raises:
        NotPinnableError: if the package has no version in a registry, such as a git URL, or an option is not
            supported.
    """
    if server.command is None:
        return None
    name = re.sub(r"(?i)\.(cmd|exe|ps1)$", "", PurePath(server.command).name)
    words = (name, *server.args)
    for beginning, runner in _RUNNERS.items():
        if words[: len(beginning)] == beginning:
            return _parsed(server, " ".join(beginning), runner, words[len(beginning) :])
    return None


def _parsed(
    server: McpServer, runner_name: str, runner: _Runner, words: Sequence[str]
) -> PackageCommand:
    packages: list[str] = []
    extra: list[str] = []
    python = None
    ended = False
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            positional = [word, *rest]
            break
        if word == "--":
            positional, ended = list(rest), True
            break
        option, value = _option(word)
        if option in runner.flags and value is None:
            continue
        if option not in (*runner.package, *runner.extra, *runner.python):
            raise _refused(
                server,
                f"the option {option!r} of {runner_name}",
                f"remove it, or settle it in the configuration of {runner.ecosystem}",
            )
        value = _value(server, option, value, rest)
        if option in runner.python:
            python = value
        elif option in runner.package:
            packages.append(value)
        else:
            extra += value.split(",")
    else:
        positional = []
    if not positional:
        raise _refused(server, f"{runner_name} without a package", "write the name of a package")
    if not packages:
        # The program of a package has its name, which `npx` looks up in the package.
        packages, program = [positional[0]], None
    else:
        program = positional[0]
    if runner.ecosystem == "pypi" and len(packages) > 1:
        raise _refused(
            server, f"several packages of {runner_name}", f"add others by {runner.extra[0]}"
        )
    requirements = tuple(_requirement(server, runner, text) for text in (*packages, *extra))
    arguments = tuple(positional[1:])
    # npm reads its options up to the first `--`, also behind the package.
    if runner_name in {"npm exec", "npm x"} and arguments[:1] == ("--",) and not ended:
        arguments = arguments[1:]
    if program is not None and not re.fullmatch(r"[\w.@+-]+", program):
        raise _refused(server, f"the program {program!r}", "write the name of a program")
    return PackageCommand(runner.ecosystem, requirements, program, arguments, python)


def _option(word: str) -> tuple[str, str | None]:
    name, equals, value = word.partition("=")
    return (name, value) if equals else (word, None)


def _value(server: McpServer, option: str, value: str | None, rest: Iterator[str]) -> str:
    value = next(rest, None) if value is None else value
    if not value:
        raise _refused(server, f"{option} without a value", "write its value")
    return value


def _requirement(server: McpServer, runner: _Runner, text: str) -> str:
    """Return a requirement in the form of the ecosystem's installer."""
    if "$" in text:
        raise _refused(server, f"the package {text!r}", "write the name of the package itself")
    text = text.strip()
    if runner.ecosystem == "npm":
        match = _NPM_PACKAGE.fullmatch(text)
        if match is not None:
            return f"{match[1]}@{match[2].strip()}" if match[2] else match[1]
    elif (match := _PYPI_PACKAGE.fullmatch(text)) is not None and not text.endswith(".py"):
        name, version, specifiers = match.groups()
        if version is not None and version.lower() != "latest":
            return f"{name}=={version}"
        return name + re.sub(r"\s+", "", specifiers or "")
    raise _refused(
        server,
        f"the package {text!r}",
        "name a package of a registry; or install it yourself, and declare the path of its program",
    )


def _refused(server: McpServer, what: str, hint: str) -> NotPinnableError:
    return NotPinnableError(
        f"the MCP server {server.id!r} cannot be pinned: {what} is not supported", hint=hint
    )


def package_name(requirement: str) -> str:
    """Return the name of the package of a requirement, without its version and extras."""
    match = re.match(
        rf"(?i){_NPM_NAME}" if requirement.startswith("@") else rf"(?i){_PYPI_NAME}", requirement
    )
    return match[0] if match else requirement


_INTERPRETERS = re.compile(
    r"(?i)(python|pypy)[\d.]*|node|nodejs|deno|bun|ruby|perl|php|java|dotnet|bash|dash|sh|zsh|fish|env|cmd"
    r"|powershell|pwsh|npm|pnpm|yarn|uv|pipx|pip[\d.]*|poetry|pdm|hatch|cargo|go|docker|podman|nerdctl"
)


def _with_version(requirement: str) -> str:
    """Return the package of a requirement with its version, such as ``said (newest version)``."""
    rest = requirement.removeprefix(package_name(requirement))
    version = rest.rpartition("]")[2]
    name = requirement.removesuffix(version)
    version = version.removeprefix("@").removeprefix("==")
    return f"{name} ({'newest version' if version in {'', 'latest'} else version})"


_REGISTRIES: dict[Ecosystem, str] = {"npm": "npm", "pypi": "PyPI"}


def abilities(
    server: McpServer, sandbox: ProgramSandbox | Literal["none"] | None = None
) -> tuple[str, ...]:
    """Return phrases for what a server is able to do, and nothing else; ``sandbox`` is that of the grant that acts.

    Without a grant that acts, they are for a grant of its start or URL and nothing more.
    """
    if server.command is None:
        receives = (
            f", with the headers {', '.join(sorted(server.headers))}" if server.headers else ""
        )
        return (f"receives the arguments of its calls at {server.url}{receives}",)
    try:
        package = package_command(server)
    except NotPinnableError as error:
        return (f"is not started: {error.message}",)
    if sandbox == "none":
        phrases = ["runs without a sandbox, and can do everything that you can do"]
    else:
        phrases = [
            "runs in the sandbox, and reads its own files and the programs of the system",
            *_sandboxed_abilities(server, sandbox),
        ]
    if package is not None:
        names = ", ".join(map(_with_version, package.requirements))
        several = len(package.requirements) > 1
        phrases.insert(
            1,
            f"installs {names} and what {'they depend' if several else 'it depends'} on from"
            f" {_REGISTRIES[package.ecosystem]}, and runs their code once you accept their hashes",
        )
    if server.env:
        phrases.append(f"receives the variables {', '.join(sorted(server.env))}")
    return tuple(phrases)


def _sandboxed_abilities(server: McpServer, sandbox: ProgramSandbox | None) -> Iterator[str]:
    texts = (*server.args, *server.env.values())
    folders = () if sandbox is None else sandbox.folders
    uses_workspace = any(place in text for text in texts for place in _WORKSPACE)
    if uses_workspace or WORKSPACE in {folder.removesuffix(WRITABLE) for folder in folders}:
        yield "reads and writes the files of the chat"
    else:
        yield "sees no file of the chat"
    if sandbox is None:
        yield "reaches no host, and no other file, before you grant it"
        return
    for folder in folders:
        path = folder.removesuffix(WRITABLE)
        if path != WORKSPACE:
            verb = "reads and writes" if path != folder else "reads"
            yield f"{verb} the folder {display.in_line(path)}"
    for host in sandbox.hosts:
        yield f"reaches the host {host}"
    for name in sandbox.secrets:
        yield f"receives the secret {name}"
    yield (
        "reaches no other host, and no other file"
        if sandbox.hosts
        else "reaches no host, and no other file"
    )


def is_interpreter(command: str) -> bool:
    """Return whether a program runs code that its arguments name: an interpreter or a package manager."""
    name = re.sub(r"(?i)\.(exe|cmd|bat)$", "", PurePath(command).name)
    return _INTERPRETERS.fullmatch(name) is not None
