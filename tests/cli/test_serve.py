"""``covalt-git serve`` as a user or a script starts it: its address, its token, its end."""

import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import click
import pytest

from covalt_git.cli.serve import print_url
from covalt_git.cli.terminal import output
from covalt_git.project import Project
from covalt_git.serving.listen_socket import ListenSocket
from covalt_git.serving.server import ServedProject
from covalt_git.serving.server_registry import pages_url
from tests.api_client import make_project
from tests.command import Piped
from tests.examples import one_in
from tests.mcp_client import add_toolset
from tests.operations_client import Operations
from tests.settling import until

Cli = Callable[..., tuple[int, str]]
PATIENCE_S = 60


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("served") / "demo")


@dataclass
class Served:
    """A server that printed its URL."""

    command: Piped
    printed: str

    @property
    def url(self) -> str:
        is_json = self.printed.startswith("{")
        return str(json.loads(self.printed)["url"]) if is_json else self.printed.strip()

    @property
    def token(self) -> str:
        (token,) = parse_qs(urlsplit(self.url).query)["token"]
        return token

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    def get(self, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body


def serve(root: Path, *args: str, **variables: str) -> Served:
    env = {name: text for name, text in os.environ.items() if not name.startswith("COVALT_GIT_")}
    command = Piped("serve", "--port", "0", *args, cwd=root, env=env | variables)
    line = command.stdout.readline()
    assert line, command.stderr.read()
    return Served(command, line)


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Served]:
    """A server that these tests share."""
    running = serve(root, "--json")
    yield running
    running.command.interrupt()
    running.command.end()


@pytest.mark.rest
def test_the_printed_url_opens_the_project(server: Served) -> None:
    about = json.loads(server.printed)
    status, headers, _ = server.get(f"/?token={server.token}")
    cookie = headers["Set-Cookie"].partition(";")[0]
    page = server.get(headers["Location"], Cookie=cookie)

    assert about == {
        "url": f"http://127.0.0.1:{server.port}/?token={server.token}",
        "host": "127.0.0.1",
        "port": server.port,
        "pid": about["pid"],
    }
    assert (status, page[0], page[1].get_content_type()) == (303, 200, "text/html")


def test_a_server_starts_with_a_broken_configuration_and_recovers_without_a_restart(
    tmp_path: Path,
) -> None:
    root = make_project(tmp_path / "demo")
    config = root / "covalt.yaml"
    sound = config.read_text()
    config.write_text(sound + "nonsense: 1\n")
    server = serve(root)
    key = {"Authorization": f"Bearer {server.token}"}

    status, _, page = server.get("/", **key)
    assert (status, b"Show and repair covalt.yaml" in page) == (400, True)
    assert server.get("/config", **key)[0] == 200
    config.write_text(sound)
    assert server.get("/", **key)[0] == 200
    # The server began as that of one machine, so its sessions would not end with those of other nodes.
    url = "file:///srv/{chat_id}.git"
    config.write_text(f"{sound}storage: {{type: git, url: '{url}'}}\n")
    status, _, page = server.get("/", **key)
    assert (status, b"start it again" in page) == (503, True)

    server.command.interrupt()
    assert "its pages only show and repair the file" in server.command.end().stderr
    # What a role or several machines need is in the file.
    for text, args in (("nonsense: 1\n", ["--role", "x"]), ("storage: {}\nnonsense: 1\n", [])):
        config.write_text(sound + text)
        ended = Piped(*args, "serve", "--port", "0", cwd=root).end()
        assert (ended.returncode, "covalt.yaml has errors" in ended.stderr) == (1, True)


@pytest.mark.parametrize("how", one_in(2, [signal.SIGTERM, signal.SIGINT]))
def test_a_server_stops_quietly(tmp_path: Path, how: signal.Signals) -> None:
    root = make_project(tmp_path / "demo")
    server = serve(root, "--verbose", "--host", "0.0.0.0")
    server.get(f"/?token={server.token}")
    server.get("/api/list_toolsets?x=1")
    os.kill(server.command.pid, how)
    done = server.command.end()

    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[-3:] == ["GET / 303", "GET /api/list_toolsets 401", "stopped"]
    assert "other machines can reach the server" in done.stderr
    assert server.token not in done.stderr
    assert len(server.token) == 43
    assert pages_url(root) is None


MANIFEST = """\
id: demo
name: Demo
version: 0.1.0
tools:
  - {id: endless, entrypoint: "tools.demo:endless"}
"""
ENDLESS = """\
import time
from pathlib import Path


def endless() -> None:
    # So many that their commit takes longer than the end of a process.
    for number in range(1000):
        Path(f"{number}.txt").write_text(str(number))
    Path("begun.txt").write_text("begun")
    time.sleep(600)
"""


@pytest.mark.parametrize("path", one_in(2, ["/api/stream", "/api/call_tool"]))
def test_a_call_that_runs_when_the_server_stops_is_recorded(tmp_path: Path, path: str) -> None:
    root = make_project(tmp_path / "demo")
    add_toolset(root, "demo", MANIFEST, ENDLESS)
    Project.open(root).chats.new("c1").store.close()
    server = serve(root)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    body = json.dumps({"chat_id": "c1", "tool_id": "demo:endless"})
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    connection.request("POST", path, body, headers)
    until(lambda: list(root.rglob("begun.txt")))
    server.command.interrupt()
    ended = server.command.end()
    connection.close()

    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (0, "stopped")
    operate = Operations(root)
    (call,) = operate("list_calls", chat_id="c1")["calls"]
    assert "the server was stopped" in str(call["error"])
    detail = operate("get_call", chat_id="c1", call_id=call["id"])
    assert len(detail["changes"]) == 1001


def test_the_token_may_come_from_the_environment_and_the_browser_is_opened(
    root: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "seen")
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.request as web\n"
        "answer = web.build_opener(web.HTTPCookieProcessor()).open(sys.argv[1])\n"
        f"print(answer.status, sys.argv[1], file=open({str(tmp_path / 'seen')!r}, 'w'))\n",
        encoding="utf-8",
    )
    browser.chmod(0o755)
    token = "0123456789abcdef"
    server = serve(root, "--open", COVALT_GIT_TOKEN=token, BROWSER=str(browser))

    assert (tmp_path / "seen").read_text(encoding="utf-8") == f"200 {server.url}\n"
    assert server.token == token
    assert server.get("/api/list_toolsets", Authorization=f"Bearer {token}")[0] == 200
    server.command.interrupt()
    assert "GET" not in server.command.end().stderr  # which --verbose prints


def test_a_log_has_no_token_that_the_environment_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COVALT_GIT_TOKEN", "a-token-of-the-environment")
    monkeypatch.setattr(output, "lines", lambda *_, **__: None)
    with socket.socket() as bound, click.Context(click.Command("serve")):
        listener = ListenSocket(bound, "127.0.0.1", 8787, open_to_others=False)
        print_url(ServedProject(tmp_path, listener, "a-token-of-the-environment"))

    assert capsys.readouterr().out == "http://127.0.0.1:8787\n"


@pytest.mark.parametrize(
    "token",
    ["", "short", "0123456789abcde&", "0123456789 abcdef", "cvg_" + "a1b2" * 10 + "c3d"],
)
def test_a_weak_token_or_one_of_an_agent_is_rejected(
    cli: Cli, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVALT_GIT_TOKEN", token)
    code, shown = cli("serve", "--port", "0")

    assert code == 1
    assert "COVALT_GIT_TOKEN" in shown
    assert not token or token not in shown
