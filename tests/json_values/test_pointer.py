"""A local reference leads where the validator goes by it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values import pointer
from covalt_git.json_values.json_schema import value_problems
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)

names = st.text("ab/~%01 é$", max_size=4)


@settings(max_examples=examples(200), deadline=None)
@given(names, names)
def test_a_reference_that_was_made_leads_to_its_part(outer: str, inner: str) -> None:
    part = {"type": "string"}
    made = pointer.reference_to("$defs", outer, "properties", inner)
    root: dict[str, Any] = {"$defs": {outer: {"properties": {inner: part}}}, **made}

    assert pointer.target(root, made[pointer.REF]) is part
    assert pointer.name_of(made) == inner
    assert value_problems(root, 1) != []
    assert value_problems(root, "x") == []


@pytest.mark.parametrize(
    ("reference", "found"), TABLES["a_reference_is_decoded_before_it_is_split"]
)
def test_a_reference_is_decoded_before_it_is_split(reference: str, found: str) -> None:
    root = {
        "title": "all",
        "a": {"title": "a", "b": {"title": "a/b"}},
        "x/y": {"title": "x/y"},
        "~1": {"title": "~1"},
        "50%": {"title": "50%"},
        "": {"title": "nameless"},
        "list": [{"title": "first"}, {"title": "second"}],
        "$defs": {"one": {"title": "anchored", "$anchor": "anchor"}},
    }

    assert pointer.target(root, reference)["title"] == found


@pytest.mark.parametrize(
    ("reference", "message"), TABLES["a_reference_that_leads_nowhere_is_an_error"]
)
def test_a_reference_that_leads_nowhere_is_an_error(reference: str, message: str) -> None:
    with pytest.raises(pointer.BadReferenceError) as refused:
        pointer.target({"list": [1]}, reference)

    assert refused.value.message == message


def test_references_are_followed_to_the_end_and_never_in_a_circle() -> None:
    root = {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "null"}, "c": {"$ref": "#/$defs/c"}}
    }

    assert pointer.resolve(root, {"$ref": "#/$defs/a"}) == {"type": "null"}
    with pytest.raises(pointer.BadReferenceError, match="is circular"):
        pointer.resolve(root, {"$ref": "#/$defs/c"})
