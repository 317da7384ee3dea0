"""The toolsets that the protocol's own suite is run against: `make stress` runs the suite, this a little."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from covalt_git.toolsets.toolset import read_toolset
from tests.mcp_client import REPOSITORY, eras, make_project, talk, text

FIXTURES = REPOSITORY / "fixtures" / "toolsets"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("conformance") / "project")
    for name in ("json", "test"):
        shutil.copytree(FIXTURES / name, root / "toolsets" / name)
    return root


def test_nothing_is_wrong_with_it(root: Path) -> None:
    assert read_toolset(root, "json").problems == read_toolset(root, "test").problems == ()


@eras
def test_a_client_has_all_of_it_under_the_names_of_the_suite(root: Path, era: str) -> None:
    async def said(client: Client) -> list[set[str]]:
        return [
            {tool.name for tool in (await client.list_tools()).tools},
            {prompt.name for prompt in (await client.list_prompts()).prompts},
            {resource.uri for resource in (await client.list_resources()).resources},
            {one.name for one in (await client.list_resource_templates()).resource_templates},
        ]

    tools, prompts, resources, templates = talk(root, said, era=era, style="underscore")

    manifest = read_toolset(root, "test").manifest
    assert manifest is not None
    assert tools >= {f"test_{tool.id}" for tool in manifest.tools} | {"json_schema_2020_12_tool"}
    assert prompts == {f"test_{prompt.id}" for prompt in manifest.prompts}
    assert resources == {"test://static-text", "test://static-binary", "test://watched-resource"}
    assert "template" in templates


@eras
def test_a_schema_is_told_as_it_was_written(root: Path, era: str) -> None:
    async def said(client: Client) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return tools["json.schema_2020_12_tool"].input_schema

    manifest = read_toolset(root, "json").manifest
    assert manifest is not None
    (declared,) = manifest.tools
    assert talk(root, said, era=era) == declared.input_schema


@eras
def test_every_kind_of_content_and_of_question_passes_through(root: Path, era: str) -> None:
    async def fill(_: Any, params: Any) -> types.ElicitResult:
        name = {"name": "Ada"} if "name" in params.requested_schema["properties"] else {}
        return types.ElicitResult(action="accept", content={**name, "color": "green"})

    async def sample(_: Any, __: Any) -> types.CreateMessageResult:
        said = types.TextContent(text="Paris")
        return types.CreateMessageResult(role="assistant", content=said, model="test")

    async def said(client: Client) -> list[Any]:
        found = [
            await client.call_tool(f"test.{name}", {})
            for name in (
                "multiple_content_types",
                "input_required_result_multi_round",
                "input_required_result_sampling",
            )
        ]
        template = await client.read_resource("test://template/123/data")
        return [*found, template.contents[0]]

    can = {"elicitation_callback": fill, "sampling_callback": sample}
    mixed, rounds, sampled, template = talk(root, said, era=era, can=can)

    kinds = [block.type for block in mixed.content]
    assert kinds[:4] == ["text", "image", "resource_link", "resource"]
    assert text(rounds).startswith("Ada likes green.")
    assert text(sampled).startswith("Model said: Paris")
    assert json.loads(template.text)["id"] == "123"
