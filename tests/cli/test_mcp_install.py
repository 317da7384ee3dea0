"""``covalt-git mcp install``: our server in the configuration of hosts."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from covalt_git.serving.server_registry import register
from tests.mcp_client import make_project
from tests.trusting import use_config

Cli = Callable[..., tuple[int, str]]
OPTIONS = ("mcp", "--mode", "search", "--role", "reader", "--names", "dots")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_config(monkeypatch, tmp_path / "config")
    return make_project(tmp_path / "project")


def entry(shown: str, key: str = "covalt-git") -> dict[str, Any]:
    found: dict[str, Any] = json.JSONDecoder().raw_decode(shown[shown.index("{\n") :])[0]
    return dict(found[key])


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
