"""``chat replay`` as somebody at a terminal, or a program, meets it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from covalt_git.runtime import sandbox
from covalt_git.toolsets.new_project import create_project
from tests import command


@pytest.fixture
def root(tmp_path: Path) -> Path:
    create_project(tmp_path)
    covalt(tmp_path, "chat", "new", "--id", "c1")
    return tmp_path


def run(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return command.run("-C", str(root), *args)


def covalt(root: Path, *args: str, code: int = 0) -> str:
    done = run(root, *args)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def call(root: Path, tool: str, *args: str) -> Any:
    return json.loads(covalt(root, "call", "c1", f"app-builder:{tool}", *args, "--json"))


def test_a_call_that_comes_out_the_same_exits_with_0(root: Path) -> None:
    made = call(root, "write_file", '{"path": "a.txt", "content": "1"}')

    said = covalt(root, "chat", "replay", "c1", made["id"])

    assert said == "app-builder:write_file: the same answer, the same files\n"
    assert covalt(root, "chat", "branch", "c1").count("\n") == 1


def test_one_that_comes_out_differently_is_told_kept_and_exits_with_1(root: Path) -> None:
    made = call(root, "run_command", "--arg", "command=date +%N | tee now", "--yes")
    short = made["post_manifest_id"][:12]

    said = covalt(root, "chat", "replay", "c1", made["id"], "--yes", code=1)

    assert said.startswith(
        "app-builder:run_command: another answer, other files\n  $.result.output: "
    )
    assert "  ~ now\n" in said
    assert said.endswith(f"replay-1 keeps it: covalt-git chat diff c1 {short} replay-1\n")
    assert "-" in covalt(root, "chat", "diff", "c1", short, "replay-1")
    discarded = run(root, "chat", "replay", "c1", made["id"], "--yes", "--discard", "--json")
    told = json.loads(discarded.stdout)
    assert discarded.returncode == 1
    assert (told["same"], told["branch"], told["manifest_id"]) == (False, None, None)
    assert [one["path"] for one in told["differences"]] == ["$.result.output"]
    assert [one["path"] for one in told["changes"]] == ["now"]
    assert (told["toolset_changed"], told["now"]["sandbox"]) == (False, sandbox.level())


def test_one_that_asks_says_how_to_approve_it(root: Path) -> None:
    made = call(root, "run_command", "--arg", "command=true", "--yes")

    said = covalt(root, "chat", "replay", "c1", made["id"], code=1)

    assert said == (
        "app-builder:run_command waits for a person: the toolset asks\n"
        f"  hint: approve it: covalt-git chat replay c1 {made['id']} --yes\n"
    )
    kept = covalt(root, "chat", "replay", "c1", made["id"], "--yes", "--keep")
    assert "replay-1 keeps it" in kept


def test_another_version_of_the_toolset_is_told(root: Path) -> None:
    made = call(root, "write_file", '{"path": "a.txt", "content": "1"}')
    tools = root / "toolsets/app-builder/tools/files.py"
    tools.write_text(tools.read_text(encoding="utf-8") + "\n# more\n", encoding="utf-8")

    said = covalt(root, "chat", "replay", "c1", made["id"])

    assert "the same answer, the same files\nthe toolset has changed: 1.0.0 sha256:" in said


def test_keep_and_discard_are_not_given_together(root: Path) -> None:
    said = covalt(root, "chat", "replay", "c1", "x", "--keep", "--discard", code=2)

    assert "give one of --keep and --discard" in said
