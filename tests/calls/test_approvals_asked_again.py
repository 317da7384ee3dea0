"""What changed since a call was asked about is shown, and asked about again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.approvals import AlreadySettledError, ApprovalRenewedError
from covalt_git.workspaces.uploads import Upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.calls.conftest import World


def edit(world: World) -> None:
    (world.workspace / "notes.txt").write_text("mine")


def call(world: World) -> None:
    world.call("add")


def approved_call(world: World) -> None:
    world.approve(world.ask())


def upload(world: World) -> None:
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        writer.upload([Upload("data.csv", b"a,b\n")])


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(edit, "notes.txt", id="a-person-edited"),
        pytest.param(call, "runs.txt", id="another-call"),
        pytest.param(approved_call, "runs.txt", id="another-approved-call"),
        pytest.param(upload, "data.csv", id="an-upload"),
    ],
)
def test_files_that_changed_are_shown_and_asked_about_again(
    world: World, change: Callable[[World], None], path: str
) -> None:
    first = world.ask(text="hello")
    change(world)
    runs = world.runs()

    with pytest.raises(ApprovalRenewedError) as caught:
        world.approve(first)

    again = caught.value.outcome.approval
    old = world.approval(first)
    assert caught.value.message == (
        "the workspace has changed since this was asked, so nothing ran; it is asked again"
    )
    assert again is not None
    assert caught.value.hint == f"covalt-git approval approve {again.execution_id}"
    assert [one.path for one in caught.value.outcome.changes] == [path]
    assert (old.state, old.superseded_by) == ("superseded", again.execution_id)
    assert (again.state, again.call_id, again.args) == ("pending", old.call_id, old.args)
    assert world.runs() == runs


def test_only_the_new_approval_lets_the_call_run(world: World) -> None:
    first = world.ask(text="hello")
    edit(world)
    with pytest.raises(ApprovalRenewedError) as caught:
        world.approve(first)
    again = caught.value.outcome.approval
    assert again is not None

    for settle in (world.approve, world.deny):
        with pytest.raises(AlreadySettledError) as settled:
            settle(first)
        assert settled.value.message == "this approval is superseded"
        assert settled.value.hint == f"covalt-git approval approve {again.execution_id}"
    outcome = world.approve(again.execution_id)

    assert outcome.call.status == "success"
    assert world.files()["runs.txt"] == "hello\n"
    assert [one.state for one in world.approvals()] == ["superseded", "approved"]


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        pytest.param("demo/tools/plain.py", "added", "deleted", id="its-code"),
        pytest.param("demo/tools/quiet.py", "tool(", "tool( ", id="other-code-of-the-toolset"),
        pytest.param(
            "demo/toolset.yaml", "{id: ask,", "{id: ask, description: Safe,", id="its-declaration"
        ),
        pytest.param("demo/artifacts/page.html", "first", "second", id="a-page"),
    ],
)
def test_toolset_that_changed_is_asked_about_again(
    world: World, path: str, old: str, new: str
) -> None:
    first = world.ask()
    file = world.root / "toolsets" / path
    file.write_text(file.read_text().replace(old, new))

    with pytest.raises(ApprovalRenewedError) as caught:
        world.approve(first)

    assert caught.value.message.startswith("the toolset 'demo' has changed since this was asked")
    again = caught.value.outcome.approval
    assert again is not None
    assert world.log() == []
    world.approve(again.execution_id)
    record = world.log()[-1].record.call
    assert record is not None
    assert record.toolset.digest == world.project().catalog.find("demo:ask").toolset.digest


def test_override_of_the_project_is_part_of_what_was_asked(world: World) -> None:
    first = world.ask()
    world.write("state/demo.yaml", "overrides: {ask: {description_override: Safe}}\n")

    with pytest.raises(ApprovalRenewedError):
        world.approve(first)


def test_toolset_that_was_put_back_is_what_was_asked_about(world: World) -> None:
    first = world.ask()
    file = world.root / "toolsets" / "demo" / "tools" / "plain.py"
    text = file.read_text()
    file.write_text(text.replace("added", "deleted"))
    file.write_text(text)

    assert world.approve(first).call.status == "success"


def test_toolset_edited_while_an_approval_waits_for_the_chat_is_asked_about_again(
    world: World,
) -> None:
    first = world.ask()
    project = world.project()
    with project.chats.open("c1") as chat:
        with project.engine().writing(chat):
            waits = world.start("approval", "approve", first)
            assert waits.stderr is not None
            assert waits.stderr.readline().startswith("waiting for the chat")
            code = world.root / "toolsets" / "demo" / "tools" / "plain.py"
            code.write_text(code.read_text().replace("added", "deleted"))
        _, said = waits.communicate()

    assert waits.returncode == 1
    assert said.startswith("the toolset 'demo' has changed since this was asked")
    assert world.log() == []


def test_call_that_changed_no_file_does_not_ask_again(world: World) -> None:
    first, other = world.ask(text="one"), world.ask(text="two")
    world.deny(other)
    world.call("judge", number=2)

    assert world.approve(first).call.status == "success"


def test_calls_of_one_message_that_changed_no_file_do_not_ask_again(world: World) -> None:
    asked = world.call_for("m1", "ask").approval
    world.call_for("m1", "judge", number=2)

    assert asked is not None
    assert world.approve(asked.execution_id).call.status == "success"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda world: world.call_for("m1", "add"), id="the-same-message"),
        pytest.param(lambda world: world.call_for("m2", "add"), id="another-message"),
        pytest.param(lambda world: world.call("add"), id="a-call-without-a-message"),
        pytest.param(edit, id="a-person"),
    ],
)
def test_whoever_changed_a_file_the_call_is_asked_about_once_more(
    world: World, change: Callable[[World], object]
) -> None:
    outcome = world.call_for("m1", "ask")
    change(world)

    assert outcome.approval is not None
    with pytest.raises(ApprovalRenewedError) as caught:
        world.approve(outcome.approval.execution_id)
    assert len(caught.value.outcome.changes) == 1
    assert world.approve(caught.value.execution_id).call.status == "success"


def test_asked_again_on_the_command_line_shows_what_changed(world: World) -> None:
    first = world.ask()
    edit(world)

    said = world.cli("approval", "approve", first)

    (again,) = [one.execution_id for one in world.approvals() if one.state == "pending"]
    assert said.returncode == 1
    assert said.stdout == "  + notes.txt\n"
    assert said.stderr.endswith(f"  hint: covalt-git approval approve {again}\n")
