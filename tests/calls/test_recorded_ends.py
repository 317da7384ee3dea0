"""A tool that has run is recorded as one that has run, whatever fails between its end and its commit."""

import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from covalt_git.calls import engine, outcomes
from covalt_git.calls.engine import Engine
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.models.outcomes import Outcome
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.pool import NoWorkerError
from tests.calls.conftest import World
from tests.examples import EVERY

FILES = {engine.__file__, outcomes.__file__}


class Failure(Exception):  # noqa: N818 - it stands for any error
    """A failure of our own code."""


class FailingLine:
    """Raises at the line with this number, counted from the end of the tool to the commit."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._is_after = False
        self.was_reached = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in FILES or code.co_name in {"_commit", "as_recorded"}:
            self._is_after = self._is_after and code.co_name != "_commit"
            return None
        if code.co_name == "_end" and event == "call":
            self._is_after = True
        elif event == "line" and code.co_name != "_run" and self._is_after and not self.was_reached:
            self._left -= 1
            if not self._left:
                self.was_reached = True
                raise Failure
        return self


def outcomes_by_line(call: Callable[[], CallOutcome]) -> Iterator[tuple[CallOutcome, bool]]:
    """Make a call with a failure at each line after the tool; yield its outcome, and whether the line was reached."""
    for number in itertools.count(1, EVERY):
        line = FailingLine(number)
        earlier = sys.gettrace()
        sys.settrace(line)
        try:
            outcome = call()
        finally:
            sys.settrace(earlier)
        yield outcome, line.was_reached
        if not line.was_reached:
            assert number > 15
            return


@pytest.mark.kills
def test_a_failure_at_each_line_after_the_tool_is_recorded_with_its_result(world: World) -> None:
    world.call("add", text="x")
    for outcome, failed in outcomes_by_line(lambda: world.call("add", text="x")):
        if not failed:
            assert outcome.error is None
            continue
        record = world.record()
        assert record.error is not None
        assert record.error.code == "internal_error"
        assert "the tool may have had its effect" in record.error.message
        assert record.result is not None
        assert outcome.call.status == "error"
        assert not world.waiting()


@pytest.mark.kills
def test_a_failure_after_a_read_only_tool_commits_none_of_its_changes(world: World) -> None:
    world.add("reader")
    world.call("add", text="x")
    files = world.files()
    for _ in outcomes_by_line(lambda: world.call("reader:lie", how="write")):
        assert world.files() == files
        assert not (world.workspace / "lie.txt").exists()


@pytest.mark.parametrize(
    ("result", "stored", "note"),
    [
        ({"id": 2**60}, {"id": str(2**60)}, "2^53"),
        ({"a": "\ud83d"}, {"a": "\ufffd"}, "surrogate"),
    ],
)
def test_a_result_that_json_cannot_represent_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch, result: Any, stored: Any, note: str
) -> None:
    def run(*_: Any, begin: Any, **__: Any) -> Outcome:
        begin()
        return Outcome("success", result, output="\ud83d\n")

    monkeypatch.setattr(Engine, "_outcome", run)

    outcome = world.call("add", text="x")

    assert (outcome.error, outcome.call.result) == (None, stored)
    assert note in outcome.output


def test_a_failure_while_the_tool_runs_is_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, begin: Any, **__: Any) -> Outcome:
        begin()
        raise Failure

    monkeypatch.setattr(Engine, "_outcome", run)

    world.call("add", text="x")

    error = world.record().error
    assert error is not None
    assert error.code == "internal_error"
    assert error.hint == "check the effect before you call the tool again"


def test_a_call_for_which_no_process_starts_had_no_effect(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(job: Job, **_: Any) -> Outcome:
        assert job.begin is not None
        job.begin()
        raise NoWorkerError("the fork server, which starts tools, has ended", hint="call it again")

    monkeypatch.setattr("covalt_git.runtime.python_tool.run", run)

    world.call("add", text="x")

    error = world.record().error
    assert error is not None
    assert (error.code, error.hint) == ("no_worker", "call it again")
    assert "effect" not in error.message
