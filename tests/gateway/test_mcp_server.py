"""What clients of either era are answered, by a server in this process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from covalt_git.project import Project
from tests.mcp_client import (
    ERAS,
    MANIFEST,
    ToolNews,
    add_toolset,
    eras,
    listening,
    make_project,
    talk,
    text,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("gateway") / "project")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


async def listed(client: Client) -> dict[str, Any]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


def visible(root: Path, role: str | None) -> list[str]:
    project = Project.open(root, role=role)
    with project.index() as index:
        index.sync_toolsets()
        return [tool.path for tool in project.catalog.visible(index.tools()) if tool.enabled]


@eras
@pytest.mark.parametrize("role", [None, "reader"])
def test_the_list_is_the_catalog(root: Path, era: str, role: str | None) -> None:
    tools = talk(root, listed, era=era, role=role)

    assert [name for name in tools if name.startswith("demo.")] == visible(root, role)


@eras
def test_a_tool_is_told_of_as_it_is_in_force(root: Path, era: str) -> None:
    tool = talk(root, listed, era=era)["demo.read"]

    assert tool.description == "Read a file."
    assert tool.input_schema["required"] == ["path"]
    assert tool.input_schema["additionalProperties"] is False
    assert tool.annotations.read_only_hint is True


def test_an_output_schema_of_a_list_is_told_only_since_there_can_be_one(root: Path) -> None:
    schemas = [talk(root, listed, era=era)["demo.numbers"].output_schema for era in ERAS]

    assert schemas == [{"items": {"type": "integer"}, "type": "array"}, None]


@eras
def test_a_call_is_a_commit_with_its_record(root: Path, era: str) -> None:
    async def said(client: Client) -> Any:
        return await client.call_tool("demo.write", {"path": "a.txt", "content": "hi"})

    result = talk(root, said, era=era)

    assert result.structured_content == {"written": "a.txt"}
    assert "printed" in text(result)
    assert result.is_error is False
    (link,) = [block for block in result.content if block.type == "resource_link"]
    with Project.open(root).chats.open(result.meta["covalt-git/chat"]) as chat:
        assert link.uri.endswith(f"/manifests/{chat.head()}/files/a.txt")
        assert result.meta["covalt-git/manifest"] == chat.head()
        record = chat.manifest(chat.head() or "").record
        assert record.id == result.meta["covalt-git/call"]
        assert record.call is not None
        assert (record.call.tool_id, record.call.status) == ("demo:write", "success")


@eras
def test_a_result_that_is_a_list_is_structured_only_since_that_can_be(root: Path, era: str) -> None:
    async def said(client: Client) -> Any:
        return await client.call_tool("demo.numbers", {})

    result = talk(root, said, era=era)

    assert text(result).startswith("[1, 2]")
    assert result.structured_content == (None if era == "legacy" else [1, 2])


@eras
def test_a_tool_that_fails_is_an_error_of_the_result(root: Path, era: str) -> None:
    async def said(client: Client) -> Any:
        return await client.call_tool("demo.fails", {})

    result = talk(root, said, era=era)

    assert result.is_error is True
    assert result.structured_content["error"] == "tool_raised"
    assert "no such luck" in text(result)
    assert str(root) not in text(result)


@eras
def test_arguments_that_are_wrong_are_told_one_by_one(root: Path, era: str) -> None:
    async def said(client: Client) -> Any:
        return await client.call_tool("demo.write", {"path": 1, "other": 2})

    before = Project.open(root).chats.ids()
    result = talk(root, said, era=era)

    assert result.structured_content["error"] == "invalid_arguments"
    assert len(result.structured_content["problems"]) == 3
    assert Project.open(root).chats.ids() == before  # nothing was called


@eras
@pytest.mark.parametrize("style", ["dots", "underscore"])
@pytest.mark.parametrize(
    ("role", "name"),
    [(None, "off"), (None, "nothing"), ("reader", "write"), ("reader", "nothing")],
)
def test_a_hidden_or_disabled_tool_is_one_that_is_not_there(
    root: Path, era: str, style: str, role: str | None, name: str
) -> None:
    called = {"dots": f"demo.{name}", "underscore": f"demo_{name}"}[style]

    async def said(client: Client) -> str:
        with pytest.raises(MCPError) as refused:
            await client.call_tool(called, {"path": "a", "content": "b"})
        return (
            f"{refused.value.error.code} {refused.value.error.message} {refused.value.error.data}"
        )

    answer = talk(root, said, era=era, role=role, style=style)

    assert answer == f"-32602 unknown tool {called!r} None"


@eras
def test_progress_is_told_before_the_result(root: Path, era: str) -> None:
    told: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def said(client: Client) -> list[Any]:
        await client.call_tool("demo.steps", {}, progress_callback=hear)
        return [*told]

    assert talk(root, said, era=era) == [(1, 2, "first"), (2, 2, "last")]


@eras
def test_a_call_that_is_cancelled_has_ended_with_what_it_wrote(own: Path, era: str) -> None:
    async def said(client: Client) -> None:
        begun = anyio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            begun.set()

        async with anyio.create_task_group() as group:

            async def call() -> None:
                await client.call_tool("demo.slow", {}, progress_callback=hear)

            group.start_soon(call)
            with anyio.fail_after(20):
                await begun.wait()
            group.cancel_scope.cancel()
        await client.call_tool("demo.steps", {})  # the chat is free again

    talk(own, said, era=era)

    with Project.open(own).chats.open("c1") as chat:
        done, cancelled = chat.log(chat.head())
        assert cancelled.record.call is not None
        assert cancelled.record.call.error is not None
        assert cancelled.record.call.error.code == "cancelled"
        assert "begun.txt" in chat.files(done.id)


def test_a_client_works_in_one_chat_that_says_who_it_is(own: Path) -> None:
    async def said(client: Client) -> list[str]:
        found = [
            await client.call_tool("demo.write", {"path": str(number), "content": ""})
            for number in range(2)
        ]
        assert [("new chat" in text(result)) for result in found] == [True, False]
        return [result.meta["covalt-git/chat"] for result in found if result.meta]

    assert talk(own, said) == ["c1", "c1"]
    assert talk(own, said) == ["c2", "c2"]
    with Project.open(own).chats.open("c1") as chat:
        assert chat.card().title == "mcp"


def test_first_calls_at_once_make_one_chat(own: Path) -> None:
    async def said(client: Client) -> None:
        async with anyio.create_task_group() as group:
            for number in range(6):
                args = {"path": str(number), "content": ""}
                group.start_soon(client.call_tool, "demo.write", args)

    talk(own, said)

    assert Project.open(own).chats.ids() == ["c1"]
    with Project.open(own).chats.open("c1") as chat:
        assert len([*chat.log(chat.head())]) == 6


def test_a_client_of_one_chat_cannot_name_another(own: Path) -> None:
    for name in ("mine", "other"):
        Project.open(own).chats.new(name)

    async def said(client: Client) -> Any:
        meta: Any = {"covalt-git/chat": "other"}
        return await client.call_tool("demo.steps", {}, meta=meta)

    result = talk(own, said, chat="mine")

    assert result.structured_content["error"] == "other_chat"


@eras
def test_a_client_is_told_when_tools_change(own: Path, era: str) -> None:
    news = ToolNews()

    async def said(client: Client) -> list[str]:
        async with listening(client, era):
            await client.list_tools()
            add_toolset(own, "more", MORE, "def wave() -> str:\n    return 'o/'\n")
            await news.wait()
        return [tool.name for tool in (await client.list_tools()).tools]

    assert "more.wave" in talk(own, said, era=era, hears=news.hear)


MORE = """\
id: more
name: More
version: "1"
tools: [{id: wave, entrypoint: tools.more:wave}]
"""


def test_a_toolset_with_errors_says_so_and_runs_nothing(own: Path) -> None:
    (own / "toolsets" / "demo" / "toolset.yaml").write_text(MANIFEST + "colour: red\n")

    async def said(client: Client) -> Any:
        return await client.call_tool("demo.steps", {})

    result = talk(own, said)

    assert result.structured_content["error"] == "broken_toolset"
    assert re.search(r"toolset.yaml:13:\d+: ", text(result))
    assert Project.open(own).chats.ids() == []
