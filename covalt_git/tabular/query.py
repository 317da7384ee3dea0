"""One page of a table: rows that match filters, sorted by a column, read in a single pass.

The memory depends on the place of the page and not on the table: a sorted page is the end of the first ``offset + limit`` rows,
which a heap holds.  So a sorted table ends after ``MOST_SORTED`` rows; the other direction and filters lead to the rest.
"""

from __future__ import annotations

import heapq
import re
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

MOST_SORTED = 10_000
"""Number of rows that can be reached in a sorted table."""

Test = Literal["~", "=", "<", ">"]
Key: TypeAlias = tuple[int, float | str]
Row: TypeAlias = list[str]

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")

# A year is a number, and a date is a text.
_YEAR = re.compile(r"[0-9]{4}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}(?![0-9])")


class Filter(NamedTuple):
    """A condition on the cells of a column, counted from 0.

    ``~`` is contains, without regard to case; ``=`` compares numbers by value and texts exactly; ``<`` and ``>`` compare
    numbers if the value is a number, otherwise texts that are not numbers, such as dates.  They compare a year with dates
    (ISO 8601) too.
    """

    column: int
    test: Test
    value: str


class Page(NamedTuple):
    """Rows of a page, with their numbers in the table, counted from 1.

    Attributes:
        total: rows of the table.
        matching: rows that match the filters.
        width: cells of the widest row.
        ragged: rows with another number of cells than there are titles.
        first_ragged: the number of the first of them; 0 without any.
    """

    rows: tuple[tuple[int, Row], ...]
    total: int
    matching: int
    width: int
    ragged: int
    first_ragged: int


class RowQuery(NamedTuple):
    """What a page of a table has; ``sort`` is a column, counted from 0."""

    filters: tuple[Filter, ...] = ()
    sort: int | None = None
    descending: bool = False
    offset: int = 0
    limit: int = 100


def find_page(titles: Sequence[str], rows: Iterable[Row], query: RowQuery) -> Page:
    """Return a page of a table.

    Equal cells keep their order in both directions, numbers come before texts, and empty cells are last in both.
    """
    facts = _Facts(len(titles))
    matching = _matching(facts, rows, query.filters)
    end = query.offset + query.limit
    if query.sort is None:
        chosen = [row for count, row in enumerate(matching) if query.offset <= count < end]
    else:
        chosen = _sorted(matching, query.sort, min(end, MOST_SORTED), descending=query.descending)
        chosen = chosen[query.offset :]
    return Page(
        tuple(chosen), facts.total, facts.matching, facts.width, facts.ragged, facts.first_ragged
    )


def find_rows(
    rows: Iterable[Row],
    filters: Sequence[Filter],
    sort: int | None = None,
    *,
    descending: bool = False,
) -> Iterator[Row]:
    """Yield all rows that match filters, in their order, or sorted by a column as :func:`find_page` sorts."""
    tests = [_test(condition) for condition in filters]
    matching = (row for row in rows if all(test(row) for test in tests))
    if sort is None:
        return matching
    # Unlike a page, the answer has all rows, so that the memory holds them anyway.
    chosen = list(matching)
    numbered = enumerate(chosen, 1)
    return (row for _, row in _sorted(numbered, sort, len(chosen), descending=descending))


class _Facts:
    """Counts of a pass over a table."""

    def __init__(self, width: int) -> None:
        self.total = self.matching = self.ragged = self.first_ragged = 0
        self.titles = self.width = width


def _matching(
    facts: _Facts, rows: Iterable[Row], filters: Sequence[Filter]
) -> Iterator[tuple[int, Row]]:
    tests = [_test(condition) for condition in filters]
    number = 0
    for number, row in enumerate(rows, 1):
        if len(row) != facts.titles:
            facts.ragged += 1
            facts.first_ragged = facts.first_ragged or number
            facts.width = max(facts.width, len(row))
        if all(test(row) for test in tests):
            facts.matching += 1
            yield number, row
    facts.total = number


def _sorted(
    rows: Iterable[tuple[int, Row]], column: int, most: int, *, descending: bool
) -> list[tuple[int, Row]]:
    empty: list[tuple[int, Row]] = []

    def keyed() -> Iterator[tuple[Key, tuple[int, Row]]]:
        for numbered in rows:
            cell = _cell(numbered[1], column)
            if cell and not cell.isspace():
                yield sort_key(cell), numbered
            elif len(empty) < most:
                empty.append(numbered)

    # Both are stable: nlargest is sorted(..., reverse=True)[:most], which keeps the order of equal keys.
    choose = heapq.nlargest if descending else heapq.nsmallest
    first = [numbered for _, numbered in choose(most, keyed(), key=itemgetter(0))]
    return (first + empty)[:most]


def sort_key(cell: str) -> Key:
    """Return the key of a cell that is not empty: numbers by value, then texts without regard to case."""
    value = number(cell)
    return (1, cell.casefold()) if value is None else (0, value)


def number(cell: str) -> float | None:
    """Return the number in a cell; integers exactly; None for other texts, also ``nan``, ``inf`` and ``1_000``."""
    text = cell.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def _cell(row: Row, column: int) -> str:
    return row[column] if column < len(row) else ""


def _test(condition: Filter) -> Callable[[Row], bool]:
    column, test, text = condition
    value = number(text)
    folded = text.casefold()
    if test == "~":
        return lambda row: folded in _cell(row, column).casefold()
    if test == "=" and value is None:
        return lambda row: _cell(row, column) == text
    if test == "=":
        return lambda row: number(_cell(row, column)) == value
    kind, limit = sort_key(text) if text else (1, "")
    sign = 1 if test == ">" else -1
    year = text.strip() if _YEAR.fullmatch(text.strip()) else None

    def is_beyond(row: Row) -> bool:
        cell = _cell(row, column)
        if not cell:
            return False
        if year is not None and _DATE.match(cell):
            return cell != year and (cell > year) == (sign > 0)
        own_kind, own = sort_key(cell)
        return own_kind == kind and own != limit and (own > limit) == (sign > 0)  # type: ignore[operator]

    return is_beyond
