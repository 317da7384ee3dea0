"""Forms of the sources of a toolset's tools: listing, observation and acceptance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flask import Blueprint, make_response, request

from covalt_git.errors import CovaltError
from covalt_git.operations import left_over_locks, observations, sources
from covalt_git.text import display
from covalt_server.pages.toolset_page import MOST_RENAMED, back, toolset_page
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.wrappers import Response

pages = Blueprint("toolset_sources", __name__)


@pages.post("/toolsets/<toolset_id>/refresh")
def refresh(toolset_id: str) -> Response:
    """List the tools of an MCP server; an error is shown next to it."""
    namespace = request.form.get("namespace", "")
    try:
        outcome = ask(sources.refresh_source, toolset_id=toolset_id, namespace=namespace)
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    message = "Listed. New and changed tools cannot be called until you accept them."
    return back(toolset_id, f"source-{namespace}", message + _renamed(outcome.renamed))


@pages.post("/toolsets/<toolset_id>/observe")
def observe(toolset_id: str) -> Response:
    """Run an MCP server with nothing granted, and show what it did not get; an error is shown next to it."""
    form = request.form
    tool, text = form.get("tool", "").strip(), form.get("args", "").strip()
    try:
        calls = [{"tool": tool, "args": _arguments(text)}] if tool else []
        observed = ask(
            observations.observe_source,
            toolset_id=toolset_id,
            namespace=form.get("namespace", ""),
            calls=calls,
        )
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    return make_response(toolset_page(toolset_id, observed=observed))


def _arguments(text: str) -> object:
    try:
        return json.loads(text or "{}")
    except ValueError as error:
        raise CovaltError(f"the arguments are not JSON: {error}", http_status=400) from None


@pages.post("/toolsets/<toolset_id>/accept")
def accept(toolset_id: str) -> Response:
    """Accept the reviewed definitions; if one has changed since, show the page again."""
    namespace = request.form.get("namespace", "")
    # Each box has the digest of the definition that the page showed: a refresh may have changed it since.
    boxes = [text.partition(" ") for text in request.form.getlist("tool")]
    texts = [text.partition(" ") for text in request.form.getlist("skill_text")]
    try:
        outcome = ask(
            sources.accept_tools,
            toolset_id=toolset_id,
            namespace=namespace,
            tools={name: digest or None for name, _, digest in boxes},
            skill_texts={name: digest for name, _, digest in texts},
        )
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    return back(toolset_id, f"source-{namespace}", "Accepted." + _renamed(outcome.renamed))


@pages.post("/toolsets/<toolset_id>/locks/remove")
def remove_lock(toolset_id: str) -> Response:
    """Remove a lock that no toolset declares; an error is shown above the problems."""
    namespace = request.form.get("lock", "")
    try:
        removed = ask(left_over_locks.remove_left_over_lock, namespace=namespace)
    except CovaltError as error:
        return make_response(toolset_page(toolset_id, error), error.http_status)
    message = f"Removed the lock of {display.shorten(namespace)}."
    if removed.accepted:
        count = len(removed.accepted)
        message += (
            f" {count} {'definition is' if count == 1 else 'definitions are'} no longer accepted."
        )
    return back(toolset_id, "", message)


def _renamed(tools: Sequence[sources.RenamedTool]) -> str:
    """Return what the user of an MCP host has to know after tools got other names."""
    if not tools:
        return ""
    names = ", ".join(f"{tool.old_name} is now {tool.new_name}" for tool in tools[:MOST_RENAMED])
    names += f" and {len(tools) - MOST_RENAMED} more" if len(tools) > MOST_RENAMED else ""
    return f" For MCP hosts that reject dots, {names}: change their allow lists."
