"""``covalt-git call`` while the tool runs: what is shown, and where."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from covalt_git.calls.running import Installing, Started
from covalt_git.cli.call_progress import following
from covalt_git.files.new_project import create_project
from covalt_git.project import Project
from covalt_git.runtime.jobs import Log, Progress
from tests.command import run

CALL = ("call", "c1", "demo:steps")

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: steps, entrypoint: tools.steps:steps}
"""
STEPS = """\
from covalt_toolset import get_context


def steps() -> str:
    context = get_context()
    context.progress(1, 4, "first")
    context.log("careful \\x1b[2J", "warning")
    context.progress(4, 4)
    return "done"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    create_project(made)
    folder = made / "toolsets" / "demo"
    (folder / "tools").mkdir(parents=True)
    (folder / "toolset.yaml").write_text(MANIFEST)
    (folder / "tools" / "steps.py").write_text(STEPS)
    Project.open(made).chats.new("c1")
    return made


def test_a_call_away_from_a_terminal_says_nothing_on_the_way(root: Path) -> None:
    done = run("-C", str(root), *CALL)

    assert (done.returncode, done.stderr) == (0, "")
    assert "warning: careful" in done.stdout  # it is part of what the tool printed


def test_following_prints_a_line_for_each_event(root: Path) -> None:
    done = run("-C", str(root), *CALL, "--follow", "--json")

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "[#####...............] 1/4 first",
        "warning: careful \\u001b[2J",
        "[####################] 4/4",
    ]
    assert '"status": "success"' in done.stdout


def test_at_a_terminal_a_line_moves_and_is_gone_at_the_end(root: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "covalt_git", "-C", str(root), *CALL, "--json"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as program:
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 1000)
            except OSError:  # how a terminal ends on Linux
                chunk = b""
            if not chunk:
                break
            shown += chunk
    os.close(ours)

    assert program.returncode == 0
    assert b"[#####...............] 1/4 first" in shown
    assert b"\n" not in shown
    assert shown.endswith(b"\r\x1b[K")


def test_what_is_told_is_one_safe_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    with following(wanted=True) as follower:
        follower.tell(Started("call-1"))
        follower.tell(Progress(3, None, ""))
        follower.tell(Progress(9, 3, "more than all"))
        follower.tell(Progress(-1, 3, "less than nothing"))
        follower.tell(Log("debug", "x"))
        follower.tell(Installing("installing pandas"))

    assert capsys.readouterr().err.splitlines() == [
        "3",
        "[####################] 9/3 more than all",
        "[....................] -1/3 less than nothing",
        "debug: x",
        "installing pandas",
    ]


def test_an_installation_is_told_to_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    with following(wanted=False) as follower:
        follower.tell(Progress(1, 2, ""))
        follower.tell(Installing("installing pandas"))

    assert capsys.readouterr().err == "installing pandas\n"


FAILS = """\
def steps() -> None:
    print("reading page 3")
    raise ValueError("it is empty")
"""


def test_a_call_that_fails_tells_what_its_tool_had_printed(root: Path) -> None:
    (root / "toolsets" / "demo" / "tools" / "steps.py").write_text(FAILS)

    done = run("-C", str(root), *CALL)

    assert done.returncode == 1
    assert "reading page 3\n" in done.stderr
    assert "it is empty" in done.stderr


def test_json_of_a_call_tells_its_walls_its_output_and_its_traceback(root: Path) -> None:
    (root / "toolsets" / "demo" / "tools" / "steps.py").write_text(FAILS)

    told = json.loads(run("-C", str(root), *CALL, "--json").stdout)

    assert told["sandbox"] in {"full", "landlock", "seatbelt", "process"}
    assert told["output"] == "reading page 3\n"
    assert 'raise ValueError("it is empty")' in told["traceback"]
