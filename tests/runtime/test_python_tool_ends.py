"""The end of a run: no process or file is left, however the run or its parent process ends."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.pool import SandboxPool
from covalt_git.runtime.python_tool import run
from tests.runtime.conftest import STUBBORN, Workshop, error_of
from tests.runtime.in_sandbox import LEVELS, is_held, needs_proc, programs
from tests.settling import until


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.mark.rest
@needs_proc
def test_time_limit_ends_the_processes_that_the_tool_started(workshop: Workshop, mark: str) -> None:
    outcome = workshop.run(STUBBORN, args={"mark": mark}, limits={"timeout_s": 1.5})

    assert error_of(outcome).code == "limit_time"
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
    workshop.workspace.rmdir()
    with pytest.raises(FileNotFoundError):
        run(workshop.job(), pool=workshop.pool)

    assert (descriptors(), children()) == before
    assert list(workshop.scratch.iterdir()) == []


@needs_proc
@pytest.mark.parametrize("level", LEVELS)
def test_tool_and_what_it_started_die_with_the_process_that_runs_it(
    workshop: Workshop, mark: str, level: SandboxLevel
) -> None:
    workshop.write("tools/it.py", STUBBORN)
    job = workshop.job(args={"mark": mark}, limits={"timeout_s": 600.0}, level=level)
    if (parent := os.fork()) == 0:
        with suppress(BaseException):
            run(job, pool=SandboxPool())
        os._exit(1)
    until((workshop.workspace / "begun").exists)
    until(lambda: programs(f"0.{mark}"))  # its child may not have executed the program yet

    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)

    until(lambda: not programs(f"0.{mark}"))
    until(lambda: not is_held(workshop.workspace))
    until(lambda: not list(workshop.scratch.iterdir()))
