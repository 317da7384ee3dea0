"""``covalt-git toolset uninstall``: the tools go, and the chats keep what they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import command

MANIFEST = 'id: demo\nname: Demo\nversion: "1"\ntools:\n  - {id: run, entrypoint: "tools.a:run"}\n'
TOOL = "def run(path: str) -> str:\n    open(path, 'w').write('hello')\n    return path\n"


def covalt(root: Path, *args: str) -> tuple[int, str]:
    done = command.run(*args, cwd=root)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "toolsets/demo/tools").mkdir(parents=True)
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets/demo/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "toolsets/demo/tools/a.py").write_text(TOOL, encoding="utf-8")
    return tmp_path


def test_what_a_removed_toolset_did_can_still_be_read(root: Path) -> None:
    covalt(root, "chat", "new", "--id", "c1")
    covalt(root, "call", "c1", "demo:run", "--arg", "path=a.txt")
    covalt(root, "call", "c1", "demo:run", "--arg", "path=b.txt")
    log = covalt(root, "chat", "log", "c1")
    rows = json.loads(covalt(root, "chat", "log", "c1", "--json")[1])["manifests"]

    refused = covalt(root, "toolset", "uninstall", "demo")
    assert refused[0] == 1
    assert "git add toolsets/demo && git commit, or add --force" in refused[1]
    assert covalt(root, "toolset", "uninstall", "demo", "--force") == (0, "demo is removed\n")

    assert json.loads(covalt(root, "tool", "list", "--json")[1]) == {"groups": []}
    assert covalt(root, "index", "rebuild")[0] == 0
    assert covalt(root, "chat", "log", "c1") == log
    assert covalt(root, "chat", "show", "c1", rows[0]["id"])[0] == 0
    assert covalt(root, "chat", "restore", "c1", rows[-1]["id"])[0] == 0
    assert covalt(root, "call", "c1", "demo:run", "--arg", "path=c.txt")[0] == 1
    assert covalt(root, "validate")[0] == 0


def test_a_role_that_may_not_do_everything_removes_nothing(root: Path) -> None:
    roles = 'roles: {maker: {allow: ["**"]}, owner: {admin: true}}\n'
    (root / "covalt.yaml").write_text(f"version: 1\n{roles}", encoding="utf-8")

    code, said = covalt(root, "--role", "maker", "toolset", "uninstall", "demo", "--force")

    assert (code, said.splitlines()[0]) == (1, "your role may not remove toolsets")
    assert (root / "toolsets/demo/toolset.yaml").exists()
