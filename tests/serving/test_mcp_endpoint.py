"""``/mcp`` of a served project: the server's own token, and agent tokens, each with its role and chats."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
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
from covalt_server.app import create_app
from tests.examples import rest
from tests.mcp_client import (
    CONFIG,
    VERSIONS,
    Progress,
    ToolNews,
    add_toolset,
    by_turns,
    commits,
    error_of,
    listening,
    make_project,
    one_version,
    refused,
    request,
    text,
    tool_names,
    versions,
)
from tests.uvicorn_server import (
    PATIENCE_S,
    TOKEN,
    call_over_http,
    say_over_http,
    served,
    talk_over_http,
)

WRITE = {"path": "a.txt", "content": "hi"}
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
    root = make_project(tmp_path_factory.mktemp("served") / "project", "quiz", "show", roles=roles)
    add_toolset(root, "headed", HEADED, "def look(region: str) -> str:\n    return region\n")
    return root


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    """The port of a server that looks for revoked tokens all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcp_endpoint, "CLEANUP_S", 0.02)
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


ask = partial(httpx2.request, timeout=PATIENCE_S, verify=False)
"""Send a request; an SSL context, which plain HTTP does not use, would take 40 ms."""


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
    return ask("POST", url, headers=kept, json=body)


class Session:
    """A session of 2025-11-25, or of an older protocol version."""

    def __init__(self, port: int, token: str, version: str = "2025-11-25") -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.headers = headers_of(request(), token)
        del self.headers["Mcp-Method"]
        self.headers["MCP-Protocol-Version"] = version
        client = {"capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        params = {"protocolVersion": version, **client}
        made = self.send("initialize", id=1, params=params)
        self.headers["Mcp-Session-Id"] = made.headers["mcp-session-id"]
        assert self.send("notifications/initialized").status_code == 202

    def send(self, method: str, *, headers: Any = None, **more: Any) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "method": method, **more}
        return ask("POST", self.url, headers={**self.headers, **(headers or {})}, json=body)

    def ping(self, token: str | None = None, **headers: str) -> httpx2.Response:
        """Send a ping, with the session's own token unless another is given."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.send("ping", id=2, headers=headers)


# The server's own token


def test_a_url_chooses_the_style_of_names_and_the_mode(port: int) -> None:
    async def fails(client: Client) -> str:
        return (await refused(client.list_tools())).message

    names = partial(talk_over_http, port, tool_names)
    assert "demo_write" in names(query="?names=underscore")
    assert "search_tools" in names(query="?names=underscore&mode=search")
    assert "'long'" in talk_over_http(port, fails, query="?names=long")


@versions
def test_progress_answers_and_results_cross_http(
    root: Path, port: int, new_token: Callable[..., str], version: str
) -> None:
    progress = Progress()
    token = (
        new_token()
    )  # after a stream, the SDK uses a new connection, which tells no clients apart

    async def answer(_: Any, __: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def say(client: Client) -> Any:
        await client.call_tool("demo.steps", {}, progress_callback=progress)
        assert '["Ada", "Ada"]' in text(await client.call_tool("quiz.rounds", {}))
        return await client.call_tool("demo.write", WRITE)

    callbacks = {"elicitation_callback": answer}
    result = talk_over_http(port, say, version=version, token=token, callbacks=callbacks)

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


# Large results


@by_turns("mib", [0.5, 4])
def test_an_image_of_up_to_4_mib_reaches_the_client(port: int, version: str, mib: float) -> None:
    size = int(mib * (1 << 20))

    async def say(client: Client) -> tuple[Any, Any]:
        result = await client.call_tool("show.picture", {"size": size})
        link = next(one for one in result.content if one.type == "resource_link")
        return result, (await client.read_resource(link.uri)).contents[0]

    result, read = talk_over_http(port, say, version=version)

    image = result.content[0]
    assert len(base64.b64decode(image.data)) == len(base64.b64decode(read.blob)) == size


@by_turns("name", ["picture", "document"])
def test_a_large_file_is_only_linked_if_progress_was_streamed_before_it(
    port: int, version: str, name: str
) -> None:
    size, progress = 4 << 20, Progress()

    async def say(client: Client) -> Any:
        result = await client.call_tool(
            f"show.{name}", {"size": size, "steps": 2}, progress_callback=progress
        )
        links = [one for one in result.content if one.type == "resource_link"]
        assert {one.type for one in result.content} <= {"resource_link", "text"}
        contents = [(await client.read_resource(one.uri)).contents[0] for one in links]
        blobs = [one.blob for one in contents if isinstance(one, types.BlobResourceContents)]
        assert [len(base64.b64decode(one)) for one in blobs] == [size]
        assert len(links) == (1 if name == "picture" else 2)
        return await client.list_tools()  # the session goes on

    assert talk_over_http(port, say, version=version).tools
    assert progress.began.is_set()


# Clients without a session


def test_two_windows_of_a_host_never_share_a_workspace_silently(
    port: int, new_token: Callable[..., str]
) -> None:
    token = new_token()

    async def write(client: Client, content: str) -> str:
        args = {"path": "plan.md", "content": content}
        return chat_of(await client.call_tool("demo.write", args))

    async def both(first: Client) -> tuple[list[str], list[str]]:
        async def other(second: Client) -> tuple[list[str], list[str]]:
            chats: tuple[list[str], list[str]] = ([], [])
            for number in range(3):
                for window, client in enumerate((first, second)):
                    chats[window].append(await write(client, f"{window} {number}"))
            return chats

        return await say_over_http(port, other, token=token)

    first, second = talk_over_http(port, both, token=token)

    assert len({*first}) == len({*second}) == 1
    assert first[0] != second[0]


def test_a_request_that_several_windows_may_have_sent_must_name_its_chat(
    port: int, new_token: Callable[..., str]
) -> None:
    token = new_token()

    def call(number: Any, meta: Any = None, **args: str) -> Any:
        body = request("tools/call", name="demo.write", arguments={**WRITE, **args})
        body["params"]["_meta"] |= meta or {}
        # Each request has a connection of its own, as after a pause.
        return post(port, body | {"id": number}, token=token).json()["result"]

    def chat(result: Any) -> str:
        found: str = result["_meta"]["covalt-git/chat"]
        return found

    first = call(1)
    assert f"worked in the chat {chat(first)}" in call(2)["content"][-1]["text"]
    second = call(1)  # a client counts its requests, so this is another one
    assert chat(first) != chat(second)
    assert f'covalt_chat: "{chat(first)}"' in first["content"][-1]["text"]

    for number in (3, "2f0c7a", 99):
        unclear = call(number)
        (block,) = unclear["content"]
        assert block["text"].startswith("chat_needed: ")
        assert chat(first) in block["text"]
        assert chat(second) in block["text"]
    assert chat(call(2, covalt_chat=chat(first))) == chat(first)
    assert chat(call(99, covalt_chat="new")) not in {chat(first), chat(second)}

    a, b = ({"vscode.conversationId": one} for one in "ab")
    assert chat(call(50, a)) == chat(call(51, a)) != chat(call(52, b))
    listed = post(port, request("tools/call", name="workspace.list_files") | {"id": 7}, token=token)
    assert "chat_needed" in listed.text


def test_a_client_without_a_session_names_its_chat(
    port: int, tokens: AgentTokens, new_token: Callable[..., str]
) -> None:
    async def has_argument(client: Client) -> bool:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        return "covalt_chat" in tools["demo.write"].input_schema["properties"]

    def write(token: str, version: str = VERSIONS[0], **named: str) -> str:
        args = {**WRITE, **named}
        return chat_of(call_over_http(port, "demo.write", args, token=token, version=version))

    token = new_token("stateless")
    read = call_over_http(port, "workspace.list_files", token=token)
    assert error_of(read)["error"] == "no_chat"
    first = write(token)
    assert write(token, version="legacy") != first  # a session has a chat of its own
    assert write(token) != first
    tokens.revoke("stateless")
    token = new_token("stateless")  # the server has not cached this token

    assert write(token, covalt_chat=first) == first
    assert talk_over_http(port, has_argument, token=token)
    assert not talk_over_http(port, has_argument, token=token, query=f"?chat={first}")


@pytest.mark.requirement("toolshed-elicitation.2")
@one_version
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
    assert ask("GET", url).status_code == 401
    assert ask("GET", url, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ({"Authorization": ""}, 401, "no_token"),
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
        answer = ask(method, f"http://127.0.0.1:{port}/mcp", headers=sent, content=body)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"] == error
        assert ("www-authenticate" in answer.headers) is (status == 401)
        assert token not in answer.text


# Resource metadata


def test_a_refusal_without_token_names_the_public_metadata_of_the_resource(
    port: int, writer: str
) -> None:
    answer = post(port, Authorization=None)
    named = f"http://127.0.0.1:{port}{WELL_KNOWN}/mcp"
    assert extract_resource_metadata_from_www_auth(answer) == named
    assert (ask("HEAD", named).status_code, ask("HEAD", named).content) == (200, b"")
    assert ask("GET", named, headers={"Host": "evil.example"}).status_code == 421
    assert ask("GET", named, headers={"Origin": "https://evil.example"}).status_code == 403

    for path in ("", "/mcp"):
        for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
            for sent in ({"Host": host}, {"Host": host, "Authorization": f"Bearer {writer}"}):
                answer = ask("GET", f"http://127.0.0.1:{port}{WELL_KNOWN}{path}", headers=sent)
                assert answer.headers["content-type"] == "application/json"
                assert answer.json() == {
                    "resource": f"http://{host}{path}",
                    "resource_name": "covalt-git",
                    "bearer_methods_supported": ["header"],
                }


# Roles of agents


@one_version
def test_an_agent_is_notified_of_changes_of_its_own_tools_alone(
    root: Path, port: int, reader: str, writer: str, version: str
) -> None:
    manifest = root / "toolsets" / "quiz" / "toolset.yaml"
    tool = f"  - {{id: more{len(version)}, entrypoint: tools.quiz:can}}\n"
    hears, does_not_hear = ToolNews(), ToolNews()
    say = partial(say_over_http, port, version=version)

    async def change(client: Client) -> None:
        async with listening(client, version):
            assert "demo.write" in await tool_names(client)
            manifest.write_text(manifest.read_text() + tool)
            await hears.wait()

    async def listen(client: Client) -> None:
        async with listening(client, version):
            assert "demo.write" not in await tool_names(client)
            await say(change, token=writer, message_handler=hears.handle)
            await tool_names(client)  # so that earlier notifications have arrived

    anyio.run(partial(say, listen, token=reader, message_handler=does_not_hear.handle))

    assert not does_not_hear.has_come()


def test_records_name_the_agent(root: Path, port: int, writer: str) -> None:
    done = call_over_http(port, "demo.write", WRITE, token=writer)
    waits = call_over_http(port, "demo.asks", WRITE, token=writer)

    assert commits(root, chat_of(done))[0].record.by == "agent:writes"
    with Project.open(root).chats.open(chat_of(done)) as chat:
        assert chat.card().made_by == "agent:writes"
    approval = Project.open(root).approvals().find(error_of(waits)["execution_id"])
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
    """Return the method and path of every route of the pages and the API, and of some others."""
    rules = create_app(root, token=TOKEN, port=1).url_map.iter_rules()
    found = {
        (method, re.sub(r"<[^>]*>", "x", rule.rule))
        for rule in rules
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
    }
    git = {("GET", "/git/c1/info/refs?service=git-upload-pack")}
    git |= {("POST", "/git/c1/git-receive-pack"), ("GET", "/nowhere"), ("GET", "/mcpx")}
    return sorted(found | git | {("GET", "/.well-known/x")})


def of_each_kind(routes: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the first route of each method and first part of the path."""
    return [
        *{
            (method, path.split("/")[1].partition("?")[0]): (method, path)
            for method, path in reversed(routes)
        }.values()
    ]


@pytest.mark.parametrize(
    ("chosen_of", "least"),
    [
        pytest.param(of_each_kind, 20, id="each-kind"),
        pytest.param(list, 150, id="all", marks=pytest.mark.rest),
    ],
)
def test_an_agent_token_opens_no_page_no_api_and_no_git(
    root: Path,
    port: int,
    writer: str,
    chosen_of: Callable[[list[tuple[str, str]]], list[tuple[str, str]]],
    least: int,
) -> None:
    ways: list[dict[str, Any]] = [
        {"headers": {"Authorization": httpx2.BasicAuth("x", writer)._auth_header}},
        {"headers": {"Cookie": f"covalt_git_{port}={writer}"}},
        {"params": {"token": writer}},
    ]
    bearer: dict[str, Any] = {"headers": {"Authorization": f"Bearer {writer}"}}
    answers = []
    with httpx2.Client(verify=False, base_url=f"http://127.0.0.1:{port}") as http:
        for number, (method, path) in enumerate(chosen_of(routes(root))):
            way = ways[number % len(ways)]
            for one in (bearer, ways[0] if "?" in path else way):
                answer = http.request(method, path, **one)
                answers.append((method, path, answer.status_code))
                assert writer not in answer.text

    assert len(answers) > least
    assert [one for one in answers if one[2] != 401] == []


def test_an_agent_cannot_approve_its_own_call(root: Path, port: int, writer: str) -> None:
    waits = call_over_http(port, "demo.asks", WRITE, token=writer)
    execution_id = error_of(waits)["execution_id"]
    page = f"/approvals/{execution_id}"
    headers = {"Authorization": f"Bearer {writer}"}

    for path in (page, f"{page}/approve", f"{page}/deny", "/api/approve_call"):
        url, body = f"http://127.0.0.1:{port}{path}", {"execution_id": execution_id}
        assert ask("POST", url, headers=headers, json=body).status_code == 401
        assert ask("POST", url, headers=headers, data=body).status_code == 401

    assert Project.open(root).approvals().find(execution_id).state == "pending"


def test_a_session_is_unknown_to_other_tokens(port: int, writer: str, other: str) -> None:
    session = Session(port, writer)
    for thief in (other, TOKEN):
        stolen = {**session.headers, "Authorization": f"Bearer {thief}"}
        answer, unknown = session.ping(thief), session.ping(thief, **{"Mcp-Session-Id": "0" * 32})
        assert (answer.status_code, answer.json()) == (404, unknown.json())
        assert ask("GET", session.url, headers=stolen).status_code == 404
        assert ask("DELETE", session.url, headers=stolen).status_code == 404

    assert session.ping().status_code == 200


@pytest.mark.parametrize(
    ("version", "structured"),
    [("2025-03-26", False), rest("2025-06-18", True), ("2025-11-25", True)],
)
def test_a_session_of_an_old_version_gets_no_structured_content(
    port: int, writer: str, version: str, *, structured: bool
) -> None:
    session = Session(port, writer, version)
    params = {"name": "demo.write", "arguments": {"path": "a", "content": "b"}}

    answer = session.send("tools/call", id=3, params=params).text

    assert '\\"written\\"' in answer  # in the text
    assert ("structuredContent" in answer) is structured


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
    execution_id = error_of(waits)["execution_id"]

    def resume(token: str, execution_id: str = execution_id) -> Any:
        args = {"execution_id": execution_id}
        return call_over_http(port, "resume", args, token=token).structured_content

    for thief in (other, TOKEN):
        assert resume(thief)["error"] == "unknown_execution"
    for other_id in ("01a20135-b81e-7428-9b33-8c3e1a951d6a", "../../heads/main", execution_id[-8:]):
        assert resume(token, other_id)["error"] == "unknown_execution"
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


@one_version
def test_a_token_of_one_chat_opens_no_other(
    root: Path, port: int, new_token: Callable[..., str], chat_of_other: Any, version: str
) -> None:
    with Project.open(root).chats.new() as chat:
        chat_id, created_at = chat.id, chat.card().created_at
    token = new_token(chat=(chat_id, created_at))
    write = partial(call_over_http, port, "demo.write", WRITE, version=version, token=token)

    assert chat_of(write()) == chat_id
    others = chat_of(chat_of_other)
    for one in (others, "c99999"):
        assert text(write(query=f"?chat={one}")).startswith(f"unknown_chat: no chat {one!r}")

    async def read(client: Client) -> None:
        await client.read_resource(f"covalt-git://chats/{chat_id}/files/a.txt")
        uri = f"covalt-git://chats/{others}/files/a.txt"
        assert (await refused(client.read_resource(uri))).code == -32602

    talk_over_http(port, read, version=version, token=token)
    Project.open(root).chats.delete(chat_id)
    Project.open(root).chats.new(chat_id).store.close()
    assert text(write()).startswith("unknown_chat")  # a new chat of the same name


# The end of a token


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_token_that_ended_is_refused_at_once_and_ends_its_session(
    port: int,
    tokens: AgentTokens,
    new_token: Callable[..., str],
    end: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = new_token(end, lasts=timedelta(hours=1))
    session = Session(port, token)
    assert session.ping().status_code == 200
    if end == "revoked":
        tokens.revoke(end)
    else:
        later = datetime.now(UTC) + timedelta(hours=2)
        monkeypatch.setattr(timestamps, "now", lambda: timestamps.written(later))

    for answer in (
        session.ping(),
        ask("GET", session.url, headers=session.headers),
        post(port, token=token),
    ):
        assert (answer.status_code, answer.json()["error"]) == (401, "no_token")
        challenge = answer.headers["www-authenticate"]
        assert 'error="invalid_token"' in challenge
        assert f'resource_metadata="http://127.0.0.1:{port}{WELL_KNOWN}/mcp"' in challenge
    assert session.ping(new_token()).status_code == 404


def test_a_token_that_is_created_during_a_search_keeps_its_session(
    port: int, new_token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search, searched, created = mcp_endpoint.McpEndpoint._valid, Event(), Event()

    def search_and_wait(endpoint: Any, keys: Any) -> Any:
        valid = search(endpoint, keys)
        searched.set()
        created.wait(PATIENCE_S)
        return valid

    Session(port, new_token())  # without one, no search begins
    monkeypatch.setattr(mcp_endpoint.McpEndpoint, "_valid", search_and_wait)
    searched.wait(PATIENCE_S)
    session = Session(port, new_token())
    searched.clear()
    created.set()
    searched.wait(PATIENCE_S)  # the next search begins after the first has ended stale servers

    assert session.ping().status_code == 200


@one_version
def test_a_running_call_ends_when_its_token_is_revoked(
    root: Path, port: int, tokens: AgentTokens, new_token: Callable[..., str], version: str
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
            await say_over_http(port, say, version=version, token=token)

    anyio.run(main)

    chats = [commits(root, chat_id) for chat_id in Project.open(root).chats.ids()]
    records = [commit.record for found in chats for commit in found]
    (call,) = [one.call for one in records if one.by == f"agent:{name}"]
    assert call is not None
    assert call.status == "error"
    assert call.error is not None
    # A call of a server that stops leaves its task to its MCP server.
    assert call.error.message in {mcp_endpoint.ENDED, "its client cancelled it"}


@pytest.mark.rest
def test_open_streams_are_closed_when_their_token_is_revoked(
    port: int, tokens: AgentTokens, new_token: Callable[..., str]
) -> None:
    token = new_token("streams")
    session = Session(port, token)
    listen = request("subscriptions/listen", notifications={"toolsListChanged": True})
    with (
        httpx2.Client(verify=False, timeout=10) as http,
        http.stream("GET", session.url, headers=session.headers) as first,
        http.stream("POST", session.url, headers=headers_of(listen, token), json=listen) as second,
    ):
        assert (first.status_code, second.status_code) == (200, 200)
        raw = second.iter_raw()
        assert b"acknowledged" in next(raw)
        tokens.revoke("streams")
        assert b"".join([*first.iter_raw(), *raw]) == b""  # else a timeout


def test_a_token_is_accepted_in_one_authorization_header_alone(port: int, writer: str) -> None:
    """``tests/credentials`` forges the text of tokens."""
    bearer = ("Authorization", f"Bearer {writer}")
    attempts = [
        *([("Authorization", text)] for text in (writer, f"Basic {writer}", f"Bearer{writer}")),
        *([("Authorization", f"Bearer {one}")] for one in ("null", writer[:-1], f'"{writer}"')),
        [("Authorization", f"Bearer {TOKEN},{writer}")],
        [("Authorization", f"Bearer {writer} {TOKEN}")],
        [("Cookie", f"covalt_git_{port}={writer}")],
        [("X-Api-Key", writer)],
        [("Authorization", "Bearer x"), bearer],
    ]
    usual = headers_of(request(), "")
    del usual["Authorization"]
    for headers, status in [*((one, 401) for one in attempts), ([bearer], 200)]:
        sent = [*usual.items(), *headers]
        answer = ask("POST", f"http://127.0.0.1:{port}/mcp", headers=sent, json=request())
        assert answer.status_code == status, headers
        assert writer not in answer.text + str(answer.headers)
