"""Results as JSON: what is written how, and what is refused with its place."""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass

from covalt_toolset import ResultNotJson, to_json

if TYPE_CHECKING:
    from collections.abc import Callable


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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(True, True, id="boolean"),
        pytest.param(7, 7, id="integer"),
        pytest.param(1.5, 1.5, id="number"),
        pytest.param("grüße", "grüße", id="text"),
        pytest.param(Text("a"), "a", id="text-of-a-subclass"),
        pytest.param({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, id="nested"),
        pytest.param((1, "a"), [1, "a"], id="tuple"),
        pytest.param(Point(1, 2), [1, 2], id="named-tuple"),
        pytest.param({3, 1, 2}, [1, 2, 3], id="set-is-sorted"),
        pytest.param(frozenset({"b", "a"}), ["a", "b"], id="frozenset-is-sorted"),
        pytest.param(collections.deque([1, 2]), [1, 2], id="deque"),
        pytest.param(range(3), [0, 1, 2], id="range"),
        pytest.param((n * n for n in range(3)), [0, 1, 4], id="generator"),
        pytest.param(map(str, [1, 2]), ["1", "2"], id="map"),
        pytest.param({"b": 1, "a": 2}.keys(), ["b", "a"], id="keys-keep-their-order"),
        pytest.param({"b": 1}.values(), [1], id="values"),
        pytest.param({"b": 1}.items(), [["b", 1]], id="items"),
        pytest.param(collections.Counter("aab"), {"a": 2, "b": 1}, id="counter"),
        pytest.param(types.MappingProxyType({"a": 1}), {"a": 1}, id="read-only-mapping"),
        pytest.param(Color.RED, "red", id="enum"),
        pytest.param(Color.NUMBER, 3, id="enum-of-a-number"),
        pytest.param(Level.LOW, 1, id="int-enum"),
        pytest.param(Mode.FAST, "fast", id="str-enum"),
        pytest.param(date(2026, 1, 31), "2026-01-31", id="date"),
        pytest.param(datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00Z", id="datetime"),
        pytest.param(time(12), "12:00:00", id="time"),
        pytest.param(timedelta(seconds=5), "PT5S", id="duration"),
        pytest.param(Path("a/b"), "a/b", id="path"),
        pytest.param(PurePosixPath("a/b"), "a/b", id="pure-path"),
        pytest.param(Decimal("1.50"), "1.50", id="decimal"),
        pytest.param(Fraction(1, 2), "1/2", id="fraction"),
        pytest.param(UUID(int=1), "00000000-0000-0000-0000-000000000001", id="uuid"),
        pytest.param("grüße".encode(), "grüße", id="bytes-of-text"),
        pytest.param(bytearray(b"a"), "a", id="bytearray-of-text"),
        pytest.param(
            Row("a", date(2026, 1, 31)),
            {"name": "a", "when": "2026-01-31", "hidden": 1},
            id="dataclass",
        ),
        pytest.param(
            CheckedRow(date(2026, 1, 31)), {"when": "2026-01-31"}, id="pydantic-dataclass"
        ),
        pytest.param(
            Report(rows=[Row("a", date(2026, 1, 31))], anything={1: {2}}),
            {
                "rows": [{"name": "a", "when": "2026-01-31", "hidden": 1}],
                "total": 1.5,
                "anything": {"1": [2]},
                "keptAs": 3,
                "counts": {},
            },
            id="model",
        ),
        pytest.param(Numbers([1, 2.5]), [1.0, 2.5], id="root-model"),
        pytest.param([Money(amount=Decimal("1.5"))], [{"amount": 150}], id="model-has-its-say"),
        pytest.param({1: "a", 2: "b"}, {"1": "a", "2": "b"}, id="integer-keys"),
        pytest.param({Color.RED: 1}, {"red": 1}, id="enum-keys"),
        pytest.param({Mode.FAST: 1}, {"fast": 1}, id="str-enum-keys"),
        pytest.param({date(2026, 1, 31): 1}, {"2026-01-31": 1}, id="date-keys"),
        pytest.param(2**53 - 1, 9007199254740991, id="largest-exact-integer"),
    ],
)
def test_value_is_written_as(value: object, expected: object) -> None:
    written = to_json(value)

    assert written == expected
    assert json.loads(json.dumps(written, allow_nan=False)) == expected


def _list_in_itself() -> object:
    inner: list[object] = []
    inner.append(inner)
    return {"a": inner}


def _dict_in_itself() -> object:
    outer: dict[str, object] = {}
    outer["rows"] = [1, {"back": outer}]
    return outer


def _model_in_itself() -> object:
    report = Report()
    report.anything = report
    return {"a": report}


def _deep() -> object:
    value: object = 1
    for _ in range(500):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: math.nan, "$: nan is not a JSON number", id="nan"),
        pytest.param(
            lambda: {"a": [1, 2, 3, math.inf]}, "$.a[3]: inf is not a JSON number", id="infinity"
        ),
        pytest.param(lambda: [-math.inf], "$[0]: -inf is not a JSON number", id="minus-infinity"),
        pytest.param(lambda: {"f": len}, "$.f: a builtin_function_or_method is not JSON", id="c"),
        pytest.param(lambda: {"f": lambda: 1}, "$.f: a function is not JSON", id="function"),
        pytest.param(lambda: [object()], "$[0]: an object is not JSON", id="object"),
        pytest.param(lambda: [Report], "$[0]: a ModelMetaclass is not JSON", id="class"),
        pytest.param(lambda: ValueError("x"), "$: a ValueError is not JSON", id="exception"),
        pytest.param(lambda: {"raw": b"\xff"}, "$.raw: bytes that are not UTF-8 text", id="bytes"),
        pytest.param(
            lambda: {"a b": ["\ud800"]},
            '$["a b"][0]: half of a surrogate pair is not text',
            id="lone-surrogate",
        ),
        pytest.param(
            lambda: {"\ud800": 1}, "$: half of a surrogate pair is not text", id="surrogate-key"
        ),
        pytest.param(_list_in_itself, "$.a[0]: contains itself", id="list-in-itself"),
        pytest.param(_dict_in_itself, "$.rows[1].back: contains itself", id="dict-in-itself"),
        pytest.param(
            _model_in_itself, "$.a.anything.anything: contains itself", id="model-in-itself"
        ),
        pytest.param(_deep, f"${'[0]' * 128}: is nested more than 128 deep", id="too-deep"),
        pytest.param(
            lambda: {"a": {1: "x", "1": "y"}},
            "$.a: the keys 1 and '1' are the same key in JSON",
            id="colliding-keys",
        ),
        pytest.param(
            lambda: {"a": {object: 1}}, "$.a: a type is not a key in JSON", id="object-as-key"
        ),
        pytest.param(
            lambda: {"a": {b"\xff": 1}}, "$.a: a bytes is not a key in JSON", id="bytes-as-key"
        ),
        pytest.param(
            lambda: {"size": 2**53},
            "$.size: an integer beyond 2^53 is not exact in JSON, give it as a string",
            id="integer-that-others-round",
        ),
        pytest.param(
            lambda: Row("a", math.nan),  # type: ignore[arg-type]
            "$.when: nan is not a JSON number",
            id="nan-in-a-dataclass",
        ),
        pytest.param(
            lambda: {"r": Report(total=math.nan)},
            "$.r.total: nan is not a JSON number",
            id="nan-in-a-model",
        ),
        pytest.param(
            lambda: Report(anything=[1, [math.inf]]),
            "$.anything[1][0]: inf is not a JSON number",
            id="infinity-deep-in-a-model",
        ),
        pytest.param(
            lambda: Report(anything=[1, len]),
            "$.anything[1]: a builtin_function_or_method is not JSON",
            id="function-in-a-model",
        ),
        pytest.param(
            lambda: Report(anything=b"\xff"),
            "$.anything: bytes that are not UTF-8 text",
            id="bytes-in-a-model",
        ),
        pytest.param(
            lambda: Report(anything="\ud800"),
            "$.anything: half of a surrogate pair is not text",
            id="surrogate-in-a-model",
        ),
        pytest.param(
            lambda: Report(counts={1: 1, "1": 2}),
            "$.counts: the keys 1 and '1' are the same key in JSON",
            id="colliding-keys-in-a-model",
        ),
        pytest.param(
            lambda: [Stubborn()],
            "$[0]: error calling function `never`: ValueError: no form for 1",
            id="model-that-refuses",
        ),
    ],
)
def test_value_is_refused_with_its_place(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ResultNotJson) as caught:
        to_json(make())

    assert str(caught.value) == message
    assert f"{caught.value.place}: {caught.value.reason}" == message


def test_one_value_in_two_places_is_no_cycle() -> None:
    row = {"a": 1}

    assert to_json([row, row]) == [{"a": 1}, {"a": 1}]


def test_an_open_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("some lines\n", encoding="utf-8")

    with (tmp_path / "a").open(encoding="utf-8") as file:
        with pytest.raises(ResultNotJson) as caught:
            to_json({"file": file})
        rest = file.read()

    assert str(caught.value) == "$.file: a TextIOWrapper is not JSON"
    assert rest == "some lines\n"


def test_result_is_a_copy() -> None:
    value = {"a": [1]}

    written = to_json(value)

    assert written["a"] is not value["a"]


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(_json)
def test_json_is_written_as_itself(value: object) -> None:
    assert to_json(value) == value


@given(
    st.recursive(
        st.floats() | st.text(st.characters()) | st.integers() | st.binary(), st.lists, max_leaves=8
    )
)
def test_whatever_is_written_is_json(value: object) -> None:
    try:
        written = to_json(value)
    except ResultNotJson:
        return

    assert json.loads(json.dumps(written, allow_nan=False).encode()) == written
