"""Pages of scripts: the source with the state of each call at its line, and what the script waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flask import Blueprint, render_template

from covalt_git.models.scripts import lines_of
from covalt_git.operations import scripts
from covalt_git.operations.calls import approvals
from covalt_git.operations.chats import chats
from covalt_server.pages import layout
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.operations.calls.approvals import ApprovalDetail
    from covalt_git.operations.scripts import ScriptDetail, ScriptLine

pages = Blueprint("scripts", __name__)


class SourceLine(NamedTuple):
    """A line of a script, with the calls that it made."""

    number: int
    text: str
    calls: tuple[ScriptLine, ...]


def source_lines(script: ScriptDetail) -> list[SourceLine]:
    """Return the lines of a script; calls without a line are at the first."""
    lines = lines_of(script.source)
    by_line: dict[int, list[ScriptLine]] = {}
    for call in script.lines:
        by_line.setdefault(min(max(1, call.line or 1), len(lines)), []).append(call)
    return [
        SourceLine(number, text, tuple(by_line.get(number, ())))
        for number, text in enumerate(lines, 1)
    ]


@pages.get("/scripts")
def script_list() -> str:
    """List the scripts that have not ended."""
    return render_template("script_list.html", scripts=ask(scripts.list_scripts).scripts)


@pages.get("/scripts/<script_id>")
def script(script_id: str) -> str:
    """Show a script, also one that has ended."""
    detail = ask(scripts.get_script, script_id=script_id)
    approval: ApprovalDetail | None = None
    if detail.execution_id is not None:
        approval = ask(approvals.get_approval, execution_id=detail.execution_id)
    chat = ask(chats.get_chat, chat_id=detail.chat_id)
    return render_template(
        "script.html", script=detail, lines=source_lines(detail), approval=approval, chat=chat
    )


@pages.post("/scripts/<script_id>/continue")
def proceed(script_id: str) -> Response:
    """Continue a script whose process has ended, and show it."""
    ask(scripts.continue_script, script_id=script_id)
    return layout.back("scripts.script", script_id=script_id)


@pages.post("/scripts/<script_id>/cancel")
def cancel(script_id: str) -> Response:
    """End a script, and show it."""
    ask(scripts.cancel_script, script_id=script_id)
    return layout.back("scripts.script", "Cancelled.", script_id=script_id)
