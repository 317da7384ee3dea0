"""The API's grants: what toolsets may do beyond their walls, giving it, and taking it back."""

# ruff: noqa: TC001 - pydantic reads the annotations when it makes the models

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.access.grants import ports
from covalt_git.errors import Problem, StaleError
from covalt_git.grants import grants as decisions
from covalt_git.grants.status import changes
from covalt_git.models.toolset_state import Grant
from covalt_git.toolsets.state_store import find_toolset
from covalt_server import request_context
from covalt_server.api.http import Answer, Asked, InvalidRequestError, operation
from covalt_server.request_context import as_admin

if TYPE_CHECKING:
    from covalt_git.project import Project

_MOST_HOSTS = 100

Hosts = tuple[str, ...]


class ListGrants(Asked):
    """Which toolset's; all of them without one."""

    toolset_id: str | None = Field(None, max_length=200)


class AddGrant(Asked):
    """What to grant, and to which toolset."""

    toolset_id: str = Field(max_length=200)
    kind: Literal["network", "secret", "process", "server", "unsandboxed"]
    name: str | None = Field(
        None, max_length=200, description="The secret, or the MCP server: a program or an address."
    )
    hosts: Hosts = Field(
        (),
        max_length=_MOST_HOSTS,
        description="Hosts to reach, or that HTTP tools send the secret to: api.example.com, *.example.com.",
    )
    digest: str | None = Field(
        None, max_length=100, description="The toolset's, as whoever grants has seen it."
    )


class RevokeGrant(Asked):
    """What to take back: all, or what is under ``key``, or only these hosts of that."""

    toolset_id: str = Field(max_length=200)
    key: str | None = Field(
        None, max_length=200, description="As list_grants tells it: network, secret-NAME, ..."
    )
    hosts: Hosts = Field((), max_length=_MOST_HOSTS)
    all: bool = False


class GrantRow(Answer):
    """One grant; it ``holds`` while nothing of what was granted has changed.

    That is every file of the toolset, or an MCP server as it is declared with the files it names.
    """

    toolset_id: str
    key: str
    holds: bool
    changed: tuple[str, ...] = Field(description="What has changed since, in words.")
    ports: dict[str, tuple[int, ...]] = Field(description="What is granted of each of its hosts.")
    grant: Grant


class GrantList(Answer):
    """What was granted, sorted by toolset and key."""

    grants: tuple[GrantRow, ...]


class GrantsRevoked(Answer):
    """The keys whose grants were taken back, and what is left of the one of which only hosts were."""

    toolset_id: str
    revoked: tuple[str, ...]
    left: Grant | None


@operation("GET", errors=(404,))
def list_grants(asked: ListGrants) -> GrantList:
    """List what was granted, to all toolsets or to one, and whether it still holds."""
    project = as_admin("see what was granted")
    found = decisions.grants(project.root, asked.toolset_id)
    return GrantList(
        grants=tuple(
            GrantRow(
                toolset_id=toolset.id,
                key=key,
                holds=not changed,
                changed=changed,
                ports=ports(grant),
                grant=grant,
            )
            for toolset, key, grant in found
            for changed in [changes(toolset, grant)]
        )
    )


@operation("POST", errors=(404, 409))
def add_grant(asked: AddGrant) -> GrantRow:
    """Grant something to a toolset as its files are now; a change of any of them ends it.

    An MCP server is granted exactly as it is declared now, and a change of just that ends it.
    Hosts come to those that were granted before.  Only the toolset's state file is written.  Where
    the toolset's files are not those of ``digest``, nothing is granted and the answer is 409 ``moved``.
    """
    project = as_admin("grant anything")
    _check_seen(project, asked)
    key, grant = _granted(project, asked)
    request_context.index().sync_toolsets()
    return GrantRow(
        toolset_id=asked.toolset_id,
        key=key,
        holds=True,
        changed=(),
        ports=ports(grant),
        grant=grant,
    )


@operation("POST", errors=(404,))
def revoke_grant(asked: RevokeGrant) -> GrantsRevoked:
    """Take back what was granted to a toolset, or a part of it."""
    root = as_admin("take back what was granted").root
    revoked, left = list[str](), None
    if asked.all:
        revoked = decisions.revoke_all(root, asked.toolset_id)
    elif asked.key is None:
        raise _missing("key", "say which grant, or all: true")
    else:
        left = decisions.revoke(root, asked.toolset_id, asked.key, asked.hosts)
        revoked = [] if left else [asked.key]
    request_context.index().sync_toolsets()
    return GrantsRevoked(toolset_id=asked.toolset_id, revoked=tuple(revoked), left=left)


def _check_seen(project: Project, asked: AddGrant) -> None:
    if asked.digest in {None, find_toolset(project.root, asked.toolset_id).digest}:
        return
    raise StaleError(
        f"a file of {asked.toolset_id!r} has changed since you looked", hint="look at it again"
    )


def _granted(project: Project, asked: AddGrant) -> tuple[str, Grant]:
    """Grant what is asked for, one case a kind; return the key it stands under."""
    root, toolset_id, by = project.root, asked.toolset_id, project.principal.id
    if asked.kind == "unsandboxed":
        return asked.kind, decisions.grant_unsandboxed(root, toolset_id, by=by)
    if asked.kind in {"process", "server"}:
        return _granted_server(project, asked)
    if asked.kind == "network":
        if not asked.hosts:
            raise _missing("hosts", "name at least one host")
        return asked.kind, decisions.grant_network(root, toolset_id, asked.hosts, by=by)
    if not asked.name:
        raise _missing("name", "name the secret")
    grant = decisions.grant_secret(root, toolset_id, asked.name, asked.hosts, by=by)
    return decisions.secret_key(asked.name), grant


def _granted_server(project: Project, asked: AddGrant) -> tuple[str, Grant]:
    root, toolset_id, by = project.root, asked.toolset_id, project.principal.id
    if not asked.name:
        raise _missing("name", "name the MCP server")
    if asked.kind == "process":
        key = decisions.server_key("process", asked.name)
        return key, decisions.grant_process(root, toolset_id, asked.name, by=by)
    key = decisions.server_key("server", asked.name)
    return key, decisions.grant_server(root, toolset_id, asked.name, by=by)


def _missing(name: str, message: str) -> InvalidRequestError:
    problem = Problem(name, 0, 0, "invalid_request", message)
    return InvalidRequestError("the request has a value that cannot be used", problems=[problem])


OPERATIONS = (list_grants, add_grant, revoke_grant)
