"""What ``covalt.yaml`` says: who may do what, how workspaces are kept, and the limits of calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.errors import nearest_name
from covalt_git.models.base import Bool, Id, Int, One, Pattern, StrictModel, Text
from covalt_git.models.toolset_manifest import Annotations, Limits

DEFAULT_IGNORE = ("__pycache__/", "node_modules/", ".venv/")
DEFAULT_LIMITS = Limits(timeout_s=60, output_mb=16)
"""What a call may take where neither the tool nor ``covalt.yaml`` says."""


class RoleConfig(StrictModel):
    """What the holders of a role may call and approve; ``deny`` wins over ``allow``."""

    name: str = ""
    allow: tuple[Pattern, ...] = Field((), description="Patterns of tools it may call.")
    deny: tuple[Pattern, ...] = Field((), description="Patterns of tools it may not call.")
    approve: tuple[Pattern, ...] = Field((), description="Patterns of calls it may approve.")
    admin: Bool = Field(default=False, description="May call and approve everything.")


class ApprovalCondition(StrictModel):
    """When an approval rule applies; every part that is given must hold."""

    annotations: Annotations | None = Field(None, description="Annotations the tool must have.")
    args: dict[str, Any] = Field(
        default_factory=dict,
        description="Argument paths and their values; * in a text stands for any characters.",
    )


class ApprovalRule(StrictModel):
    """Whether a person is asked before matching calls; the first rule that applies decides."""

    pattern: Pattern
    when: ApprovalCondition = ApprovalCondition()
    require: Bool = True


class WorkspaceConfig(StrictModel):
    """How chat workspaces are kept."""

    ignore: tuple[Text, ...] = Field(
        DEFAULT_IGNORE, description="Names never stored; a trailing / means folders only."
    )
    max_file_mb: Annotated[Int, Field(ge=1, le=2048)] = Field(
        100, description="Largest file stored, in units of 1,048,576 bytes."
    )
    durability: Literal["full", "fast"] = Field(
        "full", description="full: on disk before an operation is acknowledged."
    )
    object_format: Literal["sha1", "sha256"] = Field(
        "sha1", description="Git's hash in new chat stores."
    )


class LimitsConfig(Limits):
    """What calls may take where the tool itself does not say, and how long an approval waits."""

    approval_expires_s: Annotated[Int, Field(ge=1)] = Field(
        86_400, description="How long a call waits for its approval, in seconds."
    )


class ServerConfig(StrictModel):
    """Where the server listens."""

    host: str = "127.0.0.1"
    port: Annotated[Int, Field(ge=0, le=65535)] = 8787
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names it answers to, besides its own."
    )


class Issuer(StrictModel):
    """Somebody whose tokens are accepted."""

    issuer: str
    jwks_file: str = Field(description="Their public keys, a file of the project.")
    audience: str
    role: Id | None = Field(None, description="Role of the tokens' holders.")


class ProjectConfig(StrictModel):
    """All that ``covalt.yaml`` says."""

    version: One = Field(description="Version of this format.")
    default_role: Id | None = Field(None, description="Role of the person at this machine.")
    roles: dict[Id, RoleConfig] = Field(default_factory=dict)
    approvals: tuple[ApprovalRule, ...] = ()
    workspace: WorkspaceConfig = WorkspaceConfig()
    limits: LimitsConfig = LimitsConfig()
    server: ServerConfig = ServerConfig()
    issuers: tuple[Issuer, ...] = ()
    signers: tuple[str, ...] = Field((), description="Lines of OpenSSH's allowed-signers format.")
    secret_command: tuple[str, ...] = Field(
        (), description="Command that prints a secret, {name} standing for its name."
    )

    @model_validator(mode="after")
    def _default_role_exists(self) -> ProjectConfig:
        if self.default_role is None or self.default_role in self.roles:
            return self
        near = nearest_name(self.default_role, self.roles)
        raise PydanticCustomError(
            "unknown_role",
            "there is no role {role}",
            {
                "role": repr(self.default_role),
                "hint": f"write {near}" if near else "add it under roles",
                "at": ("default_role",),
            },
        )
