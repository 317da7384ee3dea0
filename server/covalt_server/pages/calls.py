"""Page of a call: its rendered result, changed files, arguments and record."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from flask import Blueprint, current_app, flash, g, make_response, render_template, request, url_for

from covalt_git.calls.running import RUNNING
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.grants.status import acting_grants
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import main_argument
from covalt_git.operations import bundles, scripts
from covalt_git.operations.calls import calls
from covalt_git.operations.chats import manifests
from covalt_git.operations.chats.tables import read_table
from covalt_git.operations.results import CallLine
from covalt_git.toolsets.builtin_tools import RUN_SCRIPT
from covalt_git.toolsets.state_store import find_toolset
from covalt_server import request_context
from covalt_server.api import streams
from covalt_server.pages import elicitation, layout
from covalt_server.pages.chats import diff_of, patches
from covalt_server.pages.toolset_page import repair_links
from covalt_server.render import artifacts, markdown, tables
from covalt_server.render.results import (
    MOST_ARGUMENTS,
    MOST_LINES,
    RenderContext,
    as_code,
    as_output,
    shown,
)
from covalt_server.request_context import ask
from covalt_server.security import page_policy

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.calls.calls import CallAnswer
    from covalt_git.operations.chats.workspace_files import WorkspaceDiff
    from covalt_server.api.call_streams import CallStream
    from covalt_server.render.results import Shown

pages = Blueprint("calls", __name__)

MOST_EARLIER = 5
"""Number of calls before a call among which the page searches an ended one."""
_PLACE = re.compile(r"\((?P<place>(?P<path>[^()\n]+):(?P<line>[1-9]\d{0,8}):\d{1,9})\)\Z")

CANCEL_S = 2.0
"""How long a form waits for the end of the call that it cancels, in seconds."""


class _SourcePlace(NamedTuple):
    """A place in a toolset's file: the text before it in a message, the place as text, and the URL of its line."""

    before: str
    place: str
    url: str


@pages.get("/chats/<chat_id>/calls/<call_id>")
def call(chat_id: str, call_id: str) -> str:
    """Show a call, also while it is pending or running; long parts have a link to the page ``?all=1`` with all of them."""
    stream = _followed(chat_id, call_id)
    try:
        record = ask(calls.get_call, chat_id=chat_id, call_id=call_id)
    except UnknownNameError:
        if stream is None:
            raise
        return _unrecorded(stream)
    chat = request_context.context().chat(chat_id)
    commit_id = record.post_manifest_id
    finished = commit_id is not None
    place = place_of(record)
    result = shown(chat, record, place) if finished else None
    commit = url_for("chats.state", chat_id=chat_id, manifest=commit_id or "HEAD")
    script = None
    if finished and record.tool_id == RUN_SCRIPT:
        # The record of the script may not be in the store of this machine.
        with suppress(CovaltError):
            script = ask(scripts.get_script, script_id=call_id)
    diff = diff_of(chat_id, record.pre_manifest_id or "", commit_id) if commit_id else None
    return render_template(
        "call.html",
        call=record,
        failed_at=_failed_at(record),
        line=CallLine.of(
            record,
            object=main_argument(record.tool_id, record.args),
            renderer=record.render_plan.renderer if record.render_plan else None,
        ),
        added=sum(change.added or 0 for change in diff.changes) if diff else 0,
        deleted=sum(change.deleted or 0 for change in diff.changes) if diff else 0,
        script=script,
        shown=result,
        result=None if result is None or result.is_plain else as_code(record.result, place),
        printed=as_output(record.output, place) if record.output else None,
        rest=place.rest,
        stream=stream,
        # An approved call is pending until it begins.
        is_running=not finished and (record.status == "running" or _is_approved(stream)),
        can_cancel=not finished and _runs_here(chat_id, call_id),
        question=elicitation.question_url(call_id),
        undone_by=_undone_by(record),
        diff=None if diff is None else _without_result(diff, result),
        patch=patches(chat_id, record.post_manifest_id or "HEAD", most=MOST_LINES, rest=commit),
        again=_again(record.tool_id, record.chat_id, record.args, call_id=record.id),
        may_undo=layout.may_restore(),
        repairs=repair_links(record.tool_id, record.error_detail),
        earlier=_earlier(record) if finished else None,
    )


def _earlier(record: CallAnswer) -> str | None:
    """Return the last ended call of the same tool in the chat before a call, to compare both; None without one."""
    listing = ask(
        calls.list_calls,
        chat_id=record.chat_id,
        tool_id=record.tool_id,
        before=record.id,
        limit=MOST_EARLIER,
    )
    return next((row.id for row in listing.calls if row.post_manifest_id is not None), None)


def _failed_at(record: CallAnswer) -> _SourcePlace | None:
    """Return the place at the end of the message of a tool that could not be loaded, if the toolset still has this code."""
    error, version = record.error_detail, record.toolset
    match = _PLACE.search(error.message) if error and error.code == "cannot_load" else None
    if match is None or version is None:
        return None
    try:
        toolset = bundles.find_visible_toolset(request_context.context(), version.id)
    except UnknownNameError:
        return None
    # Of other code, the line may be another one. The tool may have written the message, so the file may not exist.
    if toolset.digest != version.digest or toolset.files.get(match["path"]) is None:
        return None
    url = url_for(
        "toolsets.source", toolset_id=toolset.id, path=match["path"], _anchor=f"L{match['line']}"
    )
    return _SourcePlace(match.string[: match.start("place")], match["place"], url)


def _undone_by(record: CallAnswer) -> str | None:
    if not record.changes:
        return None
    commit = record.post_manifest_id
    row = ask(manifests.get_workspace_manifest, chat_id=record.chat_id, manifest=commit)
    return row.undone_by


@pages.get("/chats/<chat_id>/calls/<call_id>/rows")
def rows(chat_id: str, call_id: str) -> Response | str:
    """Show a result that is an array of objects as a table, with the query in the URL."""
    if (answer := tables.without_empty_fields()) is not None:
        return answer
    record = ask(calls.get_call, chat_id=chat_id, call_id=call_id)
    table = tables.view(partial(ask, read_table, chat_id=chat_id, call_id=call_id))
    return render_template("call_table.html", call=record, table=table)


@pages.get("/chats/<chat_id>/calls/<call_id>/result.json")
def result(chat_id: str, call_id: str) -> Response:
    """Download the result of a call as JSON."""
    record = ask(calls.get_call, chat_id=chat_id, call_id=call_id)
    answer = make_response(json.dumps(record.result, ensure_ascii=False, indent=2) + "\n")
    answer.mimetype = "application/json"
    name = calls.download_name(record.tool_id, record.id)
    answer.headers["Content-Disposition"] = f"attachment; filename={name}.json"
    return answer


@pages.post("/chats/<chat_id>/calls/<call_id>/cancel")
def cancel(chat_id: str, call_id: str) -> Response:
    """Cancel a call, and show it."""
    try:
        ask(calls.cancel_call, chat_id=chat_id, call_id=call_id)
    except CovaltError as error:
        if error.code != "not_running" or _runs_elsewhere(chat_id, call_id):
            raise
        flash("The call ended before it could be cancelled.", "warn")
        return layout.back("calls.call", chat_id=chat_id, call_id=call_id)
    stream = _followed(chat_id, call_id)
    ended = stream is not None and stream.until_ended(CANCEL_S)
    message = "Cancelled." if ended else "The call is being cancelled."
    return layout.back("calls.call", message, chat_id=chat_id, call_id=call_id)


@pages.get("/chats/<chat_id>/calls/<call_id>/frame")
def frame(chat_id: str, call_id: str) -> Response:
    """Return the frame of a call's result, for the pages that show the result.

    It is a page of its own, with a policy of its own, because a browser keeps the policy with which it loaded a page:
    a conversation could not permit the frames of calls that are added to it later.

    Raises:
        NoPageError: if the result has no frame.
    """
    record = ask(calls.get_call, chat_id=chat_id, call_id=call_id)
    chat = request_context.context().chat(chat_id)
    finished = record.post_manifest_id is not None
    result = shown(chat, record, place_of(record)) if finished else None
    if result is None or result.frame is None:
        raise artifacts.NoPageError("the call's result has no frame")
    answer = make_response(
        render_template("frame.html", address=result.frame, title=record.tool_id)
    )
    answer.headers["Content-Security-Policy"] = page_policy(
        g.nonce, frames=(result.frame.origin,), ancestors="'self'"
    )
    return answer


@pages.post("/preview/document")
def preview() -> str:
    """Return the Markdown preview of an editor, as an HTML fragment."""
    return str(markdown.rendered(request.get_data(as_text=True)))


def _followed(chat_id: str, call_id: str) -> CallStream | None:
    """Return the stream of a call of this server; None for other calls, and some minutes after its end."""
    with suppress(UnknownNameError):
        stream = streams.followed(request_context.context(), call_id)
        return stream if stream.call.chat_id == chat_id else None
    return None


def _unrecorded(stream: CallStream) -> str:
    """Return the page of a call without a record: it waits for its chat, or was refused after its form was sent."""
    refusal, args = stream.outcome, canonical_json.loads(stream.call.args)
    return render_template(
        "call_unrecorded.html",
        call=stream.call,
        args=args,
        again=_again(stream.call.tool_id, stream.call.chat_id, args, call_id=None),
        stream=stream,
        refusal=refusal if isinstance(refusal, CovaltError) else None,
    )


def _is_approved(stream: CallStream | None) -> bool:
    """Return whether a pending call has been approved and waits for its chat; the stream of its request has ended."""
    return stream is not None and not stream.is_over()


def _runs_here(chat_id: str, call_id: str) -> bool:
    return RUNNING.tool_of(call_id, chat_id=chat_id) is not None


def _runs_elsewhere(chat_id: str, call_id: str) -> bool:
    return ask(calls.get_call, chat_id=chat_id, call_id=call_id).status == "running"


def _again(tool_id: str, chat_id: str, args: JsonObject, *, call_id: str | None) -> str:
    """Return the URL of the form with the arguments of a call.

    It has the arguments if they are short, because servers and browsers limit URLs; otherwise the call, if it is recorded.
    """
    text = canonical_json.dumps(args).decode()
    if len(text) <= MOST_ARGUMENTS:
        return url_for("tools.tool", tool_id=tool_id, chat=chat_id, args=text)
    return url_for("tools.tool", tool_id=tool_id, chat=chat_id, call=call_id)


def _without_result(diff: WorkspaceDiff, result: Shown | None) -> WorkspaceDiff:
    """Return the changes of files by a finished call, without a new file that is the result."""
    new = result.path if result is not None else None
    rest = tuple(change for change in diff.changes if (change.kind, change.path) != ("added", new))
    return diff.model_copy(update={"changes": rest})


def place_of(record: CallAnswer) -> RenderContext:
    """Return the address at which the result is served, and the hosts that its frame may show."""
    whole = url_for("calls.call", chat_id=record.chat_id, call_id=record.id, all=1)
    return RenderContext(
        port=current_app.config["COVALT_PORT"],
        host=urlsplit(request.host_url).hostname or "",
        granted=_frame_hosts(record),
        rest="" if "all" in request.args else whole,
    )


def _frame_hosts(record: CallAnswer) -> frozenset[str]:
    """Return the hosts that a call's frame may show: those to which its tool may connect now, on this machine.

    The URL of a frame may contain the result, so a frame sends data as a call does.
    """
    if record.render_plan is None or record.render_plan.renderer != "frame":
        return frozenset()
    # The namespace of an MCP server's tool is not a toolset's id.
    row = request_context.context().toolset_index().tool(record.tool_id)
    toolset_id = row.toolset_id if row else record.tool_id.partition(":")[0]
    try:
        toolset = find_toolset(request_context.project().root, toolset_id)
        # A pull can change the state file, so only grants that are valid and trusted on this machine count
        # (tests/security/test_grants_that_act_on_pages.py).
        may = acting_grants(toolset, toolset.tool(record.tool_id))
    except CovaltError:  # it was removed, or its grants or the consents cannot be read
        return frozenset()
    return frozenset(rule.text for rule in may.reach.rules)
