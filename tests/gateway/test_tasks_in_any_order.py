"""A model of tasks: created, read, cancelled, decided elsewhere, expired, with restarts, in any order."""

import itertools
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from covalt_git.calls.approvals import AlreadyDecidedError, ApprovalRenewedError
from covalt_git.calls.running import Follower
from covalt_git.gateway.client_chats import Client
from covalt_git.gateway.large_results import Delivery
from covalt_git.gateway.service import ClientCall, Gateway
from covalt_git.gateway.tasks import task_state
from covalt_git.gateway.tasks.task import Task, TaskPlace
from covalt_git.gateway.tasks.task_state import TaskQuery, UnknownTaskError
from covalt_git.project import Project
from tests.examples import examples
from tests.mcp_client import make_project
from tests.workspaces.stores import dying

DELIVERY = Delivery(structured=True, modern=True)
CLIENT = Client("one")


class Tasks(RuleBasedStateMachine):
    """The tasks of one principal, each with the state that it must have; another principal has none of them."""

    tasks = Bundle("tasks")

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.states: dict[str, str] = {}
        self.ended: dict[str, Task] = {}
        self.count = 0
        self.restart()

    @rule()
    def restart(self) -> None:
        """Start a new process's gateway, which knows nothing of the earlier one."""
        self.gateway = Gateway(self.root, by="agent-one")
        self.other = Gateway(self.root, by="agent-two")

    @rule(target=tasks)
    def create(self) -> str:
        self.count += 1
        args = {"path": f"{self.count}.txt", "content": "x"}
        call = ClientCall(CLIENT, "demo.asks", args, DELIVERY, "c1")
        place = self.gateway.call(call, Follower(), lambda _: None)
        assert isinstance(place, TaskPlace)
        self.states[place.task_id] = "working"
        return place.task_id

    def execution_id(self, task_id: str) -> str | None:
        with Project.open(self.root).chats.open("c1") as chat:
            call = chat.call(task_id.rpartition(".")[2])
        return None if call is None else call.execution_id

    @rule(task_id=tasks, approved=st.booleans())
    def decide_elsewhere(self, task_id: str, *, approved: bool) -> None:
        execution_id = self.execution_id(task_id)
        if execution_id is None:
            assert self.states[task_id] != "working"
            return
        approvals = Project.open(self.root).approvals()
        try:
            (approvals.approve if approved else approvals.deny)(execution_id)
        except ApprovalRenewedError:
            return  # the files changed: the call waits for the new approval
        except AlreadyDecidedError:
            self.states[task_id] = "completed"  # it had expired, as the next reader sees
            return
        self.states[task_id] = "completed"

    @rule(task_id=tasks)
    def cancel(self, task_id: str) -> None:
        task_state.cancel(self.gateway, TaskQuery(task_id, DELIVERY))
        if self.states[task_id] == "working":
            self.states[task_id] = "cancelled"

    @rule(task_id=tasks)
    def others_cannot_cancel(self, task_id: str) -> None:
        try:
            task_state.cancel(self.other, TaskQuery(task_id, DELIVERY))
        except UnknownTaskError:
            return
        raise AssertionError(task_id)

    @rule(task_id=tasks)
    def expire(self, task_id: str) -> None:
        execution_id = self.execution_id(task_id)
        if execution_id is None:
            return
        with (
            Project.open(self.root).chats.open("c1") as chat,
            Project.open(self.root).writing(chat) as writer,
        ):
            approval = chat.approval(execution_id)
            assert approval is not None
            past = approval.model_copy(update={"expires_at": "2020-01-01T00:00:00.000Z"})
            assert writer.put_approval(past, before=approval)
        self.states[task_id] = "completed"

    @rule(task_id=tasks)
    def die_while_it_runs(self, task_id: str) -> None:
        """An approver's process is killed after the tool has begun."""
        with Project.open(self.root).chats.open("c1") as chat:
            call = chat.call(task_id.rpartition(".")[2])
            if call is None or self.states[task_id] != "working":
                return
            approval = chat.approval(call.execution_id or "")
            assert approval is not None
            with dying(chat) as writer:
                writer.decide(approval, "approved", decided_by="someone")
                writer.put_call(call.model_copy(update={"status": "running"}))
        self.states[task_id] = "failed"

    @rule(content=st.sampled_from("ab"))
    def edit(self, content: str) -> None:
        (self.root / "data/chats/c1/workspace/notes.txt").write_text(content)

    @invariant()
    def each_task_has_its_state(self) -> None:
        for task_id, status in self.states.items():
            state = task_state.read(self.gateway, TaskQuery(task_id, DELIVERY))
            assert state.status == status
            assert (state.result is not None) == (status == "completed")
            assert (state.error is not None) == (status == "failed")
            if status != "working":
                assert (
                    self.ended.setdefault(task_id, state) == state
                )  # what has ended stays as it is
            try:
                task_state.read(self.other, TaskQuery(task_id, DELIVERY))
            except UnknownTaskError:
                continue
            raise AssertionError(f"another principal reads {task_id}")

    @invariant()
    def a_task_that_did_not_complete_has_not_run(self) -> None:
        for number, (task_id, status) in enumerate(self.states.items(), 1):
            ran = (self.root / f"data/chats/c1/workspace/{number}.txt").exists()
            result = self.ended[task_id].result if task_id in self.ended else None
            assert ran == (status == "completed" and result is not None and not result.is_error)


@pytest.mark.hypothesis  # `python -m tests.stress laws` runs more examples
def test_tasks_have_their_state_in_any_order(tmp_path: Path) -> None:
    template = make_project(tmp_path / "template")
    gateway = Gateway(template, by="agent-one")
    with gateway.project().chats.new("c1"):
        pass
    roots = (
        Path(shutil.copytree(template, tmp_path / str(number))) for number in itertools.count()
    )

    class Machine(Tasks):
        def __init__(self) -> None:
            super().__init__(next(roots))

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(8),
            stateful_step_count=8,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
