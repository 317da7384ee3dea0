"""Whether a call requires approval, and for which reasons.

Only the project waives approval, by a rule of ``covalt.yaml``, its state file, or the manifest of a toolset of its own.
The manifest of an imported toolset can require approval but not waive it.  Annotations are what an author says of a
tool; those of MCP servers are untrusted (Model Context Protocol 2026-07-28, server/tools).  So a rule that waives
approval for tools with an annotation applies only to tools whose annotations the project itself states: the built-in
tools and those of its own toolsets.

A text argument may be a path, and a path has many spellings.  So a condition on arguments compares each text as
written and as a normalized path.  A rule that requires approval applies if either matches; a rule that waives it
applies only if both match, so that another spelling of a path never avoids approval.

A tool may take a list or an object in place of a text, and defaults in place of missing arguments.  So a rule that
requires approval also applies to values inside of an argument and to defaults; a rule that waives it does not.

A text argument may be a command for a shell, and then a pattern that waives approval does not match a text that
runs more than one command (:mod:`covalt_git.access.shell_arguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.access.argument_values import (
    ANY_VALUE,
    MISSING,
    may_get_another,
    possible_values,
    value_at,
)
from covalt_git.access.shell_arguments import is_shell_argument_of, may_run_more
from covalt_git.json_values import canonical_json, with_texts
from covalt_git.json_values.pointer import BadReferenceError
from covalt_git.names import matches, matches_text
from covalt_git.paths import WORKSPACE_PREFIX, normal_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

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


def confirmation(
    config: ProjectConfig, tool: Tool, args: JsonObject, called: Sequence[Tool] = ()
) -> tuple[str, ...]:
    """Return the reasons why a call requires approval; empty if it does not.

    The first approval rule that applies to the call decides.  If none applies, the toolset, the decorator and
    the project's state decide.  If the tool is an alias or is called by one, ``called`` has both: the arguments are
    those of each.

    Raises:
        NotJsonError: if a rule compares an argument that JSON cannot represent.
    """
    for rule in config.approvals:
        if applies(rule, tool) and _args_match(rule, called or (tool,), args):
            return (_reason(rule, tool),) if rule.require else ()
    return tuple(_REASONS[source] for source in tool.confirmation)


def approval_reasons(
    config: ProjectConfig, tools: Sequence[Tool], args: JsonObject
) -> tuple[str, ...]:
    """Return why a call requires approval: the reasons of an alias and of the tool that it calls."""
    reasons = (reason for tool in tools for reason in confirmation(config, tool, args, tools))
    return tuple(dict.fromkeys(reasons))


def approval_reasons_of_any(
    rules: Iterable[ApprovalRule], tool: Tool, names: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return why a call of a tool may require approval, if its arguments are not known.

    ``names`` are all arguments that a call can have; None if it can have any.
    """
    for rule in rules:
        if applies(rule, tool) and (names is None or _may_be_about(rule, names)):
            if rule.require:
                return (_reason(rule, tool),)
            if not rule.when.args:  # no later rule, and not the default, decides about any call
                return ()
    return tuple(_REASONS[source] for source in tool.confirmation)


def _may_be_about(rule: ApprovalRule, names: Collection[str]) -> bool:
    """Return whether arguments with these names can have all those that a rule compares."""
    # A name can have dots too, as that of a template's variable; a path of a rule has them between its keys.
    keys = {name.partition(".")[0] for name in names}
    return all(path.partition(".")[0] in keys for path in rule.when.args)


def _reason(rule: ApprovalRule, tool: Tool) -> str:
    unknown = (
        ", and its arguments are not known" if rule.when.args and tool.arguments_are_unread else ""
    )
    return f"rule {rule.pattern} requires it{unknown}"


def is_about(rule: ApprovalRule, tool: Tool) -> bool:
    """Return whether a rule can apply to a tool: only annotations of the project itself can waive approval."""
    trusts = not rule.require and rule.when.annotations is not None
    return matches(rule.pattern, tool.path) and (tool.annotations_are_own or not trusts)


def applies(rule: ApprovalRule, tool: Tool) -> bool:
    """Return whether a rule applies to calls of a tool, with the annotations that it has now."""
    annotations = rule.when.annotations
    return is_about(rule, tool) and (
        annotations is None or _same_annotations(annotations, tool.annotations)
    )


def _args_match(rule: ApprovalRule, called: Sequence[Tool], args: JsonObject) -> bool:
    holds = _may_hold if rule.require else _surely_holds
    return all(holds(called, args, path, value) for path, value in rule.when.args.items())


def _may_hold(called: Sequence[Tool], args: JsonObject, path: str, rule_value: Any) -> bool:
    """Return whether a value that a tool may find at a path, or in a value there, is like a rule's value."""
    try:
        return any(
            value is ANY_VALUE
            or _has_text_of(value, rule_value)
            or (
                _has_form_of(value, rule_value)
                and any(_is_like(*form) for form in _forms(value, rule_value))
            )
            for tool in called
            for value in possible_values(tool, args, path, rule_value)
        )
    except BadReferenceError:  # a default that cannot be read may be the value
        return True


def _has_text_of(value: object, rule_value: Any) -> bool:
    """Return whether two scalars are the same when they are written as text, as in the query of a URL."""
    # HTTP tools write numbers and booleans as text, so "true" and true are one request to the server.
    texts = _text(value), _text(rule_value)
    if texts[0] is None or texts[1] is None:
        return False
    return (
        matches_text(rule_value, texts[0]) if isinstance(rule_value, str) else texts[0] == texts[1]
    )


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    return None if isinstance(value, dict | list) else canonical_json.dumps(value).decode()


def _surely_holds(called: Sequence[Tool], args: JsonObject, path: str, rule_value: Any) -> bool:
    """Return whether exactly the argument at a path is like a rule's value; a missing one never is."""
    value = value_at(args, path)
    # All forms, not any: a path such as a/../b that equals the pattern only as it is written must not avoid approval.
    if value is MISSING or not all(_is_like(*form) for form in _forms(value, rule_value)):
        return False
    return not any(
        _runs_more(tool, path, value, rule_value) or may_get_another(tool, args, path)
        for tool in called
    )


def _has_form_of(value: object, rule_value: Any) -> bool:
    """Return whether two values can be equal; values inside of large arguments are compared only then."""
    if isinstance(rule_value, str | dict | list) or isinstance(value, str | dict | list):
        is_pattern = isinstance(rule_value, str)
        return type(value) is type(rule_value) and (is_pattern or len(value) == len(rule_value))  # type: ignore[arg-type]
    return True


def _forms(value: object, rule_value: Any) -> Iterator[tuple[object, Any]]:
    """Yield an argument and a rule's value twice: as written, and with their texts as normalized paths."""
    yield value, rule_value
    if isinstance(value, str | dict | list):
        yield with_texts(value, _plain_path), with_texts(rule_value, _plain_path)


def _plain_path(text: str) -> str:
    """Return a normalized path; HTTP tools read the file of ``workspace:a.txt`` and ``a.txt`` alike."""
    return normal_path(text.removeprefix(WORKSPACE_PREFIX))


def _same_annotations(rule: Annotations, annotations: Annotations) -> bool:
    facts = rule.model_dump(exclude_none=True)
    return all(getattr(annotations, name) == value for name, value in facts.items())


def _runs_more(tool: Tool, path: str, value: object, rule_value: Any) -> bool:
    """Return whether a waiver's pattern matches a text for a shell that may run other commands too."""
    if not isinstance(rule_value, str) or "*" not in rule_value or not isinstance(value, str):
        return False
    return is_shell_argument_of(tool, path) and may_run_more(rule_value, value)


def _is_like(value: object, rule_value: Any) -> bool:
    if isinstance(rule_value, str):
        return isinstance(value, str) and matches_text(rule_value, value)
    # Not ==, for which True equals 1 in Python.
    return canonical_json.dumps(value) == canonical_json.dumps(rule_value)
