"""An approval for files or a toolset that changed since is replaced by a new one with the difference."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from covalt_git.calls.approvals import AlreadyDecidedError, ApprovalRenewedError
from covalt_git.models.calls import Approval
from tests.calls.conftest import World


def renewed(world: World, execution_id: str) -> tuple[Approval, list[str]]:
    """Approve a call; return the approval that replaces this one, and the paths that changed."""
    with pytest.raises(ApprovalRenewedError) as caught:
        world.approve(execution_id)
    approval = caught.value.outcome.approval
    assert approval is not None
    assert caught.value.hint == f"covalt-git approval show {approval.execution_id}"
    return approval, [one.path for one in caught.value.outcome.changes]


def edit(world: World) -> None:
    (world.workspace / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (edit, "notes.txt"),
        (lambda world: world.call("add", message_id="m1"), "runs.txt"),
        (lambda world: world.approve(world.ask()), "runs.txt"),
    ],
    ids=["edit", "a-call-of-the-message", "another-approved-call"],
)
def test_changed_files_require_a_new_approval(
    world: World, change: Callable[[World], object], path: str
) -> None:
    first = world.ask(text="hello", message_id="m1")
    change(world)
    runs = world.runs()

    again, changes = renewed(world, first)

    old = world.approval(first)
    assert changes == [path]
    assert (old.state, old.superseded_by) == ("superseded", again.execution_id)
    assert (again.state, again.call_id, again.args) == ("pending", old.call_id, old.args)
    assert world.runs() == runs
    for decide in (world.approve, world.deny):
        with pytest.raises(AlreadyDecidedError) as decided:
            decide(first)
        assert decided.value.hint == f"covalt-git approval show {again.execution_id}"
    assert world.approve(again.execution_id).call.status == "success"
    assert world.files()["runs.txt"].endswith("hello\n")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("demo/tools/plain.py", "added", "deleted"),
        ("demo/tools/quiet.py", "tool(", "tool( "),
        ("demo/toolset.yaml", "{id: ask,", "{id: ask, description: Safe,"),
        ("demo/artifacts/page.html", "first", "second"),
        ("state/demo.yaml", "", "overrides: {ask: {description_override: Safe}}\n"),
    ],
    ids=["its-code", "other-code-of-the-toolset", "its-declaration", "a-page", "an-override"],
)
def test_a_changed_toolset_requires_a_new_approval(
    world: World, path: str, old: str, new: str
) -> None:
    first = world.ask()
    if old:
        world.edit(path, old, new)
    else:
        world.write(path, new)

    again, _ = renewed(world, first)

    assert world.log() == []
    world.approve(again.execution_id)
    digest = world.project().catalog.find("demo:ask").toolset.digest
    assert world.record().toolset.digest == digest


def test_a_toolset_edited_while_an_approval_waits_for_the_chat_requires_a_new_one(
    world: World,
) -> None:
    first = world.ask()
    waits = threading.Event()
    project = world.project()
    with ThreadPoolExecutor() as pool:
        with project.chats.open("c1") as chat, project.engine().writing(chat):
            approvals = world.project().approvals(waiting=lambda _: waits.set())
            approved = pool.submit(approvals.approve, first)
            assert waits.wait(30)
            world.edit("demo/tools/plain.py", "added", "deleted")
        with pytest.raises(ApprovalRenewedError):
            approved.result()

    assert world.log() == []


def test_calls_that_change_no_file_require_no_new_approval(world: World) -> None:
    first, other = world.ask(text="one", message_id="m1"), world.ask(text="two")
    world.deny(other)
    world.call("judge", number=2)
    world.call("judge", number=2, message_id="m1")

    assert world.approve(first).call.status == "success"
