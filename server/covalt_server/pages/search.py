"""Page of the results of a search."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from flask import Blueprint, current_app, render_template, request, url_for

from covalt_git.errors import CovaltError
from covalt_git.operations import search
from covalt_git.operations.chats.chats import indexed_chats
from covalt_server import request_context
from covalt_server.pages import layout
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from covalt_git.operations.search import SearchHit
    from covalt_git.project import Project

pages = Blueprint("search", __name__)

KINDS = {
    "chat": "Chats",
    "message": "Messages",
    "file": "Files",
    "call": "Calls",
    "tool": "Tools",
    "toolset": "Toolsets",
}
"""Headings of the kinds of results."""

_RUN = re.compile(r"(?:(\w+) )?(\0[^\0]+\0(?:[^\0\w]{1,3}\0[^\0]+\0)*)(?: (\w+))?")
"""Matches of an excerpt that are beside each other, and the words before and after them; each match is between NULs."""

_IN_BAR = {label.lower() for label, _, _ in layout.NAVIGATION}

_OF_KIND = 100
"""Results of a page of one kind."""


class PendingFiles:
    """Thread that reads the files which a search has left pending, so that the next one finds them; one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def read(self, project: Project) -> None:
        """Begin to read the pending files of a project, unless they are being read."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=_read_files, args=(project,), name="files", daemon=True
                )
                self._thread.start()


def _read_files(project: Project) -> None:
    # The next search reports an error.
    with suppress(CovaltError, OSError), project.chat_index() as index:
        index.sync_files(limit=None)


@pages.get("/search")
def results() -> str:
    """Show the results of a search by kind, or those of one kind."""
    query = request.args.get("q", "").strip()[:500]
    kind = request.args.get("kind") if request.args.get("kind") in KINDS else None
    chat_id = request.args.get("chat") or None
    limit = {} if kind is None else {"limit": _OF_KIND}
    answer = ask(search.search, query=query, kind=kind, chat_id=chat_id, **limit)
    if any(files.reason == "pending" for files in answer.unsearched):
        reader = current_app.extensions.setdefault("pending_files", PendingFiles())
        reader.read(request_context.project())
    hits = [hit for group in answer.groups for hit in group.hits]
    return render_template(
        "search.html",
        query=query,
        kind=kind,
        chat=chat_id,
        answer=answer,
        kinds=KINDS,
        link=_link,
        chat_titles=_chat_titles() if chat_id or any(hit.chat_id for hit in hits) else {},
    )


def _chat_titles() -> dict[str, str]:
    """Return the titles of the chats that the role sees, by id."""
    context = request_context.context()
    return {chat.id: chat.title for chat in indexed_chats(context) if chat.title}


def _link(hit: SearchHit) -> str:
    """Return the URL of the exact place of a result: of a line, or with the words to which the browser scrolls."""
    match hit.kind:
        case "chat":
            return url_for("conversation.chat", chat_id=hit.chat_id, _anchor="end")
        case "message":
            page = url_for("conversation.message", chat_id=hit.chat_id, message_id=hit.id)
            return f"{page}#m-{hit.id}{_directive(hit)}"
        case "file":
            # Lines have anchors in the source of a table or a document only.
            return url_for(
                "workspace.file",
                chat_id=hit.chat_id,
                path=hit.id,
                at=hit.branch,
                view="source" if hit.line else None,
                _anchor=f"L{hit.line}" if hit.line else None,
            )
        case "call":
            # The page shows the beginning of long arguments only, unless it is asked for all.
            is_cut = any(part.text.startswith("…") for part in hit.excerpt[:1])
            page = url_for(
                "calls.call", chat_id=hit.chat_id, call_id=hit.id, all=1 if is_cut else None
            )
            return f"{page}#arguments{_directive(hit)}"
        case "tool":
            return url_for("tools.tool", tool_id=hit.id)
        case "toolset":
            return url_for("toolsets.toolset", toolset_id=hit.id)


def _directive(hit: SearchHit) -> str:
    """Return the text directives of a result, with which a browser scrolls to its words, marks and unfolds them.

    They are a part of a fragment, see https://wicg.github.io/scroll-to-text-fragment/.  The first one has a word beside them, because other parts of the page can have the same words.  The second one is for
    words that the page shows otherwise, such as those of two arguments.
    """
    marked = "".join(f"\0{part.text}\0" if part.match else part.text for part in hit.excerpt)
    runs = list(_RUN.finditer(marked))
    if not runs:
        return ""
    # The words of a phrase can be alone before it too.
    run = max(runs, key=lambda run: run[2].count("\0"))
    words = _quoted(run[2])
    directives = [words]
    if run[3]:
        directives = [f"{words},-{_quoted(run[3])}"]
    elif run[1]:
        directives = [f"{_quoted(run[1])}-,{words}"]
    if directives[0] != words and words.lower() not in _IN_BAR:
        directives.append(words)
    return ":~:" + "&".join(f"text={directive}" for directive in directives)


def _quoted(text: str) -> str:
    """Return a text for a directive, in which a hyphen has a meaning."""
    return quote(text.replace("\0", ""), safe="").replace("-", "%2D")
