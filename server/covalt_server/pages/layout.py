"""Shared layout of pages: the navigation bar, and messages after a form."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from flask import flash, g, redirect, request, url_for
from markupsafe import Markup, escape

from covalt_git.conversations.commit_names import SHOWN_DIGITS
from covalt_git.errors import CovaltError
from covalt_git.system.node_folder import check_changeable, folder_text
from covalt_git.text import display
from covalt_server import request_context
from covalt_server.render import call_lines, results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Flask
    from werkzeug.wrappers import Response

    from covalt_git.operations.calls.calls import CallAnswer
    from covalt_git.operations.results import CallLine
    from covalt_server.security import Guard

NAVIGATION = (
    ("Chats", "chats.chat_list", "chats"),
    ("Tools", "tools.tool_picker", "tools"),
    ("Toolsets", "toolsets.toolset_list", "toolsets"),
    ("Approvals", "approvals.approval_list", "approvals"),
)
_AREAS = {
    **dict.fromkeys(("branches", "calls", "conversation", "preview", "workspace"), "chats"),
    "imports": "toolsets",
    "new_toolset": "toolsets",
    "policy": "tools",
    "registered_tools": "toolsets",
    "sources": "toolsets",
    "toolset_files": "toolsets",
    "toolset_permissions": "toolsets",
    "toolset_sources": "toolsets",
}

MOST_PATCHES = 50
"""Number of patches on a page; further files are only listed."""


_LONGEST_TITLE = 100

_OBJECT_ID = re.compile(r"(?<![\w:/.-])(?:[0-9a-f]{64}|[0-9a-f]{40})(?!\w|[/.-]\w)")
"""An id of a commit or a file in a sentence; digests such as ``sha256:...`` are compared, so they stay complete."""

_WORD = re.compile(r"[^\W_]+(?:[,;]? |: |$)")
"""A first word that can be capitalized; ids such as app-builder:write_file cannot."""

UNCHANGED = "No changes to commit."


def install(app: Flask, guard: Guard) -> None:
    """Add the values that every template uses, and messages that survive a redirect.

    The session cookie contains only these messages, the ends of the last imports, and the id of the session, to which
    the keys of previews belong.  So its key may change when the server restarts.
    """
    app.secret_key = guard.session_key
    app.config.update(
        SESSION_COOKIE_NAME=guard.messages_cookie,
        SESSION_COOKIE_SAMESITE="Strict",
    )
    app.context_processor(_context)
    app.jinja_env.globals["most_patches"] = MOST_PATCHES
    for filter_ in (
        ran,
        call_lines.call_state,
        display.duration,
        call_lines.call_icon,
        call_lines.commit_icon,
    ):
        app.add_template_filter(filter_)
    app.add_template_filter(tool_title, "action")
    escape_hidden(app)
    app.before_request(_refuse_edit_of_followed)


_EDITORS = frozenset(
    {
        *("toolset_files.edit", "toolset_files.fix", "config.edit", "config.fix"),
        *("imports.choose", "new_toolset.form", "sources.new", "toolsets.uninstall_preview"),
    }
)
"""Pages whose forms change files of the project."""


def _refuse_edit_of_followed() -> None:
    """Say before the user has typed anything that a node does not change the files of its repository.

    Raises:
        FollowedProjectError: on the pages of :data:`_EDITORS`, if the project comes from a repository.
    """
    if request.endpoint in _EDITORS:
        check_changeable(request_context.context().root)


def escape_hidden(app: Flask) -> None:
    """Make the templates of an app escape invisible characters in every text."""
    app.add_template_filter(_prose, "prose")
    app.add_template_filter(_coded, "coded")
    app.add_template_filter(results.as_arguments, "arguments")
    app.add_template_filter(results.as_short_arguments, "short_arguments")
    app.add_template_filter(sentence, "sentence")
    app.add_template_filter(_reason_words, "reason_words")
    app.add_template_filter(_lines, "lines")
    app.jinja_env.finalize = displayed


def displayed(value: object) -> object:
    """Return a value for a template's output: a text with its invisible characters escaped.

    HTML is not changed.  So templates use the filter ``e`` for the values of attributes and text areas, because forms
    send these back.
    """
    return display.in_line(value) if isinstance(value, str) and not _is_html(value) else value


def _is_html(value: object) -> bool:
    return hasattr(value, "__html__")


def sentence(text: str) -> str:
    """Return a text with its first letter capitalized, unless it begins with an id or a path, and its ids shortened."""
    text = _OBJECT_ID.sub(lambda match: match[0][:SHOWN_DIGITS], text)
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


_REASON_WORDS = {
    "its decorator requires it": "the Python of the tool requires approval of each call",
    "tools of MCP servers require it by default": "tools of MCP servers require approval by default",
    "the toolset requires it": "its toolset.yaml requires approval of each call",
    "the toolset's override requires it": "an override of this project requires approval of each call",
    "this project's state requires it": "a setting of this project requires approval of each call",
    "destructive": "the tool can delete or overwrite",
}
"""The reasons for an approval as reviewers read them: the text for each reason in a record."""


def _reason_words(reasons: Sequence[str]) -> str:
    return ", ".join(_REASON_WORDS.get(reason, reason) for reason in reasons)


def _prose(value: object) -> Markup:
    """Return a message, description or result for a page."""
    return escape(value if _is_html(value) else display.running(str(value)))


def _coded(text: str) -> Markup:
    """Return a description of the API for a page, with its ``code`` as code."""
    parts = [escape(part) for part in text.split("``")]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _lines(value: object) -> Markup:
    """Return a text for a page, with its line breaks."""
    return escape(value if _is_html(value) else display.in_lines(str(value)))


def back(
    endpoint: str,
    message: str = "",
    kind: Literal["good", "warn"] = "good",
    /,
    *,
    next_need: bool = False,
    **values: Any,
) -> Response:
    """Redirect the browser that submitted a form to a page, which shows ``message`` once.

    ``kind`` is ``warn`` if the message reports a problem.  With ``next_need``, the page links to the next thing that needs
    the user.  A conversation opens at its end, unless ``values`` have another ``_anchor``.  The message is sent in a cookie, so it must not contain secrets or values of the form.
    """
    if message:
        flash(message, kind)
    if next_need:
        flash("", "next")
    if endpoint == "conversation.chat":
        values.setdefault("_anchor", "end")
    return redirect(url_for(endpoint, **values), 303)


def tool_title(tool_id: str) -> str:
    """Return the title of a call: the name of its tool, as on the page of the tool.

    It is made from the id if the name has the same words, and for a tool that is not visible, such as a removed one.
    """
    titles = g.setdefault("tool_titles", {})
    if tool_id not in titles:
        titles[tool_id] = words = call_lines.action(tool_id)
        with suppress(CovaltError):
            name = request_context.context().catalog.title_of(tool_id)
            if name and name.lower() != words.lower():
                titles[tool_id] = display.shorten(name, _LONGEST_TITLE)
    title: str = titles[tool_id]
    return title


def may_restore() -> bool:
    """Return whether the role may undo and restore, so that pages have buttons for these."""
    return request_context.context().may_do("workspace:restore")


def ran(calls: Sequence[CallLine | CallAnswer]) -> str:
    """Return for how long calls ran, for display, without waits for approval; empty if none ran."""
    times = [
        datetime.fromisoformat(call.finished_at) - datetime.fromisoformat(call.run_started_at)
        for call in calls
        if call.run_started_at and call.finished_at
    ]
    if not times:
        return ""
    seconds = sum(times, timedelta()).total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _context() -> dict[str, Any]:
    area = (request.blueprint or "").partition(".")[0]
    return {
        "navigation": NAVIGATION,
        "here": _AREAS.get(area, area),
        "nonce": g.get("nonce", ""),
        **_facts(),
    }


def _facts() -> dict[str, Any]:
    """Return the project's values in the navigation bar; empty if they cannot be read, as on error pages."""
    try:
        project = request_context.project()
        waiting = request_context.decidable_approvals()
        follows = request_context.followed_source()
    except CovaltError:
        return {"project_name": "", "role": None, "count": 0, "follows": None}
    return {
        "project_name": folder_text(project.root),
        "role": project.principal.role,
        "count": waiting,
        "follows": follows,
    }
