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
