"""What a column holds: the type its cells agree on, and the figures that describe it.

The type is the narrowest that every cell fits.  Text that merely looks like a number stays text:
``00501`` is a postal code, and 20 digits are a name that no JSON number keeps.  ``03/04/2012`` stays
text too, because it is a day in March here and one in April there.
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
"""Beyond it sums and squares could leave what a double holds."""

MISSING = frozenset({"", "-", "na", "n/a", "nan", "null"})
"""Cells without a value.  In a column of text only the empty one is: there, NA is Namibia."""

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
        """The values that are there."""
        return [value for value in self.values if value is not None]

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers."""
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
    """Return the whole number that ``cell`` is, or None."""
    if not _INTEGER.fullmatch(cell) or len(cell) > len(str(-MAX_EXACT_INTEGER)):
        return None
    value = int(cell)
    return value if abs(value) <= MAX_EXACT_INTEGER else None


def parse_number(cell: str) -> float | None:
    """Return the number that ``cell`` is, or None."""
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
    """Return the day, or the moment on its own clock, that ``cell`` is, or None."""
    if not _DATE.fullmatch(cell):
        return None
    try:
        return datetime.fromisoformat(cell.replace("/", "-")).replace(tzinfo=None)
    except ValueError:  # such as 2012-02-30
        return None


def parse_boolean(cell: str) -> bool | None:
    """Return the truth value that ``cell`` is, or None."""
    return BOOLEANS.get(cell.lower())


PARSERS: dict[Kind, Callable[[str], Value | None]] = {
    "integer": parse_integer,
    "number": parse_number,
    "date": parse_date,
    "boolean": parse_boolean,
}
"""From the narrowest to the widest; a column that none fits is text."""


def describe(column: Column) -> dict[str, Any]:
    """Return what a reader wants to know of the column, as JSON."""
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
    """Return a value as text: days without their midnight, long text cut."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ")
        return text.removesuffix(" 00:00:00")
    text = str(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def tidy(number: float) -> float:
    """Return the number without the last digits, which are noise of the arithmetic."""
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
