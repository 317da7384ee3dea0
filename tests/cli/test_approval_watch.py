"""Pending calls are decided at a terminal with one key each."""

from pathlib import Path

import pytest

from tests.api_client import configure, make_project
from tests.command import Terminal
from tests.operations_client import Operations


@pytest.fixture
def operations(tmp_path: Path) -> Operations:
    root = make_project(tmp_path / "project")
    configure(root, 'rules:\n  - {pattern: "app-builder.write_file", effect: ask}\n')
    operations = Operations(root)
    operations("create_chat", chat_id="c1")
    return operations


@pytest.mark.rest
@pytest.mark.slow
def test_one_key_decides_about_each_pending_call(operations: Operations) -> None:
    for path in ("a.txt", "b.txt", "c.txt"):
        args = {"path": path, "content": "x"}
        operations("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args)

    user = Terminal("approval", "watch", "--once", cwd=operations.root)
    user.until('"path":"a.txt"')
    user.presses("q: quit", "s")
    user.until('"path":"b.txt"')
    user.presses("q: quit", "d")
    user.answers("reason for the caller (may be empty):", "not today")
    user.until("denied it: not today")
    user.until('"path":"c.txt"')
    user.presses("q: quit", "q")
    user.end()

    states = [one["state"] for one in operations("list_approvals", state="all")["approvals"]]
    assert states == ["pending", "denied", "pending"]


@pytest.mark.slow
def test_a_key_that_was_typed_before_a_call_appeared_does_not_decide_about_it(
    operations: Operations,
) -> None:
    args = {"path": "a.txt", "content": "x"}
    user = Terminal("approval", "watch", cwd=operations.root)
    user.presses("waiting for calls", "aaa")
    operations("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args)
    user.presses('"path":"a.txt"', "a")
    user.presses("q: quit", "q")
    user.end()

    assert [one["state"] for one in operations("list_approvals")["approvals"]] == ["pending"]


@pytest.mark.slow
def test_a_line_that_was_typed_before_the_question_does_not_approve_a_call(
    operations: Operations,
) -> None:
    args = {"path": "a.txt", "content": "x"}
    call = operations("call_tool", chat_id="c1", tool_id="app-builder:write_file", args=args)
    user = Terminal("approval", "approve", call["execution_id"], cwd=operations.root)
    user.types("y\n")
    user.answers("approve it?", "n")
    user.until("it is still pending")
    user.end()
