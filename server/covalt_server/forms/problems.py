"""Problems of a form's value, each at the field where the user can fix it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_server.forms.shapes import InputKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_server.forms.fields import Field

_REQUIRED = "this is required"
_REQUIRED_TEXT = f'{_REQUIRED}; for an empty text, write "" on the JSON side'


class FieldProblem(NamedTuple):
    """A problem of one field; ``path`` is the field's name in the form."""

    path: str
    message: str


def wrong(
    schema: JsonObject, value: Any, fields: Field, mistyped: Sequence[FieldProblem] = ()
) -> tuple[FieldProblem, ...]:
    """Return all problems of a value, each at the field where the user can fix it."""
    by_loc: dict[json_schema.Loc, Field] = {}
    for field in fields.walk():
        by_loc.setdefault(field.loc, field)
    mistyped_paths = {problem.path for problem in mistyped}
    schema_problems = [
        problem
        for loc, message in json_schema.value_problems(schema, value)
        if (problem := _placed(loc, message, by_loc)).path not in mistyped_paths
    ]
    return tuple(dict.fromkeys([*mistyped, *schema_problems]))


def refusals(fields: Field, problems: Iterable[Problem]) -> tuple[FieldProblem, ...]:
    """Return the problems of the tool's own validation, each at the innermost field that shows its place."""
    by_place = {json_path(field.loc): field for field in reversed(list(fields.walk()))}
    field_problems = []
    for problem in problems:
        within = [at for at in by_place if re.match(re.escape(at) + r"([.[]|$)", problem.path)]
        at = max(within, key=len, default="$")
        rest = problem.path.removeprefix(at)
        message = f"${rest}: {problem.message}" if rest else problem.message
        field_problems.append(FieldProblem(by_place[at].name, message))
    return tuple(field_problems)


def _placed(
    loc: json_schema.Loc, message: str, by_loc: Mapping[json_schema.Loc, Field]
) -> FieldProblem:
    """Return a problem at the innermost field that shows its place."""
    length = next(size for size in range(len(loc), -1, -1) if loc[:size] in by_loc)
    at, rest = by_loc[loc[:length]], loc[length:]
    return FieldProblem(at.name, with_place(rest, message)) if rest else _field_problem(at, message)


def _field_problem(at: Field, message: str) -> FieldProblem:
    """Return a problem of a field; a missing part is reported at the part's own field."""
    # The validator reports a missing part at its object, where the page has no box to type in.
    missing = next(
        (child for child in at.children if message == f"{child.loc[-1]!r} is missing"), None
    )
    if missing is not None:
        at, message = missing, _REQUIRED
    if at.is_blank and at.needed:
        may_be_empty = (
            at.kind in {InputKind.TEXT, InputKind.LONG_TEXT} and "required" not in at.attributes
        )
        message = _REQUIRED_TEXT if may_be_empty else _REQUIRED
    return FieldProblem(at.name, message)


def with_place(place: json_schema.Loc, message: str) -> str:
    """Return a message with the path of the value within its field."""
    return f"{json_path(place)}: {message}" if place else message


def by_path(problems: Iterable[FieldProblem]) -> dict[str, list[str]]:
    """Return the messages of each field."""
    messages: dict[str, list[str]] = {}
    for problem in problems:
        messages.setdefault(problem.path, []).append(problem.message)
    return messages
