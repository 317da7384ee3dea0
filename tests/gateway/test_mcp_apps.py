"""Pages of toolsets as MCP Apps: what hosts are told of them, and who has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.mcp_client import add_toolset, eras, make_project, talk

MANIFEST = """\
id: pages
name: Pages
version: "1"
tools:
  - {id: chart, name: Draw <it>, entrypoint: tools.pages:shown}
  - {id: other, entrypoint: tools.pages:shown}
  - {id: text, entrypoint: tools.pages:shown}
  - {id: local, entrypoint: tools.pages:shown}
  - {id: code, entrypoint: tools.pages:shown}
tool_overrides:
  - {tool_id: chart, renderer: html, renderer_config: {artifact: "$toolset/artifacts/a chart.html"}}
  - {tool_id: other, renderer: html, renderer_config: {artifact: artifacts/a chart.html, data: "$args"}}
  - {tool_id: text, renderer: html, renderer_config: {content: "$return"}}
  - {tool_id: local, renderer: html, renderer_config: {artifact: "$workspace/page.html"}}
  - {tool_id: code, renderer: code, renderer_config: {content: "$return"}}
"""
TOOLS = '''\
def shown(name: str = "") -> str:
    """Show something."""
    return "<p>something"
'''
PAGE = "<!doctype html><title>\u00e9</title></script><script>window.x = '</script>'"
CHART = "ui://pages/artifacts/a%20chart.html"
TEXT = "ui://pages"
ROLE = """\
  writer: {allow: ["pages.text", "demo.**"]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make_project(tmp_path / "project", roles=ROLE)
    add_toolset(made, "pages", MANIFEST, TOOLS, {"artifacts/a chart.html": PAGE.encode()})
    return made


async def shown_by(client: Client) -> dict[str, Any]:
    """Return what ``_meta.ui`` of each tool is."""
    return {tool.name: (tool.meta or {}).get("ui") for tool in (await client.list_tools()).tools}


@eras
def test_a_host_of_apps_is_told_the_page_of_each_tool_that_has_one(root: Path, era: str) -> None:
    found = talk(root, shown_by, era=era, apps=True)

    pages = {name: ui["resourceUri"] for name, ui in found.items() if "resourceUri" in ui}
    assert pages == {"pages.chart": CHART, "pages.other": CHART, "pages.text": TEXT}


@eras
def test_no_page_may_call_a_tool(root: Path, era: str) -> None:
    found = talk(root, shown_by, era=era, apps=True)

    assert {"resume", "workspace.write_file", "demo.write", "pages.chart"} <= found.keys()
    assert {tuple(ui["visibility"]) for ui in found.values()} == {("model",)}


@eras
def test_other_hosts_are_told_nothing_of_pages(root: Path, era: str) -> None:
    async def said(client: Client) -> tuple[dict[str, Any], list[str]]:
        listed = (await client.list_resources()).resources
        return await shown_by(client), [one.uri for one in listed]

    found, listed = talk(root, said, era=era)

    assert set(found.values()) == {None}
    assert listed == []


def test_the_server_declares_that_it_has_apps(root: Path) -> None:
    """To whom asks for it: before 2026-07-28 nothing that the SDK sends could say so."""

    async def said(client: Client) -> Any:
        return client.server_capabilities

    assert talk(root, said, era="auto").extensions == {"io.modelcontextprotocol/ui": {}}


@eras
def test_a_page_is_a_resource_that_may_reach_nothing(root: Path, era: str) -> None:
    nothing = {
        "ui": {
            "csp": {
                "connectDomains": [],
                "resourceDomains": [],
                "frameDomains": [],
                "baseUriDomains": [],
            },
            "prefersBorder": True,
        }
    }

    async def said(client: Client) -> None:
        listed = {one.uri: one for one in (await client.list_resources()).resources}
        assert [*listed] == [TEXT, CHART]
        for uri, resource in listed.items():
            content: Any = (await client.read_resource(uri)).contents[0]
            for one in (resource, content):
                assert one.mime_type == "text/html;profile=mcp-app"
                assert one.meta == nothing
            assert content.text.startswith("<!doctype html>")
            assert "connect-src" not in content.text
            assert "content=\"default-src 'none'; script-src 'unsafe-inline'; " in content.text

    talk(root, said, era=era, apps=True)


def test_a_page_holds_the_file_as_it_is_now_and_no_markup_of_it(root: Path) -> None:
    async def said(client: Client) -> str:
        content: Any = (await client.read_resource(CHART)).contents[0]
        text: str = content.text
        return text

    before = talk(root, said, apps=True)
    (root / "toolsets/pages/artifacts/a chart.html").write_text("<p>another")

    assert before.count("</script>") == 2
    assert "window.x" in before
    assert "<title>Draw &lt;it&gt;</title>" in before
    assert "another" in talk(root, said, apps=True)


def test_a_page_without_its_file_or_its_tool_is_not_there(root: Path) -> None:
    async def said(client: Client) -> list[str]:
        told = []
        for uri in (CHART, TEXT, "ui://pages/toolset.yaml", "ui://demo", "ui://pages/../demo"):
            try:
                await client.read_resource(uri)
            except MCPError as refused:
                told.append(refused.error.message)
        return told

    assert len(talk(root, said, apps=True)) == 3
    assert len(talk(root, said, apps=True, role="reader")) == 5
    (root / "toolsets/pages/artifacts/a chart.html").unlink()
    assert len(talk(root, said, apps=True)) == 5  # validate says what is wrong with it


def test_a_role_that_has_no_tool_of_a_page_has_no_such_page(root: Path) -> None:
    async def said(client: Client) -> list[str]:
        listed = [one.uri for one in (await client.list_resources()).resources]
        await client.read_resource(TEXT)
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource(CHART)
        return listed

    assert talk(root, said, apps=True, role="writer") == [TEXT]
