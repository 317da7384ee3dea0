"""A server with sessions, and the connections of one test."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from covalt_git.connections.connection import ServerCall
from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.pool import Connections
from covalt_git.models.sources.tool_lock import locked_tool
from tests.trusting import use_config

FIRST_ERA = Path(__file__).parents[2] / "fixtures" / "servers" / "first_era.py"


@pytest.fixture
def config_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's own folder, which has the stored logins, outside the project."""
    use_config(monkeypatch, tmp_path / "config")
    return tmp_path / "config" / "covalt-git"


@pytest.fixture
def connections() -> Iterator[Connections]:
    """Connections that end with the test."""
    made = Connections()
    yield made
    made.close()


@pytest.fixture
def first_era(tmp_path: Path) -> Definition:
    """A program that speaks the protocol with a handshake, for the chat c1."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Definition(
        Name(tmp_path, "demo", "first-era", "c1"),
        "stdio",
        argv=(sys.executable, str(FIRST_ERA)),
        env={"SAID": str(tmp_path / "said.txt")},
        workspace=workspace,
    )


def current_digest(connections: Connections, to: Definition, tool: str) -> str:
    """Return the digest of a tool as its server defines it now."""
    (defined,) = (one for one in connections.tools(to) if one["name"] == tool)
    return locked_tool(defined).digest


def call_tool(connections: Connections, to: Definition, tool: str, /, **options: Any) -> Any:
    """Call a tool as its server defines it now, and return the result."""
    call = ServerCall(
        tool,
        current_digest(connections, to, tool),
        options.pop("args", {}),
        options.pop("timeout_s", 20.0),
        repeatable=options.pop("repeatable", False),
    )
    return connections.call(to, call, **options)


def text(result: Any) -> str:
    """Return the only text of a result."""
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def processes(script: str) -> list[int]:
    """Return the descendants of this process that run a script."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            is_ours = script.encode() in words and os.getpid() in _ancestors(int(entry.name))
        except OSError:
            continue
        if is_ours:
            found.append(int(entry.name))
    return found


def _ancestors(process: int) -> Iterator[int]:
    while process:
        status = Path(f"/proc/{process}/stat").read_text()
        process = int(status.rpartition(")")[2].split()[1])
        yield process
