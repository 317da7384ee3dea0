"""``covalt-git mcp install``: our server in the configuration of hosts."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from covalt_git.project import Project
from tests.command import run
from tests.mcp_client import REPOSITORY, make_project


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def install(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_CONFIG_HOME": str(root.parent / "config")}
    return run("mcp", *args, cwd=root, env=env)


@pytest.mark.parametrize(
    ("host", "file", "key", "where"),
    [
        ("claude-code", ".mcp.json", "mcpServers", []),
        ("vscode", ".vscode/mcp.json", "servers", ["-C", "${workspaceFolder}"]),
        ("cursor", ".cursor/mcp.json", "mcpServers", ["-C", "${workspaceFolder}"]),
    ],
)
def test_the_file_of_a_project_gets_a_server_and_no_path_of_this_machine(
    root: Path, host: str, file: str, key: str, where: list[str]
) -> None:
    done = install(root, "--mode", "search", "--role", "reader", "install", host, "--yes")

    assert done.returncode == 0, done.stderr
    assert '+      "command": "covalt-git",' in done.stdout
    entry = json.loads((root / file).read_text())[key]["covalt-git"]
    assert entry == {
        "type": "stdio",
        "command": "covalt-git",
        "args": [*where, "mcp", "--mode", "search", "--role", "reader", "--names", "underscore"],
    }
    again = install(root, "--mode", "search", "--role", "reader", "install", host)
    assert (again.returncode, again.stdout) == (0, f"{root / file} has it already\n")


@pytest.mark.skipif(sys.platform == "darwin", reason="it is in a person's Library there")
def test_the_file_of_a_person_keeps_what_else_is_in_it(root: Path) -> None:
    file = root.parent / "config" / "Claude" / "claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"theme": "dark", "mcpServers": {"other": {"command": "x"}}}')
    file.chmod(0o600)

    done = install(root, "--names", "dots", "install", "claude-desktop", "--yes", "--json")

    told = json.loads(done.stdout)
    said = json.loads(file.read_text())
    assert told == {"path": str(file), "entry": said["mcpServers"]["covalt-git"], "written": True}
    assert said["theme"] == "dark"
    assert [*said["mcpServers"]] == ["other", "covalt-git"]
    assert told["entry"]["args"] == ["-C", str(root), "mcp", "--names", "dots"]
    assert Path(told["entry"]["command"]).is_absolute()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("host", "kind", "token"),
    [
        ("claude-code", {"type": "http"}, "${COVALT_GIT_AGENT_TOKEN}"),
        ("vscode", {"type": "http"}, "${env:COVALT_GIT_AGENT_TOKEN}"),
        ("cursor", {}, "${env:COVALT_GIT_AGENT_TOKEN}"),
    ],
)
def test_a_host_may_be_given_the_address_of_the_server(
    root: Path, host: str, kind: dict[str, str], token: str
) -> None:
    with Project.open(root).chats.new("c1"):
        pass

    done = install(root, "--chat", "c1", "--role", "reader", "install", host, "--http", "--print")

    assert json.loads(done.stdout) == {
        "covalt-git": {
            **kind,
            "url": "http://127.0.0.1:8787/mcp?chat=c1&names=underscore",
            "headers": {"Authorization": f"Bearer {token}"},
        }
    }
    told = f"covalt-git token new --role reader --name {host} --chat c1\n"
    assert done.stderr.endswith(told)
    made = run("-C", str(root), *shlex.split(told)[1:])
    assert made.stdout.startswith("cvg_"), made.stderr


def test_an_address_says_the_options_that_stand_before(root: Path) -> None:
    options = ("--mode", "search", "--names", "dots")
    done = install(root, *options, "install", "cursor", "--http", "--print")

    address = json.loads(done.stdout)["covalt-git"]["url"]
    assert address == "http://127.0.0.1:8787/mcp?mode=search&names=dots"


def test_who_has_no_role_where_there_are_roles_is_told_that_there_is_no_tool(root: Path) -> None:
    told = "no tools: no role was named, and covalt.yaml has no default_role\n  hint: covalt-git "
    (root / "covalt.yaml").write_text("version: 1\nroles: {reader: {allow: ['**']}}\n")
    roleless = install(root, "install", "cursor", "--print")
    named = install(root, "--role", "reader", "install", "cursor", "--print")
    listed = run("-C", str(root), "tool", "list")
    started = run("-C", str(root), "mcp")

    role = "--role reader"
    assert roleless.stderr == f"{told}mcp {role} install cursor\n"
    assert named.stderr == ""
    assert (listed.stdout, listed.stderr) == ("", f"{told}{role} tool list\n")
    assert started.stderr == f"{told}mcp {role}\n"


def test_who_starts_it_by_hand_is_told_what_it_waits_for(root: Path) -> None:
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "covalt_git", "-C", str(root), "mcp", "--role", "reader"]
    done = subprocess.Popen(
        program, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.write(ours, b"\x04")
    said = done.communicate(timeout=30)

    assert said[0] == ""
    assert "hint: covalt-git mcp install claude-code" in said[1]


def test_what_is_written_is_told_with_what_makes_its_token(root: Path) -> None:
    told = "covalt-git token new --role ROLE --name cursor"
    done = install(root, "install", "cursor", "--http", "--yes")
    (root / ".cursor/mcp.json").unlink()
    as_json = install(root, "install", "cursor", "--http", "--yes", "--json")

    assert done.stderr.endswith(f"COVALT_GIT_AGENT_TOKEN; make one: {told}\n")
    assert json.loads(as_json.stdout)["token_with"] == told


def test_what_an_address_cannot_say_is_told(root: Path) -> None:
    desktop = install(root, "install", "claude-desktop", "--http", "--yes")
    with (root / "covalt.yaml").open("a") as config:
        config.write("server: {port: 0}\n")
    anywhere = install(root, "install", "cursor", "--http", "--yes")

    assert (desktop.returncode, anywhere.returncode) == (1, 2)
    assert "hint: leave --http out" in desktop.stderr
    assert "another port each time" in anywhere.stderr
    assert not (root / ".cursor").exists()


def test_nothing_is_written_unasked(root: Path) -> None:
    printed = install(root, "install", "cursor", "--print", "--name", "mine")
    refused = install(root, "install", "cursor")

    assert [*json.loads(printed.stdout)] == ["mine"]
    assert refused.returncode == 2
    assert '+  "mcpServers": {' in refused.stdout
    assert "add --yes to write it" in refused.stderr
    assert not (root / ".cursor").exists()


@pytest.mark.parametrize("text", ["{ // mine\n}", "[]", '{"mcpServers": []}'])
def test_a_file_that_cannot_be_understood_is_left_alone(root: Path, text: str) -> None:
    (root / ".mcp.json").write_text(text)

    done = install(root, "install", "claude-code", "--yes")

    assert done.returncode == 1
    assert done.stderr.count("hint: ") == 1
    assert (root / ".mcp.json").read_text() == text


def test_a_host_reaches_the_tools_by_what_was_installed(root: Path, tmp_path: Path) -> None:
    """The entry's own command line, with this interpreter's covalt-git on the PATH."""
    program = tmp_path / "bin" / "covalt-git"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from covalt_git.cli import main; main()' \"$@\"\n"
    )
    program.chmod(0o755)
    install(root, "install", "claude-code", "--yes")
    entry = json.loads((root / ".mcp.json").read_text())["mcpServers"]["covalt-git"]
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    how = StdioServerParameters(
        command=str(program), args=entry["args"], cwd=root, env={"PYTHONPATH": paths}
    )

    async def main() -> list[str]:
        async with Client(how) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert "demo_write" in anyio.run(main)
