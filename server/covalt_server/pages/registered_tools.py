"""The page of the tool registry: registered tools, and forms to register, grant and remove them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flask import Blueprint, make_response, render_template, request

from covalt_git.access import may_register
from covalt_git.errors import CovaltError
from covalt_git.grants.plans import WantedGrant
from covalt_git.json_values import canonical_json
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.operations import grants, tool_registry, toolsets
from covalt_git.operations.registry import InvalidRequestError
from covalt_git.toolsets.state_store import find_toolset
from covalt_server.pages import layout
from covalt_server.request_context import ask, changes_files, context, followed_source, project

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

pages = Blueprint("registered_tools", __name__)

EXAMPLE = {
    "tool_id": "com.example/forecast",
    "name": "Forecast",
    "description": "Weather of a city.",
    "protocols": ["mcp", "http"],
    "protocol_meta": {"http": {"method": "GET", "url": "https://api.example.com/{city}"}},
}


@pages.get("/registry")
def registry() -> str:
    """List the registered tools."""
    return _page(text=json.dumps(EXAMPLE, indent=2))


@pages.post("/registry")
def register() -> Response:
    """Register the tool of the form's entry; an invalid entry is shown again with its errors."""
    text = request.form.get("entry", "")
    try:
        entry = canonical_json.loads(text)
        if not isinstance(entry, dict):
            raise InvalidRequestError("the entry must be a JSON object")
        registration = ask(tool_registry.register_tool, entry=entry)
    except CovaltError as error:
        return make_response(_page(text=text, error=error), error.http_status)
    return layout.back(
        "registered_tools.registry", f"Registered {registration.tool_id} as {registration.tool}."
    )


@pages.post("/registry/grant")
def grant() -> Response:
    """Grant a registered tool, if its entry, and what the grant permits, are what the page showed."""
    form = request.form
    name = form.get("name", "")
    ask(
        grants.add_grant,
        toolset_id=REGISTRY_NAMESPACE,
        kind="tool",
        name=name,
        digest=form.get("digest", ""),
        permissions=tuple(form.getlist("permission")),
    )
    return layout.back("registered_tools.registry", f"Granted {REGISTRY_NAMESPACE}:{name}.")


@pages.post("/registry/remove")
def remove() -> Response:
    removal = ask(tool_registry.remove_registered_tool, tool_id=request.form.get("tool_id", ""))
    return layout.back("registered_tools.registry", f"Removed {removal.tool_id}.")


def _page(*, text: str, error: CovaltError | None = None) -> str:
    listing = ask(tool_registry.list_registered_tools)
    config, principal = project().config, project().principal
    offers = {}
    if changes_files() and listing.tools:
        registered = find_toolset(project().root, REGISTRY_NAMESPACE)
        offers = {
            tool.tool: toolsets.offer(
                context(), registered, [WantedGrant("tool", tool.tool.partition(":")[2])]
            )
            for tool in listing.tools
            if not tool.granted and tool.calls
        }
    return render_template(
        "registered_tools.html",
        tools=listing.tools,
        digest=listing.digest,
        entries={tool.tool_id: json.dumps(tool.entry, indent=2) for tool in listing.tools},
        may_register=may_register(config, principal) and followed_source() is None,
        offers=offers,
        text=text,
        error=error,
    )
