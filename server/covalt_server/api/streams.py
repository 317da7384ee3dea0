"""Event streams of the API: call a tool and follow it, and resume after a broken connection."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from flask import has_request_context
from flask import request as http_request
from pydantic import Field

from covalt_git.calls.idempotency import IdTakenError
from covalt_git.calls.running import RUNNING, Follower, Installing, Started
from covalt_git.elicitation.requests import NoOpenQuestionError, Respondent
from covalt_git.errors import CovaltError, InternalError, UnknownNameError
from covalt_git.index.database import IndexUnusableError
from covalt_git.json_values import JsonObject, canonical_json
from covalt_git.models.elicitation import QuestionKind  # noqa: TC001 - pydantic reads it
from covalt_git.models.outcomes import Log, Progress
from covalt_git.names import ToolId, check_new_id, new_id
from covalt_git.operations.calls import script_calls
from covalt_git.operations.calls.calls import (
    CallAnswer,
    CallTool,
    answer,
    answer_of,
    as_request,
    in_schema_order,
    make_call,
)
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Events, InvalidRequestError, Request, Result, operation
from covalt_git.workspaces import commits
from covalt_server import request_context
from covalt_server.api.call_streams import END, LOOK_S, CallStream, Followed, OnDisconnect, event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.calls.running import CallEvent
    from covalt_git.operations.calls.script_calls import AllowedNext
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore

    Waiting = Callable[[str], None]
    Make = Callable[[ChatStore, Waiting, Follower], CallOutcome]

_ENDS = {
    "success": "ToolCallCompleted",
    "error": "ToolCallError",
    "pending": "ApprovalRequired",
}


class StreamCall(CallTool):
    """Request of a call whose events are streamed."""

    on_disconnect: OnDisconnect = Field(
        "cancel",
        description="What happens to the call when its stream is closed.",
    )
    can_ask: tuple[QuestionKind, ...] = Field(
        (), description="Kinds of elicitation that the client answers while the call runs."
    )


class ResumeStream(Request):
    """A call, and the event to continue after."""

    call_id: str = Field(max_length=200)
    chat_id: str | None = Field(
        None, max_length=200, description="Its chat, if forks have the same call."
    )
    after: str | None = Field(
        None,
        max_length=20,
        description="The id of the last event that was received: a number, or `end`.",
        json_schema_extra={"pattern": f"^(?:[0-9]+|{END})$"},
    )


class AnswerQuestion(Request):
    """Answers to an elicitation of a running call."""

    call_id: str = Field(max_length=200)
    question_id: str = Field(max_length=200, description="The ``question_id`` of its event.")
    answers: dict[str, JsonObject] = Field(
        description="The answers by the keys of the questions, as results of their MCP methods."
    )


class QuestionsLeft(Result):
    """The keys of the questions that are still open."""

    open: tuple[str, ...]


@operation(changes=True, errors=(404, 409, 501))
def stream(context: Context, request: StreamCall) -> Events:
    """Call a tool and follow it by server-sent events, each with its ``id`` and JSON as ``data``.

    - ``ToolCallQueued`` at once: ``call_id``, ``chat_id``, ``tool_id``, ``at``; and again with
      each ``holder`` of the chat that it waits for; ``position`` is null
    - ``Installing`` while the toolset's dependencies are installed: ``message``
    - ``ToolCallStarted`` when it begins to run: ``call_id``, ``at``
    - ``ToolCallProgress`` when the tool reports progress: ``done``, ``total`` or null, ``message``
    - ``ToolCallLog`` when the tool logs: ``level``, ``message``
    - ``Question`` for an elicitation of a kind in ``can_ask``: ``question_id``, and ``questions``,
      each with its ``method`` and ``params`` as in MCP; see answer_question.  ``QuestionClosed``
      when answers are no longer accepted: ``question_id``
    - ``FilesChanged`` after the call is recorded, if it changed files: ``changes``
    - ``RenderPlan`` after that, if there is one: ``render_plan``
    - at the end, with the id ``end``, one of ``ToolCallCompleted``, ``ToolCallError`` and
      ``ApprovalRequired``, with ``call``, the answer of call_tool.  The ``ToolCallError`` of a call
      that was refused after it started has ``call`` null, and in ``refusal`` the body of the
      error answer.

    A call that is refused before it starts gets an ordinary error answer.  Closing the stream cancels
    the call, which ends within a second and is recorded; with ``on_disconnect`` ``continue`` it
    continues.  A client reconnects with resume_stream.  A call that was already made under its
    ``call_id`` does not run again.
    """
    return _listened(begin_stream(context, request))


@operation(changes=True, errors=(404, 409))
def answer_question(context: Context, request: AnswerQuestion) -> QuestionsLeft:
    """Answer an elicitation of a running call: ``{"name": {"action": "accept", "content": {...}}}``.

    An answer that does not match its question is refused with ``invalid_answer``; it can be sent again.
    """
    inquiry = followed(context, request.call_id).asking()
    if inquiry is None or inquiry.id != request.question_id:
        raise NoOpenQuestionError("this question is no longer open")
    for key, result in request.answers.items():
        inquiry.answer(key, result)
    return QuestionsLeft(open=tuple(inquiry.open()))


def followed(context: Context, call_id: str) -> CallStream:
    """Return the stream of a call that runs in this server.

    Raises:
        UnknownNameError: if no such call runs, or the role may not see its tool.
    """
    call_stream = request_context.streams().get(call_id)
    if call_stream is None or not _exists(context, call_stream):
        raise _unknown(call_id)
    return call_stream


def _exists(context: Context, call_stream: CallStream) -> bool:
    call = call_stream.call
    return context.chat_exists(call.chat_id) and context.visibility.sees(call.tool_id)


def begin_stream(context: Context, request: StreamCall) -> CallStream:
    """Start a call, or return the stream of the call that was started with its id.

    Raises:
        CovaltError: if the call is refused before it starts.
    """
    opened = context.project
    chat = context.chat(request.chat_id)
    call_id = new_id() if request.call_id is None else check_new_id(request.call_id, "call")
    tool_id = str(ToolId.parse(request.tool_id))
    call = Followed(call_id, request.chat_id, tool_id, canonical_json.dumps(request.args))
    call_request = replace(as_request(request), call_id=call_id, fresh=request.call_id is None)
    # A call that was made already under this id does not run again, so it is not checked again.
    if opened.engine().earlier_outcome(chat, call_request) is None:
        opened.engine().check(call_request)
    new = CallStream(call, on_disconnect=request.on_disconnect)
    # Of two requests with one id at the same time, the second one follows the call of the first.
    call_stream = request_context.streams().find_or_add(call_id, new)
    if call_stream.call != call:
        raise IdTakenError(call_id, "another call")
    if call_stream is new:

        def make(chat: ChatStore, waits: Waiting, follower: Follower) -> CallOutcome:
            with Context.of(opened, waiting=waits, follower=follower) as making:
                return make_call(making, chat, call_request)

        _start(opened, make, call_stream, request.can_ask)
    return call_stream


def approved(
    context: Context,
    execution_id: str,
    *,
    can_ask: tuple[QuestionKind, ...],
    reason: str | None = None,
    allow: AllowedNext | None = None,
) -> CallStream:
    """Approve a call and start it; see :func:`.script_calls.decide` for its outcomes.

    A script that made the call continues in a thread, so that the stream ends with the call.

    Raises:
        UnknownNameError: if no approval has that id.
    """
    opened = context.project
    approval = opened.approvals().find(execution_id)
    args = canonical_json.dumps(approval.args)
    call = Followed(approval.call_id, approval.chat_id, approval.tool_id, args)
    streams = request_context.streams()
    new = CallStream(call, on_disconnect="continue")
    # The stream of the request has ended with ApprovalRequired; the approved call has the same id.
    call_stream = streams.find_or_add(call.call_id, new, replace_ended=True)
    if call_stream is new:

        def approve(_: ChatStore, waits: Waiting, follower: Follower) -> CallOutcome:
            try:
                with Context.of(opened, waiting=waits, follower=follower) as deciding:
                    return script_calls.decide(
                        deciding, execution_id, reason, approved=True, allow=allow, later=True
                    )
            except CovaltError:
                streams.drop(call.call_id, call_stream)  # clients then follow the recorded call
                raise

        _start(opened, approve, call_stream, can_ask)
    return call_stream


@operation(errors=(404,))
def resume_stream(context: Context, request: ResumeStream) -> Events:
    """Stream the events of a call after the event that ``after`` or ``Last-Event-ID`` names.

    The server that runs a call stores its last 4,096 events, at most 4 MiB, until some minutes after
    its end; a gap in the ids shows that events were dropped.  Without stored events, as for a call of
    another process, the stream has only the recorded end.  After the last event the answer is 204, at
    which browsers stop reconnecting.
    """
    after = request.after
    if after is None and has_request_context():
        after = http_request.headers.get("Last-Event-ID")
    if after is not None and after != END and not (after.isascii() and after.isdigit()):
        raise InvalidRequestError("'after' is the id of an event: a number, or end")
    call_stream = request_context.streams().get(request.call_id)
    if call_stream is not None and request.chat_id in {None, call_stream.call.chat_id}:
        # The answer is the same as for an id that does not exist, so that ids of hidden calls cannot be
        # guessed.
        if not _exists(context, call_stream):
            raise _unknown(request.call_id)
        if after == END and call_stream.ended_at is not None:
            return Events(None)
        return _listened(call_stream, after=int(after or 0) if after != END else 0)
    chat_id = _chat_of(context, request)
    if after == END:
        return Events(None)
    return Events(_recorded(context.project, chat_id, request.call_id))


def _listened(call_stream: CallStream, *, after: int = 0) -> Events:
    leave = call_stream.listen()
    return Events(call_stream.events(after), leave)


def _start(
    opened: Project, make: Make, call_stream: CallStream, can_ask: tuple[QuestionKind, ...]
) -> None:
    call, running = call_stream.call, ExitStack()
    # Registered before the thread runs, so that a request that cancels the call finds it at once.
    running.enter_context(
        RUNNING.track(call.call_id, call_stream.cancel, chat_id=call.chat_id, tool_id=call.tool_id)
    )

    def work() -> None:
        with running:
            _follow(opened, make, call_stream, frozenset(can_ask))

    # Not a daemon: when the server stops, the cancelled call is still recorded.
    threading.Thread(target=work, name="covalt-git call").start()


def _follow(
    opened: Project, make: Make, call_stream: CallStream, kinds: frozenset[QuestionKind]
) -> None:
    """Make the call in its own thread, and add its events to the stream."""
    call = call_stream.call
    about = {"call_id": call.call_id, "chat_id": call.chat_id, "tool_id": call.tool_id}
    call_stream.add_event("ToolCallQueued", **about, at=commits.now(), holder=None, position=None)

    def waits(holder: str) -> None:
        call_stream.add_event(
            "ToolCallQueued", **about, at=commits.now(), holder=holder, position=None
        )

    try:
        respondent = Respondent(kinds, call_stream.ask)
        follower = Follower(
            lambda event: _add_event(call_stream, event), call_stream.cancel, respondent
        )
        with opened.chats.open(call.chat_id) as chat:
            try:
                outcome = make(chat, waits, follower)
            finally:  # a refused call may have closed an approval
                # The index is a cache. Without it the call has still been made, and its client must get the
                # result.
                with suppress(IndexUnusableError), opened.chat_index() as index:
                    index.sync_chat(chat)
            call_answer = in_schema_order(opened.catalog, answer_of(chat, outcome))
    except CovaltError as error:
        call_stream.add_last_event("ToolCallError", error, call=None, refusal=error.as_json())
    except Exception:
        bug = InternalError()
        call_stream.add_last_event("ToolCallError", bug, call=None, refusal=bug.as_json())
        raise
    else:
        answer_json = call_answer.model_dump(mode="json")
        if answer_json["changes"]:
            call_stream.add_event("FilesChanged", changes=answer_json["changes"])
        if answer_json["render_plan"] is not None:
            call_stream.add_event("RenderPlan", render_plan=answer_json["render_plan"])
        call_stream.add_last_event(
            _ENDS[call_answer.status], outcome, call=answer_json, refusal=None
        )


def _add_event(call_stream: CallStream, reported: CallEvent) -> None:
    match reported:
        case Started(call_id):
            call_stream.add_event("ToolCallStarted", call_id=call_id, at=commits.now())
        case Installing(message):
            call_stream.add_event("Installing", message=message)
        case Progress(amount, total, message):
            call_stream.add_event("ToolCallProgress", done=amount, total=total, message=message)
        case Log(level, message):
            call_stream.add_event("ToolCallLog", level=level, message=message)


def _chat_of(context: Context, request: ResumeStream) -> str:
    """Return the chat of a call that the role may see."""
    if request.chat_id is not None:
        context.chat_index().sync_chat(context.chat(request.chat_id))
    else:
        # The index does not know of calls by other processes since it was read last.
        context.chat_index().sync_chats()
    for chat_id in context.chat_index().chats_of_record(request.call_id):
        call = context.chat_index().call(chat_id, request.call_id)
        is_visible = call is not None and context.visibility.sees_call(call.tool_id, call.result)
        is_own = is_visible and context.chat_exists(chat_id)
        if is_own and request.chat_id in {None, chat_id}:
            return chat_id
    raise _unknown(request.call_id)


def _unknown(call_id: str) -> UnknownNameError:
    return UnknownNameError("call", call_id[:200], (), list_with="list_calls")


def _recorded(opened: Project, chat_id: str, call_id: str) -> Iterator[bytes]:
    """Yield the last event of a call of any process, when it has ended."""
    # No process reports the end of its calls to others, so the record is polled.
    while (call_answer := _finished_call(opened, chat_id, call_id)) is None:
        yield b""
        time.sleep(LOOK_S)
    name = _ENDS[call_answer.status]
    yield event(END, name, {"call": call_answer.model_dump(mode="json"), "refusal": None})


def _finished_call(opened: Project, chat_id: str, call_id: str) -> CallAnswer | None:
    """Return the answer of a call; None while it runs."""
    with opened.chats.open(chat_id) as chat, opened.chat_index() as index:
        index.sync_chat(chat)
        call = index.call(chat_id, call_id)
        if call is None or call.status == "running":
            return None
        return in_schema_order(opened.catalog, answer(chat, call))


OPERATIONS = (stream, resume_stream, answer_question)
