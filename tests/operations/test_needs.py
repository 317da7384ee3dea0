"""What needs the user: found in the index and the toolsets, and only what the role can act on."""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from covalt_git import timestamps
from covalt_git.conversations.conversation import Conversation
from covalt_git.workspaces.chat import ChatStore
from tests.operations_client import Operations

ROLES = """\
version: 1
default_role: owner
roles:
  owner: {admin: true}
  reviewer: {allow: ["workspace.read_file"], approve: ["app-builder.*"]}
  writer: {allow: ["workspace.*", "app-builder.write_file"]}
  caller: {allow: ["app-builder.*"]}
"""
GEAR = """\
id: gear
name: Gear
version: "1"
secrets: [GEAR_KEY]
mcp_servers:
  - {id: disk, command: python3, args: [server.py]}
"""


@pytest.fixture
def root(sample_project: Path, tmp_path: Path) -> Path:
    """The sample project with three chats, in which nothing has happened."""
    root = Path(shutil.copytree(sample_project, tmp_path / "project"))
    for chat_id in ("c1", "c2", "c3"):
        Operations(root)("create_chat", chat_id=chat_id)
    return root


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Move the clock of this process forward."""
    start = timestamps.now

    def move(**passed: int) -> None:
        moment = datetime.fromisoformat(start()) + timedelta(**passed)
        monkeypatch.setattr(timestamps, "now", lambda: timestamps.written(moment))

    return move


def write(operate: Operations, chat_id: str, path: str, content: str) -> Any:
    args = {"path": path, "content": content}
    return operate("call_tool", chat_id=chat_id, tool_id="app-builder:write_file", args=args)


def needs(operate: Operations, *names: str) -> list[tuple[Any, ...]]:
    rows = operate("list_needs")["needs"]
    return [tuple(row[name] for name in ("kind", *names)) for row in rows]


def with_conflict(operate: Operations, chat_id: str) -> None:
    """Let a chat have two branches with other lines; ``idea`` is not merged yet."""
    write(operate, chat_id, "a.txt", "1\n")
    operate("create_branch", chat_id=chat_id, name="idea")
    write(operate, chat_id, "a.txt", "2\n")
    operate("switch_branch", chat_id=chat_id, branch="idea")
    write(operate, chat_id, "a.txt", "3\n")
    operate("switch_branch", chat_id=chat_id, branch="main")


def test_everything_that_needs_the_user_is_listed_by_kind(
    operate: Operations, later: Callable[..., None]
) -> None:
    root = operate.root
    assert needs(operate) == []
    command = {"command": "ls"}
    operate("call_tool", chat_id="c1", tool_id="app-builder:run_command", args=command)
    with_conflict(operate, "c2")
    operate("merge_branch", chat_id="c2", branch="idea")
    missing = {"path": "nope.txt"}
    operate("call_tool", chat_id="c3", tool_id="app-builder:read_file", args=missing)
    (operate.workspace("c3") / "typed.txt").write_text("typed")
    for toolset_id, text in {"gear": GEAR, "bad": GEAR.replace("gear", "bad") + "x: 1\n"}.items():
        (root / "toolsets" / toolset_id).mkdir()
        (root / "toolsets" / toolset_id / "toolset.yaml").write_text(text)
    found = ["approval", "conflict", "broken_toolset", "grant", "failed_call"]
    assert [kind for (kind,) in needs(operate)] == found

    later(minutes=61)
    rows = operate("list_needs")["needs"]
    assert [row["kind"] for row in rows] == [*found[:4], "edits", "failed_call"]
    assert rows[1]["branch"] == "idea"
    assert (rows[2]["path"], rows[2]["line"]) == ("toolsets/bad/toolset.yaml", 7)
    assert rows[2]["toolset_id"] == "bad"
    assert "typed.txt" in rows[4]["message"]
    assert [row["chat_id"] for row in rows] == ["c1", "c2", None, None, "c3", "c3"]


def test_a_need_ends_with_its_reason(operate: Operations, later: Callable[..., None]) -> None:
    with_conflict(operate, "c1")
    operate("merge_branch", chat_id="c1", branch="idea", conflicts="both")
    (operate.workspace("c2") / "typed.txt").write_text("typed")
    missing = {"path": "nope.txt"}
    operate("call_tool", chat_id="c3", tool_id="app-builder:read_file", args=missing)
    later(hours=2)
    assert needs(operate, "chat_id") == [
        ("conflict", "c1"),
        ("edits", "c2"),
        ("failed_call", "c3"),
    ]
    (conflict,) = operate("list_conflicts", chat_id="c1")["conflicts"]
    assert operate("list_needs")["needs"][0]["message"].endswith(conflict["path"])

    # Deleting the other version resolves the conflict, also before the deletion is committed.
    (operate.workspace("c1") / conflict["saved_as"]).unlink()
    operate("save_edits", chat_id="c2")
    write(operate, "c3", "b.txt", "b")
    assert needs(operate, "chat_id") == [("edits", "c1")]


def test_a_conflict_of_another_branch_is_not_listed(operate: Operations) -> None:
    with_conflict(operate, "c1")
    operate("merge_branch", chat_id="c1", branch="idea", conflicts="both")
    assert needs(operate) == [("conflict",)]
    operate("switch_branch", chat_id="c1", branch="idea")
    assert operate("list_conflicts", chat_id="c1")["conflicts"] == needs(operate) == []


@pytest.mark.rest
def test_a_stopped_merge_is_listed_until_it_is_made(operate: Operations) -> None:
    with_conflict(operate, "c1")
    operate("merge_branch", chat_id="c1", branch="idea")
    assert needs(operate, "branch") == [("conflict", "idea")]
    operate("merge_branch", chat_id="c1", branch="idea", conflicts="ours")
    assert needs(operate) == []


def test_a_call_that_a_user_denied_needs_nobody(operate: Operations) -> None:
    answer = operate(
        "call_tool", chat_id="c1", tool_id="app-builder:run_command", args={"command": "ls"}
    )
    operate("deny_call", execution_id=answer["execution_id"])
    assert needs(operate) == []


def test_a_role_gets_only_what_it_can_act_on(
    operate: Operations, later: Callable[..., None]
) -> None:
    with_conflict(operate, "c1")
    operate("merge_branch", chat_id="c1", branch="idea")
    command = {"command": "ls"}
    operate("call_tool", chat_id="c2", tool_id="app-builder:run_command", args=command)
    operate("call_tool", chat_id="c3", tool_id="app-builder:read_file", args={"path": "nope"})
    (operate.workspace("c3") / "typed.txt").write_text("typed")
    (operate.root / "toolsets/gear").mkdir()
    (operate.root / "toolsets/gear/toolset.yaml").write_text(GEAR)
    (operate.root / "covalt.yaml").write_text(ROLES)
    later(hours=2)

    for role, kinds in {
        "owner": ["approval", "conflict", "grant", "edits", "failed_call"],
        "reviewer": ["approval"],
        "writer": ["conflict", "edits"],
        "caller": ["failed_call"],
    }.items():
        assert [kind for (kind,) in needs(operate.as_role(role))] == kinds, role


def test_a_secret_without_a_value_and_a_server_that_was_not_asked_are_listed(
    operate: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    (operate.root / "toolsets/gear").mkdir()
    (operate.root / "toolsets/gear/toolset.yaml").write_text(GEAR)
    for kind, name in (("secret", "GEAR_KEY"), ("process", "disk")):
        operate("add_grant", toolset_id="gear", kind=kind, name=name, hosts=[])
    expected = [("secret", "gear", None), ("source", "gear", "disk")]
    assert needs(operate, "toolset_id", "namespace") == expected
    (row,) = [row for row in operate("list_toolsets")["toolsets"] if row["id"] == "gear"]
    assert (row["waits_for"], row["lacks_grants"]) == ("listing", False)

    monkeypatch.setenv("GEAR_KEY", "a-long-value")
    operate("enable_toolset", toolset_id="gear", enabled=False)
    assert needs(operate) == []


def test_no_history_is_read(operate: Operations, monkeypatch: pytest.MonkeyPatch) -> None:
    with_conflict(operate, "c1")
    operate("merge_branch", chat_id="c1", branch="idea", conflicts="ours")
    operate("list_chats")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ChatStore, "above", refuse)
    monkeypatch.setattr(ChatStore, "log", refuse)
    monkeypatch.setattr(Conversation, "__init__", refuse)
    assert needs(operate) == []


def test_large_and_idle_workspaces_are_not_scanned_and_named(
    operate: Operations, later: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covalt_git.operations.needs.MOST_SCANNED", 1)
    for chat_id in ("c1", "c2"):
        (operate.workspace(chat_id) / "typed.txt").write_text("typed")
    write(operate, "c2", "b.txt", "b")
    (operate.workspace("c2") / "b.txt").write_text("typed")
    later(hours=2)
    listing = operate("list_needs")
    assert [row["chat_id"] for row in listing["needs"]] == ["c2"]
    assert sorted(listing["unscanned"]) == ["c1", "c3"]

    monkeypatch.setattr("covalt_git.operations.needs._MOST_CACHE_BYTES", 1)
    assert Path(operate.workspace("c2")).with_name("stat.cache").stat().st_size > 1
    assert "c2" in operate("list_needs")["unscanned"]
