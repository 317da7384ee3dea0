"""JSON values are equal exactly if their canonical texts are, and differ at the reported paths."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json
from covalt_git.json_values.difference import Difference, differences, same

values: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 1.5, "", "1", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@given(values, values)
def test_values_are_equal_exactly_if_their_canonical_texts_are(one: Any, other: Any) -> None:
    equal = canonical_json.dumps(one) == canonical_json.dumps(other)

    assert same(one, other) is equal
    assert (differences(one, other) == ()) is equal


def test_differences_are_reported_at_the_innermost_paths() -> None:
    then = {"rows": [{"n": 1}, 2], "gone": "x" * 600, "same": 1}
    now = {"rows": [{"n": True}], "same": 1.0}

    assert differences(then, now) == (
        Difference("$.gone", '"' + "x" * 498 + "…", None),
        Difference("$.rows[0].n", "1", "true"),
        Difference("$.rows[1]", "2", None),
    )
    assert len(differences(list(range(200)), [])) == 100
