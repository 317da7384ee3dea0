"""A tool as it is in force here: its declaration, its source and every override, merged.

Everything that lists, decides about or calls a tool reads this one model; nothing reads overrides
again.
"""

from typing import Literal

from pydantic import Field

from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.models.base import Bool, StrictModel
from covalt_git.models.renderers import Renderer
from covalt_git.models.tool_properties import Annotations, Example, HttpRequest, Limits, Security
from covalt_git.names import ToolId

ConfirmationSource = Literal["toolset", "decorator", "override", "project"]

HeldBack = Literal["new", "changed", "schema"]
"""Why a server's tool is off whatever anybody says: nobody accepted its definition, or not this one, or
its schema is none that arguments could be checked against."""

WHY_HELD_BACK: dict[HeldBack, str] = {
    "new": "nobody accepted its definition",
    "changed": "its definition has changed since it was accepted",
    "schema": "its input schema cannot be used",
}

ICON_TYPES = {
    ".png": "image/png",
    ".webp": "image/webp",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
"""The media types of pictures that may be icons, by the endings of their names."""

ICON_OF_TOOLSET = "toolset:"
"""How the ``src`` of an icon begins that is a file of the tool's toolset."""


class Tool(StrictModel):
    """One tool in force.

    ``input_schema`` is the manifest's where it has one, else what reading the source without
    running it could tell; ``schema_is_declared`` tells which.  ``confirmation`` names everyone who
    asks that a person confirms the call; ``confirmation_is_settled`` that this project decided it
    itself, in either direction.  ``icons`` are as MCP has them; the ``src`` of one that is a file of the
    toolset is ``toolset:<path>``.

    A tool of an MCP server (kind ``mcp``) is called ``upstream`` at ``server``, which is the id of the
    server in the manifest of ``toolset_id``; the namespace of its own id may be another one.
    """

    tool_id: str
    toolset_id: str
    name: str
    description: str = ""
    kind: Literal["python", "http", "mcp"] = "python"
    entrypoint: str | None = None
    http: HttpRequest | None = None
    server: str | None = None
    upstream: str | None = None
    input_schema: JsonObject
    schema_is_declared: Bool = False
    output_schema: JsonObject | None = None
    annotations: Annotations = Annotations()
    limits: Limits = Limits()
    examples: tuple[Example, ...] = ()
    tags: tuple[str, ...] = ()
    security: Security | None = None
    renderer: Renderer | None = None
    confirmation: tuple[ConfirmationSource, ...] = ()
    confirmation_is_settled: Bool = False
    enabled: Bool = True
    held_back: HeldBack | None = None
    meta: JsonObject = Field(default_factory=dict, description="What its definition has as _meta.")
    icons: tuple[JsonObject, ...] = ()
    toolset_digest: str = Field(
        "", description="Digest of all the toolset's files; or of the server and its definition."
    )

    @property
    def id(self) -> ToolId:
        """The tool's id, parsed."""
        return ToolId.parse(self.tool_id)

    @property
    def path(self) -> str:
        """The id as agents and patterns see it."""
        return self.id.path

    @property
    def name_in_state(self) -> str:
        """What its toolset's state file calls it: its name there, its whole id where it is a server's."""
        return self.tool_id if self.kind == "mcp" else self.id.name

    @property
    def requires_confirmation(self) -> bool:
        """Whether a person is asked, as far as the toolset and this project's state say."""
        return bool(self.confirmation)

    @property
    def request_digest(self) -> str:
        """Digest of what calls of an HTTP tool send: its request, and the schema of its arguments."""
        http = self.http.model_dump(mode="json", by_alias=True) if self.http else None
        return canonical_json.digest({"http": http, "input_schema": self.input_schema})

    @property
    def definition_digest(self) -> str:
        """Digest of the definition and of the code behind it: what an approval is bound to."""
        return canonical_json.digest(self.model_dump(mode="json", by_alias=True))
