"""Page of the results of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, render_template, request, url_for

from covalt_git.operations import search
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from covalt_git.operations.search import SearchHit

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

_OF_KIND = 100
"""Results of a page of one kind."""


@pages.get("/search")
def results() -> str:
    """Show the results of a search by kind, or those of one kind."""
    query = request.args.get("q", "").strip()[:500]
    kind = request.args.get("kind") if request.args.get("kind") in KINDS else None
    chat_id = request.args.get("chat") or None
    limit = {} if kind is None else {"limit": _OF_KIND}
    found = ask(search.search, query=query, kind=kind, chat_id=chat_id, **limit)
    return render_template(
        "search.html", query=query, kind=kind, chat=chat_id, found=found, kinds=KINDS, link=_link
    )


def _link(hit: SearchHit) -> str:
    """Return the URL of the exact place of a result."""
    match hit.kind:
        case "chat":
            return url_for("conversation.chat", chat_id=hit.chat_id, _anchor="end")
        case "message":
            anchor = f"m-{hit.id}"
            return url_for(
                "conversation.message", chat_id=hit.chat_id, message_id=hit.id, _anchor=anchor
            )
        case "file":
            return url_for("workspace.file", chat_id=hit.chat_id, path=hit.id, at=hit.branch)
        case "call":
            return url_for("calls.call", chat_id=hit.chat_id, call_id=hit.id)
        case "tool":
            return url_for("tools.tool", tool_id=hit.id)
        case "toolset":
            return url_for("toolsets.toolset", toolset_id=hit.id)
