"""The end of a run: nothing of it is left, however it or the process that ran it came to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.conftest import Workshop

SLEEPER = """
import os, subprocess, time
from pathlib import Path

def run(workspace: Path) -> None:
    below = subprocess.Popen(["sleep", "600"])
    (workspace / "pids.part").write_text(f"{os.getpid()} {below.pid}")
    (workspace / "pids.part").rename(workspace / "pids")
    time.sleep(600)
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def until(holds: Callable[[], bool]) -> bool:
    """Wait until something holds, for as long as a slow machine may take."""
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


@needs_proc
def test_time_limit_ends_the_processes_that_the_tool_started(workshop: Workshop) -> None:
    outcome = workshop.run(SLEEPER, limits={"timeout_s": 1.5})

    assert outcome.error is not None
    assert outcome.error.code == "timed_out"
    pids = [int(pid) for pid in (workshop.workspace / "pids").read_text().split()]
    assert until(lambda: not any(is_alive(pid) for pid in pids))


@needs_proc
def test_process_left_in_the_background_is_ended_with_its_call(workshop: Workshop) -> None:
    outcome = workshop.run("""
        import subprocess

        def run() -> int:
            return subprocess.Popen(["sleep", "600"]).pid
    """)

    assert until(lambda: not is_alive(outcome.result))


def children() -> str:
    """Return the processes that this one has started, such as a browser of other tests."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@needs_proc
def test_twenty_runs_leave_no_descriptor_no_zombie_and_no_folder(workshop: Workshop) -> None:
    bodies = ["return 1", "raise ValueError", "os._exit(1)", "subprocess.Popen(['sleep', '60'])"]
    before = descriptors(), children()

    for number in range(20):
        body = bodies[number % len(bodies)]
        workshop.run(f"import os, subprocess\ndef run():\n    {body}\n")

    assert (descriptors(), children()) == before
    assert list(workshop.scratch.iterdir()) == []


@needs_proc
def test_run_that_cannot_start_leaves_no_descriptor(workshop: Workshop) -> None:
    workshop.workspace.rmdir()
    before = descriptors()

    with pytest.raises(FileNotFoundError):
        workshop.run("def run(): return 1")

    assert descriptors() == before


@needs_proc
def test_tool_dies_with_the_process_that_runs_it(workshop: Workshop) -> None:
    workshop.write("tools/it.py", SLEEPER)
    program = f"""
from pathlib import Path
from covalt_git.models.toolset_manifest import Limits
from covalt_git.runtime.python_tool import Job, run

run(Job(
    toolset_dir=Path({str(workshop.toolset)!r}),
    toolset_id="demo",
    entrypoint="tools.it:run",
    args={{}},
    workspace=Path({str(workshop.workspace)!r}),
    chat_id="c1",
    call_id="call-1",
    limits=Limits(timeout_s=600.0),
))
"""
    environment = {**os.environ, "TMPDIR": str(workshop.workspace)}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    pids = workshop.workspace / "pids"
    assert until(pids.exists)
    tool, below = (int(pid) for pid in pids.read_text().split())

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    assert until(lambda: not is_alive(tool))
    os.kill(below, signal.SIGKILL)  # nobody was left to end what the tool itself had started
