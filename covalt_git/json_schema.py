"""JSON Schema: whether a schema is one, and everything that is wrong with a value under it.

Draft 2020-12.  Schemas come from other people: nothing they refer to is ever fetched, and their
patterns run on an engine whose time is linear in the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema_rs

from covalt_git import canonical_json
from covalt_git.errors import CovaltError, Problem, nearest_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.base import JsonObject

_META = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
}

Loc = tuple[str | int, ...]


class BadSchemaError(CovaltError):
    """A schema that is none, or that refers outside itself."""

    code = "bad_schema"


def schema_problems(schema: JsonObject) -> list[tuple[Loc, str]]:
    """Return what is wrong with a schema itself: the place in it, and the problem in words."""
    found = [
        (tuple(error.instance_path), _in_words(error, schema))
        for error in _validator(canonical_json.dumps(_META)).iter_errors(schema)
    ]
    if found:
        return found
    try:
        _validator(canonical_json.dumps(schema))
    except jsonschema_rs.ValidationError as error:
        reason = str(error).splitlines()[0]
        if "retrieving it failed" in reason:
            uri = reason.split("'")[1]
            reason = f"{uri!r} is outside this schema, and nothing is fetched"
        return [((), reason)]
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return [((), str(error).splitlines()[0])]
    return []


def value_problems(schema: JsonObject, value: Any) -> list[tuple[Loc, str]]:
    """Return what is wrong with a value: every place in it, and the problem in words.

    Raises:
        BadSchemaError: when the schema cannot be used.
    """
    try:
        validator = _validator(canonical_json.dumps(schema))
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise BadSchemaError(f"the schema cannot be used: {str(error).splitlines()[0]}") from None
    return [
        (tuple(error.instance_path), _in_words(error, schema))
        for error in validator.iter_errors(value)
    ]


class InvalidArgumentsError(CovaltError):
    """A tool was called with arguments that it does not take."""

    code = "invalid_arguments"

    def __init__(self, tool_id: str, found: Sequence[tuple[str, str]]) -> None:
        problems = [Problem(path, 0, 0, "invalid_arguments", message) for path, message in found]
        super().__init__(
            f"{tool_id} does not take these arguments",
            hint=f"covalt-git tool show {tool_id}",
            problems=problems,
        )


def json_path(loc: Loc) -> str:
    """Return a place in a JSON value as people write it: ``$.rows[3].name``."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc]
    return "$" + "".join(parts)


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        canonical_json.loads(schema),
        retriever=_refuse,
        pattern_options=jsonschema_rs.RegexOptions(),
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


def _in_words(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    kind: Any = error.kind  # one class for each keyword, each with attributes of its own
    match type(kind).__name__:
        case "Type":
            wanted = " or ".join(_NAMES.get(name, name) for name in kind.types)
            return f"must be {wanted}, not {_kind_of(error.instance)}"
        case "Required":
            return f"{kind.property!r} is missing"
        case "AdditionalProperties":
            return _unknown(kind.unexpected, error, schema)
        case "Enum":
            return str(error.message).replace("is not one of", "is none of")
        case "AnyOf" | "OneOfNotValid":
            shown = canonical_json.dumps(error.instance).decode()[:40]
            return f"{shown} is none of what is allowed here"
        case _:
            return str(error.message)


def _unknown(names: Sequence[str], error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    known: list[str] = []
    if not list(error.instance_path):
        known = list(schema.get("properties", {}))
    words = []
    for name in names:
        near = nearest_name(name, known)
        words.append(f"{name!r} is unknown" + (f", did you mean {near!r}?" if near else ""))
    return "; ".join(words)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "null"
    kinds = {dict: "an object", list: "a list", str: "a text", int: "an integer"}
    return kinds.get(type(value), "a number")
