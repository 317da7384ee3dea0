"""What the specification requires of tools, as the API and MCP show it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client

from tests.api_client import Api, configure
from tests.mcp_client import add_toolset, talk

MANIFEST = """\
id: shop
name: Shop
version: "1.5"
tools:
  - {id: issues.create, entrypoint: "tools.shop:create"}
  - {id: order, entrypoint: "tools.shop:create", version: "2.0-beta"}
"""
TOOLS = "def create(title: str = 'x') -> str:\n    return title\n"

Listed = dict[str, tuple[str, str]]
"""Tools as a face lists them: their names and versions, by path."""

Shown = Callable[[Path, str], Listed]
"""Returns the tools that a role sees."""


def by_api(root: Path, role: str) -> Listed:
    groups = Api.of(root, role).get("list_tools")["groups"]
    tools = (tool for group in groups for tool in group["tools"])
    return {tool["path"]: (tool["name"], tool["version"]) for tool in tools}


def by_mcp(root: Path, role: str) -> Listed:
    async def say(client: Client) -> Listed:
        tools = (await client.list_tools()).tools
        return {
            tool.name: (tool.title or "", (tool.meta or {}).get("covalt-git/version", ""))
            for tool in tools
        }

    return talk(root, say, role=role)


each_face = pytest.mark.parametrize("shown", [by_api, by_mcp])


@pytest.fixture
def shop(root: Path) -> Path:
    add_toolset(root, "shop", MANIFEST, TOOLS)
    return root


@each_face
@pytest.mark.requirement("toolshed-policy.everything")
def test_a_star_alone_is_every_tool(shop: Path, shown: Shown) -> None:
    roles = "{all: {allow: ['*']}, some: {allow: ['shop.*']}, none: {allow: ['*'], deny: ['*']}}"
    configure(shop, f"roles: {roles}\ndefault_role: all\n")

    everything = shown(shop, "all")
    assert {"shop.issues.create", "app-builder.write_file", "data-lab.summarize"} <= {*everything}
    assert not {"app-builder.write_file", "shop.issues.create"} & {*shown(shop, "some")}
    assert not {"app-builder.write_file", "shop.issues.create"} & {*shown(shop, "none")}


@each_face
@pytest.mark.requirement("toolshed-tool.name", "cjson-toolsets.version")
def test_a_tool_has_a_name_of_its_id_and_the_version_of_its_toolset_or_its_own(
    shop: Path, shown: Shown
) -> None:
    configure(shop, "roles: {all: {allow: ['**']}}\ndefault_role: all\n")

    found = shown(shop, "all")
    assert found["shop.issues.create"] == ("Issues Create", "1.5")
    assert found["shop.order"] == ("Order", "2.0-beta")
