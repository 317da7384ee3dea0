"""Calling a tool with JSON: accepted values, refused values, and agreement with the schema."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Discriminator, Field, Tag

from covalt_toolset import (
    InvalidToolArguments,
    ToolSignatureError,
    describe,
    get_context,
    invoke,
    set_context,
)
from covalt_toolset.invoke import ArgumentProblem, rule_of
from tests.covalt_toolset.declared_types import evaluated, taking
from tests.tables import tables

TABLES = tables(__file__)


def problems_of(function: Callable[..., object], arguments: Any) -> list[str]:
    """Return the problems with which a call is refused."""
    with pytest.raises(InvalidToolArguments) as caught:
        invoke(function, arguments)

    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem) for problem in caught.value.problems]


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.requirement("covalt-4.2.pydantic")
@pytest.mark.parametrize(("annotation", "value", "expected"), TABLES["accepted"])
def test_value_arrives_as_its_type(annotation: str, value: object, expected: str) -> None:
    arrived = invoke(taking(annotation), {"value": value})

    assert arrived == evaluated(expected)
    assert type(arrived) is type(evaluated(expected))


@pytest.mark.parametrize(("annotation", "value", "problems"), TABLES["refused"])
def test_value_is_refused_with_each_place(
    annotation: str, value: object, problems: list[str]
) -> None:
    assert problems_of(taking(annotation), {"value": value}) == problems


def resize(path: str, width: Annotated[int, Field(gt=0)], height: int = 10) -> str:
    return f"{path} {width} {height}"


def test_arguments_are_an_object_nested_at_most_128_deep() -> None:
    assert problems_of(resize, ["a", 1]) == ["$: must be an object"]
    assert invoke(taking("Any"), {"value": nested(127)}) == nested(127)
    (problem,) = problems_of(taking("Any"), {"value": nested(1000)})
    assert problem.endswith("is nested deeper than 128 levels")


# Defaults and names


def test_argument_with_a_default_need_not_be_given() -> None:
    marker = object()

    def function(
        a: int = Field(3, gt=1),
        b: list[int] = Field(default_factory=lambda: [1]),  # noqa: B008 - authors write it
        plain: int | object = marker,
        *,
        c: Annotated[int, Field(default=7)],
        size: int = None,  # type: ignore[assignment]  # noqa: RUF013 - authors write it
    ) -> object:
        return a, b, plain, c, size

    assert invoke(function, {}) == (3, [1], marker, 7, None)
    assert invoke(function, {"a": 2, "size": None}) == (2, [1], marker, 7, None)
    assert invoke(resize, {"path": "a", "width": 1}) == "a 1 10"


@pytest.mark.parametrize("name", ["schema", "copy", "json", "model_config", "class_", "_private"])
def test_argument_may_have_a_name_that_pydantic_uses(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def function({name}: int): return {name}", namespace)

    assert invoke(namespace["function"], {name: 7}) == 7
    assert problems_of(namespace["function"], {}) == [f"$.{name}: missing"]


def test_an_integer_beyond_2_53_is_accepted() -> None:
    def after(number: int) -> int:
        return number + 1

    assert invoke(after, {"number": 2**53 + 1}) == 2**53 + 2


def test_argument_is_given_by_its_alias() -> None:
    def function(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    assert invoke(function, {"from": "a"}) == "a"
    assert problems_of(function, {"from_": "a"}) == ["$.from: missing", "$.from_: unknown argument"]


# Context


def test_workspace_comes_from_the_context_and_not_from_the_caller(tmp_path: Path) -> None:
    def function(workspace: Path, name: str = "a") -> Path:
        return workspace / name

    with set_context(workspace=tmp_path):
        assert invoke(function, {"name": "b"}) == tmp_path / "b"
        assert problems_of(function, {"workspace": "/etc"}) == ["$.workspace: unknown argument"]


# Functions


def test_async_tool_runs_to_its_end_in_the_context(tmp_path: Path) -> None:
    async def function(name: str) -> Path:
        await asyncio.sleep(0)
        return get_context().workspace / name

    @functools.wraps(function)
    def wrapped(name: str) -> Awaitable[Path]:
        return function(name)

    with set_context(workspace=tmp_path):
        assert invoke(function, {"name": "a"}) == tmp_path / "a"
        assert invoke(wrapped, {"name": "a"}) == tmp_path / "a"


def test_wrong_arguments_and_wrong_signatures_never_run_the_tool() -> None:
    reached: list[object] = []

    def function(value: int) -> None:
        reached.append(value)

    problems_of(function, {"value": "x"})
    with pytest.raises(ToolSignatureError, match=r"\*\*options"):
        invoke(lambda **options: reached.append(options), {})

    assert reached == []


# The law: `invoke` accepts exactly the values that the schema accepts.

# fmt: off
SIMPLE = (
    "int", "float", "bool", "str", "None", "Any", "list", "dict", "list[int]", "list[float | None]",
    "dict[str, int]", "dict[str, list[bool]]", "tuple[int, str]", "tuple[int, ...]", "set[str]",
    "Sequence[str]", "int | str", "int | None", "list[int] | dict[str, str]", "Literal['a', 1]",
    "Color", "Priority", "Options", "list[Options]", "Tree", "Annotated[int, Field(gt=0, le=3)]",
    "Annotated[list[int], Field(min_length=1)]",
)
# fmt: on
FUNCTIONS = {annotation: taking(annotation) for annotation in SIMPLE}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-3, 3)
    | st.sampled_from([1.0, -0.0, "", "a", "red", "1", "depth"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "depth", "label", "children"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(annotation=st.sampled_from(SIMPLE), data=st.data())
def test_invoke_accepts_exactly_what_the_schema_accepts(
    annotation: str, data: st.DataObject
) -> None:
    schema = describe(FUNCTIONS[annotation]).input_schema
    fitting = values_for(schema["properties"]["value"], schema.get("$defs", {}))
    arguments = {"value": data.draw(JSON | fitting)}

    try:
        invoke(FUNCTIONS[annotation], arguments)
    except InvalidToolArguments:
        accepted = False
    else:
        accepted = True

    assert accepted is jsonschema_rs.Draft202012Validator(schema).is_valid(arguments)


def values_for(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Draw values of the right type at the top at least, and often at every level."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return st.deferred(lambda: values_for(target, definitions))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values_for(choice, definitions) for choice in schema["anyOf"]])
    if "prefixItems" in schema:
        items = [values_for(item, definitions) for item in schema["prefixItems"]]
        return st.tuples(*items).map(list)
    kinds: dict[str | None, Callable[[], st.SearchStrategy[Any]]] = {
        "integer": lambda: st.integers(-5, 5) | st.sampled_from([1.0, 2.0]),
        "number": lambda: st.floats(-3, 3),
        "boolean": st.booleans,
        "string": lambda: st.text(max_size=3),
        "null": st.none,
        "array": lambda: st.lists(values_for(schema["items"], definitions), max_size=3),
        "object": lambda: st.fixed_dictionaries(
            {},
            optional={
                key: values_for(inner, definitions)
                for key, inner in schema.get("properties", {"a": {"type": "integer"}}).items()
            },
        ),
    }
    return kinds[schema["type"]]() if "type" in schema else JSON


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(9, ge=0)


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: str = "one"


class Bird(BaseModel):
    kind: Literal["bird"]


def kind_of(pet: Any) -> Any:
    return pet.get("kind") if isinstance(pet, dict) else pet.kind


UNIONS = [
    Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)],
    Annotated[Cat | Dog, Field(discriminator="kind")],
    Cat | Dog,
]


def taking_pet(union: Any) -> Callable[..., object]:
    def function(pet: Any) -> None: ...

    function.__annotations__["pet"] = union
    return function


@pytest.mark.parametrize("union", UNIONS)
def test_a_wrong_tag_is_refused_with_all_tags_and_no_part_of_the_schema(union: Any) -> None:
    function = taking_pet(union)

    assert problems_of(function, {"pet": {"kind": "cow"}}) == ['$.pet.kind: must be "cat" or "dog"']
    assert problems_of(function, {"pet": {}}) == ["$.pet.kind: missing"]
    assert problems_of(function, {"pet": {"kind": "dog", "lives": 5}}) == [
        "$.pet.lives: must be a string, not an integer"
    ]
    for place in ("$.pet.kind", "$.pet.lives"):
        assert rule_of(function, ArgumentProblem(place, "")) == {}


def test_tags_of_a_union_in_a_union_are_all_named() -> None:
    nested_union = Annotated[
        Annotated[Cat | Dog, Field(discriminator="kind")] | Bird, Field(discriminator="kind")
    ]

    assert problems_of(taking_pet(nested_union), {"pet": {"kind": "cow"}}) == [
        '$.pet.kind: must be "bird", "cat" or "dog"'
    ]
