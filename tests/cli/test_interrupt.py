"""Ctrl-C during calls, pressed once and as a key repeats: what ends, and what is recorded."""

import fcntl
import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_git.models.commit_record import CallRecord
from covalt_git.project import Project
from tests.api_client import make_project
from tests.command import Piped
from tests.examples import one_in
from tests.mcp_client import add_toolset

MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: stubborn, entrypoint: tools.demo:stubborn}
  - {id: patient, entrypoint: tools.demo:patient}
  - {id: quick, entrypoint: tools.demo:quick}
"""
TOOLS = """\
import fcntl
import signal
import subprocess
import time
from pathlib import Path

from covalt_toolset import get_context


def stubborn() -> None:
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    held = Path("held").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    subprocess.Popen(["sleep", "600"], pass_fds=[held.fileno()])
    get_context().log("it begins")
    time.sleep(600)


def patient() -> None:
    for step in range(600):
        get_context().progress(step, 600)
        time.sleep(0.1)


def quick() -> str:
    return "done"
"""
STUBBORN = '{"tool": "demo:stubborn"}'
QUICK = '{"tool": "demo:quick"}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_project(tmp_path / "project")
    add_toolset(root, "demo", MANIFEST, TOOLS)
    Project.open(root).chats.new("c1").store.close()
    return root


def started(root: Path, *args: str, until: str) -> Piped:
    """Start a call, and wait until its error stream has these words."""
    command = Piped("call", "c1", *args, "--follow", cwd=root)
    shown = ""
    while until not in shown:
        line = command.stderr.readline()
        assert line, shown
        shown += line
    return command


def pressed(command: Piped, *, repeats: bool = False) -> subprocess.CompletedProcess[str]:
    """Press Ctrl-C, until the command has ended where the key repeats; return what it printed."""
    command.interrupt()
    while repeats and not command.ends_within(0.02):
        with suppress(ProcessLookupError):  # it has just ended
            command.interrupt()
    done = command.end()
    assert "Traceback" not in done.stderr
    # A key that comes while Python itself ends is the system's: a shell says 130 of that, too.
    assert done.returncode in {130, -signal.SIGINT}
    return done


def ended(root: Path) -> list[tuple[str, str, set[str]]]:
    """Return the calls of the chat, oldest first: tool, how it ended, and which files there were."""
    with Project.open(root).chats.open("c1") as chat:
        assert chat.calls() == []
        made = [(one.id, one.record.call) for one in chat.log(chat.head())][::-1]
        return [(one.tool_id, _end(one), set(chat.files(oid))) for oid, one in made if one]


def _end(call: CallRecord) -> str:
    return call.error.code if call.error else call.status


@pytest.mark.parametrize("repeats", one_in(2, [True, False]))
def test_a_cancelled_call_keeps_its_files_and_leaves_no_process(
    root: Path, *, repeats: bool
) -> None:
    command = started(root, "demo:stubborn", "--json", until="it begins")
    done = pressed(command, repeats=repeats)

    assert json.loads(done.stdout)["error"].startswith("cancelled: ")
    assert ended(root) == [("demo:stubborn", "cancelled", {"held"})]
    with (root / "data/chats/c1/workspace/held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_call_that_waits_for_its_chat_never_begins(root: Path) -> None:
    project = Project.open(root)
    with project.chats.open("c1") as chat, project.writing(chat):
        done = pressed(started(root, "demo:quick", until="waiting for the chat"), repeats=True)

    assert "cancelled" in done.stderr
    assert ended(root) == []


@pytest.mark.rest
def test_a_batch_stops_and_counts_what_did_not_run(root: Path) -> None:
    file = root / "calls.jsonl"
    file.write_text(f"{QUICK}\n{STUBBORN}\n{QUICK}\n", encoding="utf-8")
    batch = ("--batch", str(file), "--keep-going", "--json")
    done = pressed(started(root, *batch, until="it begins"), repeats=True)
    *_, last = map(json.loads, done.stdout.splitlines())

    counts = {name: count for name, count in last["summary"].items() if count}
    assert counts == {"ran": 1, "failed": 1, "not_run": 1}
    assert [one[1] for one in ended(root)] == ["success", "cancelled"]


@pytest.mark.rest
def test_a_call_whose_follower_has_gone_is_cancelled(root: Path) -> None:
    command = started(root, "demo:patient", until="0/600")
    command.stderr.close()
    command.stdout.close()

    assert command.wait() == 1
    assert [one[:2] for one in ended(root)] == [("demo:patient", "cancelled")]
