"""``covalt-git call --batch``: calls of a file in order, with a report of their outcomes."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Literal

import click

from covalt_git.cli.context import ask, context, read_argument_file
from covalt_git.cli.groups import wants_json
from covalt_git.cli.terminal import output, result_text
from covalt_git.cli.terminal.progress import following
from covalt_git.cli.terminal.progress_bar import bar
from covalt_git.errors import NEEDS_APPROVAL, CovaltError
from covalt_git.operations.calls import approvals, calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from covalt_git.cli.terminal.progress import FollowedCalls
    from covalt_git.json_values import JsonObject
    from covalt_git.operations.calls.call_batch import BatchedCall
    from covalt_git.operations.calls.calls import CallAnswer

Became = Literal["ran", "failed", "waiting", "already"]
"""Outcome of a call; ``already``: a call with the same id was made before, with any outcome."""

_STOPPED = 130
_COLOURS: dict[Became, str] = {"ran": "green", "failed": "red", "waiting": "yellow"}


def run(
    file: Path,
    *,
    chat_id: str | None,
    yes: bool,
    reason: str | None,
    keep_going: bool,
    follow: bool,
) -> int:
    """Make the calls of a batch in order; return the exit code.

    It is 0 if all calls succeeded, 4 if calls are pending and none failed, 130 after Ctrl-C, otherwise 1.

    Raises:
        BadBatchError: if a line is invalid; then no call was made.
    """
    approves = yes or reason is not None
    followed = following(wanted=follow)
    # Before the first operation, which fixes the options of the context.
    context(follower=followed.follower)
    name = "standard input" if str(file) == "-" else str(file)
    batch = ask(calls.check_batch, text=read_argument_file(file), name=name, chat_id=chat_id)
    report = _BatchReport(name, batch.calls)
    with followed.running():
        for call in batch.calls:
            report.show_progress(call)
            # The calls share a terminal, so each printed log has to name its call.
            followed.name = report.place(call)
            try:
                answer = _call(call, followed, approves=approves, reason=reason)
            except CovaltError as error:
                # Ctrl-C while a call waited for its chat: the call never began, so it has not failed
                # (test_a_batch_stops_and_counts_what_did_not_run).
                if followed.is_cancelled:
                    break
                became = report.refused(call, error)
            else:
                became = report.ended(call, answer)
            if followed.is_cancelled or (became in {"failed", "waiting"} and not keep_going):
                break
        return report.summary(stopped=followed.is_cancelled)


def _call(
    call: BatchedCall, followed: FollowedCalls, *, approves: bool, reason: str | None
) -> CallAnswer:
    """Make one call, and approve it if it is pending and ``approves`` is true."""
    try:
        answer = ask(calls.call_tool, **call.model_dump(exclude={"line"}))
        if answer.status == "pending" and approves and not followed.is_cancelled:
            answer = ask(approvals.approve_call, execution_id=answer.execution_id, reason=reason)
        return answer
    finally:
        output.move()


class _BatchReport:
    """Report of a batch: a line for each call, a progress bar on a terminal, and a summary."""

    def __init__(self, name: str, calls: Sequence[BatchedCall]) -> None:
        self._name = name
        self._calls = calls
        self._counts: Counter[Became] = Counter()
        self._has_failed = False

    def place(self, call: BatchedCall) -> str:
        """Return the file and line of a call."""
        return f"{self._name}:{call.line}"

    def show_progress(self, call: BatchedCall) -> None:
        progress = bar(self._counts.total(), len(self._calls))
        output.move(f"{progress} {call.chat_id} {call.tool_id}")

    def ended(self, call: BatchedCall, answer: CallAnswer) -> Became:
        """Report a call that was made, now or before; return its outcome."""
        well = answer.status == "success"
        if answer.status == "pending":
            became: Became = "waiting"
        elif answer.repeated:
            became = "already"
        else:
            became = "ran" if well else "failed"
        error, more = answer.error or "", []
        if answer.status == "pending":
            error = f"covalt-git approval approve {answer.execution_id}"
        elif answer.error_detail is not None:
            assert answer.post_manifest_id is not None
            where = f"{call.chat_id} {answer.post_manifest_id[: output.SHORT]}"
            hint = _hint(answer.error_detail.hint)
            more = [hint, f"see all of it: covalt-git chat show {where}"]
        self._print(call, became, error, answer.model_dump(mode="json"), well=well)
        self._add(more)
        return became

    def refused(self, call: BatchedCall, error: CovaltError) -> Became:
        """Report a call that was refused; return its outcome."""
        self._print(call, "failed", error.message, {"refusal": error.as_json()}, well=False)
        self._add([_hint(error.hint)])
        return "failed"

    def _print(
        self, call: BatchedCall, became: Became, error: str, facts: JsonObject, *, well: bool
    ) -> None:
        self._counts[became] += 1
        self._has_failed = self._has_failed or not (well or became == "waiting")
        if wants_json():
            output.move()
            click.echo(json.dumps({"line": call.line, "became": became, **facts}))
            return
        text = f"{self.place(call)}: {call.chat_id} {call.tool_id} {became}"
        text += f": {result_text.shortened(error)}" if error else ""
        output.say(text, fg=_COLOURS.get(became) if well or became != "already" else "red")

    def _add(self, lines: Iterable[str]) -> None:
        """Print more about the call that was reported last; not with ``--json``."""
        for line in filter(None, lines):
            if not wants_json():
                output.say(f"  {line}", err=True, dim=True)

    def summary(self, *, stopped: bool) -> int:
        """Print the number of calls by outcome; return the exit code."""
        output.move()
        left = len(self._calls) - self._counts.total()
        counts: dict[str, int] = {
            "ran": self._counts["ran"],
            "failed": self._counts["failed"],
            "waiting": self._counts["waiting"],
            "already": self._counts["already"],
            "not_run": left,
        }
        if wants_json():
            click.echo(json.dumps({"summary": counts}))
        else:
            number = output.plural(len(self._calls), "call")
            words = {"already": "made before", "waiting": "pending approval", "not_run": "not run"}
            some = [f"{n} {words.get(name, name)}" for name, n in counts.items() if n]
            output.say(": ".join(filter(None, [number, ", ".join(some)])))
        if stopped:
            return _STOPPED
        if self._has_failed:
            return 1
        return NEEDS_APPROVAL if self._counts["waiting"] else 0


def _hint(text: str) -> str:
    return f"hint: {text}" if text else ""
