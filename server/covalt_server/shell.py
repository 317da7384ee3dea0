"""What surrounds every page: the bar on top, what was said after a form, and addresses of assets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from flask import g, redirect, request, url_for
from markupsafe import Markup, escape

from covalt_git.errors import CovaltError
from covalt_git.text import display
from covalt_server import current

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
_STATIC = Path(__file__).with_name("static")

MOST_PATCHES = 50
"""How many files' patches a page shows; the others are named."""

Kind = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Said:
    """One line that a page says on top, after a form was sent."""

    text: str
    kind: Kind = "good"


SAYINGS = {
    "saved": Said("Saved."),
    "unchanged": Said("Nothing was different, so nothing was saved."),
    "switched": Said("The folder is on that branch now."),
    "branched": Said("The branch is there."),
    "branched_off": Said("The branch is there, and the folder is on it."),
    "uploaded": Said("Uploaded."),
    "enabled": Said("Enabled."),
    "disabled": Said("Disabled: none of its tools can be called."),
    "taken_in": Said("It is here, switched off, with nothing granted to it."),
    "updated": Said("Updated, with what was changed here."),
    "to_be_decided": Said(
        "Updated. What both sides changed is in the files twice; decide it, and its tools can be called again."
    ),
    "not_taken_in": Said("Nothing was taken in."),
    "granted": Said("Granted, until a file of it changes."),
    "revoked": Said("Taken back."),
    "asked": Said("It was asked; what is new or changed is off until it is accepted."),
    "accepted": Said("Accepted, as it was shown."),
    "uninstalled": Said("Removed. Chats keep what it did."),
    "denied": Said("Denied: it did not run."),
    "asked_again": Said(
        "Nothing ran: what was asked about has changed. This is the new question.", "warn"
    ),
    "made": Said("Made."),
    "restored": Said("Restored, as a state of its own."),
    "as_it_was": Said("All of it was so already."),
    "merged": Said("Merged."),
    "fast_forward": Said("Moved on: the branch had nothing of its own."),
    "already_merged": Said("There was nothing to merge."),
    "resolved": Said("Decided."),
    "renamed": Said("Renamed."),
    "branch_deleted": Said("The branch is gone; its states stay for 30 days."),
    "forked": Said("This is the new chat; it goes its own way."),
    "chat_deleted": Said("Deleted, with its history and its folder."),
    "not_confirmed": Said("Nothing was deleted: the chat's id was not typed.", "warn"),
    "deleted": Said("Deleted; the history still has it."),
}
"""What a page may be asked to say by its address, ``?said=saved``: never a text of the address."""


def install(app: Flask) -> None:
    """Let the templates of an app know what surrounds every page."""
    app.context_processor(_context)
    app.add_template_global(asset)
    app.jinja_env.globals["most_patches"] = MOST_PATCHES
    app.add_template_filter(took)
    escape_hidden(app)


def escape_hidden(app: Flask) -> None:
    """Have the templates of an app escape hidden characters in every text that they print."""
    app.add_template_filter(_prose, "prose")
    app.add_template_filter(_lines, "lines")
    app.jinja_env.finalize = _shown


def _shown(value: object) -> object:
    """Return what a template prints of a value: a text with its hidden characters escaped.

    HTML is printed as it is, so values of attributes and text areas, which come back in forms, go
    through the filter ``e``.
    """
    return display.in_line(value) if isinstance(value, str) and not _is_html(value) else value


def _is_html(value: object) -> bool:
    return hasattr(value, "__html__")


def _prose(value: object) -> Markup:
    """Return a message, description or result for a page."""
    return escape(value if _is_html(value) else display.running(str(value)))


def _lines(value: object) -> Markup:
    """Return a text whose line breaks belong to it for a page."""
    return escape(value if _is_html(value) else display.in_lines(str(value)))


def back(endpoint: str, *, said: str | None = None, **values: Any) -> Response:
    """Send whoever submitted a form on to a page, which then says what was done."""
    return redirect(url_for(endpoint, said=said, **values), 303)


def asset(name: str) -> str:
    """Return the address of a file of ``static/``, with its content in it: kept until it changes."""
    changed = (_STATIC / name).stat().st_mtime_ns
    return f"{url_for('static', filename=name)}?{urlencode({'v': _version(name, changed)})}"


def took(started: str, finished: str) -> str:
    """Return in words how long something took between two moments of RFC 3339."""
    seconds = (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _context() -> dict[str, Any]:
    said = SAYINGS.get(request.args.get("said", ""))
    area = (request.blueprint or "").partition(".")[0]
    return {
        "navigation": NAVIGATION,
        "here": _AREAS.get(area, area),
        "told": [said] if said else [],
        "nonce": g.get("nonce", ""),
        **_facts(),
    }


def _facts() -> dict[str, Any]:
    """Return what the bar says of the project; an error page must not fail for want of it."""
    try:
        project = current.project()
        waiting = len(current.waiting_approvals())
    except CovaltError:
        return {"project_name": "", "role": None, "count": 0}
    return {"project_name": project.root.name, "role": project.principal.role, "count": waiting}


@lru_cache(maxsize=128)
def _version(name: str, changed: int) -> str:  # noqa: ARG001 - part of the cache's key
    return hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]
