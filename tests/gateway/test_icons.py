"""Icons of tools, as hosts are told of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git.gateway.tool_listing import described
from covalt_git.models.tool import Tool
from covalt_git.toolsets.new_project import create_project
from tests.mcp_client import ERAS, REPOSITORY, talk

ICON = REPOSITORY / "toolsets" / "data-lab" / "assets" / "icon.png"


@pytest.mark.parametrize("era", ERAS)
def test_a_host_gets_icons_that_it_can_show_without_asking(tmp_path: Path, era: str) -> None:
    create_project(tmp_path)

    async def said(client: Client) -> dict[str, Any]:
        return {tool.name: tool.icons for tool in (await client.list_tools()).tools}

    icons = talk(tmp_path, said, era=era)

    (icon,) = icons["data-lab.summarize"]
    assert icon.mime_type == "image/png"
    assert base64.b64decode(icon.src.partition(",")[2]) == ICON.read_bytes()
    assert icons["app-builder.write_file"] is None


def test_icons_of_a_server_are_passed_on_where_hosts_may_show_them(tmp_path: Path) -> None:
    said = [
        {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]},
        {"src": "http://example.com/a.png"},
        {"src": "javascript:alert(1)"},
        {"src": "data:text/html,x"},
        {"src": "data:image/png;base64,AA=="},
    ]
    tool = Tool(tool_id="a:b", toolset_id="a", name="B", input_schema={}, icons=tuple(said))

    told = described(tool, "a.b", root=tmp_path, modern=True).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )

    assert told["icons"] == [said[0], said[4]]
