"""Text output of a call's result by its render plan."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from covalt_git.cli.context import ask
from covalt_git.cli.terminal import output
from covalt_git.errors import CovaltError, hint_text
from covalt_git.git_store.objects import is_binary_content
from covalt_git.models.calls import RenderPlan
from covalt_git.operations.chats import workspace_files
from covalt_git.text import display
from covalt_git.text.printed import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.calls import CallError
    from covalt_git.models.commit_record import CallRecord

MOST_LINES = 200
MOST_WIDTH = 1000
"""Characters that are printed of a line; a tool can print a line of any length."""

_FEW_LINES = 30


def call(chat_id: str, manifest_id: str, record: CallRecord) -> None:
    """Print a finished call: arguments, error, output, and rendered result."""
    if record.sandbox == "process":
        output.say("it ran without a sandbox", fg="yellow")
    output.say(f"arguments: {_inline(record.args)}")
    rest = show_command(chat_id, manifest_id)
    if record.error is not None:
        error(record.error, rest, label="error: ")
        answered(record.result, rest)
    else:
        output.say(f"result: {_inline(record.result)}")
    printed(record.output, rest)
    if record.render_plan is not None:
        plan(chat_id, manifest_id, RenderPlan.model_validate(record.render_plan))


def error(call_error: CallError, rest: str, *, label: str = "", err: bool = False) -> None:
    """Print the error of a call; ``rest`` is the command that prints all of it, ``err`` prints it to stderr."""
    lines = f"{label}{call_error}".splitlines()
    _view([lines], rest, indent="", err=err, fg="red")
    _view([call_error.traceback.splitlines()], rest, err=err, dim=True)
    if call_error.hint:
        output.say(hint_text(call_error.hint), err=err)


def plan(chat_id: str, manifest_id: str, render_plan: RenderPlan) -> None:
    """Print the result of a render plan, with the files of the call's commit."""
    output.say(f"-- {render_plan.renderer} {'-' * 40}", dim=True)
    if render_plan.error:
        output.say(
            f"cannot be shown as configured: {display.in_line(render_plan.error)}", fg="yellow"
        )
    config, rest = dict(render_plan.config), show_command(chat_id, manifest_id)
    path = config.pop("file", None) or config.pop("path", None)
    if isinstance(path, str) and path.startswith("workspace:"):
        _file(chat_id, manifest_id, path.removeprefix("workspace:"))
    elif "content" in config:
        content = config.pop("content")
        _text(content if isinstance(content, str) else json.dumps(content, indent=2), rest)
    elif render_plan.renderer == "html":
        size = f", {render_plan.artifact.size} bytes" if render_plan.artifact else ""
        output.say(display.in_line(f"page: {config.get('artifact', 'the result')}{size}"))
        output.say("its data, as window.__TOOL_DATA__:")
        _text(json.dumps(config.get("data"), indent=2, ensure_ascii=False), rest, most=_FEW_LINES)
    elif "url" in config:
        output.say(display.in_line(f"open {config['url']}"))


def patch(text: str, *, above_question: bool = False) -> None:
    """Print a patch in git's colors; above a question each line is quoted."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.removesuffix("\n").split("\n"):
        header = line.startswith(("+++", "---", "diff ", "index "))
        style = {"fg": None if header else colours.get(line[:1]), "bold": header}
        if above_question:
            output.quote(line, **style)
        else:
            output.say(line, prose=True, **style)


def _file(chat_id: str, manifest_id: str, path: str) -> None:
    output.say(display.in_line(path), bold=True)
    try:
        file = ask(
            workspace_files.get_workspace_file, chat_id=chat_id, manifest=manifest_id, path=path
        )
        with file.stream:
            content = file.stream.read()
    except CovaltError as error:
        output.say(f"{error.message} in this commit", fg="yellow")
        return
    if is_binary_content(content):
        output.say(f"{len(content)} bytes that are not text")
        return
    store = f"data/chats/{chat_id}/store.git"
    # `chat show` prints no content of files, but stock git does.
    rest = shlex.join(["git", "--git-dir", store, "show", f"{manifest_id[: output.SHORT]}:{path}"])
    _text(content.decode("utf-8", "replace"), rest)


def show_command(chat_id: str, manifest_id: str) -> str:
    """Return the command that prints all of a call."""
    return f"covalt-git chat show {chat_id} {manifest_id[: output.SHORT]} --json"


def answered(result: Any, rest: str, *, err: bool = False) -> None:
    """Print what a failed tool answered, such as the body of a response that cannot be a result."""
    if result is not None:
        output.say("answered:", err=err)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        _text(text, rest, most=_FEW_LINES, err=err)


def _text(text: str, rest: str, *, most: int = MOST_LINES, err: bool = False) -> None:
    """Print the first lines of a text, and ``rest``, the command that prints all of it."""
    lines = text.splitlines()
    left = len(lines) - most
    note = output.plural(left, "more line") if left > 0 else ""
    _view([lines[:most]], rest, note=note, err=err)


def printed(text: str, rest: str, *, err: bool = False) -> None:
    """Print the first and last lines that a tool printed, and how many it printed and are stored."""
    if not text:
        return
    output.say("printed:", err=err)
    lines, half = text.splitlines(), MOST_LINES // 2
    if len(lines) <= MOST_LINES:
        _view([lines], rest, err=err)
        return
    size = size_of(text)
    stored = "all are stored"
    if size.stored_size < size.size:
        stored = f"{size.stored_lines:,} lines ({size.stored_size:,} bytes) are stored"
    left = output.plural(size.lines - MOST_LINES, "line")
    were = f"{size.lines:,} lines ({size.size:,} bytes) were printed, {stored}"
    note = f"{left} not shown; {were}"
    _view([lines[:half], lines[-half:]], rest, note=note, err=err)


def _view(
    parts: Sequence[Sequence[str]],
    rest: str,
    *,
    note: str = "",
    indent: str = "  ",
    err: bool = False,
    **style: Any,
) -> None:
    """Print lines, each at most ``MOST_WIDTH`` characters of it; ``note`` and ``rest`` follow the first part."""
    notes = [note] if note else []
    if any(len(line) > MOST_WIDTH for lines in parts for line in lines):
        notes.append("long lines are shortened")
    for number, lines in enumerate(parts):
        for line in lines:
            output.say(f"{indent}{shortened(line)}", err=err, **style)
        if notes and number == 0:
            text = display.in_line(f"{'; '.join(notes)}: {rest}")
            output.say(f"  ... {text}", dim=True, err=err)


def shortened(line: str) -> str:
    """Return a line with at most ``MOST_WIDTH`` characters of it, and the number of the others."""
    left = len(line) - MOST_WIDTH
    return f"{line[:MOST_WIDTH]} ... {left:,} more characters" if left > 0 else line


def _inline(value: Any) -> str:
    return display.shorten(display.arguments(json.dumps(value, ensure_ascii=False)), 500)


def result(chat_id: str, manifest_id: str, value: Any) -> None:
    """Print the result of a tool as JSON."""
    rest = show_command(chat_id, manifest_id)
    _text(json.dumps(value, indent=2, ensure_ascii=False), rest, most=_FEW_LINES)
