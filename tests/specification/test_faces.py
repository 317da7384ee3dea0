"""What the specification requires of tools, as the API and MCP show it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client

from tests.api_client import Api, configure, form_file
from tests.mcp_client import add_toolset, talk

MANIFEST = """\
id: shop
name: Shop
version: "1.5"
tools:
  - {id: issues.create, entrypoint: "tools.shop:create"}
  - id: order
    entrypoint: "tools.shop:create"
    version: "2.0-beta"
    examples: [{prompt: "Order it", weight: 2}, {args: {title: a}, expected: a}]
    extensions: {vendor: {colour: red, deep: [1, null]}}
"""
TOOLS = "def create(title: str = 'x') -> str:\n    return title\n"

Shown = Callable[[Path, str], dict[str, str]]
"""Returns the names of the tools that a role sees, by path."""


def by_api(root: Path, role: str) -> dict[str, str]:
    groups = Api.of(root, role).get("list_tools")["groups"]
    return {tool["path"]: tool["name"] for group in groups for tool in group["tools"]}


def by_mcp(root: Path, role: str) -> dict[str, str]:
    async def say(client: Client) -> dict[str, str]:
        return {tool.name: tool.title or "" for tool in (await client.list_tools()).tools}

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
@pytest.mark.requirement("toolshed-tool.name")
def test_a_name_that_is_derived_from_a_dotted_id_is_title_case(shop: Path, shown: Shown) -> None:
    configure(shop, "roles: {all: {allow: ['**']}}\ndefault_role: all\n")

    assert shown(shop, "all")["shop.issues.create"] == "Issues Create"


def versions_by_api(root: Path, role: str) -> dict[str, str]:
    groups = Api.of(root, role).get("list_tools")["groups"]
    return {tool["tool_id"]: tool["version"] for group in groups for tool in group["tools"]}


def versions_by_mcp(root: Path, role: str) -> dict[str, str]:
    async def say(client: Client) -> dict[str, str]:
        listed = (await client.list_tools()).tools
        return {
            tool.name.replace(".", ":", 1): (tool.meta or {})["covalt-git/version"]
            for tool in listed
            if tool.name.startswith("shop.")
        }

    return talk(root, say, role=role)


@pytest.mark.parametrize("versions", [versions_by_api, versions_by_mcp])
@pytest.mark.requirement("cjson-toolsets.version")
def test_the_version_of_a_tool_is_listed(shop: Path, versions: Shown) -> None:
    configure(shop, "roles: {all: {allow: ['**']}}\ndefault_role: all\n")

    found = versions(shop, "all")
    assert found["shop:issues.create"] == "1.5"  # its toolset's
    assert found["shop:order"] == "2.0-beta"


@pytest.mark.requirement("cjson-tools.examples", "cjson-tools.extensions")
def test_extensions_and_examples_of_a_tool_are_carried_unchanged(shop: Path) -> None:
    api = Api.of(shop)
    before = (shop / "toolsets/shop/toolset.yaml").read_bytes()

    tool = api.get("get_tool", tool_id="shop:order")
    manifest = api.get("get_toolset", toolset_id="shop")["manifest"]
    bundle = api.ask("export_toolset", toolset_id="shop").get_data()
    api.post("uninstall_toolset", toolset_id="shop", force=True)
    api.send_form("import_toolset", {"file": form_file("shop.zip", bundle)})

    extensions = {"vendor": {"colour": "red", "deep": [1, None]}}
    assert tool["extensions"] == manifest["tools"][1]["extensions"] == extensions
    assert tool["free_examples"] == [{"prompt": "Order it", "weight": 2}]
    assert [one["args"] for one in tool["examples"]] == [{"title": "a"}]
    assert manifest["tools"][1]["examples"][0] == {"prompt": "Order it", "weight": 2}
    assert (shop / "toolsets/shop/toolset.yaml").read_bytes() == before
