"""``/mcp`` of a served project: the server's own token, and agent tokens, each with its role and chats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from anyio.to_thread import run_sync
from mcp import Client, MCPError
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth

from covalt_git import timestamps
from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.project import Project
from covalt_git.serving import mcp_endpoint
from covalt_git.workspaces.deleting import delete
from covalt_server.app import create_app
from tests.mcp_client import (
    CONFIG,
    VERSIONS,
    Progress,
    ToolNews,
    add_toolset,
    commits,
    listening,
    make_project,
    refused,
    text,
    tool_names,
    versions,
)
from tests.uvicorn_server import TOKEN, call_over_http, say_over_http, served, talk_over_http

WRITE = {"path": "a.txt", "content": "hi"}
READER_TOOLS = ["resume", "demo.read", "workspace.list_files", "workspace.read_file"]
WELL_KNOWN = "/.well-known/oauth-protected-resource"
ADA = {"action": "accept", "content": {"name": "Ada"}}
HEADED = """\
id: headed
name: Headed
version: "1"
tools:
  - id: look
    entrypoint: tools.headed:look
    input_schema:
      type: object
      properties: {region: {type: string, x-mcp-header: Region}}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    roles = '  writer: {allow: ["demo.*", "quiz.*", "workspace.**"]}\n'
    root = make_project(tmp_path_factory.mktemp("served") / "project", "quiz", roles=roles)
    add_toolset(root, "headed", HEADED, "def look(region: str) -> str:\n    return region\n")
    return root


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with served(root) as port:
        yield port


@pytest.fixture(scope="module")
def tokens(root: Path) -> AgentTokens:
    return AgentTokens(root)


@pytest.fixture
def new_token(tokens: AgentTokens) -> Callable[..., str]:
    """Make a token of a new agent of the role ``writer``, which ends with the module."""

    def new(name: str = "", **options: Any) -> str:
        return tokens.new(name or f"agent-{len(tokens.all())}", "writer", **options)[1]

    return new


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


def chat_of(result: Any) -> str:
    chat_id: str = result.meta["covalt-git/chat"]
    return chat_id


# Requests over HTTP without the SDK


def request(method: str = "server/discover", **params: Any) -> dict[str, Any]:
    """Return a request of 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSIONS[0],
        "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def headers_of(body: dict[str, Any], token: str) -> dict[str, str]:
    name = body["params"].get("name")
    return {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Authorization": f"Bearer {token}",
        "MCP-Protocol-Version": VERSIONS[0],
        "Mcp-Method": body["method"],
        **({"Mcp-Name": name} if name else {}),
    }


def post(
    port: int,
    body: dict[str, Any] | None = None,
    *,
    token: str = TOKEN,
    query: str = "",
    **headers: str | None,
) -> httpx2.Response:
    """Return the answer to a request with changed headers; None removes one."""
    body = body or request()
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {**headers_of(body, token), **changed}
    url = f"http://127.0.0.1:{port}/mcp{query}"
    kept = {name: value for name, value in sent.items() if value is not None}
    return httpx2.post(url, headers=kept, json=body, timeout=30)


class Session:
    """A session of 2025-11-25."""

    def __init__(self, port: int, token: str) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.headers = headers_of(request(), token)
        del self.headers["Mcp-Method"]
        self.headers["MCP-Protocol-Version"] = "2025-11-25"
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        }
        made = self.send("initialize", id=1, params=params)
        self.headers["Mcp-Session-Id"] = made.headers["mcp-session-id"]
        assert self.send("notifications/initialized").status_code == 202

    def send(self, method: str, *, headers: Any = None, **more: Any) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "method": method, **more}
        return httpx2.post(self.url, headers={**self.headers, **(headers or {})}, json=body)

    def ping(self, **headers: str) -> httpx2.Response:
        renamed = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send("ping", id=2, headers=renamed)


# The server's own token


def test_the_role_of_the_server_is_that_of_its_token(root: Path) -> None:
    with served(root, "reader") as port:
        assert talk_over_http(port, tool_names) == READER_TOOLS


@versions
def test_a_url_chooses_the_style_of_names_and_the_mode(port: int, version: str) -> None:
    async def fails(client: Client) -> str:
        return (await refused(client.list_tools())).message

    names = partial(talk_over_http, port, tool_names, version=version)
    assert "demo_write" in names(query="?names=underscore")
    assert names(query="?names=underscore&mode=search") == [
        "call_tool",
        "read_tool",
        "resume",
        "search_tools",
    ]
    assert "'long'" in talk_over_http(port, fails, version=version, query="?names=long")


@versions
def test_progress_answers_and_results_cross_http(root: Path, port: int, version: str) -> None:
    progress = Progress()

    async def answer(_: Any, __: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def say(client: Client) -> Any:
        await client.call_tool("demo.steps", {}, progress_callback=progress)
        assert '["Ada", "Ada"]' in text(await client.call_tool("quiz.rounds", {}))
        return await client.call_tool("demo.write", WRITE)

    callbacks = {"elicitation_callback": answer}
    result = talk_over_http(port, say, version=version, callbacks=callbacks)

    assert progress.reports == [(1, 2, "first"), (2, 2, "last")]
    assert commits(root, chat_of(result))[0].id == result.meta["covalt-git/manifest"]


@pytest.mark.parametrize(
    ("header", "status"), [("eu", 200), ("=?base64?ZXU=?=", 200), ("us", 400), (None, 400)]
)
def test_a_header_of_an_argument_must_equal_the_argument(
    port: int, header: str | None, status: int
) -> None:
    talk_over_http(port, tool_names)  # answered once the server has read the schemas
    body = request("tools/call", name="headed_look", arguments={"region": "eu"})

    answer = post(port, body, query="?names=underscore", Mcp_Param_Region=header)

    assert answer.status_code == status, answer.text


def test_each_session_has_its_own_chat(port: int) -> None:
    async def say(client: Client) -> set[str]:
        return {chat_of(await client.call_tool("demo.steps", {})) for _ in range(2)}

    (first,), (second,) = (talk_over_http(port, say, version="legacy") for _ in range(2))

    assert first != second


def test_a_client_without_a_session_names_its_chat(root: Path, port: int) -> None:
    async def say(client: Client) -> list[str]:
        tool = {one.name: one for one in (await client.list_tools()).tools}["demo.write"]
        assert "covalt_chat" in tool.input_schema["properties"]
        first = await client.call_tool("demo.write", WRITE)
        assert "covalt_chat" in text(first)
        by_argument = {**WRITE, "path": "b", "covalt_chat": chat_of(first)}
        second = await client.call_tool("demo.write", by_argument)
        meta: Any = {"covalt-git/chat": chat_of(first)}
        third = await client.call_tool("demo.write", {**WRITE, "path": "c"}, meta=meta)
        return [chat_of(one) for one in (first, second, third)]

    (chat_id,) = {*talk_over_http(port, say)}

    with Project.open(root).chats.open(chat_id) as chat:
        assert [*chat.files(chat.head())] == ["a.txt", "b", "c"]


@versions
def test_a_url_names_the_chat_of_all_calls(root: Path, port: int, version: str) -> None:
    with Project.open(root).chats.new() as chat:
        chat_id = chat.id

    async def say(client: Client) -> Any:
        tool = {one.name: one for one in (await client.list_tools()).tools}["demo.steps"]
        assert "covalt_chat" not in tool.input_schema.get("properties", {})
        return await client.call_tool("demo.steps", {})

    result = talk_over_http(port, say, version=version, query=f"?chat={chat_id}")

    assert chat_of(result) == chat_id


@versions
def test_a_call_that_requires_approval_leads_to_its_page(
    root: Path, port: int, version: str
) -> None:
    urls: list[str] = []

    async def visit(_: Any, params: Any) -> types.ElicitResult:
        urls.append(params.url)
        await run_sync(Project.open(root).approvals().approve, params.url.rpartition("/")[2])
        return types.ElicitResult(action="accept")

    callbacks = {"elicitation_callback": visit}
    result = call_over_http(port, "demo.asks", WRITE, version=version, callbacks=callbacks)

    assert result.structured_content == {"written": "a.txt"}
    (url,) = urls
    assert url.startswith(f"http://127.0.0.1:{port}/approvals/")
    assert TOKEN not in url
    assert httpx2.get(url).status_code == 401
    assert httpx2.get(url, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_one_request_of_2026_07_28_needs_no_session(port: int) -> None:
    answer = post(port)

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json()["result"]["supportedVersions"] == ["2026-07-28"]


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ({"Authorization": ""}, 401, "no_token"),
        ({"Authorization": "Bearer wrong"}, 401, "no_token"),
        ({"Authorization": "", "Cookie": f"covalt_git_0={TOKEN}"}, 401, "no_token"),
        ({"Host": "evil.example"}, 421, "wrong_host"),
        ({"Origin": "https://evil.example"}, 403, "wrong_origin"),
        ({"Origin": "null"}, 403, "wrong_origin"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "wrong_origin"),
    ],
)
def test_a_request_without_token_or_from_another_site_is_refused(
    port: int, writer: str, headers: dict[str, str], status: int, error: str
) -> None:
    for method, token in (("POST", TOKEN), ("GET", TOKEN), ("DELETE", TOKEN), ("POST", writer)):
        sent = {**headers_of(request(), token), **headers}
        body = json.dumps(request()) if method == "POST" else None
        answer = httpx2.request(method, f"http://127.0.0.1:{port}/mcp", headers=sent, content=body)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"] == error
        assert ("www-authenticate" in answer.headers) is (status == 401)
        assert token not in answer.text


# Resource metadata


def test_the_metadata_of_the_resources_is_public(port: int, writer: str) -> None:
    for path in ("", "/mcp"):
        for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
            for sent in ({"Host": host}, {"Host": host, "Authorization": f"Bearer {writer}"}):
                answer = httpx2.get(f"http://127.0.0.1:{port}{WELL_KNOWN}{path}", headers=sent)
                assert answer.status_code == 200, answer.text
                assert answer.headers["content-type"] == "application/json"
                assert answer.json() == {
                    "resource": f"http://{host}{path}",
                    "resource_name": "covalt-git",
                    "bearer_methods_supported": ["header"],
                }


def test_a_refusal_without_token_names_the_metadata(port: int) -> None:
    answer = post(port, Authorization=None)

    url = extract_resource_metadata_from_www_auth(answer)
    assert url == f"http://127.0.0.1:{port}{WELL_KNOWN}/mcp"
    head = httpx2.head(url)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/mcp", {"Host": "evil.example"}, 421),
        ("GET", "/mcp", {"Origin": "https://evil.example"}, 403),
        ("GET", "/git", {}, 404),
        ("GET", "/mcp/", {}, 404),
        ("POST", "/mcp", {}, 405),
    ],
)
def test_other_requests_for_metadata_are_refused(
    port: int, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    url = f"http://127.0.0.1:{port}{WELL_KNOWN}{path}"

    assert httpx2.request(method, url, headers=headers).status_code == status


# Roles of agents


@versions
def test_agents_have_the_tools_of_their_roles(
    port: int, reader: str, writer: str, version: str
) -> None:
    async def read(client: Client) -> None:
        assert await tool_names(client) == READER_TOOLS
        hidden = await refused(client.call_tool("demo.write", WRITE))
        missing = await refused(client.call_tool("demo.wrote", WRITE))
        assert hidden.message == missing.message.replace("wrote", "write")

    names = talk_over_http(port, tool_names, version=version, token=writer)
    talk_over_http(port, read, version=version, token=reader)

    assert {"demo.write", "workspace.branch"} < {*names}


@versions
def test_an_agent_is_notified_of_changes_of_its_own_tools_alone(
    root: Path, port: int, reader: str, writer: str, version: str
) -> None:
    news = {"reader": ToolNews(), "writer": ToolNews()}
    subscribed = {name: anyio.Event() for name in news}
    changed = anyio.Event()

    async def listen(name: str, token: str) -> None:
        async def say(client: Client) -> None:
            async with listening(client, version):
                await tool_names(client)
                subscribed[name].set()
                if name == "writer":
                    await news[name].wait()
                    changed.set()
                with anyio.fail_after(20):
                    await changed.wait()
                await anyio.sleep(0.1)
                assert news[name].has_come() == (name == "writer")

        handler = news[name].handle
        await say_over_http(port, say, version=version, token=token, message_handler=handler)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(listen, "reader", reader)
            group.start_soon(listen, "writer", writer)
            for event in subscribed.values():
                await event.wait()
            manifest = root / "toolsets" / "quiz" / "toolset.yaml"
            tool = f"  - {{id: more{len(version)}, entrypoint: tools.quiz:can}}\n"
            manifest.write_text(manifest.read_text() + tool)

    anyio.run(main)


@versions
def test_records_name_the_agent(root: Path, port: int, writer: str, version: str) -> None:
    done = call_over_http(port, "demo.write", WRITE, version=version, token=writer)
    waits = call_over_http(port, "demo.asks", WRITE, version=version, token=writer)

    assert commits(root, chat_of(done))[0].record.by == "agent:writes"
    with Project.open(root).chats.open(chat_of(done)) as chat:
        assert chat.card().made_by == "agent:writes"
    approval = Project.open(root).approvals().find(waits.structured_content["execution_id"])
    assert (approval.by, approval.role, approval.state) == ("agent:writes", "writer", "pending")


def test_a_token_whose_role_or_file_is_gone_is_refused(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    config = root / "covalt.yaml"
    token = AgentTokens(root).new("reads", "reader")[1]
    with served(root) as port:
        assert post(port, token=token).status_code == 200
        config.write_text("version: 1\nroles: {owner: {admin: true}}\n")
        gone = post(port, token=token)
        assert (gone.status_code, gone.json()["error"]) == (403, "role_gone")
        config.write_text(CONFIG)
        assert post(port, token=token).status_code == 200
        config.write_text("roles: [")
        assert "error" in post(port, request("tools/list"), token=token).json()
        config.unlink()
        assert "error" in post(port, request("tools/list"), token=token).json()
        config.write_text(CONFIG)
        (root / "data").rename(tmp_path / "gone")
        assert post(port, token=token).status_code == 401


# What an agent's token does not open


def routes(root: Path) -> list[tuple[str, str]]:
    """Return the method and path of every route of the pages and the API, and of some beside them."""
    rules = create_app(root, token=TOKEN, port=1).url_map.iter_rules()
    found = {
        (method, re.sub(r"<[^>]*>", "x", rule.rule))
        for rule in rules
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
    }
    git = {("GET", "/git/c1/info/refs?service=git-upload-pack")}
    git |= {("POST", "/git/c1/git-receive-pack"), ("GET", "/nowhere"), ("GET", "/mcpx")}
    return sorted(found | git | {("GET", "/.well-known/x")})


def test_an_agent_token_opens_no_page_no_api_and_no_git(root: Path, port: int, writer: str) -> None:
    ways: list[dict[str, Any]] = [
        {"headers": {"Authorization": httpx2.BasicAuth("x", writer)._auth_header}},
        {"headers": {"Cookie": f"covalt_git_{port}={writer}"}},
        {"params": {"token": writer}},
    ]
    bearer: dict[str, Any] = {"headers": {"Authorization": f"Bearer {writer}"}}
    answers = []
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http:
        for number, (method, path) in enumerate(routes(root)):
            way = ways[number % len(ways)]
            for one in (bearer, ways[0] if "?" in path else way):
                answer = http.request(method, path, **one)
                answers.append((method, path, answer.status_code))
                assert writer not in answer.text

    assert len(answers) > 150
    assert [one for one in answers if one[2] != 401] == []


def test_an_agent_cannot_approve_its_own_call(root: Path, port: int, writer: str) -> None:
    waits = call_over_http(port, "demo.asks", WRITE, token=writer)
    execution_id = waits.structured_content["execution_id"]
    url, page = f"http://127.0.0.1:{port}", f"/approvals/{execution_id}"
    headers = {"Authorization": f"Bearer {writer}"}

    for path in (page, f"{page}/approve", f"{page}/deny", "/api/approve_call"):
        body = {"execution_id": execution_id}
        for sent in ({"json": body}, {"data": body}):
            answer = httpx2.post(f"{url}{path}", headers=headers, **sent)  # type: ignore[arg-type]
            assert answer.status_code == 401

    assert Project.open(root).approvals().find(execution_id).state == "pending"


def test_a_session_is_unknown_to_other_tokens(port: int, writer: str, other: str) -> None:
    session = Session(port, writer)
    for thief in (other, TOKEN):
        stolen = {**session.headers, "Authorization": f"Bearer {thief}"}
        answer = session.ping(Authorization=f"Bearer {thief}")
        unknown = session.ping(Authorization=f"Bearer {thief}", Mcp_Session_Id="0" * 32)
        assert (answer.status_code, answer.json()) == (404, unknown.json())
        assert httpx2.get(session.url, headers=stolen).status_code == 404
        assert httpx2.delete(session.url, headers=stolen).status_code == 404

    assert session.ping().status_code == 200


def test_a_request_state_is_invalid_with_other_tokens(port: int, writer: str, other: str) -> None:
    call = partial(request, "tools/call", name="quiz.name", arguments={})
    state = post(port, call(), token=writer).json()["result"]["requestState"]
    answered = call(requestState=state, inputResponses={"user_name": ADA})

    for thief in (other, TOKEN):
        assert post(port, answered, token=thief).json()["error"]["code"] == -32602
    result = post(port, answered, token=writer).json()["result"]
    assert result["content"][0]["text"] == "Hello, Ada!"


def test_a_call_is_resumed_by_the_agent_that_made_it_alone(
    root: Path, port: int, tokens: AgentTokens, new_token: Callable[..., str], other: str
) -> None:
    token = new_token("asks")
    waits = call_over_http(port, "demo.asks", WRITE, token=token)
    execution_id = waits.structured_content["execution_id"]

    def resume(token: str, execution_id: str = execution_id) -> Any:
        args = {"execution_id": execution_id}
        return call_over_http(port, "resume", args, token=token).structured_content

    for thief in (other, TOKEN):
        assert resume(thief)["error"] == "unknown_execution"
    assert resume(token, execution_id[:-1] + "0")["error"] == "unknown_execution"
    Project.open(root).approvals().approve(execution_id)
    assert resume(token) == {"written": "a.txt"}
    tokens.revoke("asks")
    assert resume(new_token("asks")) == {"written": "a.txt"}


# Chats of agents

NAMING: dict[str, tuple[str, str, dict[str, Any]]] = {
    "argument": ("", "workspace.list_files", {"covalt_chat": "CHAT"}),
    "url": ("?chat=CHAT", "workspace.list_files", {}),
    "writing": ("?chat=CHAT", "demo.write", WRITE),
    "branching": ("", "workspace.branch", {"name": "b", "covalt_chat": "CHAT"}),
}


@pytest.fixture(scope="module")
def chat_of_other(port: int, other: str) -> Any:
    """The first result in a chat of the agent ``other``."""
    return call_over_http(port, "demo.write", WRITE, token=other)


@pytest.mark.parametrize("naming", [*NAMING, "meta"])
def test_a_chat_of_another_is_unknown(
    root: Path, port: int, new_token: Callable[..., str], chat_of_other: Any, naming: str
) -> None:
    stranger = new_token()  # it has no chats whose names could be suggested
    with Project.open(root).chats.new() as chat:
        of_the_user = chat.id
    answers = set()
    for chat_id in (chat_of(chat_of_other), of_the_user, "c99999"):
        query, tool, args = NAMING.get(naming, ("", "workspace.list_files", {}))
        args = json.loads(json.dumps(args).replace("CHAT", chat_id))
        meta: Any = {"covalt-git/chat": chat_id} if naming == "meta" else None

        async def say(client: Client, tool: str = tool, args: Any = args, meta: Any = meta) -> Any:
            return await client.call_tool(tool, args, meta=meta)

        query = query.replace("CHAT", chat_id)
        result = talk_over_http(port, say, token=stranger, query=query)
        assert result.is_error
        answers.add(text(result).replace(chat_id, "CHAT"))

    (answer,) = answers
    assert answer.startswith("unknown_chat")


def test_the_owner_of_a_chat_and_the_user_work_in_it(
    port: int, tokens: AgentTokens, new_token: Callable[..., str]
) -> None:
    first = call_over_http(port, "demo.write", WRITE, token=new_token("rotates"))
    tokens.revoke("rotates")
    for token in (new_token("rotates"), TOKEN):  # a later token of the agent, and the user's
        query = f"?chat={chat_of(first)}"
        result = call_over_http(port, "demo.write", WRITE, token=token, query=query)
        assert (result.is_error, chat_of(result)) == (False, chat_of(first))


def test_files_and_commits_of_a_chat_of_another_are_unknown_resources(
    port: int, writer: str, other: str, chat_of_other: Any
) -> None:
    chat, commit = chat_of(chat_of_other), chat_of_other.meta["covalt-git/manifest"]
    place = f"covalt-git://chats/{chat}"
    uris = ["/files/a.txt", f"/manifests/{commit}", f"/manifests/{commit}/files/a.txt"]

    async def read(client: Client) -> None:
        for uri in uris:
            await client.read_resource(place + uri)

    async def miss(client: Client) -> None:
        for uri in [*uris, "/files/none"]:
            error = await refused(client.read_resource(place + uri))
            assert error.message == f"unknown resource {place + uri!r}"

    for query in ("", f"?chat={chat}", "?chat=c99999"):
        talk_over_http(port, miss, token=writer, query=query)
    for token in (other, TOKEN):
        talk_over_http(port, read, token=token)


@versions
def test_a_token_of_one_chat_opens_no_other(
    root: Path, port: int, new_token: Callable[..., str], chat_of_other: Any, version: str
) -> None:
    with Project.open(root).chats.new() as chat:
        chat_id, created_at = chat.id, chat.card().created_at
    token = new_token(chat=(chat_id, created_at))
    write = partial(call_over_http, port, "demo.write", WRITE, version=version, token=token)

    assert chat_of(write()) == chat_id
    others = chat_of(chat_of_other)
    named = [text(write(query=f"?chat={one}")).replace(one, "CHAT") for one in (others, "c99999")]
    assert named[0] == named[1]

    async def read(client: Client) -> None:
        await client.read_resource(f"covalt-git://chats/{chat_id}/files/a.txt")
        uri = f"covalt-git://chats/{others}/files/a.txt"
        assert (await refused(client.read_resource(uri))).code == -32602

    talk_over_http(port, read, version=version, token=token)
    delete(Project.open(root).chats, chat_id)
    Project.open(root).chats.new(chat_id).store.close()
    assert text(write()).startswith("unknown_chat")  # a new chat of the same name


# The end of a token


def assert_refused(answer: httpx2.Response, port: int) -> None:
    assert (answer.status_code, answer.json()["error"]) == (401, "no_token")
    challenge = answer.headers["www-authenticate"]
    assert 'error="invalid_token"' in challenge
    assert f'resource_metadata="http://127.0.0.1:{port}{WELL_KNOWN}/mcp"' in challenge


def test_a_revoked_token_is_refused_at_once_and_ends_its_session(
    port: int, tokens: AgentTokens, new_token: Callable[..., str]
) -> None:
    token = new_token("short")
    session = Session(port, token)
    tokens.revoke("short")

    assert_refused(session.ping(), port)
    assert_refused(httpx2.get(session.url, headers=session.headers), port)
    assert_refused(post(port, token=token), port)
    assert session.ping(Authorization=f"Bearer {new_token('short')}").status_code == 404


def test_an_expired_token_is_refused(
    port: int, new_token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_token(lasts=timedelta(hours=1))
    session = Session(port, token)
    assert session.ping().status_code == 200

    later = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr(timestamps, "now", lambda: timestamps.written(later))

    assert_refused(session.ping(), port)
    assert_refused(post(port, token=token), port)


@pytest.fixture
def brisk_port(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server that looks for revoked tokens all the time."""
    monkeypatch.setattr(mcp_endpoint, "LOOK_S", 0.02)
    with served(root) as port:
        yield port


@versions
def test_a_running_call_ends_when_its_token_is_revoked(
    root: Path, brisk_port: int, tokens: AgentTokens, new_token: Callable[..., str], version: str
) -> None:
    name = f"runs-{len(version)}"
    token = new_token(name)

    async def revoke(*_: Any, **__: Any) -> None:
        await run_sync(tokens.revoke, name)

    async def say(client: Client) -> None:
        result = await client.call_tool("demo.slow", {}, progress_callback=revoke)
        assert result.is_error

    async def main() -> None:
        with anyio.fail_after(20), suppress(ExceptionGroup, MCPError):
            await say_over_http(brisk_port, say, version=version, token=token)

    anyio.run(main)

    (call,) = [
        commit.record.call
        for chat_id in Project.open(root).chats.ids()
        for commit in commits(root, chat_id)
        if commit.record.by == f"agent:{name}"
    ]
    assert call is not None
    assert call.status == "error"


def test_open_streams_are_closed_when_their_token_is_revoked(
    brisk_port: int, tokens: AgentTokens, new_token: Callable[..., str]
) -> None:
    token = new_token("streams")
    session = Session(brisk_port, token)
    listen = request("subscriptions/listen", notifications={"toolsListChanged": True})
    with (
        httpx2.Client(timeout=10) as http,
        http.stream("GET", session.url, headers=session.headers) as first,
        http.stream("POST", session.url, headers=headers_of(listen, token), json=listen) as second,
    ):
        assert (first.status_code, second.status_code) == (200, 200)
        tokens.revoke("streams")
        received = [b"".join(one.iter_raw()) for one in (first, second)]  # else a timeout

    assert b"acknowledged" in received[1]


# Forged tokens


def test_no_forged_token_is_accepted(port: int, tokens: AgentTokens, writer: str) -> None:
    token = next(one for one in tokens.all() if one.name == "writes")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    forged = {
        *("null", token.id, token.name, token.agent, token.digest),
        *(token.digest.partition(":")[2], writer.lower(), writer.upper()),
        *(writer.removeprefix("cvg_"), f"{TOKEN}{writer}", f"{writer},{writer}"),
        *(f"{writer} {TOKEN}", f"{TOKEN},{writer}", f'"{writer}"'),
        *(writer[:end] for end in range(1, len(writer), 4)),
        *(writer + one for one in letters[::4]),
        *(
            writer[:at] + letters[letters.find(writer[at]) - 9] + writer[at + 1 :]
            for at in range(len(writer))
        ),
    }
    attempts: list[list[tuple[str, str]]] = [
        *([("Authorization", f"Bearer {one}")] for one in sorted(forged)),
        [("Authorization", writer)],
        [("Authorization", f"Basic {writer}")],
        [("Authorization", f"Bearer{writer}")],
        [("Cookie", f"covalt_git_{port}={writer}")],
        [("X-Api-Key", writer)],
        [("Authorization", "Bearer x"), ("Authorization", f"Bearer {writer}")],
    ]
    usual = headers_of(request(), "")
    del usual["Authorization"]
    accepted = []
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as http:
        for headers in attempts:
            answer = http.post("/mcp", headers=[*usual.items(), *headers], json=request())
            if answer.status_code != 401:
                accepted.append(headers)
            assert writer not in answer.text + str(answer.headers)

    assert len(attempts) > 80
    assert accepted == []
    assert post(port, token=writer).status_code == 200


def test_more_agents_than_threads_are_served(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    made = [AgentTokens(root).new(f"a{number}", "reader")[1] for number in range(45)]
    found: list[list[str]] = []

    async def list_tools(port: int, token: str) -> None:
        found.append(await say_over_http(port, tool_names, token=token))

    async def main(port: int) -> None:
        async with anyio.create_task_group() as group:
            for token in made:
                group.start_soon(list_tools, port, token)

    with served(root) as port:
        anyio.run(main, port)

    assert found == [READER_TOOLS] * 45


def test_commands_make_and_revoke_tokens_of_a_running_server(
    root: Path, port: int, cli: Callable[..., tuple[int, str]]
) -> None:
    with Project.open(root).chats.new() as chat:
        chat_id = chat.id
    args = ("--role", "writer", "--name", "typed", "--chat", chat_id, "--json")
    status, printed = cli("token", "new", *args)
    assert status == 0, printed
    token = json.loads(printed)["token"]

    assert chat_of(call_over_http(port, "demo.write", WRITE, token=token)) == chat_id
    assert cli("token", "revoke", "typed")[0] == 0
    assert_refused(post(port, token=token), port)
