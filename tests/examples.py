"""How many cases of a law are tried: some in every run, many in ``python -m tests.stress laws``."""

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest

FACTOR = float(os.environ.get("COVALT_EXAMPLES", "0.25"))
"""What every number of hypothesis's examples is multiplied by."""

EVERY = 1 if FACTOR >= 1 else 5
"""Before one in how many changes of the disk, or lines, a kill or a failure is tried (the mark ``kills``)."""


def examples(number: int) -> int:
    """Return how many examples to try where ``number`` are thought to be enough for long."""
    return max(1, round(number * FACTOR))


def rest(*values: Any, id: str | None = None) -> Any:  # noqa: A002 - as that of pytest.param
    """Return a row of parameters that runs with ``make test-rest``: another row of its class runs in every run."""
    return pytest.param(*values, id=id, marks=pytest.mark.rest)


def covering(*columns: Sequence[Any]) -> list[Any]:
    """Return parameters in which each value of each column occurs; the other rows run with ``make test-rest``."""
    longest = max(map(len, columns))
    covered = {tuple(number % len(column) for column in columns) for number in range(longest)}
    return [
        pytest.param(
            *(column[place] for column, place in zip(columns, row, strict=True)),
            marks=() if row in covered else pytest.mark.rest,
        )
        for row in product(*(range(len(column)) for column in columns))
    ]


def one_in(number: int, rows: Iterable[Any]) -> list[Any]:
    """Return parameters of which one in ``number`` runs in every run; the others run with ``make test-rest``.

    For rows of one class, which a cheaper test tries all.
    """
    return [
        pytest.param(row, marks=() if place % number == 0 else pytest.mark.rest)
        for place, row in enumerate(rows)
    ]


def named(rows: Iterable[str], *names: str) -> list[Any]:
    """Return parameters of which the named ones run in every run; the others with ``make test-rest``."""
    rows = list(rows)
    assert set(names) <= set(rows)
    return [
        pytest.param(row, marks=() if row in names else pytest.mark.rest, id=row) for row in rows
    ]


def first_of(rows: Iterable[Sequence[Any]], *classes: Sequence[int]) -> list[Any]:
    """Return parameters of which the first row of each class runs in every run; the others with ``make test-rest``.

    A class is all rows with the same values in some columns, by their numbers.
    """
    known: set[tuple[Any, ...]] = set()
    parameters = []
    for row in rows:
        values = {(columns, *(row[column] for column in columns)) for columns in classes}
        parameters.append(pytest.param(*row, marks=pytest.mark.rest if values <= known else ()))
        known |= values
    return parameters
