"""Results as JSON: how Python values are written, and the place of refused values."""

import collections
import dataclasses
import enum
import json
import math
import types
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from covalt_toolset import ResultNotJson, to_json
from tests.tables import tables

TABLES = tables(__file__)
NAMES = (
    *(collections, math, types, UTC, datetime, time, timedelta),
    *(Fraction, Path, PurePosixPath, UUID),
)
"""Imported for the expressions of the tables."""


class Color(enum.Enum):
    RED = "red"
    NUMBER = 3


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Row:
    name: str
    when: date
    hidden: int = dataclasses.field(default=1, repr=False)


@pydantic_dataclass
class CheckedRow:
    when: date


class Report(BaseModel):
    rows: list[Row] = []
    total: float = 1.5
    anything: Any = None
    kept_as: int = Field(3, serialization_alias="keptAs")
    counts: dict[int | str, int] = {}


class Numbers(RootModel[list[float]]):
    pass


class Money(BaseModel):
    amount: Decimal

    @field_serializer("amount")
    def in_cents(self, amount: Decimal) -> int:
        return int(amount * 100)


class Stubborn(BaseModel):
    value: int = 1

    @field_serializer("value")
    def never(self, value: int) -> int:
        raise ValueError(f"no form for {value}")


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(("expression", "expected"), TABLES["written"])
def test_value_is_written_as(expression: str, expected: object) -> None:
    written = to_json(eval(expression, globals()))

    assert written == expected
    assert json.loads(json.dumps(written, allow_nan=False)) == expected


@pytest.mark.parametrize(("expression", "message"), TABLES["refused"])
def test_value_is_refused_with_its_place(expression: str, message: str) -> None:
    with pytest.raises(ResultNotJson) as caught:
        to_json(eval(expression, globals()))

    assert str(caught.value) == f"{caught.value.place}: {caught.value.reason}" == message


def test_cycles_are_refused_with_their_place() -> None:
    in_list: list[object] = []
    in_list.append(in_list)
    in_dict: dict[str, object] = {}
    in_dict["rows"] = [1, {"back": in_dict}]
    in_model = Report()
    in_model.anything = in_model

    for value, place in (
        ({"a": in_list}, "$.a[0]"),
        (in_dict, "$.rows[1].back"),
        ({"a": in_model}, "$.a.anything.anything"),
    ):
        with pytest.raises(ResultNotJson, match="contains itself") as caught:
            to_json(value)
        assert caught.value.place == place


def test_result_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ResultNotJson, match="nested deeper than 128 levels") as caught:
        to_json(json.loads("[" * 500 + "]" * 500))

    assert caught.value.place == "$" + "[0]" * 128


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON)
def test_json_is_written_unchanged(value: object) -> None:
    assert to_json(value) == value


@given(
    st.recursive(
        st.floats() | st.text(st.characters()) | st.integers() | st.binary(), st.lists, max_leaves=8
    )
)
def test_every_written_value_is_json(value: object) -> None:
    try:
        written = to_json(value)
    except ResultNotJson:
        return

    assert json.loads(json.dumps(written, allow_nan=False).encode()) == written
