"""Start page: what needs the user, the chats that were active last, and the toolsets with their states."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from flask import Blueprint, render_template, request, url_for

from covalt_git.operations import needs, toolsets
from covalt_git.operations.chats import manifests
from covalt_server import request_context
from covalt_server.pages.approvals import stale_approvals
from covalt_server.pages.toolset_page import failures_by_toolset, secret_address, unset_by_toolset
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.operations.chats.chats import ChatRow
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.needs import NeedKind, UserNeed

pages = Blueprint("home", __name__)

MOST_NEEDS = 12
"""Number of rows that are not folded."""

_BUTTONS: dict[NeedKind, str] = {
    "approval": "Decide",
    "conflict": "Resolve",
    "broken_toolset": "Show the line",
    "grant": "Grant",
    "trust": "Review",
    "secret": "Show",
    "sign_in": "Sign in",
    "source": "Review",
    "edits": "Show changes",
    "failed_call": "Show the error",
    "project": "Show the toolsets",
}


_OF_FILES: frozenset[NeedKind] = frozenset({"broken_toolset", "grant", "source"})
"""What is repaired by a change of the project's files, which a node gets from its repository."""


class RecentChat(NamedTuple):
    """A chat with the last commit of its active branch, if it has one."""

    chat: ChatRow
    last: ManifestRow | None


class NeedButton(NamedTuple):
    """What needs the user, with the page of its button."""

    need: UserNeed
    page: str
    button: str
    note: str = ""


@pages.get("/")
def home() -> str:
    """Show what needs the user, the last active chats and the toolsets; in an empty project, the first steps."""
    listing = ask(needs.list_needs)
    rows = sorted(
        ask(toolsets.list_toolsets).toolsets, key=lambda toolset: (toolset.sound, toolset.id)
    )
    return render_template(
        "home.html",
        needs=_with_buttons(listing.needs),
        most_needs=MOST_NEEDS,
        damaged=listing.damaged,
        chats=[_with_last(chat) for chat in listing.chats],
        more_chats=len(listing.chats) == needs.MOST_CHATS,
        toolsets=rows,
        # Imported toolsets of MCP servers often have the same name.
        twice={name for name, count in Counter(row.name for row in rows).items() if count > 1},
        unset=unset_by_toolset(rows),
        failed=failures_by_toolset(rows),
        admin=request_context.changes_files(),
    )


@pages.app_context_processor
def _next() -> dict[str, Any]:
    return {"next_need": next_need}


def next_need() -> NeedButton | None:
    """Return the first thing that needs the user, except what the current page shows; None if nothing else does."""
    for need in ask(needs.list_needs).needs:
        page = _page(need)
        if page != request.path:
            return NeedButton(need, page, _button(need))
    return None


def _button(need: UserNeed) -> str:
    # The page cannot store other secrets: a secret_command prints them, for example.
    may_store = need.kind == "secret" and need.command.startswith("covalt-git secret set")
    if may_store:
        return "Give the value"
    if need.kind in _OF_FILES and request_context.followed_source() is not None:
        return "Show what to do"
    return _BUTTONS[need.kind]


def _with_last(chat: ChatRow) -> RecentChat:
    if chat.active_manifest_id is None:
        return RecentChat(chat, None)
    page = ask(manifests.list_manifests, chat_id=chat.id, manifest=chat.active_manifest_id, limit=1)
    return RecentChat(chat, page.manifests[0])


def _with_buttons(listed: Sequence[UserNeed]) -> list[NeedButton]:
    stale = stale_approvals(need.execution_id for need in listed if need.execution_id)
    buttons = [NeedButton(need, _page(need), _button(need)) for need in listed]
    return [
        button._replace(button="Request again or deny", note=stale[button.need.execution_id])
        if button.need.execution_id in stale
        else button
        for button in buttons
    ]


def _page(need: UserNeed) -> str:
    """Return the URL of the page on which the user can act."""
    chat_id, toolset_id = need.chat_id, need.toolset_id
    match need.kind:
        case "approval":
            return url_for("approvals.approval", execution_id=need.execution_id)
        case "conflict" if need.branch is not None:
            return url_for("branches.merge_preview", chat_id=chat_id, branch=need.branch)
        case "conflict":
            return url_for("branches.conflicts", chat_id=chat_id)
        case "edits":
            return url_for("chats.difference", chat_id=chat_id)
        case "failed_call":
            return url_for("calls.call", chat_id=chat_id, call_id=need.call_id)
        case "source":
            anchor = f"source-{quote(need.namespace or '')}"
            return url_for("toolsets.toolset", toolset_id=toolset_id, _anchor=anchor)
        case "project":
            return url_for("toolsets.toolset_list")
        case "broken_toolset":
            return _place(need)
        case "sign_in":
            return url_for("toolsets.toolset", toolset_id=toolset_id, _anchor="sign-ins")
        case "secret":
            return secret_address(need.toolset_id or "", need.secret or "")
        case "grant":
            return url_for("toolsets.toolset", toolset_id=toolset_id, _anchor="grants")
        case _:
            return url_for("toolsets.toolset", toolset_id=toolset_id)


def _place(need: UserNeed) -> str:
    """Return the URL of the line of a problem; of the toolset if the problem is in no file of its folder."""
    folder = f"toolsets/{need.toolset_id}/"
    if need.line is None or not (need.path or "").startswith(folder):
        return url_for("toolsets.toolset", toolset_id=need.toolset_id, _anchor="problems")
    return url_for(
        "toolsets.source",
        toolset_id=need.toolset_id,
        path=(need.path or "").removeprefix(folder),
        _anchor=f"L{need.line}",
    )
