"""Links in results of MCP servers to their resources, which are read through us."""

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git.connections.pool import CONNECTIONS
from covalt_git.grants.grants import add_grant, revoke_all
from tests.mcp_client import REPOSITORY, call, make_project, one_version, read, refused, talk
from tests.taking_servers import take

SERVER = REPOSITORY / "fixtures" / "servers" / "first_era.py"
ROLES = """\
  linker: {allow: ["near.links"]}
  other: {allow: ["demo.read"]}
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = make_project(tmp_path / "project", roles=ROLES)
    tools = tmp_path / "tools.json"
    tools.write_text(
        json.dumps(
            [{"name": name, "inputSchema": {"type": "object"}} for name in ("links", "resource")]
        )
    )
    (root / "toolsets" / "near").mkdir()
    (root / "toolsets" / "near" / "toolset.yaml").write_text(f"""\
id: near
name: Near
version: "1"
mcp_servers:
  - id: near
    command: {sys.executable}
    args: [{SERVER}]
    env: {{TOOLS: {tools}, KEY: plain}}
    requires_confirmation: false
""")
    add_grant(root, "near", "process", "near", by="me")
    take(root, "near", "near")
    yield root
    CONNECTIONS.close()


def test_the_text_of_an_embedded_resource_stays_a_text(root: Path) -> None:
    result = call(root, "near.resource")

    embedded = next(block.resource for block in result.content if block.type == "resource")
    assert (embedded.uri, embedded.mime_type, embedded.text) == (
        "covalt-git://servers/near/notes:///a/today.md",
        "text/markdown",
        "# Today\n",
    )


@one_version
def test_a_resource_to_which_a_result_links_is_read_through_us(root: Path, version: str) -> None:
    uris: list[str] = []

    async def say(client: Client) -> None:
        result: Any = await client.call_tool("near.links", {})
        note, pixel, missing = (one for one in result.content if one.type == "resource_link")
        assert (note.name, pixel.name) == ("note", "pixel")
        uris.append(note.uri)
        assert (await read(client, note.uri)).text == "a note, plain"
        shown = await read(client, pixel.uri)
        assert base64.b64decode(shown.blob).startswith(b"\x89PNG")
        assert shown.mime_type == "image/png"
        assert "Method not found" in (await refused(read(client, missing.uri))).message
        more = note.uri.replace("/links/1", "/links/4")
        assert (await refused(read(client, more))).message == f"unknown resource {more!r}"

    async def is_refused(client: Client) -> None:
        assert "unknown resource" in (await refused(read(client, uris[0]))).message

    async def is_not_granted(client: Client) -> None:
        assert (await refused(read(client, uris[0]))).data["error"] == "grant_needed"

    talk(root, say, version=version, role="linker")
    talk(root, is_refused, version=version, role="other", chat="c1")
    revoke_all(root, "near")
    talk(root, is_not_granted, version=version, role="linker", chat="c1")
