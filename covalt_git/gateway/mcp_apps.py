"""Pages of toolsets as MCP Apps: ``ui://`` resources in which a host shows a tool's result.

The MCP Apps extension is ``io.modelcontextprotocol/ui`` (SEP-1865, version 2026-01-26).  The web interface
shows the same pages::

    ui://data-lab/artifacts/chart.html      the file in ``artifact`` of a renderer of the toolset
    ui://data-lab                           a page whose text is in each result, in ``content``

A host loads ``app_page.js`` with the page, which shows the page when its data arrives.

A page can call the tools in ``calls`` of its renderer.  The host sends such a call as an ordinary call of its client,
so the server checks it as one, and cannot know that a page made it.
"""

from __future__ import annotations

import html
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import mcp_types as types
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from covalt_git import __version__
from covalt_git.errors import CovaltError
from covalt_git.gateway.tool_listing import CHAT_ARGUMENT, can_name_chat
from covalt_git.manifests.page_calls import tools_of_page
from covalt_git.render.csp import PAGE_POLICY
from covalt_git.render.inject_data import escaped, split_page
from covalt_git.render.targets import RefusedError, check_file
from covalt_git.templating.expressions import Values, interpolate
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.project import Project

EXTENSION = EXTENSION_ID
"""Name of the extension in the server's capabilities."""

NOTHING_OUTSIDE: dict[str, list[str]] = {
    "connectDomains": [],
    "resourceDomains": [],
    "frameDomains": [],
    "baseUriDomains": [],
}
_SCHEME = "ui://"
_SCRIPT = Path(__file__).with_name("app_page.js")
_PAGE = """\
<!doctype html>
<html lang="en" data-version="{version}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta http-equiv="x-dns-prefetch-control" content="off">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; }}
  body {{ margin: 0; }}
  iframe {{ display: block; width: 100%; height: 100vh; border: 0; }}
  #status {{ margin: 0; padding: 16px; font: 14px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<p id="status" role="status">Waiting for the result</p>
<script type="application/json" id="page">{page}</script>
<script>
{script}</script>
</body>
</html>
"""


class AppPages(NamedTuple):
    """Pages of the tools that a client may call, which ``tools`` returns."""

    project: Project
    tools: Callable[[], Mapping[str, Tool]]

    def listed(self) -> dict[str, Callable[[], types.Resource]]:
        """Return a function that describes each page, by the URIs of the pages."""
        return {uri: partial(_described, uri, tool) for uri, tool in self._tools_by_page().items()}

    def read(self, uri: str) -> types.TextResourceContents | None:
        """Return the page with a URI; None if no tool that the client may call has it."""
        tool = self._tools_by_page().get(uri) if uri.startswith(_SCHEME) else None
        if tool is None:
            return None
        try:
            # The tools of the list may be seconds old; a page is shown for what may be called at present.
            callable_tool = self.project.catalog.find_callable(tool.tool_id)
            artifact = _artifact(tool)
            page = (
                None if artifact is None else ToolsetCopy.of(callable_tool.toolset).read(artifact)
            )
        except (CovaltError, OSError):  # deleted or disabled meanwhile
            return None
        return types.TextResourceContents(
            uri=uri,
            mime_type=APP_MIME_TYPE,
            text=app_page(page, title=tool.name),
            _meta=_meta(),
        )

    def _tools_by_page(self) -> dict[str, Tool]:
        """Return one tool of each page, by the URIs of the pages."""
        by_page: dict[str, Tool] = {}
        for tool in self.tools().values():
            uri = page_uri(tool)
            if uri is not None:
                by_page.setdefault(uri, tool)
        return dict(sorted(by_page.items()))


def page_uri(tool: Tool) -> str | None:
    """Return the URI of the page that shows a tool's results; None if it has none."""
    if tool.renderer is None or tool.renderer.type != "html":
        return None
    artifact = _artifact(tool)
    if artifact is not None:
        return f"{_SCHEME}{tool.toolset_id}/{quote(artifact)}"
    if "artifact" not in tool.renderer.config and "content" in tool.renderer.config:
        return f"{_SCHEME}{tool.toolset_id}"
    return None


def with_page(
    describe: Callable[[], types.Tool], tool: Tool | None = None, *, for_pages: bool = False
) -> types.Tool:
    """Return a tool as listed for hosts of Apps: with its page, and with who may call it.

    MCP Apps lets a page ask its host to call tools.  The requests of a page are not the user's, so a tool is for the
    model only, unless ``for_pages``: the renderer of a page names it.
    """
    # See test_a_page_cannot_call_tools_through_the_host.
    ui: dict[str, Any] = {"visibility": ["model", "app"] if for_pages else ["model"]}
    uri = None if tool is None else page_uri(tool)
    if uri is not None:
        ui["resourceUri"] = uri
    described = describe()
    return described.model_copy(update={"meta": {**(described.meta or {}), "ui": ui}})


def tools_of_pages(tools: Collection[Tool]) -> frozenset[str]:
    """Return the ids of those of ``tools`` that the page of one of them may call."""
    return frozenset(
        other.tool_id
        for tool in tools
        if page_uri(tool) is not None
        for other in tools_of_page(tool, tools)
    )


def page_calls(tool: Tool, tools: Mapping[str, Tool], chat_id: str | None) -> JsonObject:
    """Return the tools that the page of a result may call: by their names in the toolset, how the client calls each.

    ``tools`` are those that the client may call, by their names.  ``chat_id`` is the chat of the result, if the client
    names its chat in an argument.
    """
    names = {other.tool_id: name for name, other in tools.items()}
    calls: JsonObject = {}
    for other in tools_of_page(tool, tools.values()):
        call: JsonObject = {"name": names[other.tool_id]}
        if chat_id is not None and can_name_chat(other.input_schema):
            call["arguments"] = {CHAT_ARGUMENT: chat_id}
        calls[other.name_in_state] = call
    return calls


def app_page(page: bytes | None, *, title: str) -> str:
    """Return the document that a host loads to show a page; None: the page is in each result's ``content``."""
    halves = None if page is None else [_text(half) for half in split_page(page)]
    # A host may ignore the policy of the resource, so the page has one itself
    # (test_a_page_reaches_no_server_and_leaves_no_frame_even_in_a_careless_host).
    return _PAGE.format(
        version=__version__,
        policy="; ".join(PAGE_POLICY),
        title=html.escape(title),
        page=escaped(halves),
        script=_script(),
    )


def _artifact(tool: Tool) -> str | None:
    """Return the path in the toolset of the page that shows a tool's results; None if it has none."""
    template = None if tool.renderer is None else tool.renderer.config.get("artifact")
    value, unresolved = interpolate(template, Values({}, None, ""))
    try:
        name = check_file(value, template, place="toolset")
    except RefusedError:
        return None
    place, _, path = name.partition(":")
    return path if place == "toolset" and not unresolved else None


def _described(uri: str, tool: Tool) -> types.Resource:
    return types.Resource(
        uri=uri,
        name=uri.removeprefix(_SCHEME),
        title=tool.name,
        description="Shows results in hosts of MCP Apps.",
        mime_type=APP_MIME_TYPE,
        _meta=_meta(),
    )


def _meta() -> dict[str, Any]:
    # The border separates the page of the toolset from the host.
    return {"ui": {"csp": NOTHING_OUTSIDE, "prefersBorder": True}}


def _text(part: bytes) -> str:
    """Return a page's text: in UTF-8, else in the encoding that browsers assume."""
    try:
        return part.decode("utf-8-sig")
    except UnicodeDecodeError:
        return part.decode("cp1252", "replace")


@lru_cache(maxsize=1)
def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")
