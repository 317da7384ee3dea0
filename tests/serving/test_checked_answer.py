"""Nothing leaves for a client whose token is not valid any more, on any stream of the endpoint ``/mcp``."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.errors import CovaltError
from covalt_git.gateway.service import Gateway
from covalt_git.grants.grants import add_grant, revoke_all
from covalt_git.serving import checked_answer, mcp_endpoint
from tests.examples import rest
from tests.mcp_client import VERSIONS, add_toolset, make_project, request
from tests.operations_client import Operations
from tests.uvicorn_server import served

TOOL = """\
import time
from pathlib import Path
from covalt_toolset import get_context

def slow(workspace: Path) -> str:
    get_context().progress(1, 2, "first")
    while not (workspace / "gate").exists():
        time.sleep(0.01)
    get_context().progress(2, 2, "second")
    return "the result"
"""
MANIFEST = """\
id: slow
name: Slow
version: "1"
tools:
  - {id: slow, entrypoint: "tools.slow:slow"}
"""
HTTP_TOOL = """\
  - {id: ping, http: {method: GET, url: "https://example.com/ping"}}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("checked") / "project")


def project(root: Path) -> Path:
    """Make a project whose tool runs until its workspace has the file ``gate``."""
    make_project(root, roles='  writer: {allow: ["slow.*"]}\n')
    add_toolset(root, "slow", MANIFEST, TOOL)
    return root


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    """The port of a server that does not look for revoked tokens itself while a test runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcp_endpoint, "CLEANUP_S", 3600)
        with served(root) as port:
            yield port


def lines_of(
    http: httpx2.Client,
    port: int,
    method: str,
    headers: dict[str, str],
    body: Any,
    revoke: Callable[[], None],
) -> list[str]:
    """Return the events of a stream after the first, upon which ``revoke`` is called."""
    with http.stream(method, f"http://127.0.0.1:{port}/mcp", headers=headers, json=body) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data: {"))
        assert "first" in next(lines)
        revoke()
        return [*lines]


def is_refused(lines: list[str]) -> bool:
    """Return whether a call delivered nothing but an error."""
    return [code_of(line) in {-32001, -32002} for line in lines] == [True]


def code_of(line: str) -> int | None:
    """Return the code of the error in an event; None if it has none."""
    code: int | None = json.loads(line[6:]).get("error", {}).get("code")
    return code


def headers_of(token: str, version: str) -> dict[str, str]:
    return {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token}",
        "MCP-Protocol-Version": version,
    }


@pytest.mark.parametrize("version", [VERSIONS[0], "2025-11-25"])
def test_an_open_call_delivers_neither_progress_nor_a_result_after_its_token_was_revoked(
    root: Path, port: int, version: str
) -> None:
    agents = AgentTokens(root)
    name = f"agent-{version}"
    token = agents.new(name, "writer")[1]
    body = request("tools/call", name="slow.slow", arguments={})
    body["params"]["_meta"]["progressToken"] = 1
    headers = headers_of(token, version)
    with httpx2.Client(verify=False, timeout=20) as http:
        if version == VERSIONS[0]:
            headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "slow.slow"}
        else:
            headers["Mcp-Session-Id"] = begin_session(http, port, headers)

        def revoke() -> None:
            agents.revoke(name)
            for workspace in (root / "data/chats").glob("*/workspace"):
                (workspace / "gate").touch()

        assert is_refused(lines_of(http, port, "POST", headers, body, revoke))


def narrow(root: Path) -> None:
    config = root / "covalt.yaml"
    config.write_text(config.read_text().replace("slow.*", "demo.read"))


def disable(root: Path) -> None:
    Operations(root)("enable_toolset", toolset_id="slow", enabled=False)


def edit_the_toolset(root: Path) -> None:
    manifest = root / "toolsets/slow/toolset.yaml"
    manifest.write_text(f"{manifest.read_text()}unknown: [\n")


def slow_call(token: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the headers and the body of a call that reports its progress."""
    body = request("tools/call", name="slow.slow", arguments={})
    body["params"]["_meta"]["progressToken"] = 1
    headers = headers_of(token, VERSIONS[0])
    return headers | {"Mcp-Method": "tools/call", "Mcp-Name": "slow.slow"}, body


@pytest.mark.parametrize("change", [narrow, rest(disable), edit_the_toolset])
def test_an_open_call_delivers_nothing_after_its_client_may_not_call_the_tool_any_more(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    root = project(tmp_path / "project")
    token = AgentTokens(root).new("agent", "writer")[1]
    headers, body = slow_call(token)

    def act() -> None:
        change(root)
        for workspace in (root / "data/chats").glob("*/workspace"):
            (workspace / "gate").touch()

    with served(root) as port, httpx2.Client(verify=False, timeout=20) as http:
        lines = lines_of(http, port, "POST", headers, body, act)
    # An author who edits the toolset ends no call.
    assert any("the result" in line for line in lines) == (change is edit_the_toolset)
    assert is_refused(lines) == (change is not edit_the_toolset)


def break_the_project(root: Path) -> None:
    (root / "covalt.yaml").write_text("roles: [\n")


@pytest.mark.parametrize(("change", "code"), [(narrow, -32002), (break_the_project, -32603)])
def test_a_call_without_messages_ends_when_its_client_may_not_make_it_or_that_stays_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], code: int
) -> None:
    monkeypatch.setattr(checked_answer, "CHECK_S", 0.05)
    monkeypatch.setattr(checked_answer, "UNKNOWN_S", 0.1)
    root = project(tmp_path / "project")
    token = AgentTokens(root).new("agent", "writer")[1]
    headers, body = slow_call(token)
    with served(root) as port, httpx2.Client(verify=False, timeout=20) as http:
        lines = lines_of(http, port, "POST", headers, body, lambda: change(root))
    assert [code_of(line) for line in lines] == [code]
    assert code == -32002 or '"path": "covalt.yaml"' in lines[0]


def remove_the_tool(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("{id: slow,", "{id: other,"))


def remove_the_toolset(manifest: Path) -> None:
    manifest.parent.rename(manifest.parents[2] / "removed")


def leave_it_to_scripts(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace('slow:slow"', 'slow:slow", callers: [script]'))


def revoke_the_grant(manifest: Path) -> None:
    revoke_all(manifest.parents[2], "slow")


@pytest.mark.parametrize(
    ("tool_id", "change"),
    [
        ("slow:slow", remove_the_tool),
        ("slow:slow", remove_the_toolset),
        ("slow:slow", leave_it_to_scripts),
        ("slow:ping", revoke_the_grant),
    ],
)
def test_a_call_ends_when_its_tool_is_removed_or_refuses_such_calls(
    tmp_path: Path, tool_id: str, change: Callable[[Path], None]
) -> None:
    root = project(tmp_path / "project")
    manifest = root / "toolsets/slow/toolset.yaml"
    manifest.write_text(f"{manifest.read_text()}{HTTP_TOOL}")
    add_grant(root, "slow", "network", "", ["example.com"], by="me")
    gateway = Gateway(root, "writer")
    gateway.check_access(tool_id)

    change(manifest)
    with pytest.raises(CovaltError) as refused:
        gateway.check_access(tool_id)
    assert (refused.value.code, refused.value.http_status) == ("denied", 403)


def begin_session(http: httpx2.Client, port: int, headers: dict[str, str]) -> str:
    """Return the id of a new session."""
    url = f"http://127.0.0.1:{port}/mcp"
    params = {
        "protocolVersion": headers["MCP-Protocol-Version"],
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    session: str = http.post(url, headers=headers, json=body).headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    http.post(url, headers={**headers, "Mcp-Session-Id": session}, json=ready)
    return session


def test_the_stream_of_a_session_gets_no_notice_after_its_token_was_revoked(
    root: Path, port: int
) -> None:
    agents = AgentTokens(root)
    token = agents.new("streams", "writer")[1]
    headers = headers_of(token, "2025-11-25")
    manifest = root / "toolsets/slow/toolset.yaml"
    more = '  - {{id: more{0}, entrypoint: "tools.slow:slow"}}\n'
    with httpx2.Client(verify=False, timeout=20) as http:
        headers["Mcp-Session-Id"] = begin_session(http, port, headers)
        url = f"http://127.0.0.1:{port}/mcp"
        with http.stream("GET", url, headers=headers) as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("data: {"))
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
            assert "slow.slow" in http.post(url, headers=headers, json=body).text
            manifest.write_text(manifest.read_text() + more.format(1))
            assert "list_changed" in next(lines)
            agents.revoke("streams")
            manifest.write_text(manifest.read_text() + more.format(2))
            assert [*lines] == []
