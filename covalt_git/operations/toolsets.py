"""Operations on toolsets: list, show, create, enable and disable them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field, JsonValue

from covalt_git.access.grants import granted
from covalt_git.catalog import toolset_cache
from covalt_git.errors import CovaltError, Problem
from covalt_git.grants.plans import (
    ANY_HOST,
    WantedGrant,
    ended_grants,
    plan_grants,
    requested_grants,
)
from covalt_git.grants.requested import GrantAsked, requested
from covalt_git.grants.status import missing_grants, shown_changes
from covalt_git.json_values import JsonObject
from covalt_git.manifests.skills import SkillHeader
from covalt_git.manifests.toolset_files import FileKind
from covalt_git.models.sources.package_command import abilities
from covalt_git.models.toolset_state import Grant, ProcessGrant, ServerGrant, grant_key
from covalt_git.operations.context import Context
from covalt_git.operations.namespace_problems import (
    LeftOverLockRow,
    NamespaceClaim,
    add_counts,
    locks_left_over,
    namespace_claims,
    problems_across,
)
from covalt_git.operations.registry import EmptyRequest, Result, ToolsetRequest, operation
from covalt_git.operations.tools import ToolRow, tool_row, visible_toolsets
from covalt_git.operations.trust import PermissionRow
from covalt_git.operations.validation import GrantLacking
from covalt_git.runtime.unsandboxed_programs import check_unsandboxed
from covalt_git.toolsets import new_toolset
from covalt_git.toolsets.first_steps import first_steps
from covalt_git.toolsets.new_toolset import Template
from covalt_git.toolsets.permissions import is_trusted, left_over, untrusted_words
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset

_DECISIONS = {"enabled", "overrides", "grants", "accepted", "aliases", "named_first"}
"""Fields of a state that do not describe the import."""


class EnableToolset(ToolsetRequest):
    """Request: a toolset, and whether to enable it."""

    enabled: bool


class CreateToolset(ToolsetRequest):
    """Request: the toolset to create from a template."""

    template: Template = "python"
    name: str = Field(
        "", max_length=1000, description="Its name for users; if empty, derived from the id."
    )


class ToolsetFacts(Result):
    """The fields that lists and details of toolsets share.

    For a toolset with errors, name, version and description are the last valid ones.
    """

    id: str
    name: str
    version: str
    description: str
    enabled: bool
    sound: bool = Field(
        description="Whether it has no errors; otherwise none of its tools can be called."
    )
    lacks_grants: bool = Field(description="Whether it lacks a requested grant.")
    imported: bool = Field(description="Whether it was imported.")
    source_type: Literal["zip", "local", "url"] | None
    source_ref: str | None
    installed_at: str | None
    digest: str | None = Field(description="Of all its files; null if it always had errors.")
    errors: int
    warnings: int
    to_accept: int = Field(description="Number of tools of its sources that are not accepted.")
    waits_for: Literal["listing", "acceptance"] | None = Field(
        description="Why none of its tools can be called yet: its MCP servers were not asked for them, or they are not"
        " accepted; null if one can be called, or for another reason."
    )


class ToolsetRow(ToolsetFacts):
    """A toolset in a list; ``tools`` is the number of tools that are visible to the role."""

    tools: int
    not_trusted: bool = Field(
        description="Whether it has permissions that do not act on this machine, because its user has not trusted them."
    )


class ToolsetFile(Result):
    """A file of a toolset; ``sha256`` is in hex, ``size`` in bytes."""

    path: str
    kind: FileKind
    sha256: str
    size: int


class McpServerRow(Result):
    """An MCP server that a toolset declares."""

    id: str
    server_type: Literal["stdio", "sse", "streamable-http"]
    enabled: bool
    requires_confirmation: bool
    command: str | None
    args: tuple[str, ...]
    url: str | None
    env: tuple[str, ...] = Field(description="Names of the variables that the command gets.")
    headers: tuple[str, ...] = Field(description="Names of the headers that it gets.")
    abilities: tuple[str, ...] = Field(
        description="What it is able to do under the grant that acts on this machine, and nothing else; without one,"
        " once its start or URL is granted."
    )


class ToolsetContent(Result):
    """The content of a toolset."""

    files: tuple[ToolsetFile, ...]
    mcp_servers: tuple[McpServerRow, ...]
    python_packages: tuple[str, ...]
    asks: tuple[GrantAsked, ...]


class LeftOverGrant(Result):
    """A grant of an MCP server that the toolset no longer has, which permits nothing; ``command`` revokes it."""

    key: str
    server: str
    words: str = Field(description="What the grant was for.")
    command: str


class ToolsetDetail(ToolsetFacts, ToolsetContent):
    """A toolset with its content.

    ``came`` describes the import: source, time, version, digest and signer.  It is empty for the
    project's own toolsets.

    If a tool of the toolset is hidden from the role, files, servers, skills, grants, manifest, state and problems
    are left out, because they would reveal that tool.
    """

    came: dict[str, JsonValue]
    tools: tuple[ToolRow, ...]
    skills: tuple[SkillHeader, ...]
    grants: dict[str, Grant]
    ended: dict[str, tuple[str, ...]] = Field(
        description="The grants that are no longer valid, by their keys: the changes that ended them."
    )
    lacking: tuple[GrantLacking, ...] = Field(
        description="The requested grants that it lacks, each with the command that adds it."
    )
    not_trusted: tuple[str, ...] = Field(
        description="The permissions that do not act on this machine, because its user has not trusted them."
    )
    left_over: tuple[LeftOverGrant, ...] = Field(
        description="The grants of MCP servers that the toolset no longer has.  They permit nothing, and need no trust."
    )
    requested_permissions: tuple[PermissionRow, ...] = Field(
        description="Exactly what add_requested_grants would trust on this machine."
    )
    ended_permissions: tuple[PermissionRow, ...] = Field(
        description="Exactly what renew_grants would trust on this machine."
    )
    manifest: JsonObject | None = Field(
        description="The toolset.yaml without defaults; null if it cannot be read."
    )
    state: JsonObject = Field(description="Its state file without defaults.")
    problems: tuple[Problem, ...]
    namespace_claims: tuple[NamespaceClaim, ...] = Field(
        description="Its namespaces that other toolsets declare too, with the problem of each of these."
    )
    left_over_locks: tuple[LeftOverLockRow, ...] = Field(
        (), description="The locks that name it, and that no toolset declares any more."
    )


class ToolsetCreated(Result):
    """A new toolset: its files, and the next commands for its author."""

    toolset_id: str
    made: tuple[str, ...]
    next: tuple[str, ...]


class ToolsetList(Result):
    """The toolsets."""

    toolsets: tuple[ToolsetRow, ...]


class ToolsetSwitched(Result):
    """A toolset after the change; ``changed`` is false if it already had this state."""

    toolset_id: str
    enabled: bool
    changed: bool


class GrantOffer(NamedTuple):
    """What a button that adds grants would trust on this machine, or the error if they cannot be added.

    ``lines`` are those of the ``permissions``, without the hosts that the user has still to type.
    """

    permissions: tuple[PermissionRow, ...] = ()
    lines: tuple[str, ...] = ()
    error: CovaltError | None = None


@operation()
def list_toolsets(context: Context, _: EmptyRequest) -> ToolsetList:
    """List the toolsets with a tool that the role may see.

    If a tool of a toolset is hidden from the role, its errors and warnings are not counted.
    """
    catalog = context.catalog
    visible: dict[str, list[Tool]] = {}
    for tool in catalog.visible(context.toolset_index().tools()):
        visible.setdefault(tool.toolset_id, []).append(tool)
    tool_ids = context.toolset_index().toolset_tools()
    across = problems_across(context)
    rows = []
    for row in visible_toolsets(context):
        tools = visible.get(row["id"], [])
        everything = len(tools) == row["tools"]
        # The index has the last valid tools of a toolset with errors, and may count others than its files now have.
        if not row["sound"]:
            everything = catalog.sees_all_of(row["id"], tool_ids.get(row["id"]))
        not_trusted = everything and row["sound"] and _is_untrusted(context, row["id"])
        add_counts(row, across.get(row["id"], ()))
        fields = _shared_fields(context, row, tools, everything=everything)
        rows.append(ToolsetRow(**fields, tools=len(tools), not_trusted=not_trusted))
    return ToolsetList(toolsets=tuple(rows))


@operation(errors=(404,))
def get_toolset(context: Context, request: ToolsetRequest) -> ToolsetDetail:
    """Return one toolset: its tools, files, MCP servers, grants and problems.

    If its manifest cannot be read, its tools are the last valid ones.
    """
    catalog = context.catalog
    toolset = catalog.find_toolset(request.toolset_id)
    tools = toolset.tools if toolset.manifest else context.toolset_index().tools(toolset.id)
    row = context.toolset_index().toolset_row(toolset.id) or {}
    # If the files have errors, the index has the last valid version; these fields are those of the files.
    row |= {"id": toolset.id, "sound": toolset.sound, "enabled": toolset.enabled}
    row |= {"source_type": toolset.state.source_type, "digest": toolset.digest}
    across = problems_across(context).get(toolset.id, [])
    add_counts(row, across)
    everything = catalog.sees_all_in(toolset)
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    visible_servers = [server for server in servers if catalog.sees_one_of(server.id, ())]
    may_plan = everything and toolset.sound
    hidden = dict.fromkeys(ToolsetContent.model_fields, ())
    return ToolsetDetail(
        **_shared_fields(context, row, catalog.visible(tools), everything=everything),
        **(content(toolset, visible_servers) if everything else hidden),
        came=toolset.state.model_dump(mode="json", exclude=_DECISIONS, exclude_none=True)
        if toolset.state.imported
        else {},
        tools=tuple(tool_row(context, tool, row) for tool in catalog.visible(tools)),
        skills=tuple(skill.header for skill in toolset.skills) if everything else (),
        grants=_grants(context, toolset) if everything else {},
        ended=_ended_grants(context, toolset) if everything else {},
        lacking=missing_grants(toolset) if everything else (),
        not_trusted=untrusted_words(toolset, context.project.config) if everything else (),
        requested_permissions=planned_permissions(context, toolset, requested_grants)
        if may_plan
        else (),
        ended_permissions=planned_permissions(context, toolset, ended_grants) if may_plan else (),
        manifest=toolset.manifest.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if toolset.manifest is not None and everything
        else None,
        state=toolset.state.model_dump(mode="json", exclude_defaults=True) if everything else {},
        left_over=tuple(LeftOverGrant.of(grant) for grant in left_over(toolset))
        if everything
        else (),
        problems=(*toolset.problems, *across) if everything else (),
        namespace_claims=namespace_claims(context, toolset.id) if everything else (),
        left_over_locks=locks_left_over(context, toolset) if everything else (),
    )


@operation(changes=True, errors=(409,), local=True)
def create_toolset(context: Context, request: CreateToolset) -> ToolsetCreated:
    """Create a toolset from a template: Python, HTTP, an MCP server, a page for results, a plugin, or empty."""
    project = context.project
    toolset_id = request.toolset_id
    paths = new_toolset.create_toolset(
        project.root, toolset_id, template=request.template, name=request.name
    )
    chats = project.chats.ids()
    steps = first_steps(read_toolset(project.root, toolset_id), chats[0] if chats else None)
    return ToolsetCreated(toolset_id=toolset_id, made=tuple(paths), next=tuple(steps))


@operation(changes=True, errors=(404,), admin="enable or disable toolsets")
def enable_toolset(context: Context, request: EnableToolset) -> ToolsetSwitched:
    """Enable or disable a toolset; only its state file is written."""
    root = context.project.root
    changed = set_enabled(root, request.toolset_id, enabled=request.enabled)
    context.update_toolset_index()
    return ToolsetSwitched(toolset_id=request.toolset_id, enabled=request.enabled, changed=changed)


def _shared_fields(
    context: Context, row: JsonObject, tools: Sequence[Tool], *, everything: bool
) -> JsonObject:
    """Return the fields that lists and details share, from the toolset's row in the index and its visible tools."""
    to_accept = sum(tool.held_back in {"new", "changed"} for tool in tools)
    waits_for = None
    if all(tool.held_back is not None for tool in tools):
        waits_for = (
            "acceptance" if to_accept else _waits_for_listing(context, row, everything=everything)
        )
    names = ("sound", "enabled", "source_type", "source_ref", "installed_at", "digest")
    return {name: row.get(name) for name in names} | {
        "lacks_grants": everything and bool(row.get("lacks_grants")),
        "errors": row.get("errors", 0) if everything else 0,
        "warnings": row.get("warnings", 0) if everything else 0,
        "to_accept": to_accept,
        "waits_for": waits_for,
        "id": row["id"],
        "name": row.get("name") or row["id"],
        "version": row.get("version") or "",
        "description": row.get("description") or "",
        "imported": row["source_type"] is not None,
    }


def _waits_for_listing(
    context: Context, row: JsonObject, *, everything: bool
) -> Literal["listing"] | None:
    servers = context.toolset_index().mcp_servers() if everything else ()
    is_declared = any(server["toolset_id"] == row["id"] and server["enabled"] for server in servers)
    return "listing" if is_declared else None


def _is_untrusted(context: Context, toolset_id: str) -> bool:
    toolset = toolset_cache.toolset(context.root, toolset_id)
    return bool(untrusted_words(toolset, context.project.config))


def _ended_grants(context: Context, toolset: Toolset) -> dict[str, tuple[str, ...]]:
    changes_by_key = {
        key: shown_changes(toolset, key, grant) for key, grant in _grants(context, toolset).items()
    }
    return {key: changed for key, changed in changes_by_key.items() if changed}


def planned_permissions(
    context: Context, toolset: Toolset, choose: Callable[[Toolset], list[WantedGrant]]
) -> tuple[PermissionRow, ...]:
    """Return the permissions that adding some grants would give; none if they cannot be added, which says why."""
    return offer(context, toolset, choose(toolset)).permissions


def typed_offer(context: Context, toolset: Toolset, grant: WantedGrant) -> GrantOffer:
    """Return what a form would trust that adds a grant for hosts that its user has still to type."""
    return _offer(context, toolset, [grant._replace(hosts=(ANY_HOST,))], hidden=ANY_HOST)


def offer(context: Context, toolset: Toolset, grants: Iterable[WantedGrant]) -> GrantOffer:
    """Return what a button that adds these grants would trust, or why they cannot be added."""
    return _offer(context, toolset, grants)


def _offer(
    context: Context, toolset: Toolset, grants: Iterable[WantedGrant], *, hidden: str | None = None
) -> GrantOffer:
    try:
        plan = plan_grants(toolset, context.project.config, check_unsandboxed(toolset, grants))
    except CovaltError as error:
        # All lines or the error: a button with some of its lines would hide the rest
        # (test_the_error_is_in_place_of_a_button_that_cannot_grant).
        return GrantOffer(error=error)
    lacking = {
        part.key for part in Consents.of(context.root).lacking(plan.permissions, strict=False)
    }
    rows = tuple(
        PermissionRow.of_permission(permission, trusted=permission.key not in lacking)
        for permission in plan.permissions
    )
    lines = tuple(
        line
        for permission in plan.permissions
        if hidden is None or permission.fact.get("host") != hidden
        for line in permission.lines
    )
    return GrantOffer(rows, lines)


def content(toolset: Toolset, servers: Iterable[McpServer]) -> JsonObject:
    """Return the fields of :class:`ToolsetContent`, with some of the toolset's MCP servers as declared."""
    return {
        "files": toolset.files.files,
        "mcp_servers": tuple(
            McpServerRow.of(
                server,
                enabled=toolset.enabled and server.enabled,
                env=tuple(sorted(server.env)),
                headers=tuple(sorted(server.headers)),
                abilities=_abilities(toolset, server),
            )
            for server in servers
        ),
        "python_packages": toolset.manifest.python.dependencies if toolset.manifest else (),
        "asks": requested(toolset),
    }


def _abilities(toolset: Toolset, server: McpServer) -> tuple[str, ...]:
    """Return what a server is able to do under the grant that acts on this machine."""
    may = granted(toolset.id, toolset.state, toolset.digest)
    grant = None if server.command is None else may.program(server, toolset.files.hashes)
    if grant is None or not is_trusted(toolset, grant_key(grant.kind, server.id)):
        return abilities(server)
    if grant.confinement is None:
        try:
            check_unsandboxed(toolset, [WantedGrant("unsandboxed", server.id)])
        except CovaltError as error:
            return (f"is not started: {error.message}",)
    return abilities(server, grant.confinement or "none")


def _grants(context: Context, toolset: Toolset) -> dict[str, Grant]:
    """Return the grants, except grants of MCP servers that are not visible to the role."""
    catalog = context.catalog
    return {
        key: grant
        for key, grant in toolset.state.grants.items()
        if not isinstance(grant, ProcessGrant | ServerGrant)
        or catalog.sees_one_of(grant.server, ())
    }
