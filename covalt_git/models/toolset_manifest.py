"""Model of the toolset manifest ``toolset.yaml``, version 1.

The keys are those of the specification (sections 3.2 and 10), and some that existing toolsets use.
:mod:`covalt_git.checks` checks files, schemas and expressions that the manifest refers to.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from covalt_git.json_values import JsonObject
from covalt_git.models.auth_entries import Auth, with_secrets
from covalt_git.models.base import (
    HTTP_URL,
    Bool,
    Entrypoint,
    EnvName,
    Id,
    StrictModel,
    Text,
    ToolName,
    check_exactly_one,
    refusal,
)
from covalt_git.models.prompts import Prompt, Resource
from covalt_git.models.tool_properties import (
    EVERY_CALLER,
    Annotations,
    AnyExample,
    Caller,
    HttpRequest,
    LegacyRenderer,
    Limits,
    Security,
    TaskSupport,
)
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.templating.references import references


class Defaults(StrictModel):
    """Default values of the toolset's tools."""

    enabled: Bool = Field(default=True, description="Whether the tools are enabled.")
    requires_confirmation: Bool = Field(
        default=False, description="Whether calls require approval."
    )


class PythonEnvironment(StrictModel):
    """The Python packages that the toolset needs."""

    dependencies: tuple[str, ...] = Field((), description="Requirements, in the format of pip.")


class ToolDeclaration(StrictModel):
    """One tool: a Python function of the toolset, or an HTTP request."""

    id: ToolName = Field(description="Name of the tool within the toolset.")
    name: Text | None = Field(None, description="Display name.")
    description: str | None = Field(None, description="What the tool does, for users and models.")
    entrypoint: Entrypoint | None = Field(
        None,
        description="module:function, with the module relative to the toolset or to its tools/.",
    )
    http: HttpRequest | None = Field(None, description="The request of an HTTP tool.")
    input_schema: JsonObject | None = Field(None, description="JSON Schema of the arguments.")
    output_schema: JsonObject | None = Field(None, description="JSON Schema of the result.")
    annotations: Annotations = Field(Annotations(), description="Hints about its effects.")
    limits: Limits = Field(Limits(), description="Limits of one call.")
    callers: tuple[Caller, ...] = Field(
        EVERY_CALLER,
        min_length=1,
        description="Who can call it: direct (users and agents), script (scripts of agents).",
    )
    task_support: TaskSupport = Field(
        "optional",
        description="required: its calls take too long to wait for, so MCP clients without tasks cannot make them.",
    )
    version: Text | None = Field(
        None, description="Version of the tool; default: the toolset's version."
    )
    examples: tuple[AnyExample, ...] = Field(
        (), description="Calls that show its use, or objects in another form."
    )
    tags: tuple[Text, ...] = Field((), description="Keywords for the search.")
    icon: Text | None = Field(
        None, description="Image file; default: the toolset's icon: assets/icon.png."
    )
    security: Security | None = Field(None, description="Requirements on the caller's token.")
    renderer: LegacyRenderer | None = Field(
        None, description="Deprecated place of a renderer; use tool_overrides."
    )
    requires_confirmation: Bool | None = Field(None, description="Whether calls require approval.")
    enabled: Bool | None = Field(None, description="Whether the tool is enabled.")
    extensions: JsonObject = Field(
        default_factory=dict, description="Keys of other systems, which covalt-git ignores."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        message = "a tool has either 'entrypoint' or 'http'"
        hint = "add entrypoint: tools.files:write_file"
        check_exactly_one(self.entrypoint, self.http, message, hint)
        return self


class ToolOverride(LocalOverride):
    """An override of a tool of this toolset or of its MCP servers."""

    tool_id: str = Field(description="A tool of this toolset, or server:tool.")


class McpServer(StrictModel):
    """An MCP server of the toolset: a command to start, or a URL."""

    id: Id = Field(description="Id of the server, and the namespace of its tools.")
    transport: Literal["stdio", "sse", "streamable-http"] | None = Field(
        None, description="Transport; default: stdio for a command, streamable-http for a URL."
    )
    command: str | None = Field(None, description="Program to start.")
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    cwd: str | None = Field(None, description="Working directory of the program.")
    env: dict[EnvName, str] = Field(
        default_factory=dict,
        description="Environment variables; ${NAME} is replaced by a secret.",
    )
    url: str | None = Field(None, pattern=HTTP_URL, description="URL of the server.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Request headers; ${NAME} is replaced by a secret."
    )
    requires_confirmation: Bool = Field(
        default=True, description="Whether calls of its tools require approval."
    )
    enabled: Bool = Field(default=True, description="Whether the server is enabled.")

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        message = "an MCP server has either 'command' or 'url'"
        check_exactly_one(self.command, self.url, message, "add command: npx, or url: https://...")
        if (self.transport == "stdio") != (self.command is not None) and self.transport is not None:
            message = f"transport {self.transport!r} does not match this server"
            hint = "use stdio with 'command', sse or streamable-http with 'url'"
            raise refusal(message, hint, at=("transport",))
        # What the server does not get has no meaning, and the question whether to trust it would show it.
        for key in ("headers",) if self.command is not None else ("args", "cwd", "env"):
            if getattr(self, key):
                kind = "command" if self.url is None else "url"
                hint = "remove it: 'args', 'cwd' and 'env' are for a command, 'headers' for a URL"
                raise refusal(f"a server with {kind!r} does not get {key!r}", hint, at=(key,))
        for key in ("command", "args", "cwd", "env", "url"):
            value = getattr(self, key)
            if any(reference.place == "auth" for _, reference in references(value)):
                # A program could send the token anywhere, and a URL is in logs.
                hint = 'write headers: {Authorization: "Bearer ${auth:ID}"} for a URL'
                raise refusal(f"a sign-in is not sent in {key!r}", hint, at=(key,))
        if "@" in re.split(r"[/?#]", (self.url or "").partition("://")[2])[0]:
            # The password would not be sent, but it would be in grants and messages.
            hint = 'write headers: {Authorization: "Bearer ${NAME}"}'
            raise refusal("a URL must not contain a user name", hint, at=("url",))
        return self

    @property
    def lock_kind(self) -> str:
        """The kind of its lock."""
        return "mcp"

    @property
    def server_type(self) -> str:
        """The effective transport."""
        return self.transport or ("stdio" if self.command is not None else "streamable-http")


class SourceAuth(StrictModel):
    """Authentication of a source's requests; all values are references, never credentials."""

    use: Id | None = Field(None, description="An entry of the toolset's auth.")
    bearer: str | None = Field(None, description="Reference to a bearer token: ${TOKEN}.")
    header: str | None = Field(None, description="Header that carries 'value'.")
    query: str | None = Field(None, description="Query parameter that carries 'value'.")
    value: str | None = Field(None, description="Reference to the value: ${API_KEY}.")


def _no_plugin(value: object) -> object:
    if value == "plugin":
        raise refusal(
            "a plugin is no source",
            "a plugin is a toolset with 'auth': covalt-git toolset new my-service --template plugin",
        )
    return value


class Source(StrictModel):
    """A document that defines tools: an OpenAPI or GraphQL description."""

    id: Id = Field(description="Id of the source, and the namespace of its tools.")
    type: Annotated[Literal["openapi", "graphql", "mcp"], BeforeValidator(_no_plugin)] = Field(
        description="Kind of document."
    )
    spec: str | None = Field(None, description="OpenAPI document, relative to the toolset.")
    schema_file: str | None = Field(
        None, alias="schema", description="GraphQL schema, relative to the toolset."
    )
    url: str | None = Field(
        None,
        pattern=HTTP_URL,
        description="URL that the document was fetched from, from which relative servers begin.",
    )
    endpoint: str | None = Field(None, description="URL of a GraphQL API.")
    base_url: str | None = Field(None, description="URL that replaces that of the document.")
    server: Id | None = Field(None, description="MCP server that has these tools.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Request headers; ${NAME} is replaced by a secret."
    )
    auth: SourceAuth | None = Field(None, description="Authentication of its requests.")
    include: tuple[str, ...] = Field((), description="Patterns of tools to include; empty: all.")
    exclude: tuple[str, ...] = Field((), description="Patterns of tools to leave out.")
    fields: dict[ToolName, tuple[str, ...]] = Field(
        default_factory=dict,
        description="The parts of the answers of tools that callers get: items[].id.",
    )
    requires_confirmation: Bool | None = Field(None, description="Whether calls require approval.")
    enabled: Bool = Field(default=True, description="Whether its tools are enabled.")

    @property
    def is_document(self) -> bool:
        """Whether its tools come from a document in the toolset."""
        return self.type in {"openapi", "graphql"}

    @property
    def lock_kind(self) -> str:
        """The kind of its lock."""
        return self.type

    @property
    def document(self) -> str | None:
        """The path of its document in the toolset."""
        return self.spec if self.type == "openapi" else self.schema_file


def _version_one(value: object) -> object:
    # YAML reads 1 without quotes as an integer; true equals 1 in Python.
    return "1" if type(value) is int and value == 1 else value


class ToolsetManifest(StrictModel):
    """The content of ``toolset.yaml``."""

    manifest_version: Annotated[Literal["1"], BeforeValidator(_version_one)] = Field(
        "1", description="Version of this format."
    )
    id: Id = Field(description="Id of the toolset, which is the name of its folder.")
    name: Text = Field(description="Display name.")
    version: Text = Field(description="Version of the toolset, a string.")
    description: str = Field("", description="What the toolset is for.")
    icon: Text | None = Field(
        None, description="Image file for tools without an icon: assets/icon.png."
    )
    defaults: Defaults = Field(Defaults(), description="Default values of the tools.")
    python: PythonEnvironment = Field(
        PythonEnvironment(), description="Python packages that the toolset needs."
    )
    secrets: tuple[EnvName, ...] = Field(
        (), description="Names of all secrets that the toolset can use."
    )
    tools: tuple[ToolDeclaration, ...] = Field((), description="The tools of the toolset.")
    tool_overrides: tuple[ToolOverride, ...] = Field(
        (), description="Overrides of tools: names, renderers, approvals."
    )
    prompts: tuple[Prompt, ...] = Field((), description="Prompts, as in MCP.")
    resources: tuple[Resource, ...] = Field((), description="Resources, as in MCP.")
    mcp_servers: tuple[McpServer, ...] = Field((), description="MCP servers with more tools.")
    sources: tuple[Source, ...] = Field((), description="Documents that define more tools.")
    auth: tuple[Auth, ...] = Field((), description="Sign-ins and credentials that its tools share.")
    extensions: JsonObject = Field(
        default_factory=dict, description="Keys of other systems, which covalt-git ignores."
    )

    @model_validator(mode="before")
    @classmethod
    def _with_secrets_of_auth(cls, data: Any) -> Any:
        """Replace references to entries of ``auth`` that are secrets, so that grants and digests are about the secrets."""
        return with_secrets(data)

    @property
    def tool_sources(self) -> tuple[McpServer | Source, ...]:
        """The MCP servers and the documents whose tools are in locks."""
        return (*self.mcp_servers, *(source for source in self.sources if source.is_document))
