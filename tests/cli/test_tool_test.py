"""``covalt-git tool test`` as a person types it, and as a program reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import command

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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "toolsets/demo").mkdir(parents=True)
    (folder / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (folder / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    tools = "def add(a: int, b: int) -> int:\n    return a + b\n"
    (folder / "toolsets/demo/tools.py").write_text(tools, encoding="utf-8")
    return folder


def covalt(root: Path, *args: str) -> tuple[int, str, str]:
    temporary = root.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    done = command.run("-C", str(root), *args, env=os.environ | {"TMPDIR": str(temporary)})
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_a_table_tells_what_came_of_each_example(root: Path) -> None:
    code, out, err = covalt(root, "tool", "test")

    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, err) == (1, "")
    assert lines[0] == "TOOL EXAMPLE RESULT MS"
    assert lines[1].startswith("demo:add 1 ok ")
    assert lines[2].startswith("demo:add 2 failed ")
    assert lines[3:] == [
        "the result is not the expected one",
        "$: expected 4, was 3",
        "demo:web 1 skipped 0",
        "the toolset 'demo' may not reach https://example.com",
        "hint: covalt-git grant add demo network example.com",
        "3 examples: 1 ok, 1 failed, 1 skipped",
        "without examples: demo:bare",
    ]


def test_nothing_of_it_is_left_behind(root: Path) -> None:
    covalt(root, "tool", "test")

    assert json.loads(covalt(root, "chat", "list", "--json")[1])["chats"] == []
    assert {one.name for one in (root / "data").iterdir() if one.is_dir()} <= {"chats", "cache"}
    assert list((root.parent / "tmp").iterdir()) == []


def test_kept_chats_are_the_projects_and_tell_the_call(root: Path) -> None:
    told = json.loads(covalt(root, "tool", "test", "demo:add", "--keep", "--json")[1])

    kept = [one["chat_id"] for one in told["examples"]]
    assert kept == ["c1", "c2"]
    code, out, _ = covalt(root, "chat", "log", "c2")
    assert code == 0
    assert "demo:add" in out


def test_json_has_everything_of_it(root: Path) -> None:
    code, out, _ = covalt(root, "tool", "test", "--json")

    told = json.loads(out)
    second = told["examples"][1]
    assert code == 1
    assert (told["ok"], told["failed"], told["skipped"]) == (1, 1, 1)
    assert told["without_examples"] == ["demo:bare"]
    assert isinstance(second.pop("took_ms"), float)
    assert second == {
        "tool_id": "demo:add",
        "number": 2,
        "description": "",
        "verdict": "failed",
        "reason": "the result is not the expected one",
        "hint": "",
        "differences": [{"path": "$", "then": "4", "now": "3"}],
        "result": 3,
        "chat_id": None,
        "cancelled": False,
    }


@pytest.mark.parametrize(
    ("patterns", "tested"),
    [
        pytest.param(["demo"], 3, id="toolset"),
        pytest.param(["demo:*"], 3, id="pattern"),
        pytest.param(["demo:a*", "demo:add"], 2, id="twice-the-same"),
        pytest.param(["**"], 3, id="everything"),
        pytest.param(["demo:web"], 1, id="one"),
    ],
)
def test_patterns_choose_tools(root: Path, patterns: list[str], tested: int) -> None:
    told = json.loads(covalt(root, "tool", "test", *patterns, "--json")[1])

    assert len(told["examples"]) == tested


def test_a_name_that_is_none_is_a_wrong_call(root: Path) -> None:
    assert covalt(root, "tool", "test", "demo:ad") == (
        2,
        "",
        "'demo:ad' names no tool; did you mean 'demo:add'?\n",
    )


def test_without_a_failure_it_exits_with_0(root: Path) -> None:
    assert covalt(root, "tool", "test", "demo:web")[0] == 0
    assert covalt(root, "tool", "test", "demo:bare")[0:2] == (
        0,
        "0 examples: none\nwithout examples: demo:bare\n",
    )
