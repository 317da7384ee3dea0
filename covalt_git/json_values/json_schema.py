"""JSON Schema: whether a schema is one, and everything that is wrong with a value under it.

Draft 2020-12.  Schemas come from other people: nothing they refer to is ever fetched, and their
patterns run on an engine whose time is linear in the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema_rs

from covalt_git.errors import CovaltError, Problem, nearest_name
from covalt_git.json_values import canonical_json, pointer
from covalt_git.names import BUILTIN_NAMESPACE
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covalt_git.json_values import JsonObject

_META = canonical_json.dumps({pointer.REF: "https://json-schema.org/draft/2020-12/schema"})
_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
}

_TYPE_SLIPS = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "none": "null",
}
"""What people write for the types of JSON Schema."""

_MASK = "\ue000"
"""Stands for the value in the engine's messages, which would show all of it, however long."""

_MAX_MESSAGE = 300
_TOO_DEEP = "this is nested too deeply"

Loc = pointer.Loc


class BadSchemaError(CovaltError):
    """A schema that is none, or that refers outside itself."""

    code = "bad_schema"


def schema_problems(schema: JsonObject) -> list[tuple[Loc, str]]:
    """Return what is wrong with a schema itself: the place in it, and the problem in words."""
    try:
        errors = _validator(_META).iter_errors(schema)
        found = [(tuple(error.instance_path), _in_schema_words(error)) for error in errors]
    except ValueError:
        return [((), _TOO_DEEP)]
    if found:
        return list(dict.fromkeys(found))  # the meta-schema comes to one place by many ways
    try:
        _validator(canonical_json.dumps(schema))
    except jsonschema_rs.ValidationError as error:
        return [_unusable(error, schema)]
    except (canonical_json.NotJsonError, ValueError, jsonschema_rs.ReferencingError) as error:
        return [((), _reason(error))]
    return []


def value_problems(schema: JsonObject, value: Any) -> list[tuple[Loc, str]]:
    """Return what is wrong with a value: every place in it, and the problem in words.

    Raises:
        BadSchemaError: when the schema cannot be used.
    """
    try:
        validator = _validator(canonical_json.dumps(schema))
    except jsonschema_rs.ValidationError as error:
        _, why = _unusable(error, schema)
        raise BadSchemaError(f"the schema cannot be used: {why}") from None
    except (canonical_json.NotJsonError, ValueError, jsonschema_rs.ReferencingError) as error:
        raise BadSchemaError(f"the schema cannot be used: {_reason(error)}") from None
    try:
        return [
            (tuple(error.instance_path), _in_words(error, schema))
            for found in validator.iter_errors(value)
            for error in _of_only_branch(found)
        ]
    except ValueError:
        return [((), _TOO_DEEP)]


class InvalidArgumentsError(CovaltError):
    """A tool was called with arguments that it does not take."""

    code = "invalid_arguments"

    def __init__(self, tool_id: str, found: Sequence[tuple[str, str]]) -> None:
        problems = [Problem(path, 0, 0, "invalid_arguments", message) for path, message in found]
        namespace, _, name = tool_id.partition(":")
        is_shown = name and namespace != BUILTIN_NAMESPACE
        super().__init__(
            f"{tool_id} does not take these arguments",
            hint=f"covalt-git tool show {tool_id}" if is_shown else "",
            problems=problems,
        )


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        canonical_json.loads(schema),
        retriever=_refuse,
        pattern_options=jsonschema_rs.RegexOptions(),
        mask=_MASK,
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


# What is wrong with a schema


def _in_schema_words(error: jsonschema_rs.ValidationError) -> str:
    """Return in words how a schema differs from the meta-schema, whose one ``anyOf`` is ``type``."""
    kind: Any = error.kind
    if type(kind).__name__ != "AnyOf":
        if getattr(kind, "types", []) == ["boolean", "object"]:
            return f"must be a schema, such as {{type: string}}, not {_kind_of(error.instance)}"
        return _in_words(error, {})
    value = error.instance
    names = value if isinstance(value, list) else [value]
    wrong = [one for one in names if not isinstance(one, str) or one not in _NAMES]
    if not wrong:
        return f"{_shortened(value)} names no type, or one of them twice"
    if not isinstance(wrong[0], str):
        return f"{_shortened(value)} is no type; one of: {', '.join(_NAMES)}"
    near = _TYPE_SLIPS.get(wrong[0].lower()) or nearest_name(wrong[0], _NAMES)
    meant = f", did you mean {near!r}?" if near else f"; one of: {', '.join(_NAMES)}"
    return f"{wrong[0]!r} is no type{meant}"


def _unusable(error: jsonschema_rs.ValidationError, schema: JsonObject) -> tuple[Loc, str]:
    """Return where and why the engine cannot use a schema whose form is right."""
    if type(error.kind).__name__ == "Format":
        pattern = error.instance_path[-1] if _is_key(error.instance_path) else error.instance
        why = "is no regular expression, or looks around or back, which is not supported"
        return tuple(error.instance_path), f"the pattern {_shortened(pattern)} {why}"
    reason = str(error).splitlines()[0]
    quoted = re.search(r"'(.*?)'", reason)
    if quoted is None:
        return (), reason
    named = quoted[1]
    if "retrieving it failed" in reason:
        place = _reference(schema, lambda ref: _refers_to(ref, named))
        return place, f"{named!r} is outside this schema, and nothing is fetched"
    place = _reference(schema, lambda ref: ref.endswith((f"#{named}", named)))
    if "does not exist" not in reason:
        return place, reason
    known = [f"/{key}/{name}" for key in ("$defs", "definitions") for name in schema.get(key, {})]
    near = nearest_name(named, known)
    meant = f", did you mean {f'#{near}'!r}?" if near else ""
    return place, f"{f'#{named}'!r} is not in this schema{meant}"


def _reason(error: Exception) -> str:
    reason = str(error).splitlines()[0]
    return _TOO_DEEP if reason.startswith("Recursion limit") else reason


def _is_key(path: Sequence[str | int]) -> bool:
    return len(path) > 1 and path[-2] == "patternProperties"


def _refers_to(ref: str, uri: str) -> bool:
    """Tell whether a reference means the document that the engine looked for."""
    document = ref.partition("#")[0].removeprefix("./").removeprefix("../")
    return bool(document) and (uri == document or uri.endswith(f"/{document.lstrip('/')}"))


def _reference(schema: JsonObject, is_meant: Callable[[str], bool]) -> Loc:
    """Return the place of the first reference that is meant, or of the whole schema."""
    waiting: list[tuple[Loc, Any]] = [((), schema)]
    while waiting:
        loc, value = waiting.pop()
        if loc and loc[-1] in {pointer.REF, "$dynamicRef"} and isinstance(value, str):
            if is_meant(value):
                return loc
        elif isinstance(value, dict):
            waiting += [((*loc, key), inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [((*loc, at), inner) for at, inner in reversed(list(enumerate(value)))]
    return ()


# What is wrong with a value


def _of_only_branch(
    error: jsonschema_rs.ValidationError,
) -> Iterator[jsonschema_rs.ValidationError]:
    """Yield the errors of the only branch of a union besides null, or else the error itself."""
    kind: Any = error.kind
    is_union = type(kind).__name__ in {"AnyOf", "OneOfNotValid"}
    if is_union and not _types_of(kind.context, error):
        others = [branch for branch in kind.context if _types_of([branch], error) != ["null"]]
        if len(others) == 1:
            for inner in others[0]:
                yield from _of_only_branch(inner)
            return
    yield error


def _in_words(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    words = _explained(error, schema) or str(error.message).replace(
        _MASK, _shortened(error.instance)
    )
    return shorten(words, _MAX_MESSAGE)


def _explained(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    kind: Any = error.kind  # one class for each keyword, each with attributes of its own
    match type(kind).__name__:
        case "Type":
            return _wrong_type(kind.types, error.instance)
        case "Required":
            return f"{kind.property!r} is missing"
        case "AdditionalProperties" | "UnevaluatedProperties":
            return _unknown(kind.unexpected, error, schema)
        case "Enum":
            return _none_of(kind.options, error.instance)
        case "Constant":
            return f"must be {_shortened(kind.expected_value)}, not {_shortened(error.instance)}"
        case "AnyOf" | "OneOfNotValid":
            types = _types_of(kind.context, error)
            if types:
                return _wrong_type(types, error.instance)
            return f"{_shortened(error.instance)} is none of what is allowed here"
        case "OneOfMultipleValid":
            return (
                f"{_shortened(error.instance)} fits several of what is allowed here, not just one"
            )
        case "FalseSchema" | "Not":
            return f"{_shortened(error.instance)} is not allowed here"
        case "Contains":
            return f"{_shortened(error.instance)} lacks an item that has to be there"
        case "PropertyNames":
            return f"the key {_in_words(kind.error, schema)}"
        case _:
            return ""


def _wrong_type(types: Sequence[str], value: Any) -> str:
    ordered = sorted(types, key=lambda name: name == "null")
    wanted = " or ".join(_NAMES.get(name, name) for name in ordered)
    return f"must be {wanted}, not {_kind_of(value)}"


def _none_of(options: Sequence[Any], value: Any) -> str:
    texts = [option for option in options if isinstance(option, str)]
    near = nearest_name(value, texts) if isinstance(value, str) else None
    meant = f", did you mean {_shortened(near)}?" if near else ""
    return f"{_shortened(value)} is none of {', '.join(map(_shortened, options))}{meant}"


def _types_of(
    branches: Sequence[Sequence[jsonschema_rs.ValidationError]],
    error: jsonschema_rs.ValidationError,
) -> list[str]:
    """Return the types that a choice allows, where each part of it says no more than a type."""
    types: list[str] = []
    for branch in branches:
        if len(branch) != 1 or type(branch[0].kind).__name__ != "Type":
            return []
        if list(branch[0].instance_path) != list(error.instance_path):
            return []
        kind: Any = branch[0].kind
        types += kind.types
    return list(dict.fromkeys(types))


def _unknown(names: Sequence[str], error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    place: Any = schema
    for part in error.schema_path[:-1]:
        place = place.get(part) if isinstance(place, dict) else None
    properties = place.get("properties") if isinstance(place, dict) else None
    known = list(properties) if isinstance(properties, dict) else []
    words = []
    for name in names:
        near = nearest_name(name, known)
        words.append(f"{name!r} is unknown" + (f", did you mean {near!r}?" if near else ""))
    return "; ".join(words)


def _shortened(value: Any) -> str:
    """Return a value as JSON, as much of it as a message should show."""
    try:
        return shorten(canonical_json.dumps(value).decode())
    except canonical_json.NotJsonError:
        return _kind_of(value)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "null"
    kinds = {dict: "an object", list: "a list", str: "a text", int: "an integer"}
    return kinds.get(type(value), "a number")
