"""Fields that a caller selects: what is sent, and what is refused; graphql-core has the same opinion."""

from typing import Any

import graphql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.http_tools.selections import checked_selection
from covalt_git.templating.graphql_text import BadSelectionError, variables
from tests.compilers.test_graphql_goldens import LIBRARY, compiled
from tests.tables import tables

TABLES = tables(__file__)
TYPES = compiled().types
SCHEMA = graphql.build_schema(LIBRARY)
BY_INPUT: dict[str, Any] = {
    "Root": {"fields": {"find": {"type": "Thing", "args": {"by": "Key!"}}}},
    "Thing": {"fields": {"id": "ID"}},
    "Key": {"inputs": {"id": "ID", "of": "Size", "day": "Day"}},
    "Size": {"inputs": {"unit": "Unit!=", "width": "Int"}},
    "Unit": {"values": ["METER", "FOOT"]},
}


def is_valid(selection: str) -> bool:
    """Return whether graphql-core accepts a selection of a Book."""
    try:
        document = graphql.parse(f'{{ picked(select: "") {{ {selection} }} }}')
    except graphql.GraphQLError:
        return False
    return not graphql.validate(SCHEMA, document)


@pytest.mark.parametrize(("text", "sent"), TABLES["accepted"])
def test_a_selection_that_fits_is_sent_in_its_canonical_form(text: str, sent: str) -> None:
    assert checked_selection(text, "Book", TYPES) == sent
    assert is_valid(sent)


@pytest.mark.parametrize(("text", "message"), TABLES["refused"])
def test_a_selection_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadSelectionError) as caught:
        checked_selection(text, "Book", TYPES)

    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "message"), TABLES["inputs"])
def test_objects_in_arguments_are_checked(text: str, message: str) -> None:
    if not message:
        assert checked_selection(text, "Root", BY_INPUT) == text
        return
    with pytest.raises(BadSelectionError) as caught:
        checked_selection(text, "Root", BY_INPUT)

    assert message in str(caught.value)


def test_a_selection_without_types_is_checked_for_its_form_only() -> None:
    assert checked_selection("any { thing }") == "any { thing }"
    assert checked_selection("any { thing }", "Unknown", None) == "any { thing }"
    with pytest.raises(BadSelectionError):
        checked_selection("any } query { secret")


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("a { " * 7 + "a" + " }" * 7, True),
        ("a { " * 8 + "a" + " }" * 8, False),
        (" ".join(f"f{at}" for at in range(1000)), True),
        (" ".join(f"f{at}" for at in range(1001)), False),
        ("a { " * 100_000, False),
        ("a(b: " + "[" * 16 + "]" * 16 + ")", True),
        ("a(b: " + "[" * 100_000, False),
        ("a(b: " + "{c: " * 20_000, False),
        ('a(b: "' + "\\" * 90_000, False),
    ],
)
def test_depth_and_fields_are_limited(text: str, is_allowed: bool) -> None:  # noqa: FBT001
    if is_allowed:
        checked_selection(text)
        return
    with pytest.raises(BadSelectionError):
        checked_selection(text)


WORDS = st.sampled_from(
    [
        "title",
        "author",
        "{",
        "}",
        "name",
        "loan",
        "(",
        ")",
        "id",
        ":",
        "1",
        '"x"',
        "$id",
        "@skip",
        "...",
        "on",
        "Book",
        "similar",
        "first",
        "genres",
        "[",
        "]",
        "NOVEL",
        "null",
        "#",
        ",",
    ]
)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_what_is_accepted_is_valid_for_the_server_too(text: str) -> None:
    try:
        sent = checked_selection(text, "Book", TYPES)
    except BadSelectionError:
        return
    assert is_valid(sent)
    assert checked_selection(sent, "Book", TYPES) == sent


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("{ a }", {}),
        ("query q { a(b: $c) }", {}),
        ("query q($a: ID!, $b: [Int!]!) { x(y: $a) }", {"a": "ID!", "b": "[Int!]!"}),
        ('query($a: In = {b: 1, c: "}"}, $d: Int! = 3) { x }', {"a": "In=", "d": "Int!="}),
        (
            "mutation m($a: [[In!]] @d(x: 1) $b: Int) { x { $select } }",
            {"a": "[[In!]]", "b": "Int"},
        ),
        ("# $no: Int\nquery q($a: Int) { x }", {"a": "Int"}),
    ],
)
def test_the_variables_of_a_query_are_read(query: str, types: dict[str, str]) -> None:
    assert variables(query) == types
