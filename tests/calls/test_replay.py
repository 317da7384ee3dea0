"""Replaying a call: on its own files, beside everything else, and with every question asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.approvals import MayNotApproveError
from covalt_git.calls.replay import AsksFirstError, NotReplayableError, Replay, replay
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values.difference import Difference
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.runtime import sandbox
from covalt_git.workspaces.writing import writing
from tests.calls.conftest import MANIFEST, PLAIN
from tests.workspaces.stores import git, layout_of, put, upload

if TYPE_CHECKING:
    from covalt_git.calls.replay import Keep
    from tests.calls.conftest import World

NOW_TWICE = PLAIN.replace('return {"text": text}', 'return {"text": text, "twice": text * 2}')
WHERE = PLAIN.replace(
    'return {"text": text}',
    'return {"text": text, "at": [f"in {workspace}/runs.txt"], str(workspace): times}',
)


def again(
    world: World,
    call_id: str,
    *,
    role: str | None = None,
    approve: bool = False,
    keep: Keep = "different",
) -> Replay:
    project = world.project(role)
    with project.chats.open("c1") as chat:
        return replay(project.engine(), chat, call_id, approve=approve, keep=keep)


def branches(world: World) -> list[str]:
    return world.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_a_call_that_does_the_same_is_the_same_and_leaves_no_branch(world: World) -> None:
    world.call("add", text="first")
    made = world.call("add", text="second").call
    world.call("add", text="third")
    refs, files = world.refs(), layout_of(world.workspace)

    done = again(world, made.id)

    assert done.same
    assert (done.differences, done.changes, done.printed_the_same) == ((), (), True)
    assert (done.tool_id, done.call_id) == ("demo:add", made.id)
    assert (done.branch, done.manifest_id) == (None, None)
    assert done.then == done.now
    assert done.now.sandbox == sandbox.level()
    assert (world.refs(), layout_of(world.workspace)) == (refs, files)
    assert not list(world.workspace.parent.glob("replay-*"))


def test_it_is_named_by_its_manifest_too(world: World) -> None:
    made = world.call("add").call
    world.call("add")

    assert again(world, str(made.post_manifest_id)[:12]).call_id == made.id


def test_the_first_call_of_a_chat_runs_on_nothing_again(world: World) -> None:
    made = world.call("add").call
    assert made.pre_manifest_id is None

    done = again(world, made.id, keep="always")

    assert done.same
    assert world.files("replay-1") == {"runs.txt": "run\n"}
    assert len(world.log("replay-1")) == 1


def test_edits_that_nobody_saved_and_the_branch_stay_as_they_are(world: World) -> None:
    made = world.call("add").call
    (world.workspace / "runs.txt").write_text("not saved")
    refs = world.refs()
    again(world, made.id)

    assert (world.workspace / "runs.txt").read_text() == "not saved"
    assert world.refs() == refs


def test_what_differs_is_told_and_kept_on_a_branch(world: World) -> None:
    world.call("add", text="first")
    made = world.call("add", text="second").call
    main = world.log()
    world.write("demo/tools/plain.py", NOW_TWICE.replace('"a") as file', '"w") as file'))

    done = again(world, made.id)

    assert not done.same
    assert done.differences == (Difference("$.result.twice", None, '"secondsecond"'),)
    assert [(one.path, one.kind) for one in done.changes] == [("runs.txt", "modified")]
    assert done.then.toolset.digest != done.now.toolset.digest
    assert done.branch == "replay-1"
    assert world.files("replay-1") == {"runs.txt": "second\n"}
    replayed, before = world.log("replay-1")[::-1][:2]
    assert replayed.id == done.manifest_id
    assert replayed.record.call is not None
    assert replayed.record.call.args == {"text": "second"}
    assert before.id == made.pre_manifest_id
    assert world.log() == main
    assert world.git("fsck", "--strict") == ""


@pytest.mark.parametrize(
    ("keep", "changed", "kept"),
    [("always", False, True), ("never", True, False), ("different", True, True)],
)
def test_which_replays_a_branch_keeps(
    world: World, keep: Keep, *, changed: bool, kept: bool
) -> None:
    made = world.call("add").call
    if changed:
        world.write("demo/tools/plain.py", NOW_TWICE)

    done = again(world, made.id, keep=keep)

    assert done.same is not changed
    assert branches(world) == (["main", "replay-1"] if kept else ["main"])
    assert (done.branch, done.manifest_id is not None) == ("replay-1" if kept else None, kept)


def test_each_replay_that_is_kept_has_a_branch_of_its_own(world: World) -> None:
    made = world.call("add").call
    world.branch("replay-2")
    world.checkout("main")
    for expected in ("replay-1", "replay-3"):
        assert again(world, made.id, keep="always").branch == expected


def test_a_call_that_failed_fails_the_same_way(world: World) -> None:
    made = world.call("fail").call
    assert made.status == "error"

    done = again(world, made.id)

    assert done.same


def test_another_error_is_a_difference(world: World) -> None:
    made = world.call("fail").call
    world.write("demo/tools/plain.py", PLAIN.replace('"half way', '"all the way'))

    (difference,) = again(world, made.id, keep="never").differences

    assert difference.path == "$.error.message"
    assert "half way" in str(difference.then)
    assert "all the way" in str(difference.now)


def test_where_the_folder_is_makes_no_difference(world: World) -> None:
    world.write("demo/tools/plain.py", WHERE)
    made = world.call("add").call
    assert str(world.workspace) in str(made.result)

    assert again(world, made.id).same


def test_a_tool_that_deletes_its_folder_deletes_its_own(world: World) -> None:
    with world.project().chats.open("c1") as chat:
        upload(chat, "a.txt", b"1")
    made = world.call("vanish", how="link", outside=str(world.root)).call
    files = layout_of(world.workspace)

    done = again(world, made.id)

    assert done.same
    assert layout_of(world.workspace) == files
    assert (world.root / "covalt.yaml").is_file()


def test_a_part_of_a_long_list_is_named_by_its_place(world: World) -> None:
    show = 'return {"title": [title, {"n": [1, 2.0, True, None]}]}'
    world.write("demo/tools/plain.py", PLAIN.replace('return {"title": title}', show))
    made = world.call("show", title="x").call
    show = show.replace("2.0, True, None", "2, 1").replace("title, {", "'" + "y" * 600 + "', {")
    world.write("demo/tools/plain.py", PLAIN.replace('return {"title": title}', show))

    done = again(world, made.id)

    assert done.differences[1:] == (
        Difference("$.result.title[1].n[2]", "true", "1"),
        Difference("$.result.title[1].n[3]", "null", None),
    )
    assert done.differences[0].now == '"' + "y" * 498 + "…"


def test_what_no_manifest_holds_is_told_as_missing(world: World) -> None:
    put(world.workspace, {"outside": ("link", b"/etc"), "a": ("file", b"1")})
    made = world.call("add").call

    (missing,) = again(world, made.id).missing

    assert missing.path == "outside"


# Who may


def test_a_call_that_asks_is_asked_again(world: World) -> None:
    made = world.approve(world.ask("ask", text="a")).call
    refs = world.refs()

    with pytest.raises(AsksFirstError) as caught:
        again(world, made.id)
    assert caught.value.message == "demo:ask waits for a person: the toolset asks"
    assert caught.value.hint == f"approve it: covalt-git chat replay c1 {made.id} --yes"
    assert world.refs() == refs

    assert again(world, made.id, approve=True, keep="always").same
    assert [one.state for one in world.approvals()] == ["approved", "approved"]
    assert world.waiting() == []
    call = world.log("replay-1")[-1].record.call
    assert call is not None
    assert call.execution_id == world.approvals()[-1].execution_id


def test_a_decorator_that_asks_is_asked_again(world: World) -> None:
    made = world.approve(world.ask("quiet", text="a")).call
    branches_before = branches(world)

    with pytest.raises(AsksFirstError, match="its decorator asks"):
        again(world, made.id)
    assert [one.state for one in world.approvals()] == ["approved", "expired"]
    assert (world.waiting(), branches(world)) == ([], branches_before)

    assert again(world, made.id, approve=True).same
    assert world.runs() == 1


def test_who_may_not_approve_cannot_replay_a_call_that_asks(world: World) -> None:
    world.configure("roles: {dev: {allow: ['demo.**']}, boss: {admin: true}}\n")
    made = world.approve(world.ask("ask", role="dev"), role="boss").call

    with pytest.raises(MayNotApproveError):
        again(world, made.id, role="dev", approve=True)
    assert again(world, made.id, role="boss", approve=True).same
    assert branches(world) == ["main"]


def test_a_role_that_cannot_see_the_tool_sees_no_call(world: World) -> None:
    world.configure("roles: {dev: {allow: ['demo.ask']}, boss: {admin: true}}\n")
    made = world.call("add", role="boss").call

    with pytest.raises(UnknownNameError) as caught:
        again(world, made.id, role="dev")

    assert caught.value.message == f"no call {made.id!r}"
    assert "demo" not in str(caught.value)


def test_a_tool_that_is_off_is_not_replayed(world: World) -> None:
    made = world.call("add").call
    world.write(
        "demo/toolset.yaml",
        MANIFEST.replace("tools.plain:add}", "tools.plain:add, enabled: false}", 1),
    )

    with pytest.raises(DisabledToolError):
        again(world, made.id)


def test_arguments_that_no_longer_fit_are_refused_and_nothing_is_left(world: World) -> None:
    made = world.call("judge", number=2).call
    world.write("demo/tools/plain.py", PLAIN.replace("if value % 2:", "if value:"))
    refs = world.refs()

    with pytest.raises(InvalidArgumentsError):
        again(world, made.id)
    assert world.refs() == refs


def test_what_is_no_call_or_never_ran_is_not_replayed(world: World) -> None:
    with world.project().chats.open("c1") as chat:
        upload(chat, "a.txt", b"1")
    denied = world.deny(world.ask("ask")).call

    with pytest.raises(NotReplayableError, match=r"is no call: uploaded a\.txt"):
        again(world, str(denied.pre_manifest_id))
    with pytest.raises(NotReplayableError, match="demo:ask never ran: denied"):
        again(world, denied.id)
    with pytest.raises(CovaltError, match="no manifest 'nothing'"):
        again(world, "nothing")


# When something dies


def test_a_replay_whose_process_died_is_an_interrupted_call_on_its_branch(world: World) -> None:
    made = world.approve(world.ask("ask")).call
    world.write("demo/tools/plain.py", PLAIN.replace("def add(", "def added(") + ENDLESS)
    process = world.start("chat", "replay", "c1", made.id, "--yes")
    assert world.until(lambda: any(world.workspace.parent.glob("replay-*/workspace/runs.txt")))
    files = layout_of(world.workspace)

    process.kill()
    process.communicate()
    with world.project().chats.open("c1") as chat, writing(chat):
        pass

    assert world.codes("replay-1")[-1] == "interrupted"
    assert world.codes() == ["success"]
    assert layout_of(world.workspace) == files
    assert git(world.store, "fsck", "--strict", "--no-dangling") == ""
    world.write("demo/tools/plain.py", PLAIN)
    assert again(world, made.id, approve=True).same
    assert not list(world.workspace.parent.glob("replay-*"))


ENDLESS = """

def add(workspace: Path, text: str = "run", times: int = 1) -> dict:
    (workspace / "runs.txt").write_text("run\\n")
    time.sleep(600)
"""
