"""``auth``: signing in to servers through a browser, and the stored and printed facts of it."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import make_project
from tests.command import Piped, run
from tests.connections.signing_in import Guarded, guarded
from tests.trusting import use_config

BROWSER = """\
import sys, urllib.request
print("a browser prints what it likes")
urllib.request.urlopen(sys.argv[1], timeout=10).read()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with guarded(SECRET="pa$$word") as running:
        yield running


@pytest.fixture
def root(tmp_path: Path, server: Guarded) -> Path:
    """A project that is granted the server."""
    root = make_project(tmp_path / "project")
    (root / "toolsets/demo").mkdir()
    (root / "toolsets/demo/toolset.yaml").write_text(
        'id: demo\nname: Demo\nversion: "1"\n'
        f'mcp_servers:\n  - {{id: far, url: "{server.url}", requires_confirmation: false}}\n'
    )
    run("grant", "add", "demo", "server", "far", "--no-terminal", "test", cwd=root)
    return root


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's credentials; the user's browser follows where it is led."""
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    use_config(monkeypatch, tmp_path / "config")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {program} %s")
    return tmp_path / "config"


def logins(stored: Path) -> list[Path]:
    others = {"trusted", "data-folders"}
    return [file for file in stored.rglob("*.json") if others.isdisjoint(file.parts)]


def credentials(stored: Path) -> Any:
    (file,) = logins(stored)
    return json.loads(file.read_text())


def test_a_user_signs_in_and_out(root: Path, server: Guarded, stored: Path) -> None:
    done = run("auth", "login", "demo/far", cwd=root)
    secrets = credentials(stored)
    lists = [run("auth", "list", *form, cwd=root).stdout for form in ([], ["--json"])]

    assert done.returncode == 0
    assert f"  {server.issuer}/authorize?response_type=code&" in done.stderr
    assert lists[0].splitlines()[1].split()[:2] == ["demo/far", server.url]
    (login,) = json.loads(lists[1])["logins"]
    assert (login["server"], login["scope"], login["renewable"]) == ("demo/far", "use", True)
    for name in ("access_token", "refresh_token", "client_secret"):
        assert secrets[name] not in done.stdout + done.stderr + "".join(lists)
        for file in filter(Path.is_file, root.rglob("*")):
            assert secrets[name].encode() not in file.read_bytes()

    assert run("auth", "logout", "demo/far", cwd=root).returncode == 0
    who = secrets["client_id"]
    assert server.log()[-2:] == [f"revoke refresh of {who}", f"revoke access of {who}"]
    assert logins(stored) == []


def test_ctrl_c_ends_a_login(root: Path, stored: Path) -> None:
    login = Piped("auth", "login", "demo/far", "--no-browser", cwd=root)
    while "waiting for you" not in login.stderr.readline():
        assert not login.ends_within(0)
    login.interrupt()
    done = login.end()

    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert logins(stored) == []


def test_a_module_in_the_folder_is_not_run_as_the_browser(root: Path) -> None:
    (root / "webbrowser.py").write_text("open('was-run', 'w')")
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    assert run("auth", "login", "demo/far", cwd=root, env=env).returncode == 0
    assert not (root / "was-run").exists()
