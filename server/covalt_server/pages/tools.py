"""Tool picker, and the page of a tool with the form that calls it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template, request

from covalt_git.json_values import canonical_json
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.operations import tools
from covalt_git.operations.calls import calls
from covalt_git.operations.chats import chats
from covalt_server import request_context
from covalt_server.api import streams
from covalt_server.forms import form as form_values
from covalt_server.pages import elicitation
from covalt_server.render.results import as_code
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from markupsafe import Markup
    from werkzeug.wrappers import Response

    from covalt_git.operations.tools import ToolDetail
    from covalt_server.forms.form import Submitted

pages = Blueprint("tools", __name__)

MOST_SHOWN = 120
"""Number of tools on a page; if there are more, the tools of a toolset are loaded on demand."""

MOST_FOUND = 20
"""Number of search results; further ones are hardly relevant."""

NEW_CHAT = ""
"""Value of the option that creates a chat for the call."""


@pages.get("/tools")
def tool_picker() -> str:
    """List the tools by toolset and server, or the results of a search."""
    query, toolset_id = (request.args.get(name, "").strip()[:200] for name in ("q", "toolset"))
    catalog, index = request_context.context().catalog, request_context.context().toolset_index()
    visible = catalog.visible(index.tools())
    matches = [tool for tool in visible if toolset_id in {"", tool.toolset_id}]
    if query:
        matches = catalog.search(index, query, limit=MOST_FOUND, toolset_id=toolset_id)
    everything = not query and not toolset_id
    rows = [] if everything and len(matches) > MOST_SHOWN else matches[:MOST_SHOWN]
    return render_template(
        "tool_picker.html",
        groups=tools.grouped(request_context.context(), rows, with_empty=everything),
        counts=Counter(tool.toolset_id for tool in matches),
        query=query,
        toolset_id=toolset_id,
        folded=everything and not rows,
        found=len(matches),
        most=MOST_SHOWN,
        total=len(visible),
        chat=_find_chat(request.args.get("chat")),
    )


@pages.get("/tools/<tool_id>")
def tool(tool_id: str) -> str:
    """Show a tool and the form to call it; ``?args=``, ``?call=`` or ``?example=`` fills the form."""
    tool_detail = _tool(tool_id)
    linked = _linked()
    return _page(
        tool_detail, _opened(tool_detail, linked), chat_id=request.args.get("chat"), linked=linked
    )


@pages.post("/tools/<tool_id>")
def call(tool_id: str) -> Response | str:
    """Call the tool, or show the form again with its problems or changed fields."""
    tool_detail = _tool(tool_id)
    form = form_values.submitted(
        tool_detail.input_schema, request.form, examples=tool_detail.examples
    )
    if form.wants == "check":
        return jsonify(form.answer())
    chat_id = request.form.get("chat", NEW_CHAT)
    if form.wants == "redraw":
        return _page(tool_detail, form, chat_id=chat_id)
    # After all checks of the form, so that a form with problems leaves no empty chat.
    if chat_id == NEW_CHAT:
        chat_id = ask(chats.create_chat, title=tool_detail.name).id
    if not tool_detail.recorded:
        answer = ask(calls.call_tool, chat_id=chat_id, tool_id=tool_detail.tool_id, args=form.value)
        return _page(tool_detail, form, chat_id=chat_id, result=as_code(answer.result))
    # No client listens: the form redirects to the page of the call, which may be closed before the call
    # ends.
    call_request = streams.StreamCall(
        chat_id=chat_id,
        tool_id=tool_detail.tool_id,
        args=form.value,
        on_disconnect="continue",
        can_ask=elicitation.KINDS,
    )
    try:
        stream = streams.begin_stream(request_context.context(), call_request)
        return elicitation.redirect_when_ready(stream)
    except InvalidArgumentsError as error:  # from the function's parameter types
        return _page(tool_detail, form.refused(error.problems), chat_id=chat_id)


def _tool(tool_id: str) -> ToolDetail:
    return ask(tools.get_tool, tool_id=tool_id[:200])


def _linked() -> Any:
    """Return the arguments in the URL, or of the call that it names; None without them.

    The author of a link chose them, not the user.
    """
    if call_id := request.args.get("call"):
        return ask(calls.get_call, chat_id=request.args.get("chat", ""), call_id=call_id).args
    try:
        return canonical_json.loads(request.args["args"])
    except (KeyError, canonical_json.NotJsonError):
        return None


def _opened(tool_detail: ToolDetail, linked: Any) -> Submitted:
    """Return the form with the arguments in the URL, or the schema's defaults."""
    schema, examples = tool_detail.input_schema, tool_detail.examples
    example = request.args.get("example", -1, type=int)
    if 0 <= example < len(examples):
        return form_values.opened(schema, examples[example].args, examples=examples)
    if linked is None:
        return form_values.opened(schema, examples=examples)
    return form_values.opened(schema, linked, examples=examples)


def _page(
    tool_detail: ToolDetail,
    form: Submitted,
    *,
    chat_id: str | None,
    result: Markup | None = None,
    linked: Any = None,
) -> str:
    chat_rows = ask(chats.list_chats).chats
    chosen = _find_chat(chat_id)
    if chosen is None and chat_id != NEW_CHAT and chat_rows:
        chosen = chat_rows[0].id
    return render_template(
        "tool.html",
        tool=tool_detail,
        form=form,
        result=result,
        linked=linked,
        chats=chat_rows,
        chosen=chosen or NEW_CHAT,
        schema=as_code(tool_detail.input_schema),
        output_schema=as_code(tool_detail.output_schema) if tool_detail.output_schema else None,
    )


def _find_chat(chat_id: str | None) -> str | None:
    return chat_id if chat_id in request_context.project().chats.ids() else None
