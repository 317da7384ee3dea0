"""Limits: what a run takes at most."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.runtime.python_tool import run
from tests.runtime.in_sandbox import LEVELS, needs_groups, needs_landlock

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel
    from tests.runtime.conftest import Workshop


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("time.sleep(60)", id="sleeps"),
        pytest.param("while True: pass", id="is-busy"),
        pytest.param("os.closerange(0, 256); time.sleep(60)", id="closed-its-pipes"),
        pytest.param(
            "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(60)",
            id="blocks-every-signal",
        ),
        pytest.param("while True: os.write(1, b'.'); time.sleep(0.01)", id="prints-slowly"),
    ],
)
def test_tool_that_runs_too_long_is_ended(workshop: Workshop, body: str) -> None:
    outcome = workshop.run(
        f"import os, signal, time\ndef run():\n    {body}\n", limits={"timeout_s": 0.7}
    )

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("limit_time", "it ran longer than 0.7 s")


def test_module_that_never_ends_its_import_is_ended(workshop: Workshop) -> None:
    outcome = workshop.run("print('begun')\nwhile True: pass\n", limits={"timeout_s": 1.0})

    assert outcome.error is not None
    assert outcome.error.code == "limit_time"
    assert outcome.output == "begun\n"


@pytest.mark.parametrize(
    ("body", "limits", "code", "message"),
    [
        pytest.param(
            "bytearray(1 << 30)",
            {"memory_mb": 512},
            "limit_memory",
            "it needed more than 512 MiB of memory",
            id="memory",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds it"),
        ),
        pytest.param(
            "while True: pass",
            {"cpu_s": 1.0},
            "limit_cpu",
            "it used 1 s of processor time",
            id="processor",
        ),
        pytest.param(
            "for _ in range(60):\n"
            "        if os.fork() == 0:\n"
            "            while time.process_time() < 0.2: pass\n"
            "            os._exit(0)\n"
            "        os.wait()\n"
            "    time.sleep(60)",
            {"cpu_s": 1.0},
            "limit_cpu",
            "it used 1 s of processor time",
            id="processor-of-many-processes",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of it"),
        ),
        pytest.param(
            "Path('large').write_bytes(bytes((1 << 20) + 1))",
            {"written_mb": 1},
            "limit_written",
            "it wrote a file of more than 1 MiB",
            id="file-size",
        ),
        pytest.param(
            "for number in range(11): Path(str(number)).touch()",
            {"files": 10},
            "limit_files",
            "its workspace holds more than 10 files",
            id="files",
        ),
        pytest.param(
            "Path('a').write_bytes(bytes(1 << 20)); Path('b').write_bytes(b'x')",
            {"workspace_mb": 1},
            "limit_workspace",
            "its workspace holds more than 1 MiB",
            id="size-of-the-workspace",
        ),
        pytest.param(
            "number = 0\n    while True: number += 1; Path(str(number)).touch()",
            {"files": 5000},
            "limit_files",
            "its workspace holds more than 5000 files",
            id="files-without-end",
        ),
        pytest.param(
            "many = [bytearray(90 << 20)]; mine = os.fork() or os.fork() or os.fork()\n"
            "    many.append(bytearray(b'x') * (90 << 20)); time.sleep(60)",
            {"memory_mb": 400},
            "limit_memory",
            "it needed more than 400 MiB of memory",
            id="memory-of-many-processes",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of it"),
        ),
        pytest.param(
            "many = bytearray(b'x') * (50 << 20)\n"
            "    while True:\n        if os.fork() == 0: time.sleep(60)",
            {"processes": 20, "memory_mb": 200},
            "limit_processes",
            "it started more processes than it may",
            id="processes-that-share-their-memory",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of it"),
        ),
        pytest.param(
            "while True:\n        if os.fork() == 0: time.sleep(60)",
            {"processes": 20},
            "limit_processes",
            "it started more processes than it may",
            id="processes",
        ),
        pytest.param(
            "[threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(64)]",
            {"processes": 20},
            "limit_processes",
            "it started more processes than it may",
            id="threads",
        ),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            {"cpu_s": 5.0},
            "tool_died",
            "its process was ended by SIGKILL",
            id="death-of-another-kind",
        ),
    ],
)
def test_limits_of_the_system_hold(
    workshop: Workshop, body: str, limits: dict[str, Any], code: str, message: str
) -> None:
    outcome = workshop.run(
        f"import os, threading, time\nfrom pathlib import Path\ndef run():\n    {body}\n",
        limits=limits,
    )

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (code, message)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of it")
@pytest.mark.parametrize(
    ("body", "limits", "code"),
    [
        pytest.param(
            "try: Path('a').write_bytes(bytes(2 << 20))\n    except OSError: Path('a').unlink()",
            {"written_mb": 1},
            "limit_written",
            id="file-that-was-removed-then",
        ),
        pytest.param(
            "if os.fork() == 0:\n"
            "        try: Path('a').write_bytes(bytes(2 << 20))\n"
            "        finally: Path('a').unlink(); os._exit(0)\n"
            "    os.wait()",
            {"written_mb": 1},
            "limit_written",
            id="file-of-a-fork",
        ),
        pytest.param(
            "subprocess.run(['head', '-c', '2m', '/dev/zero'], stdout=open('a', 'wb'))",
            {"written_mb": 1},
            "limit_written",
            id="file-of-a-program",
        ),
        pytest.param(
            "try: Path('a').write_bytes(bytes(2 << 20))\n"
            "    except OSError as error: raise RuntimeError('no room') from error",
            {"written_mb": 1},
            "limit_written",
            id="file-told-as-something-else",
        ),
        pytest.param(
            "try: bytearray(1 << 30)\n"
            "    except MemoryError: raise RuntimeError('too large for me')",
            {"memory_mb": 400},
            "limit_memory",
            id="memory-told-as-something-else",
        ),
        pytest.param(
            "while True:\n        try: os.fork()\n        except OSError: pass",
            {"processes": 8},
            "limit_processes",
            id="processes-without-end",
        ),
        pytest.param(
            "subprocess.run([sys.executable, '-c', 'while True: pass'])",
            {"cpu_s": 1.0},
            "limit_cpu",
            id="processor-of-a-program",
        ),
        pytest.param(
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "    for _ in range(12):\n"  # on a busy machine the check misses a part of each
            "        if os.fork() == 0:\n"
            "            while time.process_time() < 0.6: pass\n"
            "            os._exit(0)\n"
            "        time.sleep(0.8)",
            {"cpu_s": 1.0},
            "limit_cpu",
            id="processor-of-those-that-nobody-waits-for",
        ),
        pytest.param(
            "for number in range(40):\n"
            "        Path(os.environ['TMPDIR'], str(number)).write_bytes(bytes(1 << 20)); time.sleep(0.01)",
            {"workspace_mb": 8},
            "limit_tmp",
            id="private-folder",
        ),
    ],
)
def test_limit_that_a_tool_passes_over_is_an_error_of_its_call(
    workshop: Workshop, body: str, limits: dict[str, Any], code: str
) -> None:
    imports = "import os, signal, subprocess, sys, time\nfrom pathlib import Path\n"
    outcome = workshop.run(f"{imports}def run():\n    {body}\n    return 'done'\n", limits=limits)

    assert outcome.error is not None
    assert outcome.error.code == code


@needs_groups
@needs_landlock
def test_control_group_reports_a_refused_process_of_the_call_that_started_it(
    workshop: Workshop,
) -> None:
    workshop.write(
        "tools/it.py",
        """
        import os

        def run(many: int) -> int:
            children = []
            try:
                for _ in range(many):
                    child = os.fork()
                    if child == 0:
                        os.read(0, 1)
                        os._exit(0)
                    children.append(child)
            except BlockingIOError:
                pass
            for child in children:
                os.kill(child, 9)
                os.waitpid(child, 0)
            return len(children)
        """,
    )
    jobs = [
        workshop.job(args={"many": many}, limits={"processes": 20}, level="landlock", warm=True)
        for many in (10, 30, 10)
    ]

    few, many, few_again = (run(job, pool=workshop.pool) for job in jobs)

    assert (few.result, few_again.result) == (10, 10)
    assert many.error is not None
    assert many.error.code == "limit_processes"


@pytest.mark.parametrize("level", LEVELS)
def test_tool_that_may_have_one_process_has_its_own(
    workshop: Workshop, level: SandboxLevel
) -> None:
    source = "import time\ndef run() -> str:\n    time.sleep(0.5)\n    return 'done'\n"
    outcome = workshop.run(source, limits={"processes": 1}, level=level)

    assert (outcome.error, outcome.result) == (None, "done")


@needs_groups
@needs_landlock
def test_control_group_reports_a_process_that_it_killed_for_its_memory(workshop: Workshop) -> None:
    outcome = workshop.run(
        """
        import os, signal

        def run() -> str:
            children = []
            for _ in range(3):
                if (child := os.fork()) == 0:
                    kept = bytearray(b"x") * (150 << 20)
                    signal.pause()  # all of them have it at once
                children.append(child)
            ended, _ = os.wait()
            for child in set(children) - {ended}:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            return "done"
        """,
        limits={"memory_mb": 250},
        level="landlock",
    )

    assert outcome.error is not None
    assert outcome.error.code == "limit_memory"


def test_tool_leaves_no_core_file(workshop: Workshop) -> None:
    outcome = workshop.run("""
        import resource

        def run() -> list[int]:
            return list(resource.getrlimit(resource.RLIMIT_CORE))[:1]
    """)

    assert outcome.result == [0]


def test_large_arguments_reach_the_tool_whole(workshop: Workshop) -> None:
    outcome = workshop.run(
        "def run(text: str) -> int:\n    return len(text)\n", args={"text": "x" * 3_000_000}
    )

    assert outcome.result == 3_000_000


def test_tool_that_dies_before_it_reads_its_arguments_is_an_error(workshop: Workshop) -> None:
    # Less memory than the interpreter itself can live with once it has read the request.
    job = workshop.job(args={"text": "x" * 40_000_000}, limits={"memory_mb": 16})
    workshop.write("tools/it.py", "def run(text: str) -> int:\n    return len(text)\n")

    outcome = run(job, pool=workshop.pool)

    assert outcome.status == "error"


@pytest.mark.skipif(find_spec("_testcapi") is None, reason="this Python cannot run out on demand")
@pytest.mark.parametrize("further", [0, 10, 35, 59])
def test_error_is_told_where_no_memory_was_left_to_tell_it_with(
    workshop: Workshop, further: int
) -> None:
    outcome = workshop.run(
        f"import _testcapi\ndef run():\n    _testcapi.set_nomemory(0, {further + 1})\n    list(range(99))\n",
        limits={"memory_mb": 400},
    )

    assert outcome.error is not None
    assert outcome.error.code == "limit_memory"


def test_a_workspace_that_holds_too_much_can_be_made_smaller(workshop: Workshop) -> None:
    source = "from pathlib import Path\ndef run():\n    {}\n"
    fill = "for number in range(30): Path(str(number)).write_bytes(bytes(1 << 16))"
    assert workshop.run(source.format(fill)).status == "success"

    limits = {"files": 20, "workspace_mb": 1}
    less = workshop.run(source.format("Path('0').unlink()"), limits=limits)
    same = workshop.run(source.format("Path('1').write_bytes(b'')"), limits=limits)
    more = workshop.run(source.format("Path('a').touch(); Path('b').touch()"), limits=limits)

    assert (less.status, same.status) == ("success", "success")
    assert more.error is not None
    assert more.error.code == "limit_files"
