"""The tools of Data Lab: load a sample, summarize a table, report on it, select rows.

``@tool`` derives the schema from the type hints and the docstring, so toolset.yaml does not repeat it.
"""

import shutil
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from tools.columns import describe, read_column
from tools.filters import satisfied
from tools.markdown import write_report
from tools.series import make_series
from tools.tables import Table, check_columns, read_table, write_table

from covalt_toolset import get_context, tool


class Filter(BaseModel):
    """One condition on one column."""

    model_config = ConfigDict(extra="forbid")

    column: str = Field(description="Name of the column")
    op: Literal["=", "!=", "<", "<=", ">", ">=", "contains"] = Field(
        default="=", description="Operator that compares each cell with the value"
    )
    value: str | bool | int | float = Field(
        description="A value of the column's type: number, date (2012-12-31), true, false or text"
    )


class Selection(BaseModel):
    """A query: the columns and rows to select from a table, and the file to write them to."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(description="CSV file in the workspace")
    columns: list[str] = Field(default=[], description="Columns to keep, in order; none means all")
    filters: list[Filter] = Field(default=[], description="Conditions that a row must all satisfy")
    output: str = Field(default="selection.csv", description="CSV file to write")


@tool(name="Load Sample", description="Put a sample table, Seattle's weather, into the workspace")
def load_sample(output: str = "weather.csv") -> dict[str, Any]:
    """Copy the toolset's own CSV file into the workspace.

    Args:
        output: the file to write
    """
    context = get_context()
    target = _target(output)
    shutil.copyfile(context.toolset_dir / "assets" / "weather.csv", target)
    return {"written": output, "size": target.stat().st_size}


@tool(name="Summarize Table")
def summarize(
    path: str,
    by: Literal["auto", "day", "month", "year", "rows"] = "auto",
    totals: list[str] | None = None,
) -> dict[str, Any]:
    """Describe each column of a CSV file and chart them over time.

    Numbers get their range, mean, median and standard deviation, text its most frequent values.

    Args:
        path: CSV file in the workspace
        by: the interval of the charts: each point covers one day, month or year, or some rows
        totals: columns to sum in each interval, such as sales; by default those that look like
            amounts (never negative, often zero)
    """
    return _summary(path, by, totals)


@tool(name="Write Report")
def report(path: str, output: str = "report.md") -> dict[str, Any]:
    """Write a Markdown report about a CSV file into the workspace.

    Args:
        path: CSV file in the workspace
        output: Markdown file to write
    """
    summary = _summary(path, "auto", None)
    size = _write(write_report(summary), output, source=path)
    return {
        "report": output,
        "size": size,
        "rows": summary["rows"],
        "columns": len(summary["columns"]),
    }


@tool(name="Select Rows")
def select_rows(query: Selection) -> dict[str, Any]:
    """Write the rows of a CSV file that satisfy every filter to another CSV file.

    Args:
        query: the table, the columns to keep, the filters, and the file to write
    """
    table = read_table(get_context().path(query.path), query.path)
    names = query.columns or list(table.header)
    if len(set(names)) < len(names):
        raise ValueError("'columns' has a name twice: list each column once")
    check_columns(table, [*names, *(condition.column for condition in query.filters)], query.path)
    kept = [True] * len(table.rows)
    for condition in query.filters:
        cells = table.column(condition.column)
        holds = satisfied(condition.column, cells, condition.op, condition.value)
        kept = [before and now for before, now in zip(kept, holds, strict=True)]
    places = [table.header.index(name) for name in names]
    rows = tuple(
        tuple(row[place] for place in places)
        for row, keep in zip(table.rows, kept, strict=True)
        if keep
    )
    _write(write_table(Table(tuple(names), rows)), query.output, source=query.path)
    return {"output": query.output, "rows": len(rows), "of": len(table.rows), "columns": names}


def _summary(
    path: str, by: Literal["auto", "day", "month", "year", "rows"], totals: list[str] | None
) -> dict[str, Any]:
    table = read_table(get_context().path(path), path)
    check_columns(table, totals or [], path)
    columns = [read_column(name, table.column(name)) for name in table.header]
    return {
        "path": path,
        "rows": len(table.rows),
        "columns": [describe(column) for column in columns],
        "series": make_series(columns, by=by, totals=totals),
    }


def _write(text: str, output: str, *, source: str) -> int:
    """Write a result file and return its size in bytes; the source table does not change."""
    target = _target(output)
    if target == get_context().path(source):
        raise ValueError(f"{output!r} is the table itself: give the result another name")
    return target.write_bytes(text.encode("utf-8"))


def _target(output: str) -> Path:
    target = get_context().path(output)
    if target.is_dir():
        raise ValueError(f"{output!r} is a folder: give a file name")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
