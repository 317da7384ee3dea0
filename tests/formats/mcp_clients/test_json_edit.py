"""An edit of JSON with comments changes one value, and no other character."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.formats.documents import FormatError, parse
from covalt_git.formats.mcp_clients.json_edit import with_value

COMMENTED = """\
{
  // the theme
  "theme": "dark", /* not light */
  "mcpServers": {
    // mine
    "a": {"command": "x"}, // the first
    "b": {"url": "https://x.example/{y}"},
  },
}
"""
KEYS = st.text(st.sampled_from('a"\\/é{}:,'), min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def test_an_added_server_is_the_only_change() -> None:
    edited = with_value(COMMENTED, ("mcpServers", "new"), {"command": "c"}, "mcp.json")
    added = '    "new": {\n      "command": "c"\n    },\n'

    assert added in edited
    assert edited.replace(added, "") == COMMENTED


def test_a_replaced_server_keeps_its_place_and_the_comments() -> None:
    edited = with_value(COMMENTED, ("mcpServers", "a"), 1, "mcp.json")

    assert edited == COMMENTED.replace('{"command": "x"}', "1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "s": {\n    "n": 1\n  }\n}\n'),
        (
            '{\n  "s": {\n    "a": 1 // one\n  }\n}',
            '{\n  "s": {\n    "a": 1, // one\n    "n": 1\n  }\n}',
        ),
        ("{}", '{\n  "s": {\n    "n": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1,\n"s": {\n  "n": 1\n}}'),
        ('{\n  "s": {\n    // none\n  }\n}', '{\n  "s": {\n    // none\n    "n": 1\n  }\n}'),
    ],
)
def test_missing_objects_are_added(text: str, expected: str) -> None:
    assert with_value(text, ("s", "n"), 1, "mcp.json") == expected


@pytest.mark.parametrize("text", ["[1]", '{"s": 5}', '{"s": {"a": 1, "a": 2}}', "{", "a: 1"])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        with_value(text, ("s", "n"), 1, "mcp.json")


@given(st.dictionaries(KEYS, VALUES, max_size=3), KEYS, KEYS, VALUES, st.sampled_from([None, 1, 4]))
def test_the_edited_document_has_the_value_and_all_others(
    document: dict[str, Any], outer: str, key: str, value: Any, indent: int | None
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    if not isinstance(document.get(outer, {}), dict):
        return
    edited = with_value(text, (outer, key), value, "mcp.json")

    assert parse(edited.encode(), "mcp.json").value == {
        **document,
        outer: {**document.get(outer, {}), key: value},
    }
