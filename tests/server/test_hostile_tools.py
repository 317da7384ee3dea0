"""Hostile tools at every sandbox level of this machine: the server answers and the chat keeps working."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from covalt_git.calls.engine import Request
from covalt_git.models.calls import SandboxLevel
from covalt_git.names import new_id
from covalt_git.project import Project
from covalt_git.runtime.pool import shared
from tests.api_client import BEARER, HOME, Api, make_project
from tests.runtime.in_sandbox import LEVELS, is_held
from tests.server.hostile import ENDS, check_store, put_hostile

SLOW = {"unzip", "open_zip"}
ATTEMPTS = [
    *((LEVELS[-1 if tool in SLOW else 0], tool) for tool in ENDS),
    *((level, "bomb") for level in LEVELS[1:]),
]
"""Each tool at one level, and the tool that only the sandbox can stop at every level."""


@dataclass(frozen=True)
class Chat:
    """A chat of a served project, whose calls are made at one level."""

    api: Api
    id: str
    level: SandboxLevel

    @property
    def workspace(self) -> Path:
        return self.api.root / "data" / "chats" / self.id / "workspace"

    @property
    def store(self) -> Path:
        return self.workspace.with_name("store.git")

    def call(self, tool: str, /, **args: object) -> Any:
        """Call a tool and return its row in the API."""
        project = Project.open(self.api.root)
        with project.chats.open(self.id) as chat:
            engine = replace(project.engine(), level=self.level)
            made = engine.call(chat, Request(f"bad:{tool}", args)).call
        row = self.api.get("get_call", chat_id=self.id, call_id=made.id)
        assert row["sandbox"] == self.level
        return row

    def check(self) -> None:
        """Make sure that the server answers, the chat works on, and its store is sound."""
        assert not is_held(self.workspace)
        for page in ("/", f"/chats/{self.id}", f"/chats/{self.id}/files"):
            answer = self.api.client().get(page, base_url=HOME, headers=BEARER)
            assert answer.status_code == 200, page
        assert self.api.get("list_calls", chat_id=self.id)["calls"]
        assert (row := self.call("good"))["result"] == "good", str(row)
        served = self.api.post("call_tool", chat_id=self.id, tool_id="bad:good", args={})
        assert served["status"] == "success"
        check_store(self.store)

    def names(self) -> list[str]:
        """Return the files of the last state, as git lists them."""
        listed = subprocess.run(
            ["git", "-C", str(self.store), "ls-tree", "-r", "--name-only", "main"],
            capture_output=True,
            text=True,
            check=True,
        )
        return listed.stdout.splitlines()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Api:
    root = make_project(tmp_path_factory.mktemp("hostile") / "project")
    put_hostile(root)
    return Api.of(root)


@pytest.fixture(params=LEVELS)
def chat(served: Api, request: pytest.FixtureRequest) -> Iterator[Chat]:
    """A chat at each level that this machine has."""
    made = Chat(served, f"c{new_id()}", request.param)
    served.post("create_chat", chat_id=made.id, title="A chat")
    yield made
    shared().end_idle()


@pytest.mark.parametrize(("chat", "tool"), ATTEMPTS, indirect=["chat"])
def test_a_tool_beyond_its_limit_fails_and_the_chat_keeps_working(chat: Chat, tool: str) -> None:
    # Sessions get each their share of the processor: where only our check of the processes stops
    # them, a bomb of sessions is malice, against which the level "process" holds nothing.
    malice = {"sessions": chat.level != "process"} if tool == "bomb" else {}

    row = chat.call(tool, **malice)

    assert (row["status"], row["error"]) == ("error", ENDS[tool])
    chat.check()


def test_special_files_are_not_stored_and_noted(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret of another user")

    row = chat.call("leave", outside=str(tmp_path))
    names = chat.names()

    assert row["status"] == "success"
    assert {"fifo", "out", "kept.txt"} <= set(row["result"])
    assert "kept.txt" in names
    assert not any("secret" in name for name in names)
    told = {path["path"]: path["reason"] for path in row["notes"]["not_stored"]}
    assert told["fifo"] == "it is neither a file, a folder nor a link"
    assert told["out"] == "it is a link that may lead outside"
    assert told.keys() >= {"fifo", "device", "disk", "socket", ".git", "up"} & set(row["result"])
    assert not told.keys() & set(names)
    chat.check()


def test_a_folder_swapped_for_a_link_leaks_no_file(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret of another user")

    row = chat.call("swap", outside=str(tmp_path))

    assert row["status"] == "success"
    assert not any("secret" in name for name in chat.names())
    assert (tmp_path / "secret.txt").read_text() == "secret of another user"
    chat.check()


# Killed processes


def holds(pid: int, file: Path) -> bool:
    """Return whether a process has a file open, under any path."""
    wanted = file.stat()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found = one.stat()
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False
