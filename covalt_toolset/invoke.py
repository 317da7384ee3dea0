"""Call of a tool with JSON arguments, which are checked by the schema and converted to the types.

A parameter annotated with a pydantic model, dataclass or enum receives an instance of it.  A function is
not called with arguments that do not match its schema.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from covalt_toolset import json_path
from covalt_toolset.context import get_context
from covalt_toolset.result_json import ResultNotJson, to_json
from covalt_toolset.schema_check import ArgumentProblem, TypeChecker
from covalt_toolset.signature import WORKSPACE, ToolSignature, read_signature

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

__all__ = ["ArgumentProblem", "InvalidToolArguments", "invoke"]


class InvalidToolArguments(ValueError):  # noqa: N818 - a public name of the SDK
    """The arguments do not match the tool's schema; ``problems`` has all problems."""

    def __init__(self, problems: Sequence[ArgumentProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def invoke(function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    """Call a tool with JSON arguments in the current context and return its result.

    An asynchronous tool runs in a new event loop.

    Raises:
        InvalidToolArguments: when arguments are invalid; the tool is not called.
        ToolSignatureError: for a parameter that cannot be passed by name and as JSON.
        RuntimeError: when the tool takes the workspace and no context is set, and for an asynchronous
            tool in a running event loop; ``await`` the tool there instead.
    """
    signature = read_signature(function)
    passed = _values(signature, arguments)
    if signature.takes_workspace:
        passed[WORKSPACE] = get_context().workspace
    result = function(**passed)
    return _awaited(result) if inspect.isawaitable(result) else result


def result_problems(function: Callable[..., object], result: Any) -> list[ArgumentProblem]:
    """Check a result, a JSON value, against the function's return annotation; return the problems."""
    schema = read_signature(function).output_schema
    if schema is None:
        return []
    checker = TypeChecker(schema.get("$defs", {}))
    return list(checker.mismatches(result, schema, place=json_path.ROOT))


def rule_of(function: Callable[..., object], problem: ArgumentProblem) -> dict[str, Any]:
    """Return the part of a function's input schema that is about the place of a problem."""
    schema = read_signature(function).input_schema
    return dict(TypeChecker(schema.get("$defs", {})).part_at(schema, problem.path))


def _awaited(result: Awaitable[object]) -> object:
    import asyncio  # noqa: PLC0415 - most tools are not asynchronous, and it is slow to import

    async def wait() -> object:
        return await result

    waiting = wait()
    try:
        return asyncio.run(waiting)
    finally:
        # If asyncio.run() refuses to start, these two would never be awaited.
        waiting.close()
        if inspect.iscoroutine(result):
            result.close()


def _values(signature: ToolSignature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by Python name; missing arguments with a Python default are left out."""
    values = _as_json(arguments)
    mismatches = _mismatches(signature.input_schema, values)
    matching = {name: value for name, value in values.items() if name not in mismatches}
    # From JSON, because strict models then also take a text as a date, and a list as a tuple.
    try:
        parsed = signature.model.model_validate_json(json.dumps(matching))
    except ValidationError as error:
        problems = _model_problems(error, matching)
        raise InvalidToolArguments([*chain(*mismatches.values()), *problems]) from None
    if mismatches:
        raise InvalidToolArguments([*chain(*mismatches.values())])
    # Python sets its own defaults; pydantic would pass copies of those that can change.
    return {
        parameter.name: getattr(parsed, parameter.field)
        for parameter in signature.parameters
        if parameter.field in parsed.model_fields_set or not parameter.has_python_default
    }


def _as_json(arguments: object) -> dict[str, Any]:
    try:
        values = to_json(arguments, large_integers=True)  # no other program reads them
    except ResultNotJson as error:
        raise InvalidToolArguments([ArgumentProblem(error.place, error.reason)]) from None
    if not isinstance(values, dict):
        raise InvalidToolArguments([ArgumentProblem(json_path.ROOT, "must be an object")])
    return values


def _mismatches(
    schema: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, list[ArgumentProblem]]:
    """Return the problems by the schema, by argument."""
    checker = TypeChecker(schema.get("$defs", {}))
    by_name: dict[str, list[ArgumentProblem]] = {}
    for name, expected in schema["properties"].items():
        place = json_path.member(json_path.ROOT, name)
        if name in values:
            by_name[name] = list(checker.mismatches(values[name], expected, place=place))
        elif name in schema["required"]:
            by_name[name] = [ArgumentProblem(place, "missing")]
    for name in values:
        if name not in schema["properties"]:
            place = json_path.member(json_path.ROOT, name)
            by_name[name] = [ArgumentProblem(place, "unknown argument")]
    return {name: problems for name, problems in by_name.items() if problems}


def _model_problems(error: ValidationError, values: Mapping[str, Any]) -> list[ArgumentProblem]:
    """Return the problems that pydantic reports for arguments that match the schema's types."""
    messages: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=False):
        # An argument that the schema refused is not in the values, and pydantic says that it is missing.
        if detail["loc"][0] in values:
            place = _place(detail["loc"], values)
            messages.setdefault(place, []).append(_plain(detail["msg"]))
    # Several messages at a place are those of the members of a union.
    return [ArgumentProblem(place, " or ".join(parts)) for place, parts in messages.items()]


def _place(location: Iterable[int | str], value: Any) -> str:
    """Return the place for pydantic's location, without its steps that are not in the value."""
    place = json_path.ROOT
    for step in location:
        if isinstance(value, Mapping) and step in value:
            place, value = json_path.member(place, str(step)), value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            place, value = json_path.item(place, step), value[step]
    return place


def _plain(message: str) -> str:
    """Return ``must be greater than 0`` for pydantic's ``Input should be greater than 0``."""
    message = _PREFIX.sub("", message)
    message = _SUBJECT.sub("must ", message).replace(" after validation", "")
    return message[:1].lower() + message[1:]


_PREFIX = re.compile(r"^(Value error|Assertion failed), ")
_SUBJECT = re.compile(r"^[A-Z][A-Za-z ]* should ")
