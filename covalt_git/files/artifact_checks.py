"""What a page of a toolset asks for and will not get: it is shown in a frame that leads nowhere.

The frame (``covalt_server.artifacts``) runs the scripts and styles that stand in the page, and shows
the images, fonts and media that do.  It has no network, no second file, no storage, no other window
and no way out.  Only what is surely refused is told, and as warnings: the page is shown all the
same.  What a script puts together while it runs is not to be known by reading.
"""

from __future__ import annotations

import bisect
import re
from typing import TYPE_CHECKING

from covalt_git.errors import Problem
from covalt_git.files.script_checks import NO_DOWNLOAD, NO_FORM, Refused, refused
from covalt_git.html_tags import attributes, tags, text_of
from covalt_git.models import problems as codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.files.bundle_files import BundleFiles, Contents
    from covalt_git.files.model_errors import Loc
    from covalt_git.files.reading import Reading
    from covalt_git.models.base import JsonObject
    from covalt_git.models.toolset_manifest import ToolsetManifest

MAX_PAGE_BYTES = 4 << 20
"""Larger pages are not looked at: they hold libraries and data, and would take seconds."""

_PAGES = (".html", ".htm")
_MAX_SHOWN = 80

_EXTERNAL = re.compile(r"(?:https?|wss?|ftp):|//|\\\\", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_JAVASCRIPT = re.compile(r"(?:(?:text|application)/(?:java|ecma)script|module)?", re.IGNORECASE)
_FONT = re.compile(r"\.(?:woff2?|ttf|otf|eot)\b", re.IGNORECASE)
_CSS_ADDRESS = re.compile(
    r"""/\*.*?(?:\*/|\Z)
      | @namespace\b[^;]*
      | @import\b \s* (?:url\()? \s* ["']? (?P<sheet>[^"')\s;]*)
      | \burl\( \s* ["']? (?P<url>[^"')\s]*)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)

_AS_SCRIPT = "put its text into the page: <script>...</script>"
_AS_STYLE = "put its text into the page: <style>...</style>"
_AS_MEDIA = "put it into the page: data:image/png;base64,..."
_AS_FONT = "put it into the page: url(data:font/woff2;base64,...)"
_AS_SYMBOL = "put it into the page: <symbol id=...>, and refer to it by #..."

_LOADED = {
    ("img", "src"): _AS_MEDIA,
    ("input", "src"): _AS_MEDIA,
    ("image", "href"): _AS_MEDIA,
    ("image", "xlink:href"): _AS_MEDIA,
    ("use", "href"): _AS_SYMBOL,
    ("use", "xlink:href"): _AS_SYMBOL,
    ("source", "src"): _AS_MEDIA,
    ("video", "src"): _AS_MEDIA,
    ("video", "poster"): _AS_MEDIA,
    ("audio", "src"): _AS_MEDIA,
    ("track", "src"): _AS_MEDIA,
    ("body", "background"): _AS_MEDIA,
}
"""Attributes whose address a browser loads by itself, and what to do instead."""

_FRAMES = {"iframe": "src", "frame": "src", "embed": "src", "object": "data"}

_NO_FRAME = (
    codes.PAGE_LEAVES,
    "a page within the page is refused",
    "the renderer 'frame' shows a page of elsewhere",
)
_NO_LINK = (
    codes.PAGE_LEAVES,
    "a link leads nowhere: a page stays in its frame",
    "show the address as text; links to a #part of the page work",
)
_NO_REFRESH = (
    codes.PAGE_LEAVES,
    "a refresh leads nowhere: a page stays in its frame",
    "remove it; the call's own page shows what is new",
)
_NO_BASE = (codes.PAGE_LEAVES, "<base> is refused: a page is one file", "remove it")


def artifact_problems(content: bytes, shown: str) -> list[Problem]:
    """Return what the page ``content`` asks for in vain, as warnings about the file ``shown``."""
    if len(content) > MAX_PAGE_BYTES:
        return []
    page = content.decode("utf-8-sig", "replace")
    first: dict[tuple[str, str, str], int] = {}
    for place, *what in _asked(page):
        first.setdefault((what[0], what[1], what[2]), place)
    starts = [0, *(end.end() for end in re.finditer("\n", page))]
    problems = []
    for (code, message, hint), place in first.items():
        line = bisect.bisect_right(starts, place)
        col = place - starts[line - 1] + 1
        problems.append(Problem(shown, line, col, code, message, hint, "warning"))
    return sorted(problems)


def check_artifacts(
    manifest: Reading[ToolsetManifest], files: BundleFiles, contents: Contents
) -> list[Problem]:
    """Return what the pages of a toolset ask for in vain.

    Its pages are the HTML files of ``artifacts/``, those that a renderer names, and the texts that
    stand in the manifest instead.
    """
    problems: list[Problem] = []
    named: set[str] = set()
    for loc, config in _html_configs(manifest.value):
        artifact, content = config.get("artifact"), config.get("content")
        if isinstance(artifact, str):
            named.add(artifact.removeprefix("./"))
        if isinstance(content, str):
            at = (*loc, "content")
            problems += [
                manifest.problem(one.code, at, one.message, hint=one.hint, severity=one.severity)
                for one in artifact_problems(content.encode(), manifest.path)
            ]
    shown = manifest.path.rpartition("/")[0]
    for file in files.files:
        page = file.kind == "artifact" and file.path.lower().endswith(_PAGES)
        if (page or file.path in named) and file.size <= MAX_PAGE_BYTES:
            try:
                text = contents.read(file.path)
            except OSError:
                continue  # it went away since the files were listed
            problems += artifact_problems(text, f"{shown}/{file.path}")
    return problems


def _html_configs(manifest: ToolsetManifest | None) -> Iterator[tuple[Loc, JsonObject]]:
    """Yield the configurations of renderers that show a page, and where they stand."""
    legacy: dict[str, str] = {}
    for position, tool in enumerate(manifest.tools if manifest else ()):
        if tool.renderer is not None:
            legacy[tool.id] = tool.renderer.type
            if tool.renderer.type == "html":
                yield ("tools", position, "renderer"), tool.renderer.config
    for position, override in enumerate(manifest.tool_overrides if manifest else ()):
        kind = override.renderer or legacy.get(override.tool_id.rpartition(":")[2])
        if kind == "html" and override.renderer_config is not None:
            yield ("tool_overrides", position, "renderer_config"), override.renderer_config


def _asked(page: str) -> Iterator[Refused]:
    """Yield what a page asks for in vain."""
    for tag in tags(page):
        if tag.name.startswith("/"):
            continue
        given = attributes(page, tag)
        for found in _of_attributes(tag.name, given):
            yield Refused(tag.start, *found[1:])
        found_in_text: Iterator[Refused] = iter(())
        if tag.name == "style":
            found_in_text = _of_style(text_of(page, tag))
        elif tag.name == "script" and _is_code(given):
            found_in_text = refused(text_of(page, tag))
        for found in found_in_text:
            yield Refused(tag.end + found.place, *found[1:])


def _is_code(given: Mapping[str, str]) -> bool:
    return "src" not in given and bool(_JAVASCRIPT.fullmatch(given.get("type", "").strip()))


def _of_attributes(name: str, given: Mapping[str, str]) -> Iterator[Refused]:
    """Yield what a tag asks for; where in it is of no interest."""
    for key, value in given.items():
        if hint := _LOADED.get((name, key)):
            yield from _of_address(value, hint)
        elif key == "srcset":
            for candidate in value.split(", "):
                yield from _of_address(candidate.strip().partition(" ")[0], _AS_MEDIA)
        elif key == "style":
            yield from _of_style(value)
        elif key.startswith("on"):
            yield from refused(value)
    if name == "script":
        yield from _of_address(given.get("src", ""), _AS_SCRIPT, runs=True)
    elif name == "link" and "stylesheet" in given.get("rel", "").lower().split():
        yield from _of_address(given.get("href", ""), _AS_STYLE, runs=True)
    if given.get(_FRAMES.get(name, ""), "about:").partition(":")[0].lower() != "about":
        yield Refused(0, *_NO_FRAME)
    elif name == "base" and "href" in given:
        yield Refused(0, *_NO_BASE)
    elif name == "meta" and given.get("http-equiv", "").lower() == "refresh":
        yield Refused(0, *_NO_REFRESH)
    elif name == "form" and given.keys() & {"action", "onsubmit"}:
        yield Refused(0, *NO_FORM)
    elif name in {"a", "area"} and "download" in given:
        yield Refused(0, *NO_DOWNLOAD)
    elif name in {"a", "area"} and not given.get("href", "#").startswith(("#", "javascript:")):
        yield Refused(0, *_NO_LINK)


def _of_style(style: str) -> Iterator[Refused]:
    """Yield the addresses of a style sheet that are not loaded."""
    for found in _CSS_ADDRESS.finditer(style):
        if found["sheet"]:
            asked = _of_address(found["sheet"], _AS_STYLE, runs=True)
        else:
            address = found["url"] or ""
            asked = _of_address(address, _AS_FONT if _FONT.search(address) else _AS_MEDIA)
        for one in asked:
            yield Refused(found.start(), *one[1:])


def _of_address(address: str, hint: str, *, runs: bool = False) -> Iterator[Refused]:
    """Yield why an address is not loaded; what ``runs`` is not even where it is ``data:``."""
    address = address.strip()
    shown = repr(address if len(address) <= _MAX_SHOWN else f"{address[:_MAX_SHOWN]}...")
    if not address or address.startswith("#"):
        return
    if _EXTERNAL.match(address):
        message = f"{shown} is not fetched: a page has no network"
        yield Refused(0, codes.PAGE_EXTERNAL, message, hint)
    elif not _SCHEME.match(address):
        message = f"{shown} is not found: a page is one file"
        yield Refused(0, codes.PAGE_SIBLING, message, hint)
    elif runs:
        message = f"{shown} is refused: only what stands in the page runs"
        yield Refused(0, codes.PAGE_POWERS, message, hint)
