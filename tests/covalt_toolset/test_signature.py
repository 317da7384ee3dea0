"""Signatures: the name, texts and schemas that ``describe`` reads from a function."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import pytest
from pydantic import AliasPath, Field

from covalt_toolset import ToolSignatureError, describe
from tests.covalt_toolset.declared_types import Opaque, Unfinished, evaluated, returning, taking
from tests.tables import tables

TABLES = tables(__file__)


def property_of(annotation: str, default: object = ...) -> dict[str, Any]:
    """Return the schema of a parameter; a reference to the only definition is replaced."""
    schema = describe(taking(annotation, default)).input_schema
    jsonschema_rs.meta.validate(schema)
    definitions = schema.get("$defs", {})
    found: dict[str, Any] = schema["properties"]["value"]
    if set(found) == {"$ref"} and len(definitions) == 1:
        return dict(definitions[found["$ref"].removeprefix("#/$defs/")])
    return found


@pytest.mark.requirement("covalt-4.2.schema", "covalt-4.2.pydantic")
@pytest.mark.parametrize(("annotation", "schema"), TABLES["annotations"])
def test_annotation_becomes_a_schema(annotation: str, schema: Any) -> None:
    assert property_of(annotation) == schema


@pytest.mark.parametrize(("annotation", "place"), TABLES["typed_dicts"])
def test_typed_dict_is_found_inside_other_types(annotation: str, place: list[Any]) -> None:
    found: Any = property_of(annotation)

    for step in place:
        found = found[step]
    assert found == {"$ref": "#/$defs/Options"}


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


# Texts


def documented(path: str, size: int = 1) -> None: ...


@pytest.mark.requirement("covalt-4.2.docstring")
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


# Workspace and result


@pytest.mark.requirement("toolshed-tool")
@pytest.mark.parametrize(("annotation", "schema"), TABLES["results"])
def test_return_annotation_becomes_a_schema(annotation: str, schema: Any) -> None:
    found = describe(returning(annotation)).output_schema

    if found and "pattern" in found:
        del found["pattern"]
    assert found == schema


# Signatures that JSON cannot call


def _many(*paths: str) -> None: ...
def _named(a: int, **options: str) -> None: ...
def _positional(path: str, /) -> None: ...
def _hidden_workspace(workspace: Path, /, a: int) -> None: ...
def _opaque(a: int, thing: Opaque) -> None: ...
def _callback(a: int, then: Callable[[int], int]) -> None: ...
def _no_such_name(a: int, thing: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _unfinished(a: int, thing: Unfinished) -> None: ...
def _from_a_path(a: int = Field(1, validation_alias=AliasPath("b", 0))) -> None: ...


def _pattern(a: Annotated[str, Field(pattern="(")]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_many, "_many(): '*paths' has values"),
        (_named, "_named(): '**options' accepts any name"),
        (_positional, "_positional(): 'path' cannot be passed by name"),
        (_hidden_workspace, "_hidden_workspace(): 'workspace' cannot be passed by name"),
        (_opaque, "_opaque(): 'thing' is annotated Opaque, which has no JSON form"),
        (_callback, "_callback(): 'then' is annotated Callable, which has no JSON form"),
        (_no_such_name, "_no_such_name(): 'thing' is annotated Missing, which cannot be"),
        (_unfinished, "_unfinished(): 'thing' is annotated Unfinished, which cannot be read"),
        (_pattern, "_pattern(): 'a' is annotated str, which cannot be read: "),
        (_from_a_path, "_from_a_path(): 'a' has AliasPath(path=['b', 0]), but each argument has"),
        (print, "print(): '*args' has values"),
        (iter, "<built-in function iter> has no signature"),
        (3, "3 is not a function"),
        (types.SimpleNamespace(), "namespace() is not a function"),
    ],
)
def test_refused_signature_names_function_and_parameter(function: Any, message: str) -> None:
    with pytest.raises(ToolSignatureError) as caught:
        describe(function)

    assert str(caught.value).startswith(message)
