"""Progress and logs of calls on the command line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from covalt_git.calls import schema_warnings
from covalt_git.calls.running import Cancel, Follower, Installing, Started
from covalt_git.cli import elicitation
from covalt_git.cli.terminal import output
from covalt_git.cli.terminal.interrupt import cancelling
from covalt_git.cli.terminal.progress_bar import bar
from covalt_git.models.outcomes import Log, Progress
from covalt_git.text.printed import MOST_STORED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.calls.running import CallEvent
    from covalt_git.elicitation.requests import Respondent
    from covalt_git.operations.calls.calls import CallAnswer


_STYLES: Final = {"error": {"fg": "red"}, "warning": {"fg": "yellow"}}


class FollowedCalls:
    """Calls whose events are printed, with the logs that were printed.

    Attributes:
        follower: receives the events of a call.
        name: prefix of each line; may be empty.
    """

    def __init__(self, person: Respondent, cancel: Cancel, *, shown: bool) -> None:
        self.follower = Follower(self._show_event, cancel, person)
        self._shown = shown
        self.name = ""
        self._printed: list[Log] = []
        self._printed_size = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.follower.cancel.is_set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make Ctrl-C cancel the call that is made in the block, and print warnings about its schema."""
        with cancelling(self.follower.cancel), schema_warnings.reported(output.warn):
            try:
                yield
            finally:
                output.move()

    def rest(self, answer: CallAnswer) -> CallAnswer:
        """Return the answer without the printed logs in its output.

        The output contains logs: the lines of Python tools have a level, those of other tools have none.
        """
        printed = f"\n{answer.output}"
        for log in self._printed:
            for line in (f"\n{log.level}: {log.message}\n", f"\n{log.message}\n"):
                if line in printed:
                    printed = printed.replace(line, "\n", 1)
                    break
        return answer.model_copy(update={"output": printed[1:]})

    def _show_event(self, event: CallEvent) -> None:
        """Print an event; events of an installation are always printed, because it takes long."""
        if isinstance(event, Started) or not (self._shown or isinstance(event, Installing)):
            return
        try:
            self._show(event)
        except BrokenPipeError:
            # The reader of stderr has ended, as in `call --follow 2>&1 | head`. The call is cancelled, so that it is
            # still recorded (test_a_call_whose_follower_has_gone_is_cancelled).
            self.follower.cancel.set_as("its output was closed")

    def _show(self, event: Installing | Progress | Log) -> None:
        name = f"{self.name}: " if self.name else ""
        # The record has no more than this, so `rest` need not look for more.
        if isinstance(event, Log) and self._printed_size < MOST_STORED:
            self._printed.append(event)
            self._printed_size += len(event.message)
        if output.lines is not None:
            _write_record(event)
        elif isinstance(event, Log):
            text = f"{name}{event.level}: {event.message}"
            output.say(text, err=True, **_STYLES.get(event.level, {"dim": True}))
        elif self._shown and output.is_watched():
            output.move(f"{name}{_text(event)}")
        else:
            output.say(f"{name}{_text(event)}", err=True, dim=True)


def following(
    *, wanted: bool | None, asks: bool = False, cancel: Cancel | None = None
) -> FollowedCalls:
    """Return the follower that prints the events of calls.

    Args:
        wanted: Whether events are printed; None: if stderr is a terminal.
        asks: Whether the user answers elicitation requests.
        cancel: Set by Ctrl-C, to cancel several calls.
    """
    is_shown = output.is_watched() if wanted is None else wanted
    return FollowedCalls(elicitation.respondent(wanted=asks), cancel or Cancel(), shown=is_shown)


def _text(event: Installing | Progress) -> str:
    if isinstance(event, Installing):
        return event.message
    return f"{bar(event.done, event.total)} {event.message}".rstrip()


def _write_record(event: Installing | Progress | Log) -> None:
    """Write an event with the name and the fields of ``POST /api/stream``."""
    assert output.lines is not None
    match event:
        case Log(level, message):
            output.lines(message, level=level, event="ToolCallLog")
        case Progress(done, total, message):
            output.lines(message, event="ToolCallProgress", done=done, total=total)
        case Installing(message):
            output.lines(message, event="Installing")
