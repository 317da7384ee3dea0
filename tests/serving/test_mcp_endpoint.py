"""Agents' tokens at ``/mcp``: each under its role, in its chats, apart from the others, and nowhere else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.to_thread import run_sync
from mcp import Client, MCPError

from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.project import Project
from covalt_git.workspaces.deleting import delete
from covalt_server.app import create_app
from tests.command import run
from tests.gateway.asking_tools import make_asking_project
from tests.mcp_client import CONFIG, ERAS, eras, listening, make_project, text
from tests.serving.http_clients import TOKEN, names, say, served, talk

MODERN = ERAS[0]
WRITE = {"path": "a.txt", "content": "hi"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = '  writer: {allow: ["demo.*", "quiz.*", "workspace.**"]}\n'
    return make_asking_project(tmp_path_factory.mktemp("agents") / "project", roles=writer)


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    yield from served(root)


@pytest.fixture(scope="module")
def tokens(root: Path) -> AgentTokens:
    return AgentTokens(root)


@pytest.fixture(scope="module")
def reader(tokens: AgentTokens) -> str:
    return tokens.new("reads", "reader")[1]


@pytest.fixture(scope="module")
def writer(tokens: AgentTokens) -> str:
    return tokens.new("writes", "writer")[1]


@pytest.fixture(scope="module")
def other(tokens: AgentTokens) -> str:
    """Another agent of the same role as ``writer``."""
    return tokens.new("other", "writer")[1]


def called(name: str, args: dict[str, Any], **how: Any) -> Callable[[Client], Awaitable[Any]]:
    async def said(client: Client) -> Any:
        return await client.call_tool(name, args, **how)

    return said


def chat_of(result: Any) -> str:
    found: str = result.meta["covalt-git/chat"]
    return found


# Roles


@eras
def test_two_agents_have_the_tools_of_their_roles_at_once(
    port: int, reader: str, writer: str, era: str
) -> None:
    listed: dict[str, list[str]] = {}
    come = [anyio.Event(), anyio.Event()]

    async def first(client: Client) -> None:
        listed["reader"] = await names(client)
        come[0].set()
        with anyio.fail_after(20):
            await come[1].wait()
        assert await names(client) == listed["reader"]
        with pytest.raises(MCPError) as hidden:
            await client.call_tool("demo.write", WRITE)
        with pytest.raises(MCPError) as missing:
            await client.call_tool("demo.wrote", WRITE)
        assert str(hidden.value) == str(missing.value).replace("wrote", "write")

    async def second(client: Client) -> None:
        with anyio.fail_after(20):
            await come[0].wait()
        listed["writer"] = await names(client)
        come[1].set()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for token, said in ((reader, first), (writer, second)):
                group.start_soon(partial(say, port, said, era=era, token=token))

    anyio.run(main)
    assert listed["reader"] == [
        "resume",
        "demo.read",
        "workspace.list_files",
        "workspace.read_file",
    ]
    assert {"demo.write", "workspace.branch"} < {*listed["writer"]}


@eras
def test_records_tell_which_agent_asked(root: Path, port: int, writer: str, era: str) -> None:
    done = talk(port, called("demo.write", WRITE), era=era, token=writer)
    waits = talk(port, called("demo.asks", WRITE), era=era, token=writer)

    with Project.open(root).chats.open(chat_of(done)) as chat:
        assert chat.card().made_by == "agent:writes"
        assert '"by":"agent:writes"' in chat.store.read_commit(chat.head() or "").message
    asked = Project.open(root).approvals().find(waits.structured_content["execution_id"])
    assert (asked.by, asked.role, asked.state) == ("agent:writes", "writer", "pending")


def test_a_role_that_is_gone_lets_its_agents_do_nothing(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    token = AgentTokens(root).new("reads", "reader")[1]
    serving = served(root)
    port = next(serving)
    assert answer(port, token).status_code == 200

    (root / "covalt.yaml").write_text("version: 1\nroles: {owner: {admin: true}}\n")
    refused = answer(port, token)
    (root / "covalt.yaml").write_text(CONFIG)
    again = answer(port, token)
    (root / "covalt.yaml").write_text("roles: [")
    broken = answer(port, token, LIST, {**DISCOVER, "method": "tools/list"})
    (root / "covalt.yaml").unlink()
    missing = answer(port, token, LIST, {**DISCOVER, "method": "tools/list"})
    next(serving, None)

    for told in (broken, missing):
        assert "covalt.yaml" in told.json()["error"]["message"]
    assert (refused.status_code, refused.json()["error"]) == (403, "role_gone")
    assert "the role 'reader' of this token is not in covalt.yaml" in refused.text
    assert again.status_code == 200


# What else there is


DISCOVER: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
USUAL = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "server/discover",
}


LIST = {"Mcp-Method": "tools/list"}


def answer(
    port: int, token: str, headers: dict[str, str] | None = None, said: Any = DISCOVER
) -> httpx2.Response:
    """Return what one request of 2026-07-28 is answered."""
    sent = {**USUAL, "Authorization": f"Bearer {token}", **(headers or {})}
    return httpx2.post(f"http://127.0.0.1:{port}/mcp", headers=sent, content=json.dumps(said))


def routes(root: Path) -> list[tuple[str, str]]:
    """Return every route of the pages and the API, with its method, and what stands beside them."""
    rules = create_app(root, token=TOKEN, port=1).url_map.iter_rules()
    found = {
        (method, re.sub(r"<[^>]*>", "x", rule.rule))
        for rule in rules
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
    }
    git = {
        ("GET", "/git/c1/info/refs?service=git-upload-pack"),
        ("POST", "/git/c1/git-receive-pack"),
    }
    return sorted(found | git | {("GET", "/nowhere"), ("GET", "/mcpx"), ("GET", "/.well-known/x")})


def test_an_agents_token_opens_nothing_else(root: Path, port: int, writer: str) -> None:
    told = []
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http:
        for method, path in routes(root):
            for sent in (
                {"headers": {"Authorization": f"Bearer {writer}"}},
                {"headers": {"Cookie": f"covalt_git_{port}={writer}"}},
                {"headers": {"Authorization": httpx2.BasicAuth("x", writer)._auth_header}},
                {"params": {"token": writer}},
            ):
                if "?" in path and "params" in sent:
                    continue
                found = http.request(method, path, **sent)  # type: ignore[arg-type]
                told.append((method, path, found.status_code))
                assert writer not in found.text

    assert len(told) > 300
    assert [one for one in told if one[2] != 401] == []


def test_the_metadata_is_for_everybody(port: int, writer: str) -> None:
    url = f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp"

    assert httpx2.get(url, headers={"Authorization": f"Bearer {writer}"}).status_code == 200
    assert httpx2.get(url).status_code == 200


def test_an_agent_cannot_approve_its_call(root: Path, port: int, writer: str) -> None:
    waits = talk(port, called("demo.asks", WRITE), era=MODERN, token=writer)
    execution_id = waits.structured_content["execution_id"]
    base = f"http://127.0.0.1:{port}"
    headers = {"Authorization": f"Bearer {writer}"}
    body = {"execution_id": execution_id}

    tried = [
        httpx2.get(f"{base}/approvals/{execution_id}", headers=headers),
        httpx2.post(f"{base}/approvals/{execution_id}", headers=headers, data=body),
        httpx2.post(f"{base}/approvals/{execution_id}/approve", headers=headers, data=body),
        httpx2.post(f"{base}/api/approve", headers=headers, json=body),
        httpx2.post(f"{base}/api/approve_call", headers=headers, json=body),
    ]

    assert {one.status_code for one in tried} == {401}
    assert Project.open(root).approvals().find(execution_id).state == "pending"


# Sessions, calls and states of others


def begun(port: int, token: str) -> dict[str, str]:
    """Return the headers of the session of a client of the first era."""
    said = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        },
    }
    headers = {
        "Accept": USUAL["Accept"],
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
    }
    url = f"http://127.0.0.1:{port}/mcp"
    found = httpx2.post(url, headers=headers, content=json.dumps(said))
    headers["Mcp-Session-Id"] = found.headers["mcp-session-id"]
    headers["MCP-Protocol-Version"] = "2025-11-25"
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert httpx2.post(url, headers=headers, content=json.dumps(told)).status_code == 202
    return headers


PING = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"})


def test_a_session_is_there_for_its_token_only(port: int, writer: str, other: str) -> None:
    session = begun(port, writer)
    url = f"http://127.0.0.1:{port}/mcp"
    for thief in (other, TOKEN):
        stolen = {**session, "Authorization": f"Bearer {thief}"}
        posted = httpx2.post(url, headers=stolen, content=PING)
        unknown = httpx2.post(url, headers={**stolen, "Mcp-Session-Id": "0" * 32}, content=PING)
        assert (posted.status_code, unknown.status_code) == (404, 404)
        assert posted.json() == unknown.json()
        assert httpx2.get(url, headers=stolen).status_code == 404
        assert httpx2.delete(url, headers=stolen).status_code == 404

    assert httpx2.post(url, headers=session, content=PING).status_code == 200


def call(name: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    meta = {
        **DISCOVER["params"]["_meta"],
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    params = {"name": name, "arguments": args, "_meta": meta, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_a_state_is_of_use_to_its_token_only(port: int, writer: str, other: str) -> None:
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "quiz.name"}
    asked = answer(port, writer, headers, call("quiz.name", {})).json()["result"]
    given = {
        "requestState": asked["requestState"],
        "inputResponses": {"user_name": {"action": "accept", "content": {"name": "Ada"}}},
    }
    answers = {
        thief: answer(port, thief, headers, call("quiz.name", {}, **given)).json()
        for thief in (other, TOKEN, writer)
    }

    for thief in (other, TOKEN):
        assert answers[thief]["error"]["code"] == -32602
    assert answers[writer]["result"]["content"][0]["text"] == "Hello, Ada!"


@eras
def test_who_asked_is_told_what_came_of_it_and_nobody_else(
    root: Path, port: int, tokens: AgentTokens, era: str
) -> None:
    _, token = tokens.new(f"asks-{len(era)}", "writer")
    _, stranger = tokens.new(f"strange-{len(era)}", "writer")
    waits = talk(port, called("demo.asks", WRITE), era=era, token=token)
    execution_id = waits.structured_content["execution_id"]
    resume = called("resume", {"execution_id": execution_id})
    missing = called("resume", {"execution_id": execution_id[:-1] + "0"})

    refused = [talk(port, resume, era=era, token=one) for one in (stranger, TOKEN)]
    unknown = talk(port, missing, era=era, token=stranger)
    Project.open(root).approvals().approve(execution_id)
    done = talk(port, resume, era=era, token=token)
    tokens.revoke(f"asks-{len(era)}")
    _, later = tokens.new(f"asks-{len(era)}", "writer")
    again = talk(port, resume, era=era, token=later)

    assert {one.structured_content["error"] for one in refused} == {"unknown_execution"}
    assert unknown.structured_content["error"] == "unknown_execution"
    assert done.structured_content == {"written": "a.txt"}
    assert again.structured_content == done.structured_content


@eras
def test_only_who_has_a_tool_hears_of_it(
    root: Path, port: int, reader: str, writer: str, era: str
) -> None:
    told: dict[str, int] = {"reader": 0, "writer": 0}
    ready = {who: anyio.Event() for who in told}
    heard = anyio.Event()

    async def listens(who: str, token: str) -> None:
        async def hear(message: Any) -> None:
            if "tools/list_changed" in str(message):
                told[who] += 1
                heard.set()

        async def said(client: Client) -> None:
            async with listening(client, era):
                await names(client)
                ready[who].set()
                with anyio.fail_after(20):
                    await heard.wait()
                await anyio.sleep(0.5)

        await say(port, said, era=era, token=token, hears=hear)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(listens, "reader", reader)
            group.start_soon(listens, "writer", writer)
            for one in ready.values():
                await one.wait()
            toolset = root / "toolsets/quiz/toolset.yaml"
            more = f"  - {{id: more{len(era)}, entrypoint: tools.quiz:can}}\n"
            toolset.write_text(toolset.read_text() + more)

    anyio.run(main)
    assert told["writer"] >= 1
    assert told["reader"] == 0


# Chats


def ways(chat_id: str) -> dict[str, tuple[str, Callable[[Client], Awaitable[Any]]]]:
    """Return the ways to name a chat for a call, each with the address for it."""
    named: Any = {"covalt-git/chat": chat_id}
    return {
        "argument": ("", called("workspace.list_files", {"covalt_chat": chat_id})),
        "meta": ("", called("workspace.list_files", {}, meta=named)),
        "address": (f"?chat={chat_id}", called("workspace.list_files", {})),
        "writing": (f"?chat={chat_id}", called("demo.write", WRITE)),
        "branching": ("", called("workspace.branch", {"name": "b", "covalt_chat": chat_id})),
    }


@pytest.mark.parametrize("way", ways("c1"))
def test_the_chat_of_another_is_one_that_does_not_exist(
    root: Path, port: int, tokens: AgentTokens, other: str, way: str
) -> None:
    _, stranger = tokens.new(f"by-{way}", "writer")  # who has none that could be near
    with Project.open(root).chats.new() as persons:
        pass
    others = chat_of(talk(port, called("demo.write", WRITE), era=MODERN, token=other))
    said = []
    for chat_id in (others, persons.id, "c99999"):
        query, ask = ways(chat_id)[way]
        result = talk(port, ask, era=MODERN, token=stranger, query=query)
        assert result.is_error
        said.append(text(result).replace(chat_id, "IT"))

    assert len({*said}) == 1, said
    assert "unknown_chat" in said[0]
    query, ask = ways(others)["writing"]
    for token in (other, TOKEN):  # whose it is, and the person, who has all
        result = talk(port, ask, era=MODERN, token=token, query=query)
        assert (result.is_error, chat_of(result)) == (False, others)


def test_the_files_of_anothers_chat_are_no_resources(port: int, writer: str, other: str) -> None:
    made = talk(port, called("demo.write", WRITE), era=MODERN, token=other)
    manifest = made.meta["covalt-git/manifest"]
    uris = [
        f"covalt-git://chats/{chat_of(made)}/files/a.txt",
        f"covalt-git://chats/{chat_of(made)}/manifests/{manifest}",
        f"covalt-git://chats/{chat_of(made)}/manifests/{manifest}/files/a.txt",
    ]

    async def reads(client: Client) -> list[str]:
        told = []
        for uri in uris:
            try:
                await client.read_resource(uri)
                told.append("read")
            except MCPError as error:
                told.append(error.error.message.replace(uri, "IT"))
        return told

    async def misses(client: Client) -> str:
        with pytest.raises(MCPError) as missing:
            await client.read_resource("covalt-git://chats/c99999/files/a.txt")
        return missing.value.error.message.replace("covalt-git://chats/c99999/files/a.txt", "IT")

    unknown = talk(port, misses, era=MODERN, token=writer)
    for query in ("", f"?chat={chat_of(made)}"):
        assert talk(port, reads, era=MODERN, token=writer, query=query) == [unknown] * 3
    assert talk(port, reads, era=MODERN, token=other) == ["read"] * 3
    assert talk(port, reads, era=MODERN) == ["read"] * 3


@eras
def test_a_token_of_one_chat_opens_that_and_no_other(
    root: Path, port: int, tokens: AgentTokens, other: str, era: str
) -> None:
    with Project.open(root).chats.new() as chat:
        chat_id, made_at = chat.id, chat.card().created_at
    others = chat_of(talk(port, called("demo.write", WRITE), era=MODERN, token=other))
    _, token = tokens.new(f"one-{len(era)}", "writer", chat=(chat_id, made_at))

    done = talk(port, called("demo.write", WRITE), era=era, token=token)
    named = [
        talk(port, called("demo.write", WRITE), era=era, token=token, query=f"?chat={one}")
        for one in (others, "c99999")
    ]

    assert chat_of(done) == chat_id
    assert [one.is_error for one in named] == [True, True]
    assert text(named[0]).replace(others, "IT") == text(named[1]).replace("c99999", "IT")

    async def reads(client: Client) -> None:
        await client.read_resource(f"covalt-git://chats/{chat_id}/files/a.txt")
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource(f"covalt-git://chats/{others}/files/a.txt")

    talk(port, reads, era=era, token=token)
    delete(Project.open(root).chats, chat_id)
    Project.open(root).chats.new(chat_id).store.close()
    later = talk(port, called("workspace.list_files", {}), era=era, token=token)
    assert "unknown_chat" in text(later)


def test_an_agent_goes_on_in_its_chat_by_a_later_token(port: int, tokens: AgentTokens) -> None:
    _, token = tokens.new("rotates", "writer")
    first = talk(port, called("demo.write", WRITE), era=MODERN, token=token)
    tokens.revoke("rotates")
    _, later = tokens.new("rotates", "writer")
    second = talk(
        port, called("demo.write", WRITE), era=MODERN, token=later, query=f"?chat={chat_of(first)}"
    )

    assert chat_of(second) == chat_of(first)
    assert not second.is_error


# The end of a token


def assert_refused(answered: httpx2.Response, port: int) -> None:
    assert answered.status_code == 401, answered.text
    assert answered.json()["error"] == "no_token"
    told = answered.headers["www-authenticate"]
    assert 'error="invalid_token"' in told
    metadata = f"http://127.0.0.1:{port}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{metadata}"' in told


def test_a_revoked_token_is_refused_at_once_in_its_session_too(
    port: int, tokens: AgentTokens
) -> None:
    _, token = tokens.new("short", "writer")
    session = begun(port, token)
    url = f"http://127.0.0.1:{port}/mcp"
    assert httpx2.post(url, headers=session, content=PING).status_code == 200

    tokens.revoke("short")

    assert_refused(httpx2.post(url, headers=session, content=PING), port)
    assert_refused(httpx2.get(url, headers=session), port)
    assert_refused(answer(port, token), port)
    renewed = {**session, "Authorization": f"Bearer {tokens.new('short', 'writer')[1]}"}
    assert httpx2.post(url, headers=renewed, content=PING).status_code == 404


def test_an_expired_token_is_refused(port: int, tokens: AgentTokens) -> None:
    _, token = tokens.new("brief", "writer", lasts=timedelta(seconds=1))
    session = begun(port, token)
    url = f"http://127.0.0.1:{port}/mcp"
    answered = httpx2.post(url, headers=session, content=PING)
    assert answered.status_code == 200
    end = time.monotonic() + 10
    while answered.status_code == 200 and time.monotonic() < end:
        answered = httpx2.post(url, headers=session, content=PING)

    assert_refused(answered, port)


@eras
def test_what_a_revoked_token_has_open_ends(
    root: Path, port: int, tokens: AgentTokens, era: str
) -> None:
    name = f"open-{len(era)}"
    _, token = tokens.new(name, "writer")
    begun_calls: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - the SDK's names
        begun_calls.append(progress)
        await run_sync(tokens.revoke, name)

    async def said(client: Client) -> Any:
        return await client.call_tool("demo.slow", {}, progress_callback=hear)

    async def main() -> None:
        with anyio.fail_after(20), suppress(ExceptionGroup, MCPError):
            result = await say(port, said, era=era, token=token)
            assert result.is_error

    anyio.run(main)
    assert begun_calls == [1]
    records = [
        record
        for chat_id in Project.open(root).chats.ids()
        for record in _records_by(root, chat_id, f"agent:{name}")
    ]
    assert ['"status":"error"' in one for one in records] == [True]


def _records_by(root: Path, chat_id: str, agent: str) -> list[str]:
    with Project.open(root).chats.open(chat_id) as chat:
        messages = [chat.store.read_commit(oid).message for oid in chat.reachable()]
    return [one for one in messages if f'"by":"{agent}"' in one]


def test_a_stream_that_a_revoked_token_has_open_is_closed(port: int, tokens: AgentTokens) -> None:
    _, token = tokens.new("streams", "writer")
    session = begun(port, token)
    listen = {
        **DISCOVER,
        "method": "subscriptions/listen",
        "params": {**DISCOVER["params"], "notifications": {"toolsListChanged": True}},
    }
    modern = {**USUAL, "Authorization": f"Bearer {token}", "Mcp-Method": "subscriptions/listen"}
    url = f"http://127.0.0.1:{port}/mcp"
    with (
        httpx2.Client(timeout=10) as http,
        http.stream("GET", url, headers=session) as first,
        http.stream("POST", url, headers=modern, content=json.dumps(listen)) as second,
    ):
        assert (first.status_code, second.status_code) == (200, 200)
        tokens.revoke("streams")
        ended = [b"".join(one.iter_raw()) for one in (first, second)]  # else they time out

    assert b"acknowledged" in ended[1]


# Forgeries


def test_no_forged_token_opens_it(port: int, tokens: AgentTokens, writer: str) -> None:
    token = next(one for one in tokens.all() if one.name == "writes")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    forged = {
        "null",
        token.id,
        token.name,
        token.agent,
        token.digest,
        token.digest.partition(":")[2],
        writer.lower(),
        writer.upper(),
        writer.removeprefix("cvg_"),
        f"{TOKEN}{writer}",
        f"{writer},{writer}",
        f"{writer} {TOKEN}",
        f"{TOKEN},{writer}",
        f'"{writer}"',
        *(writer[:end] for end in range(1, len(writer), 4)),
        *(writer + one for one in letters[::4]),
        *(
            writer[:at] + letters[letters.find(writer[at]) - 9] + writer[at + 1 :]
            for at in range(len(writer))
        ),
    }
    headers = [{"Authorization": f"Bearer {one}"} for one in sorted(forged)]
    headers += [
        {"Authorization": writer},
        {"Authorization": f"Basic {writer}"},
        {"Authorization": f"Bearer{writer}"},
        {"Authorization": "", "Cookie": f"covalt_git_{port}={writer}"},
        {"Authorization": "", "X-Api-Key": writer},
    ]
    accepted = []
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http:
        for one in headers:
            answered = http.post("/mcp", headers={**USUAL, **one}, content=json.dumps(DISCOVER))
            if answered.status_code != 401:
                accepted.append(one)
            assert writer not in answered.text + str(answered.headers)
        twice = [
            *USUAL.items(),
            ("Authorization", "Bearer x"),
            ("Authorization", f"Bearer {writer}"),
        ]
        assert http.post("/mcp", headers=twice, content=json.dumps(DISCOVER)).status_code == 401

    assert len(headers) > 80
    assert accepted == []
    assert answer(port, writer).status_code == 200


def test_a_token_is_taken_where_it_may_come_from_only(port: int, writer: str) -> None:
    for header, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        assert answer(port, writer, header).status_code == status


def test_the_tokens_of_a_deleted_folder_are_gone(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    token = AgentTokens(root).new("reads", "reader")[1]
    serving = served(root)
    port = next(serving)
    before = answer(port, token).status_code
    (root / "data").rename(tmp_path / "gone")
    after = answer(port, token).status_code
    next(serving, None)

    assert (before, after) == (200, 401)


def test_more_agents_than_threads_are_served(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    made = [AgentTokens(root).new(f"a{number}", "reader")[1] for number in range(45)]
    serving = served(root)
    port = next(serving)

    async def main() -> list[list[str]]:
        found: list[list[str]] = []

        async def one(token: str) -> None:
            found.append(await say(port, names, era=MODERN, token=token))

        async with anyio.create_task_group() as group:
            for token in made:
                group.start_soon(one, token)
        return found

    found = anyio.run(main)
    next(serving, None)
    assert found == [["resume", "demo.read", "workspace.list_files", "workspace.read_file"]] * 45


def test_the_command_line_lets_an_agent_in_and_out_of_a_server_that_runs(
    root: Path, port: int
) -> None:
    def covalt(*args: str) -> Any:
        done = run("-C", str(root), *args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    chat_id = covalt("chat", "new")["id"]
    made = covalt("token", "new", "--role", "writer", "--name", "typed", "--chat", chat_id)
    done = talk(port, called("demo.write", WRITE), era=MODERN, token=made["token"])
    covalt("token", "revoke", "typed")

    assert chat_of(done) == chat_id
    assert_refused(answer(port, made["token"]), port)
