"""Pages of lists, and icons."""

import base64
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp_types import PaginatedRequestParams

from covalt_git.gateway import tool_listing
from covalt_git.gateway.tool_listing import describe, page_of
from covalt_git.models.tool import Tool
from tests.examples import examples
from tests.mcp_client import REPOSITORY, talk

KEYS = st.sets(st.text("aä/", max_size=4), max_size=20).map(sorted)
DATA_LAB = REPOSITORY / "toolsets" / "data-lab"
JSON = REPOSITORY / "fixtures" / "toolsets" / "json"


@settings(max_examples=examples(50))
@given(KEYS, st.integers(1, 7))
def test_the_pages_of_a_list_are_the_whole_list(keys: list[str], size: int) -> None:
    found, cursor = list[str](), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_listing, "PAGE", size)
        while not found or cursor is not None:
            page, cursor = page_of(listed(keys), PaginatedRequestParams(cursor=cursor))
            assert len(page) <= size
            found += page
            if not keys:
                break

    assert found == keys


def listed(keys: Iterable[str]) -> dict[str, Callable[[], str]]:
    return {key: partial(str, key) for key in keys}


@pytest.mark.parametrize("cursor", ["?", "ä", "YQ", "//79"])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(MCPError, match="cursor"):
        page_of(listed(["a"]), PaginatedRequestParams(cursor=cursor))


@pytest.fixture(scope="module")
def tools(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The tools by their names, of toolsets with an icon, with a declared schema, and without both."""
    root = tmp_path_factory.mktemp("listed") / "project"
    shutil.copytree(template, root)
    shutil.copytree(DATA_LAB, root / "toolsets" / "data-lab")
    shutil.copytree(JSON, root / "toolsets" / "json")

    async def say(client: Client) -> dict[str, Any]:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    return talk(root, say)


def test_the_icon_of_a_toolset_is_a_data_url(tools: dict[str, Any]) -> None:
    (icon,) = tools["data-lab.summarize"].icons
    assert icon.mime_type == "image/png"
    content = base64.b64decode(icon.src.partition(",")[2])
    assert content == (DATA_LAB / "assets" / "icon.png").read_bytes()
    assert tools["demo.write"].icons is None


def test_a_declared_schema_is_listed_unchanged(tools: dict[str, Any]) -> None:
    (declared,) = yaml.load((JSON / "toolset.yaml").read_text(), yaml.CSafeLoader)["tools"]
    assert tools["json.schema_2020_12_tool"].input_schema == declared["input_schema"]


def test_icons_of_a_server_are_passed_on_if_hosts_may_show_them(tmp_path: Path) -> None:
    icons: list[dict[str, Any]] = [
        {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]},
        {"src": "http://example.com/a.png"},
        {"src": "javascript:alert(1)"},
        {"src": "data:text/html,x"},
        {"src": "data:image/png;base64,AA=="},
    ]
    tool = Tool(tool_id="a:b", toolset_id="a", name="B", input_schema={}, icons=tuple(icons))

    listed = describe(tool, "a.b", root=tmp_path)

    shown = listed.model_dump(mode="json", by_alias=True, exclude_none=True)["icons"]
    assert shown == [icons[0], icons[4]]
