"""``covalt-git serve`` as a person or a script starts it: a process, its words, its pages, its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from covalt_git.cli import main
from covalt_git.serving.server_registry import pages_address
from covalt_git.toolsets.new_project import create_project

PATIENCE_S = 60
Refused = Callable[..., tuple[int, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_project(tmp_path / "demo")
    return tmp_path / "demo"


def argv(*args: str) -> list[str]:
    return [sys.executable, "-m", "covalt_git", *args]


def environment(**more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("COVALT_GIT_")}
    return kept | more


@dataclass
class Served:
    """A server that printed its address, which is ``line``."""

    program: subprocess.Popen[str]
    line: str

    @property
    def url(self) -> str:
        url: str = json.loads(self.line)["url"] if self.line.startswith("{") else self.line.strip()
        return url

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

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[str, str]:
        """Stop it, and return what else it printed."""
        self.program.send_signal(how)
        return self.program.communicate(timeout=PATIENCE_S)


@contextmanager
def served(*args: str, cwd: Path | None = None, **variables: str) -> Iterator[Served]:
    with subprocess.Popen(
        argv(*args),
        cwd=cwd,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            line = program.stdout.readline()
            assert line, program.communicate()[1]
            yield Served(program, line)
        finally:
            program.kill()


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Return the exit code and the words of a command that does not come to serve."""

    def refused(*args: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(args)
        printed = capsys.readouterr()
        assert printed.out == ""
        assert isinstance(ended.value.code, int)
        return ended.value.code, printed.err

    return refused


def test_the_printed_address_opens_the_project(root: Path) -> None:
    with served("serve", "--port", "0", "--json", cwd=root) as server:
        about = json.loads(server.line)
        status, headers, _ = server.get(f"/?token={server.token}")
        cookie = headers["Set-Cookie"].partition(";")[0]
        page = server.get(headers["Location"], Cookie=cookie)

    assert about == {
        "url": f"http://127.0.0.1:{server.port}/?token={server.token}",
        "host": "127.0.0.1",
        "port": server.port,
        "pid": server.program.pid,
    }
    assert status == 303
    assert (page[0], page[1].get_content_type()) == (200, "text/html")
    assert b"</html>" in page[2]


def test_who_leads_a_person_to_the_pages_finds_them_and_no_way_in(root: Path) -> None:
    with served("serve", "--port", "0", cwd=root) as server:
        address = pages_address(root)
        status, _, _ = server.get("/approvals")
        told = b"".join(one.read_bytes() for one in (root / "data/serving").iterdir())
        server.end()

    assert address == f"http://127.0.0.1:{server.port}"
    assert status == 401
    assert server.token.encode() not in told
    assert pages_address(root) is None


def test_without_the_token_nothing_opens(root: Path) -> None:
    with served("-C", str(root), "serve", "--port", "0") as server:
        status, _, body = server.get("/api/list_toolsets")

    assert status == 401
    assert json.loads(body)["error"] == "no_token"
    assert server.token.encode() not in body


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_it_ends_in_peace(root: Path, how: signal.Signals) -> None:
    with served("serve", "--root", str(root), "--port", "0", cwd=root.parent) as server:
        server.get("/")
        out, err = server.end(how)

    assert server.program.returncode == 0
    assert server.line == f"{server.url}\n"
    assert out == ""
    assert err == "serving 'demo' until Ctrl-C; open in your browser:\nstopped\n"


def test_the_token_is_new_at_every_start(root: Path) -> None:
    with served("-C", str(root), "serve", "--port", "0") as first:
        pass
    with served("-C", str(root), "serve", "--port", "0") as second:
        pass

    assert first.token != second.token
    assert len(first.token) == len(second.token) == 43


def test_the_token_of_the_environment_is_taken(root: Path) -> None:
    token = "0123456789abcdef"
    with served("-C", str(root), "serve", "--port", "0", COVALT_GIT_TOKEN=token) as server:
        answer = server.get("/api/list_toolsets", Authorization=f"Bearer {token}")

    assert server.token == token
    assert answer[0] == 200


@pytest.mark.parametrize("token", ["", "short", "0123456789abcde&", "0123456789 abcdef"])
def test_a_token_that_would_not_do_is_refused(
    root: Path, token: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVALT_GIT_TOKEN", token)
    code, err = refused("-C", str(root), "serve", "--port", "0")

    assert code == 1
    assert err == (
        "COVALT_GIT_TOKEN has to be 16 or more letters, digits or any of -._~\n"
        "  hint: export COVALT_GIT_TOKEN=$(openssl rand -hex 32)\n"
    )


def test_an_agents_token_is_not_made_the_servers_own(
    root: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVALT_GIT_TOKEN", "cvg_" + "a1b2" * 10 + "c3d")
    code, err = refused("-C", str(root), "serve", "--port", "0")

    assert code == 1
    assert err == (
        "COVALT_GIT_TOKEN has an agent's token, which would open everything\n"
        "  hint: an agent's host has it in another variable: unset COVALT_GIT_TOKEN\n"
    )


def test_verbose_prints_requests_and_never_the_token(root: Path) -> None:
    with served("-C", str(root), "serve", "--port", "0", "--verbose") as server:
        server.get(f"/?token={server.token}")
        server.get("/api/list_toolsets?x=1")
        _, err = server.end()

    assert err.splitlines()[1:] == ["GET / 303", "GET /api/list_toolsets 401", "stopped"]
    assert server.token not in err


def test_a_port_in_use_is_an_error(root: Path, refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        assert refused("-C", str(root), "serve", "--port", str(port)) == (
            1,
            f"port {port} is in use\n  hint: choose a free port: covalt-git serve --port 0\n",
        )


def test_an_error_is_json_where_json_was_asked_for(root: Path, refused: Refused) -> None:
    code, err = refused("-C", str(root), "--role", "boss", "serve", "--port", "0", "--json")

    assert code == 1
    assert json.loads(err)["error"] == "unknown_role"


def test_where_others_can_reach_it_it_warns(root: Path) -> None:
    with served("-C", str(root), "serve", "--port", "0", "--host", "0.0.0.0") as server:
        status = server.get("/")[0]
        _, err = server.end()

    assert server.url.startswith("http://127.0.0.1:")
    assert status == 401
    assert "warning: other machines can reach this" in err


def test_the_browser_is_opened_once_the_server_answers(root: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    os.mkfifo(seen)
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.request as web\n"
        "answer = web.build_opener(web.HTTPCookieProcessor()).open(sys.argv[1])\n"
        f"print(answer.status, sys.argv[1], file=open({str(seen)!r}, 'w'))\n",
        encoding="utf-8",
    )
    browser.chmod(0o755)
    with served("-C", str(root), "serve", "--port", "0", "--open", BROWSER=str(browser)) as server:
        assert seen.read_text(encoding="utf-8") == f"200 {server.url}\n"


def test_outside_a_project_it_says_so(tmp_path: Path, refused: Refused) -> None:
    code, err = refused("serve", "--root", str(tmp_path))

    assert code == 2
    assert err.startswith("there is no covalt.yaml in ")
