"""Integers beyond 2^53, which JSON carries as texts, where a schema wants integers."""

from typing import Any

import pytest

from covalt_git.json_values.json_schema import with_integers

LARGE = "9007199254740993"
INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (INTEGER, LARGE, int(LARGE)),
        ({"type": ["integer", "null"]}, f"-{LARGE}", -int(LARGE)),
        ({"anyOf": [INTEGER, {"type": "null"}]}, LARGE, int(LARGE)),
        ({"anyOf": [INTEGER, {"type": "array"}]}, LARGE, int(LARGE)),
        ({"type": ["integer", "string"]}, LARGE, LARGE),
        ({"type": "string"}, LARGE, LARGE),
        (INTEGER, "9007199254740991", "9007199254740991"),
        (INTEGER, "0" + LARGE, "0" + LARGE),
        (INTEGER, LARGE + "٣", LARGE + "٣"),
        ({"type": "boolean"}, LARGE, LARGE),
    ],
)
@pytest.mark.parametrize("is_item", [True, False])
def test_digits_become_an_integer_only_where_one_is_wanted(
    schema: Any, value: Any, expected: Any, is_item: object
) -> None:
    if is_item:
        inner, outer = {"a": [value, 1]}, {"properties": {"a": {"items": schema}}}
        assert with_integers(outer, inner) == {"a": [expected, 1]}
        assert inner == {"a": [value, 1]}
    else:
        assert with_integers({"properties": {"a": schema}}, {"a": value}) == {"a": expected}
