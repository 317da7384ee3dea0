"""The toolset manifest: what ``toolset.yaml`` says, version 1.

The keys are those of the specification's sections 3.2 and 10 and of the toolsets in use, with the
optional ones that DESIGN section 3 adds.  Whether the files it names exist, and whether its
schemas and expressions hold, is for :mod:`covalt_git.checks` to check.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.json_values import JsonObject
from covalt_git.models.base import (
    ADDRESS,
    Bool,
    Entrypoint,
    EnvName,
    Id,
    StrictModel,
    Text,
    ToolName,
)
from covalt_git.models.prompts import Prompt, Resource
from covalt_git.models.tool_properties import (
    Annotations,
    Example,
    HttpRequest,
    LegacyRenderer,
    Limits,
    Security,
)
from covalt_git.models.toolset_state import LocalOverride


class Defaults(StrictModel):
    """What holds for every tool of the toolset that does not say otherwise."""

    enabled: Bool = Field(default=True, description="Whether the tools are on.")
    requires_confirmation: Bool = Field(
        default=False, description="Whether a person is asked first."
    )


class PythonEnvironment(StrictModel):
    """What the toolset's Python needs."""

    dependencies: tuple[str, ...] = Field((), description="Requirements, as pip reads them.")


class ToolDeclaration(StrictModel):
    """One tool: a Python function of the toolset, or an HTTP request."""

    id: ToolName = Field(description="Name of the tool within the toolset.")
    name: Text | None = Field(None, description="Name shown to people.")
    description: str | None = Field(None, description="What it does, for people and models.")
    entrypoint: Entrypoint | None = Field(
        None, description="module:function, the module relative to the toolset."
    )
    http: HttpRequest | None = Field(None, description="The request of an HTTP tool.")
    input_schema: JsonObject | None = Field(None, description="JSON Schema of the arguments.")
    output_schema: JsonObject | None = Field(None, description="JSON Schema of the result.")
    annotations: Annotations = Field(Annotations(), description="What it does to the world.")
    limits: Limits = Field(Limits(), description="The most that one call may take.")
    examples: tuple[Example, ...] = Field((), description="Calls that show its use.")
    tags: tuple[Text, ...] = Field((), description="Words that a search finds it by.")
    icon: Text | None = Field(None, description="Its picture, else the toolset's: assets/icon.png.")
    security: Security | None = Field(None, description="What a caller's token must carry.")
    renderer: LegacyRenderer | None = Field(
        None, description="Old place of a renderer; write tool_overrides instead."
    )
    requires_confirmation: Bool | None = Field(None, description="Whether a person is asked first.")
    enabled: Bool | None = Field(None, description="Whether the tool is on.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.entrypoint is None) == (self.http is None):
            hint = (
                "add entrypoint: tools.files:write_file"
                if self.http is None
                else "keep one of them"
            )
            raise PydanticCustomError(
                "one_of", "a tool has either 'entrypoint' or 'http'", {"hint": hint}
            )
        return self


class ToolOverride(LocalOverride):
    """What is changed about one tool, of this toolset or of an MCP server it declares."""

    tool_id: str = Field(description="A tool of this toolset, or server:tool.")


class McpServer(StrictModel):
    """An MCP server that the toolset wants: a command to start, or an address."""

    id: Id = Field(description="Id of the server, and the namespace of its tools.")
    transport: Literal["stdio", "sse", "streamable-http"] | None = Field(
        None, description="stdio for a command, else streamable-http unless it says sse."
    )
    command: str | None = Field(None, description="Program to start.")
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    cwd: str | None = Field(None, description="Folder that the program starts in.")
    env: dict[EnvName, str] = Field(
        default_factory=dict, description="Variables of the program; ${NAME} stands for a secret."
    )
    url: str | None = Field(None, pattern=ADDRESS, description="Address of the server.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers that are sent; ${NAME} stands for a secret."
    )
    requires_confirmation: Bool = Field(
        default=True, description="Whether a person is asked before its tools run."
    )
    enabled: Bool = Field(default=True, description="Whether the server is used.")

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if (self.command is None) == (self.url is None):
            hint = (
                "add command: npx, or url: https://..." if self.url is None else "keep one of them"
            )
            raise PydanticCustomError(
                "one_of", "an MCP server has either 'command' or 'url'", {"hint": hint}
            )
        if (self.transport == "stdio") != (self.command is not None) and self.transport is not None:
            raise PydanticCustomError(
                "one_of",
                "transport {transport} does not go with this server",
                {
                    "transport": repr(self.transport),
                    "hint": "stdio goes with 'command', sse and streamable-http with 'url'",
                    "at": ("transport",),
                },
            )
        if "@" in re.split(r"[/?#]", (self.url or "").partition("://")[2])[0]:
            # It would not be sent, and stand in grants and messages.
            hint = 'write headers: {Authorization: "Bearer ${NAME}"}'
            raise PydanticCustomError(
                "one_of", "the address names a user", {"hint": hint, "at": ("url",)}
            )
        return self

    @property
    def server_type(self) -> str:
        """The transport that is used."""
        return self.transport or ("stdio" if self.command is not None else "streamable-http")


class SourceAuth(StrictModel):
    """How a source's requests prove who asks; every value is a reference, never a credential."""

    use: Id | None = Field(None, description="An entry of the toolset's auth.")
    bearer: str | None = Field(None, description="Reference to a bearer token: ${TOKEN}.")
    header: str | None = Field(None, description="Header that carries 'value'.")
    query: str | None = Field(None, description="Query parameter that carries 'value'.")
    value: str | None = Field(None, description="Reference to what is sent: ${API_KEY}.")


class Source(StrictModel):
    """Another document that gives tools: an OpenAPI or GraphQL description, or a plugin."""

    id: Id = Field(description="Id of the source, and the namespace of its tools.")
    type: Literal["openapi", "graphql", "mcp", "plugin"] = Field(description="Kind of document.")
    spec: str | None = Field(None, description="OpenAPI document, relative to the toolset.")
    schema_file: str | None = Field(
        None, alias="schema", description="GraphQL schema, relative to the toolset."
    )
    endpoint: str | None = Field(None, description="Address that a GraphQL source sends to.")
    base_url: str | None = Field(None, description="Address in place of the document's own.")
    server: Id | None = Field(None, description="MCP server whose tools these are.")
    module: str | None = Field(None, description="Python module of a plugin.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers that are sent; ${NAME} stands for a secret."
    )
    auth: SourceAuth | None = Field(None, description="How its requests prove who asks.")
    include: tuple[str, ...] = Field((), description="Patterns of tools to take; none: all.")
    exclude: tuple[str, ...] = Field((), description="Patterns of tools to leave out.")
    requires_confirmation: Bool | None = Field(None, description="Whether a person is asked first.")
    enabled: Bool = Field(default=True, description="Whether its tools are on.")


class Auth(StrictModel):
    """A way to sign in that the toolset's tools share: ``ctx.auth.get_token("github")``."""

    id: Id = Field(description="Name that tools and sources call it by.")
    type: Literal["oauth2", "bearer", "api_key"] = Field(description="Way to sign in.")
    provider: str | None = Field(None, description="Who signs in: github.")
    scopes: tuple[str, ...] = Field((), description="What the token has to allow.")
    token: str | None = Field(None, description="Reference to a token, as ${GITHUB_TOKEN}.")


def _version_one(value: object) -> object:
    return "1" if type(value) is int and value == 1 else value


class ToolsetManifest(StrictModel):
    """All that ``toolset.yaml`` says."""

    manifest_version: Annotated[Literal["1"], BeforeValidator(_version_one)] = Field(
        "1", description="Version of this format."
    )
    id: Id = Field(description="Id of the toolset, the name of its folder.")
    name: Text = Field(description="Name shown to people.")
    version: Text = Field(description="Version of the toolset, a string.")
    description: str = Field("", description="What the toolset is for.")
    icon: Text | None = Field(
        None, description="Picture of tools without their own: assets/icon.png."
    )
    defaults: Defaults = Field(
        Defaults(), description="What holds for tools that do not say otherwise."
    )
    python: PythonEnvironment = Field(PythonEnvironment(), description="What its Python needs.")
    secrets: tuple[EnvName, ...] = Field((), description="The only secrets it may ask for.")
    tools: tuple[ToolDeclaration, ...] = Field((), description="The tools of the toolset.")
    tool_overrides: tuple[ToolOverride, ...] = Field(
        (), description="How single tools are shown, named or asked about."
    )
    prompts: tuple[Prompt, ...] = Field((), description="Messages that a person may choose.")
    resources: tuple[Resource, ...] = Field((), description="What it gives to be read.")
    mcp_servers: tuple[McpServer, ...] = Field((), description="MCP servers that it wants.")
    sources: tuple[Source, ...] = Field((), description="Documents that give tools.")
    auth: tuple[Auth, ...] = Field((), description="Ways to sign in that its tools share.")
    extensions: JsonObject = Field(
        default_factory=dict, description="Other systems' keys, carried along untouched."
    )
