"""Calls of hostile tools: each fails alone, leaks no file, and the chat keeps working."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from covalt_git.runtime import sandbox
from tests.api_client import BEARER, HOME, Api, make_project
from tests.server.hostile import ENDS, check_store, is_held, put_hostile

SLOW = {"unzip", "open_zip"}
"""Tools that reach the limits of ``sparse`` and ``hog``, in more time; the journey calls them."""


@dataclass(frozen=True)
class Chat:
    """A chat of a served project."""

    api: Api
    id: str

    @property
    def folder(self) -> Path:
        return self.api.root / "data" / "chats" / self.id

    def call(self, tool: str, /, **args: object) -> Any:
        """Call a tool, and return its record."""
        request = {"chat_id": self.id, "tool_id": f"bad:{tool}", "args": args}
        call = self.api.post("call_tool", **request)
        return self.api.get("get_call", chat_id=self.id, call_id=call["id"])

    def check(self) -> None:
        """Make sure that the server answers, the chat works on, and its store is sound."""
        assert not is_held(self.folder / "workspace")
        for page in ("/", f"/chats/{self.id}", f"/chats/{self.id}/files"):
            answer = self.api.client().get(page, base_url=HOME, headers=BEARER)
            assert answer.status_code == 200, page
        assert self.call("good")["result"] == "good"
        check_store(self.folder / "store.git")

    def names(self) -> list[str]:
        """Return the files of the last commit, as git lists them."""
        listing = ["git", "-C", str(self.folder / "store.git"), "ls-tree", "-r", "--name-only"]
        return subprocess.check_output([*listing, "main"], text=True).splitlines()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Api:
    root = make_project(tmp_path_factory.mktemp("hostile") / "project")
    put_hostile(root)
    return Api.of(root)


@pytest.fixture
def chat(served: Api) -> Chat:
    return Chat(served, served.post("create_chat")["id"])


@pytest.mark.parametrize("tool", [tool for tool in ENDS if tool not in SLOW])
def test_a_tool_beyond_its_limit_fails_and_the_chat_keeps_working(chat: Chat, tool: str) -> None:
    # A bomb of sessions is malice, against which the level "process" holds nothing.
    args = {"sessions": sandbox.level() != "process"} if tool == "bomb" else {}

    call = chat.call(tool, **args)

    assert (call["status"], call["error"]) == ("error", ENDS[tool])
    chat.check()


def test_special_files_are_not_stored_and_noted(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret of another user")

    call = chat.call("leave", outside=str(tmp_path))
    names = chat.names()

    assert call["status"] == "success"
    assert {"fifo", "out", "kept.txt"} <= set(call["result"])
    assert "kept.txt" in names
    assert not any("secret" in name for name in names)
    not_stored = {path["path"] for path in call["notes"]["not_stored"]}
    assert not_stored >= {"fifo", "device", "disk", "socket", "out", ".git", "up"} & {
        *call["result"]
    }
    assert not not_stored & {*names}
    chat.check()


def test_a_folder_swapped_for_a_link_leaks_no_file(chat: Chat, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret of another user")

    call = chat.call("swap", outside=str(tmp_path))

    assert call["status"] == "success"
    assert not any("secret" in name for name in chat.names())
    assert (tmp_path / "secret.txt").read_text() == "secret of another user"
    chat.check()
