"""What data-lab's tools make of a table: the real weather of Seattle, and broken ones."""

from __future__ import annotations

import csv
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json
from covalt_git.python_reader.source import read_tool
from covalt_git.render.inject_data import inject
from covalt_toolset import describe, invoke, set_context
from tests.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "toolsets" / "data-lab"
PAGE = (FOLDER / "artifacts/chart.html").read_text(encoding="utf-8")


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


# --- the weather of Seattle ---------------------------------------------------------------------


def test_the_sample_is_the_record_that_its_readme_names(lab: ModuleType, workspace: Path) -> None:
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


def test_weather_columns_have_their_types_and_figures(weather: Any) -> None:
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


# --- what a column is ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "kind", "missing"),
    [
        pytest.param(["1", "-2", "+3"], "integer", 0, id="integers"),
        pytest.param(["1", "2.5", ".5", "1e3", "-4.", ""], "number", 1, id="numbers"),
        pytest.param(["1", "NA", "n/a", "-", "null", "NaN"], "integer", 5, id="missing-markers"),
        pytest.param(["Namibia", "NA", ""], "text", 1, id="na-is-a-word-in-text"),
        pytest.param(["00501", "10001"], "text", 0, id="postal-codes"),
        pytest.param(["12345678901234567890", "1"], "text", 0, id="long-ids"),
        pytest.param(["9007199254740991", "-9007199254740991"], "integer", 0, id="largest-exact"),
        pytest.param(["9007199254740992"], "text", 0, id="beyond-exact"),
        pytest.param(["1e400", "1"], "text", 0, id="beyond-a-double"),
        pytest.param(["infinity", "1"], "text", 0, id="infinity"),
        pytest.param(["1_000", "2"], "text", 0, id="python-digit-groups"),
        pytest.param(["\u0661", "\u0662"], "text", 0, id="digits-of-another-script"),
        pytest.param(["2024-02-29", "2024/03/01"], "date", 0, id="dates"),
        pytest.param(["2024-02-29T10:00:00Z", "2024-03-01 11:00"], "date", 0, id="moments"),
        pytest.param(["2023-02-29", "2023-03-01"], "text", 0, id="no-such-day"),
        pytest.param(["03/04/2012", "13/04/2012"], "text", 0, id="ambiguous-dates"),
        pytest.param(["yes", "NO", "True", "false"], "boolean", 0, id="booleans"),
        pytest.param(["0", "1"], "integer", 0, id="zero-and-one-stay-numbers"),
        pytest.param(["e5", "."], "text", 0, id="not-quite-numbers"),
        pytest.param(["", ""], "text", 2, id="nothing-at-all"),
    ],
)
def test_a_column_is_the_narrowest_type_that_fits_every_cell(
    lab: ModuleType, workspace: Path, cells: list[str], kind: str, missing: int
) -> None:
    rows = "".join(f"x,{cell}\n" for cell in cells)
    found = column(summary(lab, workspace, f"id,value\n{rows}"), "value")

    assert (found["type"], found["missing"]) == (kind, missing)
    assert found["count"] + found["missing"] == len(cells)


def test_long_text_is_cut_for_showing(lab: ModuleType, workspace: Path) -> None:
    found = column(summary(lab, workspace, f"a\n{'x' * 200}\n"), "a")

    assert found["top"] == [{"value": "x" * 79 + "…", "count": 1}]


# --- charts -------------------------------------------------------------------------------------


def test_a_gap_in_the_dates_stays_a_gap(lab: ModuleType, workspace: Path) -> None:
    text = "day,sold\n2024-01-05,0\n2024-01-06,3\n2024-04-01,2\n,7\n"
    found = summary(lab, workspace, text, by="month")

    assert found["series"]["labels"] == ["2024-01", "2024-02", "2024-03", "2024-04"]
    assert chart(found, "sold")["values"] == [3, None, None, 2]
    assert found["series"]["unplaced"] == 1


@pytest.mark.parametrize(
    ("last", "by", "points"),
    [
        pytest.param("2024-01-31", "day", 31, id="a-month-in-days"),
        pytest.param("2027-12-31", "month", 48, id="years-in-months"),
        pytest.param("2123-01-01", "year", 100, id="a-century-in-years"),
        pytest.param("9999-12-31", "rows", 2, id="all-time-in-rows"),
    ],
)
def test_the_step_is_the_finest_that_is_easy_to_see(
    lab: ModuleType, workspace: Path, last: str, by: str, points: int
) -> None:
    found = summary(lab, workspace, f"day,x\n2024-01-01,1\n{last},2\n")["series"]

    assert (found["by"], len(found["labels"])) == (by, points)


def test_rows_without_dates_are_put_together_in_slices(lab: ModuleType, workspace: Path) -> None:
    found = summary(lab, workspace, "x\n" + "".join(f"{row}\n" for row in range(1, 101)))

    assert found["series"]["labels"][:2] == ["1-3", "4-6"]
    assert found["series"]["labels"][-1] == "100-100"
    assert chart(found, "x")["lines"][0]["values"][:2] == [2, 5]


def test_a_few_named_rows_are_shown_by_name(lab: ModuleType, workspace: Path) -> None:
    found = summary(lab, workspace, "country,people\nPeru,33\nNauru,-1\n")

    assert chart(found, "people") == {
        "form": "ranking",
        "title": "people",
        "note": "value by country",
        "items": [{"name": "Peru", "value": 33}, {"name": "Nauru", "value": -1}],
    }


def test_many_kinds_are_told_apart_only_where_that_can_be_seen(
    lab: ModuleType, workspace: Path
) -> None:
    rows = "".join(f"2024-01-{day:02},k{day % 8},s{day % 14}\n" for day in range(1, 32))
    found = summary(lab, workspace, f"day,few,many\n{rows}", by="month")

    parts = chart(found, "few")["parts"]
    assert [part["name"] for part in parts][-1] == "other"
    assert len(parts) == 6
    assert sum(sum(part["values"]) for part in parts) == 31
    ranking = chart(found, "many")
    assert (ranking["form"], len(ranking["items"]), ranking["others"]) == ("ranking", 10, 4)


def test_totals_are_the_callers_choice(lab: ModuleType, workspace: Path) -> None:
    text = "day,sold,price\n2024-01-01,0,5\n2024-01-02,4,6\n"
    by_itself = summary(lab, workspace, text, by="year")
    chosen = summary(lab, workspace, text, by="year", totals=["price"])

    assert (chart(by_itself, "sold")["form"], chart(by_itself, "price")["form"]) == (
        "bars",
        "range",
    )
    assert chart(chosen, "price")["values"] == [11]
    assert chart(chosen, "sold")["form"] == "range"


def test_charts_beyond_a_dozen_are_named_and_left_out(lab: ModuleType, workspace: Path) -> None:
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
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_on_the_way_to_a_chart(
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


# --- broken tables and wrong arguments ----------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "'t.csv' is empty: its first line should name the columns", id="empty"),
        pytest.param(
            b"a,b\n1,2\n3\n", "t.csv:3: nothing for column 'b': 1 of 2 fields", id="short"
        ),
        pytest.param(
            b'a,b\n"1\n2",2\n\n3,4,5\n',
            "t.csv:5: field 3 has no column: 3 fields under a header of 2",
            id="long-after-a-line-break-in-a-cell",
        ),
        pytest.param(
            "a,b\n1,é\n".encode("latin-1"),
            "t.csv:2:3: this is not UTF-8: save the file with that encoding",
            id="latin-1",
        ),
        pytest.param(
            "a,b\né,é".encode() + b"\xff",
            "t.csv:2:4: this is not UTF-8: save the file with that encoding",
            id="column-counts-characters",
        ),
        pytest.param(b"a,b,a\n", "t.csv:1: columns 1 and 3 are both named 'a'", id="duplicate"),
        pytest.param(b"a, a \n", "t.csv:1: columns 1 and 2 are both named 'a'", id="but-for-space"),
        pytest.param(b"a,,c\n", "t.csv:1: column 2 has no name", id="nameless"),
        pytest.param(b'a\n"x"y\n', "t.csv:2: ',' expected after '\"'", id="quote"),
        pytest.param(b'a\n"x\n', "t.csv:2: unexpected end of data", id="open-quote"),
    ],
)
def test_a_broken_table_names_its_line_and_column(
    lab: ModuleType, workspace: Path, content: bytes, message: str
) -> None:
    (workspace / "t.csv").write_bytes(content)

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        invoke(lab.summarize, {"path": "t.csv"})

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"path": "no.csv"}, "there is no file 'no.csv' in the workspace", id="absent"),
        pytest.param({"path": "."}, "'.' is a folder, not a CSV file", id="folder"),
        pytest.param({"path": "../x"}, "'../x' leads out of the workspace", id="outside"),
        pytest.param(
            {"path": "t.csv", "totals": ["c"]},
            "'t.csv' has no column 'c': it has 'a', 'b'",
            id="unknown-column",
        ),
        pytest.param(
            {"path": "t.csv", "by": "month"},
            "there is no column of dates to go by 'month': use by='rows'",
            id="no-dates",
        ),
        pytest.param(
            {"path": "d.csv", "by": "day"},
            "by='day' gives 36890 points, more than 400: use by='auto'",
            id="too-many-days",
        ),
    ],
)
def test_a_wrong_argument_says_what_is_there(
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


def test_a_header_without_rows_is_a_table_of_none(lab: ModuleType, workspace: Path) -> None:
    found = summary(lab, workspace, "a,b\n")

    assert (found["rows"], found["series"]["charts"]) == (0, [])


# --- reports and selections ---------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("op", "value", "kept"),
    [
        pytest.param("=", 10, "ad", id="number"),
        pytest.param("=", "10.0", "ad", id="number-in-text"),
        pytest.param("!=", 10, "bc", id="missing-differs"),
        pytest.param("=", "", "c", id="missing"),
        pytest.param("!=", "", "abd", id="present"),
        pytest.param(">", "9.5", "ad", id="more-as-numbers-and-not-as-text"),
        pytest.param("<=", 9.5, "b", id="missing-is-not-less"),
        pytest.param("contains", "1E", "d", id="contains-looks-at-the-text"),
    ],
)
def test_conditions_compare_as_what_the_column_holds(
    lab: ModuleType, workspace: Path, op: str, value: object, kept: str
) -> None:
    save(workspace, "id,n\na,10\nb,9.5\nc,\nd,1e1\n")
    filters = [{"column": "n", "op": op, "value": value}]
    select(lab, path="table.csv", filters=filters, columns=["id"], output="o.csv")

    assert "".join((workspace / "o.csv").read_text(encoding="utf-8").split()[1:]) == kept


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            {"filters": [{"column": "n", "value": "many"}]},
            "column 'n' holds numbers, and 'many' is none of them",
            id="not-a-number",
        ),
        pytest.param(
            {"filters": [{"column": "day", "op": "<", "value": "May"}]},
            "column 'day' holds dates such as 2012-12-31, and 'May' is none of them",
            id="not-a-date",
        ),
        pytest.param(
            {"filters": [{"column": "n", "op": ">=", "value": ""}]},
            "column 'n': nothing is >= an empty value",
            id="order-of-nothing",
        ),
        pytest.param(
            {"columns": ["x"]}, "'table.csv' has no column 'x': it has 'n', 'day'", id="column"
        ),
        pytest.param(
            {"columns": ["n", "n"]},
            "a column is asked for twice: no two columns of a table share a name",
            id="twice",
        ),
        pytest.param(
            {"output": "./table.csv"},
            "'./table.csv' is the table itself: give the result another name",
            id="over-itself",
        ),
        pytest.param({"output": ".."}, "'..' leads out of the workspace", id="outside"),
        pytest.param({"output": "."}, "'.' is a folder: give a file name", id="folder"),
        pytest.param(
            {"filters": [{"column": "n", "op": "~", "value": 1}]},
            '$.query.filters[0].op: must be "=", "!=", "<", "<=", ">", ">=" or "contains"',
            id="unknown-operator",
        ),
    ],
)
def test_a_selection_that_makes_no_sense_writes_nothing(
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
@settings(max_examples=80, deadline=None)
def test_equal_and_not_equal_split_the_table_in_two(
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


# --- the tools as their source tells ------------------------------------------------------------


@pytest.mark.parametrize("function", ["load_sample", "summarize", "report", "select_rows"])
def test_reading_a_tool_and_loading_it_agree(lab: ModuleType, function: str) -> None:
    loaded = describe(getattr(lab, function))
    source = read_tool((FOLDER / "tools/lab.py").read_bytes(), function)

    assert source.name == loaded.name
    assert source.description == loaded.description
    assert source.input_schema == loaded.input_schema


# --- the page -----------------------------------------------------------------------------------


def test_the_page_needs_nothing_from_elsewhere() -> None:
    addresses = set(re.findall(r"\w+://[^\"'\s)]*", PAGE))

    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches
    assert not re.search(r"<link|<img|<iframe|@import|url\(|\bimport\(|fetch\(|XMLHttp", PAGE)
    assert PAGE.count("</head>") == 1


def test_the_page_writes_data_as_text_only() -> None:
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", PAGE)


def rendered(browser: Browser, tmp_path: Path, data: object) -> str:
    """Return the document as a real browser leaves it, with the data injected as the server does."""
    (tmp_path / "page.html").write_bytes(inject(PAGE.encode(), data))
    document = browser.document(tmp_path / "page.html")
    return document.partition("<main")[2].partition("</main>")[0]


def test_a_browser_draws_the_weather(browser: Browser, tmp_path: Path, weather: Any) -> None:
    document = rendered(browser, tmp_path, weather)

    assert document.count('role="img"') == 4
    assert document.count("<rect") > 48 * 2
    assert "Jan 2012 to Dec 2015" in document
    assert "NaN" not in document
    assert "undefined" not in document


def test_a_browser_shows_hostile_cells_as_text(
    browser: Browser, lab: ModuleType, workspace: Path, tmp_path: Path
) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    text = f"{hostile},n\n{hostile},1\n{hostile},2\n</script><script>,3\n"
    document = rendered(browser, tmp_path, summary(lab, workspace, text))

    assert "<img" not in document
    assert "<script" not in document
    assert "&lt;img src=x onerror=alert(1)&gt;" in document
