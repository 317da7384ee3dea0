"""Pages of a table, compared with sorting and filtering all of its rows."""

from functools import cmp_to_key
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.tabular import query
from covalt_git.tabular.query import Filter, RowQuery, find_page
from tests.examples import examples

CELLS = st.sampled_from(
    [
        *("", " ", "0", "-0", "2", "10", "1e1", "1.5", "nan", "inf", "1_0", "9007199254740993"),
        *("9007199254740992.0", "a", "B", "b", "ß", "2026-01-02", "x" * 30, "'=1+1"),
    ]
)
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=3), max_size=30)


def compare(left: str, right: str) -> int:
    """Compare two cells that are not empty, without the keys of the module."""
    numbers = [query.number(left), query.number(right)]
    if None in numbers:
        if numbers != [None, None]:
            return 1 if numbers[0] is None else -1
        return (left.casefold() > right.casefold()) - (left.casefold() < right.casefold())
    assert numbers[0] is not None
    assert numbers[1] is not None
    return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])


@settings(max_examples=examples(200))
@given(
    ROWS, st.integers(0, 3), st.sampled_from([True, False]), st.integers(0, 12), st.integers(1, 12)
)
def test_sorted_pages_are_those_of_the_sorted_table(
    rows: list[list[str]], column: int, descending: Literal[True, False], offset: int, limit: int
) -> None:
    """Numbers sort as numbers, empty cells are last, and equal cells keep their order, in both directions."""
    numbered = list(enumerate(rows, 1))
    cells = {number: row[column] if column < len(row) else "" for number, row in numbered}
    full = [entry for entry in numbered if cells[entry[0]].strip()]
    empty = [entry for entry in numbered if not cells[entry[0]].strip()]
    by_value = cmp_to_key(compare)
    full.sort(key=lambda entry: by_value(cells[entry[0]]), reverse=descending)

    page = find_page(["a", "b"], rows, RowQuery((), column, descending, offset, limit))

    assert list(page.rows) == [*full, *empty][offset : offset + limit]
    assert (page.total, page.matching) == (len(rows), len(rows))
    assert page.ragged == sum(len(row) != 2 for row in rows)


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        (Filter(0, "~", "PP"), [1]),
        (Filter(0, "=", "apple"), [1]),
        (Filter(0, "=", "Apple"), []),
        (Filter(1, "=", "3.0"), [1]),
        (Filter(1, "<", "10"), [1, 2]),
        (Filter(1, ">", "-4"), [1, 3]),
        (Filter(1, "<", "b"), [5]),
        (Filter(1, "=", ""), [4]),
        (Filter(2, ">", "2026-01-31"), [2]),
        (Filter(2, ">", "2026"), [2]),
        (Filter(2, "<", "2026"), []),
        (Filter(2, "<", "2027"), [2]),
        (Filter(9, "~", "x"), []),
    ],
    ids=str,
)
def test_a_filter_compares_numbers_with_numbers_and_texts_with_texts(
    condition: Filter, numbers: list[int]
) -> None:
    rows = [["apple", "3"], ["pear", "-5", "2026-02-01"], ["fig", "10"], ["kiwi", ""], ["q", "a"]]

    page = find_page(["name", "size"], rows, RowQuery((condition,)))

    assert [number for number, _ in page.rows] == numbers
    assert page.matching == len(numbers)


def test_a_sorted_table_ends_after_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MOST_SORTED", 5)
    rows = [[str(number)] for number in range(9)]

    page = find_page(["a"], rows, RowQuery((), 0, descending=True, offset=3, limit=4))

    assert [row for _, row in page.rows] == [["5"], ["4"]]
    assert page.matching == 9
