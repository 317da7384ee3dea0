"""Model of ``toolsets/state/<id>.yaml``: the project's decisions about a toolset.

covalt-git writes the file.  Collections are mappings with descriptive keys, so that git can merge the
decisions of two branches.  A toolset without this file is enabled, and has no grants and no overrides.
"""

import posixpath
import shlex
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from covalt_git.hosts import BadHostError, HostRule
from covalt_git.json_values import JsonObject
from covalt_git.models.base import (
    FINGERPRINT,
    AnyToolName,
    Bool,
    Digest,
    EnvName,
    FullToolId,
    Id,
    SecretName,
    StrictModel,
    Text,
    Time,
    ToolName,
    refusal,
)
from covalt_git.models.renderers import RendererType
from covalt_git.models.tool_properties import Caller
from covalt_git.text import display


def _check_host(text: str) -> str:
    try:
        HostRule.parse(text)
    except BadHostError as error:
        hint = error.hint or "write api.example.com, *.example.com or localhost:8080"
        raise refusal(error.message, hint) from None
    return text


def _check_shown(text: str) -> str:
    if text.strip() and display.is_shown(text):
        return text
    raise refusal(f"{text!r} is not a name", "write ann@example.com")


GrantedHost = Annotated[str, AfterValidator(_check_host)]
"""A host in the format of :class:`covalt_git.hosts.HostRule`."""


class LocalOverride(StrictModel):
    """The project's override of a tool; it takes precedence over overrides of the toolset."""

    name_override: Text | None = Field(None, description="Display name.")
    description_override: str | None = Field(
        None, description="What the tool does, for users and models."
    )
    renderer: RendererType | None = Field(None, description="Renderer of the results.")
    renderer_config: JsonObject | None = Field(
        None, description="Configuration of the renderer; values can be expressions: $args.path."
    )
    requires_confirmation: Bool | None = Field(None, description="Whether calls require approval.")
    enabled: Bool | None = Field(None, description="Whether the tool is enabled.")
    callers: tuple[Caller, ...] | None = Field(
        None, min_length=1, description="Who can call it: direct, script, or both."
    )


class _Grant(StrictModel):
    digest: Digest = Field(description="Digest of what was granted.")
    granted_at: Time = Field(description="When it was granted, in UTC.")
    granted_by: str = Field(description="Who granted it.")


class _GrantForTools(_Grant):
    # The digest of a toolset changes with each edit of a file; without this, an edit of an unrelated Python file ended
    # the grants of all HTTP tools.
    requests: dict[AnyToolName, Digest] = Field(
        default_factory=dict,
        description="HTTP tools whose grant lasts while their requests do not change, and the digests"
        " of these.",
    )


class NetworkGrant(_GrantForTools):
    """Permission of the toolset's tools to connect to hosts."""

    kind: Literal["network"] = Field(description="Kind of grant: hosts.")
    hosts: tuple[GrantedHost, ...] = Field(description="Hosts that the tools can connect to.")


class SecretGrant(_GrantForTools):
    """Permission of the toolset to use a secret, and to send it to hosts."""

    kind: Literal["secret"] = Field(description="Kind of grant: a secret.")
    name: SecretName = Field(
        description="Name of the secret, or auth:ID for an entry of the toolset's auth."
    )
    hosts: tuple[GrantedHost, ...] = Field((), description="Hosts that it can be sent to.")


def _check_folder(text: str) -> str:
    path = text.removesuffix(WRITABLE)
    # Without `..`, a path that begins with another one is in that folder.
    if path == WORKSPACE or (path.startswith(("/", "~/")) and posixpath.normpath(path) == path):
        return text
    raise refusal(
        f"{text!r} is not an absolute folder", "write /srv/data, ~/notes:rw or $workspace"
    )


WRITABLE = ":rw"
"""End of a granted folder that may be written."""

WORKSPACE = "$workspace"
"""The granted folder that is the workspace of the chat, which is always writable."""

GrantedFolder = Annotated[str, AfterValidator(_check_folder)]
"""An absolute folder, or one in the home of the user; with ``:rw`` it is writable."""


class ProgramSandbox(StrictModel):
    """What the program of an MCP server may use besides its own files, in the sandbox."""

    folders: tuple[GrantedFolder, ...] = Field((), description="Folders; `:rw` ends writable ones.")
    hosts: tuple[GrantedHost, ...] = Field((), description="Hosts that it can connect to.")
    secrets: tuple[EnvName, ...] = Field(
        (), description="Secrets that it receives as variables, besides those of its declaration."
    )

    @property
    def uses(self) -> tuple[str, ...]:
        """Phrases for each folder, host and secret of the self."""
        return (
            *(
                f"the folder {display.in_line(shlex.quote(folder.removesuffix(WRITABLE)))}"
                + (" (writable)" if folder.endswith(WRITABLE) else "")
                for folder in self.folders
            ),
            *(f"the host {host}" for host in self.hosts),
            *(f"the secret {name}" for name in self.secrets),
        )


class ProcessGrant(_Grant):
    """Permission to start an MCP server with exactly this command."""

    kind: Literal["process"] = Field(description="Kind of grant: a program.")
    server: Id = Field(description="Id of the MCP server.")
    argv: tuple[str, ...] = Field(description="Program and arguments.")
    cwd: str | None = Field(None, description="Working directory.")
    env: tuple[EnvName, ...] = Field((), description="Names of its environment variables.")
    files: dict[str, Digest] = Field(
        default_factory=dict,
        description="Files of the toolset that the program can load, and their digests.",
    )
    sandbox: ProgramSandbox | Literal["none"] | None = Field(
        None,
        description="What it may use in the sandbox; `none` runs it without a sandbox. Grants of earlier versions have"
        " no such key, and mean `none`.",
    )

    @property
    def confinement(self) -> ProgramSandbox | None:
        """What the program may use in the sandbox; None if it runs without a sandbox."""
        return self.sandbox if isinstance(self.sandbox, ProgramSandbox) else None

    @property
    def shown_key(self) -> str:
        """Its key in the words of ``grant add``, which names what is granted and not how it works."""
        return f"{'server' if self.confinement is not None else 'unsandboxed'}-{self.server}"

    @property
    def uses(self) -> tuple[str, ...]:
        """Phrases for each folder, host and secret of the sandbox."""
        return () if self.confinement is None else self.confinement.uses


class ServerGrant(_Grant):
    """Permission to use the MCP server at a URL."""

    kind: Literal["server"] = Field(description="Kind of grant: an MCP server.")
    server: Id = Field(description="Id of the MCP server.")
    url: str = Field(description="URL of the MCP server.")
    transport: Literal["sse", "streamable-http"] = Field(
        "streamable-http", description="MCP transport."
    )
    headers: tuple[str, ...] = Field((), description="Names of the request headers.")


class ToolGrant(_Grant):
    """Permission to call a registered tool: to send its request, or to forward its calls."""

    kind: Literal["tool"] = Field(description="Kind of grant: a registered tool.")
    tool: ToolName = Field(description="Name of the tool.")
    hosts: tuple[GrantedHost, ...] = Field((), description="Host of its request.")
    secrets: tuple[EnvName, ...] = Field((), description="Secrets that it sends to this host.")
    alias_of: FullToolId | None = Field(None, description="Tool to which it forwards its calls.")


class UnsandboxedGrant(_Grant):
    """Permission of the toolset's tools to run without an effective sandbox."""

    kind: Literal["unsandboxed"] = Field(description="Kind of grant: no sandbox.")


Grant = Annotated[
    NetworkGrant | SecretGrant | ProcessGrant | ServerGrant | ToolGrant | UnsandboxedGrant,
    Field(discriminator="kind"),
]


class Signer(StrictModel):
    """The signer of a bundle: the key, and its name in ``signers`` of ``covalt.yaml``."""

    fingerprint: Annotated[str, StringConstraints(pattern=FINGERPRINT)] = Field(
        description="Fingerprint of the key, as ssh-keygen -l prints it."
    )
    principal: Annotated[str, AfterValidator(_check_shown)] = Field(
        description="Name of the key's owner in signers."
    )

    def __str__(self) -> str:
        """Return the name and the fingerprint."""
        return f"{self.principal} {self.fingerprint}"


def grant_key(kind: str, name: str | None) -> str:
    """Return the key of a grant in a state file; those of hosts and of running unsandboxed have no name."""
    return f"{kind}-{name}" if name else kind


def key_of_grant(grant: Grant) -> str:
    """Return the key that a grant must have in a state file."""
    names = (getattr(grant, field, None) for field in ("name", "server", "tool"))
    return grant_key(grant.kind, next(filter(None, names), None))


class ToolsetState(StrictModel):
    """The content of ``toolsets/state/<id>.yaml``."""

    source_type: Literal["zip", "local", "url"] | None = Field(
        None, description="Kind of the imported source; absent for the project's own toolsets."
    )
    source_ref: str | None = Field(None, description="Path or URL that it was imported from.")
    version: str | None = Field(None, description="Imported version.")
    installed_at: Time | None = Field(None, description="When it was imported, in UTC.")
    digest: Digest | None = Field(None, description="Digest of the imported toolset.")
    signer: Signer | None = Field(None, description="Signer of the imported bundle.")
    signer_reason: str | None = Field(
        None, description="Why a script accepted this signer, or none, in place of the earlier one."
    )
    enabled: Bool | None = Field(None, description="Whether the toolset is enabled.")
    overrides: dict[AnyToolName, LocalOverride] = Field(
        default_factory=dict,
        description="Overrides of its tools by name, and of its MCP servers' tools by id.",
    )
    grants: dict[str, Grant] = Field(
        default_factory=dict, description="Permissions of the toolset."
    )
    accepted: dict[FullToolId, Digest] = Field(
        default_factory=dict,
        description="Digests of the accepted definitions of its MCP servers' tools, by tool id.",
    )
    named_first: tuple[FullToolId, ...] = Field(
        (),
        description="Accepted tools that keep their name for MCP hosts, although a later tool would have the same.",
    )
    aliases: dict[Id, Id] = Field(
        default_factory=dict,
        description="Namespaces of its servers and sources, and their names in this project.",
    )

    @field_validator("grants")
    @classmethod
    def _have_their_own_keys(cls, grants: dict[str, Grant]) -> dict[str, Grant]:
        """Refuse a grant with the key of another.

        Decisions find a grant by its key, and calls by what it is for: with another key, a decision about one secret or
        server would extend, or revoke, the grant of another.
        """
        for key, grant in grants.items():
            if key != (own_key := key_of_grant(grant)):
                raise refusal(
                    f"{key!r} is not the key of this grant", f"write {own_key!r}", at=(key,)
                )
        return grants

    @property
    def declared_by_alias(self) -> dict[str, str]:
        """The ids of servers and sources in the manifest by their aliases, which name their tools in this project."""
        return {alias: declared for declared, alias in self.aliases.items() if alias != declared}

    @property
    def imported(self) -> bool:
        """Whether it was imported: it is disabled by default, and needs a sandbox."""
        return self.source_type is not None
