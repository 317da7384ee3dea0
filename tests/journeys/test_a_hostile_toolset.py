"""A hostile toolset attacks in seven chats at once; the server keeps working for all others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.journeys.terminal import Terminal
from tests.server.hostile import ENDS, put_hostile

pytestmark = pytest.mark.stress  # seven tools at once reach their limits of time and memory


@dataclass(frozen=True)
class Served:
    """A project behind ``covalt-git serve``, as a program asks it."""

    home: str
    token: str

    def ask(self, path: str, body: object = None) -> bytes:
        asked = Request(
            self.home + path,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            data=None if body is None else json.dumps(body).encode(),
        )
        with urlopen(asked, timeout=60) as answer:
            content: bytes = answer.read()
        return content

    def call(self, chat: str, tool: str) -> Any:
        body = {"chat_id": chat, "tool_id": f"bad:{tool}", "args": {}}
        return json.loads(self.ask("/api/call_tool", body))


@pytest.fixture
def served(project: Terminal) -> Iterator[Served]:
    put_hostile(project.folder)
    with project.serving("serve") as url:
        home, _, token = url.partition("/?token=")
        yield Served(home, token)


def test_all_its_tools_at_once_harm_no_chat_and_no_page(served: Served, project: Terminal) -> None:
    chats = {tool: f"chat-{number}" for number, tool in enumerate(ENDS)}
    for chat in chats.values():
        served.ask("/api/create_chat", {"chat_id": chat, "title": chat})
    answers = 0

    with ThreadPoolExecutor(len(ENDS)) as threads:
        calls = {tool: threads.submit(served.call, chat, tool) for tool, chat in chats.items()}
        while not all(call.done() for call in calls.values()):
            for path in ("/", "/chats/chat-0", "/api/list_chats", "/tools"):
                assert served.ask(path)
                answers += 1

    assert answers
    assert {tool: call.result()["error"] for tool, call in calls.items()} == ENDS
    for chat in chats.values():
        assert served.call(chat, "good")["result"] == "good"
        store = f"data/chats/{chat}/store.git"
        assert project.git("-C", store, "fsck", "--strict", "--no-dangling") == ""
