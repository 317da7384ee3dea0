"""The toolset manifest: what ``toolset.yaml`` says, version 1.

The keys are those of the specification's sections 3.2 and 10 and of the toolsets in use, with the
optional ones that DESIGN section 3 adds.  Whether the files it names exist, and whether its
schemas and expressions hold, is for :mod:`covalt_git.checks` to check.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from covalt_git.json_values import JsonObject
from covalt_git.models.base import (
    ADDRESS,
    Bool,
    Entrypoint,
    EnvName,
    Id,
    Int,
    Number,
    StrictModel,
    Text,
    ToolName,
    WorkspacePath,
)
from covalt_git.models.prompts import Prompt, Resource
from covalt_git.models.renderers import RendererType


class Defaults(StrictModel):
    """What holds for every tool of the toolset that does not say otherwise."""

    enabled: Bool = Field(default=True, description="Whether the tools are on.")
    requires_confirmation: Bool = Field(
        default=False, description="Whether a person is asked first."
    )


class PythonEnvironment(StrictModel):
    """What the toolset's Python needs."""

    dependencies: tuple[str, ...] = Field((), description="Requirements, as pip reads them.")


class Annotations(StrictModel):
    """What a tool does to the world, in MCP's terms; they inform, and never lower, a decision."""

    read_only: Bool | None = Field(None, description="Changes nothing.")
    destructive: Bool | None = Field(None, description="May destroy or overwrite something.")
    idempotent: Bool | None = Field(None, description="A second equal call changes nothing more.")
    open_world: Bool | None = Field(None, description="Reaches things outside the workspace.")


class Limits(StrictModel):
    """The most that one call may take."""

    timeout_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="Wall time, in seconds."
    )
    answer_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="How long what it asks waits for an answer, in seconds, beside timeout_s."
    )
    cpu_s: Annotated[Number, Field(gt=0, le=86_400)] | None = Field(
        None, description="Processor time, in seconds."
    )
    memory_mb: Annotated[Int, Field(ge=16)] | None = Field(
        None, description="Memory, in units of 1,048,576 bytes."
    )
    processes: Annotated[Int, Field(ge=1)] | None = Field(None, description="Processes at once.")
    output_mb: Annotated[Int, Field(ge=1, le=1024)] | None = Field(
        None, description="Printed text and result, each, in units of 1,048,576 bytes."
    )
    written_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None, description="Size of any file written, in units of 1,048,576 bytes; 1,024 by default."
    )
    files: Annotated[Int, Field(ge=1)] | None = Field(
        None,
        description="Files in the workspace, once a call has written to it; 200,000 by default.",
    )
    workspace_mb: Annotated[Int, Field(ge=1)] | None = Field(
        None,
        description="Size of the workspace then, in units of 1,048,576 bytes; 4,096 by default.",
    )

    @property
    def file_mb(self) -> int | None:
        """The most that one file may hold, in units of 1,048,576 bytes."""
        said = (self.written_mb, self.workspace_mb)
        return min((one for one in said if one is not None), default=None)


class Example(StrictModel):
    """A call that shows how the tool is used; with ``expected`` it is a test as well."""

    description: str = Field("", description="What the call shows.")
    files: dict[WorkspacePath, str] = Field(
        default_factory=dict, description="Text files that the workspace holds before the call."
    )
    args: JsonObject = Field(default_factory=dict, description="Arguments of the call.")
    expected: Any = Field(None, description="What the call returns.")


class Security(StrictModel):
    """What a caller's token must carry (the tool registry's terms)."""

    resource_uri: str | None = Field(None, description="RFC 8707 resource; the token's audience.")
    required_capabilities: tuple[str, ...] = Field((), description="Capabilities of the token.")
    max_blast_radius: str | None = Field(None, description="Largest scope, as namespace:analytics.")
    requires_execution: Bool = Field(
        default=False, description="Whether a token binds one execution."
    )
    allowed_operations: tuple[str, ...] = Field(
        (), description="Values of exec_act; none: no call."
    )
    allowed_targets: tuple[str, ...] = Field((), description="Target URIs; none: no call.")
    protocols: tuple[Literal["mcp", "http", "a2a/2025-draft-01"], ...] = Field(
        ("mcp",), description="Protocols that the tool may be called over."
    )


class LegacyRenderer(StrictModel):
    """``tools[].renderer``: the type and its configuration in one mapping (see tool_overrides)."""

    model_config = ConfigDict(extra="allow")

    type: RendererType = Field(description="Name of the renderer.")

    @property
    def config(self) -> JsonObject:
        """The keys beside ``type``."""
        return dict(self.model_extra or {})


class HttpParameter(StrictModel):
    """Where one argument of an HTTP tool goes, and how a list or an object of it is written there.

    ``repeat`` writes a list as ``a=1&a=2``, ``comma`` as ``a=1,2``, a comma within an item as ``%2C``;
    ``deep`` writes an object as ``a[b]=1``, and ``json`` either as JSON.  Without a style a list is repeated in the query and in forms and
    joined by commas elsewhere, and an object is JSON.
    """

    location: Literal["path", "query", "header", "cookie", "body"] = Field(
        alias="in", description="Where the argument goes."
    )
    name: str | None = Field(None, description="Its name there, when it differs.")
    style: Literal["repeat", "comma", "deep", "json"] | None = Field(
        None, description="How lists and objects are written."
    )
    file: Bool = Field(
        default=False,
        description="Whether it is the path of a workspace file, whose bytes are sent.",
    )


class HttpBody(StrictModel):
    """A body written out, with ``$args.name`` for arguments: of one kind.

    ``file``, and each value of ``multipart`` that begins with ``$workspace/``, names a file of the
    workspace, whose bytes are sent.
    """

    json_value: Any = Field(None, alias="json", description="A JSON value.")
    form: JsonObject | None = Field(None, description="Fields of a form.")
    multipart: JsonObject | None = Field(None, description="Fields and files of a form.")
    text: str | None = Field(None, description="Plain text.")
    file: str | None = Field(None, description="A file: $workspace/$args.path.")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = (self.json_value, self.form, self.multipart, self.text, self.file)
        if sum(kind is not None for kind in kinds) == 1:
            return self
        raise PydanticCustomError(
            "one_of",
            "a body has exactly one of 'json', 'form', 'multipart', 'text' and 'file'",
            {"hint": "write {json: {name: $args.name}}, or json for all arguments"},
        )


def _body_kind(value: object) -> str:
    return "written" if isinstance(value, dict | HttpBody) else "kind"


Scalar = str | Int | Number | Bool
"""What stands in a query or among headers and cookies; a text may hold expressions."""


class HttpRequest(StrictModel):
    """The request that an HTTP tool sends.

    ``{name}`` in ``url`` is an argument, encoded; ``{+name}`` one whose ``/`` stay.  The texts of
    ``query``, ``headers``, ``cookies`` and a written ``body`` may hold ``$args.name``; an entry that
    names an argument which was not given is left out.  ``parameters`` says where other arguments go.
    What is left goes to the query for GET, HEAD, DELETE and OPTIONS and beside a written body,
    otherwise into the body.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = Field(
        "GET", description="Method of the request."
    )
    url: str = Field(pattern=ADDRESS, description="Address, with {name} for arguments.")
    query: dict[str, Scalar] = Field(
        default_factory=dict, description="Parameters of the query; texts may hold $args.name."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers; texts may hold $args.name and ${SECRET}."
    )
    cookies: dict[str, Scalar] = Field(
        default_factory=dict, description="Cookies; texts may hold $args.name and ${SECRET}."
    )
    parameters: dict[str, HttpParameter] = Field(
        default_factory=dict, description="Where single arguments go, by their names."
    )
    body: Annotated[
        Annotated[Literal["json", "form", "multipart", "text"], Tag("kind")]
        | Annotated[HttpBody, Tag("written")],
        Discriminator(_body_kind),
    ] = Field("json", description="How arguments stand in the body, or the body written out.")
    retries: Annotated[Int, Field(ge=0, le=5)] = Field(
        2, description="How often a request that may be repeated is tried again."
    )


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


class ToolOverride(StrictModel):
    """What is changed about one tool, of this toolset or of an MCP server it declares."""

    tool_id: str = Field(description="A tool of this toolset, or server:tool.")
    renderer: RendererType | None = Field(None, description="What shows the result of a call.")
    renderer_config: JsonObject | None = Field(
        None, description="What the renderer shows; values may be expressions: $args.path."
    )
    name_override: Text | None = Field(None, description="Name shown to people.")
    description_override: str | None = Field(
        None, description="What it does, for people and models."
    )
    requires_confirmation: Bool | None = Field(None, description="Whether a person is asked first.")
    enabled: Bool | None = Field(None, description="Whether the tool is on.")


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
