"""Workspace files and manifests as resources."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from covalt_git.project import Project
from tests.mcp_client import eras, make_project, talk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = make_project(tmp_path / "project")
    project = Project.open(made)
    for name in ("mine", "other"):
        with project.chats.new(name) as chat, project.writing(chat) as writer:
            writer.edit_file("notes/to day.md", b"# words\n", before=None)
            writer.edit_file("a.bin", b"\0\1", before=None)
    return made


async def listed(client: Client) -> dict[str, Any]:
    return {one.uri: one for one in (await client.list_resources()).resources}


def head(root: Path, name: str = "mine") -> str:
    with Project.open(root).chats.open(name) as chat:
        return chat.head() or ""


@eras
def test_the_files_and_the_branches_are_listed_and_can_be_read(root: Path, era: str) -> None:
    async def said(client: Client) -> None:
        found = await listed(client)
        assert [*found] == [
            "covalt-git://chats/mine/files/a.bin",
            "covalt-git://chats/mine/files/notes/to%20day.md",
            f"covalt-git://chats/mine/manifests/{head(root)}",
        ]
        contents: list[Any] = [(await client.read_resource(uri)).contents[0] for uri in found]
        blob, text, manifest = contents
        assert base64.b64decode(blob.blob) == b"\0\1"
        assert (text.text, text.mime_type) == ("# words\n", "text/markdown")
        assert json.loads(manifest.text)["title"] == "edit: a.bin"

    talk(root, said, era=era, chat="mine")


@eras
def test_the_links_of_a_result_can_be_read_as_they_were_then(root: Path, era: str) -> None:
    async def said(client: Client) -> str:
        first = await client.call_tool("demo.write", {"path": "a.txt", "content": "one"})
        await client.call_tool("demo.write", {"path": "a.txt", "content": "two"})
        (link,) = [one for one in first.content if one.type == "resource_link"]
        found: Any = (await client.read_resource(link.uri)).contents[0]
        text: str = found.text
        return text

    assert talk(root, said, era=era) == "one"


def test_a_client_is_told_of_files_that_change(root: Path) -> None:
    uri = "covalt-git://chats/mine/files/a.txt"

    async def said(client: Client) -> list[str]:
        told = []
        async with client.listen(
            resources_list_changed=True, resource_subscriptions=[uri]
        ) as heard:
            await client.call_tool("demo.write", {"path": "a.txt", "content": "one"})
            with anyio.fail_after(20):
                async for event in heard:
                    told.append(str(event))
                    if len(told) == 2:
                        break
        return told

    updated, listed_anew = talk(root, said, chat="mine")

    assert uri in updated
    assert "ResourcesListChanged" in listed_anew


@eras
def test_what_is_not_the_clients_own_is_not_there(root: Path, era: str) -> None:
    uris = [
        "covalt-git://chats/other/files/a.bin",
        "covalt-git://chats/nowhere/files/a.bin",
        f"covalt-git://chats/mine/manifests/{head(root, 'other')}",
        "covalt-git://chats/mine/files/../../covalt.yaml",
        "covalt-git://chats/mine/files/nothing",
        "file:///etc/passwd",
    ]

    async def said(client: Client) -> set[str]:
        answers = set()
        for uri in uris:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            error = refused.value.error
            answers.add(f"{error.code} {error.message}".replace(uri, "..."))
        return answers

    assert talk(root, said, era=era, chat="mine") == {"-32602 unknown resource '...'"}


def test_a_client_without_a_chat_has_none_and_gets_none_by_looking(root: Path) -> None:
    async def said(client: Client) -> int:
        with pytest.raises(MCPError):
            await client.read_resource("covalt-git://chats/mine/files/a.bin")
        return len(await listed(client))

    assert talk(root, said) == 0
    assert Project.open(root).chats.ids() == ["mine", "other"]


def test_a_role_has_the_resources_whose_tools_it_has(root: Path) -> None:
    async def said(client: Client) -> None:
        assert len(await listed(client)) == 2
        await client.read_resource("covalt-git://chats/mine/files/a.bin")
        with pytest.raises(MCPError, match="unknown resource"):
            await client.read_resource(f"covalt-git://chats/mine/manifests/{head(root)}")

    talk(root, said, chat="mine", role="reader")


@eras
def test_templates_tell_how_addresses_are_made(root: Path, era: str) -> None:
    async def said(client: Client) -> list[str]:
        return [
            one.uri_template for one in (await client.list_resource_templates()).resource_templates
        ]

    assert talk(root, said, era=era, chat="mine")[0] == "covalt-git://chats/mine/files/{+path}"
