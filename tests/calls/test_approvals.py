"""Settling an approval: once, by whoever may, and never without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from covalt_git.calls.approvals import (
    AlreadySettledError,
    ApprovalMismatchError,
    MayNotApproveError,
    NoLongerCallableError,
)
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.calls.conftest import World

PAST = "2020-01-01T00:00:00.000Z"
ROLES = """
    roles:
      agent: {allow: [demo.*], deny: [demo.judge]}
      reviewer: {approve: [demo.ask]}
      owner: {admin: true}
      stranger: {allow: [demo.add]}
"""


def alter_approval(world: World, execution_id: str, **changes: Any) -> None:
    """Write an approval as it might have been stored, with the store's own writer."""
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        before = chat.approval(execution_id)
        assert before is not None
        assert writer.put_approval(before.model_copy(update=changes), before=before)


def test_approval_is_bound_to_exactly_one_call(world: World) -> None:
    base = world.call("add").call.post_manifest_id
    outcome = world.call_for("0196-message", "ask", text="hello")

    approval = outcome.approval
    tool = read_toolset(world.root, "demo").tool("demo:ask")
    assert approval is not None
    assert tool is not None
    assert approval.model_dump(
        exclude={"execution_id", "created_at", "expires_at", "unstored"}
    ) == {
        "v": 1,
        "call_id": outcome.call.id,
        "chat_id": "c1",
        "branch": "main",
        "tool_id": "demo:ask",
        "args": {"text": "hello"},
        "args_digest": canonical_json.digest({"text": "hello"}),
        "definition_digest": tool.definition_digest,
        "by": "local",
        "role": None,
        "reasons": ("the toolset asks",),
        "message_id": "0196-message",
        "base": base,
        "state": "pending",
        "decided_by": None,
        "decided_at": None,
        "superseded_by": None,
    }
    assert approval.created_at < approval.expires_at


def test_approved_call_runs_and_says_who_let_it(world: World) -> None:
    waiting = world.ask(text="hello")
    outcome = world.approve(waiting)

    (manifest,) = world.log()
    settled = world.approval(waiting)
    assert outcome.call.status == "success"
    assert manifest.record.call is not None
    assert manifest.record.call.execution_id == waiting
    assert manifest.record.id == settled.call_id
    assert (settled.state, settled.decided_by) == ("approved", "local")
    assert settled.decided_at is not None
    assert world.files() == {"runs.txt": "hello\n"}
    assert world.waiting() == []


def test_denied_call_is_recorded_and_never_runs(world: World) -> None:
    world.call("add")
    waiting = world.ask()
    outcome = world.deny(waiting)

    assert outcome.call.status == "error"
    assert outcome.call.error == "denied: local denied it"
    assert world.codes() == ["success", "denied"]
    assert world.runs() == 1
    last = world.log()[-1].record.call
    assert last is not None
    assert (last.sandbox, last.execution_id) == (None, waiting)
    assert (world.approval(waiting).state, world.waiting()) == ("denied", [])


@pytest.mark.parametrize("first", ["approve", "deny"])
@pytest.mark.parametrize("second", ["approve", "deny"])
def test_approval_is_settled_once(world: World, first: str, second: str) -> None:
    waiting = world.ask()
    settle: dict[str, Callable[[str], object]] = {"approve": world.approve, "deny": world.deny}
    settle[first](waiting)
    before = world.refs()

    with pytest.raises(AlreadySettledError) as caught:
        settle[second](waiting)

    state = {"approve": "approved", "deny": "denied"}[first]
    assert caught.value.message == f"this approval is {state}"
    assert caught.value.hint == "covalt-git approval list"
    assert world.refs() == before


def test_end_of_an_id_is_enough(world: World) -> None:
    waiting = world.ask()

    assert world.approve(waiting[-8:]).call.status == "success"


def test_approval_is_not_found_by_fewer_than_four_characters(world: World) -> None:
    waiting = world.ask()

    with pytest.raises(UnknownNameError):
        world.approve(waiting[-3:])

    assert world.approval(waiting).state == "pending"


def test_unknown_approval_names_the_nearest_that_waits(world: World) -> None:
    waiting = world.ask()

    with pytest.raises(UnknownNameError) as caught:
        world.approve(f"{waiting[:-3]}xyz")

    assert waiting in caught.value.hint


@pytest.mark.parametrize("settle", ["approve", "deny"])
def test_expired_approval_is_settled_by_time_and_never_runs(world: World, settle: str) -> None:
    waiting = world.ask()
    alter_approval(world, waiting, expires_at=PAST)

    with pytest.raises(AlreadySettledError) as caught:
        getattr(world, settle)(waiting)

    assert caught.value.message == "this approval is expired"
    assert world.codes() == ["expired"]
    assert world.runs() == 0
    assert world.approval(waiting).state == "expired"


def test_project_says_how_long_an_approval_waits(world: World) -> None:
    world.configure("limits: {approval_expires_s: 1}")
    waiting = world.ask()
    assert world.until(
        lambda: world.approval(waiting).expires_at < world.call("judge", number=2).call.started_at
    )

    with pytest.raises(AlreadySettledError, match="this approval is expired"):
        world.approve(waiting)

    assert world.codes().count("expired") == 1
    assert world.runs() == 0


def test_role_may_settle_only_what_it_is_given(world: World) -> None:
    world.configure(ROLES)
    asked, other = world.ask(role="agent"), world.ask("wait", role="agent")

    with pytest.raises(UnknownNameError):
        world.approve(other, role="reviewer")
    with pytest.raises(UnknownNameError):
        world.deny(other, role="reviewer")
    outcome = world.approve(asked, role="reviewer")

    assert outcome.call.status == "success"
    assert world.approval(other).state == "pending"


@pytest.mark.parametrize("settle", ["approve", "deny"])
def test_agent_cannot_settle_its_own_call(world: World, settle: str) -> None:
    world.configure(ROLES)
    waiting = world.ask(role="agent")

    with pytest.raises(MayNotApproveError) as caught:
        getattr(world, settle)(waiting, role="agent")

    assert caught.value.message == "the role 'agent' may not settle calls of demo:ask"
    assert world.approval(waiting).state == "pending"
    assert world.log() == []


def test_agent_that_says_yes_to_itself_is_left_waiting(world: World) -> None:
    world.configure(ROLES)

    said = world.cli("call", "c1", "demo:ask", "--yes", "--json", role="agent")

    assert said.returncode == 1
    assert json.loads(said.stderr)["error"] == "may_not_approve"
    assert [one.state for one in world.approvals()] == ["pending"]
    assert world.log() == []


def test_approval_of_a_tool_that_is_hidden_does_not_exist(world: World) -> None:
    world.configure(ROLES)
    waiting = world.ask(role="agent")
    told = []
    for name in (waiting, "0" * len(waiting)):
        with pytest.raises(UnknownNameError) as caught:
            world.approve(name, role="stranger")
        told.append(str(caught.value.as_json()).replace(name, "NAME"))

    assert told[0] == told[1]
    assert "demo" not in told[0]
    assert waiting not in told[0]


def test_call_of_a_role_that_lost_the_tool_is_refused(world: World) -> None:
    world.configure(ROLES)
    waiting = world.ask(role="agent")
    world.configure(ROLES.replace("deny: [demo.judge]", "deny: [demo.ask]"))

    with pytest.raises(NoLongerCallableError) as caught:
        world.approve(waiting, role="owner")

    assert caught.value.message == "demo:ask no longer exists for local, who asked for the call"
    assert caught.value.hint == f"covalt-git approval deny {waiting}"
    assert world.approval(waiting).state == "pending"
    assert world.log() == []
    assert world.deny(waiting, role="owner").call.error == "denied: local denied it"


def test_call_of_a_role_that_is_gone_is_refused(world: World) -> None:
    world.configure(ROLES)
    waiting = world.ask(role="agent")
    world.configure("roles: {owner: {admin: true}}")

    with pytest.raises(NoLongerCallableError):
        world.approve(waiting, role="owner")


def test_refusal_to_an_approver_names_no_tool_of_whoever_asked(world: World) -> None:
    world.configure(ROLES)
    waiting = world.ask(role="agent")
    world.configure(ROLES.replace("deny: [demo.judge]", "deny: [demo.ask]"))

    with pytest.raises(NoLongerCallableError) as caught:
        world.approve(waiting, role="reviewer")

    assert str(caught.value.as_json()).count("demo:") == 1


def test_call_of_a_tool_that_was_switched_off_is_refused(world: World) -> None:
    waiting = world.ask()
    world.write("state/demo.yaml", "enabled: false\n")

    with pytest.raises(DisabledToolError):
        world.approve(waiting)

    assert world.approval(waiting).state == "pending"
    assert world.log() == []


def test_call_of_a_tool_that_was_removed_can_be_denied(world: World) -> None:
    waiting = world.ask()
    (world.root / "toolsets" / "demo" / "toolset.yaml").unlink()

    assert world.deny(waiting).call.error == "denied: local denied it"


def test_call_on_another_branch_names_the_checkout(world: World) -> None:
    world.call("add")
    waiting = world.ask()
    world.branch("idea")

    with pytest.raises(CovaltError) as caught:
        world.approve(waiting)

    assert caught.value.message == "the call belongs to the branch 'main'"
    assert caught.value.hint == "covalt-git chat checkout c1 main"
    world.checkout("main")
    assert world.approve(waiting).call.status == "success"
    assert world.runs() == 2


def test_call_on_another_branch_is_denied_there(world: World) -> None:
    world.call("add")
    waiting = world.ask()
    world.branch("idea")
    world.deny(waiting)

    assert world.codes("main") == ["success", "denied"]
    assert world.codes("idea") == ["success"]


@pytest.mark.parametrize(
    "altered",
    [
        pytest.param({"args": {"text": "other"}}, id="arguments"),
        pytest.param({"tool_id": "demo:wait"}, id="tool"),
        pytest.param({"role": "owner"}, id="role"),
        pytest.param({"branch": "idea"}, id="branch"),
    ],
)
def test_stored_call_that_was_altered_does_not_run(world: World, altered: dict[str, Any]) -> None:
    waiting = world.ask(text="hello")
    (call,) = world.waiting()
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        writer.put_call(call.model_copy(update=altered))

    with pytest.raises(ApprovalMismatchError) as caught:
        world.approve(waiting)

    assert caught.value.hint == f"covalt-git approval deny {waiting}"
    assert world.approval(waiting).state == "pending"
    assert world.log() == []


def test_arguments_that_the_function_refuses_after_approval_end_the_call(world: World) -> None:
    waiting = world.ask("judge_later", number=3)
    outcome = world.approve(waiting)

    assert outcome.call.error == "invalid_arguments: $.number: has to be even"
    assert world.codes() == ["invalid_arguments"]
    assert world.waiting() == []


def test_approval_whose_call_vanished_is_gone(world: World) -> None:
    waiting = world.ask()
    (call,) = world.waiting()
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        writer.drop_call(call.id)

    with pytest.raises(AlreadySettledError):
        world.approve(waiting)

    assert world.approval(waiting).state == "expired"
    assert world.log() == []


def test_index_decides_nothing_about_an_approval(world: World) -> None:
    denied, approved, waiting = (world.ask(text=text) for text in ("one", "two", "three"))
    world.deny(denied)
    world.approve(approved)
    before = world.index_rows()
    (world.root / "data" / "index.db").unlink()

    assert world.index_rows() == before
    assert {key: row["state"] for key, row in before.items()} == {
        denied: "denied",
        approved: "approved",
        waiting: "pending",
    }
    for settled in (denied, approved):
        with pytest.raises(AlreadySettledError):
            world.approve(settled)
    assert world.runs() == 1
