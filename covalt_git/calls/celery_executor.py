"""Executor that makes calls by workers: puts them in the queue, and follows them by the broker.

Redis can be restarted, and lose what it had.  A server that follows a call then submits it again: its id is its
idempotency key, so it runs once.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.broker.connection import BrokerError
from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.calls.executors import LocalCall
from covalt_git.calls.outcomes import CallOutcome, as_recorded
from covalt_git.calls.running import RUNNING, Cancel, Installing, Started
from covalt_git.elicitation.requests import Inquiry
from covalt_git.errors import CovaltError, Problem
from covalt_git.models.calls import ToolCall
from covalt_git.models.elicitation import Question
from covalt_git.models.outcomes import Log, Progress
from covalt_git.system.metrics import Counter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.broker.call_queue import CallQueue
    from covalt_git.broker.open_calls import OpenCalls
    from covalt_git.calls.executors import OpenChat, Submission, Work
    from covalt_git.calls.running import CallEvent, Follower
    from covalt_git.models.queued_call import QueuedCall, QueuedEnd, RemoteError
    from covalt_git.workspaces.chat import ChatStore

REFUSED = ""
"""Key of the answer to an elicitation request that no user or client will answer; no question has it."""

QUEUED = Counter("queued_calls_total", "Calls that were put in the queue.", ("tag",))
PATIENCE_S = 60.0
"""Time for which a server that follows a call waits for Redis to come back, in seconds."""

_COPY_S = 30.0
_READ_S = 1.0
_PAUSE_S = 0.5
_LOG = logging.getLogger(__name__)


class WorkerRefusedError(CovaltError):
    """The error with which a worker refused a call."""

    def __init__(self, error: RemoteError) -> None:
        super().__init__(
            error.message,
            hint=error.hint,
            problems=[Problem(**fields) for fields in error.body.get("problems", ())],
            code=error.code,
            http_status=error.http_status,
        )
        self.exit_code = error.exit_code
        self._body = error.body

    def as_json(self) -> dict[str, Any]:
        """Return the error as the worker would report it."""
        return dict(self._body)


class CeleryExecutor:
    """Makes calls by the workers of a queue."""

    is_queue = True

    def __init__(self, open_calls: OpenCalls, queue: CallQueue) -> None:
        self._open_calls = open_calls
        self._queue = queue
        self._leaves = threading.Event()

    def leave_calls(self) -> None:
        """Cancel no further calls: a server that stops closes the connections of its clients, and workers complete the calls."""
        self._leaves.set()

    def submit(self, work: Work) -> Submission:
        """Put a call in the queue, unless it is there."""
        prepared = work.prepare()
        if prepared is None:
            return LocalCall(work)
        if isinstance(prepared, CallOutcome):
            return _EarlierCall(prepared)
        self._send(prepared)
        return _CallInQueue(self, prepared, work.open_chat)

    def _send(self, call: QueuedCall) -> None:
        if self._open_calls.add(call):
            self._queue.send(call)
            QUEUED.add(call.tag)
            facts = {"call_id": call.call_id, "chat_id": call.chat_id, "tool_id": call.tool_id}
            _LOG.info("%s is queued", call.tool_id, extra={"facts": facts})

    def cancel(self, call_id: str, why: str = Cancel.why) -> None:
        """Cancel a call of this process, or at the worker that has it."""
        if not self._request_cancel(call_id, why):
            RUNNING.cancel(call_id, why)

    def _request_cancel(self, call_id: str, why: str) -> bool:
        described = self._open_calls.request_cancel(call_id, why)
        if described is not None and described.state == "waiting":
            self._queue.send(described.call)
        return described is not None

    def tool_of(self, call_id: str, *, chat_id: str) -> str | None:
        """Return the tool of a call that this process makes, or that the queue has."""
        tool_id = RUNNING.tool_of(call_id, chat_id=chat_id)
        if tool_id is None and (described := self._open_calls.find(call_id)) is not None:
            call = described.call
            if described.state != "ended" and call.chat_id == chat_id:
                tool_id = call.tool_id
        return tool_id

    def follow(
        self, call: QueuedCall, follower: Follower, waiting: Callable[[str], None] | None
    ) -> QueuedEnd:
        """Report the events of a call in the queue until its end, and return that.

        Raises:
            BrokerError: if Redis does not answer for :data:`PATIENCE_S` seconds.
            CovaltError: ``still_running``, if this server stops before.
        """
        reports = _Reports(self._open_calls, follower, waiting)
        last, silent_since = "0", 0.0
        with (
            RUNNING.track(
                call.call_id, follower.cancel, chat_id=call.chat_id, tool_id=call.tool_id
            ),
            self._cancelling(call, follower.cancel),
        ):
            while True:
                if follower.cancel.is_stop:
                    raise CovaltError(
                        "the server stops, and a worker completes the call",
                        hint=f"the same request with call_id {call.call_id} returns its result",
                        code="still_running",
                        http_status=503,
                    )
                try:
                    events = self._open_calls.events(call.key, last, _READ_S)
                    for number, event in events:
                        last = number
                        reports.add(event)
                    # After a silence too: Redis may have lost the call, or its event "end"
                    # (test_a_call_survives_a_restart_of_redis_that_loses_everything).
                    if not events or events[-1][1][0] == "end":
                        end = self._end_of(call)
                        if end is not None:
                            return end
                    silent_since = 0.0
                except BrokerError:
                    silent_since = silent_since or time.monotonic()
                    if time.monotonic() - silent_since > PATIENCE_S:
                        raise
                    time.sleep(_PAUSE_S)

    def _end_of(self, call: QueuedCall) -> QueuedEnd | None:
        """Return the end of a call; submit it again if Redis has lost it."""
        # By its key: once the call is approved, its id leads to the approval, which has an end of its own
        # (test_a_request_that_a_server_repeats_gets_the_approval_that_is_pending_now).
        described = self._open_calls.find_key(call.key)
        if described is None:
            self._send(call)
            return None
        return described.end

    @contextmanager
    def _cancelling(self, call: QueuedCall, cancel: Cancel) -> Iterator[None]:
        """Forward the cancellation of a call to its worker while the block runs."""
        ended = threading.Event()

        def forward() -> None:
            while not ended.is_set():
                if not cancel.wait(1):
                    continue
                # A server that stops leaves the call to its worker.
                if not (ended.is_set() or cancel.is_stop or self._leaves.is_set()):
                    with suppress(BrokerError):
                        self._request_cancel(call.call_id, cancel.why)
                        return
                ended.wait(_PAUSE_S)

        threading.Thread(target=forward, name="cancellation", daemon=True).start()
        try:
            yield
        finally:
            ended.set()


class _EarlierCall(NamedTuple):
    outcome: CallOutcome

    def follow(self, _follower: Follower, _waiting: Callable[[str], None] | None) -> CallOutcome:
        return self.outcome


class _CallInQueue(NamedTuple):
    """A call that is in the queue."""

    executor: CeleryExecutor
    call: QueuedCall
    open_chat: OpenChat

    def follow(self, follower: Follower, waiting: Callable[[str], None] | None) -> CallOutcome:
        """Follow it, and read its outcome from its chat, which is opened for that: another node may have written it."""
        end = self.executor.follow(self.call, follower, waiting)
        with self._opened_with(end) as chat:
            if end.error is not None:
                raise self._refusal(chat, end.error)
            if end.manifest_id is not None:
                manifest = chat.manifest(end.manifest_id)
                return as_recorded(chat, manifest)._replace(repeated=end.repeated)
            assert end.call is not None
            links, fields = tuple(end.call.pop("links", ())), tuple(end.call.pop("fields", ()))
            call = ToolCall.model_validate(end.call | {"links": links, "fields": fields})
            approval = chat.approval(end.execution_id) if end.execution_id else None
            return CallOutcome(call, approval, repeated=end.repeated)

    @contextmanager
    def _opened_with(self, end: QueuedEnd) -> Iterator[ChatStore]:
        """Open the chat with what the end of the call names.

        While another process of this node holds the lock of the chat, as it waits for the lease of another node, the copy
        of this node is not brought up to date, and is older than the end
        (test_an_outcome_is_read_when_the_copy_of_the_node_has_it).
        """
        until, reported = time.monotonic() + _COPY_S, end.reported
        while True:
            with self.open_chat(self.call.chat_id, reported) as chat:
                is_old = end.manifest_id is not None and not chat.store.has(end.manifest_id)
                is_old |= end.execution_id is not None and chat.approval(end.execution_id) is None
                if not is_old or time.monotonic() > until:
                    yield chat
                    return
            # The refs that the worker has reported were not enough: the next time, the git server is asked for them, at
            # once if it was not asked yet.
            if reported is None:
                time.sleep(_PAUSE_S)
            reported = None

    def _refusal(self, chat: ChatStore, error: RemoteError) -> CovaltError:
        pending, newer = chat.call(self.call.call_id), chat.approval(error.renewed or "")
        if pending is None or newer is None:
            return WorkerRefusedError(error)
        # Of this class, so that commands and pages lead to the new approval; the message is that of the worker.
        renewed = ApprovalRenewedError("", CallOutcome(pending.tool_call, newer))
        renewed.message = error.message
        return renewed


class _Reports:
    """Reports the events of a queued call to its follower."""

    def __init__(
        self, open_calls: OpenCalls, follower: Follower, waiting: Callable[[str], None] | None
    ) -> None:
        self._open_calls = open_calls
        self._follower = follower
        self._waiting = waiting
        self._inquiries: dict[str, Inquiry] = {}

    def add(self, event: list[Any]) -> None:
        """Report an event; one of a newer version is ignored."""
        reported: CallEvent | None = None
        match event:
            case ["started", call_id]:
                reported = Started(call_id)
            case ["installing", message]:
                reported = Installing(message)
            case ["progress", amount, total, message]:
                reported = Progress(amount, total, message)
            case ["log", level, message]:
                reported = Log(level, message)
            case ["waits", holder] if self._waiting is not None:
                self._waiting(holder)
            case ["asks", question_id, questions]:
                self._ask(question_id, questions)
            case ["asked", question_id]:
                inquiry = self._inquiries.pop(question_id, None)
                if inquiry is not None:
                    inquiry.withdraw()
            case ["lacks", kind]:
                self._follower.respondent.refused(kind)
            case _:
                pass
        if reported is not None:
            self._follower.report(reported)

    def _ask(self, question_id: str, questions: dict[str, Any]) -> None:
        inquiry = Inquiry({key: Question.model_validate(q) for key, q in questions.items()})
        self._inquiries[question_id] = inquiry

        def refuse(message: str) -> None:
            # Without this, the worker would wait until its time limit.
            if self._inquiries.pop(question_id, None) is not None:
                self._open_calls.answer(question_id, REFUSED, {"message": message})

        def ended() -> None:
            if inquiry.future.cancelled():
                refuse("the request was withdrawn")
            elif (error := inquiry.future.exception()) is not None:
                refuse(error.message if isinstance(error, CovaltError) else "it cannot be answered")

        inquiry.on_answer(lambda key, answer: self._open_calls.answer(question_id, key, answer))
        inquiry.on_end(ended)
        try:
            self._follower.respondent.show(inquiry)
        except CovaltError as error:
            refuse(error.message)
