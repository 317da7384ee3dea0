"""Data Lab: columns, charts, reports and selections of tables, and broken tables."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_toolset import invoke, set_context
from tests.sample_toolsets.conftest import TOOLSETS
from tests.tables import tables

FOLDER = TOOLSETS / "data-lab"
TABLES = tables(__file__)


@pytest.fixture(scope="module")
def lab(load: Callable[[str, str], ModuleType]) -> ModuleType:
    return load("data-lab", "tools.lab")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    with set_context(workspace=tmp_path, toolset_id="data-lab", toolset_dir=FOLDER):
        yield tmp_path


def save(workspace: Path, text: str, name: str = "table.csv") -> str:
    (workspace / name).write_text(text, encoding="utf-8", newline="")
    return name


def summary(lab: ModuleType, workspace: Path, text: str, **arguments: Any) -> Any:
    return invoke(lab.summarize, {"path": save(workspace, text), **arguments})


def column(summarized: Any, name: str) -> Any:
    return next(column for column in summarized["columns"] if column["name"] == name)


# What a column is


@pytest.mark.parametrize(("cells", "kind", "missing"), TABLES["columns"])
def test_column_has_the_narrowest_type_that_fits_every_cell(
    lab: ModuleType, workspace: Path, cells: list[str], kind: str, missing: int
) -> None:
    rows = "".join(f"x,{cell}\n" for cell in cells)
    found = column(summary(lab, workspace, f"id,value\n{rows}"), "value")

    assert (found["type"], found["missing"]) == (kind, missing)
    assert found["count"] + found["missing"] == len(cells)


# Charts


@given(
    rows=st.lists(
        st.tuples(st.dates(), st.integers(-1000, 1000), st.sampled_from("abcdefg")),
        min_size=1,
        max_size=40,
    ),
    by=st.sampled_from(["auto", "rows"]),
)
def test_charts_contain_every_row_and_total(
    lab: ModuleType, tmp_path_factory: pytest.TempPathFactory, rows: list[Any], by: str
) -> None:
    """The totals add up to the total of the column, and every row is in one bucket."""
    workspace = tmp_path_factory.mktemp("workspace", numbered=True)
    text = "".join(f"{day},{number},{kind}\n" for day, number, kind in rows)
    with set_context(workspace=workspace):
        found = summary(lab, workspace, f"day,n,kind\n{text}", by=by, totals=["n"])
    drawn = {each["title"]: each for each in found["series"]["charts"]}

    if drawn["n"]["form"] == "bars":
        total = sum(value for value in drawn["n"]["values"] if value is not None)
        assert total == sum(number for _, number, _ in rows)
    if "kind" in drawn and drawn["kind"]["form"] == "stack":
        counted = sum(sum(part["values"]) for part in drawn["kind"]["parts"])
        assert counted == len(rows)
    for each in found["series"]["charts"]:
        for values in (each.get("values"), each.get("low"), each.get("high")):
            assert values is None or len(values) == len(found["series"]["labels"])


# Broken tables and wrong arguments


@pytest.mark.parametrize(("content", "message"), TABLES["broken_tables"])
def test_broken_table_is_refused_with_line_and_column(
    lab: ModuleType, workspace: Path, content: str, message: str
) -> None:
    (workspace / "t.csv").write_bytes(content.encode("latin-1"))

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        invoke(lab.summarize, {"path": "t.csv"})

    assert str(caught.value) == message
