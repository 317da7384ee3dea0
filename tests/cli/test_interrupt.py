"""Ctrl-C during calls: real processes, keys that are pressed often, and what is recorded then."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests.command import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.models.commit_record import CallRecord

MANIFEST = f"""\
id: demo
name: Demo
version: "1"
tools:
  - {{id: stubborn, entrypoint: tools.it:stubborn}}
  - {{id: quick, entrypoint: tools.it:quick}}
mcp_servers:
  - id: first
    command: {sys.executable}
    args: [{Path(__file__).parents[2] / "fixtures" / "servers" / "first_era.py"}]
    env: {{SAID: $workspace/said.txt}}
    requires_confirmation: false
"""
TOOLS = """\
import fcntl
import signal
import subprocess
import time
from pathlib import Path


def stubborn() -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    held = Path("held").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    subprocess.Popen(["sleep", "600"], pass_fds=[held.fileno()])
    Path("begun").touch()
    time.sleep(600)


def quick() -> str:
    return "done"
"""
STUBBORN = '{"tool": "demo:stubborn"}'
QUICK = '{"tool": "demo:quick"}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    create_project(made)
    (made / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
    folder = made / "toolsets" / "demo"
    (folder / "tools").mkdir(parents=True)
    (folder / "toolset.yaml").write_text(MANIFEST)
    (folder / "tools" / "it.py").write_text(TOOLS)
    Project.open(made).chats.new("c1")
    return made


def started(root: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "covalt_git", "-C", str(root), "call", "c1", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def pressed(program: subprocess.Popen[str], times: int = 1) -> tuple[str, str]:
    """Press Ctrl-C, as often and as quickly as a key repeats; return what the program printed."""
    for _ in range(times):
        program.send_signal(signal.SIGINT)
        time.sleep(0.02)
    printed = program.communicate(timeout=30)
    assert "Traceback" not in printed[1]
    # A key that comes while Python itself ends is the system's: a shell says 130 of that, too.
    assert program.returncode in {130, -signal.SIGINT}
    return printed


def ended(root: Path) -> list[tuple[str, str, set[str]]]:
    """Return the calls of the chat, oldest first: tool, how it ended, and which files there were."""
    with Project.open(root).chats.open("c1") as chat:
        assert chat.calls() == []
        made = [(one.id, one.record.call) for one in chat.log(chat.head())][::-1]
        return [(one.tool_id, _end(one), set(chat.files(oid))) for oid, one in made if one]


def _end(call: CallRecord) -> str:
    return call.error.code if call.error else call.status


@pytest.mark.parametrize("times", [1, 25], ids=["once", "as-a-key-repeats"])
def test_a_call_is_cancelled_its_files_kept_and_its_tree_gone(root: Path, times: int) -> None:
    workspace = root / "data" / "chats" / "c1" / "workspace"
    program = started(root, "demo:stubborn", "--follow", "--json")
    until((workspace / "begun").exists)
    printed, _ = pressed(program, times)

    assert json.loads(printed)["error"] == "cancelled: a person stopped it"
    assert ended(root) == [("demo:stubborn", "cancelled", {"begun", "held"})]
    with (workspace / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_call_of_an_mcp_server_is_cancelled_and_recorded(root: Path) -> None:
    run("-C", str(root), "grant", "add", "demo", "process", "first")
    run("-C", str(root), "source", "refresh", "demo/first")
    run("-C", str(root), "source", "accept", "demo/first")
    program = started(root, "first:slow", "--follow")
    assert program.stderr is not None
    while "it begins" not in program.stderr.readline():
        assert program.poll() is None
    pressed(program, 2)

    assert [one[:2] for one in ended(root)] == [("first:slow", "cancelled")]


def test_a_call_that_waits_for_its_chat_never_begins(root: Path) -> None:
    project = Project.open(root)
    with project.chats.open("c1") as chat, project.writing(chat):
        program = started(root, "demo:quick", "--follow")
        assert program.stderr is not None
        assert program.stderr.readline().startswith("waiting for the chat")
        _, said = pressed(program, 3)

    assert said == "it was cancelled before it began\n"
    assert ended(root) == []


def test_a_batch_stops_and_tells_what_did_not_run(root: Path) -> None:
    file = root / "calls.jsonl"
    file.write_text(f"{QUICK}\n{STUBBORN}\n{QUICK}\n")
    program = started(root, "--batch", str(file), "--keep-going", "--json")
    until((root / "data" / "chats" / "c1" / "workspace" / "begun").exists)
    printed, _ = pressed(program, 25)
    *_, last = map(json.loads, printed.splitlines())

    assert {name: n for name, n in last["summary"].items() if n} == {
        "ran": 1,
        "failed": 1,
        "not_run": 1,
    }
    assert [one[1] for one in ended(root)] == ["success", "cancelled"]


def test_a_batch_that_waits_for_a_chat_stops_there(root: Path) -> None:
    file = root / "calls.jsonl"
    file.write_text(f"{QUICK}\n{QUICK}\n")
    project = Project.open(root)
    with project.chats.open("c1") as chat, project.writing(chat):
        program = started(root, "--batch", str(file), "--keep-going")
        assert program.stderr is not None
        assert program.stderr.readline().startswith("waiting for the chat")
        printed, _ = pressed(program)

    assert printed == "2 calls: 2 not run\n"


KEYS = """
import os, signal, threading, time
from covalt_git.cli.terminal.interrupt import cancelling

cancel = threading.Event()
def press():
    os.kill(os.getpid(), signal.SIGINT)

with cancelling(cancel, patience_s=PATIENCE):
    press()
    print(cancel.is_set())
    time.sleep(0.01)
    press()
press()
print("goes on")
"""


@pytest.mark.parametrize(
    ("patience_s", "said"),
    [
        pytest.param("60", "True\ngoes on\n", id="soon"),
        pytest.param("0", "True\n", id="later"),
    ],
)
def test_what_is_pressed_again_is_passed_over_for_a_while(patience_s: str, said: str) -> None:
    program = KEYS.replace("PATIENCE", patience_s)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout == said
    assert ("KeyboardInterrupt" in done.stderr) == (patience_s == "0")


def test_ctrl_c_raises_again_behind_a_call_that_was_not_cancelled() -> None:
    program = (
        "import signal, threading; from covalt_git.cli.terminal.interrupt import cancelling\n"
        "before = signal.getsignal(signal.SIGINT)\n"
        "with cancelling(threading.Event()):\n"
        "    assert signal.getsignal(signal.SIGINT) is not before\n"
        "assert signal.getsignal(signal.SIGINT) is before\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with cancelling(threading.Event()):\n"
        "    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
