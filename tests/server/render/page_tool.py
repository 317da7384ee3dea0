"""A tool that shows any page with any data, for tests of artifacts in a browser."""

from pathlib import Path

from tests.api_client import Api
from tests.mcp_client import add_toolset

MANIFEST = """\
id: probe
name: Probe
version: "1"
tools:
  - id: show
    entrypoint: tools.probe:show
    input_schema: {type: object, properties: {page: {type: string}, data: {}}, required: [page]}
tool_overrides:
  - {tool_id: show, renderer: html, renderer_config: {content: "$args.page", data: "$return"}}
"""
CODE = "def show(page: str, data: object = None) -> object:\n    return data\n"


def add_page_tool(root: Path) -> None:
    """Give a project the tool."""
    add_toolset(root, "probe", MANIFEST, CODE)


def show(api: Api, page: str, data: object = None) -> str:
    """Return the id of a call that shows a page with its data."""
    call = api.call("probe:show", page=page, data=data)
    assert call["status"] == "success", call["error"]
    return str(call["id"])
