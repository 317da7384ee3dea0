"""Overrides of tools by the project, which take precedence over overrides of the toolset.

They are stored in ``toolsets/state/<id>.yaml``.  Cleared overrides are removed from the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from covalt_git import yaml_text
from covalt_git.errors import CovaltError, Problem, UnknownNameError
from covalt_git.manifests.override_keys import overridden_tool, override_key
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.reading import Reading, check
from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.base import StrictModel
from covalt_git.models.toolset_state import LocalOverride, ToolsetState
from covalt_git.names import BadNameError, ToolId
from covalt_git.toolsets.effective_tools import Overrides
from covalt_git.toolsets.permissions import trust_waiver, withdraw_removed
from covalt_git.toolsets.state_store import changeable, state_file
from covalt_git.toolsets.toolset import FaultyToolsetError, Toolset, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from covalt_git.json_values import JsonObject

FIELDS = tuple(LocalOverride.model_fields)
"""The fields of a tool that can be overridden."""


class BadOverrideError(CovaltError):
    """An override is invalid; the state file was not changed."""

    code = "bad_override"


class ApprovalEndsError(CovaltError):
    """The project requires approval of a tool that a command would remove, and the requirement would end with it."""

    code = "approval_required"
    http_status = 409


class ToolOverrides(StrictModel):
    """Overrides of a tool by its toolset and by this project, which takes precedence; null: not overridden."""

    tool_id: str
    project: LocalOverride
    toolset: LocalOverride


class ToolOverridden(ToolOverrides):
    """Current overrides of a tool by its toolset and by this project, which takes precedence."""

    changed: bool = Field(description="Whether anything has changed.")
    warnings: tuple[Problem, ...] = Field(description="About the new values.")


def check_no_approval_ends(toolset_id: str, ending: Mapping[str, LocalOverride]) -> None:
    """Check that overrides of tools do not require approval before they end with the tools.

    Only a user may decide that a call needs no approval, and the tools could be added again without their overrides.

    Raises:
        ApprovalEndsError: if one requires approval; the hint has the commands that a user can run first.
    """
    tools = [f"{toolset_id}:{name}" for name, own in ending.items() if own.requires_confirmation]
    if tools:
        raise ApprovalEndsError(
            f"this project requires approval of {tools[0]}, which would end with the state of the toolset",
            hint="\n".join(f"covalt-git tool override {tool} --clear confirm" for tool in tools),
        )


def overrides(root: Path, tool_id: str) -> ToolOverrides:
    """Return the overrides of a tool.

    Raises:
        UnknownNameError: if the tool does not exist; the hint has the most similar one.
    """
    toolset, name = _find(root, tool_id)
    own = _own_override(toolset, name)
    return ToolOverrides(tool_id=tool_id, project=_local(toolset, name), toolset=own)


def waives_approval(
    override: LocalOverride, changes: Mapping[str, Any], clear: Collection[str]
) -> bool:
    """Return whether a change of a project's override waives the approval of a tool's calls.

    Only a user may decide that, and it is trusted on this machine.  To clear an override that the tool does not have
    decides nothing: otherwise it would trust what a pull has waived.
    """
    ends = "requires_confirmation" in clear and override.requires_confirmation is True
    return ends or changes.get("requires_confirmation") is False


@locks_toolsets
def override_tool(
    root: Path,
    tool_id: str,
    changes: Mapping[str, Any],
    clear: Collection[str] = (),
    *,
    reason: str | None = None,
) -> ToolOverridden:
    """Override fields of a tool, and remove the project's overrides of the fields in ``clear``.

    A change of ``renderer`` also removes ``renderer_config``.  ``enabled: true`` is not stored if the
    toolset enables the tool.  Only the toolset's state file is written.  A waived approval is trusted on this machine,
    with the ``reason`` that a script stated.

    Raises:
        UnknownNameError: if the tool does not exist; the hint has the most similar one.
        BadOverrideError: with the problems of the new overrides.
        CovaltError: when the state file or the manifest is invalid; nothing is written.
    """
    toolset, name = _find(root, tool_id)
    if changes and toolset.manifest is None:
        raise FaultyToolsetError(toolset.id, toolset.problems)
    changeable(root, toolset.id)
    own = _local(toolset, name)
    old_fields = own.model_dump(mode="json", exclude_none=True)
    new_fields = {field: value for field, value in old_fields.items() if field not in clear}
    if "renderer" in (*clear, *changes):
        new_fields.pop("renderer_config", None)
    new_fields |= changes
    if new_fields.get("enabled") is True and _enabled_by_toolset(toolset, name):
        del new_fields["enabled"]
    warnings: tuple[Problem, ...] = ()
    if new_fields != old_fields:
        reading = _state_with(root, toolset, name, new_fields)
        # The new state is read back from its YAML before it is written, because a state file with an error disables
        # the whole toolset.
        warnings = _refuse_new_errors(root, toolset, reading)
        write_state(state_file(root, toolset.id), reading.valid)
    current = read_toolset(root, toolset.id)
    withdraw_removed(toolset, current)
    tool, config = current.tool(tool_id), config_reading(root).value
    if waives_approval(own, changes, clear) and tool is not None and config is not None:
        trust_waiver(current, config, tool, reason)
    return ToolOverridden(
        tool_id=tool_id,
        project=LocalOverride.model_validate(new_fields),
        toolset=_own_override(toolset, name),
        changed=new_fields != old_fields,
        warnings=warnings,
    )


def _find(root: Path, tool_id: str) -> tuple[Toolset, str]:
    """Return the toolset of a tool, and the tool's name in the state file; also of a removed tool."""
    ids = toolset_ids(root / "toolsets")
    try:
        parsed = ToolId.parse(tool_id)
    except BadNameError:
        parsed = None
    near = [parsed.namespace] if parsed and parsed.namespace in ids else ids
    toolsets = [read_toolset(root, toolset_id) for toolset_id in near]
    tools = {
        override_key(toolset.id, name): (toolset, name)
        for toolset in toolsets
        for name in _names_in_state(toolset)
    }
    if tool_id not in tools:
        raise UnknownNameError("tool", tool_id, tools, list_with="covalt-git tool list")
    return tools[tool_id]


def _names_in_state(toolset: Toolset) -> set[str]:
    declared = toolset.manifest.tools if toolset.manifest else ()
    others = {tool.name_in_state for tool in toolset.server_tools}
    return {tool.id for tool in declared} | others | toolset.state.overrides.keys()


def _own_override(toolset: Toolset, name: str) -> LocalOverride:
    """Return the override of a tool in ``toolset.yaml``."""
    for override in toolset.manifest.tool_overrides if toolset.manifest else ():
        named = overridden_tool(toolset.id, override.tool_id, toolset.state)
        if named == override_key(toolset.id, name):
            return LocalOverride(**override.model_dump(exclude={"tool_id"}, exclude_none=True))
    return LocalOverride()


def _local(toolset: Toolset, name: str) -> LocalOverride:
    return toolset.state.overrides.get(name, LocalOverride())


def _enabled_by_toolset(toolset: Toolset, name: str) -> bool:
    if toolset.manifest is None:
        return False
    declared = next((tool for tool in toolset.manifest.tools if tool.id == name), None)
    if declared is None and all(tool.name_in_state != name for tool in toolset.tools):
        return False
    return Overrides(_own_override(toolset, name)).enabled(toolset.manifest, declared)


def _state_with(
    root: Path, toolset: Toolset, name: str, override: JsonObject
) -> Reading[ToolsetState]:
    """Return the state after adding the override of a tool, read back from the new YAML."""
    facts = toolset.state.model_dump(mode="json", exclude_defaults=True)
    changed = facts.get("overrides", {}) | {name: override}
    facts["overrides"] = {tool: fields for tool, fields in changed.items() if fields}
    display_path = state_file(root, toolset.id).relative_to(root).as_posix()
    try:
        document = yaml_text.load(yaml_text.dump(facts).encode(), display_path)
    except yaml_text.YamlProblems as error:
        return Reading(display_path, None, None, error.problems)
    return check(document, ToolsetState)


def _refuse_new_errors(
    root: Path, toolset: Toolset, reading: Reading[ToolsetState]
) -> tuple[Problem, ...]:
    """Return the new warnings of a state, and raise its new errors; existing problems are ignored."""
    old_problems = {(problem.code, problem.message) for problem in toolset.problems}
    changed = read_toolset(root, toolset.id, state=reading)
    new_problems = [
        replace(problem, line=0, col=0)  # the file does not have these lines yet
        for problem in changed.problems
        if problem.path == reading.path and (problem.code, problem.message) not in old_problems
    ]
    broken = [problem for problem in new_problems if problem.severity == "error"]
    if broken:
        raise BadOverrideError("the override is invalid; nothing was changed", problems=broken)
    return tuple(new_problems)
