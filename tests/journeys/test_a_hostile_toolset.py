"""A hostile toolset attacks in seven chats at once; the server keeps working for all others."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.journeys.terminal import Terminal
from tests.mcp_client import add_toolset
from tests.server.hostile import ENDS, MANIFEST, TOOLS


@pytest.fixture
def client(project: Terminal) -> Iterator[httpx2.Client]:
    """A client of the project behind ``covalt-git serve``."""
    add_toolset(project.folder, "bad", MANIFEST, TOOLS)
    with project.serving("serve") as url:
        home, _, token = url.partition("/?token=")
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=home, headers=headers, timeout=60) as client:
            yield client


def test_all_its_tools_at_once_harm_no_chat_and_no_page(
    client: httpx2.Client, project: Terminal
) -> None:
    def call(chat: str, tool: str) -> Any:
        body = {"chat_id": chat, "tool_id": f"bad:{tool}", "args": {}}
        return client.post("/api/call_tool", json=body).json()

    chats = {tool: f"chat-{number}" for number, tool in enumerate(ENDS)}
    for chat in chats.values():
        client.post("/api/create_chat", json={"chat_id": chat, "title": chat})
    answers = 0

    with ThreadPoolExecutor(len(ENDS)) as threads:
        calls = {tool: threads.submit(call, chat, tool) for tool, chat in chats.items()}
        while not all(one.done() for one in calls.values()):
            for path in ("/", "/chats/chat-0", "/api/list_chats", "/tools"):
                assert client.get(path).status_code == 200
                answers += 1

    assert answers
    assert {tool: one.result()["error"] for tool, one in calls.items()} == ENDS
    for chat in chats.values():
        assert call(chat, "good")["result"] == "good"
        store = f"data/chats/{chat}/store.git"
        assert project.git("-C", store, "fsck", "--strict", "--no-dangling") == ""
