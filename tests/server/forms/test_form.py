"""Values read back from a form: what it shows, what is typed, and what is wrong with it."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.json_values.json_schema import schema_problems, value_problems
from covalt_server.forms.form import opened, submitted
from covalt_server.forms.problems import FieldProblem
from tests.examples import examples
from tests.json_values.test_json_schema import json_values, schemas
from tests.server.sent_form import html, sent
from tests.tables import tables

# --- showing a value and reading it back -----------------------------------------------------------

SPECIAL = ["", " ", "a\nb", "\n", "\nx", "a\r\nb", "\r", "\0", "\u2028"]
LIKE_CODE = ["<b>&amp;\"'", "null", "5", "{{ x }}"]
texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from([*SPECIAL, *LIKE_CODE])
names = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(
    ["a", "b", "c", "", "a/b", "~", "~0", "~1", "~set", "0", "a b", "a\nb", "%0A", "é", "content"]
)
integers = st.integers(-(2**53) + 1, 2**53 - 1)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)

TABLES = tables(__file__)

Place = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and values that satisfy it."""


def place(schema: Any, values: st.SearchStrategy[Any]) -> Place:
    return schema, values


def chosen_of(options: list[Any]) -> Place:
    return {"enum": options}, st.sampled_from(options)


def set_of(options: list[Any]) -> Place:
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": options}}
    return schema, st.lists(st.sampled_from(options), unique_by=canonical_json.dumps)


def list_of(item: Place) -> Place:
    return {"type": "array", "items": item[0]}, st.lists(item[1], max_size=3)


def object_of(parts: dict[str, Place], required: set[str]) -> Place:
    schema: JsonObject = {
        "type": "object",
        "properties": {name: part[0] for name, part in parts.items()},
        "required": sorted(required & set(parts)),
        "additionalProperties": False,
    }
    given = {name: part[1] for name, part in parts.items() if name in required}
    optional = {name: part[1] for name, part in parts.items() if name not in required}
    return schema, st.fixed_dictionaries(given, optional=optional)


def optional_of(part: Place) -> Place:
    return {"anyOf": [part[0], {"type": "null"}]}, part[1] | st.none()


def with_default(part: Place, default: Any) -> Place:
    return ({**part[0], "default": default} if isinstance(part[0], dict) else part[0]), part[1]


simple = st.sampled_from(
    [
        place({"type": "string"}, texts),
        place({"type": ["string", "null"]}, texts | st.none()),
        place({"type": "string", "minLength": 1}, texts.filter(bool)),
        place({"type": "string", "maxLength": 500}, texts),
        place({"type": "string", "format": "date"}, texts | st.dates().map(str)),
        place({"type": "integer"}, integers),
        place({"type": "number"}, numbers),
        place({"type": "boolean"}, st.booleans()),
        place({"type": "null"}, st.none()),
        place({"const": "fixed"}, st.just("fixed")),
        place({}, json_values),
        place({"type": "object"}, st.dictionaries(names, json_values, max_size=2)),
        place({"minimum": 3}, st.integers(3, 9) | texts | st.none()),
        chosen_of(["red", "green", ""]),
        chosen_of([1, "1", None, True, 1.5, [1], {"a": ""}]),
        set_of(["red", "green", "", "blue"]),
    ]
)


def composed(inner: st.SearchStrategy[Place]) -> st.SearchStrategy[Place]:
    return st.one_of(
        inner.map(list_of),
        st.builds(object_of, st.dictionaries(names, inner, max_size=4), st.sets(names)),
        inner.map(optional_of),
        st.builds(with_default, inner, json_values),
    )


places = st.recursive(simple, composed, max_leaves=5)


def read_back(schema: JsonObject, value: Any) -> Any:
    page = html(opened(schema, value))
    again = submitted(schema, sent(page))

    assert again.problems == ()
    assert again.wants == "run"
    return again.value


@given(given_place=places, choose=st.data())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_a_valid_value_is_read_back_as_it_is_shown(
    given_place: Place, choose: st.DataObject
) -> None:
    schema, values = given_place
    value = choose.draw(values)
    assume(not value_problems(schema, value))
    note(f"{schema!r}\n{value!r}")

    assert canonical_json.dumps(read_back(schema, value)) == canonical_json.dumps(value)


@given(schema=schemas, value=json_values)
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_a_valid_value_of_any_schema_is_read_back(schema: JsonObject, value: Any) -> None:
    assume(not schema_problems(schema) and not value_problems(schema, value))

    assert canonical_json.dumps(read_back(schema, value)) == canonical_json.dumps(value)


typed = st.sampled_from(["", " ", "abc", "5", " 5.0", "1e400", "9" * 30, "{", "null", '"x"'])


@given(given_place=places, choose=st.data())
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_drawing_a_form_again_keeps_what_was_typed(
    given_place: Place, choose: st.DataObject
) -> None:
    schema = {"type": "object", "properties": {"a": given_place[0]}}
    form = sent(html(opened(schema, {"a": choose.draw(given_place[1])})))
    for name in [name for name in form if not re.search(r"^_|/~(set|item)$", name)]:
        if choose.draw(st.booleans()):
            # A list or an object as JSON that was emptied starts anew, as fields.
            form[name] = choose.draw(typed.filter(str.strip) if name.endswith("~json") else typed)
    again = sent(html(submitted(schema, with_button(form, "_use", "form"))))

    before = submitted(schema, with_button(form, "_check", "1")).answer()
    assert submitted(schema, with_button(again, "_check", "1")).answer() == before


form_names = st.lists(
    st.sampled_from([*("args", "a", "b", "0", "1", "~set", "~item", "~json")]),
    max_size=5,
).map(lambda parts: "/".join(["args", *parts]))


@given(
    schema=schemas,
    form=st.lists(st.tuples(form_names, typed), max_size=8),
    button=st.tuples(
        st.sampled_from(["_add", "_remove", "_use", "_check", "_example"]), form_names
    ),
)
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_every_request_is_answered(
    schema: JsonObject, form: list[tuple[str, str]], button: tuple[str, str]
) -> None:
    assume(not schema_problems(schema))
    got = submitted(schema, MultiDict([*form, button]))

    assert got.wants in {"redraw", "check"}
    assert sent(html(got))


def with_button(form: MultiDict[str, str], name: str, value: str) -> MultiDict[str, str]:
    return MultiDict([*form.items(multi=True), (name, value)])


# --- what the boxes mean --------------------------------------------------------------------------


def given_form(schema: JsonObject, value: Any = None, **texts: str) -> MultiDict[str, str]:
    """Return what is sent by the form of ``{a: schema}`` once ``texts`` were typed."""
    form = sent(html(opened(schema) if value is None else opened(schema, value)))
    for name, text in texts.items():
        form[name.replace("__", "/")] = text
    return form


def one(schema: Any, *, required: bool = True) -> JsonObject:
    needed = ["a"] if required else []
    return {"type": "object", "properties": {"a": schema}, "required": needed}


@pytest.mark.parametrize(("kind", "text", "value"), TABLES["numbers"])
def test_numbers_are_read_exactly(kind: str, text: str, value: Any) -> None:
    schema = one({"type": kind})
    got = submitted(schema, given_form(schema, args__a=text))

    assert got.wants == "run"
    assert got.value == {"a": value}
    assert isinstance(got.value["a"], type(value))


@pytest.mark.parametrize(("kind", "text", "message"), TABLES["not_numbers"])
def test_a_text_that_is_not_a_number_stays_with_its_problem(
    kind: str, text: str, message: str
) -> None:
    schema = one({"type": kind})
    got = submitted(schema, given_form(schema, args__a=text))

    assert got.wants == "redraw"
    assert got.problems == (FieldProblem("args/a", message),)
    (shown,) = got.fields.children
    assert (shown.text, shown.problems, shown.focus) == (text, (message,), True)


@pytest.mark.parametrize(("part", "required", "value"), TABLES["untouched"])
def test_an_untouched_form_gives_the_smallest_value(
    part: Any, *, required: bool, value: JsonObject
) -> None:
    schema = one(part, required=required)

    assert submitted(schema, given_form(schema)).value == value


def test_a_required_text_is_empty_only_where_that_is_meant() -> None:
    schema = one({"type": "string"})
    got = submitted(schema, given_form(schema, args__a=""))

    assert (got.wants, [problem.path for problem in got.problems]) == ("redraw", ["args/a"])
    assert read_back(schema, {"a": ""}) == {"a": ""}


# --- adding and removing --------------------------------------------------------------------------

ROWS = one({"type": "array", "items": {"type": "integer"}}, required=False)


def pressed(
    schema: JsonObject, form: MultiDict[str, str], name: str, value: str
) -> MultiDict[str, str]:
    """Return what the form sends that is drawn when a button of it was pressed."""
    got = submitted(schema, with_button(form, name, value))
    assert got.wants == "redraw"
    return sent(html(got))


def test_adding_and_removing_items_keeps_what_was_typed() -> None:
    form = pressed(ROWS, given_form(ROWS), "_add", "args/a")
    form["args/a/0"] = "abc"
    form = pressed(ROWS, form, "_add", "args/a")
    form["args/a/1"] = "7"
    form = pressed(ROWS, form, "_add", "args/a")

    assert [form[f"args/a/{at}"] for at in range(3)] == ["abc", "7", ""]
    form["args/a/2"] = "x"
    form = pressed(ROWS, form, "_remove", "args/a/1")
    assert [form[f"args/a/{at}"] for at in range(2)] == ["abc", "x"]
    assert form.getlist("args/a/~item") == ["0", "1"]
    form = pressed(ROWS, form, "_remove", "args/a/0")
    form["args/a/0"] = "3"
    assert submitted(ROWS, form).value == {"a": [3]}


# --- problems -------------------------------------------------------------------------------------


def test_a_problem_is_at_the_field_that_can_fix_it() -> None:
    filters = {
        "type": "object",
        "properties": {"column": {"type": "string"}, "value": {"type": "integer", "maximum": 9}},
        "required": ["column", "value"],
    }
    schema = one({"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/F"}}, {"type": "null"}]})
    schema["$defs"] = {"F": filters}
    schema["properties"] |= {"mode": {"enum": ["x"]}, "any": {"type": "object"}}
    schema["properties"]["any"]["properties"] = {}
    schema["required"] = ["mode"]
    form = given_form(
        schema, {"a": [{"column": "b", "value": 10}, {"column": "c"}], "any": {"k": []}}
    )

    assert submitted(schema, form).problems == (
        FieldProblem("args/mode", "this is required"),
        FieldProblem("args/a/0/value", "10 is greater than the maximum of 9"),
        FieldProblem("args/a/1/value", "this is required"),
    )


# --- the JSON side, examples and checks -----------------------------------------------------------

NAMED = one({"type": "integer"}, required=True)


def test_the_fields_and_the_json_side_have_the_same_value() -> None:
    form = pressed(NAMED, given_form(NAMED, args__a="5"), "_use", "json")

    assert dict(form) == {"_side": "json", "_json": '{\r\n  "a": 5\r\n}'}
    assert submitted(NAMED, form).value == {"a": 5}
    form["_json"] = '{"a": 7}'
    assert pressed(NAMED, form, "_use", "form")["args/a"] == "7"
    form["_json"] = '{"a": 7, "b": "x"}'
    form = pressed(NAMED, form, "_use", "form")
    assert submitted(NAMED, form).value == {"a": 7, "b": "x"}


def test_a_text_that_is_not_json_stays_on_the_json_side() -> None:
    form = MultiDict({"_side": "json", "_json": '{"a": 5,'})

    for name, value in (("_use", "form"), ("_use", "json"), ("nothing", "")):
        got = submitted(NAMED, with_button(form, name, value))
        assert (got.wants, got.side, got.text, got.value) == ("redraw", "json", '{"a": 5,', None)
        ((path, message),) = [(told.path, told.message) for told in got.problems]
        assert path == "_json"
        assert message.startswith("this is not JSON, in line 1 at column ")
        assert sent(html(got))["_json"] == '{"a": 5,'


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": "\\ud800"}', "9" * 30])
def test_ambiguous_json_is_not_read(text: str) -> None:
    got = submitted(NAMED, MultiDict({"_side": "json", "_json": text}))

    assert got.value is None
    assert got.problems[0].path == "_json"
    assert sent(html(got))["_json"] == text
