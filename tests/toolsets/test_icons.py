"""Icons are images with the right content; no client gets another file as an icon."""

import base64
from pathlib import Path

import pytest

from covalt_git.project import Project
from covalt_git.toolsets.icons import MAX_ICON_BYTES, icon_data_url, icon_problem
from tests.mcp_client import add_toolset, make_project

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 "
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.mark.parametrize(
    ("path", "content", "valid"),
    [
        *(("A.PNG", PNG, True), ("a.webp", WEBP, True), ("a.jpg", b"\xff\xd8\xff\xe0", True)),
        *(("a.png", SVG, False), ("a.svg", SVG, False), ("a.svg", PNG, False), ("a", PNG, False)),
        *(("a.gif", b"GIF89a", False), ("a.webp", b"RIFF\x00\x00\x00\x00WAVE", False)),
        ("a.png", PNG + bytes(MAX_ICON_BYTES), False),
    ],
)
def test_an_icon_is_a_small_image_of_its_kind(path: str, content: bytes, *, valid: bool) -> None:
    assert (icon_problem(path, content) is None) is valid


MANIFEST = """\
id: drawn
name: Drawn
version: "1"
icon: ./assets/set.png
tools:
  - {id: own, entrypoint: "tools.drawn:own", icon: assets/own.webp}
  - {id: other, entrypoint: "tools.drawn:own"}
"""


def test_a_tool_has_its_own_icon_or_its_toolsets(tmp_path: Path) -> None:
    root = make_project(tmp_path / "project")
    add_toolset(root, "drawn", MANIFEST, "def own() -> None:\n    ...\n")
    assets = root / "toolsets/drawn/assets"
    assets.mkdir()
    (assets / "set.png").write_bytes(PNG)
    (assets / "own.webp").write_bytes(WEBP)
    project = Project.open(root)

    def address(tool_id: str) -> str | None:
        return icon_data_url(root, project.catalog.find(tool_id).tool)

    encoded = base64.b64encode(WEBP).decode()
    assert address("drawn:own") == f"data:image/webp;base64,{encoded}"
    assert address("drawn:other") == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert address("demo:read") is None
    # A file that changed since it was validated is not sent.
    tool = project.catalog.find("drawn:own").tool
    (assets / "own.webp").write_bytes(SVG)
    assert icon_data_url(root, tool.model_copy(update={"toolset_digest": "another"})) is None
