"""Markdown report of a summary, with the content of the table escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MARKS = re.compile(r"[\\`*\[\]<>|~&#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown; an underscore inside a word, as in temp_max, has none."""

MANY_DIGITS = 1e6
EXPONENT = 1e15
"""Numbers between these two are written without a fraction and without an exponent."""

_FIGURES = ("min", "max", "mean", "median", "stdev")


def write_report(summary: dict[str, Any]) -> str:
    """Return the report of a summary that ``summarize`` returned."""
    columns = summary["columns"]
    parts = [f"# {plain(summary['path'])}", f"{summary['rows']} rows, {len(columns)} columns."]
    parts += ["## Columns", _columns(columns)]
    if numeric := [column for column in columns if "mean" in column]:
        parts += ["## Numbers", _table(("column", *_FIGURES), _numbers(numeric))]
    for column in columns:
        if "top" in column and column["distinct"] < column["count"]:
            parts += [f"## {plain(column['name'])}", _most_frequent(column)]
    if figures := _over_time(summary["series"]):
        parts += [f"## By {summary['series']['by']}", figures]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return ``text`` in one line, escaped so that Markdown shows it unchanged."""
    return _MARKS.sub(lambda mark: "\\" + mark[0], " ".join(text.split()))


def _columns(columns: Iterable[dict[str, Any]]) -> str:
    rows = (
        [column["name"], column["type"], column["count"], column["missing"], column["distinct"]]
        for column in columns
    )
    return _table(("column", "type", "values", "missing", "distinct"), rows)


def _numbers(columns: Iterable[dict[str, Any]]) -> Iterable[list[Any]]:
    return ([column["name"], *(column[figure] for figure in _FIGURES)] for column in columns)


def _most_frequent(column: dict[str, Any]) -> str:
    rows = [[item["value"], item["count"]] for item in column["top"]]
    table = _table(("value", "rows"), rows)
    more = column["distinct"] - len(rows)
    return f"{table}\n\nand {more} more" if more > 0 else table


def _over_time(series: dict[str, Any]) -> str:
    """Return the means and totals of each day, month or year, empty without dates."""
    figures: list[tuple[str, list[Any]]] = []
    if series["by"] == "rows":
        return ""
    for chart in series["charts"]:
        if chart["form"] == "bars":
            figures.append((f"{chart['title']} (total)", chart["values"]))
        if chart["form"] == "range":
            figures += [(f"{line['name']} (mean)", line["values"]) for line in chart["lines"]]
    if not figures:
        return ""
    header = (series["by"], *(name for name, _ in figures))
    rows = zip(series["labels"], *(values for _, values in figures), strict=True)
    return _table(header, rows)


def _table(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    rule = f"|{' --- |' * len(header)}"
    return "\n".join([_row(header), rule, *(_row(row) for row in rows)])


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return plain(str(value))
    return f"{value:.0f}" if MANY_DIGITS <= abs(value) < EXPONENT else f"{value:.6g}"
