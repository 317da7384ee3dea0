"""Operations on overrides: this project's changes of single tools, which take precedence over toolsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, StrictBool

from covalt_git.json_values import JsonObject
from covalt_git.models.tool_properties import Caller
from covalt_git.operations.context import Context
from covalt_git.operations.grants import Reason
from covalt_git.operations.registry import ToolRequest, operation
from covalt_git.toolsets import overrides
from covalt_git.toolsets.overrides import ToolOverridden, ToolOverrides

if TYPE_CHECKING:
    from collections.abc import Collection

_WAIVING = "the approval of a tool's calls is waived"

Overridable = Literal[
    "name_override",
    "description_override",
    "renderer",
    "renderer_config",
    "requires_confirmation",
    "enabled",
    "callers",
]


class OverrideTool(ToolRequest):
    """Changes of a tool; null changes nothing, and fields in ``clear`` are removed."""

    name_override: str | None = Field(None, max_length=10_000)
    description_override: str | None = Field(None, max_length=100_000)
    renderer: str | None = Field(None, max_length=200, description="Such as code or html.")
    renderer_config: JsonObject | None = None
    requires_confirmation: StrictBool | None = None
    enabled: StrictBool | None = None
    callers: tuple[Caller, ...] | None = Field(
        None, min_length=1, max_length=2, description="Who can call it."
    )
    clear: tuple[Overridable, ...] = Field(
        (), max_length=100, description="The overrides of this project to remove."
    )
    reason: Reason = None


class EnableTool(ToolRequest):
    """Request: a tool, and whether to enable it."""

    enabled: StrictBool


@operation(errors=(404,))
def get_overrides(context: Context, request: ToolRequest) -> ToolOverrides:
    """Return the overrides of a tool by its toolset and by this project."""
    if not context.is_admin:
        # A hidden tool does not exist for the role, so it has no overrides either.
        context.catalog.find(request.tool_id)
    return overrides.overrides(context.project.root, request.tool_id)


def _decision(context: Context, request: OverrideTool) -> str:
    """Return what a user decides by a change, if it waives an approval or removes the one of this project."""
    own = overrides.overrides(context.project.root, request.tool_id).project
    changes = request.model_dump(include={"requires_confirmation"})
    # By what the change does: clearing an override that a tool does not have waives nothing
    # (test_to_clear_an_override_that_a_tool_does_not_have_trusts_nothing).
    return _WAIVING if overrides.waives_approval(own, changes, request.clear) else ""


@operation(changes=True, errors=(404,), admin="change tools", decides=_decision)
def override_tool(context: Context, request: OverrideTool) -> ToolOverridden:
    """Change a tool's name, description, renderer or approval, or enable it, for this project.

    The values must also be valid in ``tool_overrides`` of a ``toolset.yaml``.  A new renderer removes the configuration of
    the previous renderer.  Only the toolset's state file is written.
    """
    values = request.model_dump(exclude={"tool_id", "clear", "reason"}, exclude_none=True)
    return _overridden(context, request.tool_id, values, request.clear, request.reason)


@operation(changes=True, errors=(404,), admin="change tools")
def enable_tool(context: Context, request: EnableTool) -> ToolOverridden:
    """Enable or disable a tool in this project; in a disabled toolset it cannot be called even if enabled."""
    return _overridden(context, request.tool_id, {"enabled": request.enabled}, ())


def _overridden(
    context: Context,
    tool_id: str,
    values: JsonObject,
    clear: Collection[str],
    reason: str | None = None,
) -> ToolOverridden:
    root = context.project.root
    result = overrides.override_tool(root, tool_id, values, clear, reason=reason)
    context.update_toolset_index()
    return result
