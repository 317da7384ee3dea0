"""How many cases of a law are tried: some in every run, many in ``python -m tests.stress laws``."""

import os
from collections.abc import Sequence
from typing import Any

import pytest

FACTOR = float(os.environ.get("COVALT_EXAMPLES", "0.4"))
"""What every number of hypothesis's examples is multiplied by."""

EVERY = 1 if FACTOR >= 1 else 3
"""Of a step that takes long, every how many changes of the disk a kill is tried (the mark ``kills``)."""


def examples(number: int) -> int:
    """Return how many examples to try where ``number`` are thought to be enough for long."""
    return max(1, round(number * FACTOR))


def covering_pairs(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return parameters in which each value of both occurs; the other pairs run with ``make stress``."""
    longest = max(len(first), len(second))
    covering = {(number % len(first), number % len(second)) for number in range(longest)}
    return [
        pytest.param(left, right, marks=() if (row, column) in covering else pytest.mark.stress)
        for row, left in enumerate(first)
        for column, right in enumerate(second)
    ]
