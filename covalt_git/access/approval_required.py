"""Whether a call requires approval, and for which reasons.

Only the project waives approval, by a rule of ``covalt.yaml``, its state file, or the manifest of a toolset of its own.
The manifest of an imported toolset can require approval but not waive it.  Annotations are what an author says of a
tool; those of MCP servers are untrusted (Model Context Protocol 2026-07-28, server/tools).  So a rule that waives
approval for tools with an annotation applies only to tools whose annotations the project itself states: the built-in
tools and those of its own toolsets.

A text argument may be a path, and a path has many spellings.  So a condition on arguments compares each text as
written and as a normalized path.  A rule that requires approval applies if either matches; a rule that waives it
applies only if both match, so that another spelling of a path never avoids approval.

A text argument may be a command for a shell, and then a pattern that waives approval does not match a text that
runs more than one command (:mod:`covalt_git.access.shell_arguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.access.shell_arguments import is_shell_argument, may_run_more
from covalt_git.json_values import canonical_json, with_texts
from covalt_git.names import matches, matches_text
from covalt_git.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ApprovalRule, ProjectConfig
    from covalt_git.models.tool import ConfirmationSource, Tool
    from covalt_git.models.tool_properties import Annotations

_REASONS: dict[ConfirmationSource, str] = {
    "toolset": "the toolset requires it",
    "decorator": "its decorator requires it",
    "override": "the toolset's override requires it",
    "project": "this project's state requires it",
    "destructive": "destructive",
}
_MAX_INDEX_DIGITS = 9
_MISSING = object()


def confirmation(config: ProjectConfig, tool: Tool, args: JsonObject) -> tuple[str, ...]:
    """Return the reasons why a call requires approval; empty if it does not.

    The first approval rule that applies to the call decides.  If none applies, the toolset, the decorator and
    the project's state decide.

    Raises:
        NotJsonError: if a rule compares an argument that JSON cannot represent.
    """
    for rule in config.approvals:
        if is_about(rule, tool) and _rule_matches(rule, tool, args):
            return (f"rule {rule.pattern} requires it",) if rule.require else ()
    return tuple(_REASONS[source] for source in tool.confirmation)


def approval_reasons(
    config: ProjectConfig, tools: Iterable[Tool], args: JsonObject
) -> tuple[str, ...]:
    """Return why a call requires approval: the reasons of an alias and of the tool that it calls."""
    reasons = (reason for tool in tools for reason in confirmation(config, tool, args))
    return tuple(dict.fromkeys(reasons))


def is_about(rule: ApprovalRule, tool: Tool) -> bool:
    """Return whether a rule can apply to a tool: only annotations of the project itself can waive approval."""
    trusts = not rule.require and rule.when.annotations is not None
    return matches(rule.pattern, tool.path) and (tool.annotations_are_own or not trusts)


def _rule_matches(rule: ApprovalRule, tool: Tool, args: JsonObject) -> bool:
    wanted: Annotations | None = rule.when.annotations
    if wanted is not None and not _same_annotations(wanted, tool.annotations):
        return False
    enough = any if rule.require else all
    return all(
        enough(_is_like(*form) for form in _forms(_find(args, path), value))
        and (rule.require or not _runs_more(tool, path, _find(args, path), value))
        for path, value in rule.when.args.items()
    )


def _runs_more(tool: Tool, path: str, found: object, wanted: Any) -> bool:
    """Return whether a waiver's pattern matches a text for a shell that may run other commands too."""
    if not isinstance(wanted, str) or "*" not in wanted or not isinstance(found, str):
        return False
    return is_shell_argument(tool.input_schema, path) and may_run_more(wanted, found)


def _forms(found: object, wanted: Any) -> Iterator[tuple[object, Any]]:
    """Yield an argument and a rule's value twice: as written, and with their texts as normalized paths."""
    yield found, wanted
    yield with_texts(found, normal_path), with_texts(wanted, normal_path)


def _same_annotations(wanted: Annotations, found: Annotations) -> bool:
    facts = wanted.model_dump(exclude_none=True)
    return all(getattr(found, name) == value for name, value in facts.items())


def _find(args: JsonObject, path: str) -> Any:
    """Return the value at a dotted path of keys and list indexes, or ``_MISSING``."""
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
