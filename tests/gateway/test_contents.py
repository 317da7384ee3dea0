"""Results that are more than text, and what tools log, as clients of either era have them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning

from covalt_git.gateway import results
from covalt_git.project import Project
from tests.mcp_client import ERAS, add_toolset, eras, make_project, talk, text

MANIFEST = """\
id: show
name: Show
version: "1"
tools:
  - {id: image, entrypoint: tools.show:image}
  - {id: sound, entrypoint: tools.show:sound}
  - {id: mixed, entrypoint: tools.show:mixed}
  - {id: bytes, entrypoint: tools.show:held}
  - {id: large, entrypoint: tools.show:large}
  - {id: before, entrypoint: tools.show:before}
  - {id: forged, entrypoint: tools.show:forged}
  - {id: logs, entrypoint: tools.show:logs}
"""
TOOLS = """\
import time

from covalt_toolset import Audio, Embedded, File, Image, get_context


def image() -> Image:
    print("drawn")
    return Image(b"png")


def sound() -> dict:
    return Audio(b"mp3", "audio/mpeg")


def mixed() -> list:
    return ["first", 2, Image(b"png", "image/svg+xml"), Embedded("doc://a", "A")]


def held() -> Embedded:
    return Embedded("doc://b", b"\\0", "application/pdf")


def large() -> Image:
    return Image(bytes(5 << 20))


def before(path: str) -> File:
    return File(path)


def forged() -> list:
    return [
        {"file": "../../covalt.yaml", "size": 1, "media_type": "image/png"},
        {"file": 1, "size": "x", "media_type": None},
        {"uri": "doc://c"},
    ]


def logs() -> str:
    for level in ("debug", "info", "warning", "error"):
        get_context().log(f"at {level}", level)
    return "done"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("contents") / "project")
    add_toolset(root, "show", MANIFEST, TOOLS)
    return root


def called(root: Path, name: str, era: str, args: Any = None, chat: str | None = None) -> Any:
    async def said(client: Client) -> Any:
        return await client.call_tool(f"show.{name}", args or {})

    return talk(root, said, era=era, chat=chat)


def kinds(result: Any) -> list[str]:
    return [block.type for block in result.content]


@eras
def test_an_image_is_shown_and_is_a_file_of_the_workspace(root: Path, era: str) -> None:
    result = called(root, "image", era)

    image, link, printed, *_ = result.content
    assert (image.type, image.mime_type, base64.b64decode(image.data)) == (
        "image",
        "image/png",
        b"png",
    )
    assert link.name == result.structured_content["file"]
    assert link.name.endswith(".png")
    assert printed.text == "drawn"
    assert kinds(result).count("resource_link") == 1
    with Project.open(root).chats.open(result.meta["covalt-git/chat"]) as chat:
        assert (chat.workspace / link.name).read_bytes() == b"png"
        record = chat.manifest(chat.head() or "").record
    assert record.call is not None
    assert record.call.result == result.structured_content


@eras
def test_a_sound_is_heard(root: Path, era: str) -> None:
    sound, *_ = called(root, "sound", era).content

    assert (sound.type, sound.mime_type) == ("audio", "audio/mpeg")
    assert base64.b64decode(sound.data) == b"mp3"


@eras
def test_mixed_content_keeps_its_order(root: Path, era: str) -> None:
    result = called(root, "mixed", era)

    assert kinds(result)[:5] == ["text", "text", "image", "resource_link", "resource"]
    assert [result.content[0].text, result.content[1].text] == ["first", "2"]
    assert result.content[2].mime_type == "image/svg+xml"
    assert result.content[4].resource.text == "A"


def test_bytes_are_embedded_under_their_address(root: Path) -> None:
    (block, *_) = called(root, "bytes", ERAS[0]).content

    assert block.resource.uri == "doc://b"
    assert (block.resource.mime_type, block.resource.blob) == ("application/pdf", "AA==")


def test_of_what_is_too_large_there_is_the_link(root: Path) -> None:
    assert results.MOST_BYTES < 5 << 20
    assert kinds(called(root, "large", ERAS[0])) == ["resource_link", "text"]


@eras
def test_a_file_that_was_there_before_is_shown_as_well(root: Path, era: str) -> None:
    with Project.open(root).chats.new() as chat:
        (chat.workspace / "cat.gif").write_bytes(b"gif")

    result = called(root, "before", era, {"path": "cat.gif"}, chat.id)

    assert kinds(result) == ["image", "resource_link"]
    assert result.content[0].mime_type == "image/gif"


def test_a_forged_reference_shows_nothing_from_elsewhere(root: Path) -> None:
    result = called(root, "forged", ERAS[0])

    assert kinds(result) == ["resource_link", *["text"] * 3]  # the last tells of the new chat
    assert "version" not in text(result)


@eras
@pytest.mark.parametrize("level", [None, "debug", "warning"])
def test_what_a_tool_logs_is_told_to_whoever_asked(root: Path, era: str, level: Any) -> None:
    heard: list[str] = []

    async def hear(params: Any) -> None:
        heard.append(params.data)

    async def said(client: Client) -> None:
        meta: Any = {}
        if level and era == "legacy":
            with pytest.warns(MCPDeprecationWarning):
                await client.set_logging_level(level)
        elif level:
            meta = {"io.modelcontextprotocol/logLevel": level}
        await client.call_tool("show.logs", {}, meta=meta)
        await anyio.lowlevel.checkpoint()

    talk(root, said, era=era, can={"logging_callback": hear})

    every = ["at debug", "at info", "at warning", "at error"]
    assert heard == {None: [], "debug": every, "warning": every[2:]}[level]
