"""Facts of ``covalt.yaml``: roles, approval rules, limits, and trusted issuers and signers."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

from covalt_git.authority.facts import Fact, place_in
from covalt_git.models.allowed_signers import AllowedSigner, wire_strings
from covalt_git.models.project_config import DEFAULT_LIMITS, LimitsConfig
from covalt_git.models.sources.server_definition import command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from covalt_git.authority.facts import Place
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.project_config import Issuer, ProjectConfig, RoleConfig
    from covalt_git.models.project_source import ProjectSource
    from covalt_git.models.storage_config import StorageConfig

PROJECT = "the project"
LOCAL_USER = "the local user"

EVERYTHING = "**"


def project_facts(
    reading: Reading[ProjectConfig], key_digests: Mapping[str, str]
) -> Iterator[Fact]:
    """Yield the facts of the project; ``key_digests`` has the digests of the issuers' key files.

    :mod:`covalt_git.authority.config_changes` compares the approval rules and the default role.
    """
    config = reading.valid

    def at(*loc: str | int, key: bool = False) -> Place:
        return place_in(reading, loc, key=key)

    for name, role in config.roles.items():
        yield from _role_facts(name, role, partial(at, "roles", name))
    for name in LimitsConfig.model_fields:
        own = getattr(config.limits, name)
        values = (own, getattr(DEFAULT_LIMITS, name, None))
        effective = next((value for value in values if value is not None), None)
        limit = {"own": own, "effective": effective}
        yield Fact(PROJECT, "limit", name, limit, at("limits", name), implied=own is None)
    yield Fact(PROJECT, "listens", "", config.server.host, at("server", "host"))
    for position, host in enumerate(config.server.allowed_hosts):
        yield Fact(PROJECT, "answers_to", host, None, at("server", "allowed_hosts", position))
    for position, issuer in enumerate(config.issuers):
        subject = f"issuer {issuer.issuer!r}"
        yield Fact(subject, "issuer", "", None, at("issuers", position, "issuer"))
        yield Fact(subject, "tokens_for", "", issuer.audience, at("issuers", position, "audience"))
        yield Fact(
            subject,
            "tokens_role",
            "",
            _roles(issuer),
            at("issuers", position, "role" if issuer.role else "roles"),
        )
        keys = issuer.jwks_url
        if issuer.jwks_file is not None:
            keys = f"{issuer.jwks_file} ({key_digests.get(issuer.jwks_file, 'missing')})"
        key = "jwks_url" if issuer.jwks_file is None else "jwks_file"
        yield Fact(subject, "keys", "", keys, at("issuers", position, key))
    for position, line in enumerate(config.signers):
        yield Fact(PROJECT, "signer", _signer_item(line), None, at("signers", position))
    if config.secret_command:
        command = command_line(config.secret_command)
        yield Fact(PROJECT, "secret_command", "", command, at("secret_command"))
    if config.audit.sign_key is not None:
        yield Fact(PROJECT, "sign_key", "", config.audit.sign_key, at("audit", "sign_key"))
    yield from _storage_facts(config.storage, at)
    if config.project is not None:
        yield from _source_facts(config.project, at)
    for position, name in enumerate(config.workspace.ignore):
        yield Fact(PROJECT, "ignored", name, None, at("workspace", "ignore", position))
    size = config.workspace.max_file_mb
    yield Fact(PROJECT, "max_file_mb", "", size, at("workspace", "max_file_mb"))


def _storage_facts(storage: StorageConfig, at: Callable[..., Place]) -> Iterator[Fact]:
    """Yield the facts about the git server that has the chats."""
    if storage.type == "local":
        return
    yield Fact(PROJECT, "chats_on", "", storage.url, at("storage", "url"))
    if storage.create:
        command = command_line(storage.create)
        yield Fact(PROJECT, "creates_by", "", command, at("storage", "create"))
    if storage.password is not None:
        secret = f"{storage.password} of {storage.username}"
        yield Fact(PROJECT, "sends_to_storage", "", secret, at("storage", "password"))


def _source_facts(source: ProjectSource, at: Callable[..., Place]) -> Iterator[Fact]:
    """Yield the facts about the repository whose commits a node runs."""
    repository = f"{source.url} at {source.ref}"
    yield Fact(PROJECT, "follows", "", repository, at("project", "url"))
    if source.password is not None:
        secret = f"{source.password} of {source.username}"
        yield Fact(PROJECT, "sends_to_project", "", secret, at("project", "password"))


def _roles(issuer: Issuer) -> str | None:
    if issuer.roles is None:
        return issuer.role
    pairs = ", ".join(f"{value!r}: {role}" for value, role in issuer.roles.map.items())
    return f"{{{pairs}}} by {issuer.roles.claim!r}"


def _signer_item(line: str) -> str:
    """Return a signer without the comment of the line."""
    signer = AllowedSigner.parse(line)
    kind = (wire_strings(signer.key) or [b""])[0].decode("ascii", "replace")
    # A signer for all namespaces and one for ours alone can sign the same toolsets.
    options = [
        f"{name}={value}" if value else name
        for name, value in sorted(signer.options.items())
        if name != "namespaces"
    ]
    return " ".join([signer.principals, *options, kind, base64.b64encode(signer.key).decode()])


def _role_facts(name: str, role: RoleConfig, at: Callable[..., Place]) -> Iterator[Fact]:
    """Yield the facts of a role; ``at`` returns the place of one of its keys."""
    subject = f"role {name!r}"
    if not (role.admin or role.allow or role.approve or role.chats):
        return  # such a role permits nothing
    yield Fact(subject, "role", "", None, at(key=True))
    if role.admin:
        yield Fact(subject, "admin", "", None, at("admin"))
        # Implied, so that an admin who becomes a role with patterns is compared with all of them.
        yield Fact(subject, "allow", EVERYTHING, None, at("admin"), implied=True)
        yield Fact(subject, "approve", EVERYTHING, None, at("admin"), implied=True)
    if role.approve_own and (role.admin or role.approve):
        yield Fact(subject, "approve_own", "", None, at("approve_own"))
    if role.chats == "manage" and not role.admin:
        yield Fact(subject, "chats", "", None, at("chats"))
    if role.register_tools and not role.admin:
        yield Fact(subject, "register", "", None, at("register"))
    for kind in ("allow", "deny", "approve"):
        for position, pattern in enumerate(getattr(role, kind)):
            yield Fact(subject, kind, pattern, None, at(kind, position))
