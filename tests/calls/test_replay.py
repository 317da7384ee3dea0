"""Replaying a call on the files that it had: what differs is reported, and approval is required again."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from covalt_git.calls.approvals import MayNotApproveError
from covalt_git.calls.replay import (
    Keep,
    NotReplayableError,
    Replay,
    ReplayNeedsApprovalError,
    replay,
)
from covalt_git.errors import CovaltError
from covalt_git.json_values.difference import Difference
from covalt_git.runtime import sandbox_levels
from covalt_git.workspaces.writing import writing
from tests.calls.conftest import World
from tests.examples import rest
from tests.settling import until
from tests.workspaces.stores import layout_of, upload

CODE = "demo/tools/plain.py"
RETURN = 'return {"text": text}'
TWICE = 'return {"text": text, "twice": text * 2}'
ENDLESS = """

def add(workspace: Path, text: str = "run", times: int = 1) -> dict:
    (workspace / "runs.txt").write_text("run\\n")
    time.sleep(600)
"""


def again(
    world: World,
    call_id: str,
    *,
    role: str | None = None,
    approve: bool = False,
    approved: str | None = None,
    keep: Keep = "different",
) -> Replay:
    project = world.project(role)
    with project.chats.open("c1") as chat:
        return replay(
            project.engine(), chat, call_id, approve=approve, approved=approved, keep=keep
        )


def branches(world: World) -> list[str]:
    return world.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_a_replay_with_the_same_result_changes_nothing_in_the_chat(world: World) -> None:
    world.call("add", text="first")
    made = world.call("add", text="second").call
    world.call("add", text="third")
    (world.workspace / "runs.txt").write_text("not committed")
    refs, files = world.refs(), layout_of(world.workspace)

    done = again(world, made.id)

    assert done.same
    assert (done.differences, done.changes, done.printed_the_same) == ((), (), True)
    assert (done.tool_id, done.call_id) == ("demo:add", made.id)
    assert (done.branch, done.manifest_id) == (None, None)
    assert done.then == done.now
    assert done.now.sandbox == sandbox_levels.level()
    assert (world.refs(), layout_of(world.workspace)) == (refs, files)
    assert not list(world.workspace.parent.glob("beside-*"))
    assert again(world, str(made.post_manifest_id)[:12]).call_id == made.id


def test_differences_are_reported_and_kept_on_a_branch(world: World) -> None:
    world.call("add", text="first")
    made = world.call("add", text="second").call
    main = world.log()
    world.edit(CODE, RETURN, TWICE)
    world.edit(CODE, '"a") as file', '"w") as file')

    done = again(world, made.id)

    assert not done.same
    assert done.differences == (Difference("$.result.twice", None, '"secondsecond"'),)
    assert [(one.path, one.kind) for one in done.changes] == [("runs.txt", "modified")]
    assert done.then.toolset.digest != done.now.toolset.digest
    assert done.branch == "replay-1"
    assert world.files("replay-1") == {"runs.txt": "second\n"}
    replayed, before = world.log("replay-1")[::-1][:2]
    assert (replayed.id, before.id) == (done.manifest_id, made.pre_manifest_id)
    assert world.record("replay-1").args == {"text": "second"}
    assert world.log() == main
    assert world.git("fsck", "--strict") == ""


# Which calls may be replayed


@pytest.mark.parametrize("tool", ["ask", rest("quiet")])
def test_a_call_that_required_approval_requires_it_again(world: World, tool: str) -> None:
    made = world.approve(world.ask(tool, text="a")).call
    before = branches(world)

    with pytest.raises(ReplayNeedsApprovalError):
        again(world, made.id)
    assert branches(world) == before

    assert again(world, made.id, approve=True, keep="always").same
    assert [one.state for one in world.approvals()][-1] == "approved"
    assert world.waiting() == []
    assert world.record("replay-1").execution_id == world.approvals()[-1].execution_id
    assert world.runs() == 1


def other_call(world: World) -> None:
    world.approve(world.ask("ask", text="b"))


def other_code(world: World) -> None:
    world.edit(CODE, RETURN, TWICE)


@pytest.mark.parametrize("change", [rest(other_call), other_code])
def test_the_user_approves_only_the_call_and_the_code_that_they_were_asked_about(
    world: World, change: Callable[[World], None]
) -> None:
    world.approve(world.ask("ask", text="a"))
    with pytest.raises(ReplayNeedsApprovalError) as first:
        again(world, "HEAD")
    change(world)
    before = branches(world)

    with pytest.raises(ReplayNeedsApprovalError) as second:
        again(world, "HEAD", approve=True, approved=first.value.digest)

    assert branches(world) == before
    assert again(world, "HEAD", approve=True, approved=second.value.digest).tool_id == "demo:ask"


def test_a_role_that_may_not_approve_cannot_replay_a_call_that_requires_approval(
    world: World,
) -> None:
    world.configure("roles: {dev: {allow: ['demo.**']}, boss: {admin: true}}\n")
    made = world.approve(world.ask("ask", role="dev"), role="boss").call

    with pytest.raises(MayNotApproveError):
        again(world, made.id, role="dev", approve=True)
    assert again(world, made.id, role="boss", approve=True).same
    assert branches(world) == ["main"]


@pytest.mark.parametrize(
    ("named", "error"),
    [("upload", NotReplayableError), ("denied", NotReplayableError), ("nothing", CovaltError)],
)
def test_only_calls_that_ran_are_replayed(world: World, named: str, error: Any) -> None:
    with world.project().chats.open("c1") as chat:
        upload(chat, "a.txt", b"1")
    denied = world.deny(world.ask("ask")).call
    ids = {"upload": str(denied.pre_manifest_id), "denied": denied.id}

    with pytest.raises(error):
        again(world, ids.get(named, named))


def test_a_replay_whose_process_died_is_an_interrupted_call_on_its_branch(world: World) -> None:
    made = world.approve(world.ask("ask")).call
    code = (world.root / "toolsets" / CODE).read_text()
    world.write(CODE, code.replace("def add(", "def added(") + ENDLESS)
    process = world.start("chat", "replay", "c1", made.id, "--no-terminal", "a test")
    until(lambda: any(world.workspace.parent.glob("beside-*/workspace/runs.txt")))
    files = layout_of(world.workspace)

    os.kill(process.pid, signal.SIGKILL)
    process.end()
    with world.project().chats.open("c1") as chat, writing(chat):
        pass

    assert world.codes("replay-1")[-1] == "interrupted"
    assert world.codes() == ["success"]
    assert layout_of(world.workspace) == files
    world.git("fsck", "--strict", "--no-dangling")
    world.write(CODE, code)
    assert again(world, made.id, approve=True).same
    assert not list(world.workspace.parent.glob("beside-*"))
