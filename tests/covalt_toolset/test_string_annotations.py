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
    assert describe(plan).input_schema["$defs"]["Row"]["required"] == ["name"]


def test_names_that_only_type_checkers_import_name_the_workspace_or_no_schema(
    tmp_path: Path,
) -> None:
    with set_context(workspace=tmp_path):
        assert invoke(where, {}) == tmp_path.name
    assert describe(where).input_schema["properties"] == {}
    assert describe(returns_elsewhere).output_schema is None
