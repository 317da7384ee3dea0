"""Limits: what a run takes at most."""

import sys
from importlib.util import find_spec

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.runtime.python_tool import run
from tests.examples import named, one_in
from tests.runtime.conftest import Workshop, error_of
from tests.runtime.in_sandbox import LEVELS, needs_groups, needs_landlock
from tests.tables import tables

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="some limits need Linux")

TOO_LONG, OF_THE_SYSTEM, PASSED_OVER = (
    dict(tables(__file__)[name])
    for name in ("runs_too_long", "limits_of_the_system", "passed_over")
)


@pytest.mark.parametrize("name", named(TOO_LONG, "closed-its-pipes", "blocks-every-signal"))
def test_tool_that_runs_too_long_is_ended(workshop: Workshop, name: str) -> None:
    outcome = workshop.call(TOO_LONG[name]["body"], limits={"timeout_s": 0.7})

    assert error_of(outcome).code == "limit_time"


# Another row limits the time of the processes that a tool starts.
@pytest.mark.parametrize(
    "name", named(OF_THE_SYSTEM, *(OF_THE_SYSTEM.keys() - {"processor-of-many-processes"}))
)
def test_limits_of_the_system_hold(workshop: Workshop, name: str) -> None:
    row = OF_THE_SYSTEM[name]

    assert error_of(workshop.call(row["body"], limits=row["limits"])).code == row["code"]


@pytest.mark.parametrize(
    "name", named(PASSED_OVER, *(PASSED_OVER.keys() - {"processor-of-a-program"}))
)
def test_limit_that_a_tool_passes_over_is_an_error_of_its_call(
    workshop: Workshop, name: str
) -> None:
    row = PASSED_OVER[name]
    outcome = workshop.call(f"{row['body']}\nreturn 'done'", limits=row["limits"])

    assert error_of(outcome).code == row["code"]


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
    assert error_of(many).code == "limit_processes"


@pytest.mark.parametrize("level", one_in(3, LEVELS))
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

    assert error_of(outcome).code == "limit_memory"


def test_tool_leaves_no_core_file(workshop: Workshop) -> None:
    body = "import resource; return resource.getrlimit(resource.RLIMIT_CORE)[0]"

    assert workshop.call(body).result == 0


@pytest.mark.skipif(find_spec("_testcapi") is None, reason="this Python cannot run out on demand")
@pytest.mark.parametrize("further", [0, 10, 35, 59])
def test_error_is_reported_without_any_memory_left(workshop: Workshop, further: int) -> None:
    outcome = workshop.run(
        f"import _testcapi\ndef run():\n    _testcapi.set_nomemory(0, {further + 1})\n    list(range(99))\n",
        limits={"memory_mb": 400},
    )

    assert error_of(outcome).code == "limit_memory"


def test_a_workspace_that_holds_too_much_can_be_made_smaller(workshop: Workshop) -> None:
    source = "from pathlib import Path\ndef run():\n    {}\n"
    fill = "for number in range(30): Path(str(number)).write_bytes(bytes(1 << 16))"
    assert workshop.run(source.format(fill)).status == "success"

    limits = {"files": 20, "workspace_mb": 1}
    less = workshop.run(source.format("Path('0').unlink()"), limits=limits)
    same = workshop.run(source.format("Path('1').write_bytes(b'')"), limits=limits)
    more = workshop.run(source.format("Path('a').touch(); Path('b').touch()"), limits=limits)

    assert (less.status, same.status) == ("success", "success")
    assert error_of(more).code == "limit_files"
