"""``covalt-git call`` while the tool runs: what is shown, and where."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_git.calls.background import Installing, Started
from covalt_git.cli.terminal.progress import following
from covalt_git.models.calls import CallError
from covalt_git.models.commit_record import CallRecord
from covalt_git.project import Project
from covalt_git.runtime.jobs import Log, Progress
from covalt_git.toolsets.new_project import create_project
from tests.command import run
from tests.runtime.http_upstream import upstream

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


SAYS = """\
def steps():
    context = get_context()
    print("info: printed")
    context.log("one")
    context.log("one")
    print("one")
    context.log("two\\nlines", "error")
    print("info: one more")
"""
PATIENT = """\
def steps():
    for step in range(600):
        get_context().progress(step, 600)
        time.sleep(0.1)
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


def write(
    root: Path, module: str, tools: str = "[{id: steps, entrypoint: tools.steps:steps}]"
) -> None:
    """Let the toolset be this one."""
    folder = root / "toolsets" / "demo"
    (folder / "toolset.yaml").write_text(f'id: demo\nname: Demo\nversion: "1"\ntools: {tools}\n')
    text = f"import time\nfrom covalt_toolset import get_context\n\n\n{module}"
    (folder / "tools" / "steps.py").write_text(text)


def program(root: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "covalt_git", "-C", str(root), *args]


def at_a_terminal(root: Path, *options: str) -> str:
    """Return what the error stream shows where it is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        program(root, *CALL, *options), stdout=subprocess.DEVNULL, stderr=theirs
    ) as called:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how a terminal ends on Linux
            while chunk := os.read(ours, 1000):
                shown += chunk
    os.close(ours)
    assert called.returncode == 0
    return shown.decode()


def dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def recorded(root: Path) -> CallRecord:
    """Return the record of the chat's last call."""
    with Project.open(root).chats.open("c1") as chat:
        call = chat.manifest(chat.head() or "").record.call
    assert call is not None
    return call


def test_a_call_away_from_a_terminal_says_nothing_on_the_way(root: Path) -> None:
    done = run("-C", str(root), *CALL)

    assert (done.returncode, done.stderr) == (0, "")
    assert "warning: careful" in done.stdout  # it is part of what the tool printed


def test_following_prints_a_line_for_each_event(root: Path) -> None:
    done = run("-C", str(root), *CALL, "--follow", "--json")

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "[#####...............] 1/4 first",
        "warning: careful \\u{1b}[2J",
        "[####################] 4/4",
    ]
    assert '"status": "success"' in done.stdout


def test_a_log_that_was_shown_is_not_told_again_and_the_record_has_it(root: Path) -> None:
    write(root, SAYS)

    followed, alone = run("-C", str(root), *CALL, "--follow"), run("-C", str(root), *CALL)
    recorded = json.loads(run("-C", str(root), *CALL, "--follow", "--json").stdout)["output"]

    assert followed.stderr.splitlines() == ["info: one", "info: one", "error: two", "lines"]
    assert "  info: printed\n  one\n  info: one more\n" in followed.stdout
    assert followed.stdout.count("info: one") == 1
    assert "two" not in followed.stdout
    assert alone.stderr == ""
    assert recorded == (
        "info: printed\ninfo: one\ninfo: one\none\nerror: two\nlines\ninfo: one more\n"
    )
    assert all(f"  {line}\n" in alone.stdout for line in recorded.splitlines())


def test_what_failed_tells_at_its_end_what_was_not_shown_yet(root: Path) -> None:
    write(root, 'def steps():\n    get_context().log("a")\n    print("b")\n    raise ValueError\n')

    done = run("-C", str(root), *CALL, "--follow")

    assert done.stderr.splitlines()[:3] == ["info: a", "b", "tool_raised: ValueError"]


def test_the_log_of_an_http_tool_is_told_once(root: Path) -> None:
    with upstream() as served:
        write(root, "", f'[{{id: steps, http: {{url: "{served.url}/echo"}}}}]')
        run("-C", str(root), "grant", "add", "demo", "network", served.address)
        followed, alone = run("-C", str(root), *CALL, "--follow"), run("-C", str(root), *CALL)

    assert (followed.returncode, alone.returncode) == (0, 0)
    assert followed.stderr.startswith(f"info: GET {served.url}/echo: 200, ")
    assert "GET http" not in followed.stdout
    assert f"  GET {served.url}/echo: 200, " in alone.stdout


def test_at_a_terminal_logs_stay_and_progress_moves_below_them(root: Path) -> None:
    shown = at_a_terminal(root, "--json")

    assert "\r\x1b[K" + dim("[#####...............] 1/4 first") in shown
    assert "\x1b[33mwarning: careful \\u{1b}[2J\x1b[0m\r\n" in shown
    below = shown.partition("\n")[2]
    assert below.startswith("\r\x1b[K" + dim("[#####...............] 1/4 first"))
    assert shown.count("\n") == 1
    assert shown.endswith("\r\x1b[K")


def test_without_colours_a_line_moves_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = at_a_terminal(root, "--json")

    assert "\r\x1b[K[#####...............] 1/4 first" in shown
    assert "\x1b[3" not in shown
    assert shown.endswith("\r\x1b[K")


def test_what_is_told_is_one_safe_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    tell = following(wanted=True).follower.tell
    tell(Started("call-1"))
    tell(Progress(3, None, ""))
    tell(Progress(9, 3, "more than all"))
    tell(Progress(-1, 3, "less than nothing"))
    tell(Log("debug", "x"))
    tell(Installing("installing pandas"))

    assert capsys.readouterr().err.splitlines() == [
        "3",
        "[####################] 9/3 more than all",
        "[....................] -1/3 less than nothing",
        "debug: x",
        "installing pandas",
    ]


def test_an_installation_is_told_to_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    tell = following(wanted=False).follower.tell
    tell(Progress(1, 2, ""))
    tell(Installing("installing pandas"))

    assert capsys.readouterr().err == "installing pandas\n"


def test_a_call_whose_follower_has_gone_is_cancelled_and_recorded(root: Path) -> None:
    write(root, PATIENT)
    with subprocess.Popen(
        program(root, *CALL, "--follow"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as called:
        assert called.stdout is not None
        called.stdout.readline()
        called.stdout.close()

    assert called.returncode == 1
    assert recorded(root).error == CallError(
        code="cancelled", message="whoever followed it has gone"
    )


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
    assert 'raise ValueError("it is empty")' in told["error_detail"]["traceback"]
