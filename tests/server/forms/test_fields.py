"""Fields of a form: which one each part of a schema gets, what it shows, and how it is drawn."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings

from covalt_git.json_values import JsonObject
from covalt_server.forms.fields import MAX_FIELDS, Field, FieldOption, draw
from covalt_server.forms.form import Submitted, opened
from covalt_server.forms.shapes import MAX_DEPTH, MISSING, InputKind
from tests.examples import examples
from tests.json_values.test_json_schema import json_values, schemas
from tests.server.sent_form import html, sent
from tests.tables import tables

TABLES = tables(__file__)


def form(
    schema: Any, *value: Any, required: bool = True, definitions: JsonObject | None = None
) -> Field:
    """Return the field of a schema that is the only part of a tool's arguments, ``a``."""
    whole = {"type": "object", "properties": {"a": schema}, "$defs": definitions or {}}
    if required:
        whole["required"] = ["a"]
    return draw(whole, {"a": value[0]} if value else MISSING).children[0]


@given(schema=schemas, value=json_values)
@settings(max_examples=examples(50))
def test_every_schema_and_every_value_has_a_form(schema: Any, value: Any) -> None:
    assert draw(schema).name == "args"
    assert sent(html(Submitted(value=value, fields=draw(schema, value))))


# --- which field ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "kind"), TABLES["kinds"])
def test_a_schema_gets_the_field_that_fits(schema: Any, kind: str) -> None:
    definitions = {
        "name": {"type": "string"},
        "loop": {"$ref": "#/$defs/loop"},
        "here": {"$anchor": "here", "type": "integer"},
        "a/b c": {"type": "boolean"},
    }

    assert form(schema, definitions=definitions).kind is InputKind[kind]


@pytest.mark.parametrize(("name", "rows"), TABLES["rows"])
def test_the_name_of_a_text_decides_how_long_its_box_is(name: str, rows: int) -> None:
    (shown,) = draw({"type": "object", "properties": {name: {"type": "string"}}}).children

    assert shown.kind == (InputKind.LONG_TEXT if rows else InputKind.TEXT)
    assert not rows or shown.rows == rows


@pytest.mark.parametrize(("schema", "note"), TABLES["notes"])
def test_the_limits_of_a_value_are_noted(schema: Any, note: str) -> None:
    assert form(schema, required=True).note == note


def test_a_default_is_noted_in_an_optional_field_and_filled_into_a_required_one() -> None:
    schema = {"type": "string", "default": "a.csv"}

    assert form(schema, required=False).note == "default: a.csv"
    assert form(schema, required=False).text == ""
    assert form(schema).note == ""
    assert form(schema).text == "a.csv"


@pytest.mark.parametrize(("schema", "attributes"), TABLES["attributes"])
def test_attributes_mean_the_same_to_a_browser_as_the_schema(
    schema: Any, attributes: dict[str, str]
) -> None:
    shown = form({"type": "string", "maxLength": 20} | schema, required=False)

    plain = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
    assert dict(shown.attributes) == attributes | plain


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["Red", "Blue"], ["Red", "Blue"]),
        (["Red"], ["r", "b"]),
        (["Red", "Red"], ["r", "b"]),
        (["Red", 1], ["r", "b"]),
    ],
)
def test_an_enum_is_shown_by_its_names_when_they_are_distinct(
    names: list[object], shown: list[str]
) -> None:
    one = {"enum": ["r", "b"], "enumNames": names}
    several = {"type": "array", "uniqueItems": True, "items": one}

    assert [choice.label for choice in form(one, "r").choices] == shown
    assert [choice.label for choice in form(several, ["r"]).choices] == shown
    titled = form({"oneOf": [{"const": 1, "title": "one"}, {"const": 2}]}, 2)
    assert titled.choices == (FieldOption("1", "one"), FieldOption("2", "2", chosen=True))


# --- lists and objects ----------------------------------------------------------------------------


def test_an_endless_schema_ends_as_json() -> None:
    endless = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "also": {"$ref": "#"}},
        "required": ["next", "also"],
    }
    shown = list(draw(endless).walk())

    assert max(len(one.loc) for one in shown) == MAX_DEPTH
    assert {one.kind for one in shown if len(one.loc) == MAX_DEPTH} == {InputKind.JSON}
    assert len(shown) < MAX_FIELDS + 2 * MAX_DEPTH


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a0"},
        {"anyOf": [{"$ref": "#/$defs/a0"}, {"$ref": "#/$defs/a1"}]},
    ],
)
def test_references_that_multiply_are_followed_to_a_limit(schema: JsonObject) -> None:
    definitions = {
        f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}, {"$ref": f"#/$defs/a{at + 1}"}]}
        for at in range(60)
    }

    assert form(schema, definitions={**definitions, "a60": {}}).kind is InputKind.JSON


# --- values that do not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "value"), TABLES["as_json"])
def test_a_value_that_its_field_cannot_hold_is_shown_as_json(schema: Any, value: Any) -> None:
    shown = form(schema, value)

    assert shown.kind is InputKind.JSON
    assert json.loads(shown.text) == value


def test_a_value_outside_the_choices_is_an_additional_choice() -> None:
    assert form({"enum": ["a"]}, "b").choices[-1] == FieldOption(
        '"b"', '"b" (not one of these)', True
    )
    same_in_python = form({"enum": [1, True, 0, False]}, True).choices
    assert [one.chosen for one in same_in_python] == [False, True, False, False]
    assert form({"const": "a"}, "b").choices[-1] == FieldOption(
        '"b"', '"b" (not one of these)', True
    )


# --- the page -------------------------------------------------------------------------------------


def test_a_problem_is_tied_to_its_box() -> None:
    schema = {"type": "object", "properties": {"mode": {"enum": ["a", "b"]}}}
    page = html(opened(schema, {"mode": "c"}))
    (box,) = re.findall(r'<select id="args/mode"[^>]*>', page)

    assert 'aria-invalid="true"' in box
    assert 'aria-describedby="args/mode/~error"' in box
    assert re.search(r'id="args/mode/~error"[^>]*>must be one of', page)


def test_hostile_values_become_no_markup() -> None:
    hostile = "</textarea><script>alert(1)</script>\"'{{ 7 * 7 }}"
    schema = {
        "type": "object",
        "title": hostile,
        "properties": {
            hostile: {"type": "string", "description": hostile, "default": hostile},
            "b": {"enum": [hostile], "title": hostile},
            "c": {"type": "string", "examples": [hostile]},
        },
    }
    page = html(opened(schema, {hostile: hostile, "b": hostile, "c": hostile}))

    assert "<script" not in page
    assert "</textarea><" not in page
    assert "49" not in page
    assert not re.search(r"<[^>]*\s(style|on\w+)=", page)
    assert sent(page)["args/b"] == json.dumps(hostile)
