"""``covalt-git call --batch``: many calls in order, and what became of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Literal

import click

from covalt_git.calls.background import Cancel
from covalt_git.calls.batch import read_batch
from covalt_git.cli import output
from covalt_git.cli.context import given_text, indexed, waiting
from covalt_git.cli.interrupt import cancelling
from covalt_git.cli.progress import following
from covalt_git.cli.progress_bar import bar
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from covalt_git.calls.batch import BatchCall
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.cli.progress import Followed
    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project

Became = Literal["ran", "failed", "waiting", "already"]
"""What became of a call; ``already``: it was made before under its id, whatever came of it then."""

_STOPPED = 130
_COLOURS: dict[Became, str] = {"ran": "green", "failed": "red", "waiting": "yellow"}


def run(
    here: Project,
    file: Path,
    *,
    chat_id: str | None,
    yes: bool,
    keep_going: bool,
    follow: bool | None,
    as_json: bool,
) -> int:
    """Make the calls of a batch in order; return the exit code: 0 where all of them went well.

    Raises:
        BadBatchError: when some could not be made; then none was.
    """
    name = "standard input" if str(file) == "-" else str(file)
    calls = read_batch(
        given_text(file), name, engine=here.engine(), chats=here.chats, chat_id=chat_id
    )
    told = _Told(name, calls, as_json=as_json)
    stop = Cancel()
    with cancelling(stop):
        for call in calls:
            told.goes_on(call)
            try:
                with following(
                    wanted=follow or False, name=told.place(call), cancel=stop
                ) as followed:
                    outcome = _made(here, call, followed, yes=yes)
            except CovaltError as error:
                if stop.is_set():  # before it began
                    break
                became = told.refused(call, error)
            else:
                became = told.ended(call, outcome)
            if stop.is_set() or (became in {"failed", "waiting"} and not keep_going):
                break
        return told.summary(stopped=stop.is_set())


def _made(here: Project, call: BatchCall, followed: Followed, *, yes: bool) -> CallOutcome:
    """Make one call, and approve it where it waits and ``yes`` says so."""
    with here.chats.open(call.chat_id) as chat:
        outcome = here.engine(waiting, followed.follower).call(chat, call.request)
        if outcome.approval is not None and yes and not followed.is_cancelled:
            approvals = here.approvals(waiting, followed.follower)
            outcome = approvals.approve(outcome.approval.execution_id)
        indexed(here, chat)
    return outcome


class _Told:
    """What is said of a batch: a line for each call, a bar at a terminal, and the sum of it all."""

    def __init__(self, name: str, calls: Sequence[BatchCall], *, as_json: bool) -> None:
        self._name = name
        self._calls = calls
        self._as_json = as_json
        self._counts: Counter[Became] = Counter()
        self._all_well = True

    def place(self, call: BatchCall) -> str:
        """Return where a call stands."""
        return f"{self._name}:{call.line}"

    def goes_on(self, call: BatchCall) -> None:
        """Show at a terminal how far it is."""
        done = bar(self._counts.total(), len(self._calls))
        output.move(f"{done} {call.chat_id} {call.request.tool_id}")

    def ended(self, call: BatchCall, outcome: CallOutcome) -> Became:
        """Tell of a call that was made, now or before; return what became of it."""
        made = outcome.call
        if made.status == "pending":
            became: Became = "waiting"
        elif outcome.repeated:
            became = "already"
        else:
            became = "ran" if made.status == "success" else "failed"
        error = "" if outcome.error is None else str(outcome.error)
        more = []
        if outcome.approval is not None:
            error = f"covalt-git approval approve {outcome.approval.execution_id}"
        elif outcome.error is not None:
            assert made.post_manifest_id is not None
            where = f"{call.chat_id} {made.post_manifest_id[: output.SHORT]}"
            more = [_hint(outcome.error.hint), f"see all of it: covalt-git chat show {where}"]
        self._tell(call, became, error, outcome.as_json(), well=made.status == "success")
        self._add(more)
        return became

    def refused(self, call: BatchCall, error: CovaltError) -> Became:
        """Tell of a call that could not be made after all; return what became of it."""
        self._tell(call, "failed", error.message, {"refusal": error.as_json()}, well=False)
        self._add([_hint(error.hint)])
        return "failed"

    def _tell(
        self, call: BatchCall, became: Became, error: str, facts: JsonObject, *, well: bool
    ) -> None:
        self._counts[became] += 1
        self._all_well = self._all_well and well
        if self._as_json:
            output.move()
            click.echo(json.dumps({"line": call.line, "became": became, **facts}))
            return
        text = f"{self.place(call)}: {call.chat_id} {call.request.tool_id} {became}"
        text += f": {error}" if error else ""
        output.say(text, fg=_COLOURS.get(became) if well or became != "already" else "red")

    def _add(self, lines: Iterable[str]) -> None:
        """Say more of the call that was told last, to people."""
        for line in filter(None, lines):
            if not self._as_json:
                output.say(f"  {line}", err=True, dim=True)

    def summary(self, *, stopped: bool) -> int:
        """Tell what became of them all; return the exit code."""
        output.move()
        left = len(self._calls) - self._counts.total()
        counts: dict[str, int] = {
            "ran": self._counts["ran"],
            "failed": self._counts["failed"],
            "waiting": self._counts["waiting"],
            "already": self._counts["already"],
            "not_run": left,
        }
        if self._as_json:
            click.echo(json.dumps({"summary": counts}))
        else:
            number = output.plural(len(self._calls), "call")
            words = {"already": "made before", "waiting": "wait for a person", "not_run": "not run"}
            some = [f"{n} {words.get(name, name)}" for name, n in counts.items() if n]
            output.say(": ".join(filter(None, [number, ", ".join(some)])))
        if stopped:
            return _STOPPED
        return 0 if self._all_well and not left else 1


def _hint(text: str) -> str:
    return f"hint: {text}" if text else ""
