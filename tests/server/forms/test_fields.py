"""A tool's form: which field each part of a schema gets, and forms of schemas that others wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings

from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.toolsets.toolset import read_toolset
from covalt_server.forms.fields import MAX_FIELDS, Choice, Field, draw
from covalt_server.forms.form import Submitted, opened
from covalt_server.forms.shapes import MAX_DEPTH, MISSING, Kind
from tests.json_values.test_json_schema import json_values, schemas
from tests.server.sent_form import attributes, html, sent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

SHARED = Path(__file__).parents[3].parent / "shared" / "data"


def form(
    schema: Any, *value: Any, required: bool = True, definitions: JsonObject | None = None
) -> Field:
    """Return the field of a schema that is the only part of a tool's arguments, ``a``."""
    whole = {"type": "object", "properties": {"a": schema}, "$defs": definitions or {}}
    if required:
        whole["required"] = ["a"]
    return draw(whole, {"a": value[0]} if value else MISSING).children[0]


# --- what others wrote ----------------------------------------------------------------------------


def of_openapi(document: JsonObject) -> Iterator[JsonObject]:
    """Yield every named schema of a document, and what each of its operations takes."""
    named: JsonObject = {
        key: document[key] for key in ("components", "definitions") if key in document
    }
    schemas = document.get("components", {}).get("schemas") or document.get("definitions", {})
    places = ("#/components/schemas/", "#/definitions/")
    for name in schemas:
        ref = places["definitions" in document] + name.replace("~", "~0").replace("/", "~1")
        yield {"$ref": ref, **named}
    for path in document["paths"].values():
        for operation in (one for one in path.values() if isinstance(one, dict)):
            given = [one for one in operation.get("parameters", []) if "name" in one]
            bodies = operation.get("requestBody", {}).get("content", {}).values()
            parts = {one["name"]: one.get("schema", one) for one in given}
            parts |= {f"body{at}": one.get("schema", {}) for at, one in enumerate(bodies)}
            yield {"type": "object", "properties": parts, **named}


def corpus(name: str) -> list[JsonObject]:
    folder = SHARED / name
    found: list[Any] = []
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if name == "json-schema":
            found += [group["schema"] for group in document]
        elif name == "mcp" and isinstance(document, dict | list):
            tools = document.get("tools", []) if isinstance(document, dict) else document
            found += [one["inputSchema"] for one in tools if "inputSchema" in one]
        elif "paths" in document and "info" in document:
            found += of_openapi(document)
    for path in sorted(folder.rglob("*.yaml")) if name == "openapi" else ():
        document = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        found += of_openapi(json.loads(json.dumps(document, default=str)))
    for path in sorted(folder.rglob("*.tools.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [one["inputSchema"] for one in map(json.loads, lines) if "inputSchema" in one]
    return [schema for schema in found if isinstance(schema, dict)]


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside this checkout")
@pytest.mark.parametrize("name", ["json-schema", "mcp", "openapi", "retrieval"])
def test_every_schema_that_others_wrote_has_a_form(name: str) -> None:
    found = corpus(name)

    assert len(found) > 40
    for schema in found:
        page = html(opened(schema))
        assert attributes(page, "id") == list(dict.fromkeys(attributes(page, "id")))
        assert sent(page)


def test_the_sample_toolsets_need_json_only_for_a_text_or_a_number() -> None:
    root = Path(__file__).parents[3]
    tools = [
        tool for name in toolset_ids(root / "toolsets") for tool in read_toolset(root, name).tools
    ]

    assert len(tools) > 5
    for tool in tools:
        for example in [{}, *(one.args for one in tool.examples)]:
            shown = list(draw(tool.input_schema, example).walk())
            as_json = {one.loc[-1] for one in shown if one.kind is Kind.JSON}
            assert as_json <= ({"value"} if tool.tool_id == "data-lab:select_rows" else set())


@given(schema=schemas, value=json_values)
@settings(max_examples=200, deadline=None)
def test_no_schema_and_no_value_fails_however_wrong(schema: Any, value: Any) -> None:
    assert draw(schema).name == "args"
    assert sent(html(Submitted(value=value, fields=draw(schema, value))))


# --- which field ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string", "pattern": "^a"}, Kind.TEXT),
        ({"type": "string", "maxLength": 200}, Kind.TEXT),
        ({"type": "string", "default": "a.csv"}, Kind.TEXT),
        ({"type": "string"}, Kind.LONG_TEXT),
        ({"type": "string", "maxLength": 201}, Kind.LONG_TEXT),
        ({"type": "string", "default": "a\nb"}, Kind.LONG_TEXT),
        ({"type": "integer"}, Kind.INTEGER),
        ({"type": ["null", "number"]}, Kind.NUMBER),
        ({"type": ["integer", "number"]}, Kind.JSON),
        ({"minimum": 3}, Kind.NUMBER),
        ({"type": "boolean"}, Kind.CHECKBOX),
        ({"type": ["boolean", "null"]}, Kind.CHOICE),
        ({"enum": ["a", 1]}, Kind.CHOICE),
        ({"type": "string", "enum": ["a"]}, Kind.CHOICE),
        ({"oneOf": [{"const": 1, "title": "one"}, {"const": 2}]}, Kind.CHOICE),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, Kind.CHOICE),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, Kind.INTEGER),
        ({"oneOf": [{"const": None}, {"type": "array"}], "title": "A"}, Kind.LIST),
        ({"anyOf": [{"properties": {"b": {}}}, {"type": "null"}]}, Kind.OBJECT),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, Kind.JSON),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, Kind.JSON),
        ({"oneOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]}, Kind.JSON),
        ({"properties": {"b": {}}, "oneOf": [{"properties": {"c": {}}}, {}]}, Kind.JSON),
        ({"const": "a"}, Kind.CONSTANT),
        ({"type": "null"}, Kind.CONSTANT),
        ({"type": "array", "uniqueItems": True, "items": {"enum": ["a"]}}, Kind.CHOICES),
        ({"type": "array", "items": {"enum": ["a"]}}, Kind.LIST),
        ({"type": "array", "prefixItems": [{"type": "string"}, {}]}, Kind.JSON),
        ({"properties": {"b": {}}}, Kind.OBJECT),
        ({"properties": {"b": {}}, "additionalProperties": True}, Kind.OBJECT),
        ({"properties": {"b": {}}, "additionalProperties": {"type": "string"}}, Kind.JSON),
        ({"properties": {"b": {}}, "patternProperties": {"^x": {}}}, Kind.JSON),
        ({"type": "object", "additionalProperties": {"type": "string"}}, Kind.JSON),
        ({"type": "object", "patternProperties": {"^x": {}}}, Kind.JSON),
        ({"type": "object", "additionalProperties": False}, Kind.OBJECT),
        ({"type": "object"}, Kind.JSON),
        ({"type": "object", "additionalProperties": True}, Kind.JSON),
        ({}, Kind.JSON),
        (True, Kind.JSON),
        ({"not": {"type": "string"}}, Kind.JSON),
        ({"anyOf": [{}, {"type": "string"}]}, Kind.JSON),
        ({"$ref": "https://example.com/a.json"}, Kind.JSON),
        ({"$ref": "#/$defs/none"}, Kind.JSON),
        ({"$ref": "#/$defs/loop"}, Kind.JSON),
        ({"$ref": "#/$defs/name"}, Kind.LONG_TEXT),
        ({"$ref": "#here"}, Kind.INTEGER),
        ({"$ref": "#/$defs/a~1b%20c"}, Kind.CHECKBOX),
        ({"allOf": [{"$ref": "#/$defs/name"}, {"maxLength": 3}]}, Kind.TEXT),
        ({"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]}, Kind.LONG_TEXT),
    ],
    ids=lambda one: json.dumps(one) if isinstance(one, dict) else None,
)
def test_a_schema_gets_the_field_that_fits(schema: Any, kind: Kind) -> None:
    definitions = {
        "name": {"type": "string"},
        "loop": {"$ref": "#/$defs/loop"},
        "here": {"$anchor": "here", "type": "integer"},
        "a/b c": {"type": "boolean"},
    }

    assert form(schema, definitions=definitions).kind == kind


@pytest.mark.parametrize(
    ("name", "rows"),
    [("content", 8), ("html", 8), ("old", 1), ("path", 0), ("table_name", 0), ("sortDate", 0)],
)
def test_a_text_s_name_tells_how_long_it_is(name: str, rows: int) -> None:
    (shown,) = draw({"type": "object", "properties": {name: {"type": "string"}}}).children

    assert shown.kind == (Kind.LONG_TEXT if rows else Kind.TEXT)
    assert not rows or shown.rows == rows


def test_words_are_those_of_the_place_and_not_of_what_it_refers_to() -> None:
    definition = {"title": "Thing", "description": "Any thing.", "type": "string"}
    others = {"Thing": definition}

    assert form({"$ref": "#/$defs/Thing"}, definitions=others).label == "a"
    assert form({"$ref": "#/$defs/Thing"}, definitions=others).description == "Any thing."
    own = form(
        {"$ref": "#/$defs/Thing", "title": "A", "description": "This one."}, definitions=others
    )
    assert (own.label, own.description) == ("A", "This one.")


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 10}, "1 to 10"),
        (
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            "more than 0 \u00b7 a multiple of 0.5",
        ),
        ({"type": "integer", "minimum": 0}, "at least 0"),
        ({"type": "string", "minLength": 1}, "at least 1 character"),
        ({"type": "string", "minLength": 2, "maxLength": 2}, "2 characters"),
        ({"type": "string", "pattern": "^a"}, "must match ^a"),
        ({"type": "string", "format": "date"}, "such as 2026-11-20"),
        ({"type": "array", "items": {}, "maxItems": 3}, "at most 3 items"),
        ({}, "JSON: a text stands in quotes"),
    ],
)
def test_what_a_value_has_to_be_is_told(schema: Any, note: str) -> None:
    assert form(schema, required=True).note == note


def test_a_default_is_told_where_the_value_may_be_left_out_and_shown_where_not() -> None:
    schema = {"type": "string", "default": "a.csv"}

    assert form(schema, required=False).note == "default: a.csv"
    assert form(schema, required=False).text == ""
    assert form(schema).note == ""
    assert form(schema).text == "a.csv"


@pytest.mark.parametrize(
    ("schema", "attributes"),
    [
        ({"minLength": 1}, {"type": "text"}),
        ({"minLength": 3, "maxLength": 9}, {"type": "text", "minlength": "3"}),
        ({"format": "date"}, {"type": "date"}),
        ({"format": "email"}, {"type": "text", "inputmode": "email"}),
        ({"pattern": "^[a-z0-9]+$"}, {"type": "text", "pattern": "[a-z0-9]+"}),
        ({"pattern": r"^\d{4}-\d\d$"}, {"type": "text", "pattern": r"\d{4}-\d\d"}),
        # These find something within the text, or mean another thing to a browser.
        ({"pattern": "[a-z]+"}, {"type": "text"}),
        ({"pattern": "^a|b$"}, {"type": "text"}),
        ({"pattern": "^[a-z&&]$"}, {"type": "text"}),
    ],
)
def test_attributes_mean_to_a_browser_what_the_schema_says(
    schema: Any, attributes: dict[str, str]
) -> None:
    shown = form({"type": "string", "maxLength": 20} | schema, required=False)

    plain = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
    assert dict(shown.attributes) == attributes | plain


def test_a_line_is_required_unless_it_was_said_to_be_empty_and_a_text_only_where_it_must_be() -> (
    None
):
    line, text = {"type": "string", "maxLength": 20}, {"type": "string"}

    assert "required" in form(line).attributes
    assert "required" not in form(line, required=False).attributes
    assert "required" not in form(line | {"default": ""}).attributes
    assert "required" not in form(text).attributes
    assert "required" in form(text | {"minLength": 1}).attributes


def test_a_date_that_is_none_is_typed_and_not_picked() -> None:
    shown = form({"type": "string", "format": "date"}, "today")

    assert (shown.text, shown.attributes["type"]) == ("today", "text")


def test_numbers_are_boxes_of_text_which_keep_what_is_typed() -> None:
    shown = form({"type": "integer"}, 2**53 - 1)

    assert shown.text == "9007199254740991"
    assert shown.attributes["type"] == "text"
    assert shown.attributes["inputmode"] == "numeric"


def test_examples_of_a_schema_are_suggested() -> None:
    shown = form({"type": "number", "examples": [1, 2.5, "x"]})

    assert shown.suggestions == ("1", "2.5")


def test_a_choice_that_may_be_left_out_says_what_that_means() -> None:
    assert form({"enum": ["a", "b"], "default": "b"}, required=False).choices == (
        Choice("", "default: b", chosen=True),
        Choice('"a"', "a"),
        Choice('"b"', "b"),
    )
    assert form({"type": "boolean"}, required=False).choices[0].label == "not set"
    assert form({"enum": ["a"]}).choices[0] == Choice("", "choose...", chosen=True)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["Red", "Blue"], ["Red", "Blue"]),
        (["Red"], ["r", "b"]),
        (["Red", "Red"], ["r", "b"]),
        (["Red", 1], ["r", "b"]),
    ],
)
def test_an_enum_is_shown_by_names_that_tell_its_values_apart(
    names: list[object], shown: list[str]
) -> None:
    one = {"enum": ["r", "b"], "enumNames": names}
    several = {"type": "array", "uniqueItems": True, "items": one}

    assert [choice.label for choice in form(one, "r").choices] == shown
    assert [choice.label for choice in form(several, ["r"]).choices] == shown


def test_labels_of_an_enum_are_the_titles_of_its_branches() -> None:
    shown = form({"oneOf": [{"const": 1, "title": "one"}, {"const": 2}]}, 2)

    assert shown.choices == (Choice("1", "one"), Choice("2", "2", chosen=True))


def test_branches_that_only_say_what_is_valid_leave_the_object_as_it_is() -> None:
    parts = {"phone": {"type": "string"}, "email": {"type": "string"}}
    ways = [{"required": ["phone"]}, {"required": ["email"]}]
    schema = {"type": "object", "properties": parts, "anyOf": ways}

    assert [one.label for one in form(schema).children] == ["phone", "email"]


def test_parts_of_all_branches_are_offered() -> None:
    base = {"properties": {"b": {"type": "integer"}}, "required": ["b"]}
    more = {"properties": {"c": {"type": "string"}}}
    shown = form({"allOf": [{"$ref": "#/$defs/base"}, more]}, definitions={"base": base})

    assert [(one.label, one.required) for one in shown.children] == [("b", True), ("c", False)]


# --- lists and objects ----------------------------------------------------------------------------


def test_an_optional_object_is_filled_in_only_when_asked() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}}}

    assert not form(schema, required=False).is_set
    assert form(schema, required=False).children == ()
    assert form(schema, {}, required=False).is_set
    assert form(schema, {}, required=False).out == "Leave out"
    assert [one.label for one in form(schema).children] == ["b"]


def test_a_list_starts_with_what_it_must_have_and_ends_with_what_it_may() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3}

    assert [one.can_remove for one in form(schema).children] == [False, False]
    assert form(schema).can_add
    full = form(schema, ["a", "b", "c"])
    assert [one.can_remove for one in full.children] == [True, True, True]
    assert not full.can_add


def test_an_object_with_keys_that_the_schema_does_not_name_is_shown_as_json() -> None:
    shown = form({"type": "object", "properties": {"b": {"type": "string"}}}, {"b": "x", "c": [1]})

    assert (shown.kind, json.loads(shown.text)) == (Kind.JSON, {"b": "x", "c": [1]})


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    shown = draw(tree, {"next": {"next": {"name": "x"}}})

    assert [one.name for one in shown.walk()] == [
        "args",
        "args/next",
        "args/next/next",
        "args/next/next/next",
        "args/next/next/name",
        "args/next/name",
        "args/name",
    ]


def test_what_never_ends_ends_as_json() -> None:
    endless = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "also": {"$ref": "#"}},
        "required": ["next", "also"],
    }
    shown = list(draw(endless).walk())

    assert max(len(one.loc) for one in shown) == MAX_DEPTH
    assert {one.kind for one in shown if len(one.loc) == MAX_DEPTH} == {Kind.JSON}
    assert len(shown) < MAX_FIELDS + 2 * MAX_DEPTH


def test_a_value_with_more_parts_than_a_page_can_show_is_json() -> None:
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
def test_references_that_multiply_are_followed_only_so_far(schema: JsonObject) -> None:
    definitions = {
        f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}, {"$ref": f"#/$defs/a{at + 1}"}]}
        for at in range(60)
    }

    assert form(schema, definitions={**definitions, "a60": {}}).kind is Kind.JSON


# --- values that do not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, 5),
        ({"type": "string"}, "a\r\nb"),
        ({"type": "string"}, "a\0b"),
        ({"type": "string"}, None),
        ({"type": "integer"}, "5"),
        ({"type": "integer"}, 1.5),
        ({"type": "number"}, True),
        ({"type": "boolean"}, "yes"),
        ({"type": "array", "items": {}}, {"a": 1}),
        ({"type": "object", "properties": {"b": {}}}, [1]),
        ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}}, [2, 1]),
        ({"type": ["string", "null"]}, ""),
    ],
)
def test_what_a_field_cannot_hold_is_shown_as_json(schema: Any, value: Any) -> None:
    shown = form(schema, value)

    assert shown.kind is Kind.JSON
    assert json.loads(shown.text) == value


def test_what_is_none_of_the_choices_is_one_more() -> None:
    assert form({"enum": ["a"]}, "b").choices[-1] == Choice('"b"', '"b" (not one of these)', True)
    assert form({"const": "a"}, "b").choices[-1] == Choice('"b"', '"b" (not one of these)', True)


def test_true_is_not_one() -> None:
    assert [one.chosen for one in form({"enum": [1, True, 0, False]}, True).choices] == [
        False,
        True,
        False,
        False,
    ]


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


def test_every_box_has_a_label_and_every_id_is_its_own() -> None:
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


def test_nothing_of_a_page_is_inline_and_nothing_of_a_value_is_markup() -> None:
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


def test_a_tool_without_arguments_says_so() -> None:
    assert "Takes no arguments." in html(opened({"type": "object", "properties": {}}))
    assert "Takes no arguments." not in html(opened({"type": "object"}))
    assert sent(html(opened({"type": "object"})))["args/~json"] == "{}"
