"""``auth``: signing in through a browser that follows, what is told of it, and out again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covalt_git.toolsets.new_project import create_project
from tests import command
from tests.connections.signing_in import Guarded, guarded

BROWSER = """\
import sys, urllib.request
print("a browser says what it likes")
urllib.request.urlopen(sys.argv[1], timeout=10).read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with guarded(SECRET="pa$$word") as running:
        yield running


@pytest.fixture
def root(tmp_path: Path, server: Guarded) -> Path:
    """A project that has the server granted, and a program that has nobody to sign in to."""
    made = tmp_path / "project"
    create_project(made)
    manifest = made / "toolsets/demo/toolset.yaml"
    manifest.parent.mkdir()
    manifest.write_text(
        f'id: demo\nname: Demo\nversion: "1"\nmcp_servers:\n  - {{id: far, url: "{server.url}"}}\n'
        "  - {id: started, command: node}\n"
    )
    command.run("grant", "add", "demo", "server", "far", cwd=made)
    return made


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A person's own folder and browser."""
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BROWSER": f"{sys.executable} {program} %s"}
    return os.environ | own


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {"data", ".git"} & set(path.relative_to(root).parts)
    }


def test_a_person_signs_in_sees_it_and_signs_out(
    root: Path, env: dict[str, str], server: Guarded, tmp_path: Path
) -> None:
    before = files(root)

    done = command.run("auth", "login", "demo/far", cwd=root, env=env)

    assert (done.returncode, done.stdout) == (
        0,
        f"signed in to demo/far by {server.issuer}, for use\n",
    )
    leads, sign_in, address, _waiting = done.stderr.splitlines()
    assert leads == f"signing in leads to {server.issuer}"
    assert sign_in == "sign in at this address:"
    assert address.startswith(f"  {server.issuer}/authorize?response_type=code&")
    assert files(root) == before
    (kept,) = (tmp_path / "config").rglob("*.json")
    secrets = json.loads(kept.read_text())
    listed = command.run("auth", "list", cwd=root, env=env)
    assert listed.stdout.splitlines()[1].split()[:2] == ["demo/far", server.url]
    as_json = command.run("auth", "list", "--json", cwd=root, env=env)
    (told,) = json.loads(as_json.stdout)["logins"]
    assert (told["server"], told["scope"], told["renewable"]) == ("demo/far", "use", True)
    shown = done.stdout + done.stderr + listed.stdout + as_json.stdout
    for name in ("access_token", "refresh_token", "client_secret"):
        assert secrets[name] not in shown

    out = command.run("auth", "logout", "demo/far", cwd=root, env=env)

    assert (out.stdout, out.stderr) == ("signed out of demo/far\n", "")
    who = secrets["client_id"]
    assert server.log()[-2:] == [f"revoke refresh of {who}", f"revoke access of {who}"]
    assert list((tmp_path / "config").rglob("*.json")) == []
    again = command.run("auth", "logout", "demo/far", cwd=root, env=env)
    assert again.stdout == "you were not signed in to demo/far\n"
    assert command.run("auth", "list", cwd=root, env=env).stdout.startswith(
        "you are signed in to no"
    )


def test_calls_say_how_to_sign_in_and_then_work(root: Path, env: dict[str, str]) -> None:
    refused = command.run("source", "refresh", "demo/far", "--accept", cwd=root, env=env)
    assert refused.returncode == 1
    assert "wants to know who asks" in refused.stderr
    assert "covalt-git auth login demo/far" in refused.stderr
    command.run("auth", "login", "demo/far", cwd=root, env=env)
    accepted = command.run("source", "refresh", "demo/far", "--accept", cwd=root, env=env)
    assert accepted.returncode == 0
    command.run("chat", "new", "--id", "c1", cwd=root, env=env)

    def called(tool: str) -> Any:
        done = command.run("call", "c1", tool, "{}", "--json", cwd=root, env=env)
        return json.loads(done.stdout)

    command.run("tool", "override", "far:who", "--no-confirm", cwd=root, env=env)
    command.run("tool", "override", "far:leak", "--no-confirm", cwd=root, env=env)
    assert called("far:who")["result"].endswith(" may use")
    assert "I know ***" in str(called("far:leak"))
    for path in filter(Path.is_file, root.rglob("*")):
        content = path.read_bytes()
        with suppress(zlib.error):
            content += zlib.decompress(content)  # an object of git's
        assert b"access-" not in content


def test_a_client_that_was_registered_is_named_by_its_secret(
    root: Path, env: dict[str, str], tmp_path: Path
) -> None:
    words = ["--client-id", "known", "--client-secret", "FAR_PASSWORD", "--json"]
    env = env | {"FAR_PASSWORD": "pa$$word"}

    done = command.run("auth", "login", "demo/far", *words, cwd=root, env=env)

    assert json.loads(done.stdout)["client_id"] == "known"
    (kept,) = (tmp_path / "config").rglob("*.json")
    assert "pa$$word" not in kept.read_text() + done.stdout + done.stderr


def test_a_server_that_was_not_granted_is_not_gone_to(
    root: Path, env: dict[str, str], server: Guarded
) -> None:
    command.run("grant", "revoke", "demo", "server", "far", cwd=root)
    before = server.log()

    done = command.run("auth", "login", "demo/far", cwd=root, env=env)

    assert done.returncode == 1
    assert "covalt-git grant add demo server far" in done.stderr
    assert server.log() == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["login", "far"], 2, "'far' is no TOOLSET/SERVER"),
        (["login", "demo/fra"], 1, "did you mean 'far'?"),
        (["login", "demo/started"], 1, "a program, which nobody signs in to"),
        (["login", "demo/far", "--client-secret", "A"], 2, "goes with client_id"),
    ],
)
def test_what_cannot_be_signed_in_to_is_told(
    root: Path, env: dict[str, str], words: list[str], code: int, said: str
) -> None:
    done = command.run("auth", *words, cwd=root, env=env)

    assert (done.returncode, said in done.stderr) == (code, True)


def test_a_sign_in_that_is_not_what_it_should_be_is_told_in_a_line(
    root: Path, env: dict[str, str], server: Guarded
) -> None:
    server.set(wrong="iss")
    try:
        done = command.run("auth", "login", "demo/far", cwd=root, env=env)
    finally:
        server.set()

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "nobody is signed in to demo/far: Authorization response iss mismatch"
    )
    assert "Traceback" not in done.stderr


def test_what_is_not_taken_back_is_forgotten_all_the_same(
    root: Path, env: dict[str, str], server: Guarded, tmp_path: Path
) -> None:
    server.set(wrong="unrevoked")
    try:
        command.run("auth", "login", "demo/far", cwd=root, env=env)
    finally:
        server.set()

    out = command.run("auth", "logout", "demo/far", cwd=root, env=env)

    why = "https://tokens.example was not part of signing in"
    assert out.stdout == "signed out of demo/far\n"
    assert out.stderr == f"{server.issuer} did not take its tokens back: {why}\n"
    assert list((tmp_path / "config").rglob("*.json")) == []


def test_a_server_that_a_header_tells_who_asks_is_not_signed_in_to(
    root: Path, env: dict[str, str], server: Guarded
) -> None:
    manifest = root / "toolsets/demo/toolset.yaml"
    said = manifest.read_text().replace('/mcp"}', '/mcp", headers: {authorization: "Bearer 1"}}')
    manifest.write_text(said)
    command.run("grant", "add", "demo", "server", "far", cwd=root)
    before = server.log()

    done = command.run("auth", "login", "demo/far", cwd=root, env=env)

    assert done.returncode == 1
    assert "by its header 'Authorization', and by no sign-in" in done.stderr
    assert server.log() == before


def test_ctrl_c_ends_the_waiting_and_leaves_nothing(
    root: Path, env: dict[str, str], tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "covalt_git", "auth", "login", "demo/far", "--no-browser"]
    with subprocess.Popen(program, cwd=root, env=env, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        while "waiting for you" not in waiting.stderr.readline():
            assert waiting.poll() is None
        waiting.send_signal(signal.SIGINT)
        said = waiting.stderr.read()

    assert (waiting.returncode, "Traceback" in said) == (130, False)
    assert list((tmp_path / "config").rglob("*.json")) == []


def test_a_folders_own_webbrowser_is_not_what_opens_the_address(
    root: Path, env: dict[str, str]
) -> None:
    (root / "webbrowser.py").write_text("open('was-run', 'w')")

    done = command.run("auth", "login", "demo/far", cwd=root, env=env)

    assert done.returncode == 0
    assert not (root / "was-run").exists()
