"""The end of a run: no process or file is left, however the run or its parent process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.names import new_id
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.python_tool import run
from tests.runtime.in_sandbox import is_held, needs_proc, programs
from tests.settling import until

if TYPE_CHECKING:
    from tests.runtime.conftest import Workshop

SLEEPER = """
import fcntl, os, subprocess, time
from pathlib import Path

def run(workspace: Path, mark: str, session: bool = False) -> None:
    held = (workspace / "held").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    subprocess.Popen(["sleep", "600", "0." + mark], start_new_session=session)
    (workspace / "begun").touch()
    time.sleep(600)
"""


@pytest.fixture
def mark() -> str:
    """A number that no other process of this machine has on its command line."""
    return str(int(new_id().replace("-", ""), 16))


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@needs_proc
@pytest.mark.parametrize("session", [False, True])
def test_time_limit_ends_the_processes_that_the_tool_started(
    workshop: Workshop,
    mark: str,
    session: bool,  # noqa: FBT001 - a column of the table
) -> None:
    args = {"mark": mark, "session": session}
    outcome = workshop.run(SLEEPER, args=args, limits={"timeout_s": 3})

    assert outcome.error is not None
    assert outcome.error.code == "limit_time"
    assert (workshop.workspace / "begun").exists()
    assert programs(f"0.{mark}") == []
    assert not is_held(workshop.workspace)


@needs_proc
@pytest.mark.parametrize("warm", [False, True])
def test_process_left_in_the_background_is_ended_with_its_call(
    workshop: Workshop, mark: str, *, warm: bool
) -> None:
    source = """
        import subprocess

        def run(mark: str) -> None:
            subprocess.Popen(["sleep", "600", "0." + mark], start_new_session=True)
    """

    outcome = workshop.run(source, args={"mark": mark}, warm=warm)

    assert outcome.status == "success"
    assert programs(f"0.{mark}") == []


@needs_proc
def test_runs_leave_no_descriptor_no_zombie_and_no_folder(workshop: Workshop) -> None:
    bodies = ["return 1", "raise ValueError", "os._exit(1)", "subprocess.Popen(['sleep', '60'])"]
    workshop.run("def run(): pass")  # after which there is the process that all are forked from
    before = descriptors(), children()

    for body in bodies * 2:
        workshop.run(f"import os, subprocess\ndef run():\n    {body}\n")

    assert (descriptors(), children()) == before
    assert list(workshop.scratch.iterdir()) == []


@needs_proc
def test_run_that_cannot_start_leaves_no_descriptor(workshop: Workshop) -> None:
    workshop.workspace.rmdir()
    workshop.write("tools/it.py", "def run(): return 1")
    before = descriptors()

    with pytest.raises(FileNotFoundError):
        run(workshop.job(), pool=workshop.pool)

    assert descriptors() == before


@needs_proc
def test_tool_and_what_it_started_die_with_the_process_that_runs_it(
    workshop: Workshop, mark: str
) -> None:
    workshop.write("tools/it.py", SLEEPER)
    program = f"""
from pathlib import Path
from covalt_git.manifests.toolset_files import read_bundle_files
from covalt_git.toolsets.toolset_copies import ToolsetCopy
from covalt_git.models.tool_properties import Limits
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.python_tool import run

toolset = Path({str(workshop.toolset)!r})
files = read_bundle_files(toolset, "demo")

run(Job(
    toolset=ToolsetCopy(toolset.parent / "cache", "demo", files.digest, toolset, files.files),
    entrypoint="tools.it:run",
    args={{"mark": {mark!r}, "session": True}},
    workspace=Path({str(workshop.workspace)!r}),
    chat_id="c1",
    call_id="call-1",
    level={sandbox_levels.level()!r},
    limits=Limits(timeout_s=600.0),
))
"""
    environment = {**os.environ, "TMPDIR": str(workshop.scratch)}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    until((workshop.workspace / "begun").exists)
    assert programs(f"0.{mark}")

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    until(lambda: not programs(f"0.{mark}"))
    until(lambda: not is_held(workshop.workspace))
    until(lambda: not list(workshop.scratch.iterdir()))
