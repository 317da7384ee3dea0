"""``/mcp`` of the server: streamable HTTP of both eras, behind the same checks as every page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from anyio.to_thread import run_sync
from mcp import Client, MCPError
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth

from covalt_git.project import Project
from tests.gateway.asking_tools import Person, accept, make_asking_project
from tests.mcp_client import ERAS, ToolNews, add_toolset, eras, listening, make_project, text
from tests.serving.http_clients import TOKEN, names, served, talk


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_asking_project(tmp_path_factory.mktemp("mcp") / "project")


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    yield from served(root)


@pytest.fixture(scope="module")
def readers_port(root: Path) -> Iterator[int]:
    yield from served(root, "reader")


@eras
def test_a_role_has_its_tools_over_http(port: int, readers_port: int, era: str) -> None:
    assert "demo.write" in talk(port, names, era=era)
    assert talk(readers_port, names, era=era) == [
        "resume",
        "demo.read",
        "workspace.list_files",
        "workspace.read_file",
    ]


@eras
def test_a_client_asks_for_names_and_a_mode_in_its_address(port: int, era: str) -> None:
    plain = talk(port, names, era=era, query="?names=underscore")
    found = talk(port, names, era=era, query="?names=underscore&mode=search")

    assert "demo_write" in plain
    assert found == ["call_tool", "read_tool", "resume", "search_tools"]


@eras
def test_names_that_there_are_not_are_told(port: int, era: str) -> None:
    async def said(client: Client) -> None:
        with pytest.raises(MCPError, match="'long', which is none of dots, underscore"):
            await client.list_tools()

    talk(port, said, era=era, query="?names=long")


@eras
def test_progress_and_the_result_come_over_http(root: Path, port: int, era: str) -> None:
    told: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def said(client: Client) -> Any:
        await client.call_tool("demo.steps", {}, progress_callback=hear)
        return await client.call_tool("demo.write", {"path": "a.txt", "content": "hi"})

    result = talk(port, said, era=era)

    assert told == [(1, 2, "first"), (2, 2, "last")]
    with Project.open(root).chats.open(result.meta["covalt-git/chat"]) as chat:
        assert chat.head() == result.meta["covalt-git/manifest"]


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


@pytest.mark.parametrize(
    ("header", "status"), [("eu", 200), ("=?base64?ZXU=?=", 200), ("us", 400), (None, 400)]
)
def test_an_argument_in_a_header_says_what_the_body_says(
    tmp_path: Path, header: str | None, status: int
) -> None:
    root = make_project(tmp_path / "project")
    add_toolset(root, "headed", HEADED, "def look(region: str) -> str:\n    return region\n")
    serving = served(root)
    port = next(serving)
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": ERAS[0],
        "Mcp-Method": "tools/call",
        "Mcp-Name": "headed_look",
    }
    meta = {
        "io.modelcontextprotocol/protocolVersion": ERAS[0],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "headed_look", "arguments": {"region": "eu"}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    told = {} if header is None else {"Mcp-Param-Region": header}
    url = f"http://127.0.0.1:{port}/mcp?names=underscore"
    talk(port, names, era=ERAS[0])  # answered once the server has looked at the tools
    answer = httpx2.post(url, headers={**headers, **told}, json=body, timeout=30)
    next(serving, None)

    assert answer.status_code == status


def test_each_session_works_in_a_chat_of_its_own(port: int) -> None:
    async def said(client: Client) -> set[str]:
        called = [await client.call_tool("demo.steps", {}) for _ in range(2)]
        return {one.meta["covalt-git/chat"] for one in called if one.meta}

    (first,), (second,) = (talk(port, said, era="legacy") for _ in range(2))

    assert first != second


def test_without_sessions_a_client_names_its_chat(root: Path, port: int) -> None:
    async def said(client: Client) -> list[str]:
        tool = {one.name: one for one in (await client.list_tools()).tools}["demo.write"]
        assert "covalt_chat" in tool.input_schema["properties"]
        args = {"path": "a.txt", "content": "hi"}
        first = await client.call_tool("demo.write", args)
        chat = (first.meta or {})["covalt-git/chat"]
        assert "pass it as covalt_chat to go on in it" in text(first)
        again = await client.call_tool("demo.write", {**args, "path": "b", "covalt_chat": chat})
        meta: Any = {"covalt-git/chat": chat}
        third = await client.call_tool("demo.write", {**args, "path": "c"}, meta=meta)
        return [(one.meta or {})["covalt-git/chat"] for one in (first, again, third)]

    (chat_id,) = {*talk(port, said, era=ERAS[0])}

    with Project.open(root).chats.open(chat_id) as chat:
        assert [*chat.files(chat.head())] == ["a.txt", "b", "c"]


@eras
def test_an_address_names_the_chat_for_all_its_calls(root: Path, port: int, era: str) -> None:
    chat_id = f"by-{era}"
    Project.open(root).chats.new(chat_id)

    async def said(client: Client) -> Any:
        tool = {one.name: one for one in (await client.list_tools()).tools}["demo.steps"]
        assert era == "legacy" or "covalt_chat" not in tool.input_schema.get("properties", {})
        return await client.call_tool("demo.steps", {})

    result = talk(port, said, era=era, query=f"?chat={chat_id}")

    assert result.meta["covalt-git/chat"] == chat_id


@eras
def test_a_client_hears_over_http_that_tools_changed(root: Path, port: int, era: str) -> None:
    name = f"more{len(era)}"
    news = ToolNews()

    async def said(client: Client) -> list[str]:
        async with listening(client, era):
            await names(client)
            manifest = f'id: {name}\nname: More\nversion: "1"\n'
            manifest += f"tools: [{{id: wave, entrypoint: 'tools.{name}:wave'}}]\n"
            add_toolset(root, name, manifest, "def wave() -> str:\n    return 'o/'\n")
            await news.wait()
        return await names(client)

    assert f"{name}.wave" in talk(port, said, era=era, hears=news.hear)


DISCOVER = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


USUAL = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "server/discover",
}


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
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_what_is_not_ours_to_answer_is_refused(
    port: int, method: str, headers: dict[str, str], status: int, error: str
) -> None:
    answer = httpx2.request(
        method,
        f"http://127.0.0.1:{port}/mcp",
        headers={**USUAL, **headers},
        content=json.dumps(DISCOVER) if method == "POST" else None,
    )

    assert answer.status_code == status, answer.text
    assert answer.json()["error"] == error
    assert ("www-authenticate" in answer.headers) is (status == 401)
    assert TOKEN not in answer.text


def test_one_request_is_one_answer_since_there_are_no_sessions(port: int) -> None:
    url = f"http://127.0.0.1:{port}/mcp"
    answer = httpx2.post(url, headers=USUAL, content=json.dumps(DISCOVER))

    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json()["result"]["supportedVersions"] == ["2026-07-28"]


@eras
def test_a_call_asks_its_client_and_goes_on(port: int, era: str) -> None:
    person = Person(accept(name="Ada"), accept(name="Charles"))

    async def said(client: Client) -> Any:
        several = await client.call_tool("quiz.several", {})
        return several, await client.call_tool("quiz.rounds", {})

    several, rounds = talk(port, said, era=era, can=person.callbacks())

    assert '["Ada", "hi", "file:///here"]' in text(several)
    assert '["Charles", "Charles"]' in text(rounds)


@eras
def test_a_call_that_waits_leads_to_the_page_of_its_approval(
    root: Path, port: int, era: str
) -> None:
    urls: list[str] = []

    async def visit(_: Any, params: Any) -> types.ElicitResult:
        urls.append(params.url)
        await run_sync(Project.open(root).approvals().approve, urls[-1].rpartition("/")[2])
        return types.ElicitResult(action="accept")

    async def said(client: Client) -> Any:
        return await client.call_tool("demo.asks", {"path": f"{era}.txt", "content": "hi"})

    result = talk(port, said, era=era, can={"elicitation_callback": visit})

    assert result.structured_content == {"written": f"{era}.txt"}
    (url,) = urls
    assert url.startswith(f"http://127.0.0.1:{port}/approvals/")
    assert TOKEN not in url
    with httpx2.Client() as stranger:
        assert stranger.get(url).status_code == 401
    with httpx2.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as person:
        assert person.get(url).status_code == 200


WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(("place", "resource"), [("", ""), ("/mcp", "/mcp")])
def test_who_has_no_token_is_told_what_it_asked_for(port: int, place: str, resource: str) -> None:
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        answer = httpx2.get(f"http://127.0.0.1:{port}{WELL_KNOWN}{place}", headers={"Host": host})

        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {
            "resource": f"http://{host}{resource}",
            "resource_name": "covalt-git",
            "bearer_methods_supported": ["header"],
        }


def test_a_refusal_for_want_of_a_token_says_where_that_is(port: int) -> None:
    answer = httpx2.post(f"http://127.0.0.1:{port}/mcp", content=json.dumps(DISCOVER))

    told = extract_resource_metadata_from_www_auth(answer)
    assert told == f"http://127.0.0.1:{port}{WELL_KNOWN}/mcp"
    assert httpx2.get(told).json()["resource"] == f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize(
    ("method", "place", "headers", "status"),
    [
        ("GET", "/mcp", {"Host": "evil.example"}, 421),
        ("GET", "/mcp", {"Origin": "https://evil.example"}, 403),
        ("GET", "/git", {}, 404),
        ("GET", "/mcp/", {}, 404),
        ("POST", "/mcp", {}, 405),
    ],
)
def test_nothing_else_is_told_there(
    port: int, method: str, place: str, headers: dict[str, str], status: int
) -> None:
    url = f"http://127.0.0.1:{port}{WELL_KNOWN}{place}"

    assert httpx2.request(method, url, headers=headers).status_code == status


def test_its_head_has_no_body(port: int) -> None:
    answer = httpx2.head(f"http://127.0.0.1:{port}{WELL_KNOWN}/mcp")

    assert (answer.status_code, answer.content) == (200, b"")
