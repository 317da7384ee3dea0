"""Contents of results: images, audio, files, how they are shown, and log messages."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning

from covalt_git.gateway import results
from tests.examples import rest
from tests.mcp_client import (
    TOOLSETS,
    by_turns,
    call,
    read,
    talk,
    text,
)

PAGE = (TOOLSETS / "pages" / "artifacts" / "a chart.html").read_text()


def kinds(result: Any) -> list[str]:
    return [block.type for block in result.content]


def plan(result: Any) -> Any:
    return result.meta["covalt-git/render_plan"]


def links(result: Any) -> dict[str, str]:
    return {one.name: one.uri for one in result.content if one.type == "resource_link"}


def test_mixed_content_keeps_its_order(shared: Path) -> None:
    result = call(shared, "show.mixed")

    assert kinds(result)[:5] == ["text", "text", "image", "resource_link", "resource"]
    assert [result.content[0].text, result.content[1].text] == ["first", "2"]
    assert result.content[2].mime_type == "image/svg+xml"
    assert result.content[4].resource.text == "A"


@pytest.mark.parametrize("tool", [rest("large"), "lies"])
def test_a_file_over_the_limit_is_a_link_alone_whatever_size_its_reference_has(
    shared: Path, tool: str
) -> None:
    assert results.MOST_BYTES < 5 << 20
    assert kinds(call(shared, f"show.{tool}")) == ["resource_link", "text"]


def test_a_forged_reference_shows_no_file_of_another_place(shared: Path) -> None:
    result = call(shared, "show.forged")

    assert kinds(result) == ["resource_link", *["text"] * 3]  # the last one names the new chat
    assert "version" not in text(result)


@by_turns(
    ("level", "messages"),
    [
        (None, []),
        ("debug", ["at debug", "at info", "at warning", "at error"]),
        ("warning", ["at warning", "at error"]),
    ],
)
def test_a_client_gets_the_log_messages_of_the_level_that_it_sets(
    shared: Path, version: str, level: Any, messages: list[str]
) -> None:
    received: list[str] = []

    async def receive(params: Any) -> None:
        received.append(params.data)

    async def say(client: Client) -> None:
        meta: Any = {"io.modelcontextprotocol/logLevel": level} if level else {}
        if level and version == "legacy":
            meta = {}
            with pytest.warns(MCPDeprecationWarning):
                await client.set_logging_level(level)
        await client.call_tool("show.logs", {}, meta=meta)
        await anyio.lowlevel.checkpoint()

    talk(shared, say, version=version, callbacks={"logging_callback": receive})

    assert received == messages


# How a result is shown


@pytest.mark.rest
def test_a_result_has_its_render_plan_and_the_page_of_its_commit(root: Path) -> None:
    async def say(client: Client) -> None:
        result = await client.call_tool("pages.chart", {})
        (uri,) = plan(result)["files"].values()
        assert plan(result) == {
            "renderer": "html",
            "config": {"artifact": "toolset:artifacts/a chart.html", "data": {"seen": [1, 2]}},
            "files": {"toolset:artifacts/a chart.html": uri},
        }
        assert links(result) == {}
        (root / "toolsets/pages/artifacts/a chart.html").write_text("<p>another</p>")
        page = await read(client, uri)
        assert (page.mime_type, page.text) == ("text/html", PAGE)

    talk(root, say)


def test_a_shown_file_can_be_read_at_its_commit_whether_the_call_changed_it_or_not(
    shared: Path,
) -> None:
    args = {"path": "notes/a b.txt"}

    async def say(client: Client) -> None:
        written = await client.call_tool("pages.file", {**args, "content": "one"})
        shown = await client.call_tool("pages.file", args)
        await client.call_tool("pages.file", {**args, "content": "two"})
        for result in (written, shown):
            (uri,) = links(result).values()
            assert plan(result)["files"] == {"workspace:notes/a b.txt": uri}
            file = await read(client, uri)
            assert (file.mime_type, file.text) == ("text/plain", "one")

    talk(shared, say)
