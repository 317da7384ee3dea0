"""Data Lab: columns, charts, reports and selections of tables, the real weather of Seattle and broken ones."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json
from covalt_toolset import invoke, set_context
from tests.examples import examples
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


def chart(summarized: Any, title: str) -> Any:
    return next(chart for chart in summarized["series"]["charts"] if chart["title"] == title)


# The weather of Seattle


def test_sample_is_the_file_that_its_readme_names(lab: ModuleType, workspace: Path) -> None:
    result = invoke(lab.load_sample, {})
    content = (workspace / "weather.csv").read_bytes()

    assert result == {"written": "weather.csv", "size": len(content)}
    readme = (FOLDER / "assets/README.md").read_text(encoding="utf-8")
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" in readme


@pytest.fixture
def weather(lab: ModuleType, workspace: Path) -> Any:
    invoke(lab.load_sample, {})
    assert (workspace / "weather.csv").exists()
    return invoke(lab.summarize, {"path": "weather.csv"})


def test_weather_has_typed_columns_with_statistics(weather: Any) -> None:
    types = {each["name"]: each["type"] for each in weather["columns"]}

    assert weather["rows"] == 1461
    assert types == {
        "date": "date",
        "precipitation": "number",
        "temp_max": "number",
        "temp_min": "number",
        "wind": "number",
        "weather": "text",
    }
    assert column(weather, "date")["max"] == "2015-12-31"
    assert column(weather, "temp_max") == {
        "name": "temp_max",
        "type": "number",
        "count": 1461,
        "missing": 0,
        "distinct": 67,
        "min": -1.6,
        "max": 35.6,
        "mean": 16.43908282,
        "median": 15.6,
        "stdev": 7.349758097,
    }
    assert column(weather, "weather")["top"][0] == {"value": "sun", "count": 714}


def test_weather_is_charted_month_by_month(weather: Any) -> None:
    series = weather["series"]
    forms = [(each["form"], each["title"]) for each in series["charts"]]

    assert (series["by"], series["along"], series["unplaced"]) == ("month", "date", 0)
    assert (series["labels"][0], series["labels"][-1]) == ("2012-01", "2015-12")
    assert len(series["labels"]) == 48
    assert forms == [
        ("bars", "precipitation"),
        ("range", "temp_max and temp_min"),
        ("range", "wind"),
        ("stack", "weather"),
    ]
    temperature = chart(weather, "temp_max and temp_min")
    assert (min(temperature["low"]), max(temperature["high"])) == (-7.1, 35.6)


def test_yearly_rain_is_what_awk_adds_up(lab: ModuleType, weather: Any) -> None:
    assert weather["path"] == "weather.csv"
    yearly: Any = invoke(lab.summarize, {"path": "weather.csv", "by": "year"})

    assert yearly["series"]["labels"] == ["2012", "2013", "2014", "2015"]
    assert chart(yearly, "precipitation")["values"] == [1226.0, 828.0, 1232.8, 1139.2]


def test_every_result_is_json_that_a_commit_can_hold(lab: ModuleType, weather: Any) -> None:
    query = {"path": "weather.csv", "filters": [{"column": "wind", "op": ">", "value": 9}]}
    results: list[object] = [weather, invoke(lab.report, {"path": "weather.csv"})]
    results.append(invoke(lab.select_rows, {"query": query}))

    assert all(canonical_json.dumps(result) for result in results)


# What a column is


@pytest.mark.parametrize(("cells", "kind", "missing"), TABLES["columns"])
def test_column_has_the_narrowest_type_that_fits_every_cell(
    lab: ModuleType, workspace: Path, cells: list[str], kind: str, missing: int
) -> None:
    rows = "".join(f"x,{cell}\n" for cell in cells)
    found = column(summary(lab, workspace, f"id,value\n{rows}"), "value")

    assert (found["type"], found["missing"]) == (kind, missing)
    assert found["count"] + found["missing"] == len(cells)


def test_long_text_is_cut_for_showing(lab: ModuleType, workspace: Path) -> None:
    found = column(summary(lab, workspace, f"a\n{'x' * 200}\n"), "a")

    assert found["top"] == [{"value": "x" * 79 + "…", "count": 1}]


# Charts


def test_missing_months_are_gaps_in_a_chart(lab: ModuleType, workspace: Path) -> None:
    text = "day,sold\n2024-01-05,0\n2024-01-06,3\n2024-04-01,2\n,7\n"
    found = summary(lab, workspace, text, by="month")

    assert found["series"]["labels"] == ["2024-01", "2024-02", "2024-03", "2024-04"]
    assert chart(found, "sold")["values"] == [3, None, None, 2]
    assert found["series"]["unplaced"] == 1


@pytest.mark.parametrize(("last", "by", "points"), TABLES["steps"])
def test_step_of_a_chart_depends_on_its_time_span(
    lab: ModuleType, workspace: Path, last: str, by: str, points: int
) -> None:
    found = summary(lab, workspace, f"day,x\n2024-01-01,1\n{last},2\n")["series"]

    assert (found["by"], len(found["labels"])) == (by, points)


def test_rows_without_dates_are_grouped_in_slices(lab: ModuleType, workspace: Path) -> None:
    found = summary(lab, workspace, "x\n" + "".join(f"{row}\n" for row in range(1, 101)))

    assert found["series"]["labels"][:2] == ["1-3", "4-6"]
    assert found["series"]["labels"][-1] == "100-100"
    assert chart(found, "x")["lines"][0]["values"][:2] == [2, 5]


def test_few_named_rows_are_shown_by_name(lab: ModuleType, workspace: Path) -> None:
    found = summary(lab, workspace, "country,people\nPeru,33\nNauru,-1\n")

    assert chart(found, "people") == {
        "form": "ranking",
        "title": "people",
        "note": "value by country",
        "items": [{"name": "Peru", "value": 33}, {"name": "Nauru", "value": -1}],
    }


def test_many_kinds_are_shown_as_the_largest_and_other(lab: ModuleType, workspace: Path) -> None:
    rows = "".join(f"2024-01-{day:02},k{day % 8},s{day % 14}\n" for day in range(1, 32))
    found = summary(lab, workspace, f"day,few,many\n{rows}", by="month")

    parts = chart(found, "few")["parts"]
    assert [part["name"] for part in parts][-1] == "other"
    assert len(parts) == 6
    assert sum(sum(part["values"]) for part in parts) == 31
    ranking = chart(found, "many")
    assert (ranking["form"], len(ranking["items"]), ranking["others"]) == ("ranking", 10, 4)


def test_caller_chooses_the_totals(lab: ModuleType, workspace: Path) -> None:
    text = "day,sold,price\n2024-01-01,0,5\n2024-01-02,4,6\n"
    by_itself = summary(lab, workspace, text, by="year")
    chosen = summary(lab, workspace, text, by="year", totals=["price"])

    assert (chart(by_itself, "sold")["form"], chart(by_itself, "price")["form"]) == (
        "bars",
        "range",
    )
    assert chart(chosen, "price")["values"] == [11]
    assert chart(chosen, "sold")["form"] == "range"


def test_charts_beyond_twelve_are_left_out_and_named(lab: ModuleType, workspace: Path) -> None:
    header = ",".join(f"c{number}" for number in range(14))
    found = summary(lab, workspace, f"{header}\n{','.join('1' * 14)}\n")["series"]

    assert (len(found["charts"]), found["left_out"]) == (12, ["c12", "c13"])


@given(
    rows=st.lists(
        st.tuples(st.dates(), st.integers(-1000, 1000), st.sampled_from("abcdefg")),
        min_size=1,
        max_size=40,
    ),
    by=st.sampled_from(["auto", "rows"]),
)
@settings(max_examples=examples(60))
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


@pytest.mark.parametrize(("arguments", "message"), TABLES["refused_summaries"])
def test_invalid_summary_is_refused(
    lab: ModuleType, workspace: Path, arguments: dict[str, Any], message: str
) -> None:
    save(workspace, "a,b\n1,2\n", "t.csv")
    save(workspace, "day\n1900-01-01\n2000-12-31\n", "d.csv")

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        invoke(lab.summarize, arguments)

    assert str(caught.value) == message


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_separators_and_a_byte_order_mark_are_read(
    lab: ModuleType, workspace: Path, mark: str
) -> None:
    found = summary(lab, workspace, f"\ufeffa{mark}b\r\n1{mark}2,5\r\n")

    assert [each["name"] for each in found["columns"]] == ["a", "b"]
    assert column(found, "b")["type"] == "text"


def test_header_without_rows_is_an_empty_table(lab: ModuleType, workspace: Path) -> None:
    found = summary(lab, workspace, "a,b\n")

    assert (found["rows"], found["series"]["charts"]) == (0, [])


# Reports and selections


def test_report_is_markdown_in_the_workspace(lab: ModuleType, workspace: Path) -> None:
    save(workspace, "day,sold,shop\n2024-01-01,0,a|b\n2024-01-03,2.5,<i>\n2024-01-03,1,a|b\n")
    result = invoke(lab.report, {"path": "table.csv", "output": "out/report.md"})
    text = (workspace / "out/report.md").read_text(encoding="utf-8")

    assert result == {"report": "out/report.md", "size": len(text), "rows": 3, "columns": 3}
    assert text == (
        "# table.csv\n\n3 rows, 3 columns.\n\n## Columns\n\n"
        "| column | type | values | missing | distinct |\n| --- | --- | --- | --- | --- |\n"
        "| day | date | 3 | 0 | 2 |\n| sold | number | 3 | 0 | 3 |\n| shop | text | 3 | 0 | 2 |\n\n"
        "## Numbers\n\n"
        "| column | min | max | mean | median | stdev |\n| --- | --- | --- | --- | --- | --- |\n"
        "| sold | 0 | 2.5 | 1.16667 | 1 | 1.25831 |\n\n"
        "## shop\n\n| value | rows |\n| --- | --- |\n| a\\|b | 2 |\n| \\<i\\> | 1 |\n\n"
        "## By day\n\n| day | sold (total) |\n| --- | --- |\n"
        "| 2024-01-01 | 0 |\n| 2024-01-02 |  |\n| 2024-01-03 | 3.5 |\n"
    )


def select(lab: ModuleType, **query: Any) -> Any:
    return invoke(lab.select_rows, {"query": query})


def test_selected_rows_keep_their_text(lab: ModuleType, workspace: Path) -> None:
    save(workspace, 'id;name;score\n007;"a, b";1.50\n008;c;2\n009;"d ""e""";10\n', "in.csv")
    filters = [{"column": "score", "op": "<", "value": 10}]
    result = select(lab, path="in.csv", columns=["name", "id"], filters=filters)

    assert result == {"output": "selection.csv", "rows": 2, "of": 3, "columns": ["name", "id"]}
    assert (workspace / "selection.csv").read_text(encoding="utf-8") == (
        'name,id\n"a, b",007\nc,008\n'
    )


@pytest.mark.parametrize(("op", "value", "kept"), TABLES["conditions"])
def test_conditions_compare_by_the_type_of_the_column(
    lab: ModuleType, workspace: Path, op: str, value: object, kept: str
) -> None:
    save(workspace, "id,n\na,10\nb,9.5\nc,\nd,1e1\n")
    filters = [{"column": "n", "op": op, "value": value}]
    select(lab, path="table.csv", filters=filters, columns=["id"], output="o.csv")

    assert "".join((workspace / "o.csv").read_text(encoding="utf-8").split()[1:]) == kept


@pytest.mark.parametrize(("query", "message"), TABLES["refused_selections"])
def test_invalid_selection_is_refused_and_writes_no_file(
    lab: ModuleType, workspace: Path, query: dict[str, Any], message: str
) -> None:
    before = save(workspace, "n,day\n1,2024-01-01\n")

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        select(lab, path=before, **query)

    assert str(caught.value) == message
    assert [path.name for path in workspace.iterdir()] == [before]
    assert (workspace / before).read_text(encoding="utf-8") == "n,day\n1,2024-01-01\n"


@given(
    cells=st.lists(st.sampled_from(["", "1", "2", "a", "NA", "2024-01-01", "yes"]), max_size=8),
    value=st.sampled_from(["", "1", 2, 1.0, "a", True]),
)
@settings(max_examples=examples(80))
def test_equal_and_not_equal_partition_the_rows(
    lab: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[str],
    value: object,
) -> None:
    workspace = tmp_path_factory.mktemp("workspace", numbered=True)
    save(workspace, "id,x\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate(cells)))
    kept: list[list[str]] = []
    with set_context(workspace=workspace):
        for op in ("=", "!="):
            filters = [{"column": "x", "op": op, "value": value}]
            try:
                select(lab, path="table.csv", filters=filters, columns=["id"], output="o.csv")
            except ValueError:
                return
            with (workspace / "o.csv").open(encoding="utf-8") as file:
                kept.append([row[0] for row in csv.reader(file)][1:])

    assert sorted(kept[0] + kept[1], key=int) == [str(row) for row in range(len(cells))]
