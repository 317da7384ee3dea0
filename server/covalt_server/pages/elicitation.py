"""What a call asks while it runs, as a page: a form to fill in, or an address to open."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Blueprint, jsonify, render_template, request

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
"""What the person before a page can be asked."""


def redirect_when_ready(made: CallStream) -> Response:
    """Wait until a call has ended or asks something, and send the person to the page of that.

    Raises:
        CovaltError: where the call was refused after all.
    """
    asks = made.until_ended_or_asking()
    if asks is not None:
        key = next(iter(asks.open()), "")
        where = {"call_id": made.call.call_id, "question_id": asks.id, "key": key}
        return layout.back("questions.question", **where)
    done = made.outcome
    if done is None or isinstance(done, CovaltError):
        raise done or UnknownNameError("call", made.call.call_id, (), list_with="list_calls")
    if done.approval is not None:
        return layout.back("approvals.approval", execution_id=done.approval.execution_id)
    return layout.back("calls.call", chat_id=done.call.chat_id, call_id=done.call.id)


@pages.get("/calls/<call_id>/questions/<question_id>/<key>")
def question(call_id: str, question_id: str, key: str) -> Response | str:
    """Show what a call asks; where it asks that no more, what it does now."""
    made, asks = _find_inquiry(call_id, question_id)
    asked = asks.open().get(key) if asks else None
    if asked is None:
        return redirect_when_ready(made)
    form = form_values.opened(_schema(asked)) if asked.kind == "form" else None
    return _page(made, asked, form)


@pages.post("/calls/<call_id>/questions/<question_id>/<key>")
def answer(call_id: str, question_id: str, key: str) -> Response | str:
    """Answer a question and show the call again, or show the form with its problems."""
    made, asks = _find_inquiry(call_id, question_id)
    asked = asks.open().get(key) if asks else None
    if asks is None or asked is None:
        return redirect_when_ready(made)
    said: JsonObject = {"action": "decline" if "_decline" in request.form else "accept"}
    if asked.kind == "form" and said["action"] == "accept":
        form = form_values.submitted(_schema(asked), request.form)
        if form.wants == "check":
            return jsonify(form.answer())
        if form.wants == "redraw":
            return _page(made, asked, form)
        said["content"] = _defaults(asked) | form.value
    with suppress(NoOpenQuestionError):  # it was answered elsewhere, or its time was up
        asks.answer(key, said)
    return redirect_when_ready(made)


def _find_inquiry(call_id: str, question_id: str) -> tuple[CallStream, Inquiry | None]:
    """Return a call that is followed here, and what it asks under that id, if it still does."""
    made = streams.followed(context(), call_id)
    asks = made.asking()
    return made, asks if asks is not None and asks.id == question_id else None


def _page(made: CallStream, asked: Question, form: Submitted | None) -> str:
    url = str(asked.params.get("url", ""))
    return render_template(
        "question.html",
        call=made.call,
        message=asked.message,
        form=form,
        url=url,
        can_open=urlsplit(url).scheme in {"http", "https"},
        here=request.path,
    )


def _defaults(asked: Question) -> JsonObject:
    """Return what the form shows as the value of a field that is left empty."""
    fields = form_fields(asked.params["requestedSchema"])
    return {field.name: field.default for field in fields if field.default is not None}


def _schema(asked: Question) -> JsonObject:
    """Return the schema of a form as that of a tool's arguments, with choices as plain lists."""
    schema: JsonObject = asked.params["requestedSchema"]
    properties = {}
    for field in form_fields(schema):
        plain = {
            name: value
            for name, value in schema["properties"][field.name].items()
            if name != "oneOf"
        }
        choice = {
            "enum": [value for value, _ in field.options],
            "enumNames": [title for _, title in field.options],
        }
        if field.kind == "choice":
            plain |= choice
        elif field.kind == "choices":
            plain |= {"items": {"type": "string", **choice}, "uniqueItems": True}
        properties[field.name] = plain
    required = schema.get("required", [])
    return {"type": "object", "properties": properties, "required": required}
