"""Two servers of one project with chats on a git server: a browser, and agents, meet them as one."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from covalt_git.index import server_follower
from covalt_server import request_context
from tests.api_client import BEARER, HOME, Api, configure, make_project
from tests.operations_client import Operations
from tests.uvicorn_server import PATIENCE_S, TOKEN, say_over_http, served
from tests.workspaces.nodes import on_files

_ROLES = 'roles: {owner: {admin: true}, agent: {allow: ["app-builder.*"]}}\ndefault_role: owner\n'


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Two clones of a project, and a server with an empty list of chats."""
    url, create = on_files(tmp_path / "server")
    roots = tmp_path / "a", tmp_path / "b"
    first = make_project(roots[0])
    storage = f"storage: {{type: git, url: '{url}', create: {[*create]}}}\n"
    configure(first, storage + _ROLES)
    shutil.copytree(first, roots[1], ignore=shutil.ignore_patterns("data"))
    Operations(first)("migrate_storage", to="git")
    return roots


@pytest.fixture
def ports(roots: tuple[Path, Path]) -> Iterator[list[int]]:
    with ExitStack() as stack:
        yield [stack.enter_context(served(root)) for root in roots]


class Alternating(httpx2.Client):
    """A browser whose requests a proxy sends to one node and the other in turn."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(timeout=PATIENCE_S, verify=False)
        self._ports, self._count = ports, 0

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        port = self._ports[self._count % len(self._ports)]
        self._count += 1
        # Cookies ignore ports, as a browser's do behind a proxy.
        return self.request(method, f"http://127.0.0.1:{port}{path}", **more)


@pytest.mark.rest
def test_pages_and_the_api_alternate_between_both(ports: list[int]) -> None:
    with Alternating(ports) as browser:
        answer = browser.ask("GET", f"/?token={TOKEN}")
        assert answer.status_code == 303
        # The first node has answered, so the second one creates the chat, and the first one lists it.
        assert browser.ask("POST", "/api/create_chat", json={"chat_id": "c1"}).status_code == 200
        assert "c1" in browser.ask("GET", "/").text
        assert browser.ask("GET", "/chats/c1").status_code == 200
        for text in ("one", "two", "three"):
            message = {"chat_id": "c1", "role": "user", "text": text}
            answer = browser.ask("POST", "/api/add_message", json=message)
            assert answer.status_code == 200, answer.text
        rows = browser.ask("GET", "/api/list_messages?chat_id=c1").json()
        assert [row["text"] for row in rows["messages"]] == ["one", "two", "three"]


def test_a_page_on_one_node_gets_the_changes_that_the_other_one_makes(
    roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_follower, "POLL_S", 0.02)
    monkeypatch.setattr(server_follower, "_SHARE", 0)
    monkeypatch.setattr(server_follower, "IDLE_S", 0.5)
    on_a, b = Operations(roots[0]), Api.of(roots[1])
    on_a("create_chat", chat_id="c1")
    # The first position of the feed already has the chat, so that each of its commits is an event.
    Operations(roots[1])("get_chat", chat_id="c1")
    page = b.client().get("/chats/c1", base_url=HOME, headers=BEARER)
    assert page.status_code == 200
    with b.app.app_context():
        feed = request_context.feed()
        position = feed.position()
    # Nobody follows the events yet, so this node sends no requests.
    assert followers() == 0

    def received(kind: str, **facts: str) -> None:
        """Read events as an open page does, until one is there."""
        nonlocal position
        end = time.monotonic() + 4 * PATIENCE_S
        while time.monotonic() < end:
            for change in feed.after(position):
                position = change.position
                if change.kind == kind and facts.items() <= dict(change.facts).items():
                    return
            time.sleep(0.01)
        raise AssertionError(f"no {kind}")

    feed.after(position)
    assert followers() == 1
    on_a("add_message", chat_id="c1", role="user", text="from a")
    received("CommitAdded", source="message")
    on_a("create_chat", chat_id="c2")
    received("ChatsChanged")
    # The page was closed.
    for thread in threading.enumerate():
        if thread.name == "follower":
            thread.join(PATIENCE_S)
    assert followers() == 0


def followers() -> int:
    return sum(thread.name == "follower" for thread in threading.enumerate())


@pytest.mark.rest
def test_an_agent_calls_tools_at_both_nodes_in_turn(
    roots: tuple[Path, Path], ports: list[int]
) -> None:
    text = Operations(roots[0])("create_token", role="agent", name="writer")["token"]
    chats: set[str] = set()
    for number in range(4):

        async def call(client: Client, number: int = number) -> Any:
            args = {"path": f"{number}.txt", "content": "1"} | (
                {"covalt_chat": next(iter(chats))} if chats else {}
            )
            return await client.call_tool("app-builder.write_file", args)

        result = anyio.run(partial(say_over_http, ports[number % 2], call, token=text))
        assert not result.is_error, result
        chats.add(result.meta["covalt-git/chat"])
    (chat_id,) = chats
    files = Operations(roots[0])("get_workspace_files", chat_id=chat_id)["files"]
    assert [file["path"] for file in files] == [f"{number}.txt" for number in range(4)]
