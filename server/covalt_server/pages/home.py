"""The start page: the chats, what waits for a person, and what is wrong with a toolset."""

from __future__ import annotations

from flask import Blueprint, render_template

from covalt_server import request_context
from covalt_server.api import chats as api_chats
from covalt_server.api import toolsets as api_toolsets
from covalt_server.api.http import Nothing

pages = Blueprint("home", __name__)

MOST_CHATS = 8


@pages.get("/")
def home() -> str:
    """Show where to go on, and where to begin when there is nothing yet."""
    toolsets = api_toolsets.list_toolsets(Nothing()).toolsets
    chats = api_chats.list_chats(Nothing()).chats
    return render_template(
        "home.html",
        chats=chats[:MOST_CHATS],
        more_chats=len(chats) > MOST_CHATS,
        waiting=request_context.waiting_approvals(),
        toolsets=toolsets,
        broken=[one for one in toolsets if not one.sound],
    )
