"""The toolsets for the protocol's conformance suite, which `make stress` runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.toolsets.toolset import read_toolset
from tests.mcp_client import REPOSITORY, make_project, read, resource_uris, talk, text, versions


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("conformance") / "project")
    for name in ("json", "test"):
        folder = REPOSITORY / "fixtures" / "toolsets" / name
        shutil.copytree(folder, root / "toolsets" / name)
    return root


def manifest(root: Path, name: str) -> ToolsetManifest:
    toolset = read_toolset(root, name)
    assert toolset.problems == ()
    assert toolset.manifest is not None
    return toolset.manifest


@versions
def test_everything_has_the_name_that_the_suite_expects(suite: Path, version: str) -> None:
    async def say(client: Client) -> list[set[str]]:
        return [
            {tool.name for tool in (await client.list_tools()).tools},
            {prompt.name for prompt in (await client.list_prompts()).prompts},
            {*await resource_uris(client)},
            {one.name for one in (await client.list_resource_templates()).resource_templates},
        ]

    tools, prompts, resources, templates = talk(suite, say, version=version, style="underscore")

    expected = manifest(suite, "test")
    assert tools >= {f"test_{tool.id}" for tool in expected.tools} | {"json_schema_2020_12_tool"}
    assert prompts == {f"test_{prompt.id}" for prompt in expected.prompts}
    assert resources == {"test://static-text", "test://static-binary", "test://watched-resource"}
    assert "template" in templates


@versions
def test_a_declared_schema_is_listed_unchanged(suite: Path, version: str) -> None:
    async def say(client: Client) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return tools["json.schema_2020_12_tool"].input_schema

    (declared,) = manifest(suite, "json").tools
    assert talk(suite, say, version=version) == declared.input_schema


@versions
def test_every_kind_of_content_and_of_question_reaches_the_client(
    suite: Path, version: str
) -> None:
    async def fill(_: Any, params: Any) -> types.ElicitResult:
        name = {"name": "Ada"} if "name" in params.requested_schema["properties"] else {}
        return types.ElicitResult(action="accept", content={**name, "color": "green"})

    async def sample(_: Any, __: Any) -> types.CreateMessageResult:
        content = types.TextContent(text="Paris")
        return types.CreateMessageResult(role="assistant", content=content, model="test")

    async def say(client: Client) -> None:
        mixed = await client.call_tool("test.multiple_content_types", {})
        kinds = [block.type for block in mixed.content]
        assert kinds[:4] == ["text", "image", "resource_link", "resource"]
        rounds = await client.call_tool("test.input_required_result_multi_round", {})
        assert text(rounds).startswith("Ada likes green.")
        sampled = await client.call_tool("test.input_required_result_sampling", {})
        assert text(sampled).startswith("Model said: Paris")
        template = await read(client, "test://template/123/data")
        assert json.loads(template.text)["id"] == "123"

    callbacks = {"elicitation_callback": fill, "sampling_callback": sample}
    talk(suite, say, version=version, callbacks=callbacks)
