"""Calling a tool with JSON: what arrives, what is refused, and that it agrees with the schema."""

import asyncio
import dataclasses
import enum
import functools
import math
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator, model_validator

from covalt_toolset import (
    ArgumentProblem,
    InvalidToolArguments,
    ToolSignatureError,
    clear_context,
    describe,
    get_context,
    invoke,
    set_context,
)
from tests.examples import examples


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Priority(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Row:
    name: str
    when: date
    color: Color = Color.RED


class Config(BaseModel):
    rows: list[Row] = []
    limit: Annotated[int, Field(gt=0)] = 10


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


class Range(BaseModel):
    """A model whose author checks more than types, and looks before pydantic does."""

    first: datetime
    last: datetime
    tags: set[str] = set()

    @model_validator(mode="before")
    @classmethod
    def look(cls, value: object) -> object:
        return value

    @field_validator("first", mode="before")
    @classmethod
    def look_at_first(cls, value: object) -> object:
        return value

    @model_validator(mode="after")
    def in_order(self) -> "Range":
        if self.last < self.first:
            raise ValueError("Last is before first")
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Options(typing.TypedDict, total=False):
    depth: typing.Required[int]
    label: str


def _taking(annotation: object) -> Callable[..., object]:
    def function(value: object) -> object:
        return value

    function.__annotations__ = {"value": annotation}
    return function


def _problems(function: Callable[..., object], arguments: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidToolArguments) as caught:
        invoke(function, arguments)

    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem) for problem in caught.value.problems]


ROW = {"name": "a", "when": "2026-01-31", "color": "blue"}
RANGE = {"first": "2026-01-01T00:00:00", "last": "2026-01-02T00:00:00", "tags": ["a"]}


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        pytest.param(str, "a", "a", id="str"),
        pytest.param(int, 5, 5, id="int"),
        pytest.param(int, 5.0, 5, id="whole-number-for-int"),
        pytest.param(float, 1.5, 1.5, id="float"),
        pytest.param(float, 5, 5.0, id="int-for-float"),
        pytest.param(bool, True, True, id="bool"),
        pytest.param(None, None, None, id="none"),
        pytest.param(Any, {"a": [1, None]}, {"a": [1, None]}, id="any"),
        pytest.param(list[int], [1, 2], [1, 2], id="list"),
        pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="dict"),
        pytest.param(dict[int, str], {"1": "a"}, {1: "a"}, id="dict-with-integer-keys"),
        pytest.param(tuple[int, str], [1, "a"], (1, "a"), id="tuple"),
        pytest.param(set[int], [1, 2], {1, 2}, id="set"),
        pytest.param(Sequence[int], [1, 2], [1, 2], id="sequence"),
        pytest.param(Iterable[int], [1, 2], [1, 2], id="iterable"),
        pytest.param(int | None, None, None, id="optional"),
        pytest.param(int | str, "5", "5", id="union-keeps-text"),
        pytest.param(Literal["a", 1], 1, 1, id="literal"),
        pytest.param(Color, "red", Color.RED, id="enum"),
        pytest.param(Priority, 1, Priority.LOW, id="int-enum"),
        pytest.param(Row, ROW, Row("a", date(2026, 1, 31), Color.BLUE), id="dataclass"),
        pytest.param(Options, {"depth": 1}, {"depth": 1}, id="typed-dict"),
        pytest.param(
            list[Options],
            [{"depth": 1, "label": "a"}],
            [{"depth": 1, "label": "a"}],
            id="typed-dicts",
        ),
        pytest.param(date, "2026-01-31", date(2026, 1, 31), id="date"),
        pytest.param(datetime, "2026-01-31T12:00:00", datetime(2026, 1, 31, 12), id="datetime"),  # noqa: DTZ001 - as given
        pytest.param(time, "12:30:00", time(12, 30), id="time"),
        pytest.param(timedelta, "PT5S", timedelta(seconds=5), id="duration"),
        pytest.param(UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1), id="uuid"),
        pytest.param(Path, "a/b", Path("a/b"), id="path"),
        pytest.param(Decimal, "1.50", Decimal("1.50"), id="decimal-as-text"),
        pytest.param(Decimal, 1.5, Decimal("1.5"), id="decimal-as-number"),
        pytest.param(bytes, "grüße", "grüße".encode(), id="bytes"),
        pytest.param(
            Config,
            {"rows": [ROW]},
            Config(rows=[Row("a", date(2026, 1, 31), Color.BLUE)]),
            id="model",
        ),
        pytest.param(
            Tree,
            {"label": "a", "children": [{"label": "b"}]},
            Tree(label="a", children=[Tree(label="b")]),
            id="recursive-model",
        ),
        pytest.param(
            Range,
            RANGE,
            Range(first=datetime(2026, 1, 1), last=datetime(2026, 1, 2), tags={"a"}),  # noqa: DTZ001 - as given
            id="model-with-validators-before",
        ),
        pytest.param(
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "dog", "name": "Rex"},
            Dog(kind="dog", name="Rex"),
            id="union-by-tag",
        ),
        pytest.param(Color, Color.RED, Color.RED, id="python-value-that-is-json"),
    ],
)
def test_value_arrives_as(annotation: object, value: object, expected: object) -> None:
    arrived = invoke(_taking(annotation), {"value": value})

    assert arrived == expected
    assert type(arrived) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "problems"),
    [
        pytest.param(int, "5", ["$.value: must be an integer, not a string"], id="text-for-int"),
        pytest.param(int, True, ["$.value: must be an integer, not a boolean"], id="bool-for-int"),
        pytest.param(int, 5.5, ["$.value: must be an integer, not a number"], id="half-for-int"),
        pytest.param(int, None, ["$.value: must be an integer, not null"], id="null-for-int"),
        pytest.param(bool, 1, ["$.value: must be a boolean, not an integer"], id="1-for-bool"),
        pytest.param(
            bool, "true", ["$.value: must be a boolean, not a string"], id="text-for-bool"
        ),
        pytest.param(str, 5, ["$.value: must be a string, not an integer"], id="int-for-str"),
        pytest.param(float, "5", ["$.value: must be a number, not a string"], id="text-for-float"),
        pytest.param(
            float, False, ["$.value: must be a number, not a boolean"], id="bool-for-float"
        ),
        pytest.param(
            list[int], {}, ["$.value: must be an array, not an object"], id="dict-for-list"
        ),
        pytest.param(
            dict[str, int], [], ["$.value: must be an object, not an array"], id="list-for-dict"
        ),
        pytest.param(
            list[int],
            [1, "a", 2, None],
            [
                "$.value[1]: must be an integer, not a string",
                "$.value[3]: must be an integer, not null",
            ],
            id="items",
        ),
        pytest.param(
            dict[str, int],
            {"a b": "x"},
            ['$.value["a b"]: must be an integer, not a string'],
            id="values",
        ),
        pytest.param(tuple[int, str], [1], ["$.value: must have 2 items, not 1"], id="short-tuple"),
        pytest.param(
            tuple[int, str], [1, "a", 2], ["$.value: must have 2 items, not 3"], id="long-tuple"
        ),
        pytest.param(set[int], [1, 1], ["$.value: must not hold an item twice"], id="set"),
        pytest.param(
            int | str | None,
            [],
            ["$.value: must be null, an integer or a string, not an array"],
            id="union",
        ),
        pytest.param(
            int | list[int],
            ["a"],
            ["$.value[0]: must be an integer, not a string"],
            id="union-reports-what-fits-best",
        ),
        pytest.param(Literal["a", 1], "b", ['$.value: must be "a" or 1'], id="literal"),
        pytest.param(Literal["a"], "b", ['$.value: must be "a"'], id="literal-of-one"),
        pytest.param(
            Literal[1, 2], True, ["$.value: must be an integer, not a boolean"], id="true-is-not-1"
        ),
        pytest.param(
            Literal[1, "a"],
            True,
            ["$.value: must be an integer or a string, not a boolean"],
            id="true-is-no-choice",
        ),
        pytest.param(
            Priority, True, ["$.value: must be an integer, not a boolean"], id="true-is-no-member"
        ),
        pytest.param(Color, "green", ['$.value: must be "red" or "blue"'], id="enum"),
        pytest.param(date, "tomorrow", ["$.value: must be a date such as 2026-01-31"], id="date"),
        pytest.param(date, 5, ["$.value: must be a string, not an integer"], id="number-for-date"),
        pytest.param(
            date,
            "1704067200",
            ["$.value: must be a date such as 2026-01-31"],
            id="seconds-for-date",
        ),
        pytest.param(
            date,
            "2026-02-31",
            ["$.value: must be a valid date or datetime, day value is outside expected range"],
            id="no-such-date",
        ),
        pytest.param(
            datetime,
            "1704067200",
            ["$.value: must be a date and time such as 2026-01-31T12:00:00Z"],
            id="seconds-for-datetime",
        ),
        pytest.param(time, "noon", ["$.value: must be a time such as 12:00:00"], id="time"),
        pytest.param(
            UUID,
            "x",
            ["$.value: must be a valid UUID, invalid character: found `x` at 0"],
            id="uuid",
        ),
        pytest.param(Decimal, "x", ["$.value: must be a valid decimal"], id="decimal"),
        pytest.param(
            Annotated[int, Field(gt=0)], 0, ["$.value: must be greater than 0"], id="range"
        ),
        pytest.param(
            Annotated[str, Field(min_length=2)],
            "a",
            ["$.value: must have at least 2 characters"],
            id="length",
        ),
        pytest.param(
            Annotated[list[int], Field(min_length=2)],
            [1],
            ["$.value: must have at least 2 items, not 1"],
            id="items-length",
        ),
        pytest.param(
            Annotated[str, Field(pattern="^a$")],
            "b",
            ["$.value: must match pattern '^a$'"],
            id="pattern",
        ),
        pytest.param(
            Annotated[int, Field(gt=0)] | Annotated[int, Field(lt=-9)],
            -1,
            ["$.value: must be greater than 0 or must be less than -9"],
            id="ranges-of-a-union",
        ),
        pytest.param(
            Config, "x", ["$.value: must be an object, not a string"], id="text-for-model"
        ),
        pytest.param(
            Config,
            {"rows": [ROW, ROW, ROW, {"when": 5, "color": "green"}], "limit": "x"},
            [
                "$.value.rows[3].name: missing",
                "$.value.rows[3].when: must be a string, not an integer",
                '$.value.rows[3].color: must be "red" or "blue"',
                "$.value.limit: must be an integer, not a string",
            ],
            id="deep-in-a-model",
        ),
        pytest.param(
            Config, {"limit": 0}, ["$.value.limit: must be greater than 0"], id="range-in-a-model"
        ),
        pytest.param(
            Row, {**ROW, "size": 1}, ["$.value.size: unknown key"], id="unknown-key-of-a-dataclass"
        ),
        pytest.param(
            Tree,
            {"label": "a", "children": [{"label": "b", "children": [{}]}]},
            ["$.value.children[0].children[0].label: missing"],
            id="recursive-model",
        ),
        pytest.param(
            Range,
            {"first": "2026-01-02T00:00:00", "last": "2026-01-01T00:00:00"},
            ["$.value: last is before first"],
            id="the-author's-own-check",
        ),
        pytest.param(
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "dog", "lives": 9},
            ["$.value.name: missing"],
            id="union-by-tag",
        ),
        pytest.param(
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"kind": "cow"},
            ['$.value.kind: must be "cat" or "dog"'],
            id="union-by-an-unknown-tag",
        ),
        pytest.param(
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"lives": 9},
            ["$.value.kind: missing"],
            id="union-without-its-tag",
        ),
        pytest.param(
            Options,
            {"label": 1},
            ["$.value.depth: missing", "$.value.label: must be a string, not an integer"],
            id="typed-dict",
        ),
    ],
)
def test_value_is_refused_with_places(
    annotation: object, value: object, problems: list[str]
) -> None:
    assert _problems(_taking(annotation), {"value": value}) == problems


def resize(path: str, width: Annotated[int, Field(gt=0)], height: int = 10) -> str:
    return f"{path} {width} {height}"


def test_all_problems_are_told_at_once() -> None:
    found = _problems(resize, {"width": 0, "height": "x", "colour": "red"})

    assert found == [
        "$.path: missing",
        "$.height: must be an integer, not a string",
        "$.colour: unknown argument",
        "$.width: must be greater than 0",
    ]


def test_problem_is_a_path_and_a_message() -> None:
    with pytest.raises(InvalidToolArguments) as caught:
        invoke(resize, {"path": "a", "width": "b"})

    assert caught.value.problems == (
        ArgumentProblem("$.width", "must be an integer, not a string"),
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(math.nan, "$.value.a: nan is not a JSON number", id="nan"),
        pytest.param(
            "\ud800", "$.value.a: half of a surrogate pair is not text", id="lone-surrogate"
        ),
        pytest.param(print, "$.value.a: a builtin_function_or_method is not JSON", id="function"),
    ],
)
def test_arguments_that_are_not_json_are_refused(value: object, problem: str) -> None:
    assert _problems(_taking(Any), {"value": {"a": value}}) == [problem]


def test_arguments_nested_too_deeply_are_refused() -> None:
    deep: object = 1
    for _ in range(1000):
        deep = [deep]

    (problem,) = _problems(_taking(Any), {"value": deep})

    assert problem.endswith("is nested more than 128 deep")


def test_arguments_as_deep_as_allowed_arrive() -> None:
    deep: object = 1
    for _ in range(127):
        deep = [deep]

    assert invoke(_taking(Any), {"value": deep}) == deep


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(InvalidToolArguments, match=r"^\$: must be an object$"):
        invoke(resize, ["a", 1])  # type: ignore[arg-type]


def test_argument_with_default_need_not_be_given() -> None:
    assert invoke(resize, {"path": "a", "width": 1}) == "a 1 10"
    assert invoke(resize, {"path": "a", "width": 1, "height": 10}) == "a 1 10"


def test_python_default_arrives_as_it_is() -> None:
    marker = object()

    def function(value: int | object = marker) -> object:
        return value

    assert invoke(function, {}) is marker


def test_default_of_a_field_arrives() -> None:
    def function(
        a: int = Field(3, gt=1),
        b: list[int] = Field(default_factory=lambda: [1]),  # noqa: B008 - authors write it
        *,
        c: Annotated[int, Field(default=7)],
    ) -> object:
        return a, b, c

    assert invoke(function, {}) == (3, [1], 7)


def test_default_none_may_be_given_as_null() -> None:
    def function(size: int = None) -> object:  # type: ignore[assignment]  # noqa: RUF013 - authors do
        return size

    assert invoke(function, {"size": None}) is None


def test_unannotated_argument_arrives_as_it_is() -> None:
    def function(a, b=1):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return a, b

    assert invoke(function, {"a": {"x": [1.5, None]}}) == ({"x": [1.5, None]}, 1)


@pytest.mark.parametrize("name", ["schema", "copy", "json", "model_config", "class_", "_private"])
def test_argument_may_be_called(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def function({name}: int): return {name}", namespace)

    assert invoke(namespace["function"], {name: 7}) == 7
    assert _problems(namespace["function"], {}) == [f"$.{name}: missing"]


def test_argument_is_given_by_its_alias() -> None:
    def function(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    assert invoke(function, {"from": "a"}) == "a"
    assert _problems(function, {"from_": "a"}) == ["$.from: missing", "$.from_: unknown argument"]


def test_workspace_is_the_context_s(tmp_path: Path) -> None:
    def function(workspace: Path, name: str) -> Path:
        return workspace / name

    with set_context(workspace=tmp_path):
        assert invoke(function, {"name": "a"}) == tmp_path / "a"


def test_workspace_cannot_be_given(tmp_path: Path) -> None:
    def function(workspace: Path) -> Path:
        return workspace

    with set_context(workspace=tmp_path):
        assert _problems(function, {"workspace": "/etc"}) == ["$.workspace: unknown argument"]


def test_workspace_outside_of_a_call_says_what_a_test_should_do() -> None:
    def function(workspace: Path) -> Path:
        return workspace

    clear_context()

    with pytest.raises(RuntimeError, match="only while a tool runs"):
        invoke(function, {})


def test_async_tool_runs_to_its_end_in_the_context(tmp_path: Path) -> None:
    async def function(name: str) -> Path:
        await asyncio.sleep(0)
        return get_context().workspace / name

    with set_context(workspace=tmp_path):
        assert invoke(function, {"name": "a"}) == tmp_path / "a"


def test_async_tool_behind_a_plain_decorator_is_awaited() -> None:
    async def double(value: int) -> int:
        return 2 * value

    @functools.wraps(double)
    def function(value: int) -> Awaitable[int]:
        return double(value)

    assert invoke(function, {"value": 2}) == 4


def test_async_tool_inside_a_running_loop_is_refused() -> None:
    async def function() -> None: ...

    async def outer() -> None:
        invoke(function, {})

    with pytest.raises(RuntimeError, match="running event loop"):
        asyncio.run(outer())


def test_error_of_the_tool_is_its_own() -> None:
    def function() -> None:
        raise FileNotFoundError("index.html")

    with pytest.raises(FileNotFoundError, match=r"^index\.html$"):
        invoke(function, {})


def test_raw_result_is_returned() -> None:
    marker = object()

    assert invoke(lambda: marker, {}) is marker


def test_wrong_arguments_never_reach_the_tool() -> None:
    reached: list[int] = []

    def function(value: int) -> None:
        reached.append(value)

    _problems(function, {"value": "x"})

    assert reached == []


def test_signature_that_cannot_be_called_with_json_is_refused() -> None:
    with pytest.raises(ToolSignatureError, match=r"\*\*options"):
        invoke(lambda **options: options, {})


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-3, 3)
    | st.sampled_from([1.0, -0.0, "", "a", "red", "cat", "1", "depth"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "depth", "label", "children", "kind"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)

SIMPLE = [
    int,
    float,
    bool,
    str,
    None,
    Any,
    list,
    dict,
    list[int],
    list[float | None],
    dict[str, int],
    dict[str, list[bool]],
    tuple[int, str],
    tuple[int, ...],
    set[str],
    Sequence[str],
    int | str,
    int | None,
    list[int] | dict[str, str],
    Literal["a", 1],
    Color,
    Priority,
    Options,
    list[Options],
    Tree,
    Annotated[int, Field(gt=0, le=3)],
    Annotated[list[int], Field(min_length=1)],
]


@pytest.mark.parametrize("annotation", SIMPLE, ids=str)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_invoke_accepts_exactly_what_the_schema_accepts(
    annotation: object, data: st.DataObject
) -> None:
    function = _FUNCTIONS[str(annotation)]
    schema = describe(function).input_schema
    fitting = _fitting(schema["properties"]["value"], schema.get("$defs", {}))
    arguments = {"value": data.draw(_json | fitting)}

    try:
        invoke(function, arguments)
    except InvalidToolArguments:
        accepted = False
    else:
        accepted = True

    assert accepted is jsonschema_rs.Draft202012Validator(schema).is_valid(arguments)


_FUNCTIONS = {str(annotation): _taking(annotation) for annotation in SIMPLE}


def _fitting(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Draw values that have the right type at the top at least, and often all the way down."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return st.deferred(lambda: _fitting(target, definitions))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([_fitting(choice, definitions) for choice in schema["anyOf"]])
    if "prefixItems" in schema:
        return st.tuples(*[_fitting(item, definitions) for item in schema["prefixItems"]]).map(list)
    kinds: dict[str | None, Callable[[], st.SearchStrategy[Any]]] = {
        "integer": lambda: st.integers(-5, 5) | st.sampled_from([1.0, 2.0]),
        "number": lambda: st.floats(-3, 3),
        "boolean": st.booleans,
        "string": lambda: st.text(max_size=3),
        "null": st.none,
        "array": lambda: st.lists(_fitting(schema["items"], definitions), max_size=3),
        "object": lambda: st.fixed_dictionaries(
            {},
            optional={
                key: _fitting(inner, definitions)
                for key, inner in schema.get("properties", {"a": {"type": "integer"}}).items()
            },
        ),
    }
    return kinds[schema["type"]]() if "type" in schema else _json
