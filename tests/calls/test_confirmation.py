"""Who is asked before a call, from the call's side: by whom, and who may lower it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.engine import Request
from covalt_git.toolsets.new_project import CONFIG_TEXT

if TYPE_CHECKING:
    from tests.calls.conftest import World

PLAIN = "from tools.plain import add as plain\nfrom covalt_toolset import get_context, tool\n"
BODY = "    return plain(get_context().workspace, text)\n"


def test_tool_that_asks_waits_and_changes_no_branch(world: World) -> None:
    outcome = world.call("ask", text="hello")

    (approval,) = world.approvals()
    (waiting,) = world.waiting()
    assert outcome.approval == approval
    assert outcome.call.status == waiting.status == "pending"
    assert waiting.execution_id == approval.execution_id
    assert (approval.state, approval.reasons) == ("pending", ("the toolset asks",))
    assert world.log() == []
    assert not (world.workspace / "runs.txt").exists()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            f"{PLAIN}@tool(requires_confirmation=True)\ndef add(text: str = 'run'):\n{BODY}",
            id="plainly",
        ),
        pytest.param(
            f"{PLAIN}decorate = tool(requires_confirmation=True)\n"
            f"def add(text: str = 'run'):\n{BODY}"
            "add = decorate(add)\n",
            id="applied-later",
        ),
        pytest.param(
            f"{PLAIN}def add(text: str = 'run'):\n{BODY}"
            "globals()['add'] = tool(**{'requires_confirmation': True})(add)\n",
            id="out-of-sight",
        ),
    ],
)
def test_decorator_that_asks_is_obeyed_however_it_is_written(world: World, source: str) -> None:
    world.write("demo/tools/quiet.py", source)
    outcome = world.call("quiet", text="hello")

    assert outcome.approval is not None
    assert outcome.approval.reasons == ("its decorator asks",)
    assert world.log() == []
    assert not (world.workspace / "runs.txt").exists()

    done = world.approve(outcome.approval.execution_id)

    assert done.call.status == "success"
    assert done.call.id == outcome.call.id
    assert world.files() == {"runs.txt": "hello\n"}


@pytest.mark.parametrize("tool", ["ask", "quiet"])
@pytest.mark.parametrize("by", ["state", "rule"])
def test_project_may_say_that_nobody_is_asked(world: World, tool: str, by: str) -> None:
    if by == "state":
        world.write("state/demo.yaml", f"overrides: {{{tool}: {{requires_confirmation: false}}}}\n")
    else:
        world.configure(f"approvals: [{{pattern: demo.{tool}, require: false}}]")

    assert world.call(tool).call.status == "success"
    assert world.runs() == 1


@pytest.mark.parametrize("by", ["state", "rule"])
def test_project_may_ask_where_the_toolset_does_not(world: World, by: str) -> None:
    if by == "state":
        world.write("state/demo.yaml", "overrides: {add: {requires_confirmation: true}}\n")
        reason = "this project's state asks"
    else:
        world.configure("approvals: [{pattern: demo.add, when: {args: {text: 'rm *'}}}]")
        reason = "rule demo.add asks"

    outcome = world.call("add", text="rm everything")

    assert outcome.approval is not None
    assert outcome.approval.reasons == (reason,)
    assert world.log() == []


def test_rule_for_some_arguments_leaves_the_others_alone(world: World) -> None:
    world.configure("approvals: [{pattern: demo.*, when: {args: {text: safe}}, require: false}]")

    assert world.call("quiet", text="safe").call.status == "success"
    assert world.call("quiet", text="other").call.status == "pending"
    assert world.call("ask", text="safe").call.status == "success"
    assert world.call("ask", text="other").call.status == "pending"


def test_new_project_asks_before_env_files(world: World) -> None:
    (world.root / "covalt.yaml").write_text(CONFIG_TEXT)
    project = world.project()

    with project.chats.open("c1") as chat:
        request = Request("app-builder:write_file", {"path": "prod.env", "content": ""})
        outcome = project.engine().call(chat, request)

    assert outcome.approval is not None
    assert outcome.approval.reasons == ("rule ** asks",)
