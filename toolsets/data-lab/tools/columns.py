"""Columns of a table: their types, and the figures that describe them.

The type of a column is the narrowest that all its cells have.  Some text that looks like a number or
a date stays text: ``00501`` may be a postal code, JSON cannot represent 20 digits exactly, and
``03/04/2012`` is in March or in April, depending on the country.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Kind = Literal["integer", "number", "date", "boolean", "text"]
Value = int | float | bool | datetime | str

TOP = 10
"""Number of a text column's most frequent values in a summary."""

MAX_SHOWN = 80
MAX_EXACT_INTEGER = 2**53 - 1
MAX_NUMBER = 1e100
"""Limit of numbers, so that sums and squares do not overflow a double."""

MISSING = frozenset({"", "-", "na", "n/a", "nan", "null"})
"""Cells that count as missing.  In a column of text only the empty cell does: NA may be Namibia."""

BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}

_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}([-/])[0-9]{2}\1[0-9]{2}(?:[T ].*)?")


@dataclass(frozen=True, slots=True)
class Column:
    """A named column; ``values`` has None for each missing cell."""

    name: str
    kind: Kind
    values: tuple[Value | None, ...]

    @property
    def present(self) -> list[Value]:
        """The values of the cells that are not missing."""
        return [value for value in self.values if value is not None]

    @property
    def numeric(self) -> bool:
        """Whether the column has numbers."""
        return self.kind in {"integer", "number"}

    @property
    def numbers(self) -> list[float | None]:
        """The values of a column of numbers."""
        return [value if isinstance(value, int | float) else None for value in self.values]


def read_column(name: str, cells: Sequence[str]) -> Column:
    """Return the column with its cells read as the narrowest type that fits them all."""
    cells = [cell.strip() for cell in cells]
    typed = [cell for cell in cells if cell.lower() not in MISSING]
    for kind, parse in PARSERS.items():
        if typed and all(parse(cell) is not None for cell in typed):
            return Column(name, kind, tuple(parse(cell) for cell in cells))
    return Column(name, "text", tuple(cell or None for cell in cells))


def parse_integer(cell: str) -> int | None:
    """Return a cell as an integer, or None if it is not an integer that JSON represents exactly."""
    if not _INTEGER.fullmatch(cell) or len(cell) > len(str(-MAX_EXACT_INTEGER)):
        return None
    value = int(cell)
    return value if abs(value) <= MAX_EXACT_INTEGER else None


def parse_number(cell: str) -> float | None:
    """Return a cell as a number, or None if it is not one."""
    if _INTEGER.fullmatch(cell):
        return parse_integer(cell)
    if not _NUMBER.fullmatch(cell) or not any(character.isdigit() for character in cell):
        return None
    try:
        value = float(cell)
    except ValueError:  # such as e5
        return None
    return value if abs(value) < MAX_NUMBER else None


def parse_date(cell: str) -> datetime | None:
    """Return a cell as a date or a local time, without its time zone, or None if it is neither."""
    if not _DATE.fullmatch(cell):
        return None
    try:
        return datetime.fromisoformat(cell.replace("/", "-")).replace(tzinfo=None)
    except ValueError:  # such as 2012-02-30
        return None


def parse_boolean(cell: str) -> bool | None:
    """Return a cell as a boolean, or None if it is not one."""
    return BOOLEANS.get(cell.lower())


PARSERS: dict[Kind, Callable[[str], Value | None]] = {
    "integer": parse_integer,
    "number": parse_number,
    "date": parse_date,
    "boolean": parse_boolean,
}
"""Parsers of cells, from the narrowest type to the widest; other columns are text."""


def describe(column: Column) -> dict[str, Any]:
    """Return the type of a column, its numbers of cells, and its figures or most frequent values."""
    present = column.present
    told: dict[str, Any] = {
        "name": column.name,
        "type": column.kind,
        "count": len(present),
        "missing": len(column.values) - len(present),
        "distinct": len(set(present)),
    }
    if not present:
        return told
    if column.numeric:
        return told | _figures([number for number in column.numbers if number is not None])
    if column.kind == "date":
        moments = [value for value in present if isinstance(value, datetime)]
        return told | {"min": show(min(moments)), "max": show(max(moments))}
    counts = Counter(show(value) for value in present).most_common(TOP)
    return told | {"top": [{"value": value, "count": count} for value, count in counts]}


def show(value: Value) -> str:
    """Return a value as text: dates without the time 00:00:00, and long text truncated."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ")
        return text.removesuffix(" 00:00:00")
    text = str(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def tidy(number: float) -> float:
    """Return a number rounded to 10 digits, without the errors of floating-point arithmetic."""
    if isinstance(number, int) and abs(number) <= MAX_EXACT_INTEGER:
        return number
    return float(f"{number:.10g}")


def _figures(numbers: list[float]) -> dict[str, float]:
    figures = {
        "min": min(numbers),
        "max": max(numbers),
        "mean": statistics.fmean(numbers),
        "median": statistics.median(numbers),
        "stdev": statistics.stdev(numbers) if len(numbers) > 1 else 0.0,
    }
    return {name: tidy(figure) for name, figure in figures.items()}
