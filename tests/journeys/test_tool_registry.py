"""A program registers a tool with curl, a user grants it, and an agent calls it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http_tools.upstream import Upstream, upstream
from tests.journeys.terminal import Terminal


@pytest.fixture(scope="module")
def host() -> Iterator[Upstream]:
    with upstream() as found:
        yield found


def test_a_tool_is_registered_with_curl_granted_and_called(
    project: Terminal, host: Upstream
) -> None:
    entry: dict[str, Any] = {
        "tool_id": "com.example/forecast",
        "name": "Forecast",
        "description": "Weather of a city.",
        "version": "1.0.0",
        "protocols": ["http"],
        "protocol_meta": {"http": {"method": "GET", "url": f"{host.url}/echo/{{city}}"}},
    }
    with project.serving("serve") as url:
        home, _, token = url.partition("/?token=")

        def curl(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            send = [] if body is None else ["--data", json.dumps(body)]
            head = ["--header", f"Authorization: Bearer {token}"]
            head += ["--header", "Content-Type: application/json"]
            argv = ["curl", "-sS", "-X", method, "-w", "\n%{http_code}", *head, *send, home + path]
            answer, _, status = project.run(*argv).stdout.rpartition("\n")
            return int(status), json.loads(answer)

        status, made = curl("POST", "/v1/tools", entry)
        assert status == 201
        assert made.items() >= entry.items()
        assert curl("POST", "/v1/tools", entry)[0] == 409
        assert curl("GET", "/v1/tools?protocol=http")[1]["count"] == 1
        assert curl("GET", "/v1/mcp/tools/com.example/forecast") == (200, made)

        (row,) = project.json("registry", "list")["tools"]
        name = row["tool"].partition(":")[2]
        project.covalt("chat", "new", "--id", "c1")
        call = {"chat_id": "c1", "tool_id": row["tool"], "args": {"city": "Seattle"}}
        status, refused = curl("POST", "/api/call_tool", call)
        assert (status, refused["error"]) == (403, "tool_disabled")
        assert project.covalt(*refused["hint"].split()[1:], "--no-terminal", "test").startswith(
            "registered may run"
        )
        status, done = curl("POST", "/api/call_tool", call)
        assert (status, done["status"]) == (200, "success")
        assert host.last["path"] == "/echo/Seattle"

        # Calls of agents are refused, because the entry lists http only; replacing it ends the grant.
        entry["protocols"] = ["mcp", "http"]
        assert curl("PUT", "/v1/tools/com.example/forecast", entry)[0] == 200
        assert curl("POST", "/api/call_tool", call)[1]["error"] == "tool_disabled"
        project.covalt("grant", "add", "registered", "tool", name, "--no-terminal", "test")
        assert curl("POST", "/api/call_tool", call)[1]["status"] == "success"

        status, removed = curl("DELETE", "/v1/mcp/tools?tool_id=com.example/forecast")
        assert (status, removed["status"]) == (200, "deregistered")
        assert curl("GET", "/v1/tools/com.example/forecast")[0] == 404
    assert project.covalt("registry", "list") == "no tool is registered\n"
    manifests = project.json("chat", "log", "c1")["manifests"]
    assert [one["call"]["tool_id"] for one in manifests] == [row["tool"]] * 2
