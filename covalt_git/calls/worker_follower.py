"""Follower of a call at a worker: reports its events to the broker, and forwards elicitation requests and answers."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from covalt_git.broker.connection import READ_S, BrokerError
from covalt_git.calls.celery_executor import REFUSED
from covalt_git.calls.running import Cancel, Follower, Installing, Started
from covalt_git.elicitation.requests import WHERE_TO_ASK, CannotAskError, Respondent
from covalt_git.errors import CovaltError
from covalt_git.models.outcomes import Log, Progress

if TYPE_CHECKING:
    from covalt_git.broker.open_calls import OpenCalls
    from covalt_git.calls.running import CallEvent
    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.models.elicitation import QuestionKind
    from covalt_git.models.queued_call import QueuedCall

_PAUSE_S = 0.5
_LOG = logging.getLogger(__name__)


class WorkerFollower:
    """Connection of a call at a worker with its follower at a server; ``cancel`` cancels the call."""

    def __init__(self, open_calls: OpenCalls, call: QueuedCall, cancel: Cancel) -> None:
        self._open_calls = open_calls
        self._call = call
        self._has_warned = False
        respondent = Respondent(frozenset(call.can_ask), self._show, self._lacks)
        self.follower = Follower(self._report, cancel, respondent)

    def waits(self, holder: str) -> None:
        """Report the holder of the chat for which the call waits."""
        self._send("waits", holder)

    def _report(self, event: CallEvent) -> None:
        match event:
            case Started(call_id):
                self._send("started", call_id)
            case Installing(message):
                self._send("installing", message)
            case Progress(amount, total, message):
                self._send("progress", amount, total, message)
            case Log(level, message):
                self._send("log", level, message)

    def _lacks(self, kind: QuestionKind) -> None:
        self._send("lacks", kind)

    def _send(self, *event: Any) -> None:
        # Events are for display only. A call that lost its broker still runs to its end and is recorded.
        try:
            self._open_calls.report(self._call, *event)
        except BrokerError as error:
            if not self._has_warned:
                self._has_warned = True
                why = error.message
                _LOG.warning("events of the call %s are not reported: %s", self._call.call_id, why)

    def _show(self, inquiry: Inquiry) -> None:
        questions = {
            key: question.model_dump(mode="json") for key, question in inquiry.questions.items()
        }
        # An error is raised here, unlike for the events above: if the question is not shown, nobody can answer it, and the
        # call would wait until its time limit.
        self._open_calls.report(self._call, "asks", inquiry.id, questions)
        inquiry.on_end(lambda: self._send("asked", inquiry.id))
        threading.Thread(target=self._deliver, args=(inquiry,), name="answers", daemon=True).start()

    def _deliver(self, inquiry: Inquiry) -> None:
        """Deliver the answers of the server to an elicitation request, until it is over."""
        pause = threading.Event()
        while not inquiry.is_over:
            try:
                answer = self._open_calls.wait_for_answer(inquiry.id, READ_S)
            except BrokerError:
                pause.wait(_PAUSE_S)
                continue
            if answer is None:
                continue
            key, content = answer
            if key == REFUSED:
                inquiry.fail(CannotAskError(str(content.get("message")), hint=WHERE_TO_ASK))
                return
            # It was checked at the server; a second answer after a restart of Redis is no longer asked for.
            with suppress(CovaltError):
                inquiry.answer(key, content)
