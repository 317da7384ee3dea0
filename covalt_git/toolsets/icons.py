"""Icons of tools: image files of the toolset that ``icon`` names, sent as ``data:`` URLs.

Every list of tools has their icons, and goes to hosts that we do not know; so an icon is small and of
the type that its name says.  SVG is not allowed: it may hold JavaScript (MCP specification, "Icons").
"""

from __future__ import annotations

import base64
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from covalt_git.checks.overrides import check_named_file
from covalt_git.models.tool import ICON_OF_TOOLSET, ICON_TYPES
from covalt_git.problems import codes
from covalt_git.text.media_types import media_type

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.errors import Problem
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles, Contents
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import ToolsetManifest

MAX_ICON_BYTES = 16 << 10

_KINDS = ", ".join(sorted(ICON_TYPES))


def check_icons(
    manifest: Reading[ToolsetManifest], files: BundleFiles, contents: Contents
) -> Iterator[Problem]:
    """Find what is wrong with the icons that a toolset and its tools name."""
    if manifest.value is None:
        return
    for loc, path in _named(manifest.value):
        missing = [*check_named_file(manifest, loc, path, files)]
        yield from missing
        if missing:
            continue
        try:
            content = contents.read(path)
        except OSError:
            continue  # it went away since the files were listed
        why = why_no_icon(path, content)
        if why is not None:
            message = f"{path!r} cannot be an icon: {why[0]}"
            yield manifest.problem(codes.BAD_ICON, loc, message, hint=why[1])


def why_no_icon(path: str, content: bytes) -> tuple[str, str] | None:
    """Return why a file is no icon and what to do about it, or None where it is one."""
    media = ICON_TYPES.get(PurePosixPath(path).suffix.lower())
    if media is None:
        return "its name says no kind of picture", f"use one of {_KINDS}"
    if len(content) > MAX_ICON_BYTES:
        most = f"{MAX_ICON_BYTES:,} bytes"
        return f"it is {len(content):,} bytes, more than {most}", "a picture of 64 x 64 is enough"
    if media_type(content) == media:
        return None
    return f"it is no {media.removeprefix('image/').upper()}", "name it after what it is"


def data_address(root: Path, tool: Tool) -> str | None:
    """Return the tool's own icon as a ``data:`` address, or None where it has none that is one."""
    for icon in tool.icons:
        source = str(icon.get("src", ""))
        if source.startswith(ICON_OF_TOOLSET):
            path = source.removeprefix(ICON_OF_TOOLSET)
            return _read(root / "toolsets" / tool.toolset_id, path, tool.toolset_digest)
    return None


@lru_cache(maxsize=1024)
def _read(folder: Path, path: str, _: str) -> str | None:
    """Read an icon, once for each digest of its toolset."""
    try:
        content = (folder / path).read_bytes()
    except (OSError, ValueError):
        return None
    if why_no_icon(path, content) is not None:
        return None
    media = ICON_TYPES[PurePosixPath(path).suffix.lower()]
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def _named(manifest: ToolsetManifest) -> Iterator[tuple[Loc, str]]:
    if manifest.icon is not None:
        yield ("icon",), manifest.icon
    for position, tool in enumerate(manifest.tools):
        if tool.icon is not None:
            yield ("tools", position, "icon"), tool.icon
