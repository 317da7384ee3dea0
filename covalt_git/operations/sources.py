"""Operations on sources: the MCP servers and documents of toolsets, their tools, and which of these are accepted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.servers import mcp_calls
from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.calls.servers.server_programs import pin
from covalt_git.calls.tool_grants import check_server_grant
from covalt_git.catalog import tool_names
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError
from covalt_git.grants.status import shown_changes, shown_key
from covalt_git.models.toolset_manifest import Source
from covalt_git.operations.context import Context
from covalt_git.operations.grants import Reason, add_requested_grants
from covalt_git.operations.registry import Request, Result, ToolsetRequest, invalid_field, operation
from covalt_git.operations.results import Failure
from covalt_git.operations.toolsets import enable_toolset
from covalt_git.sources import refresh
from covalt_git.sources.adding import OpenedDocument, blame_document, new_files
from covalt_git.toolsets.offers import offers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.toolsets.toolset import Toolset

_MOST_TOOLS = 10_000
ACCEPTING = "tools are accepted"


class ListSources(Request):
    """Request: a toolset or a source; without one, all sources."""

    toolset_id: str | None = Field(
        None, max_length=200, description="A toolset, or the namespace of one source's tools."
    )
    namespace: str = Field(
        "", max_length=200, description="Only the source of the toolset with this namespace."
    )


class SourceDocument(Request):
    """A document, with the files in its folder that it refers to."""

    name: str = Field(max_length=300, description="Its name among the files.")
    kind: Literal["openapi", "graphql"] = Field("openapi", description="Kind of document.")
    files: dict[str, str] = Field(
        min_length=1,
        max_length=500,
        description="Texts by paths relative to the document's folder.",
    )
    url: str | None = Field(
        None,
        max_length=2000,
        description="Where it was fetched from; relative servers begin there.",
    )


class RefreshSource(ToolsetRequest):
    """Request: the source to list, by the namespace of its tools; with ``check`` nothing is written."""

    namespace: str = Field(max_length=200)
    check: bool = False
    document: SourceDocument | None = Field(
        None, description="A new version of the source's document."
    )


class RefreshSources(Request):
    """Request: the sources to list; with ``check`` nothing is written."""

    sources: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="Such as gear, a toolset, or gear/disk, one source; empty: all enabled sources.",
    )
    check: bool = False
    accept: bool = Field(
        default=False,
        description="Accept all tools that they have now; not skills, whose texts a user reads first.",
    )
    pinned: bool = Field(
        default=False,
        description="Start what the locks have, without looking for newer packages.",
    )
    reason: Reason = None


class AcceptTools(ToolsetRequest):
    """Definitions to accept: for each tool the reviewed digest, or null for a removed tool."""

    namespace: str = Field(max_length=200)
    tools: dict[str, str | None] = Field(max_length=_MOST_TOOLS)
    skill_texts: dict[str, str] = Field(
        default_factory=dict,
        max_length=_MOST_TOOLS,
        description="For each skill among them, the digest of its SKILL.md, whose text the user has read:"
        " text_digest of read_source_skill.",
    )
    reason: Reason = None


class DifferingPart(Result):
    """A part of a definition, such as its description, before and after; null if it is missing."""

    name: str
    before: JsonValue
    after: JsonValue


class DifferingTool(Result):
    """A tool that is new, changed or removed; ``digest`` is the digest to accept, null if it is removed."""

    name: str
    kind: Literal["new", "changed", "gone"]
    digest: str | None
    kept: bool = Field(description="Whether the accepted definition is stored, to compare with.")
    parts: tuple[DifferingPart, ...]


class ConnectionRow(Result):
    """The connection to a server for one chat; without a chat, the connection that lists the server's tools."""

    chat_id: str | None
    state: Literal["stopped", "starting", "ready", "failed"]
    starts: int = Field(description="Number of starts.")
    failures: int = Field(description="Number of consecutive failures.")
    error: str = Field(description="The last error.")
    last_words: str = Field(description="The end of its stderr output.")
    server: str = Field(description="Its own name.")
    protocol: str = Field(description="The protocol version.")


class SourceFault(Result):
    """A fault of a document."""

    path: str
    line: int
    column: int
    message: str


class SourceRow(Result):
    """An MCP server or a document of a toolset, and the state of its tools."""

    toolset_id: str
    namespace: str = Field(description="The first part of the ids of its tools.")
    server: str = Field(description="Its id in the manifest.")
    kind: Literal["mcp", "openapi", "graphql"] = Field(
        description="An MCP server, or the kind of document."
    )
    enabled: bool
    reference: str = Field(description="Its command, URL or document, as in the manifest.")
    asked: bool = Field(description="Whether its tools were listed.")
    tools: int
    offers: int = Field(
        0, description="Number of its resources, resource templates, prompts and skills."
    )
    tool_names: tuple[str, ...] = Field(
        description="The names of the tools, resources, templates, prompts and skills that it listed last."
    )
    accepted: int
    to_accept: tuple[DifferingTool, ...]
    definitions: tuple[DifferingPart, ...] = Field(
        (), description="Definitions that differing tools share, and that have changed."
    )
    left_out: int = Field(0, description="Number of parts of its document that are no tools.")
    tasks: tuple[str, ...] = Field(
        (), description="Tools that cannot be accepted yet, because they run only as tasks of MCP."
    )
    unusable: dict[str, str] = Field(
        default_factory=dict,
        description="Tools that cannot be called because their input schemas are invalid, and why.",
    )
    faults: tuple[SourceFault, ...] = Field((), description="Faults of its document.")
    notes: tuple[str, ...] = Field(
        (), description="Why its tools cannot be called or listed; empty if nothing stops them."
    )
    withheld: dict[str, str] = Field(
        default_factory=dict,
        description="Resources, templates, prompts and skills that agents do not get because reading them requires"
        " approval, and why.",
    )
    connections: tuple[ConnectionRow, ...] = Field(
        description="Its current connections in this process."
    )

    @property
    def shown_id(self) -> str:
        """Its name in commands, such as gear/disk."""
        return f"{self.toolset_id}/{self.namespace}"


class RenamedTool(Result):
    """A tool whose name for MCP hosts that reject dots changed, because tools were accepted or removed."""

    tool_id: str
    old_name: str
    new_name: str


class ToolsAccepted(SourceRow):
    """A server after some of its tools were accepted."""

    changed: tuple[str, ...] = Field(description="The tools that were accepted with this request.")
    renamed: tuple[RenamedTool, ...] = Field(
        (), description="Tools that MCP hosts that reject dots now know by another name."
    )
    ended: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="The grants of the toolset that are no longer valid: the changes that ended them.",
    )


class SourceList(Result):
    """The MCP servers and documents that toolsets declare."""

    sources: tuple[SourceRow, ...]


class SourceRefreshed(Result):
    """A refreshed source; ``drift`` lists the differences from its previous tools."""

    source: SourceRow
    drift: tuple[DifferingTool, ...]
    renamed: tuple[RenamedTool, ...] = Field(
        (), description="Tools that MCP hosts that reject dots now know by another name."
    )
    ended: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="The grants of the toolset that are no longer valid: the changes that ended them.",
    )


class RefreshOutcome(Result):
    """The outcome of one source; either ``refreshed`` or ``failure`` is null."""

    source: str = Field(description="Such as gear/disk, or gear, a toolset that has errors.")
    failed: bool = Field(
        description="Whether the refresh failed, its lock is outdated, or tools are not accepted."
    )
    refreshed: SourceRefreshed | None
    failure: Failure | None


class SourcesRefreshed(Result):
    """The outcome of each source."""

    sources: tuple[RefreshOutcome, ...]


@operation(errors=(404,), admin="see sources")
def list_sources(context: Context, request: ListSources) -> SourceList:
    """List the MCP servers and documents of all toolsets or of one, with their tools that are not accepted."""
    root = context.project.root
    name = "/".join(filter(None, (request.toolset_id, request.namespace)))
    sources = refresh.find_sources(root, name) if name else refresh.sources(root)
    return SourceList(sources=tuple(source_row(context, source) for source in sources))


@operation(changes=True, errors=(404, 409, 502), admin="refresh sources")
def refresh_source(context: Context, request: RefreshSource) -> SourceRefreshed:
    """List the tools of a source and write them to its lock, without accepting them.

    A document of the request replaces that of the source.  If an MCP server is not granted, it is not contacted, and the error is ``grant_needed``.
    """
    source = refresh.find_source(context.project.root, request.toolset_id, request.namespace)
    if request.document is None:
        result = _refresh(context, source, check=request.check)
    else:
        document = opened_document(request.document)
        files = new_files(source, document)
        try:
            result = _refresh(context, source, check=request.check, files=files)
        except CovaltError as error:
            blame_document(error, source, document)
            raise
    context.update_toolset_index()
    return result


@operation(
    changes=True,
    errors=(404,),
    admin="refresh sources",
    decides=lambda _, request: ACCEPTING if request.accept else "",
)
def refresh_sources(context: Context, request: RefreshSources) -> SourcesRefreshed:
    """List the tools of several sources, one after the other; a failure does not stop the others."""
    if request.check and request.accept:
        raise invalid_field("accept", "it cannot be combined with check")
    root = context.project.root
    failed: list[RefreshOutcome] = []
    if request.sources:
        chosen = [source for name in request.sources for source in refresh.find_sources(root, name)]
    else:
        chosen = [source for source in refresh.sources(root) if source.enabled]
        failed = [_failure(error.toolset_id, error) for error in refresh.faulty_toolsets(root)]
    outcomes = (*failed, *(_outcome(context, source, request) for source in chosen))
    context.update_toolset_index()
    return SourcesRefreshed(sources=outcomes)


@operation(
    changes=True,
    errors=(404, 409),
    admin="accept tools",
    decides=lambda _, request: ACCEPTING if request.tools else "",
)
def accept_tools(context: Context, request: AcceptTools) -> ToolsAccepted:
    """Accept definitions of a source's tools; if one has another digest, none is accepted (``moved``).

    A skill is accepted only with the digest of its text (``skill_not_read``).
    """
    root = context.project.root
    # Before the change: users have these names in the allow lists of hosts, and a further tool with a similar name
    # changes them.
    old_names = _host_names(context)
    source = refresh.accept(
        root,
        request.toolset_id,
        request.namespace,
        request.tools,
        texts=request.skill_texts,
        reason=request.reason,
    )
    context.update_toolset_index()
    return ToolsAccepted.of(
        source_row(context, source),
        changed=tuple(sorted(request.tools)),
        renamed=_renamed(context, old_names),
        ended=_ended_grants(source.toolset),
    )


def trust_toolset(
    context: Context,
    toolset: Toolset,
    permissions: tuple[str, ...] | None,
    reason: str | None,
    folders: Mapping[str, tuple[str, ...]],
) -> tuple[RefreshOutcome, ...]:
    """Grant what a toolset requests, enable it, and connect its MCP servers; return the outcomes of the connections.

    ``permissions`` are the digests of those that the user has reviewed; None if they reviewed none.  ``folders`` are
    those that the programs of servers may read besides.
    """
    # With the digest that was imported: if a file has changed since, nothing is granted. A server is contacted only
    # with its grant, so this comes first.
    add_requested_grants(
        context,
        toolset_id=toolset.id,
        digest=toolset.digest,
        permissions=permissions,
        folders=dict(folders),
        reason=reason,
    )
    enable_toolset(context, toolset_id=toolset.id, enabled=True)
    if toolset.manifest is None or not toolset.manifest.mcp_servers:
        return ()
    return refresh_sources(context, sources=(toolset.id,)).sources


def connections(root: Path, toolset_id: str, server_id: str) -> list[ConnectionRow]:
    """Return the connections to an MCP server in this process, including failed ones."""
    return [
        ConnectionRow.of(connection)
        for connection in mcp_calls.health(root)
        if (connection.toolset_id, connection.server_id) == (toolset_id, server_id)
    ]


def _outcome(
    context: Context, source: refresh.ToolSource, request: RefreshSources
) -> RefreshOutcome:
    try:
        result = _refresh(
            context,
            source,
            request.reason,
            check=request.check,
            accept=request.accept,
            pinned=request.pinned,
        )
    except CovaltError as error:
        return _failure(source.shown_id, error)
    failed = bool(result.drift if request.check else result.source.to_accept)
    return RefreshOutcome(source=source.shown_id, failed=failed, refreshed=result, failure=None)


def _failure(name: str, error: CovaltError) -> RefreshOutcome:
    failure = Failure.of_error(error)
    return RefreshOutcome(source=name, failed=True, refreshed=None, failure=failure)


def _refresh(
    context: Context,
    source: refresh.ToolSource,
    reason: str | None = None,
    *,
    check: bool,
    accept: bool = False,
    files: Mapping[str, bytes] | None = None,
    pinned: bool = False,
) -> SourceRefreshed:
    root = context.project.root
    command = SecretCommand.of(root, context.project.config.secret_command)
    ask = partial(list_tools, root=root, command=command, report=context.report)
    # A tool that the server no longer lists is not called by its name any more, so others may get it at once.
    old_names = {} if check else _host_names(context)
    pins = _locked_program(source) if pinned else partial(pin, report=context.report)
    result = refresh.refresh(root, source, ask, pin=pins, write=not check, files=files)
    new_source = result.source
    # Without skills: a model follows their text, which a refresh does not show to the user.
    while accept and (
        digests := {tool.name: tool.digest for tool in new_source.to_accept if not tool.is_skill}
    ):
        waited = new_source.program_waits
        new_source = refresh.accept(
            root, new_source.toolset.id, new_source.namespace, digests, reason=reason
        )
        if not waited:
            break
        # Only now: what a server is started from is accepted before it is started for the first time.
        result = refresh.refresh(root, new_source, ask, pin=_locked_program(new_source))
        new_source = result.source
    return SourceRefreshed(
        source=source_row(context, new_source),
        drift=differing(result.drift),
        renamed=() if check else _renamed(context, old_names),
        ended={} if check else _ended_grants(new_source.toolset),
    )


def _ended_grants(toolset: Toolset) -> dict[str, tuple[str, ...]]:
    """Return the grants of a toolset that have ended, as a user names them, with the changes that ended them."""
    ended = {
        shown_key(key, grant): shown_changes(toolset, key, grant)
        for key, grant in toolset.state.grants.items()
    }
    return {grant: changed for grant, changed in ended.items() if changed}


def _locked_program(source: refresh.ToolSource) -> refresh.Pin:
    program = source.lock.program if source.lock else None
    return lambda *_: program


def _host_names(context: Context) -> dict[str, str]:
    """Return the current names of all callable tools for MCP hosts that reject dots, by the tools' ids."""
    project = context.project
    with project.tool_index() as index:
        index.sync_toolsets()
        tools = project.catalog.visible(index.tools())
    callable_tools = {
        tool.tool_id: tool for tool in tools if project.catalog.may_call(tool).allowed
    }
    return tool_names.host_names(project.root, callable_tools)


def _renamed(context: Context, old_names: Mapping[str, str]) -> tuple[RenamedTool, ...]:
    """Return the tools that have another name than in ``old_names``."""
    return tuple(
        RenamedTool(tool_id=tool_id, old_name=old_names[tool_id], new_name=name)
        for tool_id, name in _host_names(context).items()
        if old_names.get(tool_id, name) != name
    )


def source_row(context: Context, source: refresh.ToolSource) -> SourceRow:
    """Return a source with the differences from its accepted definitions."""
    toolset, declared = source.toolset, source.declared
    lock = source.lock
    definitions = source.changed_definitions
    tools = source.lock.tools if source.lock else {}
    return SourceRow.of(
        source,
        toolset_id=toolset.id,
        server=declared.id,
        kind=declared.lock_kind,
        reference=refresh.reference_of(declared),
        asked=source.lock is not None and source.lock.is_listed,
        tools=len(tools),
        offers=len(source.lock.offers) if source.lock else 0,
        tool_names=tuple(sorted(source.lock.entries if source.lock else {})),
        to_accept=differing(source.to_accept),
        definitions=tuple(
            DifferingPart.model_validate({"name": name, "before": old, "after": new})
            for name, (old, new) in definitions.items()
        ),
        left_out=len(lock.left_out) if lock else 0,
        tasks=source.tasks,
        unusable=source.unusable,
        notes=tuple(_notes(source)),
        faults=tuple(map(SourceFault.of, lock.faults)) if lock else (),
        withheld=withheld_offers(context, source),
        connections=tuple(connections(context.project.root, toolset.id, declared.id)),
    )


def _notes(source: refresh.ToolSource) -> Iterator[str]:
    """Yield what stops the tools of a source from being called or listed."""
    declared, lock = source.declared, source.lock
    if lock is not None and lock.reference != refresh.reference_of(declared):
        yield "declaration changed since the refresh"
    if source.program_waits:
        yield "program to accept"
    elif lock is None or not lock.is_listed:
        yield "not asked for its tools yet"
    if source.unusable:
        yield f"{len(source.unusable)} cannot be called"
    if not isinstance(declared, Source):
        try:
            check_server_grant(source.toolset, declared)
        except CovaltError as error:
            yield "no grant" if isinstance(error, GrantNeededError) else "not trusted"


def withheld_offers(context: Context, source: refresh.ToolSource) -> dict[str, str]:
    """Return the ids of what a server lists and agents do not get because reading requires approval, and why."""
    if source.lock is None:
        return {}
    rules = context.visibility.rules
    return {
        offer.id: "; ".join(reasons)
        for offer in offers_in(source.toolset, source.declared.id, source.lock)
        if (reasons := offer.approval_reasons(rules))
    }


def opened_document(document: SourceDocument) -> OpenedDocument:
    """Return a document of a request."""
    files = {name: text.encode() for name, text in document.files.items()}
    return OpenedDocument(document.name, document.kind, files, document.url)


def differing(differences: tuple[refresh.ToolDifference, ...]) -> tuple[DifferingTool, ...]:
    """Return differences with their changed parts."""
    return tuple(
        DifferingTool.of(
            difference,
            kept=difference.kind == "new" or difference.before is not None,
            parts=tuple(
                DifferingPart.model_validate({"name": name, "before": old, "after": new})
                for name, (old, new) in difference.fields.items()
            ),
        )
        for difference in differences
    )
