"""Fields of a form: which one each part of a schema gets, what it shows, and how it is drawn."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from covalt_server.forms.fields import MAX_FIELDS, Field, draw
from covalt_server.forms.form import Submitted, opened
from covalt_server.forms.shapes import MAX_DEPTH, MISSING, Kind
from tests.examples import examples
from tests.json_values.test_json_schema import json_values, schemas
from tests.server.sent_form import attributes, html, sent
from tests.tables import tables

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject


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

    assert form(schema, definitions=definitions).kind is Kind[kind]


@pytest.mark.parametrize(("schema", "note"), TABLES["notes"])
def test_the_limits_of_a_value_are_noted(schema: Any, note: str) -> None:
    assert form(schema, required=True).note == note


@pytest.mark.parametrize(("schema", "attributes"), TABLES["attributes"])
def test_attributes_mean_the_same_to_a_browser_as_the_schema(
    schema: Any, attributes: dict[str, str]
) -> None:
    shown = form({"type": "string", "maxLength": 20} | schema, required=False)

    plain = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
    assert dict(shown.attributes) == attributes | plain


@pytest.mark.parametrize(("schema", "options", "shown"), TABLES["shown"])
def test_a_field_shows_its_default_its_choices_and_what_can_be_added(
    schema: Any, options: dict[str, Any], shown: dict[str, Any]
) -> None:
    value = [options["value"]] if "value" in options else []
    found = form(schema, *value, required=options.get("required", True))
    facts = {
        "choices": [[one.sent, one.label, one.chosen] for one in found.choices],
        "labels": [one.label for one in found.choices],
        "parts": [[one.label, one.can_remove] for one in found.children],
    }

    assert {name: facts.get(name, getattr(found, name, None)) for name in shown} == shown


# --- lists and objects ----------------------------------------------------------------------------


def test_an_endless_schema_ends_as_json() -> None:
    endless = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "also": {"$ref": "#"}},
        "required": ["next", "also"],
    }
    shown = list(draw(endless).walk())

    assert max(len(one.loc) for one in shown) == MAX_DEPTH
    assert {one.kind for one in shown if len(one.loc) == MAX_DEPTH} == {Kind.JSON}
    assert len(shown) < MAX_FIELDS + 2 * MAX_DEPTH


def test_a_value_with_too_many_parts_is_shown_as_json() -> None:
    shown = form({"type": "array", "items": {"type": "integer"}}, list(range(MAX_FIELDS)))

    assert shown.kind is Kind.JSON
    assert json.loads(shown.text) == list(range(MAX_FIELDS))


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

    assert form(schema, definitions={**definitions, "a60": {}}).kind is Kind.JSON


# --- values that do not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "value"), TABLES["as_json"])
def test_a_value_that_its_field_cannot_hold_is_shown_as_json(schema: Any, value: Any) -> None:
    shown = form(schema, value)

    assert shown.kind is Kind.JSON
    assert json.loads(shown.text) == value


# --- the page -------------------------------------------------------------------------------------

EVERYTHING = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where."},
        "content": {"type": "string"},
        "count": {"type": "integer", "examples": [1]},
        "is on": {"type": "boolean"},
        "mode": {"enum": ["a", "b"]},
        "tags": {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "b"]}},
        "kind": {"const": "report"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "of": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"b": {}}}},
        "ratio": {"type": ["number", "null"], "default": 1},
    },
    "required": ["is on", "kind", "mode"],
}
VALUE = {
    "is on": True,
    "kind": "report",
    "mode": "c",
    "env": {"A": "1"},
    "of": [{}],
    "rows": [{"b": 1}, {}],
}


def test_every_box_has_a_label_and_every_id_is_unique() -> None:
    page = html(opened(EVERYTHING, VALUE))
    ids = attributes(page, "id")
    boxes = re.findall(r"<(?:input(?! type=.hidden)|select|textarea)[^>]*>", page)

    assert len(ids) == len(set(ids))
    assert not [one for one in ids if re.search(r"\s", one)]
    assert set(attributes(page, "for")) <= set(ids)
    assert {part for one in attributes(page, "aria-describedby") for part in one.split()} <= set(
        ids
    )
    assert set(attributes(page, "list")) <= set(ids)
    assert len(boxes) == 12
    for box in boxes:
        name = attributes(box, "id")[0]
        is_wrapped = re.search(rf"<label>\s*{re.escape(box)}", page)
        assert is_wrapped or "aria-label" in box or name in attributes(page, "for")


def test_a_problem_is_tied_to_its_box() -> None:
    page = html(opened(EVERYTHING, VALUE))
    (box,) = re.findall(r'<select id="args/mode"[^>]*>', page)

    assert 'aria-invalid="true"' in box
    assert 'aria-describedby="args/mode/~error"' in box
    assert re.search(r'id="args/mode/~error"[^>]*>&#34;c&#34; is none of', page)


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


def test_a_tool_without_arguments_has_no_fields() -> None:
    assert "Takes no arguments." in html(opened({"type": "object", "properties": {}}))
    assert "Takes no arguments." not in html(opened({"type": "object"}))
    assert sent(html(opened({"type": "object"})))["args/~json"] == "{}"
