"""Pages of lists, and icons."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError

from covalt_git.gateway.tool_listing import described, page
from covalt_git.models.tool import Tool
from tests.examples import examples
from tests.mcp_client import REPOSITORY, talk, versions

KEYS = st.sets(st.text("aä/", max_size=4), max_size=20).map(sorted)


@settings(max_examples=examples(50))
@given(KEYS, st.integers(1, 7))
def test_the_pages_of_a_list_are_the_whole_list(keys: list[str], size: int) -> None:
    found, cursor = [], None
    while True:
        where, cursor = page(keys, cursor, size)
        assert len(keys[where]) <= size
        found += keys[where]
        if cursor is None:
            break

    assert found == keys


def test_the_next_page_begins_after_the_last_key_although_others_are_gone() -> None:
    _, cursor = page(["a", "b", "c", "d"], None, 2)

    where, _ = page(["a", "c", "d"], cursor, 2)

    assert ["a", "c", "d"][where] == ["c", "d"]


@pytest.mark.parametrize("cursor", ["?", "ä", "YQ", "//79"])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(MCPError, match="cursor"):
        page(["a"], cursor)


@versions
def test_the_icon_of_a_toolset_is_a_data_url(root: Path, version: str) -> None:
    samples = REPOSITORY / "toolsets"
    shutil.copytree(samples / "data-lab", root / "toolsets" / "data-lab")

    async def say(client: Client) -> dict[str, Any]:
        return {tool.name: tool.icons for tool in (await client.list_tools()).tools}

    icons = talk(root, say, version=version)

    (icon,) = icons["data-lab.summarize"]
    assert icon.mime_type == "image/png"
    content = base64.b64decode(icon.src.partition(",")[2])
    assert content == (samples / "data-lab" / "assets" / "icon.png").read_bytes()
    assert icons["demo.write"] is None


def test_icons_of_a_server_are_passed_on_if_hosts_may_show_them(tmp_path: Path) -> None:
    icons: list[dict[str, Any]] = [
        {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]},
        {"src": "http://example.com/a.png"},
        {"src": "javascript:alert(1)"},
        {"src": "data:text/html,x"},
        {"src": "data:image/png;base64,AA=="},
    ]
    tool = Tool(tool_id="a:b", toolset_id="a", name="B", input_schema={}, icons=tuple(icons))

    listed = described(tool, "a.b", root=tmp_path, modern=True)

    shown = listed.model_dump(mode="json", by_alias=True, exclude_none=True)["icons"]
    assert shown == [icons[0], icons[4]]
