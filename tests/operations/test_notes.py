"""What cannot be stored is reported once, by the first operation that finds it."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import make_project
from tests.operations_client import Operations, uploads

C1 = {"chat_id": "c1"}
WRITES: dict[str, dict[str, Any]] = {
    "add_message": {"role": "user", "text": "hello"},
    "retry_message": {},
    "edit_message": {"message": "said", "text": "bye"},
    "switch_branch": {"branch": "idea"},
    "create_branch": {"name": "other"},
    "restore_workspace": {"manifest": "idea"},
    "upload_files": {"files": uploads(x=b"x")},
    "merge_branch": {"branch": "idea"},
    "fork_chat": {},
    "export_chat_to": {},
    "call_tool": {"tool_id": "app-builder:write_file", "args": {"path": "b", "content": "b"}},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose chat has a branch and a message, and then gets an edit and a named pipe."""
    root = make_project(tmp_path / "project")
    operate = Operations(root)
    operate("create_chat", **C1)
    operate.commit("c1", **{"a.txt": "one\n"})
    operate("create_branch", **C1, name="idea")
    operate("add_message", **C1, role="user", text="hello", ref="said")
    (operate.workspace("c1") / "a.txt").write_text("two\n", encoding="utf-8")
    os.mkfifo(operate.workspace("c1") / "pipe")
    return root


def write(operate: Operations, name: str, **more: Any) -> Any:
    path = {"path": operate.root / f"{len(more)}.bundle"} if name == "export_chat_to" else {}
    return operate(name, **C1, **WRITES[name], **path, **more)


def not_stored(result: Any) -> list[str]:
    return [note["path"] for note in result["notes"]["not_stored"]]


@pytest.mark.parametrize("name", WRITES)
def test_the_first_write_reports_it_and_the_next_does_not(operate: Operations, name: str) -> None:
    first = write(operate, name)
    operate("switch_to_message", **C1, message="said")
    later = operate("add_message", **C1, role="user", text="more")

    assert not_stored(first) == ["pipe"]
    assert not_stored(later) == []


def test_a_new_one_is_reported_by_the_next_write(operate: Operations) -> None:
    operate("add_message", **C1, role="user", text="one")
    os.mkfifo(operate.workspace("c1") / "second")

    assert not_stored(operate("add_message", **C1, role="user", text="two")) == ["second"]


@pytest.mark.parametrize("name", ["fork_chat", "export_chat_to"])
def test_a_copy_lists_the_files_that_it_lacks(operate: Operations, name: str) -> None:
    (operate.workspace("c1") / "__pycache__").mkdir()
    of_branch = {"fork_chat": "from_manifest", "export_chat_to": "branch"}[name]

    assert write(operate, name)["lacks"] == ["__pycache__", "pipe"]
    assert write(operate, name, **{of_branch: "idea"})["lacks"] == []


# What was never stored and is lost


def lost(result: Any) -> dict[str, str]:
    """Return what became of what was lost; the named pipe of the fixture stays where it is."""
    notes = {note["path"]: note["reason"] for note in result["notes"]["lost"]}
    return {path: reason.partition(",")[0] for path, reason in notes.items() if path != "pipe"}


def run(operate: Operations, command: str) -> Any:
    args = {"command": command}
    waits = operate("call_tool", **C1, tool_id="app-builder:run_command", args=args)
    if waits["status"] == "pending":
        return operate("approve_call", execution_id=waits["execution_id"])
    return waits


@pytest.fixture
def left_out(operate: Operations) -> Operations:
    """A chat with a nested repository and a file that is too large, which no commit has."""
    run(
        operate, "mkdir lib && cd lib && git init -q . && echo f > f.txt; truncate -s 3M ../big.bin"
    )
    run(operate, "echo more > more.txt")
    return operate


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("rm -r lib", {"lib/.git": "is gone"}),
        ("rm -r lib/.git big.bin", {"lib/.git": "is gone", "big.bin": "is gone"}),
        ("echo small > big.bin", {"big.bin": "was replaced"}),
        ("echo other > other.txt", {}),
    ],
)
def test_a_call_says_what_it_removed_that_no_commit_has(
    left_out: Operations, command: str, expected: dict[str, str]
) -> None:
    assert lost(run(left_out, command)) == expected
    assert lost(run(left_out, "echo x > x.txt")) == {}


def test_an_undo_says_what_it_cannot_bring_back(left_out: Operations) -> None:
    run(left_out, "rm -r lib big.bin")

    undone = left_out("undo_change", **C1)

    assert lost(undone) == {"lib/.git": "is gone", "big.bin": "is gone"}
    assert (left_out.workspace("c1") / "lib/f.txt").exists()


def test_a_restore_says_what_keeps_its_later_content(left_out: Operations) -> None:
    before = left_out("list_manifests", **C1)["manifests"][0]["id"]
    run(left_out, "truncate -s 4M big.bin; echo two > more.txt; rm -r lib/.git")

    restored = left_out("restore_workspace", **C1, manifest=before)

    assert lost(restored) == {"lib/.git": "is gone", "big.bin": "stays as it is now"}
    of_one_path = left_out("restore_workspace", **C1, manifest=before, paths=["lib"])
    assert lost(of_one_path) == {"lib/.git": "is gone"}


@pytest.mark.parametrize("name", ["switch_branch", "merge_branch"])
def test_a_switch_and_a_merge_say_what_the_other_branch_had(
    left_out: Operations, name: str
) -> None:
    left_out("create_branch", **C1, name="other")
    left_out("switch_branch", **C1, branch="other")
    run(left_out, "echo changed > more.txt")
    left_out("switch_branch", **C1, branch="main")
    run(left_out, "rm -r lib/.git; echo new > new.txt")

    assert lost(left_out(name, **C1, branch="other")) == {"lib/.git": "is gone"}
    if name == "switch_branch":
        assert lost(left_out("switch_branch", **C1, branch="main")) == {}
