"""Limits: what a run takes at most."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.runtime.python_tool import run

if TYPE_CHECKING:
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
    assert (outcome.error.code, outcome.error.message) == ("timed_out", "it ran longer than 0.7 s")


def test_module_that_never_ends_its_import_is_ended(workshop: Workshop) -> None:
    outcome = workshop.run("print('begun')\nwhile True: pass\n", limits={"timeout_s": 1.0})

    assert outcome.error is not None
    assert outcome.error.code == "timed_out"
    assert outcome.output == "begun\n"


@pytest.mark.parametrize(
    ("body", "limits", "code", "message"),
    [
        pytest.param(
            "bytearray(1 << 30)",
            {"memory_mb": 512},
            "tool_raised",
            "MemoryError",
            id="memory",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds it"),
        ),
        pytest.param(
            "while True: pass",
            {"cpu_s": 1.0},
            "timed_out",
            "it used 1 s of processor time",
            id="processor",
        ),
        pytest.param(
            "Path('large').write_bytes(bytes((1 << 20) + 1))",
            {"written_mb": 1},
            "tool_raised",
            "OSError: [Errno 27] File too large",
            id="file-size",
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
        f"import os\nfrom pathlib import Path\ndef run():\n    {body}\n", limits=limits
    )

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (code, message)


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

    outcome = run(job)

    assert outcome.status == "error"
