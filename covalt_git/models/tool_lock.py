"""The tools that an MCP server or a source gave when it was last asked: ``toolsets/locks/<ns>.yaml``.

Written by the machine and checked in, so that listing works offline and a change is a diff.  It
holds no time: asking again and getting the same answer leaves the file as it was.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from covalt_git.models.base import Digest, Id, JsonObject, One, StrictModel, ToolName
from covalt_git.models.toolset_manifest import Annotations


class LockedTool(StrictModel):
    """One tool's definition as it was given."""

    upstream: str = Field(description="Its name there, which may not be a legal one here.")
    digest: Digest = Field(description="Digest of the whole definition.")
    title: str | None = None
    description: str = ""
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: Annotations = Annotations()
    meta: JsonObject = Field(default_factory=dict, description="The definition's _meta.")
    request: JsonObject = Field(default_factory=dict, description="How a source's tool is called.")


class ToolLock(StrictModel):
    """All that a lock file says."""

    version: One = 1
    namespace: Id
    toolset_id: Id
    kind: Literal["mcp", "openapi", "graphql", "plugin"]
    reference: str = Field("", description="Command, address or file that was asked.")
    digest: Digest | None = Field(None, description="Digest of the document that was read.")
    tools: dict[ToolName, LockedTool] = Field(default_factory=dict)
