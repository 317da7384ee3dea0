"""What this project changes about single tools: its overrides, which win over the toolset's own.

They stand in ``toolsets/state/<id>.yaml``, no more of them than differs: what is cleared leaves no line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git import yaml_text
from covalt_git.errors import CovaltError, Problem, UnknownNameError
from covalt_git.manifests.override_keys import overridden_tool, override_key
from covalt_git.manifests.reading import Reading, check
from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.toolset_manifest import ToolOverride
from covalt_git.models.toolset_state import LocalOverride, ToolsetState
from covalt_git.names import BadNameError, ToolId
from covalt_git.toolsets.effective_tools import enabled_by_toolset
from covalt_git.toolsets.state_store import changeable, state_file
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from covalt_git.json_values import JsonObject

FIELDS = tuple(LocalOverride.model_fields)
"""What may be overridden of a tool."""


class BadOverrideError(CovaltError):
    """A value that a toolset's own override could not have either; nothing was written."""

    code = "bad_override"


class Overrides(NamedTuple):
    """What is overridden of a tool, by the names of :data:`FIELDS`: by its toolset, and by this project.

    What ``project`` says wins.  ``warnings`` are about what was just written.
    """

    tool_id: str
    toolset: JsonObject
    project: JsonObject
    changed: bool = False
    warnings: tuple[Problem, ...] = ()


def overrides(root: Path, tool_id: str) -> Overrides:
    """Return what is overridden of a tool, and by whom.

    Raises:
        UnknownNameError: naming the nearest tool.
    """
    toolset, name = _find(root, tool_id)
    return Overrides(tool_id, _own_override(toolset, name), _local(toolset, name))


@one_at_a_time
def override_tool(
    root: Path, tool_id: str, changes: Mapping[str, Any], clear: Collection[str] = ()
) -> Overrides:
    """Override fields of a tool, and take back what this project said of those in ``clear``.

    Another renderer comes without the configuration of the one before, and goes with its own.  A tool
    that its toolset has on already needs no word to be on.  Only the toolset's state file is written.

    Raises:
        UnknownNameError: naming the nearest tool.
        BadOverrideError: with all that is wrong with what is to be said.
        CovaltError: when the state file or the manifest cannot be read; nothing is written.
    """
    toolset, name = _find(root, tool_id)
    if changes and toolset.manifest is None:
        raise CovaltError(f"the toolset {toolset.id!r} has errors", hint="covalt-git validate")
    changeable(root, toolset.id)
    before = _local(toolset, name)
    after = {field: value for field, value in before.items() if field not in clear}
    if "renderer" in (*clear, *changes):
        after.pop("renderer_config", None)
    after |= changes
    if after.get("enabled") is True and _on_by_itself(toolset, name):
        del after["enabled"]
    if after == before:
        return Overrides(tool_id, _own_override(toolset, name), before)
    reading = _read_as_if(root, toolset, name, after)
    warnings = _refuse_new_errors(root, toolset, reading)
    assert reading.value is not None
    write_state(state_file(root, toolset.id), reading.value)
    return Overrides(tool_id, _own_override(toolset, name), after, changed=True, warnings=warnings)


def _find(root: Path, tool_id: str) -> tuple[Toolset, str]:
    """Return the toolset of a tool and what its state calls the tool; one that is gone may have overrides left."""
    ids = toolset_ids(root / "toolsets")
    try:
        parsed = ToolId.parse(tool_id)
    except BadNameError:
        parsed = None
    near = [parsed.namespace] if parsed and parsed.namespace in ids else ids
    toolsets = [read_toolset(root, one) for one in near]
    known = {override_key(one.id, name): (one, name) for one in toolsets for name in _names(one)}
    if tool_id not in known:
        error = UnknownNameError("tool", tool_id, known, list_with="covalt-git tool list")
        # A tool's bare name is what people forget the toolset of.
        bare = [one for one in known if one.partition(":")[2] == tool_id]
        if bare:
            error.hint = f"did you mean {bare[0]!r}? list them with `covalt-git tool list`"
        raise error
    return known[tool_id]


def _names(toolset: Toolset) -> set[str]:
    declared = toolset.manifest.tools if toolset.manifest else ()
    given = {tool.tool_id for tool in toolset.tools if tool.kind == "mcp"}
    return {tool.id for tool in declared} | given | toolset.state.overrides.keys()


def _own_override(toolset: Toolset, name: str) -> JsonObject:
    """Return what the toolset's own override of a tool says."""
    for one in toolset.manifest.tool_overrides if toolset.manifest else ():
        named = overridden_tool(toolset.id, one.tool_id, toolset.state)
        if named == override_key(toolset.id, name):
            return one.model_dump(mode="json", exclude={"tool_id"}, exclude_none=True)
    return {}


def _local(toolset: Toolset, name: str) -> JsonObject:
    said = toolset.state.overrides.get(name, LocalOverride())
    return said.model_dump(mode="json", exclude_none=True)


def _on_by_itself(toolset: Toolset, name: str) -> bool:
    if toolset.manifest is None:
        return False
    own = ToolOverride(tool_id=name, **_own_override(toolset, name))
    declared = next((tool for tool in toolset.manifest.tools if tool.id == name), None)
    if declared is None and toolset.tool(name) is None:
        return False
    return enabled_by_toolset(toolset.manifest, declared, own)


def _read_as_if(
    root: Path, toolset: Toolset, name: str, override: JsonObject
) -> Reading[ToolsetState]:
    """Return the state as it would be read with that override of a tool."""
    facts = toolset.state.model_dump(mode="json", exclude_defaults=True)
    said = facts.get("overrides", {}) | {name: override}
    facts["overrides"] = {one: what for one, what in said.items() if what}
    shown = state_file(root, toolset.id).relative_to(root).as_posix()
    try:
        document = yaml_text.load(yaml_text.dump(facts).encode(), shown)
    except yaml_text.YamlProblems as error:
        return Reading(shown, None, None, error.problems)
    return check(document, ToolsetState)


def _refuse_new_errors(
    root: Path, toolset: Toolset, reading: Reading[ToolsetState]
) -> tuple[Problem, ...]:
    """Return what would be a warning of a state; what is wrong with it already stays as it is."""
    known = {(one.code, one.message) for one in toolset.problems}
    then = read_toolset(root, toolset.id, state=reading)
    found = [
        replace(one, line=0, col=0)  # there are no such lines yet
        for one in then.problems
        if one.path == reading.path and (one.code, one.message) not in known
    ]
    broken = [one for one in found if one.severity == "error"]
    if broken:
        raise BadOverrideError("nothing is overridden: that would be an error", problems=broken)
    return tuple(found)
