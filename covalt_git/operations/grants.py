"""Operations on grants: the permissions of toolsets beyond their sandbox."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from covalt_git.access.grants import ports
from covalt_git.errors import CovaltError
from covalt_git.grants import grants as decisions
from covalt_git.grants.plans import (
    ANY_HOST,
    Review,
    WantedGrant,
    ended_grants,
    is_declared,
    plan_grants,
    requested_grants,
)
from covalt_git.grants.status import missing_grants, shown_changes
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.toolset_state import (
    WORKSPACE,
    WRITABLE,
    Grant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
)
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    TRUSTING,
    Request,
    Result,
    ToolsetRequest,
    any_of,
    invalid_field,
    operation,
)
from covalt_git.operations.trust import PermissionRow
from covalt_git.operations.validation import GrantLacking
from covalt_git.runtime.unsandboxed_programs import check_unsandboxed
from covalt_git.toolsets.permissions import is_trusted
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from covalt_git.json_values import JsonObject
    from covalt_git.toolsets.toolset import Toolset

_MOST_HOSTS = 100
MOST_PERMISSIONS = 10_000

_NAMED = {
    "secret": "secret",
    "process": "MCP server",
    "server": "MCP server",
    "tool": "registered tool",
}

Hosts = tuple[str, ...]

Reason = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=1000,
        description="Why a script grants it; stored with the trust on this machine.",
    ),
]


class ListGrants(Request):
    """Request: a toolset; without one, all toolsets."""

    toolset_id: str | None = Field(None, max_length=200)


class GrantAll(ToolsetRequest):
    """A toolset that gets grants, and what the user has reviewed: its digest, and the permissions."""

    digest: str | None = Field(
        None, max_length=100, description="The toolset's digest that the user has reviewed."
    )
    permissions: tuple[str, ...] | None = Field(
        None,
        max_length=MOST_PERMISSIONS,
        description="Digests of the permissions that the user has reviewed, such as those of get_toolset; null: all.",
    )
    reason: Reason = None


class AddRequestedGrants(GrantAll):
    """Request: a toolset that gets what it requests, and the folders of its MCP servers."""

    folders: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        max_length=_MOST_HOSTS,
        description="Folders that the programs of MCP servers may read besides, by the server's id.",
    )


def _rules_of_kinds() -> ConfigDict:
    """Return the rules that grants of some kinds obey: who is named, that a network has hosts, and what only a server has."""
    named: JsonObject = {
        "required": ["name"],
        "properties": {"name": {"minLength": 1, "type": "string"}},
    }
    hosts: JsonObject = {"required": ["hosts"], "properties": {"hosts": {"minItems": 1}}}
    none: JsonObject = {"maxItems": 0}
    others: JsonObject = {"properties": {"folders": none, "secrets": none}}
    not_servers = ["network", "secret", "process", "tool", "unsandboxed"]
    needed = [([*_NAMED], named), (["network"], hosts), (not_servers, others)]
    rules: list[JsonValue] = [
        {"if": {"properties": {"kind": {"enum": [*kinds]}}}, "then": rule} for kinds, rule in needed
    ]
    return ConfigDict(json_schema_extra={"allOf": rules})


class AddGrant(GrantAll):
    """Request: the grant to add to a toolset."""

    model_config = _rules_of_kinds()

    kind: Literal["network", "secret", "process", "server", "tool", "unsandboxed"]
    name: str | None = Field(
        None,
        max_length=200,
        description="The name of the secret or registered tool, or the id of the MCP server.",
    )
    hosts: Hosts = Field(
        (),
        max_length=_MOST_HOSTS,
        description="Hosts to reach, or to which HTTP tools send the secret: api.example.com, *.example.com.",
    )

    folders: tuple[str, ...] = Field(
        (),
        max_length=_MOST_HOSTS,
        description="Folders that the program of an MCP server may read, or with `:rw` also write.",
    )
    secrets: tuple[str, ...] = Field(
        (),
        max_length=_MOST_HOSTS,
        description="Secrets that the program of an MCP server receives as variables.",
    )


class RevokeGrant(ToolsetRequest):
    """Grants to revoke: all, or the grant with a ``key``, or only some hosts of this grant."""

    model_config = any_of("key", all=True)

    key: str | None = Field(
        None, max_length=200, description="As in list_grants: network, secret-NAME, ..."
    )
    hosts: Hosts = Field((), max_length=_MOST_HOSTS)
    all: bool = False


class GrantRow(Result):
    """A grant; ``holds`` is whether it is still valid, that is, no covered file has changed.

    It covers all files of the toolset, the declaration of an MCP server with the files that it can load, or the entry
    of a registered tool.
    """

    toolset_id: str
    key: str
    holds: bool
    changed: tuple[str, ...] = Field(description="The changes that ended it.")
    trusted: bool = Field(
        description="Whether it acts on this machine: the user has trusted it here."
    )
    ports: dict[str, tuple[int, ...]] = Field(description="The granted ports of each of its hosts.")
    texts: dict[str, str] = Field(
        description="The current variables or headers of the MCP server, with references to secrets"
        " instead of their values."
    )
    python: bool = Field(
        description="Whether Python tools receive the secret of the grant: its hosts restrict HTTP tools only."
    )
    declared: bool = Field(
        description="Whether the toolset still declares what it is for, so that it can be renewed."
    )
    grant: Grant


class GrantList(Result):
    """Grants, sorted by toolset and key."""

    grants: tuple[GrantRow, ...]


class GrantsListed(GrantList):
    """Grants, and what the toolsets request and lack."""

    lacking: tuple[GrantLacking, ...]


class GrantPreview(Result):
    """What a grant would trust on this machine, and the digest of the toolset that it would be for."""

    toolset_id: str
    digest: str
    permissions: tuple[PermissionRow, ...]


class GrantsRevoked(Result):
    """The keys of the revoked grants, and the remaining grant if only some hosts were revoked."""

    toolset_id: str
    revoked: tuple[str, ...]
    left: Grant | None
    withdrawn: tuple[str, ...] = Field(
        description="The permissions that are no longer trusted on this machine, also those that a pull has taken out"
        " of the state file."
    )


@operation(errors=(404,), admin="list grants")
def list_grants(context: Context, request: ListGrants) -> GrantsListed:
    """List the grants of all toolsets or of one, whether each is still valid, and what they request and lack."""
    root = context.project.root
    rows = decisions.grants(root, request.toolset_id)
    ids = [request.toolset_id] if request.toolset_id else toolset_ids(root / "toolsets")
    toolsets = [read_toolset(root, toolset_id) for toolset_id in ids]
    return GrantsListed(
        grants=tuple(_row(*row) for row in rows),
        lacking=tuple(
            GrantLacking.of(grant)
            for toolset in toolsets
            if toolset.sound
            for grant in missing_grants(toolset)
        ),
    )


@operation(changes=True, errors=(404, 409), admin="grant anything", decides=TRUSTING)
def add_grant(context: Context, request: AddGrant) -> GrantRow:
    """Grant a host, a secret, an MCP server, a registered tool, or permission to run without a sandbox.

    The grant is for the current files of the toolset, the declaration of an MCP server or the entry of a
    registered tool, and ends when these change.  Hosts are added to those that were granted before.  Only the
    toolset's state file is written.  If ``digest`` is not the toolset's current digest, or ``permissions`` are not
    exactly what the grant permits now, nothing is granted and the answer is 409 ``moved``.
    """
    grant = _wanted(request)
    (row,) = _add(context, request, lambda _: [grant], _review(request)).grants
    return row


@operation(errors=(404, 409), admin="grant anything")
def preview_grant(context: Context, request: AddGrant) -> GrantPreview:
    """Return what ``add_grant`` would trust on this machine, and grant nothing.

    With its digests, ``add_grant`` grants exactly that, or nothing.
    """
    toolset = find_toolset(context.project.root, request.toolset_id)
    _review(request).check_files(toolset)
    grants = check_unsandboxed(toolset, [_wanted(request)])
    plan = plan_grants(toolset, context.project.config, grants)
    return GrantPreview(
        toolset_id=toolset.id,
        digest=toolset.digest,
        permissions=tuple(
            # Trust in a folder is not looked up, because the user decides about each permission here in any case.
            PermissionRow.of_permission(permission, trusted=False)
            for permission in plan.permissions
        ),
    )


def _wanted(request: AddGrant) -> WantedGrant:
    """Return the grant of a request.

    Raises:
        InvalidRequestError: if it lacks what its kind needs, or has what only another kind has.
        CovaltError: ``no_folder``.
    """
    if request.kind in _NAMED and not request.name:
        raise invalid_field("name", f"name the {_NAMED[request.kind]}")
    if request.kind == "network" and not request.hosts:
        raise invalid_field("hosts", "name at least one host")
    if (request.folders or request.secrets) and request.kind != "server":
        raise invalid_field("kind", "only an MCP server has folders and secrets")
    for folder in request.folders:
        check_folder(folder)
    return WantedGrant(
        request.kind, request.name or "", request.hosts, request.folders, request.secrets
    )


@operation(changes=True, errors=(404, 409), admin="grant anything", decides=TRUSTING)
def add_requested_grants(context: Context, request: AddRequestedGrants) -> GrantList:
    """Grant everything that a toolset requests and lacks: hosts, secrets and MCP servers.

    ``folders`` are granted to programs of its MCP servers in the same decision.

    If ``digest`` is not the current digest of the toolset, or ``permissions`` are not those of
    ``requested_permissions`` now, nothing is granted and the answer is 409 ``moved``.
    """
    for folder in (text for texts in request.folders.values() for text in texts):
        check_folder(folder)
    more = [
        WantedGrant("server", server, folders=folders)
        for server, folders in request.folders.items()
    ]
    return _add(
        context, request, lambda toolset: [*requested_grants(toolset), *more], _review(request)
    )


@operation(changes=True, errors=(404, 409), admin="grant anything", decides=TRUSTING)
def renew_grants(context: Context, request: GrantAll) -> GrantList:
    """Renew the grants of a toolset that ended because its files changed.

    Grants of servers and secrets that the toolset no longer declares are not renewed.  If ``digest``
    is not the current digest of the toolset, or ``permissions`` are not those of ``ended_permissions`` now,
    nothing is granted and the answer is 409 ``moved``.
    """
    return _add(context, request, ended_grants, _review(request))


@operation(changes=True, errors=(404,), admin="revoke grants")
def revoke_grant(context: Context, request: RevokeGrant) -> GrantsRevoked:
    """Revoke the grants of a toolset, or a part of them, and end the trust in them on this machine.

    The trust ends also if a pull has taken the grant out of the state file: a pull that restores it needs trust again.
    """
    root = context.project.root
    if request.all:
        revocation = decisions.revoke_all(root, request.toolset_id)
    elif request.key is None:
        raise invalid_field("key", "name a grant, or use all: true")
    else:
        revocation = decisions.revoke(root, request.toolset_id, request.key, request.hosts)
    context.update_toolset_index()
    return GrantsRevoked(
        toolset_id=request.toolset_id,
        revoked=revocation.keys,
        left=revocation.left,
        withdrawn=revocation.withdrawn,
    )


def check_folder(text: str) -> None:
    """Check that a folder exists which a program of an MCP server is to use; a misspelt one would only fail a call.

    Raises:
        CovaltError: ``no_folder``, with its place.
    """
    if text.removesuffix(WRITABLE) == WORKSPACE:
        return
    path = Path(text.removesuffix(WRITABLE)).expanduser()
    if not path.is_dir():
        raise CovaltError(
            f"the folder {str(path)!r} does not exist",
            hint=f"mkdir {shlex.quote(str(path))}, or name another folder",
            code="no_folder",
            http_status=409,
        )


def typed_permissions(
    context: Context, toolset_id: str, grant: WantedGrant, form_digests: Collection[str]
) -> tuple[str, ...]:
    """Return the digests of what a grant permits, after a form has shown all of it but the hosts, which its user typed.

    ``form_digests`` are the digests of the form's plan, which is for :data:`.plans.ANY_HOST`.  Both plans are made from one
    reading of the toolset, so that they differ in nothing but the hosts.

    Raises:
        StaleError: if the form's plan is another one now.
        CovaltError: as :func:`.plans.plan_grants`.
    """
    toolset, config = find_toolset(context.root, toolset_id), context.project.config
    of_form = plan_grants(toolset, config, [grant._replace(hosts=(ANY_HOST,))])
    Review(permissions=form_digests).check_plan(toolset, of_form)
    plan = plan_grants(toolset, config, [grant])
    return tuple(permission.digest for permission in plan.permissions)


def _row(toolset: Toolset, key: str, grant: Grant) -> GrantRow:
    changed = shown_changes(toolset, key, grant)
    return GrantRow(
        toolset_id=toolset.id,
        key=key,
        holds=not changed,
        changed=changed,
        trusted=is_trusted(toolset, key),
        ports=ports(grant),
        texts=_texts(toolset, grant),
        python=isinstance(grant, SecretGrant) and toolset.has_python_tools,
        declared=is_declared(toolset, grant),
        grant=grant,
    )


def _texts(toolset: Toolset, grant: Grant) -> dict[str, str]:
    if not isinstance(grant, ProcessGrant | ServerGrant):
        return {}
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    server = next((server for server in servers if server.id == grant.server), None)
    if server is None:
        return {}
    return dict(sorted((server.env if grant.kind == "process" else server.headers).items()))


def _review(request: GrantAll) -> Review:
    return Review(request.digest, request.permissions)


def _add(
    context: Context,
    request: GrantAll,
    choose: Callable[[Toolset], Iterable[WantedGrant]],
    review: Review,
) -> GrantList:
    """Add the grants that ``choose`` returns, if they are what the user has reviewed; return them."""
    project = context.project
    plan = decisions.add_grants(
        project.root,
        request.toolset_id,
        lambda toolset: check_unsandboxed(toolset, choose(toolset)),
        review,
        by=project.principal.id,
        reason=request.reason,
    )
    context.update_toolset_index()
    toolset = find_toolset(project.root, request.toolset_id)
    return GrantList(
        grants=tuple(_row(toolset, key, grant) for key, grant in sorted(plan.grants.items()))
    )
