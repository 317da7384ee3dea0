"""Events of a running tool, and its cancellation."""

import threading
from typing import Any

import pytest

from covalt_git.models.calls import SandboxLevel
from covalt_git.models.outcomes import Log, Outcome, Progress
from tests.examples import one_in
from tests.runtime.conftest import STUBBORN, Workshop, error_of
from tests.runtime.in_sandbox import LEVELS, is_held, needs_proc, programs
from tests.settling import until


def cancelled_once_begun(workshop: Workshop, source: str, **changes: Any) -> Outcome:
    cancel = threading.Event()

    def wait() -> None:
        until((workshop.workspace / "begun").exists)
        cancel.set()

    threading.Thread(target=wait).start()
    return workshop.run(source, cancel=cancel, **changes)


def test_what_is_not_an_event_is_passed_over(workshop: Workshop) -> None:
    told: list[Progress | Log] = []

    outcome = workshop.run(
        """
        import json
        from covalt_toolset import get_context

        def run() -> str:
            listener = get_context().listener
            listener.send({"event": "approved"})
            listener.send({"event": "progress", "done": "much"})
            listener.send([1])
            listener.log("shout", "not a level")
            listener.progress(float("nan"), None, "")
            return "done"
        """,
        report=told.append,
    )

    assert (outcome.result, told) == ("done", [])


@pytest.mark.parametrize("level", LEVELS)
def test_cancelled_tool_that_looks_may_tidy_up(workshop: Workshop, level: SandboxLevel) -> None:
    outcome = cancelled_once_begun(
        workshop,
        """
        import time
        from pathlib import Path
        from covalt_toolset import get_context

        def run(workspace: Path) -> str:
            (workspace / "begun").touch()
            while not get_context().cancelled:
                time.sleep(0.01)
            (workspace / "tidy.txt").write_text("tidied up")
            return "done all the same"
        """,
        level=level,
    )

    assert error_of(outcome).code == "cancelled"
    assert (workshop.workspace / "tidy.txt").read_text() == "tidied up"


@pytest.mark.parametrize("level", one_in(2, LEVELS))
@needs_proc
def test_cancelled_tool_that_does_not_look_is_ended_with_all_it_started(
    workshop: Workshop, mark: str, level: SandboxLevel
) -> None:
    args = {"mark": mark}
    outcome = cancelled_once_begun(workshop, STUBBORN, level=level, warm=True, args=args)

    assert error_of(outcome).code == "cancelled"
    assert (workshop.workspace / "half.txt").read_text() == "half"
    assert workshop.pool.idle() == []
    assert programs(f"0.{mark}") == []
    assert not is_held(workshop.workspace)


def test_cancelled_before_it_begins_a_tool_never_gets_far(workshop: Workshop) -> None:
    cancel = threading.Event()
    cancel.set()

    outcome = workshop.run("import time\ntime.sleep(600)\ndef run(): pass", cancel=cancel)

    assert error_of(outcome).code == "cancelled"
