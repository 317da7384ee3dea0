"""Examples of tools as ``tool test`` runs them: which are chosen, and what they leave."""

from typing import Any

import pytest

from tests.operations_client import Operations

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - id: add
    entrypoint: tools:add
    examples:
      - {args: {a: 1, b: 2}, expected: 3}
      - {args: {a: 1, b: 2}, expected: 4}
  - {id: web, http: {url: "https://example.com/"}, examples: [{}]}
  - {id: bare, entrypoint: tools:add}
"""
DIFFERENCE = {"path": "$", "then": "4", "now": "3"}


@pytest.fixture(scope="module")
def operate(tmp_path_factory: pytest.TempPathFactory) -> Operations:
    root = tmp_path_factory.mktemp("examples")
    (root / "toolsets/demo").mkdir(parents=True)
    (root / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (root / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    tools = "def add(a: int, b: int) -> int:\n    return a + b\n"
    (root / "toolsets/demo/tools.py").write_text(tools, encoding="utf-8")
    return Operations(root)


@pytest.fixture(scope="module")
def tested(operate: Operations) -> Any:
    return operate("test_tools")


def test_each_example_has_its_verdict(tested: Any) -> None:
    assert (tested["ok"], tested["failed"], tested["skipped"]) == (1, 1, 1)
    assert tested["without_examples"] == ["demo:bare"]
    failed = tested["examples"][1]
    assert (failed["tool_id"], failed["number"], failed["verdict"]) == ("demo:add", 2, "failed")
    assert (failed["result"], failed["differences"]) == (3, [DIFFERENCE])


def test_its_chats_and_files_are_deleted(operate: Operations, tested: Any) -> None:
    assert {one["chat_id"] for one in tested["examples"]} == {None}
    assert operate("list_chats")["chats"] == []
    folders = {one.name for one in (operate.root / "data").iterdir() if one.is_dir()}
    assert folders <= {"chats", "cache"}


@pytest.mark.parametrize(
    ("patterns", "tested"),
    [
        (["demo:web"], ["demo:web"]),
        (["demo:b*", "demo:bare"], []),
        (["demo:w*", "demo:web"], ["demo:web"]),
    ],
)
def test_patterns_choose_tools(operate: Operations, patterns: list[str], tested: list[str]) -> None:
    found = operate("test_tools", patterns=patterns)

    assert [one["tool_id"] for one in found["examples"]] == tested
