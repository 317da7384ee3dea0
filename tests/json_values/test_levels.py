"""What is nested too deeply is cut out of a JSON value, and out of a text that Python's parser refuses."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values.levels import cut, cut_text, has_more_levels
from tests.examples import examples

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='ab"\\[]{}, :'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"]{'), inner),
)


@settings(max_examples=examples(50))
@given(VALUES, st.integers(0, 4))
def test_a_text_is_cut_as_its_value(value: Any, most: int) -> None:
    cut_value = cut(value, most)
    assert json.loads(cut_text(json.dumps(value), most)) == cut_value
    assert not has_more_levels(cut_value, most)
    assert has_more_levels(value, most) or cut_value == value


def test_a_text_of_many_levels_and_quotes_is_cut_in_one_pass() -> None:
    text = f'{{"deep": {"[" * 100_000}{"]" * 100_000}, "quotes": "{chr(92)}"{"x" * 100_000}"}}'
    assert json.loads(cut_text(text, 2))["deep"] == [None]


@pytest.mark.parametrize("text", ['{"a": [', '{"a": [[[', "]]", '{"a": "', '"' + "\\" * 9])
def test_a_text_that_is_not_json_stays_invalid(text: str) -> None:
    with pytest.raises(ValueError, match=":"):
        json.loads(cut_text(text, 2))
