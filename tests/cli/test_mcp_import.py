"""``covalt-git mcp import``: servers of other MCP clients' files become disabled toolsets."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from covalt_git import yaml_text
from covalt_git.cli import mcp_import
from tests.mcp_client import make_project
from tests.trusting import use_config

Cli = Callable[..., tuple[int, str]]
TOKEN = "Zq8vN3kT7wLp2RxB5mYcZr4hJ6sD1g"
SERVERS = {
    "git.hub": {
        "url": "https://api.example.com/mcp",
        "headers": {"Authorization": f"Bearer {TOKEN}"},
    },
    "files": {"command": "npx", "args": ["-y", "server-files", "."]},
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    use_config(monkeypatch, tmp_path / "config")
    return make_project(tmp_path / "project")


@pytest.fixture
def cursor(root: Path) -> Path:
    return write(root.parent / "home/.cursor/mcp.json", {"mcpServers": SERVERS})


def write(file: Path, value: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")
    return file


def test_the_files_of_hosts_are_listed_without_opening_them(root: Path, cli: Cli) -> None:
    for path in ("home/.claude.json", "home/.codex/config.toml", "project/.vscode/mcp.json"):
        (root.parent / path).parent.mkdir(parents=True, exist_ok=True)
        (root.parent / path).write_bytes(b"\xff not a document")
    status, shown = cli("mcp", "import", "--json")
    files = {one["host"]: one for one in json.loads(shown)["files"]}

    assert status == 0
    assert files["vscode"]["scope"] == "project"
    assert files["claude-code"]["path"] == str(root.parent / "home/.claude.json")
    assert set(files) == {"claude-code", "codex", "vscode"}


def test_servers_become_disabled_toolsets_without_their_credentials(
    root: Path, cli: Cli, cursor: Path
) -> None:
    status, shown = cli(
        *("mcp", "import", "--from", "cursor", "--server", "git.hub", "--server", "files", "--yes")
    )
    toolset = yaml_text.load_file(root / "toolsets/git-hub/toolset.yaml", "t").data
    state = (root / "toolsets/state/git-hub.yaml").read_text()

    assert status == 0, shown
    assert TOKEN not in shown + (root / "toolsets/git-hub/toolset.yaml").read_text()
    assert TOKEN in cursor.read_text()
    assert toolset["secrets"] == ["GIT_HUB_TOKEN"]
    assert "the secret GIT_HUB_TOKEN replaces a credential" in shown
    # What each server will be able to do, beside its tools.
    assert "receives the arguments of its calls at https://api.example.com/mcp" in shown
    assert "installs server-files (newest version) and what it depends on from npm" in shown
    assert "sees no file of the chat" in shown
    assert (root / "toolsets/files/toolset.yaml").exists()
    assert "enabled: true" not in state
    assert "grants" not in state


def test_a_file_of_many_settings_is_read_as_its_host(root: Path, cli: Cli) -> None:
    own = {"history": ["ghp_" + TOKEN], "mcpServers": {"files": SERVERS["files"]}}
    write(root.parent / "home/.claude.json", own)
    write(root / ".mcp.json", {"mcpServers": {"git.hub": SERVERS["git.hub"]}})
    status, shown = cli("mcp", "import", "--from", "claude-code", "--server", "files", "--yes")

    assert status == 0, shown
    assert "replaces a credential" not in shown


@pytest.mark.usefixtures("cursor")
def test_all_servers_of_all_files_are_imported_except_those_that_cannot_be(
    root: Path, cli: Cli
) -> None:
    goose = root.parent / "config/goose/config.yaml"
    goose.parent.mkdir(parents=True, exist_ok=True)
    goose.write_text(
        "extensions:\n  files: {type: stdio, name: files, cmd: npx, args: [other], enabled: true}\n"
        "  shop: {type: stdio, name: shop, cmd: npx, args: [shop], enabled: true, env_keys: [SHOP_KEY]}\n"
        "  memory: {type: builtin, name: memory, enabled: true}\n"
    )
    status, shown = cli("mcp", "import", "--all", "--yes")
    shop = yaml_text.load_file(root / "toolsets/shop/toolset.yaml", "t").data

    assert status == 0, shown
    assert {path.parent.name for path in root.glob("toolsets/*/toolset.yaml")} >= {
        *("git-hub", "files", "shop")
    }
    assert shop["mcp_servers"][0]["env"] == {"SHOP_KEY": "${SHOP_KEY}"}
    assert "'files' was left out: " in shown
    assert f"'memory' was left out: {goose}:4:11 " in shown
    assert not (root / "toolsets/memory").exists()


def test_a_reference_to_a_server_elsewhere_does_not_stop_the_others(root: Path, cli: Cli) -> None:
    file = root / "config.yaml"
    file.write_text("mcpServers:\n  - uses: acme/memory\n  - {name: near, command: npx}\n")
    status, shown = cli("mcp", "import", "--from", str(file), "--all", "--yes")

    assert status == 0, shown
    assert f"'acme/memory' was left out: {file}:2:5 " in shown
    assert (root / "toolsets/near/toolset.yaml").exists()


def test_rules_and_lists_of_a_file_apply_to_an_imported_server(root: Path, cli: Cli) -> None:
    servers = {name: {"command": "npx", "args": ["-y", "x"]} for name in ("far", "near")}
    excluded = ["mcp_near_rm", "mcp_far_rm", "old_name"]
    choices = {"mcp": {"allowed": ["far"]}, "tools": {"exclude": excluded}}
    file = write(root / "settings.json", {"mcpServers": servers, **choices})
    options = ("--from", str(file), "--host", "gemini-cli", "--yes")
    status, shown = cli("mcp", "import", *options, "--server", "near")
    toolset = (root / "toolsets/near/toolset.yaml").read_text()

    assert status == 0, shown
    assert shown.count("/mcp/allowed: Gemini CLI does not start 'near'") == 1
    assert "mcp_far_rm" not in shown
    assert shown.count("'old_name'") == 1
    assert yaml_text.load(toolset, "t").data["tool_overrides"] == [
        {"tool_id": "near:rm", "enabled": False}
    ]
    assert "far" not in toolset

    shutil.rmtree(root / "toolsets/near")
    status, shown = cli("mcp", "import", *options, "--all")
    assert status == 0, shown
    assert shown.count("'old_name'") == 1
    assert "mcp_near_rm" not in shown


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--from", "cursor"], "add --all, or --server with one of: git.hub, files"),
        (["--from", "cursor", "--server", "files"], "add --yes, or --dry-run"),
        (["--from", "cursor", "--server", "file", "--yes"], "did you mean 'files'?"),
        (
            ["--from", "windsurf", "--server", "a", "--yes"],
            "'windsurf' is neither a file nor a host",
        ),
        (["--from", "covalt.yaml", "--server", "a", "--yes"], "is not known"),
    ],
)
@pytest.mark.usefixtures("cursor")
def test_without_a_terminal_the_file_and_servers_must_be_named(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    monkeypatch.chdir(root)
    status, shown = cli("mcp", "import", *args)

    assert status != 0
    assert message in shown
    assert not (root / "toolsets/files").exists()


@pytest.mark.usefixtures("cursor")
def test_at_a_terminal_a_user_selects_the_file_and_servers(
    root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([1, "2"])
    monkeypatch.setattr(mcp_import, "can_ask", lambda: True)
    monkeypatch.setattr(click, "prompt", lambda *_args, **_how: next(answers))
    monkeypatch.setattr(click, "confirm", lambda *_args, **_how: True)
    status, shown = cli("mcp", "import")

    assert status == 0, shown
    assert (root / "toolsets/files").exists()
    assert not (root / "toolsets/git-hub").exists()


def test_of_all_servers_our_own_is_left_out(root: Path, cli: Cli) -> None:
    assert cli("mcp", "install", "claude-desktop", "--yes")[0] == 0
    own = {
        "uv": {"command": "uvx", "args": ["covalt-git", "mcp"]},
        "py": {"command": "/usr/bin/python3", "args": ["-m", "covalt_git", "mcp"]},
        "far": {
            "url": "http://127.0.0.1:8000/mcp",
            "headers": {"Authorization": "Bearer ${env:COVALT_GIT_AGENT_TOKEN}"},
        },
        "git-files": {"command": "npx", "args": ["covalt-git-mcp-files"]},
    }
    write(root.parent / "home/.cursor/mcp.json", {"mcpServers": own})
    status, shown = cli("mcp", "import", "--all", "--yes")

    assert status == 0, shown
    assert (root / "toolsets/git-files/toolset.yaml").exists()
    for name in ("covalt-git", "uv", "py", "far"):
        assert f"'{name}' was left out: it is covalt-git itself" in shown
        assert not (root / "toolsets" / name).exists()


def test_servers_that_claude_code_has_for_the_folder_of_the_project_are_imported(
    root: Path, cli: Cli
) -> None:
    here = {"files": {"command": "npx", "args": ["here"]}, "local": SERVERS["files"]}
    elsewhere = {"other": SERVERS["files"]}
    projects = {str(root): {"mcpServers": here}, "/elsewhere": {"mcpServers": elsewhere}}
    file = write(
        root.parent / "home/.claude.json",
        {"projects": projects, "mcpServers": {"files": SERVERS["files"], "mine": here["local"]}},
    )
    status, shown = cli("mcp", "import", "--from", "claude-code", "--all", "--yes")
    files = yaml_text.load_file(root / "toolsets/files/toolset.yaml", "t").data

    assert status == 0, shown
    assert files["mcp_servers"][0]["args"] == ["here"]
    assert (root / "toolsets/local").exists()
    assert (root / "toolsets/mine").exists()
    assert not (root / "toolsets/other").exists()
    write(file, {"projects": projects})
    assert (
        "add --all, or --server with one of: files, local"
        in cli("mcp", "import", "--from", str(file))[1]
    )


@pytest.mark.parametrize("key", ["mcp.servers", "mcp"])
def test_servers_of_both_forms_of_opencode_are_imported(root: Path, cli: Cli, key: str) -> None:
    servers = {"files": {"type": "local", "command": ["npx", "files"]}}
    settings = {"mcp": {"servers": servers} if "." in key else servers}
    limits = {"experimental": {"mcp_timeout": 90000}}
    write(root / "opencode.json", {**settings, **limits})
    status, shown = cli("mcp", "import", "--from", "opencode", "--all", "--yes")

    assert status == 0, shown
    assert (root / "toolsets/files/toolset.yaml").exists()
    assert "lost /experimental/mcp_timeout" in shown


def test_settings_of_vscode_have_servers_too(root: Path, cli: Cli) -> None:
    settings = root.parent / "config/Code/User/settings.json"
    server = {"command": "npx", "args": ["files"], "env": {"FILES_KEY": "${input:files-key}"}}
    inputs = [
        {"type": "promptString", "id": name, "password": True}
        for name in ("other-key", "files-key")
    ]
    write(settings, {"editor.tabSize": 2})
    assert json.loads(cli("mcp", "import", "--json")[1])["files"] == []

    write(settings, {"editor.tabSize": 2, "mcp": {"inputs": inputs, "servers": {"disk": server}}})
    for source in ("vscode-settings", str(settings)):
        status, shown = cli("mcp", "import", "--from", source, "--server", "disk", "--yes")
        toolset = yaml_text.load_file(root / "toolsets/disk/toolset.yaml", "t").data

        assert status == 0, shown
        assert toolset["secrets"] == ["FILES_KEY"]
        assert toolset["mcp_servers"][0]["env"] == {"FILES_KEY": "${FILES_KEY}"}
