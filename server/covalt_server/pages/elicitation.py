"""Pages of the elicitation requests of a running call: a form to fill in, or a URL to open."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from flask import Blueprint, jsonify, render_template, request, url_for

from covalt_git.elicitation.forms import form_fields
from covalt_git.elicitation.requests import NoOpenQuestionError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_server.api import streams
from covalt_server.forms import form as form_values
from covalt_server.pages import layout
from covalt_server.request_context import context

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import Question, QuestionKind
    from covalt_server.api.call_streams import CallStream
    from covalt_server.forms.form import Submitted

pages = Blueprint("questions", __name__)

KINDS: tuple[QuestionKind, ...] = ("form", "url")
"""Kinds of questions that these pages support."""

WAIT_S = 1.0
"""How long a form waits for its call, in seconds; then the page of the running call is shown."""


def redirect_when_ready(stream: CallStream, *, approved: bool = False) -> Response:
    """Redirect to the page of a call, or to its question if it has one.

    A call that takes longer than ``WAIT_S`` is followed on its page.  With the value ``to=chat`` in the request, redirect
    to the call in the conversation, which shows all of this; with ``to=tool``, a call that has ended is shown next to its form.
    After the call was ``approved``, the page says so, with the state of the call.

    Raises:
        CovaltError: if the call was refused.
    """
    inquiry = stream.until_ended_or_asking(WAIT_S)
    message = _after_approval(stream) if approved else ""
    kind: Literal["good", "warn"] = "warn" if _has_failed(stream) else "good"
    # A refused call has no record, so the conversation could not show the reason.
    if request.values.get("to") == "chat" and not isinstance(stream.outcome, CovaltError):
        anchor = f"c-{stream.call.call_id}"
        return layout.back(
            "conversation.chat",
            message,
            kind,
            chat_id=stream.call.chat_id,
            call=stream.call.call_id if approved else None,
            _anchor=anchor,
        )
    if inquiry is not None:
        key = next(iter(inquiry.open()), "")
        where: dict[str, Any] = {
            "call_id": stream.call.call_id,
            "question_id": inquiry.id,
            "key": key,
        }
        return layout.back("questions.question", **where)
    outcome = stream.outcome
    if isinstance(outcome, CovaltError):
        raise outcome
    if outcome is not None and outcome.approval is not None:
        return layout.back("approvals.approval", execution_id=outcome.approval.execution_id)
    if outcome is not None and request.values.get("to") == "tool":
        call = stream.call
        where = {"tool_id": call.tool_id, "chat": call.chat_id, "run": call.call_id}
        return layout.back("tools.tool", **where, _anchor="result")
    return layout.back(
        "calls.call",
        message,
        kind,
        next_need=approved,
        chat_id=stream.call.chat_id,
        call_id=stream.call.call_id,
    )


def _has_failed(stream: CallStream) -> bool:
    outcome = stream.outcome
    return isinstance(outcome, CovaltError) or (outcome is not None and outcome.error is not None)


def _after_approval(stream: CallStream) -> str:
    """Return the message after an approval; it has no arguments, because it is sent in a cookie."""
    name, outcome = layout.tool_title(stream.call.tool_id), stream.outcome
    if outcome is None:
        # The page shows the state, and follows it: a message stays when the call ends.
        return f"Approved {name}."
    if isinstance(outcome, CovaltError) or outcome.approval is not None:
        return ""
    return f"Approved and ran: {name} ({'success' if outcome.error is None else 'error'})."


def question_url(call_id: str, to: str | None = None) -> str | None:
    """Return the URL of the open elicitation request of a call, if this server runs the call."""
    with suppress(UnknownNameError):
        inquiry = streams.followed(context(), call_id).asking()
        if inquiry is not None and (key := next(iter(inquiry.open()), None)) is not None:
            return url_for(
                "questions.question", call_id=call_id, question_id=inquiry.id, key=key, to=to
            )
    return None


@pages.get("/calls/<call_id>/questions/<question_id>/<key>")
def question(call_id: str, question_id: str, key: str) -> Response | str:
    """Show a question of a call; if it is no longer open, redirect to the call's next page."""
    stream, inquiry = _find_inquiry(call_id, question_id)
    open_question = inquiry.open().get(key) if inquiry else None
    if open_question is None:
        return redirect_when_ready(stream)
    form = form_values.opened(_schema(open_question)) if open_question.kind == "form" else None
    return _page(stream, open_question, form)


@pages.post("/calls/<call_id>/questions/<question_id>/<key>")
def answer(call_id: str, question_id: str, key: str) -> Response | str:
    """Answer a question and show the call again, or show the form with its problems."""
    stream, inquiry = _find_inquiry(call_id, question_id)
    open_question = inquiry.open().get(key) if inquiry else None
    if inquiry is None or open_question is None:
        return redirect_when_ready(stream)
    result: JsonObject = {"action": "decline" if "_decline" in request.form else "accept"}
    if open_question.kind == "form" and result["action"] == "accept":
        form = form_values.submitted(_schema(open_question), request.form)
        if form.wants == "check":
            return jsonify(form.answer())
        if form.wants == "redraw":
            return _page(stream, open_question, form)
        result["content"] = _defaults(open_question) | form.value
    with suppress(NoOpenQuestionError):  # answered by another client, or expired
        inquiry.answer(key, result)
    return redirect_when_ready(stream)


def _find_inquiry(call_id: str, question_id: str) -> tuple[CallStream, Inquiry | None]:
    """Return the stream of a call of this server, and its inquiry if that is still open."""
    stream = streams.followed(context(), call_id)
    inquiry = stream.asking()
    return stream, inquiry if inquiry is not None and inquiry.id == question_id else None


def _page(stream: CallStream, question: Question, form: Submitted | None) -> str:
    url = str(question.params.get("url", ""))
    return render_template(
        "question.html",
        call=stream.call,
        message=question.message,
        form=form,
        url=url,
        # A tool chose the URL: with the scheme `javascript`, a click would run its script in our page.
        can_open=urlsplit(url).scheme in {"http", "https"},
        here=request.full_path.rstrip("?"),
    )


def _defaults(question: Question) -> JsonObject:
    """Return the values of fields that are left empty."""
    fields = form_fields(question.params["requestedSchema"])
    return {field.name: field.default for field in fields if field.default is not None}


def _schema(question: Question) -> JsonObject:
    """Return the schema of a form as a schema of arguments, with multiple choices as sets."""
    schema: JsonObject = question.params["requestedSchema"]
    properties = {
        name: {**field, "uniqueItems": True} if field["type"] == "array" else field
        for name, field in schema["properties"].items()
    }
    required = schema.get("required", [])
    return {"type": "object", "properties": properties, "required": required}
