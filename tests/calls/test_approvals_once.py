"""An approved call runs once: with several approvers, after kills, and in any order of events."""

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from covalt_git.calls.approvals import AlreadyDecidedError, ApprovalRenewedError
from tests.calls.conftest import World
from tests.examples import examples
from tests.settling import until
from tests.workspaces.stores import dying


def is_alive(held: Path) -> bool:
    """Return whether the process that locked the file is alive."""
    with held.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def running(world: World) -> Path:
    """Return the file that the tool ``wait`` locks, as soon as it runs."""
    until((world.workspace / "held").exists)
    return world.workspace / "held"


def test_several_approvers_run_a_call_once(world: World) -> None:
    waiting = world.ask()

    approvers = [
        world.start("approval", "approve", waiting, "--no-terminal", "tested", "--json")
        for _ in range(3)
    ]
    ended = [approver.end() for approver in approvers]

    errors = [one.stderr for one in ended if "{" in one.stderr]
    refusals = [json.loads(err[err.index("{") :])["error"] for err in errors]
    assert sorted(one.returncode for one in ended) == [0, 1, 1]
    assert refusals == ["already_settled"] * 2
    assert world.codes() == ["success"]
    assert world.runs() == 1


def test_a_call_killed_while_it_runs_is_interrupted_and_never_runs_again(world: World) -> None:
    waiting = world.ask("wait")
    approver = world.start("approval", "approve", waiting, "--no-terminal", "tested")
    tool = running(world)

    os.kill(approver.pid, signal.SIGKILL)
    approver.end()

    until(lambda: not is_alive(tool))
    with pytest.raises(AlreadyDecidedError):
        world.approve(waiting)
    assert world.codes() == ["interrupted"]
    assert world.runs() == 1
    assert world.approval(waiting).state == "approved"
    assert world.call("add").call.status == "success"
    assert world.git("fsck", "--strict", "--no-dangling") == ""


def test_a_call_killed_while_its_approval_is_renewed_runs_by_the_new_approval_only(
    world: World,
) -> None:
    first = world.ask(text="hello")
    (world.workspace / "notes.txt").write_text("mine")
    project = world.project()
    with project.chats.open("c1") as chat, dying(chat) as writer:
        base = writer.commit_changes()
        (call,) = chat.calls()
        moved = call.model_copy(update={"base": base})
        found = project.catalog.find("demo:ask")
        again = project.engine().ask(writer, moved, found, ("the toolset requires it",))
    assert again.approval is not None
    (world.workspace / "notes.txt").unlink()

    with pytest.raises(AlreadyDecidedError):
        world.approve(first)

    assert world.runs() == 0
    (world.workspace / "notes.txt").write_text("mine")
    assert world.approve(again.approval.execution_id).call.status == "success"
    assert world.runs() == 1


class Approving(RuleBasedStateMachine):
    """Calls, approvals, denials and edits in any order; each run has an approval of its own."""

    asked = Bundle("asked")

    def __init__(self, new_world: Callable[[], World]) -> None:
        super().__init__()
        self.world = new_world()
        self.made = 0
        self.settled: set[str] = set()

    @initialize(target=asked)
    def ask_first(self) -> str:
        return self.make("m1")

    @rule(target=asked, message_id=st.sampled_from([None, "m1"]))
    def ask(self, message_id: str | None) -> str:
        return self.make(message_id)

    def make(self, message_id: str | None) -> str:
        self.made += 1
        return self.world.ask(message_id=message_id, text=f"call {self.made}")

    @rule(target=asked, execution_id=asked)
    def approve(self, execution_id: str) -> str:
        try:
            self.world.approve(execution_id)
        except ApprovalRenewedError:
            self.settled.add(execution_id)
            return str(self.world.approval(execution_id).superseded_by)
        except AlreadyDecidedError:
            assert execution_id in self.settled
            return execution_id
        assert execution_id not in self.settled
        self.settled.add(execution_id)
        return execution_id

    @rule(execution_id=asked)
    def deny(self, execution_id: str) -> None:
        with contextlib.suppress(AlreadyDecidedError):
            self.world.deny(execution_id)
            assert execution_id not in self.settled
        self.settled.add(execution_id)

    @rule(content=st.sampled_from("abc"))
    def edit(self, content: str) -> None:
        (self.world.workspace / "notes.txt").write_text(content)

    @rule()
    def change_the_toolset(self) -> None:
        self.world.edit("demo/tools/plain.py", "import fcntl", f"# {self.made}\nimport fcntl")

    @rule()
    def lose_the_index(self) -> None:
        self.world.lose_index("deleted")

    @invariant()
    def each_run_had_an_approval_of_its_own(self) -> None:
        runs = self.world.workspace / "runs.txt"
        ran = runs.read_text().splitlines() if runs.exists() else []
        approved = [one for one in self.world.approvals() if one.state == "approved"]

        assert sorted(ran) == sorted(one.args["text"] for one in approved)
        assert len(set(ran)) == len(ran)


@pytest.mark.hypothesis  # `python -m tests.stress laws` runs more examples
def test_runs_never_exceed_approvals_in_any_order(new_world: Callable[[], World]) -> None:
    class Machine(Approving):
        def __init__(self) -> None:
            super().__init__(new_world)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(15),
            stateful_step_count=10,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
