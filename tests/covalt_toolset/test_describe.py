"""What ``describe`` says of a function: names, texts and the two schemas."""

import collections.abc
import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, Required, Union
from uuid import UUID

import jsonschema_rs
import pytest
import typing_extensions
from pydantic import BaseModel, Field

from covalt_toolset import ToolDescription, ToolSignatureError, describe, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Row:
    name: str
    size: int = 0


class Tree(BaseModel):
    label: str = Field(description="What it says")
    children: list["Tree"] = []


class Closed(BaseModel, extra="forbid"):
    a: int


class Options(typing.TypedDict):
    depth: int
    label: NotRequired[str]


class Loose(typing.TypedDict, total=False):
    depth: Required[int]
    label: str
    more: "NotRequired[Options]"


class Derived(Loose):
    extra: bool


class Folder(typing.TypedDict):
    name: str
    folders: "list[Folder]"


class Extended(typing_extensions.TypedDict):
    depth: int


class Unfinished(BaseModel):
    part: "Missing"  # type: ignore[name-defined]  # noqa: F821


class Opaque:
    pass


def _property(annotation: object, default: object = ...) -> dict[str, Any]:
    def function(value: object) -> None: ...

    function.__annotations__["value"] = annotation
    if default is not ...:
        function.__defaults__ = (default,)
    schema = describe(function).input_schema
    jsonschema_rs.meta.validate(schema)
    definitions = schema.get("$defs", {})
    found: dict[str, Any] = schema["properties"]["value"]
    if set(found) == {"$ref"} and len(definitions) == 1:
        return dict(definitions[found["$ref"].removeprefix("#/$defs/")])
    return found


INTEGER = {"type": "integer"}
STRING = {"type": "string"}
OPTIONS = {
    "title": "Options",
    "type": "object",
    "properties": {"depth": INTEGER, "label": STRING},
    "required": ["depth"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(str, STRING, id="str"),
        pytest.param(int, INTEGER, id="int"),
        pytest.param(float, {"type": "number"}, id="float"),
        pytest.param(bool, {"type": "boolean"}, id="bool"),
        pytest.param(None, {"type": "null"}, id="none"),
        pytest.param(Any, {}, id="any"),
        pytest.param(object, {}, id="object"),
        pytest.param(list, {"type": "array", "items": {}}, id="bare-list"),
        pytest.param(list[int], {"type": "array", "items": INTEGER}, id="list"),
        pytest.param(dict, {"type": "object", "additionalProperties": True}, id="bare-dict"),
        pytest.param(
            dict[str, int], {"type": "object", "additionalProperties": INTEGER}, id="dict"
        ),
        pytest.param(
            Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}, id="mapping"
        ),
        pytest.param(
            tuple[int, str],
            {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
            id="tuple",
        ),
        pytest.param(tuple[int, ...], {"type": "array", "items": INTEGER}, id="long-tuple"),
        pytest.param(set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}, id="set"),
        pytest.param(Sequence[int], {"type": "array", "items": INTEGER}, id="sequence"),
        pytest.param(Iterable[int], {"type": "array", "items": INTEGER}, id="iterable"),
        pytest.param(
            collections.abc.Collection, {"type": "array", "items": {}}, id="bare-collection"
        ),
        pytest.param(
            Optional[int],  # noqa: UP045 - authors write it
            {"anyOf": [INTEGER, {"type": "null"}]},
            id="optional",
        ),
        pytest.param(
            Union[int, str],  # noqa: UP007 - authors write it
            {"anyOf": [INTEGER, STRING]},
            id="union",
        ),
        pytest.param(int | str, {"anyOf": [INTEGER, STRING]}, id="union-by-operator"),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="literal"),
        pytest.param(Literal["a"], {"type": "string", "const": "a"}, id="literal-of-one"),
        pytest.param(
            Color, {"title": "Color", "type": "string", "enum": ["red", "blue"]}, id="enum"
        ),
        pytest.param(
            Priority, {"title": "Priority", "type": "integer", "enum": [1, 2]}, id="int-enum"
        ),
        pytest.param(
            Row,
            {
                "title": "Row",
                "type": "object",
                "properties": {"name": STRING, "size": {"type": "integer", "default": 0}},
                "required": ["name"],
                "additionalProperties": False,
            },
            id="dataclass",
        ),
        pytest.param(Options, OPTIONS, id="typed-dict"),
        pytest.param(
            Extended,
            {
                "title": "Extended",
                "type": "object",
                "properties": {"depth": INTEGER},
                "required": ["depth"],
                "additionalProperties": False,
            },
            id="typed-dict-of-typing-extensions",
        ),
        pytest.param(
            Folder,
            {
                "title": "Folder",
                "type": "object",
                "properties": {
                    "name": STRING,
                    "folders": {"type": "array", "items": {"$ref": "#/$defs/Folder"}},
                },
                "required": ["name", "folders"],
                "additionalProperties": False,
            },
            id="typed-dict-in-itself",
        ),
        pytest.param(date, {"type": "string", "format": "date"}, id="date"),
        pytest.param(datetime, {"type": "string", "format": "date-time"}, id="datetime"),
        pytest.param(time, {"type": "string", "format": "time"}, id="time"),
        pytest.param(timedelta, {"type": "string", "format": "duration"}, id="duration"),
        pytest.param(UUID, {"type": "string", "format": "uuid"}, id="uuid"),
        pytest.param(Path, {"type": "string", "format": "path"}, id="path"),
        pytest.param(bytes, {"type": "string", "format": "binary"}, id="bytes"),
        pytest.param(
            Tree,
            {
                "title": "Tree",
                "type": "object",
                "properties": {
                    "label": {"type": "string", "description": "What it says"},
                    "children": {
                        "type": "array",
                        "items": {"$ref": "#/$defs/Tree"},
                        "default": [],
                    },
                },
                "required": ["label"],
            },
            id="model-in-itself",
        ),
        pytest.param(
            Closed,
            {
                "title": "Closed",
                "type": "object",
                "properties": {"a": INTEGER},
                "required": ["a"],
                "additionalProperties": False,
            },
            id="closed-model",
        ),
        pytest.param(
            Annotated[int, Field(gt=0, le=9)],
            {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
            id="constraints",
        ),
        pytest.param(
            Annotated[str, Field(min_length=1, pattern="^a")],
            {"type": "string", "minLength": 1, "pattern": "^a"},
            id="text-constraints",
        ),
        pytest.param(
            list[Annotated[int, Field(gt=0)]],
            {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}},
            id="constraints-of-items",
        ),
    ],
)
def test_annotation_becomes(annotation: object, expected: object) -> None:
    assert _property(annotation) == expected


def test_decimal_is_a_number_or_text() -> None:
    number, text = _property(Decimal)["anyOf"]

    assert number == {"type": "number"}
    assert text["type"] == "string"


@pytest.mark.parametrize(
    ("annotation", "place"),
    [
        pytest.param(list[Options], ("items",), id="in-a-list"),
        pytest.param(dict[str, Options], ("additionalProperties",), id="in-a-dict"),
        pytest.param(Optional[Options], ("anyOf", 0), id="in-optional"),  # noqa: UP045 - as above
        pytest.param(Options | None, ("anyOf", 0), id="in-a-union"),
        pytest.param(dict[str, list[Options]], ("additionalProperties", "items"), id="deeper"),
        pytest.param(Annotated[list[Options], Field(max_length=3)], ("items",), id="annotated"),
        pytest.param(typing.List[Options], ("items",), id="in-typing-list"),  # noqa: UP006
        pytest.param(tuple[Options, int], ("prefixItems", 0), id="in-a-tuple"),
        pytest.param(Sequence[Options], ("items",), id="in-a-sequence"),
    ],
)
def test_typed_dict_is_found(annotation: object, place: tuple[str | int, ...]) -> None:
    found: Any = _property(annotation)

    for step in place:
        found = found[step]
    assert found == {"$ref": "#/$defs/Options"}


def test_typed_dict_keeps_which_keys_it_requires() -> None:
    def function(value: Derived) -> None: ...

    schema = describe(function).input_schema

    assert schema["$defs"]["Derived"]["required"] == ["depth", "extra"]
    assert set(schema["$defs"]["Derived"]["properties"]) == {"depth", "label", "more", "extra"}
    assert schema["$defs"]["Options"] == OPTIONS


def test_typed_dict_used_twice_is_defined_once() -> None:
    def function(one: Options, more: list[Options]) -> None: ...

    assert set(describe(function).input_schema["$defs"]) == {"Options"}


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        pytest.param(int, 3, {"type": "integer", "default": 3}, id="number"),
        pytest.param(
            Color, Color.RED, {"$ref": "#/$defs/Color", "default": "red"}, id="enum-member"
        ),
        pytest.param(
            Path, Path("a"), {"type": "string", "format": "path", "default": "a"}, id="path"
        ),
        pytest.param(
            list[int], (), {"type": "array", "items": INTEGER, "default": []}, id="empty-tuple"
        ),
        pytest.param(
            int,
            None,
            {"anyOf": [INTEGER, {"type": "null"}], "default": None},
            id="none-makes-it-optional",
        ),
        pytest.param(
            Annotated[int, Field(gt=0, description="size")],
            None,
            {
                "anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}],
                "default": None,
                "description": "size",
            },
            id="none-with-constraints",
        ),
        pytest.param(
            int,
            Field(3, gt=1, description="size"),
            {"type": "integer", "exclusiveMinimum": 1, "default": 3, "description": "size"},
            id="field-as-default",
        ),
        pytest.param(float, math.nan, {"type": "number"}, id="nan-cannot-be-shown"),
        pytest.param(Any, object(), {}, id="object-cannot-be-shown"),
    ],
)
def test_default_is_shown(annotation: object, default: object, expected: object) -> None:
    assert _property(annotation, default) == expected


def test_parameter_with_default_is_not_required() -> None:
    def function(a: int, b: int = 1, *, c: int, d: int | None = None) -> None: ...

    assert describe(function).input_schema["required"] == ["a", "c"]


def test_field_without_default_is_required() -> None:
    def function(a: int = Field(gt=0)) -> None: ...

    assert describe(function).input_schema["required"] == ["a"]


def test_function_without_parameters_takes_an_empty_object() -> None:
    def function() -> None: ...

    assert describe(function).input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_unannotated_parameter_accepts_anything() -> None:
    def function(a, b=1) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    assert describe(function).input_schema["properties"] == {"a": {}, "b": {"default": 1}}


NAMES = ["schema", "copy", "json", "model_config", "model_fields", "class_", "dict", "_private"]


@pytest.mark.parametrize("name", [*NAMES, "validate", "construct", "register", "p0", "model_dump"])
def test_parameter_may_be_called(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def function({name}: int, other: str = ''): pass", namespace)

    schema = describe(namespace["function"]).input_schema

    assert schema["properties"][name] == INTEGER
    assert schema["required"] == [name]


def test_field_alias_is_the_public_name() -> None:
    def function(from_: Annotated[str, Field(alias="from")]) -> None: ...

    assert describe(function).input_schema["properties"] == {"from": STRING}


def google(path: str, size: int = 1) -> None:
    """Make a file.

    Args:
        path: Where it goes,
            relative to the workspace.
        size: How large.
    """


def numpy(path: str, size: int = 1) -> None:
    """Make a file.

    Parameters
    ----------
    path : str
        Where it goes, relative to the workspace.
    size : int
        How large.
    """


def rest(path: str, size: int = 1) -> None:
    """Make a file.

    :param path: Where it goes, relative to the workspace.
    :param size: How large.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_docstring_describes_parameters(function: Callable[..., None]) -> None:
    description = describe(function)

    assert description.description == "Make a file."
    assert description.input_schema["properties"] == {
        "path": {"type": "string", "description": "Where it goes, relative to the workspace."},
        "size": {"type": "integer", "description": "How large.", "default": 1},
    }


def test_annotation_describes_better_than_the_docstring() -> None:
    def function(a: Annotated[int, Field(description="annotated")], b: int) -> None:
        """Do it.

        Args:
            a: documented a
            b: documented b
        """

    properties = describe(function).input_schema["properties"]

    assert properties["a"]["description"] == "annotated"
    assert properties["b"]["description"] == "documented b"


def test_description_of_a_marked_function_is_its_mark() -> None:
    @tool(name="Do It", description="Does it", requires_confirmation=True, category="work")
    def function(a: int) -> str:
        """Not this."""
        return str(a)

    assert describe(function) == ToolDescription(
        name="Do It",
        description="Does it",
        requires_confirmation=True,
        category="work",
        input_schema={
            "type": "object",
            "properties": {"a": INTEGER},
            "required": ["a"],
            "additionalProperties": False,
        },
        output_schema=STRING,
    )


def test_plain_function_is_described_as_a_bare_mark_would() -> None:
    def function(a: int) -> None:
        """Do it."""

    plain = describe(function)

    assert plain == describe(tool(function))
    assert (plain.name, plain.description, plain.requires_confirmation, plain.category) == (
        "function",
        "Do it.",
        False,
        None,
    )


def test_changing_a_description_does_not_change_the_next() -> None:
    describe(google).input_schema["properties"].clear()

    assert set(describe(google).input_schema["properties"]) == {"path", "size"}


def test_description_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        describe(google).name = "other"  # type: ignore[misc]


def test_workspace_path_is_not_in_the_schema() -> None:
    def function(workspace: Path, path: str) -> None: ...

    assert describe(function).input_schema["properties"] == {"path": STRING}


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param(str, id="text"),
        pytest.param(Any, id="any"),
        pytest.param(list[Path], id="several-paths"),
    ],
)
def test_workspace_of_another_type_is_an_argument(annotation: object) -> None:
    def function(workspace: object) -> None: ...

    function.__annotations__["workspace"] = annotation

    assert set(describe(function).input_schema["properties"]) == {"workspace"}


def test_unannotated_workspace_is_an_argument() -> None:
    def function(workspace) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    assert set(describe(function).input_schema["properties"]) == {"workspace"}


def _returning(annotation: object) -> Callable[..., None]:
    def function() -> None: ...

    function.__annotations__["return"] = annotation
    return function


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param(type(None), None, id="type-of-none"),
        pytest.param(Any, None, id="any"),
        pytest.param(object, None, id="object"),
        pytest.param(Opaque, None, id="not-json"),
        pytest.param(Callable[[], int], None, id="function"),
        pytest.param("Nowhere", None, id="unknown-name"),
        pytest.param(typing.Never, None, id="never"),
        pytest.param(AsyncIterator[int], None, id="async-iterator"),
        pytest.param(dict, {"type": "object", "additionalProperties": True}, id="dict"),
        pytest.param(list[int], {"type": "array", "items": INTEGER}, id="list"),
        pytest.param(Decimal, {"type": "string"}, id="as-it-is-written"),
        pytest.param(
            Options,
            {key: OPTIONS[key] for key in ("title", "type", "properties", "required")},
            id="typed-dict",
        ),
    ],
)
def test_return_annotation_becomes(annotation: object, expected: dict[str, Any] | None) -> None:
    found = describe(_returning(annotation)).output_schema

    if found and "pattern" in found:
        del found["pattern"]
    assert found == expected


def test_function_without_return_annotation_has_no_output_schema() -> None:
    def function(a: int): ...  # type: ignore[no-untyped-def]  # noqa: ANN202

    assert describe(function).output_schema is None


def test_async_function_is_described_like_another() -> None:
    async def function(a: int) -> str:
        return str(a)

    description = describe(function)

    assert description.input_schema["properties"] == {"a": INTEGER}
    assert description.output_schema == STRING


def test_decorated_function_is_described_by_what_it_wraps() -> None:
    @functools.wraps(google)
    def function(*args: object, **kwargs: object) -> None: ...

    assert describe(function) == describe(google)


def _many(*paths: str) -> None: ...
def _named(a: int, **options: str) -> None: ...
def _positional(path: str, /) -> None: ...
def _hidden_workspace(workspace: Path, /, a: int) -> None: ...
def _opaque(a: int, thing: Opaque) -> None: ...
def _callback(a: int, then: Callable[[int], int]) -> None: ...
def _no_such_name(a: int, thing: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _unfinished(a: int, thing: Unfinished) -> None: ...
def _pattern(a: Annotated[str, Field(pattern="(")]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(
            _many,
            "_many(): '*paths' takes values without a name; declare a list instead",
            id="args",
        ),
        pytest.param(
            _named, "_named(): '**options' takes any name; declare a dict instead", id="kwargs"
        ),
        pytest.param(
            _positional,
            "_positional(): 'path' cannot be given by name; remove the '/' after it",
            id="positional-only",
        ),
        pytest.param(
            _hidden_workspace,
            "_hidden_workspace(): 'workspace' cannot be given by name; remove the '/' after it",
            id="positional-only-workspace",
        ),
        pytest.param(
            _opaque, "_opaque(): 'thing' is annotated Opaque, which has no JSON form", id="class"
        ),
        pytest.param(
            _callback,
            "_callback(): 'then' is annotated Callable, which has no JSON form",
            id="callable",
        ),
        pytest.param(
            _no_such_name,
            "_no_such_name(): 'thing' is annotated Missing, which its module cannot resolve when "
            "it runs: name 'Missing' is not defined",
            id="unknown-name",
        ),
        pytest.param(
            _unfinished,
            "_unfinished(): 'thing' is annotated Unfinished, which cannot be read: `Arguments` is "
            "not fully defined; you should define `Missing`",
            id="model-with-an-unknown-name",
        ),
        pytest.param(print, "print(): '*args' takes values", id="built-in"),
        pytest.param(
            iter, "<built-in function iter> does not say what it takes", id="written-in-c"
        ),
        pytest.param(
            _pattern,
            "_pattern(): 'a' is annotated str, which cannot be read: ",
            id="broken-pattern",
        ),
    ],
)
def test_signature_is_refused_with_function_and_parameter(
    function: Callable[..., object], message: str
) -> None:
    with pytest.raises(ToolSignatureError) as caught:
        describe(function)

    assert isinstance(caught.value, TypeError)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "thing", [pytest.param(3, id="number"), pytest.param(types.SimpleNamespace(), id="object")]
)
def test_what_cannot_be_called_is_refused(thing: Any) -> None:
    with pytest.raises(ToolSignatureError, match="is not a function"):
        describe(thing)
