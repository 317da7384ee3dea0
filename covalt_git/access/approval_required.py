"""Whether a person is asked before a call, and who wants it.

Only this project lowers: a rule of ``covalt.yaml`` or its own state.  What a toolset says about
itself, its annotations included, can ask for a person; by itself it never sends one away.  What an MCP
server says of its tools is not believed at all: a rule that asks nobody where a tool has some annotation
is not about them (Model Context Protocol 2026-07-28, server/tools: annotations are untrusted).

A text argument may be a path, and a path has many spellings.  So a condition on arguments compares
each text as it is written and as its normal path.  A rule that requires approval applies if either is
like its value, a rule that lowers only if both are: another spelling of a file never asks less than
the file's own path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.json_values import canonical_json
from covalt_git.names import matches, matches_text
from covalt_git.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ApprovalRule, ProjectConfig
    from covalt_git.models.tool import ConfirmationSource, Tool
    from covalt_git.models.tool_properties import Annotations

_ASKING: dict[ConfirmationSource, str] = {
    "toolset": "the toolset asks",
    "decorator": "its decorator asks",
    "override": "the toolset's override asks",
    "project": "this project's state asks",
}
_MAX_INDEX_DIGITS = 9
_MISSING = object()


def confirmation(config: ProjectConfig, tool: Tool, args: JsonObject) -> tuple[str, ...]:
    """Return in words why a person must be asked before this call; empty: nobody is asked.

    The first approval rule that applies to the call decides, in either direction.  Where none
    applies, everyone who asks on the tool's behalf is named.

    Raises:
        NotJsonError: when a rule has to compare an argument that JSON cannot hold.
    """
    for rule in config.approvals:
        if _applies(rule, tool, args):
            return (f"rule {rule.pattern} asks",) if rule.require else ()
    return tuple(_ASKING[source] for source in tool.confirmation)


def _applies(rule: ApprovalRule, tool: Tool, args: JsonObject) -> bool:
    return is_about(rule, tool) and _rule_matches(rule, tool, args)


def is_about(rule: ApprovalRule, tool: Tool) -> bool:
    """Tell whether a rule is about a tool, as far as its pattern goes and what it believes."""
    believes = not rule.require and rule.when.annotations is not None
    return matches(rule.pattern, tool.path) and not (believes and tool.kind == "mcp")


def _rule_matches(rule: ApprovalRule, tool: Tool, args: JsonObject) -> bool:
    wanted: Annotations | None = rule.when.annotations
    if wanted is not None and not _same_annotations(wanted, tool.annotations):
        return False
    enough = any if rule.require else all
    return all(
        enough(_is_like(*reading) for reading in _readings(_find(args, path), value))
        for path, value in rule.when.args.items()
    )


def _readings(found: object, wanted: Any) -> Iterator[tuple[object, Any]]:
    """Yield an argument and a rule's value as they are written, and with each text as a normal path."""
    yield found, wanted
    yield with_normal_paths(found), with_normal_paths(wanted)


def with_normal_paths(value: Any) -> Any:
    """Return a value of a rule or an argument with each text in it as a normal path."""
    if isinstance(value, str):
        return normal_path(value)
    if isinstance(value, list):
        return [with_normal_paths(item) for item in value]
    if isinstance(value, dict):
        return {key: with_normal_paths(item) for key, item in value.items()}
    return value


def _same_annotations(wanted: Annotations, found: Annotations) -> bool:
    given = wanted.model_dump(exclude_none=True)
    return all(getattr(found, name) == value for name, value in given.items())


def _find(args: JsonObject, path: str) -> Any:
    """Return what stands at a dotted path of keys and list indexes, or ``_MISSING``."""
    value: Any = args
    for segment in path.split("."):
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif isinstance(value, list) and _is_index(segment) and int(segment) < len(value):
            value = value[int(segment)]
        else:
            return _MISSING
    return value


def _is_index(segment: str) -> bool:
    return segment.isascii() and segment.isdigit() and len(segment) <= _MAX_INDEX_DIGITS


def _is_like(found: object, wanted: Any) -> bool:
    if found is _MISSING:
        return False
    if isinstance(wanted, str):
        return isinstance(found, str) and matches_text(wanted, found)
    return canonical_json.dumps(found) == canonical_json.dumps(wanted)
