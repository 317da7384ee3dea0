"""Texts of a call: each of them, run as it is, makes exactly this call."""

import ast
import json
import shlex
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_server.render.call_texts import MOST_BYTES, call_texts
from tests.examples import examples

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["'", "$(id)", "`x`", "!!"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(200))
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_each_text_has_exactly_the_call(args: dict[str, Any]) -> None:
    texts = {text.id: text.text for text in call_texts("a:b", "c1", args, "http://127.0.0.1:1/")}

    program, verb, chat, tool, given_args = shlex.split(texts["cli"])
    assert (program, verb, chat, tool) == ("covalt-git", "call", "c1", "a:b")
    assert json.loads(given_args) == json.loads(texts["json"]) == args
    words = [word for word in shlex.split(texts["curl"]) if word != "\n"]
    assert words[-1] == "http://127.0.0.1:1/api/call_tool"
    body = json.loads(words[words.index("-d") + 1])
    assert body == {"chat_id": "c1", "tool_id": "a:b", "args": args}
    # Only the variable of the token is expanded.
    assert texts["curl"].startswith('curl -sS -H "Authorization: Bearer $TOKEN" ')
    assigned = next(
        node for node in ast.walk(ast.parse(texts["python"])) if isinstance(node, ast.Assign)
    )
    assert ast.literal_eval(assigned.value) == args


def test_a_call_that_a_shell_refuses_has_no_command() -> None:
    args = {"content": "x" * MOST_BYTES}

    assert [text.id for text in call_texts("a:b", "c1", args, "http://h/")] == ["json", "python"]
    assert [text.id for text in call_texts("a:b", "", {}, "http://h/")] == ["json"]
