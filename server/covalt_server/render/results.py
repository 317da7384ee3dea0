"""Renderers of calls' results for the page of a call.

They are the four renderers of the specification and further ones.  The render plan is stored with its call:
files are read from the commit after the call, and an artifact from the chat's records, so later changes of
the workspace or the toolset have no effect.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from covalt_git.checks.pages import artifact_problems
from covalt_git.git_store.objects import is_binary_content
from covalt_git.git_store.patches import change_patch
from covalt_git.models.file_reference import is_reference
from covalt_git.render.targets import RefusedError
from covalt_git.tabular.csv_rows import SUFFIXES
from covalt_git.text import display
from covalt_git.text.media_types import media_type
from covalt_server.render import artifacts, code, differences, markdown
from covalt_server.render.previews import Table, preview, table_of_csv, table_of_objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import RenderPlan
    from covalt_git.operations.calls.calls import CallAnswer
    from covalt_git.workspaces.chat import ChatStore

MOST_LINES = 60
"""Number of lines of a result, or rows of a table, after which the rest is folded or left out."""

MOST_ROWS = 2_000
"""Number of rows of a table on the page with the complete result."""

MOST_ARGUMENTS = 4_000
_LONG_TEXT = 60
_COMMANDS = frozenset({"command", "cmd", "script", "query"})
_ONLY_JSON = re.compile(r"\r|\\[u{]|\n{4}|\t{9}")
"""What a text does not show exactly, or what moves its rest out of sight: such a text is JSON."""
_TEXT = Markup('<section class="text-argument"><p><code>{}</code></p>{}{}</section>')
"""Number of characters of the arguments of a finished call after which the rest is left out."""

_SHORTENED = Markup(
    '<p class="hint">The first {:,} of {:,} characters. <a href="{}">All arguments</a></p>'
)
_PATCH_ARGUMENTS = ("patch", "diff", "input")
_OUTPUT_KEYS = ("output", "stdout", "text")


class ResultPart(NamedTuple):
    """A part of a result: text, JSON, or a file of the workspace, which may be an image or audio."""

    text: str = ""
    body: Markup | None = None
    path: str | None = None
    media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A rendered result: ``table``, ``page``, ``frame``, ``pairs`` or ``parts``, otherwise ``body``.

    ``trouble`` is the reason if the declared renderer failed; ``path`` is the file of the workspace that
    is shown, and ``editable`` whether it can be edited.  ``is_patch`` is whether it shows the changes of
    files, and ``is_plain`` whether it is the returned value as JSON.
    """

    renderer: str = "default"
    body: Markup | None = None
    page: bool = False
    frame: artifacts.FrameAddress | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    parts: tuple[ResultPart, ...] = ()
    path: str | None = None
    editable: bool = False
    table: Table | None = None
    rows: int = 0
    is_patch: bool = False
    is_plain: bool = False
    problems: tuple[Problem, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Server and grants that the renderers of pages and frames need, and how much of a result is shown.

    ``rest`` is the URL of the page with the complete result; empty on that page.
    """

    port: int
    host: str
    granted: frozenset[str] = frozenset()
    rest: str = ""

    @property
    def most(self) -> int | None:
        """The number of lines that are shown; None: all of them."""
        return MOST_LINES if self.rest else None


def shown(chat: ChatStore, call: CallAnswer, place: RenderContext) -> Shown:
    """Return a finished call's result, rendered by its render plan; as JSON without one."""
    plan = call.render_plan
    if plan is None:
        parts = _parts(chat, call, place)
        return Shown(parts=parts) if parts else _value(call.result, place)
    if plan.error and plan.renderer in {"html", "frame"}:
        result = Shown(trouble=plan.error)
    else:
        result = _RENDERERS.get(plan.renderer, _default)(chat, call, plan, place)
    if plan.error and not result.trouble:
        result = Shown(body=result.body, path=result.path, trouble=plan.error)
    others = (result.body, result.page, result.frame, result.pairs, result.parts, result.table)
    body = result.body if any(others) else as_code(call.result, place)
    return replace(result, renderer=plan.renderer, body=body)


def as_arguments(value: Any) -> Markup:
    """Return all arguments of a call, wrapped, for the user who decides whether it runs."""
    return Markup('<div class="arguments wrapped">{}</div>').format(_arguments(value))


def as_short_arguments(value: Any, rest: str) -> Markup:
    """Return the arguments of a call that is decided, with the URL ``rest`` of all of them if they are long."""
    text = _json_text(value)
    if not rest or len(text) <= MOST_ARGUMENTS:
        return as_arguments(value)
    beginning = _exact_json(text[:MOST_ARGUMENTS])
    if isinstance(value, dict) and all(map(_is_text, value.values())):
        beginning = _arguments(_beginning_of(value, MOST_ARGUMENTS))
    listing = Markup('<div class="arguments wrapped">{}</div>').format(beginning)
    return listing + _SHORTENED.format(MOST_ARGUMENTS, len(text), rest)


def _arguments(value: Any) -> Markup:
    """Return commands and long texts as texts, and the other arguments as JSON, in their order."""
    if not isinstance(value, dict):
        return _exact_json(_json_text(value))
    parts = Markup()
    others: JsonObject = {}
    for name, argument in value.items():
        if not (_is_text(argument) and (name in _COMMANDS or _is_long(argument))):
            others[name] = argument
            continue
        if others:
            parts += _exact_json(_json_text(others))
            others = {}
        # A line break at the end of a command changes nothing; that of a file is part of it.
        note = Markup() if name in _COMMANDS else _line_end(argument)
        parts += _TEXT.format(_name(name), code.exact_text(argument), note)
    return parts + _exact_json(_json_text(others)) if others or not parts else parts


def _exact_json(text: str) -> Markup:
    return code.highlighted(text, language="json", exact=True, numbered=False)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and _ONLY_JSON.search(value) is None


def _is_long(text: str) -> bool:
    return "\n" in text or len(text) > _LONG_TEXT


def _name(name: str) -> str:
    """Return the name of an argument; one that could look like something else is JSON."""
    if name.isascii() and name.isidentifier():
        return name
    return display.arguments(json.dumps(name, ensure_ascii=False))


def _line_end(text: str) -> Markup:
    """Return a note if a text ends otherwise than such a text mostly does."""
    ended, several = text.endswith("\n"), "\n" in text.removesuffix("\n")
    if ended == several:
        return Markup()
    note = (
        "The text ends with a line break."
        if ended
        else "The last line has no line break at its end."
    )
    return Markup('<p class="muted">{}</p>').format(note)


def _beginning_of(texts: dict[str, str], left: int) -> dict[str, str]:
    """Return the first ``left`` characters of texts by name."""
    beginning = {}
    for name, text in texts.items():
        if left <= 0:
            break
        beginning[name] = text[:left]
        left -= len(text)
    return beginning


def as_code(value: Any, place: RenderContext | None = None) -> Markup:
    """Return a JSON value as highlighted text; without a ``place``, long values are folded."""
    most, rest = (MOST_LINES, "") if place is None else (place.most, place.rest)
    return code.highlighted(_json_text(value), language="json", most=most, rest=rest)


def as_output(text: str, place: RenderContext) -> Markup:
    """Return what a tool printed."""
    return code.highlighted(text, language="text", numbered=False, most=place.most, rest=place.rest)


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _value(value: Any, place: RenderContext) -> Shown:
    """Show a JSON value: an array of objects as a table, anything else as JSON."""
    table = table_of_objects(value, most=place.most or MOST_ROWS)
    if table is not None:
        return Shown(table=table, rows=len(value))
    return Shown(body=as_code(value, place), is_plain=True)


def _parts(chat: ChatStore, call: CallAnswer, place: RenderContext) -> tuple[ResultPart, ...]:
    """Return the parts of a result that refers to files, as results of MCP tools do; otherwise none."""
    values = call.result if isinstance(call.result, list) else [call.result]
    paths = [value.get("file") if is_reference(value) else None for value in values]
    states = [path and chat.find_file(call.post_manifest_id, path) for path in paths]
    if not any(states):
        return ()
    parts = []
    for value, path, state in zip(values, paths, states, strict=True):
        if path and state:
            media = media_type(chat.store.read_blob(state.oid))
            parts.append(ResultPart(path=path, media_type=media))
        elif isinstance(value, str):
            parts.append(ResultPart(text=value))
        else:
            parts.append(ResultPart(body=as_code(value, place)))
    return tuple(parts)


def _default(_: ChatStore, call: CallAnswer, __: RenderPlan, place: RenderContext) -> Shown:
    return _value(call.result, place)


def _code(chat: ChatStore, call: CallAnswer, plan: RenderPlan, place: RenderContext) -> Shown:
    show = partial(code.highlighted, most=place.most, rest=place.rest)
    result = _text(chat, call, plan, place, show)
    return replace(result, is_patch=plan.config.get("language") == "diff" and result.path is None)


def _document(chat: ChatStore, call: CallAnswer, plan: RenderPlan, place: RenderContext) -> Shown:
    def show(text: str, **_: object) -> Markup:
        if not place.rest or len(text) <= code.MOST_LETTERS:
            return markdown.rendered(text)
        more = Markup('<p><a href="{}">All of the document</a></p>').format(place.rest)
        return markdown.rendered(text[: code.MOST_LETTERS]) + more

    return _text(chat, call, plan, place, show)


def _text(
    chat: ChatStore,
    call: CallAnswer,
    plan: RenderPlan,
    place: RenderContext,
    show: Callable[..., Markup],
) -> Shown:
    """Render the file that a plan names, as of the commit after the call, or the plan's own text."""
    language = str(plan.config.get("language", "auto"))
    path = _workspace_path(plan)
    if path is None:
        content = plan.config.get("content", call.result)
        is_text = isinstance(content, str)
        return Shown(body=show(content, language=language)) if is_text else _value(content, place)
    state = chat.find_file(call.post_manifest_id, path)
    if state is None:
        return Shown(trouble=f"the file {path!r} does not exist in the commit of the call")
    content = chat.store.read_blob(state.oid)
    if is_binary_content(content):
        return Shown(path=path, trouble=f"{path!r} is not a text file: {len(content)} bytes")
    text = content.decode("utf-8", "replace")
    may_edit = _is_yes(plan.config.get("editable", plan.renderer == "editor"))
    # Only if it has not changed since the call.
    editable = (
        may_edit and preview(path, content).editable and chat.find_file(chat.head(), path) == state
    )
    most = place.most or MOST_ROWS
    table = table_of_csv(path, content, most=most) if path.lower().endswith(SUFFIXES) else None
    body = None if table else show(text, language=language, path=path)
    rows = len(text.splitlines()) - 1
    return Shown(body=body, table=table, rows=rows, path=path, editable=editable)


def _html(chat: ChatStore, _: CallAnswer, plan: RenderPlan, __: RenderContext) -> Shown:
    try:
        page = artifacts.artifact_source(plan, chat.records.content)
    except artifacts.NoPageError:
        return Shown(trouble="the artifact of the renderer did not exist")
    name = str(plan.config.get("artifact", "page")).removeprefix("toolset:")
    return Shown(page=True, problems=tuple(artifact_problems(page, name)))


def _frame(_: ChatStore, __: CallAnswer, plan: RenderPlan, place: RenderContext) -> Shown:
    try:
        address = artifacts.frame_address(
            plan.config, own_port=place.port, page_host=place.host, granted=place.granted
        )
    except RefusedError as refused:
        return Shown(trouble=str(refused))
    return Shown(frame=address)


def _terminal(_: ChatStore, call: CallAnswer, __: RenderPlan, place: RenderContext) -> Shown:
    text = call.result if isinstance(call.result, str) else None
    if isinstance(call.result, dict):
        text = next((call.result[key] for key in _OUTPUT_KEYS if key in call.result), None)
    if not isinstance(text, str):
        text = call.output
    show = partial(code.highlighted, language="text", most=place.most, rest=place.rest)
    return Shown(body=show(text) if text else None)


def _file_diff(chat: ChatStore, call: CallAnswer, _: RenderPlan, place: RenderContext) -> Shown:
    changes = chat.changes(call.pre_manifest_id, call.post_manifest_id)
    patch = "".join(change_patch(chat.store, change) for change in changes)
    return Shown(body=_diff(patch, place), is_patch=True)


def _patch_diff(_: ChatStore, call: CallAnswer, __: RenderPlan, place: RenderContext) -> Shown:
    given = next((call.args[name] for name in _PATCH_ARGUMENTS if name in call.args), None)
    return Shown(body=_diff(given, place) if isinstance(given, str) else None, is_patch=True)


def _diff(patch: str, place: RenderContext) -> Markup:
    return differences.diff(patch, most=place.most or differences.MOST_PATCH_LINES, rest=place.rest)


def _key_value(_: ChatStore, call: CallAnswer, __: RenderPlan, ___: RenderContext) -> Shown:
    values = call.result.items() if isinstance(call.result, dict) else ()
    pairs = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values
    ]
    return Shown(pairs=tuple(pairs))


_RENDERERS: dict[str, Callable[[ChatStore, CallAnswer, RenderPlan, RenderContext], Shown]] = {
    "code": _code,
    "editor": _code,
    "document": _document,
    "html": _html,
    "frame": _frame,
    "terminal": _terminal,
    "file-diff": _file_diff,
    "patch-diff": _patch_diff,
    "key-value": _key_value,
}


def _workspace_path(plan: RenderPlan) -> str | None:
    for key in ("file", "path"):
        value = plan.config.get(key)
        if isinstance(value, str) and value.startswith("workspace:"):
            return value.removeprefix("workspace:")
    return None


def _is_yes(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")
