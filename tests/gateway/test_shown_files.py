"""How results are shown, as clients are told it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from covalt_git.project import Project
from tests.mcp_client import add_toolset, eras, make_project, talk

MANIFEST = """\
id: pages
name: Pages
version: "1"
tools:
  - {id: chart, entrypoint: tools.pages:chart}
  - {id: fails, entrypoint: tools.pages:fails}
  - {id: shows, entrypoint: tools.pages:shows}
tool_overrides:
  - {tool_id: chart, renderer: html, renderer_config: {artifact: artifacts/chart.html, data: {seen: "$return.values"}}}
  - {tool_id: fails, renderer: html, renderer_config: {artifact: artifacts/chart.html}}
  - {tool_id: shows, renderer: code, renderer_config: {file: "$args.path"}}
"""
TOOLS = '''\
from pathlib import Path


def chart(workspace: Path) -> dict[str, list[int]]:
    """Chart."""
    return {"values": [1, 2]}


def fails() -> str:
    """Fail."""
    raise ValueError("no such luck")


def shows(workspace: Path, path: str, content: str = "") -> None:
    """Show a file."""
    if content:
        (workspace / path).write_text(content)
'''
PAGE = "<!doctype html><title>chart</title>\n"
BUILDER = """\
  builder: {allow: ["pages.shows", "workspace.**"]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make_project(tmp_path / "project", roles=BUILDER)
    add_toolset(made, "pages", MANIFEST, TOOLS, {"artifacts/chart.html": PAGE.encode()})
    return made


def links(result: Any) -> dict[str, str]:
    return {one.name: one.uri for one in result.content if one.type == "resource_link"}


async def text_at(client: Client, uri: str) -> tuple[str, str]:
    found: Any = (await client.read_resource(uri)).contents[0]
    return found.mime_type, found.text


@eras
def test_a_result_tells_how_it_is_shown_and_where_the_page_is(root: Path, era: str) -> None:
    async def said(client: Client) -> None:
        result = await client.call_tool("pages.chart", {})
        plan = (result.meta or {})["covalt-git/render_plan"]
        (uri,) = plan["files"].values()
        assert plan == {
            "renderer": "html",
            "config": {"artifact": "toolset:artifacts/chart.html", "data": {"seen": [1, 2]}},
            "files": {"toolset:artifacts/chart.html": uri},
        }
        assert links(result) == {}
        # As it was then, for ever.
        (root / "toolsets/pages/artifacts/chart.html").write_text("<p>another</p>")
        assert await text_at(client, uri) == ("text/html", PAGE)

    talk(root, said, era=era)


@eras
def test_a_file_that_is_shown_can_be_read_whether_it_was_changed_or_not(
    root: Path, era: str
) -> None:
    async def said(client: Client) -> None:
        args = {"path": "notes/a b.txt"}
        written = await client.call_tool("pages.shows", {**args, "content": "one"})
        shown = await client.call_tool("pages.shows", args)
        await client.call_tool("pages.shows", {**args, "content": "two"})
        for result in (written, shown):
            (uri,) = links(result).values()
            plan = (result.meta or {})["covalt-git/render_plan"]
            assert plan["files"] == {"workspace:notes/a b.txt": uri}
            assert await text_at(client, uri) == ("text/plain", "one")

    (root / "toolsets/pages/tools/pages.py").write_text(
        TOOLS.replace(
            "    if content:", "    (workspace / path).parent.mkdir(exist_ok=True)\n    if content:"
        )
    )
    talk(root, said, era=era)


def test_who_follows_a_file_is_not_told_that_it_was_shown(root: Path) -> None:
    uri = "covalt-git://chats/mine/files/a.txt"

    async def said(client: Client) -> list[str]:
        await client.call_tool("pages.shows", {"path": "a.txt", "content": "one"})
        told: list[str] = []
        async with client.listen(resource_subscriptions=[uri]) as heard:
            await client.call_tool("pages.shows", {"path": "a.txt"})
            await client.call_tool("demo.write", {"path": "a.txt", "content": "two"})
            with anyio.move_on_after(1):
                async for event in heard:
                    told.append(str(event))  # noqa: PERF401 - it ends by the clock
        return told

    with Project.open(root).chats.new("mine"):
        pass

    assert len(talk(root, said, chat="mine")) == 1


def test_an_error_tells_how_it_is_shown_as_well(root: Path) -> None:
    async def said(client: Client) -> Any:
        return (await client.call_tool("pages.fails", {})).meta

    plan = talk(root, said)["covalt-git/render_plan"]

    assert plan["renderer"] == "code"
    assert "no such luck" in plan["config"]["content"]


def test_a_result_of_a_tool_that_is_shown_in_no_way_has_no_plan(root: Path) -> None:
    async def said(client: Client) -> Any:
        return (await client.call_tool("demo.numbers", {})).meta

    assert "covalt-git/render_plan" not in talk(root, said)


def test_a_page_is_for_whom_its_tool_exists_in_the_chat_that_is_its_own(root: Path) -> None:
    async def called(client: Client) -> str:
        plan = ((await client.call_tool("pages.chart", {})).meta or {})["covalt-git/render_plan"]
        uri: str = plan["files"]["toolset:artifacts/chart.html"]
        return uri

    async def read(client: Client) -> str:
        try:
            return (await text_at(client, uri))[1]
        except MCPError as refused:
            return refused.error.message

    uri = talk(root, called)
    chat = uri.split("/")[3]

    assert talk(root, read, chat=chat) == PAGE
    hidden = f"unknown resource {uri!r}"
    assert talk(root, read, chat=chat, role="builder") == hidden
    assert talk(root, read) == hidden
