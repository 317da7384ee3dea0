"""Operations on secrets: their names, toolsets and sources, never their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, SecretStr

from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.credentials import secrets_file
from covalt_git.credentials.command import SecretCommand
from covalt_git.credentials.values import SHORTEST, SecretStore
from covalt_git.errors import CovaltError, StaleError, UnknownNameError
from covalt_git.grants.plans import requested_grants
from covalt_git.grants.status import acting_grants
from covalt_git.manifests.followed_project import source_of
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.sources.server_definition import references_of
from covalt_git.operations.context import Context
from covalt_git.operations.registry import TRUSTING, EmptyRequest, Request, Result, operation
from covalt_git.system.node_folder import node_of
from covalt_git.system.private_files import is_open_to_others
from covalt_git.templating.references import AUTH
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.access.grants import Granted
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.project import Project
    from covalt_git.toolsets.toolset import Toolset

_WHAT = "see where secrets come from"


class CheckSecret(Request):
    """Request: the secret to look up."""

    name: str


class SetSecret(Request):
    """Request: the secret and its value; with a toolset, only if this toolset declares it."""

    name: str = Field(max_length=200)
    value: SecretStr = Field(max_length=65_536)
    toolset_id: str | None = Field(None, max_length=200)


class AllowSecretCommand(Request):
    """Request: the command that the user has read, and why a script allows it."""

    argv: tuple[str, ...] | None = Field(
        None, description="The command that the user has read; null: the current one."
    )
    reason: str | None = Field(None, min_length=1, max_length=1000, description="Stored.")


class SecretRow(Result):
    """A secret that a toolset requests."""

    name: str
    toolset_id: str
    granted: bool
    trusted: bool = Field(
        description="Whether a grant of it acts on this machine: the user has trusted it here."
    )
    hosts: tuple[str, ...] = Field(description="Hosts that HTTP tools may send it to.")
    python: bool = Field(description="Whether Python tools receive it, whatever the hosts are.")
    source: str | None = Field(description="The source of its value; null if it is not set.")
    allowed: bool | None = Field(
        description="Whether the secret_command may run on this machine; null for another source."
    )


class SecretList(Result):
    """The secrets that toolsets request, by name and toolset."""

    secrets: tuple[SecretRow, ...]


class SecretChecked(Result):
    """A secret that has a value."""

    name: str
    source: str | None
    characters: int
    masked: bool = Field(description="Whether it is long enough to be masked in records.")


class SecretSet(Result):
    """A secret whose value was stored, and where; never the value."""

    name: str
    file: str
    masked: bool = Field(description="Whether it is long enough to be masked in records.")
    narrowed: bool = Field(
        description="Whether other users could access the file before, and only its owner can now."
    )


class SecretCommandRow(Result):
    """The secret_command of ``covalt.yaml`` on this machine."""

    argv: tuple[str, ...]
    project: str
    allowed: bool
    changed: bool = Field(description="Whether this request changed it.")


@operation(admin=_WHAT, local=True)
def list_secrets(context: Context, _: EmptyRequest) -> SecretList:
    """List the secrets that toolsets request, with their sources; the secret_command is not run."""
    rows = sorted(
        _requested(context.project, SecretStore.of_this_machine()),
        key=lambda row: (row.name, row.toolset_id),
    )
    return SecretList(secrets=tuple(rows))


@operation(admin=_WHAT, local=True)
def check_secret(context: Context, request: CheckSecret) -> SecretChecked:
    """Look up a secret as a call does, and return its source and its length."""
    project, name = context.project, request.name
    names = {row.name for row in _requested(project, None)} | _of_git_servers(project)
    # Without this, the secret_command would run for any name, also for a misspelt one.
    if name not in names:
        raise UnknownNameError("secret", name, names, list_with="covalt-git secret list")
    command = SecretCommand.of(project.root, project.config.secret_command)
    store = SecretStore.of_this_machine(command.ask if command else None)
    source = store.source(name) or ("command" if command else None)
    value = store.value(name)
    if value is None:
        raise CovaltError(f"{name!r} is not set", hint=store.how_to_set(name))
    masked = len(value) >= SHORTEST
    return SecretChecked(name=name, source=source, characters=len(value), masked=masked)


def _of_git_servers(project: Project) -> set[str]:
    """Return the names of the passwords of git servers: of the chats, and of the project's repository."""
    source = source_of(node_of(project.root))
    names = (project.config.storage.password_name, source and source.password_name)
    return {name for name in names if name}


@operation(changes=True, admin="set secrets", local=True)
def set_secret(context: Context, request: SetSecret) -> SecretSet:
    """Store the value of a granted secret in ``secrets.env`` of the user of this machine, which only they may read.

    Raises:
        UnknownNameError: if no toolset declares the secret, and it is no password of a git server in ``covalt.yaml``.
        CovaltError: ``grant_needed``, if no toolset has a grant for it; ``invalid_value``.
        SecretsFileError: if the file cannot be used.
    """
    name = request.name
    rows = [
        row
        for row in _requested(context.project, None)
        if request.toolset_id in {None, row.toolset_id}
    ]
    of_git_servers = _of_git_servers(context.project) if request.toolset_id is None else set()
    names = {row.name for row in rows} | of_git_servers
    if name not in names:
        raise UnknownNameError("secret", name, names, list_with="covalt-git secret list")
    # The user trusts a git server itself, so its password needs no grant.
    if name not in of_git_servers and not any(
        row.granted and row.trusted for row in rows if row.name == name
    ):
        toolset_id = next(row.toolset_id for row in rows if row.name == name)
        raise CovaltError(
            f"the secret {name} is not granted",
            hint=f"covalt-git grant add {toolset_id} secret {name}",
            code="grant_needed",
            http_status=409,
        )
    file, value = SecretStore.of_this_machine().file, request.value.get_secret_value()
    assert file is not None
    narrowed = secrets_file.write_value(file, name, value)
    return SecretSet(name=name, file=str(file), masked=len(value) >= SHORTEST, narrowed=narrowed)


@operation(admin=_WHAT, local=True)
def get_secret_command(context: Context, _: EmptyRequest) -> SecretCommandRow:
    """Return the secret_command of ``covalt.yaml``, and whether it may run on this machine."""
    return _row(_command(context.project), changed=False)


@operation(changes=True, admin=_WHAT, local=True, decides=TRUSTING)
def allow_secret_command(context: Context, request: AllowSecretCommand) -> SecretCommandRow:
    """Allow the current secret_command of ``covalt.yaml`` to run on this machine.

    If it is not ``argv``, it is not allowed (``moved``): a pull may have changed it since the user read it.
    """
    command = _command(context.project)
    if request.argv not in {None, tuple(command.argv)}:
        raise StaleError(
            "secret_command has changed since your review", hint="covalt-git secret allow"
        )
    was_allowed = command.is_allowed
    command.allow(request.reason)
    return _row(command, changed=not was_allowed)


@operation(changes=True, admin=_WHAT, local=True)
def forbid_secret_command(context: Context, _: EmptyRequest) -> SecretCommandRow:
    """Forbid the secret_command of ``covalt.yaml`` to run on this machine."""
    command = _command(context.project)
    return _row(command, changed=command.forbid())


class UnsetSecret(NamedTuple):
    """A granted secret without a value that a call could use; ``why`` continues a sentence about it."""

    name: str
    why: str
    hint: str
    is_unset: bool
    """Whether no source has it; else its source may not be used."""

    of_file: bool = False
    """Whether the file of secrets cannot be used; ``why`` is then a sentence about the file."""

    is_open: bool = False
    """Whether that is because other users can access it, which storing a value ends."""


def unset_secrets(
    toolset: Toolset, command: SecretCommand | None, store: SecretStore
) -> Iterator[UnsetSecret]:
    """Yield the granted secrets of a toolset without a value; the command is not run.

    A file of secrets that cannot be used is the reason of each secret: a page with it must work.
    """
    file_error = store.file_error() if toolset.secrets else None
    is_open = file_error is not None and store.file is not None and is_open_to_others(store.file)
    for secret in secrets_of(toolset, command, store if file_error is None else None):
        if not secret.granted:
            continue
        if file_error is not None:
            yield UnsetSecret(
                secret.name,
                file_error.message,
                file_error.hint,
                False,
                of_file=True,
                is_open=is_open,
            )
        elif secret.source is None:
            yield UnsetSecret(secret.name, "is not set", store.how_to_set(secret.name), True)
        elif secret.allowed is False:
            why = "comes from secret_command, which may not run on this machine"
            yield UnsetSecret(secret.name, why, "covalt-git secret allow", False)


def valueless_requests(
    toolset: Toolset, command: SecretCommand | None, store: SecretStore
) -> list[str]:
    """Return the secrets that a toolset requests, that are not granted yet and have no value.

    The list is empty if the file of secrets cannot be used, because no value could be stored.
    """
    if not toolset.secrets or store.file_error() is not None:
        return []
    grants = requested_grants(toolset)
    names = {grant.name for grant in grants if grant.kind == "secret"}
    names |= {name for grant in grants for name in grant.secrets}
    servers = {grant.name for grant in grants if grant.kind in {"server", "process"}}
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        if server.id in servers:
            names |= _named_by(server)
    rows = secrets_of(toolset, command, store)
    return [row.name for row in rows if row.name in names and not row.granted and not row.source]


def _requested(project: Project, store: SecretStore | None) -> Iterator[SecretRow]:
    """Yield every secret that a toolset declares; without a store, also if the file of secrets cannot be used."""
    command = SecretCommand.of(project.root, project.config.secret_command)
    for toolset_id in toolset_ids(project.root / "toolsets"):
        yield from secrets_of(read_toolset(project.root, toolset_id), command, store)


def secrets_of(
    toolset: Toolset, command: SecretCommand | None, store: SecretStore | None
) -> Iterator[SecretRow]:
    """Yield the secrets that a toolset declares, except sign-ins; the command is not run.

    Without a store, no secret has a source.
    """
    may = granted(toolset.id, toolset.state, toolset.digest)
    # An HTTP tool keeps its part of a grant that a change of other files has ended.
    kept = [
        granted(toolset.id, toolset.state, toolset.digest, tool)
        for tool in toolset.tools
        if tool.http is not None
    ]
    acting = [
        acting_grants(toolset),
        *(acting_grants(toolset, tool) for tool in toolset.tools if tool.http is not None),
    ]
    of_servers, acting_servers = _of_servers(toolset, may), _of_servers(toolset, acting[0])
    for name in toolset.secrets:
        if name.startswith(AUTH):  # `auth list` has the sign-ins
            continue
        source = (store.source(name) or ("command" if command else None)) if store else None
        reaches = [grants.secrets[name] for grants in (may, *kept) if name in grants.secrets]
        yield SecretRow(
            name=name,
            toolset_id=toolset.id,
            granted=bool(reaches) or name in of_servers,
            trusted=any(name in grants.secrets for grants in acting) or name in acting_servers,
            hosts=tuple(sorted({rule.text for reach in reaches for rule in reach.rules})),
            python=name in may.secrets and toolset.has_python_tools,
            source=source,
            allowed=command.is_allowed if source == "command" and command else None,
        )


def _of_servers(toolset: Toolset, may: Granted) -> set[str]:
    """Return the secrets that the granted MCP servers of a toolset get: the grant of a server covers those that it names."""
    names = set[str]()
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        try:
            may.check_server(server, toolset.files.hashes)
        except GrantNeededError:
            continue
        names |= _named_by(server)
        grant = may.program(server, toolset.files.hashes)
        if grant is not None and grant.confinement is not None:
            names |= {*grant.confinement.secrets}
    return names


def _named_by(server: McpServer) -> set[str]:
    """Return the secrets that a server needs, without those that have a default."""
    return {reference.name for reference in references_of(server) if reference.default is None}


def _row(command: SecretCommand, *, changed: bool) -> SecretCommandRow:
    return SecretCommandRow(
        argv=tuple(command.argv),
        project=str(command.root),
        allowed=command.is_allowed,
        changed=changed,
    )


def _command(project: Project) -> SecretCommand:
    command = SecretCommand.of(project.root, project.config.secret_command)
    if command is None:
        raise CovaltError(
            "covalt.yaml has no secret_command",
            hint="add a line to covalt.yaml: secret_command: [pass, show, '{name}']",
        )
    return command
