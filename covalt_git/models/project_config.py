"""Model of ``covalt.yaml``: roles, rules, workspaces, limits, server, signers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.errors import nearest_name
from covalt_git.hosts import BadHostError, is_loopback, origin_of
from covalt_git.models.allowed_signers import AllowedSigner, BadSignerLineError
from covalt_git.models.base import (
    ISSUER,
    KEYS_URL,
    Bool,
    Id,
    Int,
    Number,
    One,
    Pattern,
    StrictModel,
    Text,
    check_command,
    check_exactly_one,
    refusal,
)
from covalt_git.models.project_source import ProjectSource
from covalt_git.models.rules import ApprovalRule, PolicyRule
from covalt_git.models.storage_config import GitStorage, StorageConfig
from covalt_git.models.tool_properties import Limits
from covalt_git.names import matches

DEFAULT_IGNORE = ("__pycache__/", "node_modules/", ".venv/")
DEFAULT_TIMEOUT_S, DEFAULT_ANSWER_S, DEFAULT_OUTPUT_MB = 60, 300, 16
# A call without limits that filled the disk left a chat that no later command could save.
DEFAULT_WRITTEN_MB, DEFAULT_WORKSPACE_MB, DEFAULT_FILES = 1024, 4096, 200_000
DEFAULT_LIMITS = Limits(
    timeout_s=DEFAULT_TIMEOUT_S,
    answer_s=DEFAULT_ANSWER_S,
    output_mb=DEFAULT_OUTPUT_MB,
    written_mb=DEFAULT_WRITTEN_MB,
    workspace_mb=DEFAULT_WORKSPACE_MB,
    files=DEFAULT_FILES,
)
"""The limits of a call if neither the tool nor ``covalt.yaml`` sets them."""


def _check_signer(line: str) -> str:
    try:
        AllowedSigner.parse(line)
    except BadSignerLineError as error:
        raise refusal(error.reason, error.hint, "bad_signer") from None
    return line


SignerLine = Annotated[str, AfterValidator(_check_signer)]
"""A line of OpenSSH's allowed-signers format."""


def _check_secret_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    return check_command(
        argv,
        "{name}",
        example="[pass, show, '{name}']",
        otherwise="all secrets would have the same value",
        belongs="the secret's name",
    )


class RoleConfig(StrictModel):
    """The tools that a role can call, and the calls that it can approve; ``deny`` wins over ``allow``."""

    name: str = Field("", description="Display name.")
    allow: tuple[Pattern, ...] = Field((), description="Patterns of tools that it can call.")
    deny: tuple[Pattern, ...] = Field((), description="Patterns of tools that it cannot call.")
    approve: tuple[Pattern, ...] = Field((), description="Patterns of calls that it can approve.")
    approve_own: Bool = Field(
        default=False,
        description="Whether it can approve its own calls over MCP; the model itself can then approve.",
    )
    register_tools: Bool = Field(
        default=False,
        alias="register",
        description="Whether it can register, replace and remove registered tools that it can call.",
    )
    chats: Literal["manage"] | None = Field(
        None,
        description="manage: it can delete, rename and import chats, edit messages, push, and export chats whose"
        " tools it cannot see. Admins can too.",
    )
    admin: Bool = Field(default=False, description="Whether it can call and approve everything.")


def _check_key_file(path: str) -> str:
    # A relative path would lead into the project, which can be someone else's clone.
    if not path.startswith(("/", "~/")) or "\0" in path:
        raise refusal(
            "the key must be outside of the project", "write /PATH or ~/PATH of a private key"
        )
    return path


class AuditConfig(StrictModel):
    """How it can be shown afterwards who did what."""

    sign_key: Annotated[str, AfterValidator(_check_key_file)] | None = Field(
        None,
        description="Private SSH key (Ed25519, without a passphrase) that signs the commits of chats: an absolute"
        " path, or one that begins with ~/, outside of the project.",
    )


class CommitKey(NamedTuple):
    """The file of the key that signs the commits of a project's chats, and whether the user has trusted that."""

    root: Path
    file: str
    is_trusted: bool


class WorkspaceConfig(StrictModel):
    """How the workspaces of chats are stored."""

    ignore: tuple[Text, ...] = Field(
        DEFAULT_IGNORE,
        description="File names that commits leave out; a name that ends with / matches folders only.",
    )
    max_file_mb: Annotated[Int, Field(ge=1, le=2048)] = Field(
        100, description="Size of the largest file that commits contain, in MiB."
    )
    max_store_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None,
        description="Size of a chat's store, in MiB, from which tools that may write are refused.",
    )
    durability: Literal["full", "fast"] = Field(
        "full", description="full: fsync before an operation ends. fast: no fsync."
    )
    object_format: Literal["sha1", "sha256"] = Field(
        "sha1", description="Git object format of new chats."
    )

    # Here, because whatever opens a chat has this configuration: recovery commits too, in any command.  Private, so that
    # no key of covalt.yaml sets it.
    _commit_key: CommitKey | None = PrivateAttr(None)
    _git_storage: GitStorage | None = PrivateAttr(None)

    @property
    def git_storage(self) -> GitStorage | None:
        """The git server that has the chats; None if they are in ``data/chats`` only."""
        return self._git_storage

    def with_git_storage(self, storage: GitStorage | None) -> Self:
        """Return the same configuration with this storage."""
        config = self.model_copy()
        config._git_storage = storage  # noqa: SLF001 - of a new object
        return config

    @property
    def commit_key(self) -> CommitKey | None:
        """The key that signs commits; None if they are not signed."""
        return self._commit_key

    def with_commit_key(self, key: CommitKey | None) -> Self:
        """Return the same configuration with this key."""
        config = self.model_copy()
        config._commit_key = key  # noqa: SLF001 - of a new object
        return config


class ScriptLimitsConfig(StrictModel):
    """Upper limits of one script; mb are MiB, kb are KiB."""

    time_s: Annotated[Number, Field(gt=0, le=3600)] = Field(
        30, description="Time that the script itself runs, without its calls, in seconds."
    )
    memory_mb: Annotated[Int, Field(ge=16, le=4096)] = Field(
        64, description="Memory of its values, in MiB."
    )
    # The number of a call has 12 bits in its id.
    calls: Annotated[Int, Field(ge=1, le=4000)] = Field(200, description="Number of its calls.")
    output_kb: Annotated[Int, Field(ge=1, le=10_240)] = Field(
        100, description="Size of its logs and of its value together, in KiB."
    )
    source_kb: Annotated[Int, Field(ge=1, le=10_240)] = Field(
        256, description="Size of its source, in KiB."
    )
    waiting: Annotated[Int, Field(ge=1, le=1000)] = Field(
        20, description="Number of scripts of a chat that have not ended."
    )


class LimitsConfig(Limits):
    """Upper limits of calls, the lifetime of approvals, and the size of results for MCP clients.

    A tool can set lower limits.  The defaults are 60 s, 16 MiB of output, 1,024 MiB a file, and 4,096 MiB
    and 200,000 files in the workspace.
    """

    approval_expires_s: Annotated[Int, Field(ge=1)] = Field(
        86_400, description="Time until a pending approval expires, in seconds."
    )
    result_kb: Annotated[Int, Field(ge=1)] = Field(
        100, description="Largest result that an MCP client gets at once, in KiB."
    )
    task_after_s: Annotated[Number, Field(ge=0, le=3600)] = Field(
        2,
        description="Time after which a call becomes a task of an MCP client that supports tasks, in seconds.",
    )
    script: ScriptLimitsConfig = Field(ScriptLimitsConfig(), description="Upper limits of scripts.")


def effective_limits(tool: Limits, project: Limits) -> Limits:
    """Return the limits of a call: the lower ones of its tool and the project, or the defaults."""
    # The lower one, because the author of a toolset must not raise what the project allows.
    limits = {}
    for name in Limits.model_fields:
        values = [
            value for source in (tool, project) if (value := getattr(source, name)) is not None
        ]
        limits[name] = min(values, default=getattr(DEFAULT_LIMITS, name))
    return Limits(**limits)


class ServerConfig(StrictModel):
    """The address and the host names of the server."""

    host: str = Field("127.0.0.1", description="Address that the server listens on.")
    port: Annotated[Int, Field(ge=0, le=65535)] = Field(
        8787, description="Port that the server listens on; 0: any available port."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Additional host names that requests can use."
    )


class WorkersConfig(StrictModel):
    """Which workers make which calls."""

    tags: dict[Id, tuple[Pattern, ...]] = Field(
        {},
        description="Patterns of the tools whose calls only workers with a tag make; the first tag with a pattern that"
        " matches decides.",
    )

    def tag_of(self, path: str) -> str:
        """Return the tag of the workers that make the calls of a tool; empty for workers without tags."""
        for tag, patterns in self.tags.items():
            if any(matches(pattern, path) for pattern in patterns):
                return tag
        return ""


class ClaimRoles(StrictModel):
    """The roles of a token's holder, by the values of a claim: a text, or a list of texts."""

    claim: Annotated[str, Field(min_length=1)] = Field(description="Name of the claim.")
    map: dict[str, Id] = Field(
        description="Roles by values of the claim; the first value that the claim has decides."
    )


class Issuer(StrictModel):
    """An issuer of access tokens that the server accepts."""

    issuer: Annotated[str, Field(pattern=ISSUER, max_length=500)] = Field(
        description="Value of the tokens' iss claim."
    )
    jwks_file: str | None = Field(
        None, description="JWKS file with the issuer's public keys, in the project."
    )
    jwks_url: Annotated[str, Field(pattern=KEYS_URL)] | None = Field(
        None, description="URL of the JWKS: https, or http on this machine."
    )
    audience: Annotated[str, Field(min_length=1)] = Field(
        description="A value of the tokens' aud claim."
    )
    role: Id | None = Field(None, description="Role of all holders of its tokens.")
    roles: ClaimRoles | None = Field(None, description="Roles by the values of a claim.")

    @property
    def granted_roles(self) -> tuple[str, ...]:
        """The roles that holders of its tokens can have."""
        if self.role is not None:
            return (self.role,)
        return tuple(self.roles.map.values()) if self.roles else ()

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        check_exactly_one(
            self.jwks_file,
            self.jwks_url,
            "an issuer has exactly one of 'jwks_file' and 'jwks_url'",
            "add jwks_file: keys/issuer.json",
        )
        self._check_url()
        check_exactly_one(
            self.role,
            self.roles,
            "an issuer has exactly one of 'role' and 'roles'",
            "add role: ROLE, or roles: {claim: groups, map: {admins: ROLE}}",
        )
        return self

    def _check_url(self) -> None:
        if self.jwks_url is None:
            return
        try:
            origin, _ = origin_of(self.jwks_url)
        except BadHostError as error:
            raise refusal(error.message, error.hint, at=("jwks_url",)) from None
        # A machine that changes the answer on its way could issue tokens.
        if origin.scheme == "http" and not is_loopback(origin.host):
            message = "the keys of an issuer on another machine must come over https"
            raise refusal(message, "write https://...", at=("jwks_url",))


class ProjectConfig(StrictModel):
    """The content of ``covalt.yaml``."""

    version: One = Field(description="Version of this format.")
    default_role: Id | None = Field(None, description="Role of the user of this machine.")
    roles: dict[Id, RoleConfig] = Field(default_factory=dict, description="Roles, by id.")
    approvals: tuple[ApprovalRule, ...] = Field(
        (), description="Earlier form of rules, with require: true for ask and false for allow."
    )
    own_rules: tuple[PolicyRule, ...] = Field(
        (),
        alias="rules",
        description="Which calls are allowed, require approval or are denied; the first rule that applies to a"
        " call decides.",
    )
    workspace: WorkspaceConfig = Field(
        WorkspaceConfig(), description="How the workspaces of chats are stored."
    )
    storage: StorageConfig = Field(StorageConfig(), description="Where the chats are stored.")
    project: ProjectSource | None = Field(
        None,
        description="Git repository that has the project, for a node that follows it; the other keys are then in the"
        " covalt.yaml of the repository.",
    )
    limits: LimitsConfig = Field(
        LimitsConfig(), description="Upper limits of calls; a tool can set lower ones."
    )
    server: ServerConfig = Field(
        ServerConfig(), description="Address and host names of the server."
    )
    workers: WorkersConfig = Field(
        WorkersConfig(), description="Which workers of a queue make which calls."
    )
    issuers: tuple[Issuer, ...] = Field((), description="Issuers of access tokens.")
    audit: AuditConfig = Field(AuditConfig(), description="How it can be shown who did what.")
    signers: tuple[SignerLine, ...] = Field(
        (), description="Lines of OpenSSH's allowed-signers format."
    )
    secret_command: Annotated[tuple[str, ...], AfterValidator(_check_secret_command)] = Field(
        (), description="Command that prints a secret; {name} is replaced by its name."
    )

    # Private, so that a key of covalt.yaml cannot set what the user trusts.
    _limited_roles: dict[str | None, RoleConfig] = PrivateAttr(default_factory=dict)
    _from_approvals: tuple[PolicyRule, ...] = PrivateAttr(())
    _key_digests: dict[str, str] = PrivateAttr(default_factory=dict)
    _trusts_sign_key: bool = PrivateAttr(default=True)
    _trusts_storage: bool = PrivateAttr(default=True)

    @property
    def limited_roles(self) -> Mapping[str | None, RoleConfig]:
        """Roles without the rights to decide that the user of this machine has not trusted.

        They are for decisions of others: of holders of the server's token with a role, and of agents.  Agents without a
        role have the one of None, which is the default role.
        """
        return self._limited_roles

    def with_limited_roles(self, roles: Mapping[str | None, RoleConfig]) -> Self:
        """Return the same configuration with these limited roles."""
        config = self.model_copy()
        config._limited_roles = dict(roles)  # noqa: SLF001 - of a new object
        return config

    def with_rules(self, rules: Iterable[PolicyRule]) -> Self:
        """Return the same configuration with other rules."""
        config = self.model_copy(update={"approvals": (), "own_rules": tuple(rules)})
        config._from_approvals = ()  # noqa: SLF001 - of a new object
        return config

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The rules, also if the file has them in their earlier form."""
        return self.own_rules or self._from_approvals

    def rule_place(self, position: int) -> tuple[str, int]:
        """Return the place in ``covalt.yaml`` of one of the rules."""
        return ("approvals" if self.approvals else "rules"), position

    def rules_for(self, role: str | None) -> tuple[PolicyRule, ...]:
        """Return the rules about the calls of a role; None: of users without a role."""
        return tuple(rule for rule in self.rules if rule.is_for(role))

    def hides_tools_of(self, role: str | None) -> bool:
        """Return whether a rule may hide a tool from a role, whatever the rules before it are."""
        return any(
            rule.effect == "deny" and rule.is_of_all_calls and rule.is_for(role)
            for rule in self.rules
        )

    @property
    def key_digests(self) -> Mapping[str, str]:
        """Digests of the key files of issuers, by their paths; a missing or unreadable file has none."""
        return self._key_digests

    def with_key_digests(self, digests: Mapping[str, str]) -> Self:
        """Return the same configuration with the digests of the key files as they are now."""
        config = self.model_copy()
        config._key_digests = dict(digests)  # noqa: SLF001 - of a new object
        return config

    @property
    def trusts_sign_key(self) -> bool:
        """Whether ``audit.sign_key`` may be used: whether the user of this machine has trusted it."""
        return self._trusts_sign_key

    def without_trust_in_sign_key(self) -> Self:
        """Return the same configuration, whose ``audit.sign_key`` must not be used."""
        config = self.model_copy()
        config._trusts_sign_key = False  # noqa: SLF001 - of a new object
        return config

    @property
    def trusts_storage(self) -> bool:
        """Whether the user of this machine has trusted the git server of ``storage``."""
        return self._trusts_storage

    def without_trust_in_storage(self) -> Self:
        """Return the same configuration, whose ``storage`` must not be used."""
        config = self.model_copy()
        config._trusts_storage = False  # noqa: SLF001 - of a new object
        return config

    @property
    def lines_of_default_role(self) -> str | None:
        """What to add if ``default_role`` is missing: an admin role, because with another one no user could grant.

        None if there are no roles, so that the user of this machine is an admin.
        """
        if self.default_role is not None or not self.roles:
            return None
        admin = min((name for name, role in self.roles.items() if role.admin), default=None)
        if admin is not None:
            return f"default_role: {admin}"
        names = ("owner", *(f"owner-{number}" for number in range(2, len(self.roles) + 2)))
        name = next(name for name in names if name not in self.roles)
        return f"default_role: {name}, and to roles {name}: {{admin: true}}"

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        others = self.model_fields_set - {"version", "project"}
        if self.project is not None and others:
            name = min(type(self).model_fields[field].alias or field for field in others)
            message = f"{name!r} is in the covalt.yaml of the repository that 'project' names"
            raise refusal(message, "remove the key from this file", at=(name,))
        return self

    @model_validator(mode="after")
    def _reads_approvals_as_rules(self) -> Self:
        if not self.approvals:
            return self
        if "own_rules" in self.model_fields_set:
            hint = "move the approvals to rules: require: true is effect: ask, and false is effect: allow"
            raise refusal("approvals and rules are two forms of one list", hint, at=("approvals",))
        self._from_approvals = tuple(rule.as_rule for rule in self.approvals)
        return self

    @model_validator(mode="after")
    def _roles_of_rules_exist(self) -> Self:
        for position, rule in enumerate(self.rules):
            if (
                self.rule_place(0)[0] == "rules"
                and "roles" in rule.model_fields_set
                and not rule.roles
            ):
                message = "a rule about no role is about no call"
                raise refusal(
                    message, "remove the key: then it is about all", at=("rules", position, "roles")
                )
            for number, name in enumerate(rule.roles):
                if name not in self.roles:
                    near = nearest_name(name, self.roles)
                    hint = f"write {near}" if near else "add it under roles"
                    at = ("rules", position, "roles", number)
                    raise refusal(
                        f"there is no role {name!r}, so the rule is about no call", hint, at=at
                    )
        return self

    @model_validator(mode="after")
    def _default_role_exists(self) -> Self:
        if self.default_role is None or self.default_role in self.roles:
            return self
        raise self._no_role(self.default_role, "default_role")

    @model_validator(mode="after")
    def _issuers_are_unique_and_have_roles(self) -> Self:
        for position, issuer in enumerate(self.issuers):
            at = ("issuers", position)
            if issuer.issuer in {other.issuer for other in self.issuers[:position]}:
                message = f"the issuer {issuer.issuer!r} is listed twice"
                raise refusal(message, "remove one of them", "duplicate", (*at, "issuer"))
            for role in issuer.granted_roles:
                # Without any role, there is nothing to compare with; its holders are refused then.
                if self.roles and role not in self.roles:
                    raise self._no_role(role, *at, "roles" if issuer.role is None else "role")
        return self

    def _no_role(self, role: str, *at: str | int) -> PydanticCustomError:
        near = nearest_name(role, self.roles)
        hint = f"write {near}" if near else "add it under roles"
        return refusal(f"there is no role {role!r}", hint, at=at)
