"""Calling a tool with JSON arguments: judged by the schema, then built, then passed.

A parameter typed as a pydantic model receives the model, a dataclass the dataclass, an enum the
member; what does not agree with the schema never reaches the function.
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
from covalt_toolset.schema_check import ArgumentProblem, ShapeReader
from covalt_toolset.signature import WORKSPACE, ToolSignature, read_signature

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

__all__ = ["ArgumentProblem", "InvalidToolArguments", "invoke"]


class InvalidToolArguments(ValueError):  # noqa: N818 - it names what is wrong, as authors read it
    """The arguments do not agree with the tool's schema; ``problems`` has everything at once."""

    def __init__(self, problems: Sequence[ArgumentProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def invoke(function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    """Call a tool with JSON arguments in the current context and return what it returns.

    An asynchronous tool runs to its end in an event loop of its own.

    Raises:
        InvalidToolArguments: before the tool starts; ``problems`` names every wrong argument.
        ToolSignatureError: for a parameter that cannot be given by name and as JSON.
        RuntimeError: for a tool that takes the workspace, where no context is set; and for an
            asynchronous tool inside a running event loop, which can ``await`` it itself.
    """
    signature = read_signature(function)
    passed = _values(signature, arguments)
    if signature.takes_workspace:
        passed[WORKSPACE] = get_context().workspace
    result = function(**passed)
    return _awaited(result) if inspect.isawaitable(result) else result


def result_problems(function: Callable[..., object], result: Any) -> list[ArgumentProblem]:
    """Return where a result, as JSON, is not what the function's annotation promises."""
    promised = read_signature(function).output_schema
    if promised is None:
        return []
    reader = ShapeReader(promised.get("$defs", {}))
    return list(reader.mismatches(result, promised, place=json_path.ROOT))


def _awaited(result: Awaitable[object]) -> object:
    import asyncio  # noqa: PLC0415 - most tools are not asynchronous, and it is slow to import

    async def wait() -> object:
        return await result

    waiting = wait()
    try:
        return asyncio.run(waiting)
    finally:
        # Where asyncio refuses to start, nothing else will ever await these two.
        waiting.close()
        if inspect.iscoroutine(result):
            result.close()


def _values(signature: ToolSignature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to pass, by Python name; an argument left out keeps the function's default."""
    given = _as_json(arguments)
    mismatches = _mismatches(signature.input_schema, given)
    sound = {name: value for name, value in given.items() if name not in mismatches}
    try:
        built = signature.model.model_validate_json(json.dumps(sound))
    except ValidationError as error:
        refused = _refusals(error, sound)
        raise InvalidToolArguments([*chain(*mismatches.values()), *refused]) from None
    if mismatches:
        raise InvalidToolArguments([*chain(*mismatches.values())])
    return {
        parameter.name: getattr(built, parameter.field)
        for parameter in signature.parameters
        if parameter.field in built.model_fields_set or not parameter.has_python_default
    }


def _as_json(arguments: object) -> dict[str, Any]:
    try:
        given = to_json(arguments)
    except ResultNotJson as error:
        raise InvalidToolArguments([ArgumentProblem(error.place, error.reason)]) from None
    if not isinstance(given, dict):
        raise InvalidToolArguments([ArgumentProblem(json_path.ROOT, "must be an object")])
    return given


def _mismatches(
    schema: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, list[ArgumentProblem]]:
    """Return what disagrees with the schema, for each argument where something does."""
    reader = ShapeReader(schema.get("$defs", {}))
    found: dict[str, list[ArgumentProblem]] = {}
    for name, expected in schema["properties"].items():
        place = json_path.member(json_path.ROOT, name)
        if name in given:
            found[name] = list(reader.mismatches(given[name], expected, place=place))
        elif name in schema["required"]:
            found[name] = [ArgumentProblem(place, "missing")]
    for name in given:
        if name not in schema["properties"]:
            place = json_path.member(json_path.ROOT, name)
            found[name] = [ArgumentProblem(place, "unknown argument")]
    return {name: problems for name, problems in found.items() if problems}


def _refusals(error: ValidationError, given: Mapping[str, Any]) -> list[ArgumentProblem]:
    """Return what pydantic holds against the arguments that have the right shape."""
    messages: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=False):
        if detail["loc"][0] in given:
            place = _place(detail["loc"], given)
            messages.setdefault(place, []).append(_plain(detail["msg"]))
    # Several at one place are the choices of a union, each with its own objection.
    return [ArgumentProblem(place, " or ".join(said)) for place, said in messages.items()]


def _place(location: Iterable[int | str], value: Any) -> str:
    """Turn pydantic's location into a place, leaving out what only pydantic counts as a step."""
    place = json_path.ROOT
    for step in location:
        if isinstance(value, Mapping) and step in value:
            place, value = json_path.member(place, str(step)), value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            place, value = json_path.item(place, step), value[step]
    return place


def _plain(message: str) -> str:
    """Say ``must be greater than 0`` where pydantic says ``Input should be greater than 0``."""
    message = _SPEECH.sub("", message)
    message = _SUBJECT.sub("must ", message).replace(" after validation", "")
    return message[:1].lower() + message[1:]


_SPEECH = re.compile(r"^(Value error|Assertion failed), ")
_SUBJECT = re.compile(r"^[A-Z][A-Za-z ]* should ")
