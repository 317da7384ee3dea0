"""Facts of ``covalt.yaml``: roles, approval rules, limits, and trusted issuers and signers."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from covalt_git.authority.facts import Fact, Place
from covalt_git.models.allowed_signers import AllowedSigner, wire_strings
from covalt_git.models.project_config import DEFAULT_LIMITS, LimitsConfig
from covalt_git.models.server_definition import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.manifests.reading import Reading
    from covalt_git.models.project_config import ProjectConfig, RoleConfig

PROJECT = "the project"
LOCAL_USER = "the local user"

EVERYTHING = "**"


def project_facts(
    reading: Reading[ProjectConfig], key_digests: Mapping[str, str]
) -> Iterator[Fact]:
    """Yield the facts of the project; ``key_digests`` has the digests of the issuers' key files."""
    config = reading.value
    assert config is not None

    def at(*loc: str | int, key: bool = False) -> Place:
        if reading.document is None:
            return Place(reading.path)
        return Place(reading.path, *reading.document.locate(loc, key=key))

    yield Fact(LOCAL_USER, "default_role", "", config.default_role, at("default_role"))
    for name, role in config.roles.items():
        yield from _role_facts(reading, name, role)
    yield Fact(PROJECT, "approvals", "", len(config.approvals), at("approvals", key=True))
    for name in LimitsConfig.model_fields:
        own = getattr(config.limits, name)
        values = (own, getattr(DEFAULT_LIMITS, name, None))
        effective = next((one for one in values if one is not None), None)
        limit = {"own": own, "effective": effective}
        yield Fact(PROJECT, "limit", name, limit, at("limits", name), implied=own is None)
    yield Fact(PROJECT, "listens", "", config.server.host, at("server", "host"))
    for position, host in enumerate(config.server.allowed_hosts):
        yield Fact(PROJECT, "answers_to", host, None, at("server", "allowed_hosts", position))
    for position, issuer in enumerate(config.issuers):
        subject = f"issuer {issuer.issuer!r}"
        yield Fact(subject, "issuer", "", None, at("issuers", position, "issuer"))
        yield Fact(subject, "tokens_for", "", issuer.audience, at("issuers", position, "audience"))
        yield Fact(subject, "tokens_role", "", issuer.role, at("issuers", position, "role"))
        keys = f"{issuer.jwks_file} ({key_digests.get(issuer.jwks_file, 'missing')})"
        yield Fact(subject, "keys", "", keys, at("issuers", position, "jwks_file"))
    for position, line in enumerate(config.signers):
        yield _signer_fact(line, config.signers[:position], at("signers", position))
    if config.secret_command:
        command = command_line(config.secret_command)
        yield Fact(PROJECT, "secret_command", "", command, at("secret_command"))
    for position, name in enumerate(config.workspace.ignore):
        yield Fact(PROJECT, "ignored", name, None, at("workspace", "ignore", position))
    size = config.workspace.max_file_mb
    yield Fact(PROJECT, "max_file_mb", "", size, at("workspace", "max_file_mb"))


def _signer_fact(line: str, above: Sequence[str], place: Place) -> Fact:
    signer = AllowedSigner.parse(line)
    same = (AllowedSigner.parse(one) for one in above)
    if any((one.principals, one.key) == (signer.principals, signer.key) for one in same):
        return Fact(PROJECT, "signer", " ".join(line.split()), {}, place)
    kind = (wire_strings(signer.key) or [b""])[0].decode("ascii", "replace")
    item = f"{signer.principals} {kind} {base64.b64encode(signer.key).decode()}"
    # A signer for all namespaces and one for ours alone can sign the same toolsets.
    options = {name: value for name, value in signer.options.items() if name != "namespaces"}
    return Fact(PROJECT, "signer", item, options, place)


def _role_facts(reading: Reading[ProjectConfig], name: str, role: RoleConfig) -> Iterator[Fact]:
    subject = f"role {name!r}"

    def at(*loc: str | int, key: bool = False) -> Place:
        assert reading.document is not None
        return Place(reading.path, *reading.document.locate(("roles", name, *loc), key=key))

    if not (role.admin or role.allow or role.approve):
        return  # such a role permits nothing
    yield Fact(subject, "role", "", None, at(key=True))
    if role.admin:
        yield Fact(subject, "admin", "", None, at("admin"))
        yield Fact(subject, "allow", EVERYTHING, None, at("admin"), implied=True)
        yield Fact(subject, "approve", EVERYTHING, None, at("admin"), implied=True)
    if role.approve_own and (role.admin or role.approve):
        yield Fact(subject, "approve_own", "", None, at("approve_own"))
    if role.register_tools and not role.admin:
        yield Fact(subject, "register", "", None, at("register"))
    for kind in ("allow", "deny", "approve"):
        for position, pattern in enumerate(getattr(role, kind)):
            yield Fact(subject, kind, pattern, None, at(kind, position))
