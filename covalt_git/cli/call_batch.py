"""``covalt-git call --batch``: many calls in order, and what became of them."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from typing import TYPE_CHECKING, Literal

import click

from covalt_git.calls.batch import read_batch
from covalt_git.cli import output
from covalt_git.cli.call_progress import following
from covalt_git.cli.progress import bar
from covalt_git.cli.session import indexed, waiting, wrong_call
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.calls.batch import BatchCall
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.models.base import JsonObject
    from covalt_git.project import Project

Became = Literal["ran", "failed", "waiting", "already"]
"""What became of a call; ``already``: it was made before under its id, whatever came of it then."""

_BACK = "\r\x1b[K"
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
    calls = read_batch(_text(file), name, engine=here.engine(), chats=here.chats, chat_id=chat_id)
    told = _Told(name, calls, as_json=as_json)
    for call in calls:
        told.goes_on(call)
        try:
            outcome = _made(here, call, yes=yes, follow=follow)
        except CovaltError as error:
            told.refused(call, error)
            became: Became = "failed"
        else:
            became = told.ended(call, outcome)
            if outcome.error is not None and outcome.error.code == "cancelled":
                told.stopped = not outcome.repeated
        if told.stopped or (became in {"failed", "waiting"} and not keep_going):
            break
    return told.summary()


def _text(file: Path) -> str:
    content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong_call(f"{file} is not UTF-8: byte {error.start}") from None


def _made(here: Project, call: BatchCall, *, yes: bool, follow: bool | None) -> CallOutcome:
    """Make one call, and approve it where it waits and ``yes`` says so."""
    with here.chats.open(call.chat_id) as chat:
        with following(wanted=follow or False) as followed:
            outcome = here.engine(waiting, followed.follower).call(chat, call.request)
        if outcome.approval is not None and yes:
            with following(wanted=follow or False) as followed:
                approvals = here.approvals(waiting, followed.follower)
                outcome = approvals.approve(outcome.approval.execution_id)
        indexed(here, chat)
    return outcome


class _Told:
    """What is said of a batch: a line for each call, a bar at a terminal, and the sum of it all."""

    def __init__(self, name: str, calls: Sequence[BatchCall], *, as_json: bool) -> None:
        self.stopped = False
        self._name = name
        self._calls = calls
        self._as_json = as_json
        self._counts: Counter[Became] = Counter()
        self._all_well = True

    def goes_on(self, call: BatchCall) -> None:
        """Show at a terminal how far it is."""
        if output.is_watched():
            done = self._counts.total()
            text = f"{bar(done, len(self._calls))} {call.chat_id} {call.request.tool_id}"
            room = shutil.get_terminal_size((80, 24)).columns - 1
            click.secho(_BACK + output.safe(text)[:room], err=True, nl=False, dim=True)

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
        if outcome.approval is not None:
            error = f"covalt-git approval approve {outcome.approval.execution_id}"
        asked = {"execution_id": outcome.approval.execution_id} if outcome.approval else {}
        self._tell(call, became, error, made.as_json() | asked, well=made.status == "success")
        return became

    def refused(self, call: BatchCall, error: CovaltError) -> None:
        """Tell of a call that could not be made after all."""
        self._tell(call, "failed", error.message, {"refusal": error.as_json()}, well=False)

    def _tell(
        self, call: BatchCall, became: Became, error: str, facts: JsonObject, *, well: bool
    ) -> None:
        self._counts[became] += 1
        self._all_well = self._all_well and well
        self._clear()
        if self._as_json:
            click.echo(json.dumps({"line": call.line, "became": became, **facts}))
            return
        text = f"{self._name}:{call.line}: {call.chat_id} {call.request.tool_id} {became}"
        text += f": {error}" if error else ""
        output.say(text, fg=_COLOURS.get(became) if well or became != "already" else "red")

    def summary(self) -> int:
        """Tell what became of them all; return the exit code."""
        self._clear()
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
            words = {"already": "made before", "waiting": "wait for a person", "not_run": "not run"}
            some = [f"{n} {words.get(name, name)}" for name, n in counts.items() if n]
            output.say(f"{output.plural(len(self._calls), 'call')}: {', '.join(some) or 'none'}")
        if self.stopped:
            return _STOPPED
        return 0 if self._all_well and not left else 1

    def _clear(self) -> None:
        if output.is_watched():
            click.echo(_BACK, err=True, nl=False)
