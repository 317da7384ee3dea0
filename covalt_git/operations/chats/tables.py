"""Operations that read tables: CSV files of a workspace, and results of calls that are arrays of objects."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, NamedTuple, cast

from pydantic import Field, model_validator

from covalt_git.conversations.commit_names import NAMES
from covalt_git.errors import CovaltError, listed
from covalt_git.operations.calls import calls
from covalt_git.operations.chats import workspace_files
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, Result, ResultFile, operation
from covalt_git.tabular.csv_rows import CsvRows
from covalt_git.tabular.objects import cell, column_names
from covalt_git.tabular.query import MOST_SORTED, Filter, RowQuery, find_page, find_rows
from covalt_git.text.media_types import BYTES, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.tabular.query import Test

_CONDITION = re.compile(r"(?P<column>.+?)(?P<test>[~=<>])(?P<value>.*)", re.DOTALL)
_WHERE = (
    "Conditions, one a line: COLUMN~TEXT (contains), COLUMN=VALUE, COLUMN<VALUE or COLUMN>VALUE. Rows have to match all of "
    "them. A column is a title or #1, #2, ..."
)

_SORT = "The column to sort by; null: the rows keep the order of the table."


class TableRequest(ChatRequest):
    """The table to read: the CSV file ``path``, or the result of the call ``call_id``."""

    path: str | None = Field(None, max_length=4096)
    call_id: str | None = Field(None, max_length=200)
    manifest: str = Field(
        "HEAD", max_length=200, description=f"{NAMES} Empty: the current workspace. Of a file."
    )
    where: str = Field("", max_length=10_000, description=_WHERE)

    @model_validator(mode="after")
    def _check_source(self) -> TableRequest:
        if bool(self.path) == bool(self.call_id):
            raise ValueError("needs either path or call_id")
        return self


class ReadTable(TableRequest):
    """Request for a page of a table."""

    sort: str | None = Field(None, max_length=1000, description=_SORT)
    descending: bool = False
    offset: int = Field(0, ge=0, description="Number of rows to skip.")
    limit: int = Field(100, ge=1, le=1000)


class ExportTable(TableRequest):
    """Request for the rows of a table that match, as a CSV file."""

    sort: str | None = Field(None, max_length=1000, description=_SORT)
    descending: bool = False


class TableRow(Result):
    """A row of a table, with its number in the table."""

    number: int
    cells: tuple[str, ...]


class TablePage(Result):
    """A page of a table, and facts of the table."""

    titles: tuple[str, ...]
    rows: tuple[TableRow, ...]
    total: int = Field(description="Rows of the table.")
    matching: int = Field(description="Rows that match the conditions.")
    reachable: int = Field(
        description=f"Rows that pages can reach: all that match, but of a sorted table {MOST_SORTED:,}."
    )
    ragged: int = Field(description="Rows with another number of cells than there are titles.")
    first_ragged: int | None = Field(description="The number of the first of them.")
    encoding: str | None = Field(description="Of a file: utf-8, utf-16 or latin-1.")
    delimiter: str | None = Field(description="Of a file.")
    unclosed_line: int | None = Field(
        description="Of a file: the line of a quote that is not closed. Lines from there on are split without quotes."
    )


class NoTableError(CovaltError):
    """A file or result is not a table."""

    code = "no_table"
    http_status = 409


class _Table(NamedTuple):
    titles: tuple[str, ...]
    rows: Iterator[list[str]]
    csv: CsvRows | None


@operation(errors=(404, 409))
def read_table(context: Context, request: ReadTable) -> TablePage:
    """Return rows of a CSV file, or of a result that is an array of objects; filtered, sorted, by pages.

    Numbers sort as numbers and before texts, empty cells come last, and equal cells keep their order.  In a result, a
    missing value and null are empty cells.
    """
    table = _open(context, request)
    sort = None if request.sort is None else _column(table.titles, request.sort)
    query = RowQuery(
        _filters(table.titles, request.where),
        sort,
        request.descending,
        request.offset,
        request.limit,
    )
    page = find_page(table.titles, table.rows, query)
    # Rows that are wider than the titles have columns without a title.
    titles = table.titles + ("",) * (page.width - len(table.titles))
    return TablePage(
        titles=titles,
        rows=tuple(TableRow(number=number, cells=tuple(row)) for number, row in page.rows),
        total=page.total,
        matching=page.matching,
        reachable=page.matching if sort is None else min(page.matching, MOST_SORTED),
        ragged=page.ragged,
        first_ragged=page.first_ragged or None,
        encoding=table.csv.encoding if table.csv else None,
        delimiter=table.csv.delimiter if table.csv else None,
        unclosed_line=table.csv.unclosed_line if table.csv else None,
    )


@operation(errors=(404, 409))
def export_table(context: Context, request: ExportTable) -> ResultFile:
    """Send the rows of a table that match, sorted or in the order of the table, as CSV: commas, UTF-8, CR LF.

    Cells are as they are in the table.  A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula.
    """
    table = _open(context, request)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table.titles)
    sort = None if request.sort is None else _column(table.titles, request.sort)
    filters = _filters(table.titles, request.where)
    writer.writerows(find_rows(table.rows, filters, sort, descending=request.descending))
    content = text.getvalue().encode("utf-8", "replace")
    # In a folder of downloads, a part of the rows must not look like all of them.
    rows = "filtered-rows" if request.where else "rows"
    name = f"{_file_name(context, request)}-{rows}.csv"
    return ResultFile.of_bytes(content, name, "text/csv", attachment=True)


def _file_name(context: Context, request: TableRequest) -> str:
    """Return the name of a download without its ending: that of the file, or of the tool and the call."""
    if request.path:
        return request.path.rpartition("/")[2].rpartition(".")[0] or "result"
    call = calls.get_call.run(
        context, calls.GetCall(chat_id=request.chat_id, call_id=request.call_id or "")
    )
    return calls.download_name(call.tool_id, call.id)


def is_table(value: object) -> bool:
    """Return whether a result is an array of objects, which has at least one column."""
    return (
        isinstance(value, list)
        and all(isinstance(item, dict) for item in value)
        and any(item for item in value)
    )


def _open(context: Context, request: TableRequest) -> _Table:
    if not request.path:
        call = calls.get_call.run(
            context, calls.GetCall(chat_id=request.chat_id, call_id=request.call_id or "")
        )
        if not is_table(call.result):
            raise NoTableError("the call's result is not an array of objects")
        return _table_of(cast("list[dict[str, object]]", call.result))
    args = {"path": request.path, "manifest": request.manifest}
    context.require_reading("workspace:read_file", args)
    file = workspace_files.get_workspace_file.run(
        context,
        workspace_files.GetWorkspaceFile(
            chat_id=request.chat_id, path=request.path, manifest=request.manifest
        ),
    )
    # An image or a sound; a file that is not UTF-8 may be UTF-16 or Latin-1.
    if file.media_type not in {TEXT, BYTES}:
        raise NoTableError(f"{request.path!r} is not a CSV file")
    with file.stream as stream:
        rows = CsvRows(stream.read(), tabs=request.path.lower().endswith(".tsv"))
    iterator = iter(rows)
    return _Table(tuple(next(iterator, ())), iterator, rows)


def _table_of(objects: list[dict[str, object]]) -> _Table:
    titles = column_names(objects)
    rows = ([cell(item.get(name)) for name in titles] for item in objects)
    return _Table(tuple(titles), rows, None)


def _filters(titles: Sequence[str], where: str) -> tuple[Filter, ...]:
    filters = []
    for line in filter(None, where.split("\n")):
        condition = _CONDITION.fullmatch(line)
        if condition is None:
            raise CovaltError(
                f"{line!r} is not a condition",
                hint="write it as in name~apple, name=apple, size<3 or size>3",
                code="bad_condition",
                http_status=400,
            )
        column = _column(titles, condition["column"])
        filters.append(Filter(column, cast("Test", condition["test"]), condition["value"]))
    return tuple(filters)


def _column(titles: Sequence[str], name: str) -> int:
    """Return the place of a column, by its title or as ``#1``; rows may be wider than the titles."""
    if name in titles:
        return titles.index(name)
    if name.startswith("#") and name[1:].isascii() and name[1:5].isdigit() and name != "#0":
        return int(name[1:5]) - 1
    raise CovaltError(
        f"no column {name!r}",
        hint=f"the titles are {listed([*titles])}; #1 is the first column",
        code="unknown_column",
        http_status=404,
    )
