"""Observation of an MCP server: it runs in the sandbox, and what it does not get is listed with the call that needed it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.access.grants import granted
from covalt_git.calls.servers.mcp_calls import definition, empty_workspace, grant_check
from covalt_git.errors import CovaltError, nearest_name
from covalt_git.manifests.project_config import read_config
from covalt_git.models.project_config import DEFAULT_TIMEOUT_S, effective_limits
from covalt_git.models.sources.tool_lock import locked_tool
from covalt_git.models.tool_properties import Limits
from covalt_git.models.toolset_state import ProgramSandbox
from covalt_git.text.display import shorten
from covalt_git.text.risky_words import is_harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.connections.connection import ServerCall
    from covalt_git.connections.definition import Definition
    from covalt_git.connections.event_handlers import EventHandlers
    from covalt_git.credentials.command import SecretCommand
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.runtime.observation import Need, Observer
    from covalt_git.toolsets.toolset import Toolset

_LONGEST_LABEL = 100
_LONGEST_ERROR = 2000
_VARIABLE = re.compile(r"(?<![A-Za-z0-9_/.\-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9_/.])")
_MISSING = re.compile(
    r"environ|\bvariables?\b|keyerror|\brequired?\b|missing|not (?:set|found|defined|configured)"
    r"|\bprovide|must be|undefined|please set|unset|field required",
    re.IGNORECASE,
)
_CODES: Final = ("ERR_", "MODULE_NOT_FOUND", "METHOD_NOT_FOUND", "NOT_FOUND")
_NO_PROGRAM = "has a URL: it runs elsewhere, so it cannot be observed"


class CallToObserve(NamedTuple):
    """A call to make: the tool, by the server's own name, and the arguments."""

    tool: str
    args: JsonObject


class ObservedToolCall(NamedTuple):
    """A call that was made; ``error`` is empty if it succeeded."""

    tool: str
    args: JsonObject
    error: str


class Variable(NamedTuple):
    """A variable that the server's output names as missing, with the call that needed it first."""

    name: str
    call: str


class Observation(NamedTuple):
    """What a server did without its grants.

    Attributes:
        level: the sandbox level that it ran at.
        failure: why it did not start, or did not list its tools; empty if it did.
        tools: the names of its tools.
        calls: the calls that were made.
        needs: the files, programs and hosts that it did not get.
        variables: the variables that its output names as missing.
        is_blind: why its files and programs could not be observed; empty if they were.
    """

    level: SandboxLevel
    failure: str
    tools: tuple[str, ...]
    calls: tuple[ObservedToolCall, ...]
    needs: tuple[Need, ...]
    variables: tuple[Variable, ...]
    is_blind: str


def observe(
    toolset: Toolset,
    server: McpServer,
    calls: Sequence[CallToObserve],
    *,
    root: Path,
    command: SecretCommand | None,
    with_grant: bool,
    report: Callable[[str], None],
) -> Observation:
    """Run a granted server in the sandbox, list its tools and make the calls; return what it did not get.

    It has its own files, its declared variables and an empty workspace; ``with_grant`` adds the folders, hosts and
    secrets of its grant.  A server that does not start, and a call that fails, are part of the result.

    Raises:
        GrantNeededError: if the server is not granted.
        CovaltError: ``no_program``, if it has a URL; and as :func:`.mcp_calls.definition`.
    """
    from covalt_git.connections import pool  # noqa: PLC0415 - it loads the SDK
    from covalt_git.connections.connection import ServerCall  # noqa: PLC0415 - as above
    from covalt_git.connections.event_handlers import EventHandlers  # noqa: PLC0415 - as above
    from covalt_git.connections.token_store import mask_of  # noqa: PLC0415 - as above
    from covalt_git.runtime.observation import Observer  # noqa: PLC0415 - as above
    from covalt_git.runtime.pool import ProgramSpec  # noqa: PLC0415 - as above

    if server.command is None:
        raise CovaltError(
            f"the MCP server {server.id!r} of {toolset.id!r} {_NO_PROGRAM}",
            code="no_program",
            http_status=409,
        )
    config = read_config(root)
    with empty_workspace() as workspace:
        may = granted(toolset.id, toolset.state, toolset.digest)
        grant = may.program(server, toolset.files.hashes)
        sandbox = grant.confinement if grant is not None and with_grant else None
        opened = definition(
            toolset,
            server,
            root=root,
            workspace=workspace,
            chat_id=None,
            command=command,
            config=config,
            report=report,
            # Also for a server that is granted to run without a sandbox: this shows what it needs to move into it.
            confinement=sandbox or ProgramSandbox(),
        )
        spec = opened.sandbox
        assert isinstance(spec, ProgramSpec)
        observer = Observer()
        opened = replace(opened, sandbox=spec._replace(observer=observer))
        variables = _Variables(observer, opened.env)
        handlers = EventHandlers(
            starting=variables.read, log=lambda _, message: variables.read(message)
        )
        failure, results = "", list[ObservedToolCall]()
        names: dict[str, str] = {}
        harmless: list[str] = []
        limits = effective_limits(Limits(), config.limits)
        try:
            for tool in pool.CONNECTIONS.tools(opened, handlers=handlers):
                locked = locked_tool(tool)
                names[tool["name"]] = locked.digest
                if locked.annotations.destructive is not True and is_harmless(tool["name"]):
                    harmless.append(tool["name"])
            for call in calls:
                observer.call = shorten(f"{call.tool} {json.dumps(call.args)}", _LONGEST_LABEL)
                if call.tool not in names:
                    near = nearest_name(call.tool, harmless)
                    why = "the server has no such tool"
                    why += f"; did you mean {near!r}?" if near else ""
                    results.append(ObservedToolCall(*call, why))
                    continue
                request = ServerCall(
                    call.tool, names[call.tool], call.args, limits.timeout_s or DEFAULT_TIMEOUT_S
                )
                error = _error_of(opened, request, handlers, grant_check(root, toolset, opened))
                variables.read(error)
                results.append(ObservedToolCall(*call, shorten(error, _LONGEST_ERROR)))
        except CovaltError as error:
            failure = error.message
            variables.read(failure)
        finally:
            pool.CONNECTIONS.end(opened.name)
        mask = mask_of(opened)
        # A name that contains a secret would be printed, and is of no use in a grant once it is masked.
        needs = tuple(need for need in observer.needs if mask.text(need.name) == need.name)
        return Observation(
            spec.level,
            failure,
            tuple(sorted(names)),
            tuple(results),
            needs,
            tuple(Variable(name, call) for name, call in variables.names.items()),
            observer.is_blind,
        )


def _error_of(
    opened: Definition, call: ServerCall, handlers: EventHandlers, wanted: Callable[[], bool]
) -> str:
    """Make a call; return its error, empty if it succeeded."""
    from covalt_git.connections import pool  # noqa: PLC0415 - it loads the SDK
    from covalt_git.connections.token_store import mask_of  # noqa: PLC0415 - as above

    try:
        answer = pool.CONNECTIONS.call(opened, call, handlers=handlers, wanted=wanted)
    except TimeoutError:
        return f"it exceeded its time limit of {call.timeout_s:g} s"
    except CovaltError as error:
        return error.message
    if answer.get("isError") is not True:
        return ""
    return mask_of(opened).text(_text_of(answer)) or "the tool failed"


class _Variables:
    """The names of variables that texts of the server say are missing, with the call of each text."""

    def __init__(self, observer: Observer, env: Mapping[str, str]) -> None:
        self._observer = observer
        self._env = env
        self.names: dict[str, str] = {}

    def read(self, text: str) -> None:
        """Add the names in a text of several lines; a name counts in a line that says that something is missing."""
        for line in text.splitlines():
            if not _MISSING.search(line):
                continue
            for name in _VARIABLE.findall(line):
                if name not in self._env and not name.startswith(_CODES):
                    self.names.setdefault(name, self._observer.call)


def _text_of(answer: JsonObject) -> str:
    """Return the texts of a result that is an error."""
    blocks = answer.get("content")
    texts = [
        str(block.get("text", ""))
        for block in (blocks if isinstance(blocks, list) else [])
        if isinstance(block, dict)
    ]
    return "\n".join(texts)
