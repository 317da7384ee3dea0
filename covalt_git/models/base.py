"""The base of all models, and the small types that they share."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from pydantic.types import Strict, StrictBool, StrictInt
from pydantic_core import PydanticCustomError

from covalt_git.names import is_id, is_pattern, is_tool_name, suggest_id

JsonObject = dict[str, Any]
"""A JSON object whose keys are somebody else's."""


class StrictModel(BaseModel):
    """Frozen, and an unknown key is an error: a typo must not pass in silence."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, defer_build=True
    )


def _check_id(text: str) -> str:
    if is_id(text):
        return text
    near = suggest_id(text)
    raise PydanticCustomError(
        "bad_id",
        "{text} is not an id",
        {
            "text": repr(text),
            "hint": f"write {near}" if near else "use lower-case words joined by - or _",
        },
    )


def _check_tool_name(text: str) -> str:
    if is_tool_name(text):
        return text
    raise PydanticCustomError(
        "bad_id",
        "{text} is not a tool id",
        {"text": repr(text), "hint": "use letters, digits, _ and -"},
    )


def _check_pattern(text: str) -> str:
    if is_pattern(text):
        return text
    hint = (
        "write ** for everything"
        if text == "*"
        else "write app-builder.*, app-builder.read_* or **"
    )
    raise PydanticCustomError(
        "bad_pattern", "{text} is not a pattern over tool paths", {"text": repr(text), "hint": hint}
    )


def _check_entrypoint(text: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", text):
        return text
    raise PydanticCustomError(
        "bad_entrypoint",
        "{text} is not module:function",
        {
            "text": repr(text),
            "hint": "write tools.files:write_file for write_file in tools/files.py",
        },
    )


Int = StrictInt
Bool = StrictBool
Number = Annotated[float, Strict()]
Id = Annotated[str, AfterValidator(_check_id)]
ToolName = Annotated[str, AfterValidator(_check_tool_name)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
Entrypoint = Annotated[str, AfterValidator(_check_entrypoint)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")]
"""A moment in UTC, RFC 3339: ``2026-11-20T17:24:00.123Z``."""
