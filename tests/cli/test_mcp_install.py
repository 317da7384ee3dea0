"""``covalt-git mcp install``: our server in the configuration of hosts."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from covalt_git.serving.server_registry import register
from tests.command import REPOSITORY, run
from tests.mcp_client import make_project

Cli = Callable[..., tuple[int, str]]
IN_FOLDER = ["-C", "${workspaceFolder}"]
OPTIONS = ("mcp", "--mode", "search", "--role", "reader", "--names", "dots")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return make_project(tmp_path / "project")


def entry(shown: str, key: str = "covalt-git") -> dict[str, Any]:
    found: dict[str, Any] = json.JSONDecoder().raw_decode(shown[shown.index("{\n") :])[0]
    return dict(found[key])


@pytest.mark.parametrize(
    ("host", "file", "key", "where"),
    [
        ("claude-code", ".mcp.json", "mcpServers", []),
        ("vscode", ".vscode/mcp.json", "servers", IN_FOLDER),
        ("cursor", ".cursor/mcp.json", "mcpServers", IN_FOLDER),
    ],
)
def test_the_file_of_a_project_names_the_program_by_its_path(
    root: Path, cli: Cli, host: str, file: str, key: str, where: list[str]
) -> None:
    assert cli(*OPTIONS, "install", host, "--yes")[0] == 0
    written = (root / file).read_text(encoding="utf-8")

    entry = json.loads(written)[key]["covalt-git"]
    assert Path(entry.pop("command")).is_absolute()
    assert entry == {"type": "stdio", "args": [*where, *OPTIONS]}
    assert str(root) not in written
    cli(*OPTIONS, "install", host, "--yes")
    assert (root / file).read_text(encoding="utf-8") == written


@pytest.mark.skipif(sys.platform == "darwin", reason="it is in the user's Library there")
def test_the_file_of_a_user_keeps_its_other_content(root: Path, cli: Cli) -> None:
    file = root.parent / "config/Claude/claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"theme": "dark", "mcpServers": {"other": {"command": "x"}}}')
    file.chmod(0o600)
    shown = json.loads(cli(*OPTIONS, "install", "claude-desktop", "--yes", "--json")[1])
    written = json.loads(file.read_text())

    added = written["mcpServers"].pop("covalt-git")
    assert written == {"theme": "dark", "mcpServers": {"other": {"command": "x"}}}
    assert shown == {"path": str(file), "entry": added, "written": True}
    assert added["args"] == ["-C", str(root), *OPTIONS]
    assert Path(added["command"]).is_absolute()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("host", "kind", "token"),
    [
        ("claude-code", {"type": "http"}, "${COVALT_GIT_AGENT_TOKEN}"),
        ("vscode", {"type": "http"}, "${env:COVALT_GIT_AGENT_TOKEN}"),
        ("cursor", {}, "${env:COVALT_GIT_AGENT_TOKEN}"),
    ],
)
def test_a_host_may_use_the_url_of_the_server_that_runs(
    root: Path, cli: Cli, host: str, kind: dict[str, str], token: str
) -> None:
    cli("chat", "new", "--id", "c1")
    with register(root, "http://127.0.0.1:8790"):
        shown = cli(*OPTIONS, "--chat", "c1", "install", host, "--http", "--print")[1]

    assert entry(shown) == {
        **kind,
        "url": "http://127.0.0.1:8790/mcp?chat=c1&mode=search&names=dots",
        "headers": {"Authorization": f"Bearer {token}"},
    }
    hint = shown.rpartition("covalt-git token")[2]
    assert "cvg_" in cli("token", *shlex.split(hint))[1]


def test_a_host_reaches_the_tools_with_the_installed_entry(root: Path, tmp_path: Path) -> None:
    """The entry's own command line, with this interpreter's covalt-git on the PATH."""
    program = tmp_path / "bin/covalt-git"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from covalt_git.cli import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    run("mcp", "install", "claude-code", "--yes", cwd=root)
    installed = json.loads((root / ".mcp.json").read_text())["mcpServers"]["covalt-git"]
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    how = StdioServerParameters(
        command=str(program), args=installed["args"], cwd=root, env={"PYTHONPATH": paths}
    )

    async def names() -> list[str]:
        async with Client(how) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert "demo_write" in anyio.run(names)
