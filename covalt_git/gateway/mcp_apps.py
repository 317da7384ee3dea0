"""Pages of toolsets as MCP Apps: ``ui://`` resources that a host shows beside a tool's result.

The MCP Apps extension, ``io.modelcontextprotocol/ui`` (SEP-1865, version 2026-01-26).  The page is the
file that our own pages show::

    ui://data-lab/artifacts/chart.html      what an ``artifact`` of a toolset's renderers names
    ui://data-lab                           a page whose text comes with each result, its ``content``

A host loads ``app_page.js`` with the page in it, which shows the page once its data is there.
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
from covalt_git.render.csp import PAGE_POLICY
from covalt_git.render.inject_data import escaped, split_page
from covalt_git.render.targets import RefusedError, check_file
from covalt_git.templating.expressions import Values, interpolate
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.models.tool import Tool
    from covalt_git.project import Project

EXTENSION = EXTENSION_ID
"""By which name the server declares that it has Apps."""

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
  #told {{ margin: 0; padding: 16px; font: 14px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<p id="told" role="status">Waiting for the result</p>
<script type="application/json" id="page">{page}</script>
<script>
{script}</script>
</body>
</html>
"""


class AppPages(NamedTuple):
    """The pages of the tools that a client may call; ``tools`` looks for them when it is asked."""

    project: Project
    tools: Callable[[], Mapping[str, Tool]]

    def listed(self) -> dict[str, Callable[[], types.Resource]]:
        """Return the pages by their addresses, each as what describes it."""
        return {uri: partial(_described, uri, tool) for uri, tool in self._tools_by_page().items()}

    def read(self, uri: str) -> types.TextResourceContents | None:
        """Return the page at an address; None where none of a tool of the client's is."""
        tool = self._tools_by_page().get(uri) if uri.startswith(_SCHEME) else None
        if tool is None:
            return None
        try:
            found = self.project.catalog.find_callable(tool.tool_id)
            artifact = _artifact(tool)
            page = None if artifact is None else ToolsetCopy.of(found.toolset).read(artifact)
        except (CovaltError, OSError):  # it went away just now
            return None
        return types.TextResourceContents(
            uri=uri,
            mime_type=APP_MIME_TYPE,
            text=app_page(page, title=tool.name),
            _meta=_meta(),
        )

    def _tools_by_page(self) -> dict[str, Tool]:
        """Return, by the pages' addresses, one of the tools that each shows."""
        shown: dict[str, Tool] = {}
        for tool in self.tools().values():
            uri = address(tool)
            if uri is not None:
                shown.setdefault(uri, tool)
        return dict(sorted(shown.items()))


def address(tool: Tool) -> str | None:
    """Return the address of the page that shows a tool's results, or None where no page does."""
    if tool.renderer is None or tool.renderer.type != "html":
        return None
    artifact = _artifact(tool)
    if artifact is not None:
        return f"{_SCHEME}{tool.toolset_id}/{quote(artifact)}"
    if "artifact" not in tool.renderer.config and "content" in tool.renderer.config:
        return f"{_SCHEME}{tool.toolset_id}"
    return None


def with_page(describe: Callable[[], types.Tool], tool: Tool | None = None) -> types.Tool:
    """Return a tool as hosts of Apps are told of it: with its page, and for the model alone.

    A page may ask its host to call tools.  On our own pages it cannot, and what an imported toolset's
    page asks for is no wish of a person; so every tool, with a page or without, is the model's only.
    """
    shown: dict[str, Any] = {"visibility": ["model"]}
    uri = None if tool is None else address(tool)
    if uri is not None:
        shown["resourceUri"] = uri
    described = describe()
    return described.model_copy(update={"meta": {**(described.meta or {}), "ui": shown}})


def without_page(describe: Callable[[], types.Tool], _: Tool | None = None) -> types.Tool:
    """Return a tool as other hosts are told of it."""
    return describe()


def app_page(page: bytes | None, *, title: str) -> str:
    """Return what a host loads to show a page, or the ``content`` of each result where there is none."""
    halves = None if page is None else [_text(half) for half in split_page(page)]
    return _PAGE.format(
        version=__version__,
        policy="; ".join(PAGE_POLICY),
        title=html.escape(title),
        page=escaped(halves),
        script=_script(),
    )


def _artifact(tool: Tool) -> str | None:
    """Return the file of the toolset that shows a tool's results, or None where none does."""
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
        description="Shows results, in hosts of MCP Apps.",
        mime_type=APP_MIME_TYPE,
        _meta=_meta(),
    )


def _meta() -> dict[str, Any]:
    # The border shows where the page of somebody else begins.
    return {"ui": {"csp": NOTHING_OUTSIDE, "prefersBorder": True}}


def _text(part: bytes) -> str:
    """Return a page's text: in UTF-8, or as browsers read what does not say."""
    try:
        return part.decode("utf-8-sig")
    except UnicodeDecodeError:
        return part.decode("cp1252", "replace")


@lru_cache(maxsize=1)
def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")
