"""What this project decided about a toolset: ``toolsets/state/<id>.yaml``, written by the machine.

Every collection is a mapping with a telling key, so that two branches which decide different things
merge line by line.  A toolset without the file is one of the project's own tree: on, with nothing
granted and nothing changed.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from covalt_git.hosts import BadHostError, HostRule
from covalt_git.json_values import JsonObject
from covalt_git.models.base import (
    FINGERPRINT,
    AnyToolName,
    Bool,
    Digest,
    EnvName,
    Id,
    StrictModel,
    Text,
    Time,
    ToolName,
    WholeToolId,
)
from covalt_git.models.renderers import RendererType
from covalt_git.text import display


def _check_host(text: str) -> str:
    try:
        HostRule.parse(text)
    except BadHostError as error:
        hint = error.hint or "write api.example.com, *.example.com or localhost:8080"
        raise PydanticCustomError("one_of", "{why}", {"why": error.message, "hint": hint}) from None
    return text


def _check_shown(text: str) -> str:
    if text.strip() and display.is_shown(text):
        return text
    raise PydanticCustomError(
        "one_of", "{text} is no name", {"text": repr(text), "hint": "write ann@example.com"}
    )


GrantedHost = Annotated[str, AfterValidator(_check_host)]
"""A host as :class:`covalt_git.hosts.HostRule` reads it."""


class LocalOverride(StrictModel):
    """What this project changed about one tool; it wins over the toolset's own overrides."""

    name_override: Text | None = Field(None, description="Name shown to people.")
    description_override: str | None = Field(
        None, description="What it does, for people and models."
    )
    renderer: RendererType | None = Field(None, description="What shows the result of a call.")
    renderer_config: JsonObject | None = Field(
        None, description="What the renderer shows; values may be expressions: $args.path."
    )
    requires_confirmation: Bool | None = Field(None, description="Whether a person is asked first.")
    enabled: Bool | None = Field(None, description="Whether the tool is on.")


class _Grant(StrictModel):
    digest: Digest = Field(description="Digest of exactly what was granted.")
    granted_at: Time = Field(description="When it was granted, in UTC.")
    granted_by: str = Field(description="Who granted it.")


class _GrantForTools(_Grant):
    requests: dict[ToolName, Digest] = Field(
        default_factory=dict,
        description="HTTP tools that keep it while their own requests stay the same, with the digest"
        " of each.",
    )


class NetworkGrant(_GrantForTools):
    """The toolset's tools may reach these hosts."""

    kind: Literal["network"] = Field(description="What is granted: hosts.")
    hosts: tuple[GrantedHost, ...] = Field(description="Hosts that may be reached.")


class SecretGrant(_GrantForTools):
    """The toolset may use a secret, towards these hosts."""

    kind: Literal["secret"] = Field(description="What is granted: a secret.")
    name: EnvName = Field(description="Name of the secret.")
    hosts: tuple[GrantedHost, ...] = Field((), description="Hosts that it may be sent to.")


class ProcessGrant(_Grant):
    """An MCP server may be started with exactly this command."""

    kind: Literal["process"] = Field(description="What is granted: a program.")
    server: Id = Field(description="Id of the MCP server.")
    argv: tuple[str, ...] = Field(description="The program and its arguments, exactly.")
    cwd: str | None = Field(None, description="Folder that it starts in.")
    env: tuple[EnvName, ...] = Field((), description="Names of the variables it gets.")
    files: dict[str, Digest] = Field(
        default_factory=dict,
        description="Files of the toolset that belong to it, and what they hold.",
    )


class ServerGrant(_Grant):
    """An MCP server at this address may be used."""

    kind: Literal["server"] = Field(description="What is granted: an MCP server.")
    server: Id = Field(description="Id of the MCP server.")
    url: str = Field(description="Its address.")
    transport: Literal["sse", "streamable-http"] = Field(
        "streamable-http", description="How it is spoken to."
    )
    headers: tuple[str, ...] = Field((), description="Names of the headers sent.")


class UnsandboxedGrant(_Grant):
    """The toolset's tools may run without a sandbox that holds."""

    kind: Literal["unsandboxed"] = Field(description="What is granted: no sandbox.")


Grant = Annotated[
    NetworkGrant | SecretGrant | ProcessGrant | ServerGrant | UnsandboxedGrant,
    Field(discriminator="kind"),
]


class Signer(StrictModel):
    """Who signed a bundle: a key, and under which name ``signers`` of ``covalt.yaml`` has it."""

    fingerprint: Annotated[str, StringConstraints(pattern=FINGERPRINT)] = Field(
        description="The key, as ssh-keygen -l shows it."
    )
    principal: Annotated[str, AfterValidator(_check_shown)] = Field(
        description="Whose key it is, as signers said."
    )

    def __str__(self) -> str:
        """Return both in one line."""
        return f"{self.principal} {self.fingerprint}"


class ToolsetState(StrictModel):
    """All that ``toolsets/state/<id>.yaml`` says."""

    source_type: Literal["zip", "local", "url"] | None = Field(
        None, description="How it was imported; absent for the project's own toolsets."
    )
    source_ref: str | None = Field(None, description="The path or address it came from.")
    version: str | None = Field(None, description="The version that was imported.")
    installed_at: Time | None = Field(None, description="When it was imported, in UTC.")
    digest: Digest | None = Field(None, description="Digest of the toolset as imported.")
    signer: Signer | None = Field(None, description="Who signed the bundle that was imported.")
    enabled: Bool | None = Field(None, description="Whether the toolset is on.")
    overrides: dict[AnyToolName, LocalOverride] = Field(
        default_factory=dict,
        description="What is changed about its tools, by their names, and of its servers' tools by their ids.",
    )
    grants: dict[str, Grant] = Field(default_factory=dict, description="What it may reach and use.")
    accepted: dict[WholeToolId, Digest] = Field(
        default_factory=dict,
        description="Definitions of its servers' tools that were accepted, by the tools' ids.",
    )
    aliases: dict[Id, Id] = Field(
        default_factory=dict, description="Namespaces and what they are called here."
    )

    @property
    def imported(self) -> bool:
        """Whether somebody else wrote the toolset: it starts disabled and needs a sandbox."""
        return self.source_type is not None
