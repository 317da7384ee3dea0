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

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from covalt_git.access.argument_values import ANY_VALUE
from covalt_git.access.shell_arguments import is_shell_argument_of, may_run_more
from covalt_git.access.value_patterns import ValuePatterns, number_of, plain_path
from covalt_git.json_values import canonical_json, with_texts
from covalt_git.models.rules import ArgumentCondition
from covalt_git.names import matches_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.access.call_arguments import CallArguments


def may_match(arguments: CallArguments, path: str, wanted: Any) -> bool:
    """Return whether an argument may match, in one of its forms or as a value that the tool makes of it.

    Args:
        arguments: The arguments of a call.
        path: The path of the argument.
        wanted: A value or text pattern of a rule, or a condition.
    """
    if not isinstance(wanted, ArgumentCondition):
        return _may_hold(arguments, path, [wanted])
    if wanted.exists is not None:
        exists = arguments.may_exist(path) if wanted.exists else arguments.may_lack(path)
        if not exists:
            return False
    if "is_not" in wanted.model_fields_set and surely_matches(arguments, path, wanted.is_not):
        return False
    if wanted.is_in is not None and not _may_hold(arguments, path, wanted.is_in):
        return False
    return not _compares_values(wanted) or any(
        value is ANY_VALUE or _may_be_within(value, wanted) for value in arguments.possible(path)
    )


def surely_matches(arguments: CallArguments, path: str, wanted: Any) -> bool:
    """Return whether exactly the argument at a path matches, in each of its forms; arguments as of :func:`may_match`."""
    if not isinstance(wanted, ArgumentCondition):
        return _surely_holds(arguments, path, [wanted])
    if wanted.exists is not None:
        exists = arguments.may_lack(path) if wanted.exists else arguments.may_exist(path)
        if exists:
            return False
    if "is_not" in wanted.model_fields_set and may_match(arguments, path, wanted.is_not):
        return False
    if wanted.is_in is not None and not _surely_holds(arguments, path, wanted.is_in):
        return False
    if not _compares_values(wanted):
        return True
    values = arguments.values(path)
    return (
        bool(values)
        and all(_is_surely_within(value, wanted) for value in values)
        and not arguments.may_get_another(path)
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


def _may_be_within(value: Any, condition: ArgumentCondition) -> bool:
    """Return whether a value is within a range and below a folder, in one of its forms."""
    # HTTP tools write numbers as text, so "200" and 200 are one request to the server.
    number = number_of(value) if isinstance(value, str) else value
    if not _is_in_range(number, condition):
        return False
    folder = condition.under
    if folder is None:
        return True
    # The folder too: a tool that deletes or moves it changes what is below it.
    return isinstance(value, str) and (
        _is_below(value, folder)
        or _is_below(plain_path(value), plain_path(folder))
        or plain_path(value) == plain_path(folder)
    )


def _is_surely_within(value: Any, condition: ArgumentCondition) -> bool:
    """Return whether a value is within a range and below a folder, in each of its forms."""
    if not _is_in_range(value, condition):
        return False
    folder = condition.under
    return folder is None or (
        isinstance(value, str)
        and _is_below(value, folder)
        and _is_below(plain_path(value), plain_path(folder))
    )


def _is_in_range(value: Any, condition: ArgumentCondition) -> bool:
    if condition.min is None and condition.max is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    return (condition.min is None or value >= condition.min) and (
        condition.max is None or value <= condition.max
    )


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/") and len(path) > len(folder.rstrip("/")) + 1


def _may_hold(arguments: CallArguments, path: str, rule_values: Sequence[Any]) -> bool:
    """Return whether a value that a tool may find at a path, or in a value there, is like one of a rule's values."""
    patterns = ValuePatterns(rule_values)
    if patterns.has_scalars and any(
        value is ANY_VALUE or patterns.may_match(value) for value in arguments.possible(path)
    ):
        return True
    # As parts of a list or an object, more values count as any value.
    return patterns.has_parts and any(
        value is ANY_VALUE or patterns.may_match_part(value)
        for value in arguments.possible(path, compares_parts=True)
    )


def _surely_holds(arguments: CallArguments, path: str, rule_values: Sequence[Any]) -> bool:
    """Return whether exactly the argument at a path is like one of a rule's values; a missing one never is."""
    values = arguments.values(path)
    if not values or not all(
        any(_is_surely_like(arguments, path, value, rule_value) for rule_value in rule_values)
        for value in values
    ):
        return False
    return not arguments.may_get_another(path)


def _is_surely_like(arguments: CallArguments, path: str, value: object, rule_value: Any) -> bool:
    # All forms, not any: a path such as a/../b that equals the pattern only as it is written must not avoid approval.
    if not all(_is_like(*form) for form in _forms(value, rule_value)):
        return False
    if not isinstance(rule_value, str) or "*" not in rule_value or not isinstance(value, str):
        return True
    # A waiver's pattern does not match a text for a shell that may run other commands too.
    return not any(
        is_shell_argument_of(tool, path) and may_run_more(rule_value, value)
        for tool in arguments.called
    )


def _forms(value: object, rule_value: Any) -> Iterator[tuple[object, Any]]:
    """Yield an argument and a rule's value twice: as written, and with their texts as normalized paths."""
    yield value, rule_value
    if isinstance(value, str | dict | list):
        yield with_texts(value, plain_path), with_texts(rule_value, plain_path)


def _is_like(value: object, rule_value: Any) -> bool:
    if isinstance(rule_value, str):
        return isinstance(value, str) and matches_text(rule_value, value)
    if isinstance(value, Decimal):
        return number_of(rule_value) == value
    # Not ==, for which True equals 1 in Python.
    return canonical_json.dumps(value) == canonical_json.dumps(rule_value)
