"""Which parts of an expression can exist, by the schema of the arguments or of the result."""

import pytest

from covalt_git.checks.expressions import _first_missing
from covalt_git.json_values import JsonObject

PAIR: JsonObject = {
    "type": "object",
    "properties": {
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}],
            "items": False,
        }
    },
}


@pytest.mark.parametrize(
    "path", [("pair", "0"), ("pair", "0", "a"), ("pair", "1"), ("pair", "9" * 5000)]
)
def test_an_item_of_a_tuple_can_exist(path: tuple[str, ...]) -> None:
    assert _first_missing(PAIR, path, listed=False) is None


@pytest.mark.parametrize(("path", "position"), [(("pair", "a"), 1), (("pair", "1", "a"), 2)])
def test_a_name_in_a_tuple_and_a_part_of_a_text_cannot(
    path: tuple[str, ...], position: int
) -> None:
    assert _first_missing(PAIR, path, listed=False) == (position, [])
