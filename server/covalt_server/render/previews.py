"""Preview of a workspace file: its kind, by name and content, and the part of it that a page shows.

It renders nothing: the pages highlight texts and sanitize Markdown.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from covalt_git.tabular.csv_rows import SUFFIXES, CsvRows
from covalt_git.tabular.objects import cell, column_names
from covalt_git.tabular.query import number
from covalt_git.text.display import shorten
from covalt_git.text.media_types import TEXT, media_type

Kind = Literal[
    "empty", "image", "sound", "document", "table", "json", "page", "text", "encoded", "binary"
]

MAX_TEXT = 128 << 10
"""Most characters of a text that a page shows."""

MAX_ROWS = 200
MAX_COLUMNS = 60
MAX_CELL = 500
_SNIFFED = 8000
BREAK = re.compile(r"\r\n|\r|\n")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")

_KINDS: dict[str, Kind] = {
    **dict.fromkeys((".md", ".markdown"), "document"),
    **dict.fromkeys(SUFFIXES, "table"),
    **dict.fromkeys((".json", ".geojson", ".ipynb", ".webmanifest"), "json"),
    **dict.fromkeys((".html", ".htm", ".xhtml", ".svg"), "page"),
}


class Table(NamedTuple):
    """The first rows of a CSV file or of an array of objects."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int]
    more_rows: bool
    more_columns: bool


class Preview(NamedTuple):
    """The part of a file that a page can show.

    Attributes:
        text: empty if the file is not text.
        complete: whether the text is complete.
        pretty: the JSON with indentation, if that differs from the file.
    """

    kind: Kind
    text: str = ""
    complete: bool = True
    pretty: str | None = None

    @property
    def editable(self) -> bool:
        """Whether an editor can save it without changing other parts: a browser keeps one kind of line break."""
        is_text = self.kind not in {"image", "sound", "binary", "encoded"} and self.complete
        return is_text and len({*BREAK.findall(self.text)}) <= 1


def preview(path: str, content: bytes) -> Preview:
    """Return the preview of a file."""
    if not content:
        return Preview("empty")
    media = media_type(content)
    if media.startswith("image/"):
        return Preview("image", complete=False)
    if media.startswith("audio/"):
        return Preview("sound", complete=False)
    if media != TEXT:
        if b"\0" in content or _CONTROL.search(content, 0, _SNIFFED):
            return Preview("binary", complete=False)
        return Preview("encoded", content[:MAX_TEXT].decode("latin-1"), len(content) <= MAX_TEXT)
    text = content.decode("utf-8")
    kind = _KINDS.get(PurePosixPath(path).suffix.lower(), "text")
    complete = len(text) <= MAX_TEXT
    # A page reads the rows of a table; a truncated document or truncated JSON is plain text.
    if kind == "table":
        return Preview("table", first(text), complete)
    if kind == "json" and complete:
        return _json(text)
    return Preview(kind if complete or kind == "page" else "text", first(text), complete)


def first(text: str) -> str:
    """Return the part of a text that a page shows, up to the end of a line if there are lines."""
    if len(text) <= MAX_TEXT:
        return text
    end = text.rfind("\n", 0, MAX_TEXT)
    return text[: end + 1 or MAX_TEXT]


def _json(text: str) -> Preview:
    try:
        pretty = json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    except (ValueError, RecursionError):
        return Preview("text", text)
    return Preview("json", text, pretty=None if pretty.strip() == text.strip() else pretty)


def table_of_csv(path: str, content: bytes, *, most: int = MAX_ROWS) -> Table | None:
    """Return the first rows of a CSV file; None if it is empty."""
    rows = iter(CsvRows(content, tabs=path.lower().endswith(".tsv")))
    # One row more than is shown, to know whether there are more.
    first_rows = [*islice(rows, most + 2)]
    return _table(first_rows[0], first_rows[1:], most) if first_rows else None


def table_of_objects(value: object, *, most: int = MAX_ROWS) -> Table | None:
    """Return the first objects of an array as a table; None if it is anything else."""
    if not isinstance(value, list) or not value:
        return None
    objects = [item for item in value if isinstance(item, dict)]
    if len(objects) < len(value):
        return None
    titles = column_names(objects)
    rows = [[cell(item.get(name)) for name in titles] for item in objects]
    return _table(titles, rows, most) if titles else None


def _table(titles: list[str], rows: list[list[str]], most: int) -> Table:
    width = max(len(titles), *(len(row) for row in rows)) if rows else len(titles)
    columns = min(width, MAX_COLUMNS)
    first_rows = tuple(_cells(row, columns) for row in rows[:most])
    return Table(
        titles=_cells(titles, columns),
        rows=first_rows,
        numeric=frozenset(
            at for at in range(columns) if is_numeric([row[at] for row in first_rows])
        ),
        more_rows=len(rows) > most,
        more_columns=width > columns,
    )


def _cells(row: list[str], columns: int) -> tuple[str, ...]:
    short = [shorten(cell, MAX_CELL) for cell in row[:columns]]
    return tuple(short + [""] * (columns - len(short)))


def is_numeric(cells: list[str]) -> bool:
    """Return whether the cells that are not empty are numbers, and there is one."""
    values = [cell for cell in cells if cell.strip()]
    return bool(values) and all(number(cell) is not None for cell in values)
