"""Tool picker, and the page of a tool with the form that calls it."""

from __future__ import annotations

import io
import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Blueprint, jsonify, render_template, request
from markupsafe import Markup
from werkzeug.datastructures import MultiDict

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.json_values.difference import same
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.manifests.toolset_files import readable
from covalt_git.operations import tools
from covalt_git.operations.calls import calls
from covalt_git.operations.chats import chats, workspace_edits
from covalt_git.operations.registry import RequestFile
from covalt_git.text.display import shorten
from covalt_git.text.line_diff import unified
from covalt_git.workspaces import trees
from covalt_server import request_context
from covalt_server.api import streams
from covalt_server.forms import form as form_values
from covalt_server.forms.fields import is_path_name, offering
from covalt_server.pages import elicitation, layout
from covalt_server.pages.calls import place_of
from covalt_server.pages.toolset_page import repair_links
from covalt_server.render import differences
from covalt_server.render.call_texts import call_texts
from covalt_server.render.results import MOST_ARGUMENTS, as_code, shown
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from werkzeug.wrappers import Response

    from covalt_git.operations.calls.calls import CallAnswer, CallRow
    from covalt_git.operations.chats.chats import ChatRow
    from covalt_git.operations.tools import ToolDetail
    from covalt_server.forms.form import Submitted
    from covalt_server.render.call_texts import CallText

pages = Blueprint("tools", __name__)

MOST_SHOWN = 120
"""Number of tools on a page; if there are more, the tools of a toolset are loaded on demand."""

MOST_FOUND = 20
"""Number of search results; further ones are hardly relevant."""

MOST_RUNS = 10
"""Number of the last calls of a tool in the chat."""

MOST_OFFERED = 500
"""Number of files of the chat that a field for a path offers."""

MOST_COMPARED = 1_000
"""Number of lines of a result that are compared with those of another one."""

_MOST_LETTERS = 90
"""Letters of the arguments of a call in the list of the last calls."""

_SIDES = ("old", "new")

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
    """Show a tool and the form to call it; ``?args=``, ``?call=`` or ``?example=`` fills the form.

    ``?run=`` also shows the result of a call next to it, and ``?compare=`` the difference of two calls.
    """
    tool_detail = _tool(tool_id)
    run = _run(tool_detail, request.args)
    linked = _linked()
    return _page(
        tool_detail,
        _opened(tool_detail, run.args if run and linked is None else linked),
        chat_id=request.args.get("chat"),
        linked=linked,
        run=run,
        compared=_compared(tool_detail, request.args),
        asks_for_two=_asks_for_two(request.args),
    )


@pages.post("/tools/<tool_id>")
def call(tool_id: str) -> Response | str:
    """Call the tool, or show the form again with its problems or changed fields."""
    tool_detail = _tool(tool_id)
    form = form_values.submitted(
        tool_detail.input_schema, request.form, examples=tool_detail.examples
    )
    chat_id = request.form.get("chat", NEW_CHAT)
    if "_files" in request.form:
        return _add_files(tool_detail)
    if form.wants == "check":
        texts = {text.id: text.text for text in _texts(tool_detail, form, chat_id)}
        return jsonify(form.answer() | {"texts": texts})
    if "_compare" in request.form or "_chat" in request.form:
        return _with_address(tool_detail, form, chat_id)
    if form.wants == "redraw":
        return _page(tool_detail, form, chat_id=chat_id)
    # After all checks of the form, so that a form with problems leaves no empty chat.
    if "_files_run" in request.form:
        chat_id = _put_files(tool_detail, request.form.get("_files_run", -1, type=int), chat_id)
    elif chat_id == NEW_CHAT:
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


def _with_address(tool_detail: ToolDetail, form: Submitted, chat_id: str) -> Response | str:
    """Redirect to the URL of a comparison or of the chosen chat; input that no URL can have stays on this page."""
    # A call of the old chat is not one of the chosen chat.
    fields = MultiDict({"chat": chat_id}) if "_chat" in request.form else request.form
    run = _run(tool_detail, fields)
    schema = tool_detail.input_schema
    initial = run.args if run else form_values.defaults(schema)
    typed = None if form.value is None else canonical_json.dumps(form.value).decode()
    if form.side == "form" and typed is not None and len(typed) <= MOST_ARGUMENTS:
        is_initial = not form.value or same(form.value, initial)
        return layout.back(
            "tools.tool",
            tool_id=tool_detail.tool_id,
            chat=chat_id,
            run=run.id if run else None,
            args=None if is_initial else typed,
            compare=fields.getlist("compare"),
            _anchor="compared" if "_compare" in fields else None,
        )
    return _page(
        tool_detail,
        form,
        chat_id=chat_id,
        run=run,
        compared=_compared(tool_detail, fields),
        asks_for_two=_asks_for_two(fields),
    )


def _asks_for_two(query: MultiDict[str, str]) -> bool:
    """Return whether a query has calls to compare, but not two of them."""
    ids = query.getlist("compare")
    return bool(ids) and len(set(ids)) != len(_SIDES)


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


def _run(tool_detail: ToolDetail, query: MultiDict[str, str]) -> CallAnswer | None:
    """Return the finished call of the tool that a query names; None without one."""
    run_id = query.get("run")
    if not run_id:
        return None
    call = ask(calls.get_call, chat_id=query.get("chat", ""), call_id=run_id)
    return call if call.tool_id == tool_detail.tool_id and call.post_manifest_id else None


def _compared(tool_detail: ToolDetail, query: MultiDict[str, str]) -> CallDifferences | None:
    """Return the differences of the two calls that a query names, the older one first; None without two calls."""
    ids = sorted(set(query.getlist("compare")))
    if len(ids) != len(_SIDES):
        return None
    chat_id = query.get("chat", "")
    old, new = (ask(calls.get_call, chat_id=chat_id, call_id=call_id) for call_id in ids)
    if {old.tool_id, new.tool_id} != {tool_detail.tool_id}:
        return None
    parts = (
        ComparedPart("Arguments", _difference("arguments", old.args, new.args)),
        ComparedPart("Result", _difference("result", _outcome(old), _outcome(new))),
        ComparedPart(
            "Printed output",
            _difference("output", old.output.split("\n"), new.output.split("\n")),
        ),
        ComparedPart("Changed files", _difference("changes", _changed(old), _changed(new))),
    )
    return CallDifferences(old, new, parts)


class ComparedPart(NamedTuple):
    """A part of two calls; ``difference`` is None if both are equal."""

    title: str
    difference: Markup | None


class CallDifferences(NamedTuple):
    """Two calls of a tool, the older one first, and their parts."""

    old: CallAnswer
    new: CallAnswer
    parts: tuple[ComparedPart, ...]

    @property
    def equal(self) -> list[str]:
        """The titles of the equal parts."""
        return [part.title for part in self.parts if part.difference is None]


def _changed(call: CallAnswer) -> list[str]:
    return [f"{change.kind} {change.path}" for change in call.changes]


def _arguments(row: CallRow) -> str:
    """Return the arguments of a call in one line, shortened."""
    args = ask(calls.get_call, chat_id=row.chat_id, call_id=row.id).args
    line = ", ".join(f"{name}: {_value(value)}" for name, value in args.items())
    return shorten(line, _MOST_LETTERS)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else canonical_json.dumps(value).decode()
    return " ".join(text[: 2 * _MOST_LETTERS].split())


def _outcome(call: CallAnswer) -> Any:
    return call.result if call.error is None else {"error": call.error}


def _difference(name: str, old: Any, new: Any) -> Markup | None:
    texts = [json.dumps(side, indent=2, ensure_ascii=False) for side in (old, new)]
    if texts[0] == texts[1]:
        return None
    # The time of a comparison can grow with the square of the lines.
    old_text, new_text = ("\n".join(text.split("\n")[:MOST_COMPARED]) + "\n" for text in texts)
    if old_text == new_text:
        return Markup("<p>They differ after the first {:,} lines.</p>").format(MOST_COMPARED)
    patch = unified(old_text, new_text, (f"a/{name}.json", f"b/{name}.json"))
    return differences.diff(f"diff --git a/{name}.json b/{name}.json\n{patch}")


def _texts(tool_detail: ToolDetail, form: Submitted, chat_id: str) -> tuple[CallText, ...]:
    """Return the call in the form as texts to copy."""
    args = form.value
    if args is None and not form.problems:
        args = form_values.defaults(tool_detail.input_schema)
    if args is None and request.method == "GET":
        args = {}  # the call without its arguments; form.js adds those that the user types
    if not isinstance(args, dict):
        return ()
    return call_texts(tool_detail.tool_id, chat_id, args, request.host_url)


def _with_offers(form: Submitted, tool_detail: ToolDetail, chat_id: str) -> Submitted:
    """Return the form with the files of a chat for its paths, and the example that it is filled with."""
    examples = tuple(
        option._replace(chosen=form.value is not None and same(example.args, form.value))
        for option, example in zip(form.examples, tool_detail.examples, strict=True)
    )
    form = replace(form, examples=examples)
    if not chat_id or not any(is_path_name(field.hint) for field in form.fields.walk()):
        return form
    # A rule may deny the list of files.
    with suppress(CovaltError):
        context = request_context.context()
        context.require_reading("workspace:list_files", {"manifest": "HEAD"})
        chat = context.chat(chat_id)
        paths = [readable(path) for path in islice(chat.files(chat.head()), MOST_OFFERED)]
        return replace(form, fields=offering(form.fields, paths))
    return form


class LackingFiles(NamedTuple):
    """The files that the example in the form needs and the chat does not have; ``number`` is that of the example."""

    number: int
    paths: tuple[str, ...]


def _lacking_files(tool_detail: ToolDetail, form: Submitted, chat_id: str) -> LackingFiles | None:
    number = next((at for at, option in enumerate(form.examples) if option.chosen), None)
    if number is None or not request_context.context().may_do("workspace:write_file"):
        return None
    paths = tuple(_missing(chat_id, tool_detail.examples[number].files))
    return LackingFiles(number, paths) if paths else None


def _missing(chat_id: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that a chat does not have; a new chat has none."""
    if chat_id == NEW_CHAT:
        yield from paths
        return
    chat = request_context.context().chat(chat_id)
    tree = chat.state(chat.head()).tree
    yield from (path for path in paths if trees.find_entry(chat.store, tree, path) is None)


def _add_files(tool_detail: ToolDetail) -> Response:
    """Put the files of an example into the chat of the form, those that it lacks, and show the example."""
    number = request.form.get("_files", -1, type=int)
    chat_id = _put_files(tool_detail, number, request.form.get("chat", NEW_CHAT))
    files = tool_detail.examples[number].files
    count = f"{len(files)} files" if len(files) > 1 else next(iter(files))
    message = f"Put {count} of the example into the chat."
    return layout.back(
        "tools.tool", message, tool_id=tool_detail.tool_id, chat=chat_id, example=number
    )


def _put_files(tool_detail: ToolDetail, number: int, chat_id: str) -> str:
    """Put the files of an example into a chat, those that it lacks; return the chat, which can be a new one."""
    if not 0 <= number < len(tool_detail.examples):
        raise UnknownNameError(
            "example", str(number), (), list_with=f"covalt-git tool show {tool_detail.tool_id}"
        )
    files = tool_detail.examples[number].files
    if chat_id == NEW_CHAT:
        chat_id = ask(chats.create_chat, title=tool_detail.name).id
    for path in [*_missing(chat_id, files)]:
        folder, _, name = path.rpartition("/")
        content = RequestFile(name, io.BytesIO(files[path].encode()))
        ask(workspace_edits.upload_files, chat_id=chat_id, folder=folder, files=(content,))
    return chat_id


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
    run: CallAnswer | None = None,
    compared: CallDifferences | None = None,
    asks_for_two: bool = False,
) -> str:
    chat_rows = ask(chats.list_chats).chats
    chosen = _find_chat(chat_id)
    if chosen is None and chat_id != NEW_CHAT and chat_rows:
        chosen = _last_chat(tool_detail, chat_rows)
    chosen = chosen or NEW_CHAT
    runs: tuple[CallRow, ...] = ()
    if chosen and tool_detail.recorded:
        listing = ask(
            calls.list_calls, chat_id=chosen, tool_id=tool_detail.tool_id, limit=MOST_RUNS
        )
        runs = listing.calls
    rendered = None
    if run is not None:
        rendered = shown(request_context.context().chat(run.chat_id), run, place_of(run))
    form = _with_offers(form, tool_detail, chosen)
    return render_template(
        "tool.html",
        tool=tool_detail,
        form=form,
        lacking=_lacking_files(tool_detail, form, chosen),
        run=run,
        repairs=repair_links(run.tool_id, run.error_detail) if run is not None else (),
        shown=rendered,
        runs=runs,
        arguments={row.id: _arguments(row) for row in runs},
        picks=request.values.getlist("compare") or [row.id for row in runs[1::-1]],
        compared=compared,
        asks_for_two=asks_for_two,
        texts=_texts(tool_detail, form, chosen),
        result=result,
        linked=linked,
        chats=chat_rows,
        chosen=chosen,
        schema=as_code(tool_detail.input_schema),
        output_schema=as_code(tool_detail.output_schema) if tool_detail.output_schema else None,
    )


def _last_chat(tool_detail: ToolDetail, chat_rows: Sequence[ChatRow]) -> str:
    """Return the chat with the last call of a tool, or without one the chat that was active last."""
    ids = {row.id for row in chat_rows}
    ended = request_context.context().chat_index().ended_calls(tool_detail.tool_id, limit=1)
    if ended and ended[0][0] in ids:
        return ended[0][0]
    return max(chat_rows, key=lambda row: row.active_at).id


def _find_chat(chat_id: str | None) -> str | None:
    return chat_id if chat_id in request_context.project().chats.ids() else None
