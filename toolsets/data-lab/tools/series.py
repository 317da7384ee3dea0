"""Data of charts: columns aggregated in buckets, by day, month, year or slice of rows.

The result is JSON with all values to draw, so the page computes nothing, and the JSON can be read
without the page.  A bucket without rows has the value null, so a gap in the data is a gap in the chart.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

from tools.columns import show, tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.columns import Column

Step = Literal["day", "month", "year", "rows"]

ROW = "row"
"""Label of the axis if no column labels the rows."""

MAX_BUCKETS = 400
MAX_SLICES = 48
MAX_CHARTS = 12
MAX_PARTS = 6
"""Number of values of a text column that a chart over time distinguishes."""

MAX_RANKED = 10
MAX_NAMED = 24
"""Maximum number of rows that a chart shows one by one, by name."""

AMOUNT_ZEROS = 0.1
"""Minimum share of zeros in a column of amounts, which are summed; such a column is never negative."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The labels of the buckets, and for each row the index of its bucket."""

    along: str
    by: Step
    labels: tuple[str, ...]
    places: tuple[int | None, ...]

    def gather(self, column: Column) -> list[list[float]]:
        """Return the numbers of a column in each bucket."""
        gathered: list[list[float]] = [[] for _ in self.labels]
        for place, number in zip(self.places, column.numbers, strict=True):
            if place is not None and number is not None:
                gathered[place].append(number)
        return gathered

    @property
    def singles(self) -> bool:
        """Whether every row has a bucket of its own."""
        return self.by == "rows" and len(self.labels) == len(self.places)

    @property
    def named(self) -> bool:
        """Whether there are few rows, and each has a name."""
        return self.singles and self.along != ROW and len(self.labels) <= MAX_NAMED


@dataclass(frozen=True, slots=True)
class _Calendar:
    number: Callable[[datetime], int]
    label: Callable[[int], str]
    most: int
    """Maximum number of buckets that ``by="auto"`` chooses."""


_CALENDARS: dict[Step, _Calendar] = {
    "day": _Calendar(datetime.toordinal, lambda day: date.fromordinal(day).isoformat(), 62),
    "month": _Calendar(
        lambda moment: moment.year * 12 + moment.month - 1,
        lambda month: f"{month // 12:04}-{month % 12 + 1:02}",
        240,
    ),
    "year": _Calendar(lambda moment: moment.year, lambda year: f"{year:04}", MAX_BUCKETS),
}


def make_series(
    columns: Sequence[Column], *, by: Literal["auto"] | Step, totals: Sequence[str] | None
) -> dict[str, Any]:
    """Return labels and charts for the columns.

    Args:
        columns: all columns of the table
        by: the size of a bucket; ``auto`` chooses the smallest that is easy to see
        totals: the columns to sum in each bucket; None for those that look like amounts
    """
    buckets = make_buckets(columns, by=by)
    added = {column.name for column in columns if _is_amount(column)}
    charts = _charts(columns, buckets, added if totals is None else set(totals))
    return {
        "along": buckets.along,
        "by": buckets.by,
        "labels": list(buckets.labels),
        "unplaced": sum(place is None for place in buckets.places),
        "charts": charts[:MAX_CHARTS],
        "left_out": [chart["title"] for chart in charts[MAX_CHARTS:]],
    }


def make_buckets(columns: Sequence[Column], *, by: Literal["auto"] | Step) -> Buckets:
    """Return buckets by the first column of dates, or by rows if there is none.

    Raises:
        ValueError: for a calendar step without dates, or a step with too many buckets.
    """
    dates = next((column for column in columns if column.kind == "date"), None)
    if by == "rows" or (by == "auto" and dates is None):
        return _slices(columns)
    if dates is None:
        raise ValueError(f"there is no column of dates to go by {by!r}: use by='rows'")
    moments = [value for value in dates.values if isinstance(value, datetime)]
    if by == "auto":
        fitting = (
            step
            for step, calendar in _CALENDARS.items()
            if _span(calendar, moments) <= calendar.most
        )
        step = next(fitting, None)
        return _slices(columns) if step is None else _along(dates, step)
    if (span := _span(_CALENDARS[by], moments)) > MAX_BUCKETS:
        raise ValueError(f"by={by!r} gives {span} points, more than {MAX_BUCKETS}: use by='auto'")
    return _along(dates, by)


def _span(calendar: _Calendar, moments: Sequence[datetime]) -> int:
    return calendar.number(max(moments)) - calendar.number(min(moments)) + 1


def _along(dates: Column, step: Step) -> Buckets:
    calendar = _CALENDARS[step]
    numbers = [
        calendar.number(value) if isinstance(value, datetime) else None for value in dates.values
    ]
    known = [number for number in numbers if number is not None]
    first, last = min(known), max(known)
    return Buckets(
        along=dates.name,
        by=step,
        labels=tuple(calendar.label(number) for number in range(first, last + 1)),
        places=tuple(None if number is None else number - first for number in numbers),
    )


def _slices(columns: Sequence[Column]) -> Buckets:
    rows = len(columns[0].values)
    size = max(1, -(-rows // MAX_SLICES))
    if size == 1:
        named = next((column for column in columns if _names_rows(column)), None)
        labels = [show(value) for value in named.present] if named else None
        return Buckets(
            along=named.name if named else ROW,
            by="rows",
            labels=tuple(labels or (str(row + 1) for row in range(rows))),
            places=tuple(range(rows)),
        )
    return Buckets(
        along=ROW,
        by="rows",
        labels=tuple(f"{first + 1}-{min(first + size, rows)}" for first in range(0, rows, size)),
        places=tuple(row // size for row in range(rows)),
    )


def _names_rows(column: Column) -> bool:
    """Return whether the column has a different text for every row."""
    return column.kind in {"text", "date"} and len(set(column.values) - {None}) == len(
        column.values
    )


def _is_amount(column: Column) -> bool:
    numbers = [number for number in column.numbers if number is not None]
    if not column.numeric or not numbers or min(numbers) < 0:
        return False
    return numbers.count(0) >= AMOUNT_ZEROS * len(numbers)


def _charts(columns: Sequence[Column], buckets: Buckets, totals: set[str]) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = []
    paired: set[str] = set()
    for column in columns:
        if not column.present or column.name in paired | {buckets.along}:
            continue
        if column.kind in {"text", "boolean"}:
            charts += _kinds(column, buckets)
        elif column.numeric and buckets.named:
            charts.append(_named(column, buckets))
        elif column.numeric and column.name in totals:
            charts.append(_total(column, buckets))
        elif column.numeric:
            partner = _partner(column, columns, totals)
            together = [column, partner] if partner else [column]
            paired |= {other.name for other in together}
            charts.append(_range(together, buckets))
    return charts


def _named(column: Column, buckets: Buckets) -> dict[str, Any]:
    items = [
        {"name": label, "value": number}
        for label, number in zip(buckets.labels, column.numbers, strict=True)
        if number is not None
    ]
    return {
        "form": "ranking",
        "title": column.name,
        "note": _note("value", buckets),
        "items": items,
    }


def _total(column: Column, buckets: Buckets) -> dict[str, Any]:
    sums = [tidy(sum(numbers)) if numbers else None for numbers in buckets.gather(column)]
    note = _note("value" if buckets.singles else "total", buckets)
    return {"form": "bars", "title": column.name, "note": note, "values": sums}


def _range(columns: Sequence[Column], buckets: Buckets) -> dict[str, Any]:
    """Return the mean of each column, and the lowest and highest of all of them together."""
    gathered = [buckets.gather(column) for column in columns]
    together = [
        [number for part in parts for number in part] for parts in zip(*gathered, strict=True)
    ]
    chart: dict[str, Any] = {
        "form": "range",
        "title": " and ".join(column.name for column in columns),
        "note": _note("value" if buckets.singles else "mean, lowest and highest", buckets),
        "lines": [
            {
                "name": column.name,
                "values": [tidy(statistics.fmean(part)) if part else None for part in parts],
            }
            for column, parts in zip(columns, gathered, strict=True)
        ],
    }
    if buckets.singles and len(columns) == 1:
        return chart
    return chart | {
        "low": [min(numbers) if numbers else None for numbers in together],
        "high": [max(numbers) if numbers else None for numbers in together],
    }


def _kinds(column: Column, buckets: Buckets) -> list[dict[str, Any]]:
    """Return the count of each value in each bucket, or only total counts if there are many."""
    counts = Counter(show(value) for value in column.present)
    if len(counts) == len(column.present):
        return []  # every value differs from the others: there is nothing to count
    if buckets.singles or len(counts) > 2 * MAX_PARTS:
        ranked = counts.most_common(MAX_RANKED)
        return [
            {
                "form": "ranking",
                "title": column.name,
                "note": "rows of each value",
                "items": [{"name": name, "value": count} for name, count in ranked],
                "others": len(counts) - len(ranked),
            }
        ]
    told = [name for name, _ in counts.most_common(MAX_PARTS)]
    names = told if len(told) == len(counts) else [*told[:-1], "other"]
    parts = {name: [0] * len(buckets.labels) for name in names}
    for place, value in zip(buckets.places, column.values, strict=True):
        if place is not None and value is not None:
            name = show(value)
            parts[name if name in parts else "other"][place] += 1
    return [
        {
            "form": "stack",
            "title": column.name,
            "note": _note("rows of each value", buckets),
            "parts": [{"name": name, "values": values} for name, values in parts.items()],
        }
    ]


def _partner(column: Column, columns: Sequence[Column], totals: set[str]) -> Column | None:
    """Return the other end of a pair such as ``temp_min`` and ``temp_max``."""
    for low, high in (("min", "max"), ("low", "high")):
        for end, other in ((low, high), (high, low)):
            words = column.name.casefold().replace("-", "_").replace(" ", "_").split("_")
            if end not in words:
                continue
            wanted = [other if word == end else word for word in words]
            for candidate in columns:
                name = candidate.name.casefold().replace("-", "_").replace(" ", "_")
                if name.split("_") == wanted and candidate.numeric and candidate.name not in totals:
                    return candidate
    return None


def _note(what: str, buckets: Buckets) -> str:
    if buckets.singles:
        return f"{what} by {buckets.along}"
    return f"{what} by {'slice of rows' if buckets.by == 'rows' else buckets.by}"
