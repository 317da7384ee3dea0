"""What surrounds every page: the bar on top, messages after a form, and addresses of assets."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from flask import flash, g, make_response, redirect, request, url_for
from markupsafe import Markup, escape

from covalt_git.errors import CovaltError
from covalt_git.text import display
from covalt_server import request_context
from covalt_server.render import code

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response

NAVIGATION = (
    ("Chats", "chats.chat_list", "chats"),
    ("Tools", "tools.tool_picker", "tools"),
    ("Toolsets", "toolsets.toolset_list", "toolsets"),
    ("Approvals", "approvals.approval_list", "approvals"),
)
_AREAS = {"calls": "chats", "workspace": "chats", "imports": "toolsets"}
_STATIC = Path(__file__).parents[1] / "static"

MOST_PATCHES = 50
"""How many files' patches a page shows; the others are named."""


_WORD = re.compile(r"[^\W_]+(?:[,;]? |: |$)")
"""A first word that can begin with a capital letter; ids such as app-builder:write_file cannot."""

UNCHANGED = "Nothing was different, so nothing was saved."


def install(app: Flask, port: int) -> None:
    """Let the templates of an app know what surrounds every page, and messages survive a redirect.

    The session cookie holds nothing but these messages, so its key need not outlive the process.
    """
    app.secret_key = secrets.token_bytes()
    app.config.update(
        SESSION_COOKIE_NAME=f"covalt_git_{port}_messages",  # cookies ignore ports
        SESSION_COOKIE_SAMESITE="Strict",
    )
    app.add_url_rule("/static/code.css", "code_css", _code_css)
    app.context_processor(_context)
    app.add_template_global(asset)
    app.jinja_env.globals["most_patches"] = MOST_PATCHES
    app.add_template_filter(took)
    escape_hidden(app)


def escape_hidden(app: Flask) -> None:
    """Have the templates of an app escape hidden characters in every text that they print."""
    app.add_template_filter(_prose, "prose")
    app.add_template_filter(_sentence, "sentence")
    app.add_template_filter(_lines, "lines")
    app.jinja_env.finalize = _displayed


def _displayed(value: object) -> object:
    """Return what a template prints of a value: a text with its hidden characters escaped.

    HTML is printed as it is, so values of attributes and text areas, which come back in forms, go
    through the filter ``e``.
    """
    return display.in_line(value) if isinstance(value, str) and not _is_html(value) else value


def _is_html(value: object) -> bool:
    return hasattr(value, "__html__")


def _sentence(text: str) -> str:
    """Return a text with a capital letter first, unless it begins with an id or a path."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def _prose(value: object) -> Markup:
    """Return a message, description or result for a page."""
    return escape(value if _is_html(value) else display.running(str(value)))


def _lines(value: object) -> Markup:
    """Return a text whose line breaks belong to it for a page."""
    return escape(value if _is_html(value) else display.in_lines(str(value)))


def back(endpoint: str, message: str = "", /, **values: Any) -> Response:
    """Redirect the browser that submitted a form to a page, which shows ``message`` once.

    The message travels in a cookie, so it holds no secret and no value of the form.
    """
    if message:
        flash(message, "good")
    return redirect(url_for(endpoint, **values), 303)


def asset(name: str) -> str:
    """Return the URL of a file in ``static/`` with a version, so that browsers cache it until it changes."""
    changed = (_STATIC / name).stat().st_mtime_ns
    return f"{url_for('static', filename=name)}?{urlencode({'v': _version(name, changed)})}"


def took(started: str, finished: str) -> str:
    """Return the duration between two RFC 3339 timestamps for display."""
    seconds = (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _code_css() -> Response:
    """Return the style sheet of highlighted code, which browsers cache until it changes."""
    answer = make_response(code.style_sheet())
    answer.mimetype = "text/css"
    answer.add_etag()
    return answer.make_conditional(request)


def _context() -> dict[str, Any]:
    area = (request.blueprint or "").partition(".")[0]
    return {
        "navigation": NAVIGATION,
        "here": _AREAS.get(area, area),
        "nonce": g.get("nonce", ""),
        **_facts(),
    }


def _facts() -> dict[str, Any]:
    """Return what the bar says of the project; an error page must not fail for want of it."""
    try:
        project = request_context.project()
        waiting = len(request_context.pending_approvals())
    except CovaltError:
        return {"project_name": "", "role": None, "count": 0}
    return {"project_name": project.root.name, "role": project.principal.role, "count": waiting}


@lru_cache(maxsize=128)
def _version(name: str, changed: int) -> str:  # noqa: ARG001 - part of the cache's key
    return hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]
