"""Form that creates a toolset, also an empty one for an API document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, make_response, render_template, request

from covalt_git.errors import CovaltError
from covalt_git.operations import toolsets
from covalt_server.pages import layout
from covalt_server.request_context import as_admin, ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

pages = Blueprint("new_toolset", __name__)

_WHAT = "create toolsets"
TEMPLATES = {
    "empty": "Empty",
    "python": "A Python tool",
    "http": "A tool that sends HTTP requests",
    "mcp": "An MCP server",
    "html": "A tool whose results have a page",
    "plugin": "A plugin",
}


@pages.get("/new-toolset")
def form() -> str:
    """Show the form; with ``?then=document``, an API document is added next, also to an existing toolset."""
    as_admin(_WHAT)
    return _form()


@pages.post("/new-toolset")
def create() -> Response:
    """Create a toolset from a template, and go to its page, or to the form that adds a document to it."""
    as_admin(_WHAT)
    fields = request.form
    try:
        created = ask(
            toolsets.create_toolset,
            toolset_id=fields.get("id", "").strip(),
            template=fields.get("template", "empty"),
            name=fields.get("name", "").strip(),
        )
    except CovaltError as error:
        return make_response(_form(error), error.http_status)
    page = "sources.new" if fields.get("then") == "document" else "toolsets.toolset"
    return layout.back(
        page, f"Created toolsets/{created.toolset_id}.", toolset_id=created.toolset_id
    )


def _form(error: CovaltError | None = None) -> str:
    rows = ask(toolsets.list_toolsets).toolsets
    return render_template(
        "toolset_new.html",
        error=error,
        given=request.form,
        for_document=request.values.get("then") == "document",
        toolsets=[row for row in rows if row.sound and row.id != "registered"],
        templates=TEMPLATES,
    )
