"""A tool as it is in force here: its declaration, its source and every override, merged.

Everything that lists, decides about or calls a tool reads this one model; nothing reads overrides
again.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from covalt_git import canonical_json
from covalt_git.models.base import Bool, JsonObject, StrictModel
from covalt_git.models.renderers import Renderer
from covalt_git.models.toolset_manifest import Annotations, Example, HttpRequest, Limits, Security
from covalt_git.names import ToolId

ConfirmationSource = Literal["toolset", "decorator", "override", "project"]


class Tool(StrictModel):
    """One tool in force.

    ``input_schema`` is the manifest's where it has one, else what reading the source without
    running it could tell; ``schema_is_declared`` tells which.  ``confirmation`` names everyone who
    asks that a person confirms the call; ``confirmation_is_settled`` that this project decided it
    itself, in either direction.
    """

    tool_id: str
    toolset_id: str
    name: str
    description: str = ""
    kind: Literal["python", "http"] = "python"
    entrypoint: str | None = None
    http: HttpRequest | None = None
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
    toolset_digest: str = Field("", description="Digest of all the toolset's files.")

    @property
    def id(self) -> ToolId:
        """The tool's id, parsed."""
        return ToolId.parse(self.tool_id)

    @property
    def path(self) -> str:
        """The id as agents and patterns see it."""
        return self.id.path

    @property
    def requires_confirmation(self) -> bool:
        """Whether a person is asked, as far as the toolset and this project's state say."""
        return bool(self.confirmation)

    @property
    def definition_digest(self) -> str:
        """Digest of the definition and of the code behind it: what an approval is bound to."""
        return canonical_json.digest(self.model_dump(mode="json", by_alias=True))
