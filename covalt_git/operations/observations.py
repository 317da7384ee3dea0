"""Operation that observes an MCP server, and proposes the smallest grant with which it works."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from covalt_git.access.grants import granted, rule_of
from covalt_git.calls.servers.server_observation import CallToObserve, observe
from covalt_git.calls.tool_grants import server_of
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError
from covalt_git.hosts import origin_of
from covalt_git.models.calls import SandboxLevel
from covalt_git.models.toolset_manifest import Source
from covalt_git.models.toolset_state import WRITABLE, ProgramSandbox
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, ToolsetRequest, operation
from covalt_git.sources import refresh
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.calls.servers.server_observation import Observation
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.runtime.observation import Need
    from covalt_git.sources.refresh import ToolSource

_MOST_CALLS = 100
_UNKNOWN_VARIABLES = "variables that it reads without an error: a program reads its own variables without a system call"
_UNKNOWN_LATER = "what comes after a first refusal: grant it, and observe again with --granted"


class CallToMake(Request):
    """A call of a tool, by the server's own name of the tool."""

    tool: str = Field(max_length=500)
    args: dict[str, JsonValue] = Field(default_factory=dict)


class ObserveSource(ToolsetRequest):
    """Request: the MCP server to observe, by the namespace of its tools, and the calls to make."""

    namespace: str = Field(max_length=200)
    calls: tuple[CallToMake, ...] = Field((), max_length=_MOST_CALLS)
    granted: bool = Field(
        default=False,
        description="Run it with what its grant has, to learn what it still lacks; otherwise with nothing.",
    )


class ObservedCallRow(Result):
    """A call that was made; ``error`` is empty if it succeeded."""

    tool: str
    args: dict[str, JsonValue]
    error: str


class NeedRow(Result):
    """Something that a server looked for and did not get, and the grant that gives it.

    ``hosts``, ``folders`` and ``secrets`` are those of the grant; all are empty if no grant gives it, which ``note``
    explains.
    """

    kind: Literal["host", "address", "path", "program", "variable"]
    name: str
    call: str = Field(description="The call that needed it first; empty for the start.")
    warning: str = Field(description="Why a server should not need it; empty for other needs.")
    note: str = Field(description="What a grant cannot give, or what to do first.")
    granted: bool = Field(description="Whether the current grant of the server has it.")
    hosts: tuple[str, ...]
    folders: tuple[str, ...]
    secrets: tuple[str, ...]
    command: str = Field(description="The command that grants it; empty if no grant gives it.")


class SourceObserved(Result):
    """What an MCP server did in the sandbox, and what it did not get."""

    toolset_id: str
    namespace: str
    server: str = Field(description="Its id in the manifest, as grants name it.")
    digest: str = Field(description="Digest of the toolset whose files were observed.")
    sandbox: SandboxLevel
    failure: str = Field(
        description="Why it did not start or did not list its tools; empty if it did."
    )
    tools: tuple[str, ...]
    calls: tuple[ObservedCallRow, ...]
    needs: tuple[NeedRow, ...]
    command: str = Field(
        description="The command that grants all needs without a warning that are not granted yet."
    )
    unknown: tuple[str, ...] = Field(description="What the observation cannot know.")

    @property
    def shown_id(self) -> str:
        """Its name in commands, such as gear/disk."""
        return f"{self.toolset_id}/{self.namespace}"


class _Uses(NamedTuple):
    """What a grant gives, or why no grant does."""

    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    note: str = ""
    warning: str = ""


@operation(
    changes=True,
    errors=(404, 409),
    admin="observe sources",
    decides=lambda _, request: (
        "calls are made with the grant of a server" if request.granted and request.calls else ""
    ),
)
def observe_source(context: Context, request: ObserveSource) -> SourceObserved:
    """Run an MCP server in the sandbox with nothing granted but its start, and report what it did not get.

    Its tools are listed, and the calls are made in an empty workspace; no record is stored, and nothing is granted.
    The server needs its grant to be started, and its packages must be accepted.
    """
    root = context.project.root
    source = refresh.find_source(root, request.toolset_id, request.namespace)
    if isinstance(source.declared, Source):
        raise CovaltError(
            f"{source.shown_id} is a document, which starts no program",
            hint="covalt-git source list",
            code="no_server",
            http_status=409,
        )
    server = server_of(source.toolset, source.declared.id)
    observation = observe(
        source.toolset,
        server,
        [CallToObserve(call.tool, call.args) for call in request.calls],
        root=root,
        command=SecretCommand.of(root, context.project.config.secret_command),
        with_grant=request.granted,
        report=context.report,
    )
    needs = _needs(root, source, server, observation)
    useful = [need for need in needs if need.command and not need.granted and not need.warning]
    every = _Uses(
        tuple(sorted({host for need in useful for host in need.hosts})),
        _outermost({folder for need in useful for folder in need.folders}),
        tuple(sorted({name for need in useful for name in need.secrets})),
    )
    unknown = [_UNKNOWN_VARIABLES, _UNKNOWN_LATER]
    if observation.is_blind:
        unknown.insert(0, f"its files and programs: {observation.is_blind}")
    if observation.level != "full":
        unknown.insert(
            0, f"its hosts: at the sandbox level {observation.level!r} there is no network"
        )
    return SourceObserved(
        toolset_id=source.toolset.id,
        namespace=source.namespace,
        server=server.id,
        digest=source.toolset.digest,
        sandbox=observation.level,
        failure=observation.failure,
        tools=observation.tools,
        calls=tuple(ObservedCallRow.of(call) for call in observation.calls),
        needs=needs,
        command=_command(source, every) if useful else "",
        unknown=tuple(unknown),
    )


def _needs(
    root: Path, source: ToolSource, server: McpServer, observation: Observation
) -> tuple[NeedRow, ...]:
    toolset = source.toolset
    may = granted(toolset.id, toolset.state, toolset.digest)
    program = may.program(server, toolset.files.hashes)
    current = (program.confinement if program is not None else None) or ProgramSandbox()
    works = bool(observation.tools) and not observation.failure
    rows = [
        _row(source, current, need.kind, need, _uses(root, need, works=works))
        for need in observation.needs
    ]
    declared = toolset.manifest.secrets if toolset.manifest else ()
    for variable in observation.variables:
        name = variable.name
        if name in declared:
            uses = _Uses(secrets=(name,))
        else:
            uses = _Uses(
                note=f"add {name} to secrets of toolsets/{toolset.id}/toolset.yaml, or to env of the server, and"
                " observe it again"
            )
        rows.append(_row(source, current, "variable", variable, uses))
    return tuple(rows)


def _row(source: ToolSource, current: ProgramSandbox, kind: str, need: Any, uses: _Uses) -> NeedRow:
    command = _command(source, uses) if uses.hosts or uses.folders or uses.secrets else ""
    has = (
        {*uses.hosts} <= {*current.hosts}
        and all(_has_folder(current, folder) for folder in uses.folders)
        and {*uses.secrets} <= {*current.secrets}
    )
    return NeedRow.model_validate(
        {
            "kind": kind,
            "name": need.name,
            "call": need.call,
            "warning": uses.warning,
            "note": uses.note,
            "granted": bool(command) and has,
            "hosts": uses.hosts,
            "folders": uses.folders,
            "secrets": uses.secrets,
            "command": command,
        }
    )


def _has_folder(current: ProgramSandbox, folder: str) -> bool:
    if folder.endswith(WRITABLE):
        return folder in current.folders
    return not {folder, folder + WRITABLE}.isdisjoint(current.folders)


def _command(source: ToolSource, uses: _Uses) -> str:
    options = [
        *(word for host in uses.hosts for word in ("--host", host)),
        *(word for folder in uses.folders for word in ("--folder", folder)),
        *(word for name in uses.secrets for word in ("--secret", name)),
    ]
    words = (
        "covalt-git",
        "grant",
        "add",
        source.toolset.id,
        "server",
        source.declared.id,
        *options,
    )
    return shlex.join(words)


def _uses(root: Path, need: Need, *, works: bool) -> _Uses:
    """Return what gives a program what it needs; ``works`` is whether it listed its tools."""
    from covalt_git.runtime.personal_places import (  # noqa: PLC0415
        why_internal,
        why_personal,
        why_telemetry,
        why_wide,
    )

    if any(not display.is_shown(letter) for letter in need.name + need.target):
        return _Uses(note="its name has characters that cannot be shown")
    match need.kind:
        case "host":
            origin, _ = origin_of(need.name)
            warning = why_internal(origin.host) or why_telemetry(origin.host)
            return _Uses(hosts=(rule_of(origin),), warning=warning)
        case "address":
            host = need.name.rpartition(":")[0]
            return _Uses(
                note="it connects without the proxy, and the sandbox has no other network; look for an option of"
                " the server that makes it use HTTPS_PROXY",
                warning=why_internal(host) if host else "",
            )
        case "program" if not need.target:
            return _Uses(note="this machine has no such program")
    target = Path(need.target)
    warning = why_personal(target)
    folders = _folders(need, target)
    wide = next(filter(None, map(why_wide, folders)), "")
    without = "it listed its tools without this file; " if works and not need.call else ""
    if need.in_home:
        first = (
            "move the file into a folder of its own, grant that folder"
            if wide
            else f"grant {shlex.quote(str(folders[0]))}"
        )
        note = (
            f"{without}its home is a private folder; to give it this file, {first} and name the file in an argument or"
            " a variable of the server"
        )
        return _Uses(note=note, warning=warning)
    if wide:
        return _Uses(note=without + wide, warning=warning)
    if need.writes and any(folder.is_relative_to(root.resolve()) for folder in folders):
        warning = warning or "files of this project, whose code it could change"
    end = WRITABLE if need.writes else ""
    return _Uses(folders=tuple(f"{folder}{end}" for folder in folders), warning=warning)


def _folders(need: Need, target: Path) -> tuple[Path, ...]:
    from covalt_git.runtime.installations import PACKAGES, installation  # noqa: PLC0415 - rarely used
    from covalt_git.runtime.sandbox.system_files import FOLDERS, outermost  # noqa: PLC0415 - as above

    if need.kind == "program":
        paths = (target.parent, *installation(target))
        folders = tuple(path if path.is_dir() else path.parent for path in paths)
        hidden = [path for path in folders if not any(map(path.is_relative_to, FOLDERS))]
        return outermost(tuple(hidden))
    if PACKAGES in target.parts:  # a package loads others from there
        return (Path(*target.parts[: target.parts.index(PACKAGES) + 1]),)
    return (target if target.is_dir() else target.parent,)


def _outermost(folders: set[str]) -> tuple[str, ...]:
    """Return the folders without those that another one gives too."""

    def gives(other: str, folder: str) -> bool:
        within = Path(folder.removesuffix(WRITABLE)).is_relative_to(other.removesuffix(WRITABLE))
        return (
            other != folder
            and within
            and (other.endswith(WRITABLE) or not folder.endswith(WRITABLE))
        )

    return tuple(
        sorted(folder for folder in folders if not any(gives(other, folder) for other in folders))
    )
