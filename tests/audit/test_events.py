"""``audit export``: calls, approvals and decisions in one order, from the files alone, without their arguments."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import covalt_git
from covalt_git.audit.events import in_order
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from tests.calls.conftest import World, make_world
from tests.operations_client import Operations
from tests.security.test_foreign_commits import Eve, forged, head
from tests.workspaces.stores import git

CANARY = "canary-of-this-test"
LARGE = {"text": CANARY * 1_000}
ROLES = """
default_role: owner
roles:
  owner: {admin: true}
  agent: {allow: ["demo.**"]}
  almost: {admin: true, deny: ["demo.fail"]}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A project with events of each kind in two chats; not to be changed."""
    world = make_world(tmp_path_factory.mktemp("events") / "project")
    world.configure(ROLES)
    agent = Operations(world.root, "agent")
    world.call("add", text=LARGE["text"])
    denied = world.ask(text=CANARY, role="agent")
    agent.error("call_tool", chat_id="c1", tool_id="workspace:restore", args={"manifest": CANARY})
    Operations(world.root)("deny_call", execution_id=denied, reason="not today")
    world.branch("gone")
    world.call("add", text="on a deleted branch")
    world.checkout("main")
    Operations(world.root)("delete_branch", chat_id="c1", branch="gone", force=True)
    Operations(world.root)("create_chat", chat_id="c2")
    world.approve(world.ask(text="c", chat_id="c2"))
    git(world.root.parent, "clone", "-q", str(world.store), "clone")
    eve = Eve(world, world.root.parent / "clone")
    eve.push(eve.commit(forged(world), head(world)), "main")
    return world


def exported(world: World, **request: Any) -> list[dict[str, Any]]:
    return [*map(json.loads, Operations(world.root)("export_audit", **request).splitlines())]


def test_all_events_are_in_one_order_and_a_forged_call_is_none(world: World) -> None:
    events = exported(world)
    keys = [(event["at"], event["id"]) for event in events]

    assert keys == sorted(keys)
    kinds = [event.get("status") or event.get("state") or event["decision"] for event in events]
    assert sorted(kinds) == sorted(
        ["success", "asked", "denied", "error", "hidden", "success", "asked", "approved", "success"]
    )
    assert kinds[0] == "success"
    denied = next(event for event in events if event.get("state") == "denied")
    assert (denied["by"], denied["reason"], denied["tool_id"]) == ("local", "not today", "demo:ask")


def test_events_have_the_digests_of_arguments_and_not_the_arguments(world: World) -> None:
    events = exported(world)
    calls = [event for event in events if event["kind"] == "call"]
    assert calls[0]["args_digest"] == canonical_json.digest(LARGE)
    asked = next(event for event in events if event.get("decision") == "asked")
    reviewed = next(event for event in events if event["kind"] == "approval")
    assert (
        asked["args_digest"] == reviewed["args_digest"] == canonical_json.digest({"text": CANARY})
    )
    assert CANARY not in json.dumps(events)


def test_events_are_filtered_by_time_tool_and_chat(world: World) -> None:
    events = exported(world)
    middle = events[4]["at"]
    assert exported(world, since=middle) == [event for event in events if event["at"] >= middle]
    shifted = middle.replace("Z", "+00:00")
    assert exported(world, since=shifted) == exported(world, since=middle)
    restores = exported(world, tool_id="workspace.restore")
    assert [event["decision"] for event in restores] == ["hidden"]
    of_chat = exported(world, chat_id="c2")
    assert [event["kind"] for event in of_chat] == ["decision", "approval", "call"]
    assert {event["chat_id"] for event in of_chat} == {"c2"}


def test_bad_requests_are_refused(world: World) -> None:
    operate = Operations(world.root)
    assert operate.error("export_audit", chat_id="nope").code == "unknown_chat"
    for since in ("yesterday", "2026-11-20", "2026-11-20T17:24:00"):
        assert "time with a zone" in operate.error("export_audit", since=since).message
    assert operate.error("export_audit", tool_id="no id").code == "bad_name"


@pytest.mark.parametrize("role", ["agent", "almost"])
def test_a_role_from_which_tools_may_be_hidden_exports_nothing(world: World, role: str) -> None:
    operate = Operations(world.root, role)
    assert operate.error("export_audit").code == "forbidden"
    assert operate.error("verify_audit").code == "forbidden"


def test_the_events_are_the_same_without_the_index(world: World, tmp_path: Path) -> None:
    copy = World(Path(shutil.copytree(world.root, tmp_path / "project", symlinks=True)))
    copy.lose_index("unusable")
    assert exported(copy) == exported(world)


rows = st.lists(st.tuples(st.sampled_from("abc"), st.text("xy", max_size=3)))


@given(rows=rows, most=st.integers(1, 400))
def test_parts_on_the_disk_are_in_the_same_order_as_in_memory(
    rows: list[tuple[str, str]], most: int
) -> None:
    events = [
        (at, name, {"at": at, "id": name, "place": place}) for place, (at, name) in enumerate(rows)
    ]
    expected = [canonical_json.dumps(facts) + b"\n" for _, _, facts in events]

    assert [*in_order(events, most_in_memory=most)] == sorted(
        expected, key=lambda line: ((facts := json.loads(line))["at"], facts["id"], line)
    )


def test_the_python_api_yields_events_and_verifies(world: World) -> None:
    with covalt_git.open_project(world.root) as project:
        assert [*project.export_audit(tool="demo:add")] == exported(world, tool_id="demo:add")
        assert project.verify_audit("c2").fits
        with pytest.raises(CovaltError, match="not in OpenSSH"):
            project.verify_audit(allowed_signers=["nothing"])
