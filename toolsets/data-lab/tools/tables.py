"""Tables in CSV files; errors name the line and the column."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 64 * 1024 * 1024
DELIMITERS = ",;\t|"


@dataclass(frozen=True, slots=True)
class Table:
    """A header of unique names, and rows with a cell for each name."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """Return the cells of one column, top to bottom."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def read_table(file: Path, name: str) -> Table:
    """Read a CSV file; messages call it ``name``.

    The separator is the comma, semicolon, tab or bar that is most frequent in the header.

    Raises:
        ValueError: when ``file`` is not a table, with the line and the column.
    """
    lines = _lines(_text(file, name), name)
    _, header = next(lines, (1, []))
    if not header:
        raise ValueError(f"{name!r} is empty: its first line should name the columns")
    header = [cell.strip() for cell in header]
    _check_header(header, name)
    rows = []
    for line, cells in lines:
        if len(cells) < len(header):
            raise ValueError(
                f"{name}:{line}: nothing for column {header[len(cells)]!r}: "
                f"{len(cells)} of {len(header)} fields"
            )
        if len(cells) > len(header):
            raise ValueError(
                f"{name}:{line}: field {len(header) + 1} has no column: "
                f"{len(cells)} fields under a header of {len(header)}"
            )
        rows.append(tuple(cells))
    return Table(tuple(header), tuple(rows))


def check_columns(table: Table, names: list[str], path: str) -> None:
    """Raise an error that lists the table's columns, if it does not have all of ``names``."""
    for name in names:
        if name not in table.header:
            known = ", ".join(repr(column) for column in table.header)
            raise ValueError(f"{path!r} has no column {name!r}: it has {known}")


def write_table(table: Table) -> str:
    """Return the table as CSV, separated by commas, every cell unchanged."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return out.getvalue()


def _text(file: Path, name: str) -> str:
    if file.is_dir():
        raise ValueError(f"{name!r} is a folder, not a CSV file")
    if not file.is_file():
        raise ValueError(f"there is no file {name!r} in the workspace")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{name!r} is larger than {MAX_BYTES // 1024**2} MiB")
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        raise ValueError(
            f"{name}:{line}:{column}: this is not UTF-8: save the file with that encoding"
        ) from None


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each record begins, and its fields; empty lines are left out."""
    first_line = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise ValueError(f"{name}:{line}: {error}") from None
        if fields is None:
            return
        if fields:
            yield line, fields


def _check_header(header: list[str], name: str) -> None:
    for place, column in enumerate(header, start=1):
        if not column:
            raise ValueError(f"{name}:1: column {place} has no name")
    column, times = Counter(header).most_common(1)[0]
    if times > 1:
        places = [str(place) for place, other in enumerate(header, start=1) if other == column]
        raise ValueError(f"{name}:1: columns {' and '.join(places)} are both named {column!r}")
