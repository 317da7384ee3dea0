"""What the site adds to the documents while it is built: navigation, texts of other folders, and generated pages.

A document on GitHub is complete without these additions:

- The pages of the navigation are the links of the index pages, in their order.
- ``<!-- page: README.md -->`` is replaced, with the whole page, by that file of the repository's root.
- ``<!-- generated: commands -->`` is replaced, with the rest of the page, by Markdown that a function of
  :data:`GENERATORS` writes from code.

Both are markers only if they are alone on their line and outside of code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docs.site import api_page, commands_page, keys_page, python_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
GENERATORS: Final[dict[str, Callable[[], str]]] = {
    "commands": commands_page.text,
    "toolset.yaml": keys_page.toolset_text,
    "covalt.yaml": keys_page.covalt_text,
    "http-api": api_page.text,
    "python-api": python_pages.api_text,
    "sdk": python_pages.sdk_text,
}

_MARKER = re.compile(r"(?m)^<!-- (page|generated): (\S+) -->$")
_FENCED = re.compile(r"(?ms)^( *)(```+).*?^\1\2[^\n]*$|`[^`\n]+`")
_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_LISTED = re.compile(r"(?m)^(?:- |\| )\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+\.md)\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the additions; Sphinx calls it."""
    app.connect("source-read", _add)
    app.connect("env-get-outdated", lambda *_: [*_generated_pages()])
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def other_texts() -> dict[str, str]:
    """Return the page of the site for each file of the repository's root that has a page."""
    texts = {}
    for page in sorted(DOCS.rglob("*.md")):
        match = marker(page.read_text(encoding="utf-8"), "page")
        if match:
            texts[match[2]] = page.relative_to(DOCS).as_posix()
    return texts


def marker(text: str, kind: str) -> re.Match[str] | None:
    """Return the first marker of a kind, ``page`` or ``generated``, whose second group is its name."""
    code = [block.span() for block in _FENCED.finditer(text)]
    for match in _MARKER.finditer(text):
        if match[1] == kind and not any(start < match.start() < end for start, end in code):
            return match
    return None


def generated(text: str) -> str:
    """Return a page with the text that its marker names in place of the marker and of the rest."""
    match = marker(text, "generated")
    return text[: match.start()] + GENERATORS[match[2]]() if match else text


def listed(text: str) -> list[tuple[str, str]]:
    """Return the title and the path of each page that an index page lists: links that begin an item or a row."""
    return _LISTED.findall(text)


def _generated_pages() -> Iterator[str]:
    # They depend on code, whose files Sphinx does not compare.
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if marker(text, "generated") or marker(text, "page"):
            yield page.relative_to(DOCS).with_suffix("").as_posix()


def _add(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx's signature
    text, page = source[0], DOCS / f"{name}.md"
    match = marker(text, "page")
    if match:
        text = (ROOT / match[2]).read_text(encoding="utf-8")
    text = _moved_links(text, (ROOT / match[2] if match else page).parent, page.parent)
    if page.name == "index.md":
        entries = "\n".join(f"{title} <{path.removesuffix('.md')}>" for title, path in listed(text))
        # Without a depth, Sphinx copies the headings of all pages for the navigation of each page.
        tree = f"```{{toctree}}\n:hidden:\n:titlesonly:\n:maxdepth: 1\n\n{entries}\n```\n"
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n{tree}\n{rest}"
    source[0] = generated(text)


def _moved_links(text: str, old: Path, new: Path) -> str:
    """Return a text of a folder with links for another one, and to pages of the site in place of their files."""
    pages = other_texts()

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(old / link[1]))
        if target.is_relative_to(ROOT) and str(target.relative_to(ROOT)) in pages:
            target = DOCS / pages[str(target.relative_to(ROOT))]
        return f"]({os.path.relpath(target, new)}{link[2] or ''})"

    parts, end = [], 0
    for code in _FENCED.finditer(text):
        parts += [_LINK.sub(moved, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(moved, text[end:])])
