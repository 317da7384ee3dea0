"""Signatures: the name, texts and schemas that ``describe`` reads from a function."""

import dataclasses
import functools
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import pytest
from pydantic import Field

from covalt_toolset import ToolDescription, ToolSignatureError, describe, tool
from tests.covalt_toolset.declared_types import (
    Derived,
    Opaque,
    Options,
    Unfinished,
    evaluated,
    returning,
    taking,
)
from tests.tables import tables

TABLES = tables(__file__)
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def property_of(annotation: str, default: object = ...) -> dict[str, Any]:
    """Return the schema of a parameter; a reference to the only definition is replaced."""
    schema = describe(taking(annotation, default)).input_schema
    jsonschema_rs.meta.validate(schema)
    definitions = schema.get("$defs", {})
    found: dict[str, Any] = schema["properties"]["value"]
    if set(found) == {"$ref"} and len(definitions) == 1:
        return dict(definitions[found["$ref"].removeprefix("#/$defs/")])
    return found


@pytest.mark.parametrize(("annotation", "schema"), TABLES["annotations"])
def test_annotation_becomes_a_schema(annotation: str, schema: Any) -> None:
    assert property_of(annotation) == schema


def test_decimal_is_a_number_or_text() -> None:
    number, text = property_of("Decimal")["anyOf"]

    assert number == {"type": "number"}
    assert text["type"] == "string"


@pytest.mark.parametrize(("annotation", "place"), TABLES["typed_dicts"])
def test_typed_dict_is_found_inside_other_types(annotation: str, place: list[Any]) -> None:
    found: Any = property_of(annotation)

    for step in place:
        found = found[step]
    assert found == {"$ref": "#/$defs/Options"}


def test_typed_dict_keeps_its_required_keys_and_is_defined_once() -> None:
    def function(one: Options, more: list[Options], value: Derived) -> None: ...

    definitions = describe(function).input_schema["$defs"]

    assert definitions.keys() == {"Derived", "Options"}
    assert definitions["Derived"]["required"] == ["depth", "extra"]
    assert definitions["Derived"]["properties"].keys() == {"depth", "label", "more", "extra"}
    assert definitions["Options"] == dict(TABLES["annotations"])["Options"]


@pytest.mark.parametrize(("annotation", "default", "schema"), TABLES["defaults"])
def test_default_is_shown_where_json_can_hold_it(
    annotation: str, default: str, schema: Any
) -> None:
    assert property_of(annotation, evaluated(default)) == schema


def test_parameters_without_default_are_required() -> None:
    def function(
        a: int, b: int = 1, *, c: int = Field(gt=0), d: int, e: int | None = None
    ) -> None: ...

    assert describe(function).input_schema["required"] == ["a", "c", "d"]


def test_function_without_parameters_takes_an_empty_object() -> None:
    assert describe(lambda: None).input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_parameter_without_annotation_accepts_anything() -> None:
    assert describe(lambda a, b=1: a + b).input_schema["properties"] == {
        "a": {},
        "b": {"default": 1},
    }


@pytest.mark.parametrize(
    "name",
    [
        *("schema", "copy", "json", "model_config", "model_fields", "class_", "dict", "_private"),
        *("validate", "construct", "register", "p0", "model_dump"),
    ],
)
def test_parameter_may_have_a_name_that_pydantic_uses(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def function({name}: int, other: str = ''): pass", namespace)

    schema = describe(namespace["function"]).input_schema

    assert schema["properties"][name] == INTEGER
    assert schema["required"] == [name]


def test_field_alias_is_the_public_name() -> None:
    def function(from_: Annotated[str, Field(alias="from")]) -> None: ...

    assert describe(function).input_schema["properties"] == {"from": STRING}


# Texts


def documented(path: str, size: int = 1) -> None: ...


@pytest.mark.parametrize(
    "docstring",
    [
        pytest.param(
            "Args:\n    path: Where it goes,\n        relative to it.\n    size: How large.",
            id="google",
        ),
        pytest.param(
            "Parameters\n----------\npath : str\n    Where it goes, relative to it.\n"
            "size : int\n    How large.",
            id="numpy",
        ),
        pytest.param(
            ":param path: Where it goes, relative to it.\n:param size: How large.", id="rest"
        ),
    ],
)
def test_docstring_describes_parameters(docstring: str) -> None:
    function = types.FunctionType(documented.__code__, {}, "documented", (1,))
    function.__annotations__ = documented.__annotations__
    function.__doc__ = f"Make a file.\n\n{docstring}\n"

    description = describe(function)

    assert description.description == "Make a file."
    assert description.input_schema["properties"] == {
        "path": {"type": "string", "description": "Where it goes, relative to it."},
        "size": {"type": "integer", "description": "How large.", "default": 1},
    }


def test_annotation_overrides_the_description_of_the_docstring() -> None:
    def function(a: Annotated[int, Field(description="annotated")], b: int) -> None:
        """Do it.

        Args:
            a: documented a
            b: documented b
        """

    properties = describe(function).input_schema["properties"]

    assert properties["a"]["description"] == "annotated"
    assert properties["b"]["description"] == "documented b"


def test_description_is_that_of_the_decorator() -> None:
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


def test_plain_async_and_wrapped_functions_are_described_alike() -> None:
    def function(a: int) -> str:
        """Do it."""
        return str(a)

    async def waiting(a: int) -> str:
        """Do it."""
        return str(a)

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> None: ...

    plain = describe(function)

    assert plain == describe(tool(function)) == describe(wrapped)
    assert dataclasses.replace(describe(waiting), name="function") == plain
    assert (plain.name, plain.description, plain.requires_confirmation, plain.category) == (
        "function",
        "Do it.",
        False,
        None,
    )


def test_changes_of_a_description_do_not_reach_the_next() -> None:
    describe(documented).input_schema["properties"].clear()

    assert set(describe(documented).input_schema["properties"]) == {"path", "size"}


# Workspace and result


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        ("Path", []),
        ("'Path'", []),
        ("str", ["workspace"]),
        ("Any", ["workspace"]),
        ("list[Path]", ["workspace"]),
        (None, ["workspace"]),
    ],
)
def test_only_a_path_called_workspace_is_not_an_argument(
    annotation: str | None, names: list[str]
) -> None:
    def function(workspace: object) -> None: ...

    function.__annotations__ = {} if annotation is None else {"workspace": evaluated(annotation)}

    assert list(describe(function).input_schema["properties"]) == names


@pytest.mark.parametrize(("annotation", "schema"), TABLES["results"])
def test_return_annotation_becomes_a_schema(annotation: str, schema: Any) -> None:
    found = describe(returning(annotation)).output_schema

    if found and "pattern" in found:
        del found["pattern"]
    assert found == schema


def test_function_without_return_annotation_has_no_output_schema() -> None:
    assert describe(lambda: 1).output_schema is None


# Signatures that JSON cannot call


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
        (_many, "_many(): '*paths' takes values"),
        (_named, "_named(): '**options' takes any name"),
        (_positional, "_positional(): 'path' cannot be given by name"),
        (_hidden_workspace, "_hidden_workspace(): 'workspace' cannot be given by name"),
        (_opaque, "_opaque(): 'thing' is annotated Opaque, which has no JSON form"),
        (_callback, "_callback(): 'then' is annotated Callable, which has no JSON form"),
        (_no_such_name, "_no_such_name(): 'thing' is annotated Missing, which its module cannot"),
        (_unfinished, "_unfinished(): 'thing' is annotated Unfinished, which cannot be read"),
        (_pattern, "_pattern(): 'a' is annotated str, which cannot be read: "),
        (print, "print(): '*args' takes values"),
        (iter, "<built-in function iter> does not say what it takes"),
        (3, "3 is not a function"),
        (types.SimpleNamespace(), "namespace() is not a function"),
    ],
)
def test_refused_signature_names_function_and_parameter(function: Any, message: str) -> None:
    with pytest.raises(ToolSignatureError) as caught:
        describe(function)

    assert str(caught.value).startswith(message)
