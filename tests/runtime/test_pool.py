"""Warm sandboxes: one import for many calls, nothing passes between calls, and when sandboxes end."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.pool import SandboxPool
from covalt_git.runtime.python_tool import run
from tests.examples import one_in
from tests.runtime.conftest import Workshop
from tests.runtime.in_sandbox import LEVELS, is_held, needs_proc
from tests.settling import until

COUNTING = """
import os, random, sys, time

IMPORTED = time.monotonic_ns()
calls = []

def run() -> dict:
    calls.append(1)
    return {"imported": IMPORTED, "calls": len(calls), "process": os.getpid()}
"""


@pytest.fixture
def own_pool() -> Iterator[SandboxPool]:
    made = SandboxPool()
    yield made
    made.close()


def results(workshop: Workshop, source: str, count: int = 2, **changes: Any) -> list[Any]:
    workshop.write("tools/it.py", source)
    job = workshop.job(**{"warm": True} | changes)
    found = [run(job, pool=workshop.pool) for _ in range(count)]
    assert [one.error for one in found] == [None] * count
    return [one.result for one in found]


@pytest.mark.parametrize("level", LEVELS)
def test_a_module_is_imported_once_and_each_call_finds_it_as_imported(
    workshop: Workshop, level: SandboxLevel
) -> None:
    found = results(workshop, COUNTING, 3, level=level)

    assert len({one["imported"] for one in found}) == 1
    assert [one["calls"] for one in found] == [1, 1, 1]
    assert len({one["process"] for one in found}) == 3


@pytest.mark.parametrize("level", LEVELS)
def test_changes_of_a_call_do_not_reach_the_next_call(
    workshop: Workshop, level: SandboxLevel
) -> None:
    source = """
        import builtins, os, random, signal, sys, tempfile, threading, time
        from contextlib import suppress
        from pathlib import Path
        import json

        def run(level: str) -> dict:
            seen = {
                "cwd": os.getcwd(),
                "environ": sorted(os.environ),
                "path": len(sys.path),
                "builtin": hasattr(builtins, "left"),
                "module": "left" in sys.modules,
                "patched": json.dumps is not run,
                "home": [path.name for path in Path.home().iterdir() if "left" in path.name],
                "alarm": signal.getsignal(signal.SIGALRM) == signal.SIG_DFL,
                "umask": os.umask(0o22),
                "threads": threading.active_count(),
                "streams": sys.stdout is sys.__stdout__,
                "shared": Path("/dev/shm/left").exists(),
            }
            builtins.left = sys.modules["left"] = 1
            os.environ["LEFT"] = "1"
            sys.path.append("left")
            json.dumps = run
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            (Path(tempfile.mkdtemp(prefix="left")) / "file").touch()
            (Path.home() / "left").mkdir(mode=0)
            sys.stdout = sys.stderr
            with suppress(OSError):
                level == "full" and Path("/dev/shm/left").touch()
            os.umask(0)
            os.chdir("/")
            return seen
    """

    first, *others = results(workshop, source, 3, level=level, args={"level": level})

    assert first["patched"]
    assert others == [first, first]


def test_a_replaced_workspace_folder_is_used_by_the_next_call(workshop: Workshop) -> None:
    source = "import os\ndef run() -> list: return sorted(os.listdir())"
    results(workshop, source)
    workshop.workspace.rename(workshop.workspace.with_name("before"))
    workshop.workspace.mkdir()
    (workshop.workspace / "new.txt").touch()

    assert results(workshop, source) == [["new.txt"], ["new.txt"]]


@pytest.mark.parametrize(
    "made",
    [
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "subprocess.Popen(['sleep', '60'])",
        "FOLDER = tempfile.mkdtemp()",
    ],
    ids=["thread", "process", "folder"],
)
def test_a_module_with_threads_processes_or_files_serves_one_call(
    workshop: Workshop, made: str
) -> None:
    source = f"""
import os, subprocess, tempfile, threading, time

FOLDER = "/"
IMPORTED = time.monotonic_ns()
{made}

def run() -> list:
    return [IMPORTED, threading.active_count(), os.path.isdir(FOLDER)]
"""

    first, second = results(workshop, source)

    assert first[0] != second[0]
    assert first[1:] == second[1:]
    assert first[2]
    assert workshop.pool.idle() == []


@needs_proc
def test_killed_idle_sandboxes_are_replaced(workshop: Workshop) -> None:
    results(workshop, COUNTING, 1)
    (sandbox_process,) = workshop.pool.idle()
    os.kill(sandbox_process.pid, signal.SIGKILL)

    until(lambda: not sandbox_process.is_usable())
    assert results(workshop, COUNTING, 2)


@needs_proc
@pytest.mark.parametrize("level", one_in(3, LEVELS))
def test_a_killed_fork_server_is_replaced_and_its_running_call_ends(
    workshop: Workshop, own_pool: SandboxPool, level: SandboxLevel
) -> None:
    workshop.write(
        "tools/it.py",
        """
        import fcntl, time
        from pathlib import Path

        def run(workspace: Path, seconds: float) -> None:
            held = (workspace / "held").open("w")
            fcntl.flock(held, fcntl.LOCK_EX)
            (workspace / "begun").touch()
            time.sleep(seconds)
        """,
    )
    found: list[Any] = []
    slow = workshop.job(args={"seconds": 600.0}, level=level)
    thread = threading.Thread(target=lambda: found.append(run(slow, pool=own_pool)))
    thread.start()
    until((workshop.workspace / "begun").exists)

    own_pool.start().kill()
    thread.join()
    until(lambda: not is_held(workshop.workspace))
    after = run(workshop.job(args={"seconds": 0.0}), pool=own_pool)
    own_pool.close()

    assert [one.error.code for one in found] == ["tool_died"]
    assert after.status == "success"
    for folder in workshop.scratch.iterdir():  # the killed fork server could not remove them
        shutil.rmtree(folder)


def test_a_fork_of_this_process_ends_none_of_its_sandboxes(workshop: Workshop) -> None:
    (first,) = results(workshop, COUNTING, 1)

    pid = os.fork()
    if pid == 0:
        workshop.pool.close()
        os._exit(0)
    os.waitpid(pid, 0)

    (second,) = results(workshop, COUNTING, 1)
    assert first["imported"] == second["imported"]


FOLLOWS = """
from pathlib import Path

def run(workspace: Path) -> bool:
    (workspace / "ran").touch()
    return (workspace / "begun").exists()
"""


@pytest.mark.parametrize("warm", [False, True])
def test_no_code_of_a_call_runs_before_begin_returns(workshop: Workshop, *, warm: bool) -> None:
    begun, ran = workshop.workspace / "begun", workshop.workspace / "ran"

    def fail() -> None:
        raise OSError("the disk is full")

    for _ in range(2):
        assert workshop.run(FOLLOWS, warm=warm, begin=begun.touch).result is True
        begun.unlink()
        ran.unlink()
    with pytest.raises(OSError, match="the disk is full"):
        workshop.run(FOLLOWS, warm=warm, begin=fail)
    time.sleep(0.2)
    assert not ran.exists()
