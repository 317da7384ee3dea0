"""Conditions on a column, which compare values by the type of the column."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal

from tools.columns import (
    Column,
    Kind,
    Value,
    parse_boolean,
    parse_date,
    parse_number,
    read_column,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "contains"]

# Both operands have the type of the column, which is known only at run time.
_COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_READERS: dict[Kind, tuple[Callable[[str], Value | None], str]] = {
    "integer": (parse_number, "numbers"),
    "number": (parse_number, "numbers"),
    "date": (parse_date, "dates such as 2012-12-31"),
    "boolean": (parse_boolean, "true and false"),
    "text": (str, "text"),
}


def satisfied(name: str, cells: Sequence[str], op: Operator, value: object) -> list[bool]:
    """Return for each cell of column ``name`` whether it satisfies the condition.

    ``contains`` searches the text of the cell, ignoring case.  A missing cell equals only the empty
    text, and satisfies none of the conditions ``<``, ``<=``, ``>`` and ``>=``.

    Raises:
        ValueError: when ``value`` does not have the column's type.
    """
    if op == "contains":
        piece = str(value).casefold()
        return [piece in cell.casefold() for cell in cells]
    column = read_column(name, cells)
    wanted = _wanted(column, value)
    compare = _COMPARISONS[op]
    if op in {"=", "!="}:
        return [compare(cell, wanted) for cell in column.values]
    if wanted is None:
        raise ValueError(f"column {name!r}: {op} needs a value that is not empty")
    return [cell is not None and compare(cell, wanted) for cell in column.values]


def _wanted(column: Column, value: object) -> Value | None:
    text = str(value).strip()
    if not text:
        return None
    read, what = _READERS[column.kind]
    wanted = read(text)
    if wanted is None:
        raise ValueError(f"column {column.name!r} has {what}, not {text!r}")
    return wanted
