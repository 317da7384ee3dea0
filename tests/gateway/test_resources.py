"""Workspace files and commits as resources."""

import base64
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from covalt_git.file_edits import edits
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests.mcp_client import read, refused, resource_uris, talk, versions


@pytest.fixture(scope="module")
def chats(shared: Path) -> dict[str, str]:
    """The heads of the chats ``mine`` and ``other``, which have the same files."""
    project, heads = Project.open(shared), {}
    for name in ("mine", "other"):
        with project.chats.new(name) as chat:
            with project.writing(chat) as writer:
                edits.edit_file(writer, "notes/to day.md", b"# words\n", before=None)
                edits.edit_file(writer, "a.bin", b"\0\1", before=None)
            heads[name] = chat.head() or ""
    return heads


async def chat_uris(client: Client) -> list[str]:
    return [uri for uri in await resource_uris(client) if uri.startswith("covalt-git:")]


@versions
def test_the_files_and_branches_of_a_chat_are_listed_and_read(
    shared: Path, chats: dict[str, str], version: str
) -> None:
    async def say(client: Client) -> None:
        uris = await chat_uris(client)
        assert uris == [
            "covalt-git://chats/mine/files/a.bin",
            "covalt-git://chats/mine/files/notes/to%20day.md",
            f"covalt-git://chats/mine/manifests/{chats['mine']}",
        ]
        blob, text, manifest = [await read(client, uri) for uri in uris]
        assert base64.b64decode(blob.blob) == b"\0\1"
        assert (text.text, text.mime_type) == ("# words\n", "text/markdown")
        assert json.loads(manifest.text)["title"] == "edit: a.bin"

    talk(shared, say, version=version, chat="mine")


def test_a_client_is_notified_of_files_that_change_and_not_of_files_that_are_shown(
    shared: Path, chat_id: str
) -> None:
    uri = f"covalt-git://chats/{chat_id}/files/a.txt"

    async def say(client: Client) -> list[str]:
        await client.call_tool("pages.file", {"path": "a.txt", "content": "one"})
        events: list[str] = []
        async with client.listen(
            resources_list_changed=True, resource_subscriptions=[uri]
        ) as received:
            await client.call_tool("pages.file", {"path": "a.txt"})
            await client.call_tool("demo.write", {"path": "a.txt", "content": "two"})
            with anyio.fail_after(20):
                async for event in received:
                    events.append(str(event))
                    if "ResourcesListChanged" in events[-1]:
                        break
        return events

    updated, list_changed = talk(shared, say, chat=chat_id)

    assert uri in updated
    assert "ResourcesListChanged" in list_changed


def test_what_is_not_in_the_chat_of_the_client_is_unknown(
    shared: Path, chats: dict[str, str]
) -> None:
    async def say(client: Client) -> None:
        for uri in [
            "covalt-git://chats/other/files/a.bin",
            "covalt-git://chats/nowhere/files/a.bin",
            f"covalt-git://chats/mine/manifests/{chats['other']}",
            "covalt-git://chats/mine/files/../../covalt.yaml",
            "covalt-git://chats/mine/files/nothing",
            "file:///etc/passwd",
        ]:
            error = await refused(client.read_resource(uri))
            assert (error.code, error.message) == (-32602, f"unknown resource {uri!r}")
            assert error.data == {"uri": uri}

    talk(shared, say, chat="mine")


def test_a_role_has_the_resources_of_the_built_in_tools_that_it_may_use(
    shared: Path, chats: dict[str, str]
) -> None:
    async def say(client: Client) -> None:
        assert len(await chat_uris(client)) == 2
        await client.read_resource("covalt-git://chats/mine/files/a.bin")
        manifest = f"covalt-git://chats/mine/manifests/{chats['mine']}"
        assert (await refused(client.read_resource(manifest))).code == -32602

    talk(shared, say, chat="mine", role="reader")


def test_templates_have_the_chat_of_the_client(shared: Path, chat_id: str) -> None:
    async def say(client: Client) -> Any:
        return (await client.list_resource_templates()).resource_templates[0].uri_template

    template = talk(shared, say, chat=chat_id)

    assert template == f"covalt-git://chats/{chat_id}/files/{{+path}}"


RULES = """\
version: 1
approvals:
  - {pattern: "**", when: {args: {path: "*.env"}}, require: true}
  - {pattern: workspace.log, require: true}
"""


def test_a_resource_does_not_pass_the_approval_of_the_tool_that_reads_the_same(
    tmp_path: Path,
) -> None:
    root = tmp_path / "p"
    create_project(root)
    (root / "covalt.yaml").write_text(RULES)
    with Project.open(root).chats.new("c1") as chat, Project.open(root).writing(chat) as writer:
        edits.edit_file(writer, "prod.env", b"PASSWORD=x", before=None)
        edits.edit_file(writer, "a.txt", b"one", before=None)
        head = chat.head()
    base = "covalt-git://chats/c1"

    async def say(client: Client) -> None:
        assert await chat_uris(client) == [f"{base}/files/a.txt"]
        for uri in ("files/prod.env", f"manifests/{head}/files/prod.env", f"manifests/{head}"):
            await refused(read(client, f"{base}/{uri}"))
            found = await client.call_tool("read_result", {"resource": f"{base}/{uri}", "page": 1})
            assert found.is_error
        assert (await read(client, f"{base}/files/a.txt")).text == "one"

    talk(root, say, chat="c1")
