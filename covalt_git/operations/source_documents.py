"""Operations on sources of documents: add, show, compare, check and remove them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.access.grants import rule_of
from covalt_git.errors import StaleError
from covalt_git.grants.requested import requested
from covalt_git.grants.status import shown_key
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.models.toolset_manifest import Source
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    grant_key,
)
from covalt_git.operations.context import Context
from covalt_git.operations.grants import Reason
from covalt_git.operations.registry import Request, Result, ToolsetRequest, operation
from covalt_git.operations.sources import (
    ACCEPTING,
    DifferingTool,
    ListSources,
    SourceDocument,
    SourceFault,
    SourceRow,
    differing,
    opened_document,
    source_row,
    withheld_offers,
)
from covalt_git.sources import adding, breaking, doctor, refresh
from covalt_git.sources.documents import BadSourceError, check_tools, compile_source, toolset_reader
from covalt_git.templating.url_templates import origin_of_template
from covalt_git.toolsets.state_store import find_toolset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.models.sources.tool_lock import LockedTool, ToolLock
    from covalt_git.toolsets.toolset import Toolset

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class OpenDocument(Request):
    """Request: a document to read, with the files in its folder that it refers to."""

    location: str = Field(max_length=4000, description="A file, or a URL that is fetched once.")
    introspect: bool = Field(
        default=False,
        description="Whether it is the URL of a GraphQL API, which is asked for its schema.",
    )


class AddSource(ToolsetRequest):
    """Request: a document whose operations become tools of a toolset."""

    document: SourceDocument
    namespace: str | None = Field(
        None,
        max_length=200,
        description="First part of the ids of its tools; default: by its file name.",
    )
    include: tuple[str, ...] = Field(
        (), max_length=1000, description="Patterns of tools; empty: all."
    )
    exclude: tuple[str, ...] = Field(
        (), max_length=1000, description="Patterns of tools to leave out."
    )
    fields: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Parts of the answers of tools that callers get: items[].id.",
    )
    base_url: str | None = Field(
        None, max_length=2000, description="URL that replaces that of the document."
    )
    endpoint: str | None = Field(None, max_length=2000, description="URL of a GraphQL API.")
    dry_run: bool = Field(
        default=False, description="Return what would be added, and write nothing."
    )
    digest: str | None = Field(
        None, max_length=100, description="Digest of a dry run that the user has reviewed."
    )
    accept: bool = Field(default=False, description="Accept all of its tools.")
    reason: Reason = None


class SourceRequest(ToolsetRequest):
    """Request: a source, by the namespace of its tools."""

    namespace: str = Field(max_length=200)


class CheckDocument(Request):
    """Request: the source of a toolset, or a document, to check for agents."""

    toolset_id: str | None = Field(None, max_length=200)
    namespace: str = Field("", max_length=200)
    document: SourceDocument | None = None


class OpenedFile(Result):
    """A document of this machine or of a URL, as other operations take it."""

    name: str
    kind: Literal["openapi", "graphql"]
    files: dict[str, str]
    url: str | None


class SourceTool(Result):
    """A tool of a source; ``host`` has the form of a grant, and is null if a variable determines it."""

    name: str
    upstream: str = Field(description="Its name in the document, or at the server.")
    description: str
    method: str | None
    host: str | None
    writes: bool = Field(description="Whether its calls require approval by default.")
    state: Literal["accepted", "new", "changed", "task"]


class LeftOutOperation(Result):
    """A part of a document that is no tool, with the reason."""

    upstream: str
    reason: str
    line: int


class SourceDetail(Result):
    """A source: its tools, what they reach, and everything of its document that is no tool."""

    toolset_id: str
    namespace: str
    kind: Literal["mcp", "openapi", "graphql", "plugin"]
    title: str
    reference: str
    documents: tuple[str, ...] = Field(description="Its files, relative to the toolset.")
    digest: str | None = Field(description="Digest of its declaration and its documents.")
    tools: tuple[SourceTool, ...]
    hosts: tuple[str, ...]
    secrets: dict[str, tuple[str, ...]] = Field(description="Secrets and the hosts that get them.")
    left_out: tuple[LeftOutOperation, ...]
    faults: tuple[SourceFault, ...]
    withheld: dict[str, str] = Field(
        default_factory=dict,
        description="Resources, resource templates and prompts that agents do not get because reading them requires"
        " approval, and why.",
    )

    @property
    def shown_id(self) -> str:
        """Its name in commands, such as gear/disk."""
        return f"{self.toolset_id}/{self.namespace}"

    @property
    def lacks_server(self) -> bool:
        """Whether a document names no server, so that no grant of a host can be proposed."""
        return self.kind == "openapi" and any(tool.host is None for tool in self.tools)


class SourceAdded(SourceDetail):
    """A source that was added, or that a dry run would add."""

    dry_run: bool
    files: tuple[str, ...] = Field(description="Files that were written, relative to the toolset.")


class SourceRemoved(Result):
    """A removed source."""

    toolset_id: str
    namespace: str
    files: tuple[str, ...] = Field(description="Files that were removed, relative to the project.")
    grants: tuple[str, ...] = Field(
        description="The grants that only the source used, and that stay, in the words of `grant revoke`."
    )


class ComparedTool(DifferingTool):
    """A differing tool, and what its change means for callers."""

    breaking: tuple[str, ...] = Field(description="Why callers may fail; empty: none of them does.")
    recorded_calls: int = Field(
        description="Number of recorded calls that were compared, at most 200."
    )
    refused_calls: int = Field(description="Number of these that would now be refused.")


class ComparedSource(SourceRow):
    """A source with the changes since its definitions were accepted."""

    to_accept: tuple[ComparedTool, ...]

    @property
    def breaks(self) -> bool:
        """Whether a change breaks callers."""
        return any(tool.breaking for tool in self.to_accept)


class SourcesCompared(Result):
    """The changes of sources since their definitions were accepted."""

    sources: tuple[ComparedSource, ...]
    breaking: bool = Field(description="Whether a change breaks callers.")


class DocumentFinding(Result):
    """A weakness of a document for agents, with its place."""

    kind: doctor.FindingKind
    upstream: str
    message: str
    path: str
    line: int
    column: int


class DocumentChecked(Result):
    """Whether a document is fit for agents; tokens are estimated as four bytes each."""

    title: str
    tools: int
    list_tokens: int = Field(description="Tokens of a list of all of its tools.")
    search_tokens: int = Field(
        description="Tokens of a search with ten hits and of the definition of one of them."
    )
    findings: tuple[DocumentFinding, ...]


@operation(local=True, admin="read documents")
def open_document(_: Context, request: OpenDocument) -> OpenedFile:
    """Read a document and the files in its folder that it refers to; a URL is fetched once."""
    if request.introspect:
        document = adding.introspect(request.location)
    elif adding.is_url(request.location):
        document = adding.open_url(request.location)
    else:
        document = adding.open_file(Path(request.location))
    try:
        files = {name: content.decode() for name, content in document.files.items()}
    except UnicodeDecodeError:
        raise BadSourceError(f"{document.name!r} is not UTF-8") from None
    return OpenedFile(
        name=document.name, kind="graphql" if document.kind == "graphql" else "openapi",
        files=files, url=document.url,
    )  # fmt: skip


@operation(
    changes=True,
    errors=(404, 409, 422),
    admin="add sources",
    decides=lambda _, request: ACCEPTING if request.accept and not request.dry_run else "",
)
def add_source(context: Context, request: AddSource) -> SourceAdded:
    """Add a document to a toolset: copy it, declare it in ``toolset.yaml`` and write the lock of its tools.

    Nothing is fetched.  If it cannot be added, no file is changed.
    """
    root = context.project.root
    options = adding.SourceOptions(
        request.namespace,
        request.include,
        request.exclude,
        request.fields,
        request.base_url,
        request.endpoint,
    )
    planned = adding.plan(root, request.toolset_id, opened_document(request.document), options)
    detail = _detail(planned.toolset.id, planned.namespace, planned.lock, {})
    if request.digest is not None and request.digest != planned.compiled.digest:
        raise StaleError("the document or the toolset has changed since the dry run")
    files = tuple(sorted(planned.files))
    if not request.dry_run:
        source = adding.add(root, planned)
        if request.accept:
            digests = {tool.name: tool.digest for tool in source.to_accept}
            source = refresh.accept(
                root, source.toolset.id, source.namespace, digests, reason=request.reason
            )
        detail = _detail_of(source)
        context.update_toolset_index()
    return SourceAdded.of(detail, dry_run=request.dry_run, files=files)


@operation(errors=(404, 409), admin="see sources")
def get_source(context: Context, request: SourceRequest) -> SourceDetail:
    """Return a source: its tools, hosts, secrets, and the parts of its document that are no tools."""
    source = refresh.find_source(context.project.root, request.toolset_id, request.namespace)
    detail = _detail_of(source)
    return detail.model_copy(update={"withheld": withheld_offers(context, source)})


@operation(changes=True, errors=(404, 409), admin="remove sources")
def remove_source(context: Context, request: SourceRequest) -> SourceRemoved:
    """Remove a source from ``toolset.yaml``, with its lock, its documents and its acceptances."""
    root = context.project.root
    source = refresh.find_source(root, request.toolset_id, request.namespace)
    files = adding.remove(root, source)
    context.update_toolset_index()
    return SourceRemoved(
        toolset_id=source.toolset.id,
        namespace=source.namespace,
        files=files,
        grants=_grants_left(source, find_toolset(root, source.toolset.id)),
    )


def _grants_left(source: refresh.ToolSource, after: Toolset) -> tuple[str, ...]:
    """Return the grants that only a removed source used, in the words of ``grant revoke``."""
    grants = after.state.grants
    of_server = [
        shown_key(key, grant).replace("-", " ", 1)
        for key, grant in grants.items()
        if isinstance(grant, ProcessGrant | ServerGrant) and grant.server == source.declared.id
    ]
    used, still_used = (
        {(row.kind, row.name, row.host) for row in requested(toolset)}
        for toolset in (source.toolset, after)
    )
    of_document = []
    for kind, name, host in used - still_used:
        grant = grants.get(grant_key(kind, name))
        if isinstance(grant, NetworkGrant | SecretGrant) and host in grant.hosts:
            of_document.append(" ".join(filter(None, (kind, name, host))))
    return (*of_server, *sorted(of_document))


@operation(errors=(404,), admin="see sources")
def compare_sources(context: Context, request: ListSources) -> SourcesCompared:
    """Compare the locks of sources with the accepted definitions, and count recorded calls that would be refused."""
    root = context.project.root
    name = "/".join(filter(None, (request.toolset_id, request.namespace)))
    found = refresh.find_sources(root, name) if name else refresh.sources(root)
    compared = tuple(_compared(context, source) for source in found)
    return SourcesCompared(sources=compared, breaking=any(source.breaks for source in compared))


def _compared(context: Context, source: refresh.ToolSource) -> ComparedSource:
    lock = source.lock
    old = lock.replaced_definitions if lock else {}
    new = lock.definitions if lock else {}
    tools = []
    for row, difference in zip(differing(source.to_accept), source.to_accept, strict=True):
        reasons = breaking.breaking_changes(difference, old, new)
        calls = []
        if difference.kind != "new":
            tool_id = f"{source.namespace}:{difference.name}"
            calls = context.chat_index().recorded_arguments(tool_id, breaking.MOST_CALLS)
        refused = breaking.refused_calls(difference, new, calls)
        tools.append(
            ComparedTool.of(row, breaking=reasons, recorded_calls=len(calls), refused_calls=refused)
        )
    return ComparedSource.of(source_row(context, source), to_accept=tuple(tools))


@operation(errors=(404, 409, 422), admin="see sources")
def check_document(context: Context, request: CheckDocument) -> DocumentChecked:
    """Report what a document lacks for agents: descriptions, schemas and supported parts; nothing is sent."""
    if request.document is not None:
        opened = opened_document(request.document)
        key = "spec" if opened.kind == "openapi" else "schema"
        entry = {"id": "x", "type": opened.kind, key: opened.name, "url": opened.url}
        if opened.kind == "graphql":
            # A schema does not state its endpoint, and no finding depends on it.
            entry["endpoint"] = "https://api.example.com/graphql"
        declared = adding.declared_source(entry)
        from covalt_git.models.toolset_manifest import ToolsetManifest  # noqa: PLC0415

        manifest = ToolsetManifest(id="x", name="x", version="1", sources=(declared,))
        compiled = compile_source(declared, manifest, "x", opened.files.get)
        path = opened.name
    else:
        source = refresh.find_source(
            context.project.root, request.toolset_id or "", request.namespace
        )
        manifest_of = source.toolset.manifest
        if not isinstance(source.declared, Source) or manifest_of is None:
            raise BadSourceError(f"{source.what} has no document")
        declared = source.declared
        reader = toolset_reader(source.toolset.folder)
        compiled = compile_source(declared, manifest_of, source.namespace, reader, source.lock)
        path = declared.document or ""
    check_tools(declared, compiled)
    diagnosis = doctor.diagnose(compiled, path)
    return DocumentChecked.of(diagnosis, title=compiled.compilation.title)


def _detail_of(source: refresh.ToolSource) -> SourceDetail:
    if source.lock is None:
        raise refresh.NoLockError(
            f"the tools of {source.what} have not been listed yet",
            hint=f"covalt-git source refresh {source.shown_id}",
        )
    return _detail(source.toolset.id, source.namespace, source.lock, source.toolset.state.accepted)


def _detail(
    toolset_id: str, namespace: str, lock: ToolLock, accepted: Mapping[str, str]
) -> SourceDetail:
    tools = tuple(
        _tool(name, tool, accepted.get(f"{namespace}:{name}"))
        for name, tool in sorted(lock.tools.items())
    )
    return SourceDetail.of(
        lock,
        toolset_id=toolset_id,
        namespace=namespace,
        documents=tuple(sorted(lock.documents)),
        tools=tools,
        hosts=tuple(sorted({tool.host for tool in tools if tool.host})),
        secrets=_secrets(lock.tools.values()),
    )


def _tool(name: str, tool: LockedTool, accepted: str | None) -> SourceTool:
    request = HttpRequest.model_validate(tool.request) if tool.request else None
    current = tool.computed_digest
    state: Literal["accepted", "new", "changed", "task"] = "changed"
    if tool.is_task:
        state = "task"
    elif accepted in {None, current}:
        state = "accepted" if accepted else "new"
    return SourceTool(
        name=name,
        upstream=tool.upstream,
        description=tool.description,
        method=request.method if request else None,
        host=_host(request) if request else None,
        writes=tool.annotations.read_only is not True
        if request is None or request.method == "POST"
        else request.method not in _READS,
        state=state,
    )


def _secrets(tools: Iterable[LockedTool]) -> dict[str, tuple[str, ...]]:
    hosts: dict[str, set[str]] = {}
    for tool in tools:
        if not tool.request:
            continue
        request = HttpRequest.model_validate(tool.request)
        host = _host(request)
        for secret in secrets_of(request):
            hosts.setdefault(secret.name, set()).update({host} if host else ())
    return {name: tuple(sorted(receivers)) for name, receivers in sorted(hosts.items())}


def _host(request: HttpRequest) -> str | None:
    origin = origin_of_template(request.url)
    return rule_of(origin) if origin else None
