"""Which files are icons, and that no host gets anything else for one."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from covalt_git.files.icons import MAX_ICON_BYTES, data_address, why_no_icon
from covalt_git.project import Project
from tests.gateway.clients import add_toolset, make_project

SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GOOD = f'<?xml version="1.0"?><!-- drawn --><svg {SVG}><title>a</title><use xlink:href="#a"/></svg>'


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("assets/a.png", PNG),
        ("A.SVG", GOOD.encode()),
        ("a.svg", b"\xef\xbb\xbf" + GOOD.encode()),
        ("a.webp", b"RIFF\x00\x00\x00\x00WEBPVP8 "),
        ("a.jpg", b"\xff\xd8\xff\xe0"),
        ("a.jpeg", b"\xff\xd8\xff\xe0"),
    ],
)
def test_pictures_are_icons(path: str, content: bytes) -> None:
    assert why_no_icon(path, content) is None


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<SCRIPT>alert(1)</SCRIPT>",
        "<title><script>alert(1)</script></title>",  # text to HTML
        "<!--><script>alert(1)</script>-->",  # a comment to XML
        "<?x ><script>alert(1)</script>?>",  # an instruction to XML
        '<s:script xmlns:s="http://www.w3.org/2000/svg">alert(1)</s:script>',
        '<g onclick="alert(1)"/>',
        '<g ONCLICK="alert(1)"/>',
        '<a href="javascript:alert(1)"/>',
        '<a xlink:href=" JavaScript:alert(1)"/>',
        '<a href="&#106;avascript:alert(1)"/>',
        '<image href="https://evil.example/x.png"/>',
        '<use href="other.svg#a"/>',
        '<a><set attributeName="href" to="javascript:alert(1)"/></a>',
        "<style>@import url(https://evil.example)</style>",
        "<foreignObject/>",
        "<g>",
    ],
)
def test_what_is_more_than_a_picture_is_none(inside: str) -> None:
    assert why_no_icon("a.svg", f"<svg {SVG}>{inside}</svg>".encode()) is not None


def test_a_document_type_is_refused_before_anything_grows() -> None:
    lines = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 20}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE svg [<!ENTITY a0 "x">{lines}]><svg {SVG}>&a11;</svg>'

    assert why_no_icon("a.svg", bomb.encode()) == (
        "it declares an entity",
        "take out all but the picture",
    )
    assert why_no_icon("a.svg", f"<!DOCTYPE svg><svg {SVG}/>".encode()) is not None


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.png", GOOD.encode()),
        ("a.svg", PNG),
        ("a.svg", b"<html/>"),
        ("a.svg", b""),
        ("a.gif", b"GIF89a"),
        ("a", PNG),
        ("a.webp", b"RIFF\x00\x00\x00\x00WAVE"),
        ("a.png", PNG + bytes(MAX_ICON_BYTES)),
    ],
)
def test_what_is_not_what_it_says_is_no_icon(path: str, content: bytes) -> None:
    assert why_no_icon(path, content) is not None


MANIFEST = """\
id: drawn
name: Drawn
version: "1"
icon: ./assets/set.png
tools:
  - {id: own, entrypoint: "tools.drawn:own", icon: assets/own.svg}
  - {id: other, entrypoint: "tools.drawn:own"}
"""


def test_a_tool_has_its_own_icon_or_its_toolsets(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    add_toolset(root, "drawn", MANIFEST, "def own() -> None:\n    ...\n")
    assets = root / "toolsets/drawn/assets"
    assets.mkdir()
    (assets / "set.png").write_bytes(PNG)
    (assets / "own.svg").write_text(GOOD)
    project = Project.open(root)

    def address(tool_id: str) -> str | None:
        return data_address(root, project.catalog.find(tool_id).tool)

    encoded = base64.b64encode(GOOD.encode()).decode()
    assert address("drawn:own") == f"data:image/svg+xml;base64,{encoded}"
    assert address("drawn:other") == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert address("demo:read") is None
    # What is no icon by now is none, whatever was validated.
    tool = project.catalog.find("drawn:own").tool
    (assets / "own.svg").write_text(f"<svg {SVG}><script/></svg>")
    assert data_address(root, tool.model_copy(update={"toolset_digest": "another"})) is None
