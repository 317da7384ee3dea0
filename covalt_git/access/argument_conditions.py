"""Whether the arguments of a call match the condition of a rule: certainly, or possibly.

A text argument may be a path, and a path has many spellings.  So a condition compares each text as written and as a
normalized path.  A rule that denies or asks applies if either matches; a rule that allows applies only if both match, so
that another spelling of a path never avoids it.

A tool may take a list or an object in place of a text, and defaults in place of missing arguments.  So a rule that
denies or asks also applies to values inside of an argument and to defaults; a rule that allows does not.

A text argument may be a command for a shell, and then a pattern that allows does not match a text that runs more than
one command (:mod:`covalt_git.access.shell_arguments`).

``not`` exchanges the two questions: a condition certainly does not match if it possibly matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from covalt_git.models.rules import ArgumentCondition
from covalt_git.names import matches_text
from covalt_git.paths import WORKSPACE_PREFIX, normal_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool

_LONGEST_NUMBER: Final = 400
"""Characters of a text that is read as a number: Python converts longer ones slowly."""


def may_match(called: Sequence[Tool], args: JsonObject, path: str, wanted: Any) -> bool:
    """Return whether an argument may match, in one of its forms or as a value that the tool makes of it.

    Args:
        called: The tools that get the arguments: an alias and the tool that it calls.
        args: The arguments.
        path: The dotted path of the argument.
        wanted: A value or text pattern of a rule, or a condition.
    """
    if not isinstance(wanted, ArgumentCondition):
        return _may_hold(called, args, path, wanted)
    if wanted.exists is not None and not _may_exist(called, args, path, whether=wanted.exists):
        return False
    if "is_not" in wanted.model_fields_set and surely_matches(called, args, path, wanted.is_not):
        return False
    if wanted.is_in is not None and not any(
        _may_hold(called, args, path, value) for value in wanted.is_in
    ):
        return False
    return not _compares_values(wanted) or any(
        value is ANY_VALUE or _may_be_within(value, wanted)
        for value in _possible(called, args, path)
    )


def surely_matches(called: Sequence[Tool], args: JsonObject, path: str, wanted: Any) -> bool:
    """Return whether exactly the argument at a path matches, in each of its forms; arguments as of :func:`may_match`."""
    if not isinstance(wanted, ArgumentCondition):
        return _surely_holds(called, args, path, wanted)
    if wanted.exists is not None and _may_exist(called, args, path, whether=not wanted.exists):
        return False
    if "is_not" in wanted.model_fields_set and may_match(called, args, path, wanted.is_not):
        return False
    if wanted.is_in is not None and not any(
        _surely_holds(called, args, path, value) for value in wanted.is_in
    ):
        return False
    if not _compares_values(wanted):
        return True
    value = value_at(args, path)
    return (
        value is not MISSING
        and _is_surely_within(value, wanted)
        and not any(may_get_another(tool, args, path) for tool in called)
    )


def patterns_of(wanted: Any) -> tuple[Any, ...]:
    """Return the values and text patterns of which an argument must match one."""
    return (wanted.is_in or ()) if isinstance(wanted, ArgumentCondition) else (wanted,)


def matches_missing(wanted: Any) -> bool:
    """Return whether an argument that a call does not have can match, apart from its default."""
    if not isinstance(wanted, ArgumentCondition):
        return False
    is_negative = "is_not" in wanted.model_fields_set and not matches_missing(wanted.is_not)
    compares = wanted.is_in is not None or wanted.exists is True or _compares_values(wanted)
    return (is_negative or wanted.exists is False) and not compares


def _compares_values(condition: ArgumentCondition) -> bool:
    parts = (condition.min, condition.max, condition.under)
    return any(part is not None for part in parts)


def _possible(called: Sequence[Tool], args: JsonObject, path: str) -> Iterator[Any]:
    """Yield the values that a tool may find at a path; any value if a schema cannot be followed."""
    try:
        for tool in called:
            yield from possible_values(tool, args, path, None)
    except BadReferenceError:  # a default that cannot be read may be the value
        yield ANY_VALUE


def _may_exist(called: Sequence[Tool], args: JsonObject, path: str, *, whether: bool) -> bool:
    """Return whether a call may have, or may not have, an argument at a path.

    A path through a list is also about each item, and an object may have the argument under another name.
    """
    if any(may_get_another(tool, args, path) for tool in called):
        return True
    if whether:
        return _has(args, path.split("."))
    return value_at(args, path) is MISSING


def _has(value: Any, names: Sequence[str]) -> bool:
    if not names:
        return True
    if isinstance(value, list) and not names[0].isdigit():
        return any(_has(item, names) for item in value)
    part = value_at(value, names[0])
    return part is not MISSING and _has(part, names[1:])


def _may_be_within(value: Any, condition: ArgumentCondition) -> bool:
    """Return whether a value is within a range and below a folder, in one of its forms."""
    # HTTP tools write numbers as text, so "200" and 200 are one request to the server.
    number = _number(value) if isinstance(value, str) else value
    if not _is_in_range(number, condition):
        return False
    folder = condition.under
    if folder is None:
        return True
    # The folder too: a tool that deletes or moves it changes what is below it.
    return isinstance(value, str) and (
        _is_below(value, folder)
        or _is_below(_plain_path(value), _plain_path(folder))
        or _plain_path(value) == _plain_path(folder)
    )


def _is_surely_within(value: Any, condition: ArgumentCondition) -> bool:
    """Return whether a value is within a range and below a folder, in each of its forms."""
    if not _is_in_range(value, condition):
        return False
    folder = condition.under
    return folder is None or (
        isinstance(value, str)
        and _is_below(value, folder)
        and _is_below(_plain_path(value), _plain_path(folder))
    )


def _number(text: str) -> float | None:
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _is_in_range(value: Any, condition: ArgumentCondition) -> bool:
    if condition.min is None and condition.max is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (condition.min is None or value >= condition.min) and (
        condition.max is None or value <= condition.max
    )


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/") and len(path) > len(folder.rstrip("/")) + 1


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
