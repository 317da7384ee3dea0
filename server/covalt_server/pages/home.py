"""Start page: latest chats, pending approvals and toolsets with errors."""

from __future__ import annotations

from flask import Blueprint, render_template

from covalt_git.operations import toolsets
from covalt_git.operations.chats import chats
from covalt_server import request_context
from covalt_server.request_context import ask

pages = Blueprint("home", __name__)

MOST_CHATS = 8


@pages.get("/")
def home() -> str:
    """Show the latest chats and the toolsets, or the first steps in an empty project."""
    every = ask(toolsets.list_toolsets).toolsets
    recent = ask(chats.list_chats).chats
    return render_template(
        "home.html",
        chats=recent[:MOST_CHATS],
        more_chats=len(recent) > MOST_CHATS,
        waiting=request_context.pending_approvals(),
        toolsets=every,
        broken=[toolset for toolset in every if not toolset.sound],
    )
