"""Deciding an approval: once, by a role that may, and only for the call that was asked about."""

import shutil
from datetime import datetime
from typing import Any

import pytest

from covalt_git.calls.approvals import (
    AlreadyDecidedError,
    ApprovalMismatchError,
    NoLongerCallableError,
)
from covalt_git.catalog.catalog import BrokenToolsetError, DisabledToolError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.toolsets.toolset import read_toolset
from tests.calls.conftest import World, code

ROLES = """
    roles:
      agent: {allow: [demo.*], deny: [demo.judge]}
      reviewer: {approve: [demo.ask]}
      owner: {admin: true}
      stranger: {allow: [demo.add]}
"""
NOT_ASK = ROLES.replace("deny: [demo.judge]", "deny: [demo.ask]")


def decide(world: World, how: str, execution_id: str, role: str | None = None) -> Any:
    decides = world.approve if how == "approve" else world.deny
    return decides(execution_id, role=role)


def check_undecided(world: World, execution_id: str) -> None:
    assert world.approval(execution_id).state == "pending"
    assert world.log() == []


def test_an_approval_is_bound_to_exactly_one_call(world: World) -> None:
    base = world.call("add").call.post_manifest_id
    outcome = world.call("ask", message_id="0196-message", text="hello")

    approval = outcome.approval
    tool = read_toolset(world.root, "demo").tool("demo:ask")
    assert approval is not None
    assert tool is not None
    assert (approval.call_id, approval.branch) == (outcome.call.id, "main")
    assert (approval.base, approval.message_id) == (base, "0196-message")
    assert approval.args_digest == canonical_json.digest({"text": "hello"})
    assert approval.definition_digest == tool.definition_digest
    assert (approval.state, approval.by, approval.role) == ("pending", "local", None)
    assert approval.created_at < approval.expires_at


def test_an_approval_is_found_by_the_last_four_characters_of_its_id(world: World) -> None:
    waiting = world.ask()

    with pytest.raises(UnknownNameError):
        world.approve(waiting[-3:])
    with pytest.raises(UnknownNameError) as caught:
        world.approve(f"{waiting[:-3]}xyz")
    assert waiting in caught.value.hint
    assert world.approve(waiting[-4:]).call.status == "success"


@pytest.mark.parametrize("how", ["approve", "deny"])
def test_an_expired_approval_cannot_be_decided_and_its_call_never_runs(
    world: World, how: str
) -> None:
    world.configure("limits: {approval_expires_s: 60}")
    waiting = world.ask()
    asked = world.approval(waiting)
    expired = asked.model_copy(update={"expires_at": "2020-01-01T00:00:00.000Z"})
    with world.project().chats.open("c1") as chat, world.project().engine().writing(chat) as writer:
        assert writer.put_approval(expired, before=asked)

    with pytest.raises(AlreadyDecidedError):
        decide(world, how, waiting)

    lifetime = datetime.fromisoformat(asked.expires_at) - datetime.fromisoformat(asked.created_at)
    assert 59 <= lifetime.total_seconds() <= 61
    assert world.codes() == ["expired"]
    assert world.runs() == 0
    assert world.approval(waiting).state == "expired"


# Which roles


@pytest.mark.parametrize("config", [NOT_ASK, "roles: {owner: {admin: true}}"])
def test_a_call_of_a_role_that_lost_the_tool_can_only_be_denied(world: World, config: str) -> None:
    world.configure(ROLES)
    waiting = world.ask(role="agent")
    world.configure(config)

    with pytest.raises(NoLongerCallableError) as caught:
        world.approve(waiting, role="owner")

    assert caught.value.hint == f"covalt-git approval deny {waiting}"
    assert str(caught.value.as_json()).count("demo:") == 1
    check_undecided(world, waiting)
    assert code(world.deny(waiting, role="owner")) == "denied"


def test_a_call_of_a_removed_tool_names_no_requester_if_that_is_the_local_user(
    world: World,
) -> None:
    waiting = world.ask()
    shutil.rmtree(world.root / "toolsets/demo")

    with pytest.raises(NoLongerCallableError) as caught:
        world.approve(waiting)

    assert "requested" not in caught.value.message


# What has changed since


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("state/demo.yaml", "enabled: false\n", DisabledToolError),
        ("demo/toolset.yaml", "id: [\n", BrokenToolsetError),
    ],
)
def test_a_call_of_a_disabled_or_broken_toolset_can_only_be_denied(
    world: World, file: str, text: str, error: type[CovaltError]
) -> None:
    waiting = world.ask()
    world.write(file, text)

    with pytest.raises(error):
        world.approve(waiting)

    check_undecided(world, waiting)
    assert code(world.deny(waiting)) == "denied"


def test_a_call_is_approved_only_on_its_own_branch_and_denied_on_any(world: World) -> None:
    world.call("add")
    denied, waiting = world.ask(), world.ask()
    world.branch("idea")

    with pytest.raises(CovaltError) as caught:
        world.approve(waiting)
    assert caught.value.hint == "covalt-git chat checkout c1 main"
    world.deny(denied)
    assert (world.codes("main"), world.codes("idea")) == (["success", "denied"], ["success"])

    world.checkout("main")
    assert world.approve(waiting).call.status == "success"
    assert world.runs() == 2


@pytest.mark.parametrize(
    "altered",
    [{"args": {"text": "other"}}, {"tool_id": "demo:wait"}, {"role": "owner"}, {"branch": "idea"}],
    ids=["arguments", "tool", "role", "branch"],
)
def test_a_stored_call_that_was_altered_does_not_run(world: World, altered: dict[str, Any]) -> None:
    waiting = world.ask(text="hello")
    (call,) = world.waiting()
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        writer.put_call(call.model_copy(update=altered))

    with pytest.raises(ApprovalMismatchError) as caught:
        world.approve(waiting)

    assert caught.value.hint == f"covalt-git approval deny {waiting}"
    check_undecided(world, waiting)
