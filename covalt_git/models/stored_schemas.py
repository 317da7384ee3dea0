"""Model of ``toolset.schemas.yaml``: the schemas of Python tools as they ran, beside the toolset's manifest.

``tool describe --write`` makes the file.  It is a file of the toolset, so the toolset's digest covers it.
"""

from pydantic import Field

from covalt_git.json_values import JsonObject
from covalt_git.models.base import Digest, One, StrictModel, ToolName


class StoredSchema(StrictModel):
    """The schemas of one tool that the manifest does not declare."""

    sources_digest: Digest = Field(
        description="Digest of the source texts that the schemas were made from."
    )
    input_schema: JsonObject | None = None
    unsaid: list[str] | None = Field(
        default=None,
        description="The parameters of which calls check more than input_schema says, such as by a validator.",
    )
    output_schema: JsonObject | None = None


class StoredSchemas(StrictModel):
    """The schemas of a toolset's tools, by their ids in the manifest."""

    version: One
    tools: dict[ToolName, StoredSchema] = Field(default_factory=dict)
