"""Reading one YAML file into its model, with every problem at its line and column, in plain words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.errors import Problem, nearest_name
from covalt_git.models import problems as codes
from covalt_git.models.base import JsonObject, StrictModel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=StrictModel)
Loc = tuple[str | int, ...]

_KINDS = {
    "string": "a text",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "model_attributes": "a mapping",
    "list": "a list",
}


@dataclass(frozen=True, slots=True)
class Reading(Generic[Model]):
    """One file as it was read: its model where it is sound, and what is wrong where it is not."""

    path: str
    value: Model | None
    document: yaml_text.Document | None
    problems: tuple[Problem, ...] = ()

    def problem(
        self,
        code: str,
        loc: Loc,
        message: str,
        *,
        hint: str = "",
        key: bool = False,
        severity: str = "error",
    ) -> Problem:
        """Return a problem at a place of this file."""
        line, col = self.document.locate(loc, key=key) if self.document else (0, 0)
        place = self.name(loc)
        words = f"{place}: {message}" if place else message
        return Problem(self.path, line, col, code, words, hint, severity)

    def name(self, loc: Loc) -> str:
        """Return a place of this file, list items named by their id: ``tools[greet].renderer``."""
        return name_place(self.document.data if self.document else None, loc)


def read_yaml(file: Path, shown: str, model: type[Model]) -> Reading[Model]:
    """Read ``file`` as ``model``; ``shown`` is its path as people know it.  Never raises for content."""
    try:
        document = yaml_text.load_file(file, shown)
    except yaml_text.YamlProblems as error:
        return Reading(shown, None, None, error.problems)
    return check(document, model)


def check(document: yaml_text.Document, model: type[Model]) -> Reading[Model]:
    """Return the model of a document, or all that is wrong with it."""
    try:
        value = model.model_validate(document.data)
    except ValidationError as error:
        return Reading(document.path, None, document, _problems(document, (), error, model))
    return Reading(document.path, value, document)


def part_problems(
    document: yaml_text.Document, loc: Loc, value: Any, model: type[StrictModel]
) -> tuple[Problem, ...]:
    """Return what is wrong with a part of a document that has a model of its own."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return _problems(document, loc, error, model)
    return ()


def shown_path(file: Path, root: Path) -> str:
    """Return a file's path as problems and the index name it: relative to the project."""
    return file.relative_to(root).as_posix()


def name_place(data: Any, loc: Loc) -> str:
    """Return a place in a document's data, as people would name it."""
    words = ""
    for part in loc:
        if isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
            label = data.get("id", data.get("tool_id", part)) if isinstance(data, dict) else part
            words += f"[{label}]"
        elif isinstance(data, dict) and part in data:
            data = data[part]
            words += f".{part}"
    return words.removeprefix(".")


def _problems(
    document: yaml_text.Document, above: Loc, error: ValidationError, model: type[StrictModel]
) -> tuple[Problem, ...]:
    schema = model.model_json_schema()
    found = {_problem(document, above, details, schema) for details in error.errors()}
    return tuple(sorted(found))


def _problem(
    document: yaml_text.Document, above: Loc, details: ErrorDetails, schema: JsonObject
) -> Problem:
    kind, loc = details["type"], (*above, *details["loc"])
    code, message, hint = _in_words(details, schema)
    extra = kind in {"extra_forbidden", "invalid_key"}
    line, col = document.locate(loc, key=extra)
    place = name_place(document.data, loc[:-1] if extra or kind == "missing" else loc)
    words = f"{place}: {message}" if place else message
    return Problem(document.path, line, col, code, words, hint)


def _in_words(details: ErrorDetails, schema: JsonObject) -> tuple[str, str, str]:
    """Return code, message and hint of one of pydantic's errors."""
    kind, loc, value = details["type"], tuple(details["loc"]), details["input"]
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        known = _known_keys(schema, loc[:-1])
        near = nearest_name(str(loc[-1]), known)
        listed = f"known keys: {', '.join(known)}"
        hint = f"write '{near}'; {listed}" if near else listed
        return codes.UNKNOWN_KEY, f"unknown key {str(loc[-1])!r}", hint
    if kind == "missing":
        return codes.MISSING_KEY, f"missing key {str(loc[-1])!r}", f"add a line: {loc[-1]}: ..."
    if kind in {"bad_id", "bad_pattern", "bad_entrypoint", "one_of", "unknown_role"}:
        code = codes.BAD_ID if kind == "bad_id" else codes.BAD_VALUE
        return code, details["msg"], str(context.get("hint", ""))
    if kind in {"literal_error", "union_tag_invalid"}:
        allowed = str(context.get("expected", context.get("expected_tags", "")))
        options = re.findall(r"'([^']*)'", allowed) or [allowed]
        near = nearest_name(str(value), options)
        return (
            codes.BAD_VALUE,
            f"{_short(value)} is not allowed",
            (f"write {near}; " if near and isinstance(value, str) else "")
            + f"one of: {', '.join(options)}",
        )
    if kind.removesuffix("_type") in _KINDS:
        return (
            codes.BAD_VALUE,
            f"must be {_KINDS[kind.removesuffix('_type')]}, not {_short(value)}",
            _as_type(kind, value),
        )
    if kind == "string_pattern_mismatch":
        return (
            codes.BAD_VALUE,
            f"{_short(value)} has not the form it needs",
            str(f"it has to match {context.get('pattern')}"),
        )
    message = details["msg"].removeprefix("Input should ").removeprefix("String should ")
    return codes.BAD_VALUE, f"{_short(value)} must {message}", ""


def _as_type(kind: str, value: Any) -> str:
    """Return how the value would be written as the type that is wanted, where that is plain."""
    if kind == "bool_type" and isinstance(value, str):
        words = {
            "yes": "true",
            "on": "true",
            "y": "true",
            "no": "false",
            "off": "false",
            "n": "false",
        }
        return f"write {words[value.lower()]}" if value.lower() in words else ""
    if kind != "string_type":
        return ""
    scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
    return f'put it in quotes: "{value}"' if scalar else ""


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."  # noqa: PLR2004 - fits on a line


def _known_keys(schema: JsonObject, loc: Sequence[str | int]) -> list[str]:
    """Return the keys that the schema knows at a place, sorted; none where any is allowed."""
    places = [schema]
    for part in loc:
        below = [found for place in places for found in _step(schema, place, part)]
        places = below or places  # a union's tag is in the place but not in the schema
    keys = {key for place in _resolve(schema, places) for key in place.get("properties", {})}
    return sorted(keys)


def _step(root: JsonObject, place: JsonObject, part: str | int) -> list[JsonObject]:
    found = []
    for schema in _resolve(root, [place]):
        if isinstance(part, int) and isinstance(schema.get("items"), dict):
            found.append(schema["items"])
        elif part in schema.get("properties", {}):
            found.append(schema["properties"][part])
        elif isinstance(schema.get("additionalProperties"), dict):
            found.append(schema["additionalProperties"])
    return found


def _resolve(root: JsonObject, places: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the schemas behind references and alternatives."""
    found = []
    for place in places:
        if "$ref" in place:
            name = place["$ref"].rpartition("/")[2]
            found += _resolve(root, [root["$defs"][name]])
        elif "anyOf" in place or "oneOf" in place:
            found += _resolve(root, place.get("anyOf") or place["oneOf"])
        else:
            found.append(place)
    return found
