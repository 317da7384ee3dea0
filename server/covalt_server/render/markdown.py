"""Markdown documents as HTML that is safe in our own pages, also from third parties.

CommonMark with tables and strikethrough.  HTML in a document is shown as text, and the output is sanitized in
any case.  :mod:`.code` highlights code blocks.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markupsafe import Markup, escape
from pygments.token import STANDARD_TYPES

from covalt_git.text import display
from covalt_server.render import code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.ruler import StateBase
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

PREFIX = "doc-"
"""Prefix of the ids of a document, so that they do not collide with the page's ids."""

MOST_RENDERED = 256 << 10
"""Characters."""

PATIENCE_S = 2.0
"""Time limit of one document, in seconds; for a lone bracket the parser may scan the rest of the text."""

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_TAGS = {
    *("a", "blockquote", "br", "code", "div", "em", "hr", "img", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", *_HEADINGS),
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "div": {"tabindex"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "pre": {"tabindex"},
    **{heading: {"id"} for heading in _HEADINGS},
}
_ALIGNED = {"center", "right"}
_CLASSES = {
    "a": {"picture"},
    "div": {"wide"},
    "p": {"hint"},
    "pre": {"code"},
    "span": {*STANDARD_TYPES.values(), "picture", "unseen-character"} - {""},
    "td": _ALIGNED,
    "th": _ALIGNED,
}
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
_HOST = re.compile(r"(?:https?:)?//([^/?#]+)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_IN_SLUGS = re.compile(r"[^\w\- ]")


def rendered(text: str, *, patience_s: float = PATIENCE_S) -> Markup:
    """Return a Markdown text as sanitised HTML, for an element of class ``document``.

    A text that is too long, or exceeds the parser's time limit, is shown as plain text.
    """
    # The sanitizer takes UTF-8, in which halves of surrogate pairs do not exist.
    text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(text) > MOST_RENDERED:
        return code.highlighted(text, language="text", numbered=False)
    parser = _parser()
    env = {"until": time.monotonic() + patience_s}
    try:
        tokens = parser.parse(text, env)
    except TimeoutError:
        return code.highlighted(text, language="text", numbered=False)
    _name_headings(tokens)
    for token in tokens:
        _adapt(token)
    # Escaped before it is sanitized, so that the marks of hidden characters are checked as well.
    html = display.running(parser.renderer.render(tokens, parser.options, env))
    return Markup(  # noqa: S704 - sanitised right here
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=_filter_attribute,
            allowed_classes=_CLASSES,
            url_schemes={"http", "https", "mailto", "data"},
            link_rel="noopener noreferrer",
        )
    )


def _filter_attribute(tag: str, attribute: str, value: str) -> str | None:
    """Allow ``data:`` URLs for images only, and no other URLs of images, so that nothing is downloaded."""
    if tag == "img" and attribute == "src":
        return value if _PICTURE.fullmatch(value) else None
    if attribute == "href" and value.strip().lower().startswith("data:"):
        return None
    return value


class _Renderer(RendererHTML):
    """Renderer with our changes to CommonMark's."""

    def fence(
        self,
        tokens: Sequence[Token],
        idx: int,
        options: OptionsDict,  # noqa: ARG002 - the signature is the renderer's
        env: EnvType,
    ) -> str:
        """Highlight code in the language that the first word names."""
        language = (tokens[idx].info.split() or ["text"])[0]
        return str(
            code.highlighted(
                tokens[idx].content, language=language, numbered=False, until=env["until"]
            )
        )

    code_block = fence
    """Render indented code, which has no language."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Show an embedded image; an external image becomes a link with its host."""
        token = tokens[idx]
        source = str(token.attrGet("src") or "")
        if _PICTURE.fullmatch(source):
            return super().image(tokens, idx, options, env)
        alt = self.renderInlineAsText(token.children or (), options, env)
        host = _HOST.match(source)
        text = f"image on {host[1]}: {alt}" if host else f"image: {alt}"
        if not host or token.meta.get("linked"):
            return f'<span class="picture">{escape(text)}</span>'
        return f'<a class="picture" href="{escape(source)}">{escape(text)}</a>'

    def table_open(self, *_: Any) -> str:
        """Wrap a table so that it can scroll sideways, also by keyboard."""
        return '<div class="wide" tabindex="0"><table>'

    def table_close(self, *_: Any) -> str:
        """Close the wrapper of ``table_open``."""
        return "</table></div>\n"


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.before("table", "in_time", _in_time)
    parser.inline.ruler.before("text", "in_time", _in_time)
    return parser


def _in_time(state: StateBase, *_: Any) -> bool:
    """Stop the parser at its time limit; this is a rule of the parser that never matches."""
    if time.monotonic() > state.env["until"]:
        raise TimeoutError
    return False


def _name_headings(tokens: Sequence[Token]) -> None:
    """Give headings GitHub's anchors, so that links for GitHub work."""
    taken: dict[str, int] = {}
    for opened, inline in pairwise(tokens):
        if opened.type != "heading_open":
            continue
        words = "".join(child.content for child in inline.children or ())
        name = slug = _NOT_IN_SLUGS.sub("", words.lower()).strip().replace(" ", "-") or "section"
        while name in taken:
            taken[slug] += 1
            name = f"{slug}-{taken[slug]}"
        taken[name] = 0
        opened.attrSet("id", PREFIX + name)


def _adapt(token: Token) -> None:
    """Replace the alignment of table cells by classes, and prefix the targets of links within the document."""
    # Our policy blocks inline styles, and the sanitizer removes them.
    aligned = str(token.attrs.pop("style", "")).removeprefix("text-align:")
    if aligned in _ALIGNED:
        token.attrSet("class", aligned)
    linked = False
    for child in token.children or ():
        if child.type == "link_open":
            linked = True
            href = str(child.attrGet("href") or "")
            if href.startswith("#"):
                child.attrSet("href", f"#{PREFIX}{href[1:]}")
        elif child.type == "link_close":
            linked = False
        elif child.type == "image":
            # HTML has no link within a link, and a browser would close the outer one
            # (test_an_image_in_a_link_is_one_link).
            child.meta["linked"] = linked
