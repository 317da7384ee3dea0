"""Tools in modules that write their annotations as strings, as ``from __future__`` makes them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, NotRequired, TypedDict

from pydantic import BaseModel

from covalt_toolset import describe, invoke, set_context

if TYPE_CHECKING:
    from pathlib import Path
    from pathlib import Path as Elsewhere


class Settings(BaseModel):
    when: dt.date
    parent: Settings | None = None


class Row(TypedDict):
    name: str
    size: NotRequired[int]


def plan(settings: Settings, rows: list[Row]) -> str:
    return f"{settings.when:%d.%m.%Y} {rows[0]['name']}"


def where(workspace: Path) -> str:
    return workspace.name


def returns_elsewhere() -> Elsewhere:
    raise NotImplementedError


def test_strings_are_resolved_in_the_module_of_the_function() -> None:
    result = invoke(plan, {"settings": {"when": "2026-01-31"}, "rows": [{"name": "a"}]})

    assert result == "31.01.2026 a"


def test_a_not_required_key_written_as_a_string_is_not_required() -> None:
    schema = describe(plan).input_schema

    assert schema["$defs"]["Row"]["required"] == ["name"]


def test_workspace_is_injected_where_only_type_checkers_import_path(tmp_path: Path) -> None:
    with set_context(workspace=tmp_path):
        assert invoke(where, {}) == tmp_path.name
    assert describe(where).input_schema["properties"] == {}


def test_return_type_that_only_type_checkers_know_has_no_schema() -> None:
    assert describe(returns_elsewhere).output_schema is None
