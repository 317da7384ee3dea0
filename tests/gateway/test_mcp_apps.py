"""Pages of toolsets as MCP Apps: what hosts learn of them, and which roles have them."""

from pathlib import Path
from typing import Any

from mcp import Client

from tests.mcp_client import call, make_project, read, refused, resource_uris, talk, versions

CHART = "ui://pages/artifacts/a%20chart.html"
TEXT = "ui://pages"
PANELS_ONLY = """  saver: {allow: ["panels.panel", "panels.save"]}
"""


async def ui_of(client: Client) -> dict[str, Any]:
    """Return ``_meta.ui`` of each tool."""
    return {tool.name: (tool.meta or {}).get("ui") for tool in (await client.list_tools()).tools}


@versions
def test_a_host_of_apps_learns_the_page_of_each_tool_and_that_no_page_may_call_one(
    shared: Path, version: str
) -> None:
    found = talk(shared, ui_of, version=version, apps=True)

    charts = dict.fromkeys(["pages.chart", "pages.fails", "pages.other"], CHART)
    pages = {name: ui["resourceUri"] for name, ui in found.items() if "resourceUri" in ui}
    assert pages == charts | {"pages.text": TEXT}
    assert {"resume", "workspace.write_file", "demo.write", "pages.chart"} <= found.keys()
    assert {tuple(ui["visibility"]) for ui in found.values()} == {("model",)}


def test_other_hosts_learn_of_no_page(shared: Path) -> None:
    assert {*talk(shared, ui_of).values()} == {None}
    uris = talk(shared, resource_uris)
    assert [uri for uri in uris if uri.startswith("ui:")] == []


def test_the_server_declares_the_apps_extension(shared: Path) -> None:
    """Before 2026-07-28 the SDK sends no extensions."""

    async def say(client: Client) -> None:
        extensions = client.server_capabilities.extensions
        assert (extensions or {})["io.modelcontextprotocol/ui"] == {}

    talk(shared, say, version="auto")


def test_a_page_is_a_resource_that_may_load_nothing(shared: Path) -> None:
    domains = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
    meta = {"ui": {"csp": {name: [] for name in domains}, "prefersBorder": True}}

    async def say(client: Client) -> None:
        listed = {one.uri: one for one in (await client.list_resources()).resources}
        assert {uri for uri in listed if uri.startswith("ui:")} == {TEXT, CHART}
        for uri in (TEXT, CHART):
            content = await read(client, uri)
            for one in (listed[uri], content):
                assert one.mime_type == "text/html;profile=mcp-app"
                assert one.meta == meta
            assert content.text.startswith("<!doctype html>")
            assert "connect-src" not in content.text
            assert "content=\"default-src 'none'; script-src 'unsafe-inline'; " in content.text

    talk(shared, say, apps=True)


def test_a_page_has_the_current_file_of_the_toolset_and_none_of_its_markup(root: Path) -> None:
    file = root / "toolsets/pages/artifacts/a chart.html"

    async def say(client: Client) -> str:
        before: str = (await read(client, CHART)).text
        file.write_text("<p>another")
        assert "another" in (await read(client, CHART)).text
        file.unlink()
        assert (await refused(client.read_resource(CHART))).code == -32602
        return before

    page = talk(root, say, apps=True)

    assert page.count("</script>") == 2
    assert "window.x" in page
    assert "<title>Draw &lt;it&gt;</title>" in page


def test_a_role_has_the_pages_of_the_tools_that_it_has(shared: Path) -> None:
    no_pages = {"ui://pages/toolset.yaml", "ui://demo", "ui://pages/../demo"}
    for role, pages in ((None, {CHART, TEXT}), ("writer", {TEXT}), ("reader", set[str]())):

        async def say(client: Client, pages: set[str] = pages) -> None:
            uris = await resource_uris(client)
            assert {uri for uri in uris if uri.startswith("ui:")} == pages
            for uri in {CHART, TEXT} | no_pages - pages:
                if uri in pages:
                    await read(client, uri)
                else:
                    assert (await refused(client.read_resource(uri))).code == -32602

        talk(shared, say, apps=True, role=role)


def test_a_host_lets_pages_call_the_tools_that_a_renderer_names(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project", "panels", roles=PANELS_ONLY)

    async def say(client: Client) -> tuple[set[str], Any]:
        ui = await ui_of(client)
        result = await client.call_tool("panels_panel", {"page": "<p>"})
        for_pages = {name for name, facts in ui.items() if facts["visibility"] == ["model", "app"]}
        return for_pages, (result.meta or {}).get("covalt-git/page_calls")

    options: dict[str, Any] = {"style": "underscore", "apps": True}
    names = {"save": "panels_save", "wipe": "panels_wipe"}
    calls = {name: {"name": listed} for name, listed in names.items()}
    assert talk(root, say, **options) == ({*names.values()}, calls)
    # A page calls no tool that its client may not call.
    assert talk(root, say, role="saver", **options) == ({"panels_save"}, {"save": calls["save"]})

    async def refuse(client: Client) -> Any:
        page = {"name": "panels.panel", "arguments": {"page": "<p>"}}
        return (await client.call_tool("call_tool", page)).meta

    # Hosts refuse calls of tools that are not listed.
    assert "covalt-git/page_calls" not in talk(root, refuse, mode="search", apps=True)
    assert "covalt-git/page_calls" not in call(root, "panels.panel", {"page": "<p>"}).meta


def test_a_page_of_a_client_without_a_session_calls_tools_in_the_chat_of_its_result(
    tmp_path: Path,
) -> None:
    root = make_project(tmp_path / "project", "panels")

    async def say(client: Client) -> None:
        shown = (await client.call_tool("panels.panel", {"page": "<p>"})).meta or {}
        page_call = shown["covalt-git/page_calls"]["save"]
        assert page_call["arguments"] == {"covalt_chat": shown["covalt-git/chat"]}
        args = {"text": "x", **page_call["arguments"]}
        chat: Any = {"covalt-git/chat": shown["covalt-git/chat"]}
        metas: tuple[Any, ...] = (
            {},
            chat,
        )  # a host may also name the chat, as in the agent's calls
        for meta in metas:
            saved = await client.call_tool(page_call["name"], args, meta=meta)
            assert (saved.meta or {})["covalt-git/chat"] == shown["covalt-git/chat"]
            assert not saved.is_error

    talk(root, say, apps=True, only_client=None)
