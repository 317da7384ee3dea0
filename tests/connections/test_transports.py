"""Servers at addresses: both transports, both eras, headers, and where no connection goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covalt_git.connections.connection import ServerCall
from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.errors import ServerFailedError, SignInNeededError
from covalt_git.connections.pool import Connections
from covalt_git.connections.thread_bridge import EventHandlers
from covalt_git.connections.token_store import SignInFile, StoredLogin
from covalt_git.hosts import Reach
from covalt_git.models.tool_lock import locked_tool

SERVER = Path(__file__).parent.parent.parent / "fixtures" / "servers" / "over_http.py"


@contextmanager
def serving(*words: str, env: Mapping[str, str] | None = None) -> Iterator[int]:
    """Run a server and yield its port."""
    variables = {**os.environ, **(env or {})}
    with subprocess.Popen(
        [sys.executable, str(SERVER), *words], stdout=subprocess.PIPE, env=variables, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def at(port: int, transport: str = "streamable-http") -> Definition:
    """Return how a server on this machine is reached, where that was granted."""
    path = "sse" if transport == "sse" else "mcp"
    url = f"http://127.0.0.1:{port}/{path}"
    name = Name(Path("/project"), "demo", "remote", "c1")
    reach = Reach.of(f"http://127.0.0.1:{port}")
    return Definition(name, transport, url=url, reach=reach)  # type: ignore[arg-type]


def call(
    connections: Connections, to: Definition, tool: str, hears: EventHandlers, **args: Any
) -> str:
    """Call a tool and return the only text of its result."""
    (given,) = (one for one in connections.tools(to) if one["name"] == tool)
    asked = ServerCall(tool, locked_tool(given).digest, args, 20.0)
    result = connections.call(to, asked, hears=hears)
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_a_server_at_an_address_is_used_with_its_headers(
    connections: Connections, transport: str
) -> None:
    def ask(*_: object) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": "Ann"}}

    with serving(transport) as port:
        defined = replace(at(port, transport), headers={"X-Team": "red"})

        assert call(connections, defined, "echo", EventHandlers(), text="hello") == "hello"
        assert call(connections, defined, "ask", EventHandlers(ask=ask)) == "accept Ann"
        if transport == "streamable-http":
            assert call(connections, defined, "headers", EventHandlers()) == "red"
            assert (
                len(call(connections, defined, "long", EventHandlers(), text="3000000"))
                == 3_000_000
            )
        (health,) = connections.health(Path("/project"))
        assert (health.protocol, health.server) == ("2026-07-28", "over-http 1")
        connections.close()


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_a_server_that_wants_to_know_who_asks_is_told_so(
    connections: Connections, transport: str
) -> None:
    with serving(transport, env={"TOKEN": "t0ken"}) as port:
        with pytest.raises(SignInNeededError) as caught:
            connections.begin(at(port, transport))
        assert caught.value.hint == "covalt-git auth login demo/remote"

        headers = {"Authorization": "Bearer t0ken"}
        assert len(connections.tools(replace(at(port, transport), headers=headers))) == 4
        connections.close()


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_what_signing_in_left_is_sent_to_both_kinds_of_server(
    connections: Connections, transport: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with serving(transport, env={"TOKEN": "t0ken"}) as port:
        defined = at(port, transport)
        kept = StoredLogin(
            project="/project",
            toolset_id="demo",
            server_id="remote",
            url=defined.url,
            issuer="https://as.example",
            origins=("https://as.example",),
            token_endpoint="https://as.example/token",
            resource=defined.url,
            client_id="c",
            access_token="t0ken",
            signed_in_at="2026-11-22T00:00:00Z",
        )
        SignInFile.of(defined.name, defined.url).write(kept)

        assert call(connections, defined, "echo", EventHandlers(), text="hello") == "hello"
        connections.close()


@pytest.mark.parametrize(
    ("url", "reach", "why"),
    [
        ("http://127.0.0.1:1/mcp", "https://example.org", "http://127.0.0.1:1 was not granted"),
        ("http://localhost.example:1/mcp", "http://localhost.example:1", "has no address"),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:1", "cannot be reached: connection refused"),
    ],
)
def test_a_server_that_is_not_there_or_not_granted_is_told(
    connections: Connections, url: str, reach: str, why: str
) -> None:
    defined = Definition(
        Name(Path("/project"), "demo", "remote", "c1"),
        "streamable-http",
        url=url,
        reach=Reach.of(reach),
    )

    with pytest.raises(ServerFailedError, match=why):
        connections.begin(defined)


def test_a_server_that_starts_anew_is_found_again(connections: Connections) -> None:
    with serving() as port:
        defined = at(port)
        assert call(connections, defined, "echo", EventHandlers(), text="one") == "one"
    with serving() as port:
        defined = at(port)
        assert call(connections, defined, "echo", EventHandlers(), text="two") == "two"
        connections.close()
