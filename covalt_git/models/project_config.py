"""What ``covalt.yaml`` says: who may do what, how workspaces are kept, and the limits of calls."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.errors import nearest_name
from covalt_git.models.allowed_signers import AllowedSigner, BadSignerLineError
from covalt_git.models.base import Bool, Id, Int, One, Pattern, StrictModel, Text
from covalt_git.models.tool_properties import Annotations, Limits

DEFAULT_IGNORE = ("__pycache__/", "node_modules/", ".venv/")
DEFAULT_TIMEOUT_S, DEFAULT_ANSWER_S, DEFAULT_OUTPUT_MB = 60, 300, 16
DEFAULT_WRITTEN_MB, DEFAULT_WORKSPACE_MB, DEFAULT_FILES = 1024, 4096, 200_000
DEFAULT_LIMITS = Limits(
    timeout_s=DEFAULT_TIMEOUT_S,
    answer_s=DEFAULT_ANSWER_S,
    output_mb=DEFAULT_OUTPUT_MB,
    written_mb=DEFAULT_WRITTEN_MB,
    workspace_mb=DEFAULT_WORKSPACE_MB,
    files=DEFAULT_FILES,
)
"""What a call may take where neither the tool nor ``covalt.yaml`` says."""


def _check_signer(line: str) -> str:
    try:
        AllowedSigner.parse(line)
    except BadSignerLineError as error:
        raise PydanticCustomError(
            "bad_signer", "{why}", {"why": error.why, "hint": error.hint}
        ) from None
    return line


SignerLine = Annotated[str, AfterValidator(_check_signer)]
"""A line of OpenSSH's allowed-signers format."""


def _check_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    why = hint = ""
    if not argv:
        return argv
    if not argv[0] or "{name}" in argv[0] or ("/" in argv[0] and not argv[0].startswith("/")):
        why = "the program has to be one on PATH, or a whole path"
        hint = "write [pass, show, '{name}']"
    elif not any("{name}" in part for part in argv[1:]):
        why = "no argument holds {name}, so that every secret would have one value"
        hint = "add '{name}' where the secret's name belongs"
    elif any("\0" in part for part in argv):
        why, hint = "no argument of a program may hold a NUL", "remove it"
    if why:
        raise PydanticCustomError("one_of", "{why}", {"why": why, "hint": hint})
    return argv


class RoleConfig(StrictModel):
    """What the holders of a role may call and approve; ``deny`` wins over ``allow``."""

    name: str = Field("", description="Name shown to people.")
    allow: tuple[Pattern, ...] = Field((), description="Patterns of tools it may call.")
    deny: tuple[Pattern, ...] = Field((), description="Patterns of tools it may not call.")
    approve: tuple[Pattern, ...] = Field((), description="Patterns of calls it may approve.")
    admin: Bool = Field(default=False, description="May call and approve everything.")


class ApprovalCondition(StrictModel):
    """When an approval rule applies; every part that is given must hold."""

    annotations: Annotations | None = Field(None, description="Annotations the tool must have.")
    args: dict[str, Any] = Field(
        default_factory=dict,
        description="Argument paths and their values; * in a text stands for any characters. "
        "Each text is compared as it is written and as its normal path.",
    )


class ApprovalRule(StrictModel):
    """Whether a person is asked before matching calls; the first rule that applies decides.

    A text argument is compared as it is written and as its normal path.  With ``require: true`` either
    one is enough for the rule to apply, with ``require: false`` both have to match.
    """

    pattern: Pattern = Field(description="Pattern of the tools it is about.")
    when: ApprovalCondition = Field(
        ApprovalCondition(), description="Which of their calls it is about."
    )
    require: Bool = Field(default=True, description="Whether a person is asked.")


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
    """The most that calls may take, whatever their tools say, and how long an approval waits.

    A tool may say less.  Where neither sets a limit, a call has 60 s, 16 MiB of output, files of up to
    1,024 MiB, and a workspace of up to 4,096 MiB and 200,000 files.
    """

    approval_expires_s: Annotated[Int, Field(ge=1)] = Field(
        86_400, description="How long a call waits for its approval, in seconds."
    )


def limits_in_force(tool: Limits, project: Limits) -> Limits:
    """Return what a call may take: the smaller of what its tool and the project say, else the default."""
    found = {}
    for name in Limits.model_fields:
        said = [value for one in (tool, project) if (value := getattr(one, name)) is not None]
        found[name] = min(said, default=getattr(DEFAULT_LIMITS, name))
    return Limits(**found)


class ServerConfig(StrictModel):
    """Where the server listens."""

    host: str = Field("127.0.0.1", description="Address it listens on.")
    port: Annotated[Int, Field(ge=0, le=65535)] = Field(
        8787, description="Port it listens on; 0 takes a free one."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Host names it answers to, besides its own."
    )


class Issuer(StrictModel):
    """Somebody whose tokens are accepted."""

    issuer: str = Field(description="Who issues the tokens, as they name it.")
    jwks_file: str = Field(description="Their public keys, a file of the project.")
    audience: str = Field(description="Whom the tokens are for.")
    role: Id | None = Field(None, description="Role of the tokens' holders.")


class ProjectConfig(StrictModel):
    """All that ``covalt.yaml`` says."""

    version: One = Field(description="Version of this format.")
    default_role: Id | None = Field(None, description="Role of the person at this machine.")
    roles: dict[Id, RoleConfig] = Field(
        default_factory=dict, description="Who may call and approve what, by the role's id."
    )
    approvals: tuple[ApprovalRule, ...] = Field(
        (), description="Which calls wait for a person; the first rule that applies decides."
    )
    workspace: WorkspaceConfig = Field(
        WorkspaceConfig(), description="How chat workspaces are kept."
    )
    limits: LimitsConfig = Field(
        LimitsConfig(),
        description="The most that calls may take; a tool may say less, and never more.",
    )
    server: ServerConfig = Field(ServerConfig(), description="Where the server listens.")
    issuers: tuple[Issuer, ...] = Field((), description="Whose tokens are accepted.")
    signers: tuple[SignerLine, ...] = Field(
        (), description="Lines of OpenSSH's allowed-signers format."
    )
    secret_command: Annotated[tuple[str, ...], AfterValidator(_check_command)] = Field(
        (), description="Command that prints a secret, {name} standing for its name."
    )

    @model_validator(mode="after")
    def _default_role_exists(self) -> Self:
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
