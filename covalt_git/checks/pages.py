"""Check of HTML pages of a toolset for references to other files and pages.

Pages are shown in a frame (``covalt_server.render.artifacts``) without network and other files, and
cannot navigate.  Such references are warnings, as the page is shown without them.  Requests of
scripts are not checked: the frame's Content-Security-Policy refuses and reports them at run time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import Problem
from covalt_git.manifests.override_keys import renderer_configs
from covalt_git.problems import codes
from covalt_git.text.display import shorten
from covalt_git.text.html_tags import attributes, tags, text_of
from covalt_git.yaml_text import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles, Contents
    from covalt_git.models.toolset_manifest import ToolsetManifest

MAX_PAGE_BYTES = 4 << 20
"""Larger pages contain libraries and data.  They are not checked, which would take seconds."""

_PAGES = (".html", ".htm")

# Browsers read a backslash in a URL as a slash.
_EXTERNAL = r"(?i)(?:https?|wss?|ftp):|//|\\\\"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
# Comments and @namespace are first: a url() in them is consumed with them, because it loads nothing.
_CSS_URL = r"""(?xis)/\*.*?(?:\*/|\Z)
      | @namespace\b[^;]*
      | @import\b \s* (?:url\()? \s* ["']? (?P<sheet>[^"')\s;]*)
      | \burl\( \s* ["']? (?P<url>[^"')\s]*)"""

_AS_DATA = "write it in the page as a data: URL"
_AS_STYLE = "write it in the page: <style>...</style>"
_HINTS = {
    "script": "write it in the page: <script>...</script>",
    "link": _AS_STYLE,
    "use": "write it in the page: <symbol id=...>, and refer to it by #...",
}
_LOADED = ("src", "href", "xlink:href", "poster", "background")
_FRAMES = {"iframe": "src", "frame": "src", "embed": "src", "object": "data"}


class _Reference(NamedTuple):
    """A reference that the frame refuses; ``place`` is its index in the text."""

    place: int
    code: str
    message: str
    hint: str


_FRAME = _Reference(
    0,
    codes.PAGE_LEAVES,
    "the page cannot contain frames",
    "use the renderer 'frame' for a page of a server",
)
_LINK = _Reference(
    0,
    codes.PAGE_LEAVES,
    "the link does not work: a page cannot leave its frame",
    "show the URL as text, or link to a #part of the page",
)


def artifact_problems(content: bytes, display_path: str) -> list[Problem]:
    """Return warnings about references in a page that its frame refuses.

    Equal warnings are reported once, at the first place.  ``display_path`` is the path of the page.
    """
    if len(content) > MAX_PAGE_BYTES:
        return []
    page = content.decode("utf-8-sig", "replace")
    first: dict[tuple[str, str, str], int] = {}
    for place, *what in _references(page):
        first.setdefault((what[0], what[1], what[2]), place)
    lines = Lines(page)
    return sorted(
        Problem(display_path, *lines.locate(place), code, message, hint, "warning")
        for (code, message, hint), place in first.items()
    )


def check_artifacts(
    manifest: Reading[ToolsetManifest], files: BundleFiles, contents: Contents
) -> list[Problem]:
    """Return warnings about references in a toolset's pages that their frame refuses.

    These pages are the HTML files in ``artifacts/``, files that a renderer names, and HTML texts in the
    manifest.
    """
    problems: list[Problem] = []
    named: set[str] = set()
    for loc, renderer, config in renderer_configs(manifest.value) if manifest.value else ():
        if renderer != "html":
            continue
        artifact, content = config.get("artifact"), config.get("content")
        if isinstance(artifact, str):
            named.add(artifact.removeprefix("./"))
        if isinstance(content, str):
            at = (*loc, "content")
            problems += [
                manifest.problem(
                    problem.code, at, problem.message, hint=problem.hint, severity=problem.severity
                )
                for problem in artifact_problems(content.encode(), manifest.path)
            ]
    display_path = manifest.path.rpartition("/")[0]
    for file in files.files:
        page = file.kind == "artifact" and file.path.lower().endswith(_PAGES)
        if (page or file.path in named) and file.size <= MAX_PAGE_BYTES:
            try:
                text = contents.read(file.path)
            except OSError:
                continue  # removed since the files were listed
            problems += artifact_problems(text, f"{display_path}/{file.path}")
    return problems


def _references(page: str) -> Iterator[_Reference]:
    """Yield the references of a page that its frame refuses."""
    for tag in tags(page):
        if tag.name.startswith("/"):
            continue
        for reference in _of_attributes(tag.name, attributes(page, tag)):
            yield reference._replace(place=tag.start)
        if tag.name == "style":
            for reference in _of_style(text_of(page, tag)):
                yield reference._replace(place=tag.end + reference.place)


def _of_attributes(name: str, values: Mapping[str, str]) -> Iterator[_Reference]:
    """Yield the refused references of a tag, without places."""
    if values.get(_FRAMES.get(name, ""), "about:").partition(":")[0].lower() != "about":
        yield _FRAME
    elif name in {"a", "area"} and not values.get("href", "#").startswith(("#", "javascript:")):
        yield _LINK
    elif name not in {"a", "area", "base", "link", *_FRAMES} or (
        name == "link" and "stylesheet" in values.get("rel", "").lower().split()
    ):
        for key in _LOADED:
            yield from _of_url(values.get(key, ""), _HINTS.get(name, _AS_DATA))
    # A comma without a blank is part of a data: URL.
    for candidate in values.get("srcset", "").split(", "):
        yield from _of_url(candidate.strip().partition(" ")[0], _AS_DATA)
    yield from _of_style(values.get("style", ""))


def _of_style(style: str) -> Iterator[_Reference]:
    """Yield the refused references of a style sheet."""
    for match in re.finditer(_CSS_URL, style):
        sheet = match["sheet"]
        for reference in _of_url(sheet or match["url"] or "", _AS_STYLE if sheet else _AS_DATA):
            yield reference._replace(place=match.start())


def _of_url(url: str, hint: str) -> Iterator[_Reference]:
    """Yield the URL as a refused reference, unless the page can load it."""
    url = url.strip()
    quoted = repr(shorten(url))
    if not url or url.startswith("#"):
        return
    if re.match(_EXTERNAL, url):
        message = f"{quoted} cannot be loaded: a page has no network"
        yield _Reference(0, codes.PAGE_EXTERNAL, message, hint)
    elif not _SCHEME.match(url):
        message = f"{quoted} cannot be loaded: a page is a single file"
        yield _Reference(0, codes.PAGE_SIBLING, message, hint)
