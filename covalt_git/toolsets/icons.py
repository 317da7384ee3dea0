"""Icons of tools: image files of the toolset that ``icon`` names, sent as ``data:`` URLs.

Tool lists contain the icons and go to unknown hosts.  Therefore icons are small, and their content
must match their file name.  SVG is not allowed, as it can contain JavaScript (MCP specification, "Icons").
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

_SUFFIXES = ", ".join(sorted(ICON_TYPES))


def check_icons(
    manifest: Reading[ToolsetManifest], files: BundleFiles, contents: Contents
) -> Iterator[Problem]:
    """Find problems of the icons that a toolset and its tools name."""
    for loc, path in _icon_paths(manifest.valid):
        missing = [*check_named_file(manifest, loc, path, files)]
        yield from missing
        if missing:
            continue
        try:
            content = contents.read(path)
        except OSError:
            continue  # removed since the files were listed
        reason = icon_problem(path, content)
        if reason is not None:
            message = f"{path!r} cannot be an icon: {reason[0]}"
            yield manifest.problem(codes.BAD_ICON, loc, message, hint=reason[1])


def icon_problem(path: str, content: bytes) -> tuple[str, str] | None:
    """Return why a file cannot be an icon and how to fix it, or None if it can."""
    media = ICON_TYPES.get(PurePosixPath(path).suffix.lower())
    if media is None:
        return "the file type is not supported", f"use one of {_SUFFIXES}"
    if len(content) > MAX_ICON_BYTES:
        most = f"{MAX_ICON_BYTES:,} bytes"
        return f"it has {len(content):,} bytes, more than {most}", "an image of 64 x 64 is enough"
    if media_type(content) == media:
        return None
    name = media.removeprefix("image/").upper()
    return f"its content is not {name}", "rename it to match its content"


def icon_data_url(root: Path, tool: Tool) -> str | None:
    """Return the icon of a tool as a ``data:`` URL, or None if the toolset has no valid icon for it."""
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
    # The file may have changed since validate read it, and a list of tools sends it to unknown hosts.
    if icon_problem(path, content) is not None:
        return None
    media = ICON_TYPES[PurePosixPath(path).suffix.lower()]
    return f"data:{media};base64,{base64.b64encode(content).decode()}"


def _icon_paths(manifest: ToolsetManifest) -> Iterator[tuple[Loc, str]]:
    if manifest.icon is not None:
        yield ("icon",), manifest.icon
    for position, tool in enumerate(manifest.tools):
        if tool.icon is not None:
            yield ("tools", position, "icon"), tool.icon
