"""The effective tool: its declaration, its source and all overrides, merged.

Code that lists, checks or calls tools uses this model, and does not read overrides again.
"""

from typing import Literal

from pydantic import Field

from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.models.base import Bool, StrictModel
from covalt_git.models.held_back import HeldBack
from covalt_git.models.renderers import Renderer
from covalt_git.models.tool_properties import (
    EVERY_CALLER,
    UNREAD_SCHEMA,
    Annotations,
    Caller,
    Example,
    HttpRequest,
    Limits,
    Security,
    TaskSupport,
)
from covalt_git.names import ToolId

ToolKind = Literal["python", "http", "mcp", "builtin", "alias"]
"""How a tool runs; an alias forwards its calls to another tool."""

ConfirmationSource = Literal[
    "toolset", "server_default", "decorator", "override", "project", "destructive"
]
"""What requires approval; ``server_default`` is the default for tools of MCP servers, which no file states."""

ICON_TYPES = {
    ".png": "image/png",
    ".webp": "image/webp",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
"""The media types of icons, by file name extension."""

ICON_OF_TOOLSET = "toolset:"
"""Prefix of the ``src`` of an icon that is a file of the tool's toolset."""


class Tool(StrictModel):
    """An effective tool.

    ``input_schema`` comes from the manifest (``schema_is_declared``) or from the Python source, which is
    parsed without running it.  ``confirmation`` lists everything that requires approval of calls;
    ``confirmation_is_settled`` means that the project decides whether calls need approval.  ``icons`` are in
    MCP's form; the ``src`` of a file of the toolset is ``toolset:<path>``.

    A tool of an MCP server (kind ``mcp``) has the name ``upstream`` on ``server``, which is the id of the
    server in the manifest of ``toolset_id``.  The namespace of ``tool_id`` can differ from it.

    A tool of an operation of a document (kind ``http``) has the operation's name ``upstream``, and ``source`` is the
    id of the source in the manifest.

    A registered tool (toolset ``registered``) is an HTTP tool, or an alias of the tool ``alias_of``.  An alias of
    no tool cannot be called.
    """

    tool_id: str
    toolset_id: str
    name: str
    description: str = ""
    kind: ToolKind = "python"
    entrypoint: str | None = None
    http: HttpRequest | None = None
    server: str | None = None
    source: str | None = Field(
        None, description="Its source in the manifest, if it is of a document."
    )
    fields: tuple[str, ...] = Field((), description="The parts of its answers that callers get.")
    upstream: str | None = None
    alias_of: str | None = None
    version: str = Field("", description="Its version, or that of its toolset.")
    input_schema: JsonObject
    schema_is_declared: Bool = False
    function_schema: JsonObject | None = Field(
        None, description="The schema of its Python function, if the manifest declares another one."
    )
    output_schema: JsonObject | None = None
    annotations: Annotations = Annotations()
    # The author of an imported toolset can write read_only at a tool that deletes; a rule that waives approval by
    # annotations must not apply to it.
    annotations_are_own: Bool = Field(
        default=False,
        description="Whether the project itself states the annotations: it made the toolset, or the tool is built in.",
    )
    limits: Limits = Limits()
    examples: tuple[Example, ...] = ()
    free_examples: tuple[JsonObject, ...] = Field(
        (), description="Examples in another form than calls."
    )
    extensions: JsonObject = Field(default_factory=dict, description="Data of other systems.")
    tags: tuple[str, ...] = ()
    security: Security | None = None
    renderer: Renderer | None = None
    callers: tuple[Caller, ...] = Field(EVERY_CALLER, description="Who can call it.")
    task_support: TaskSupport = Field(
        "optional", description="Whether an MCP client has to hold its calls as tasks."
    )
    confirmation: tuple[ConfirmationSource, ...] = ()
    confirmation_is_settled: Bool = False
    enabled: Bool = True
    held_back: HeldBack | None = None
    meta: JsonObject = Field(default_factory=dict, description="The _meta of its definition.")
    icons: tuple[JsonObject, ...] = ()
    toolset_digest: str = Field(
        "",
        description="Digest of the toolset's files, or of the server and the definition, or of the entry of"
        " a registered tool.",
    )

    @property
    def id(self) -> ToolId:
        """The tool's id, parsed."""
        return ToolId.parse(self.tool_id)

    @property
    def path(self) -> str:
        """The id in the form of role patterns and MCP tool names."""
        return self.id.path

    @property
    def name_in_state(self) -> str:
        """Its key in the toolset's state file: its name, or for a tool of a lock its full id."""
        return self.tool_id if self.is_locked else self.id.name

    @property
    def is_locked(self) -> bool:
        """Whether its definition is in a lock: that of an MCP server, or of a document."""
        return self.kind == "mcp" or self.source is not None

    @property
    def arguments_are_unread(self) -> bool:
        """Whether nothing is known about its arguments: its function's signature was not read, and none is declared."""
        return not self.schema_is_declared and UNREAD_SCHEMA in (self.function_schema or {})

    @property
    def requires_confirmation(self) -> bool:
        """Whether calls require approval, according to the toolset and its state file."""
        return bool(self.confirmation)

    @property
    def request_digest(self) -> str:
        """Digest of the request of an HTTP tool and the schema of its arguments, which decide what calls send."""
        http = self.http.model_dump(mode="json", by_alias=True) if self.http else None
        return canonical_json.digest({"http": http, "input_schema": self.input_schema})

    @property
    def definition_digest(self) -> str:
        """Digest of the definition and the code, for approvals."""
        # The excluded fields change no call, or the toolset's digest covers them.  Approvals of older versions
        # stay valid without them.
        carried = {"version", "free_examples", "extensions", "alias_of", "annotations_are_own"}
        carried |= {"function_schema", "source", "fields", "callers", "task_support"}
        return canonical_json.digest(self.model_dump(mode="json", by_alias=True, exclude=carried))
