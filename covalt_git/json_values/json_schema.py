"""Validation by JSON Schema, draft 2020-12: of schemas themselves and of values.

Schemas are untrusted.  Remote references are not fetched, and regular expressions run in linear time.
"""

from __future__ import annotations

import copy
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema_rs

from covalt_git.errors import MOST_LISTED, CovaltError, Problem, listed, nearest_name
from covalt_git.json_values import canonical_json, leaves, pointer
from covalt_git.json_values.pointer import json_path
from covalt_git.json_values.unions import of_meant_branch, tag_of, types_of
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

_TYPE_CORRECTIONS = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "none": "null",
}
"""Frequent mistakes for types of JSON Schema, and the correct types."""

_MASK = "\ue000"
"""Placeholder of the value in the engine's messages, which would contain all of it."""

_MAX_MESSAGE = 300
_INTEGER = re.compile(r"-?[1-9][0-9]*", re.ASCII)
# Python takes the square of the digits to parse an integer, and refuses more than 4,300.
_MOST_DIGITS = 1000
_TOO_DEEP = "nested too deeply"

Loc = pointer.Loc


class BadSchemaError(CovaltError):
    """A schema is invalid, or has a remote reference."""

    code = "bad_schema"


def schema_problems(schema: JsonObject) -> list[tuple[Loc, str]]:
    """Return the problems of a schema: place and message of each."""
    try:
        errors = _validator(_META).iter_errors(schema)
        problems = [(tuple(error.instance_path), _schema_message(error)) for error in errors]
    except ValueError:
        return [((), _TOO_DEEP)]
    if problems:
        return list(dict.fromkeys(problems))  # the meta-schema reports some problems several times
    # The meta-schema knows neither patterns nor where references lead.
    compiled = _compiled(schema)
    return [compiled] if isinstance(compiled, tuple) else []


def value_problems(schema: JsonObject, value: Any) -> list[tuple[Loc, str]]:
    """Return the problems of a value: place and message of each.

    Raises:
        BadSchemaError: when the schema is invalid.
    """
    validator = _compiled(schema)
    if isinstance(validator, tuple):
        raise BadSchemaError(f"the schema is invalid: {validator[1]}")
    if missing := _many_missing(schema, value):
        return missing
    try:
        problems = [
            (tuple(error.instance_path), _message(error, schema))
            for refusal in validator.iter_errors(value)
            for error in of_meant_branch(refusal, schema)
        ]
    except ValueError:
        return [((), _TOO_DEEP)]
    return list(dict.fromkeys(problems))  # a tag may be missing for its object and for the union


def _many_missing(schema: JsonObject, value: Any) -> list[tuple[Loc, str]]:
    """Return that many keys are missing: for each of them, the engine would copy the whole value."""
    if not isinstance(value, dict):
        return []
    names = [name for name in schema.get("required", ()) if name not in value]
    more = len(names) - MOST_LISTED
    if more <= 0:
        return []
    return [
        *(((), f"{name!r} is missing") for name in names[:MOST_LISTED]),
        ((), f"{more} more keys are missing"),
    ]


def with_integers(schema: JsonObject, value: Any) -> Any:
    """Return a value with integers beyond 2^53, which JSON carries as texts of their digits, where the schema wants integers.

    A value in which no text is such an integer is returned unchanged.

    Raises:
        BadSchemaError: when the schema is invalid.
    """
    if not any(isinstance(leaf, str) and _is_large(leaf) for _, leaf in leaves(value)):
        return value
    validator = _compiled(schema)
    if isinstance(validator, tuple):
        raise BadSchemaError(f"the schema is invalid: {validator[1]}")
    changed = copy.deepcopy(value)  # the value itself is what the record of the call has
    for refusal in validator.iter_errors(value):
        for error in of_meant_branch(refusal, schema):
            place, text = tuple(error.instance_path), error.instance
            is_wanted = "integer" in _wanted_types(error)
            if place and is_wanted and isinstance(text, str) and _is_large(text):
                parent = changed
                for part in place[:-1]:
                    parent = parent[part]
                parent[place[-1]] = int(text)
    return changed


def _is_large(text: str) -> bool:
    if len(text) > _MOST_DIGITS or not _INTEGER.fullmatch(text):
        return False
    return abs(int(text)) > canonical_json.MAX_EXACT_INTEGER


def _wanted_types(error: jsonschema_rs.ValidationError) -> Sequence[str]:
    """Return the types that a value of another type could have had."""
    kind: Any = error.kind
    match type(kind).__name__:
        case "Type":
            return list(kind.types)
        case "AnyOf" | "OneOfNotValid":
            return types_of(kind.context, error)
    return ()


def with_defaults(schema: JsonObject, values: JsonObject) -> JsonObject:
    """Return the values and, for properties without one, the ``default`` of their schema.

    A default of null is left out: the property stays missing.
    """
    properties = schema.get("properties", {})
    defaults = {
        name: inner["default"]
        for name, inner in properties.items()
        if isinstance(inner, dict) and inner.get("default") is not None
    }
    return defaults | values


class InvalidArgumentsError(CovaltError):
    """The arguments of a call do not match the tool's schema."""

    code = "invalid_arguments"

    def __init__(self, tool_id: str, found: Sequence[tuple[str, str]], *, hint: str = "") -> None:
        problems = [Problem(path, 0, 0, "invalid_arguments", message) for path, message in found]
        super().__init__(
            f"invalid arguments for {tool_id}",
            hint=hint or (f"covalt-git tool schema {tool_id}" if ":" in tool_id else ""),
            problems=problems,
        )


def _compiled(schema: JsonObject) -> jsonschema_rs.Draft202012Validator | tuple[Loc, str]:
    """Return the validator of a schema, or the place and the reason why it has none."""
    try:
        return _validator(canonical_json.dumps(schema))
    except jsonschema_rs.ValidationError as error:
        return _unusable(error, schema)
    except (canonical_json.NotJsonError, ValueError, jsonschema_rs.ReferencingError) as error:
        return (), _reason(error)


# By bytes: a dict is no key of a cache, and equal schemas have equal canonical bytes.
@lru_cache(maxsize=512)
def _validator(schema: bytes) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        canonical_json.loads(schema),
        # The engine would request a URL of a schema, and read a file (test_no_url_is_requested).
        retriever=_refuse,
        # The default engine of patterns also has lookaround and backreferences, for which it backtracks.
        pattern_options=jsonschema_rs.RegexOptions(),
        mask=_MASK,
    )


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


# Problems of a schema


def _schema_message(error: jsonschema_rs.ValidationError) -> str:
    """Return the message of a problem of a schema; the meta-schema's only ``anyOf`` is ``type``."""
    kind: Any = error.kind
    if type(kind).__name__ != "AnyOf":
        if getattr(kind, "types", []) == ["boolean", "object"]:
            return f"must be a schema, such as {{type: string}}, not {_kind_of(error.instance)}"
        return _message(error, {})
    value = error.instance
    names = value if isinstance(value, list) else [value]
    wrong = [name for name in names if not isinstance(name, str) or name not in _NAMES]
    if not wrong:
        return f"{_shortened(value)} has no type, or the same type twice"
    if not isinstance(wrong[0], str):
        return f"{_shortened(value)} is not a type; one of: {', '.join(_NAMES)}"
    near = _TYPE_CORRECTIONS.get(wrong[0].lower()) or nearest_name(wrong[0], _NAMES)
    suggestion = f", did you mean {near!r}?" if near else f"; one of: {', '.join(_NAMES)}"
    return f"{wrong[0]!r} is not a type{suggestion}"


def _unusable(error: jsonschema_rs.ValidationError, schema: JsonObject) -> tuple[Loc, str]:
    """Return the place and the reason why the engine rejects a schema that matches the meta-schema."""
    if type(error.kind).__name__ == "Format":
        path = error.instance_path
        is_key = len(path) > 1 and path[-2] == "patternProperties"
        pattern = path[-1] if is_key else error.instance
        reason = "is invalid, or uses lookaround or backreferences, which are not supported"
        return tuple(path), f"the pattern {_shortened(pattern)} {reason}"
    # The error of a reference has no place: it is searched for by the name in the engine's words.
    reason = str(error).splitlines()[0]
    quoted = re.search(r"'(.*?)'", reason)
    if quoted is None:
        return (), reason
    named = quoted[1]
    if "retrieving it failed" in reason:
        place = _reference(schema, lambda ref: _refers_to(ref, named))
        return place, f"{named!r} is outside of this schema, and is not fetched"
    place = _reference(schema, lambda ref: ref.endswith((f"#{named}", named)))
    if "does not exist" not in reason:
        return place, reason
    targets = [f"/{key}/{name}" for key in ("$defs", "definitions") for name in schema.get(key, {})]
    near = nearest_name(named, targets)
    suggestion = f", did you mean {f'#{near}'!r}?" if near else ""
    return place, f"{f'#{named}'!r} is not in this schema{suggestion}"


def _reason(error: Exception) -> str:
    reason = str(error).splitlines()[0]
    return _TOO_DEEP if reason.startswith("Recursion limit") else reason


def _refers_to(ref: str, uri: str) -> bool:
    """Return whether a reference has the URI that the engine tried to fetch."""
    document = ref.partition("#")[0].removeprefix("./").removeprefix("../")
    return bool(document) and (uri == document or uri.endswith(f"/{document.lstrip('/')}"))


def _reference(schema: JsonObject, is_meant: Callable[[str], bool]) -> Loc:
    """Return the place of the first reference for which ``is_meant`` is true, or of the schema."""
    references = (
        loc
        for loc, text in leaves(schema)
        if loc[-1:] in {(pointer.REF,), ("$dynamicRef",)}
        and isinstance(text, str)
        and is_meant(text)
    )
    return next(references, ())


# Problems of a value


def _message(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    words = _explanation(error, schema) or str(error.message).replace(
        _MASK, _shortened(error.instance)
    )
    return shorten(words, _MAX_MESSAGE)


def _explanation(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    kind: Any = error.kind  # each keyword has a class with different attributes
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
            types = types_of(kind.context, error)
            if types:
                return _wrong_type(types, error.instance)
            return _no_branch(error, schema)
        case "OneOfMultipleValid":
            return f"{_shortened(error.instance)} matches several alternatives, not exactly one"
        case "FalseSchema" | "Not":
            return f"{_shortened(error.instance)} is not allowed here"
        case "Contains":
            return f"{_shortened(error.instance)} has no item that matches 'contains'"
        case "PropertyNames":
            return f"the key {_message(kind.error, schema)}"
        case _:
            return ""


def _no_branch(error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    """Return why a value matches no branch of a union: its tag, or what is wrong with it for each of them."""
    kind: Any = error.kind
    value: Any = error.instance
    tag = tag_of(error, schema)
    if tag is not None and tag.name in value:
        options = [option for options in tag.values for option in options]
        return f"{tag.name!r} {_none_of(options, value[tag.name])}"
    if tag is not None:
        return f"{tag.name!r} is missing"
    words = f"{_shortened(error.instance)} matches none of the alternatives"
    reasons = []
    for branch in kind.context:
        place = branch[0].instance_path[len(error.instance_path) :]
        at = f"{json_path(tuple(place)).removeprefix('$.')} " if place else ""
        reasons.append(at + _message(branch[0], schema))
    return f"{words}: {'; '.join(dict.fromkeys(reasons))}"


def _wrong_type(types: Sequence[str], value: Any) -> str:
    ordered = sorted(types, key=lambda name: name == "null")
    expected = " or ".join(_NAMES.get(name, name) for name in ordered)
    return f"must be {expected}, not {_kind_of(value)}"


def _none_of(options: Sequence[Any], value: Any) -> str:
    texts = [option for option in options if isinstance(option, str)]
    near = nearest_name(value, texts) if isinstance(value, str) else None
    suggestion = f", did you mean {_shortened(near)}?" if near else ""
    allowed = listed([_shortened(option) for option in options], MOST_LISTED)
    return f"must be one of {allowed}, not {_shortened(value)}{suggestion}"


def _unknown(names: Sequence[str], error: jsonschema_rs.ValidationError, schema: JsonObject) -> str:
    place: Any = schema
    for part in error.schema_path[:-1]:
        place = place.get(part) if isinstance(place, dict) else None
    properties = place.get("properties") if isinstance(place, dict) else None
    candidates = list(properties) if isinstance(properties, dict) else []
    words = []
    # Each search compares a name with all properties, and the arguments of a call have any number of names.
    for name in names[:MOST_LISTED]:
        near = nearest_name(name, candidates)
        words.append(f"{name!r} is unknown" + (f", did you mean {near!r}?" if near else ""))
    if len(names) > MOST_LISTED:
        words.append(f"{len(names) - MOST_LISTED} more are unknown")
    return "; ".join(words)


def _shortened(value: Any) -> str:
    """Return a value as JSON, shortened for a message."""
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
