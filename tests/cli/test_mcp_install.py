"""``covalt-git mcp install``: our server in the configuration of hosts."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from covalt_git import cli as main
from covalt_git.cli.mcp_hosts import BY_NAME
from covalt_git.formats.documents import parse
from covalt_git.formats.mcp_clients.host_files import config_path
from covalt_git.formats.mcp_clients.hosts import HOSTS
from covalt_git.serving.server_registry import register
from tests.examples import one_in
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
        ("cursor", {"type": "http"}, "${env:COVALT_GIT_AGENT_TOKEN}"),
        ("cline", {"type": "streamableHttp"}, "${env:COVALT_GIT_AGENT_TOKEN}"),
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


@pytest.mark.parametrize("host", one_in(2, BY_NAME))
def test_a_server_is_added_to_each_host_and_imported_from_it(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("HOME", str(root.parent / "home"))
    path = Path(json.loads(cli("mcp", "install", host, "--yes", "--json")[1])["path"])
    before = path.read_text()
    status, again = cli("mcp", "install", host, "--yes")
    listed = json.loads(cli("mcp", "import", "--json")[1])["files"]
    imported = cli("mcp", "import", "--from", host, "--server", "covalt-git", "--yes")

    assert (status, path.read_text()) == (0, before)
    assert "already has this entry" in again
    assert [row["path"] for row in listed if row["host"] == host] == [str(path)]
    assert imported[0] == 0, imported
    assert (root / "toolsets/covalt-git/toolset.yaml").exists()


FILES_WITH_OTHER_SERVERS = {
    "cursor": '{"mcpServers": {"other": {"command": "x", "env": {"KEY": "s3cret"}}}}',
    "goose": """# mine
extensions:
  other: {type: stdio, cmd: x, envs: {KEY: s3cret}, enabled: true}  # stays
  covalt-git:
    type: stdio
    cmd: old
    envs: {KEY: s3cret}

GOOSE_MODEL: small
""",
    "codex": """model = "x"  # mine
[mcp_servers.covalt-git]
command = "old"
[mcp_servers.covalt-git.env]
KEY = "s3cret"

[mcp_servers.other]
command = "x"
env = { KEY = "s3cret" }
""",
    "continue": """name: mine
mcpServers:
- name: other
  command: x
  env: {KEY: s3cret}
# after it
""",
}


@pytest.mark.parametrize("host", FILES_WITH_OTHER_SERVERS)
def test_values_of_the_file_are_kept_and_never_printed(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("HOME", str(root.parent / "home"))
    path = config_path(host, root, "covalt-git")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILES_WITH_OTHER_SERVERS[host])
    status, shown = cli("mcp", "install", host, "--yes")
    (host_form,) = (one for one in HOSTS if one.name == host)
    servers = host_form.servers(parse(path.read_bytes(), str(path)).value) or {}

    assert status == 0, shown
    assert "s3cret" not in shown
    assert path.read_text().count("s3cret") == 1
    assert set(servers) == {"other", "covalt-git"}
    assert "s3cret" not in json.dumps(servers["covalt-git"])
    kept = [line for line in FILES_WITH_OTHER_SERVERS[host].splitlines() if "#" in line]
    assert all(line in path.read_text() for line in kept)


def test_the_token_of_a_host_that_replaces_no_variables_is_refused(root: Path, cli: Cli) -> None:
    with register(root, "http://127.0.0.1:8790"):
        status, shown = cli(*OPTIONS, "install", "zed", "--http", "--print")

    assert status == 1
    assert "Zed does not replace variables here" in shown


@pytest.mark.parametrize("command", ["import", "install"])
def test_help_needs_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main.cli, ["mcp", command, "--help"])

    assert done.exit_code == 0, done.output
