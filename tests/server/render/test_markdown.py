"""Documents: the elements that Markdown becomes, and no others."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.token import STANDARD_TYPES

from covalt_server.render import markdown
from covalt_server.render.markdown import rendered
from tests.examples import examples
from tests.server.fragments import Fragment

PIXEL = "data:image/png;base64,iVBORw0KGgo="

# The promise itself, so it is not taken from the module.
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
ALLOWED: dict[str, set[str]] = {
    "a": {"href", "title", "rel", "class"},
    "div": {"class", "tabindex"},
    "img": {"src", "alt", "title"},
    "ol": {"start"},
    "p": {"class"},
    "pre": {"class", "tabindex"},
    "span": {"class"},
    "td": {"class"},
    "th": {"class"},
    **{heading: {"id"} for heading in HEADINGS},
    **{
        plain: set()
        for plain in (
            *("blockquote", "br", "code", "em", "hr", "li", "s", "strong", "table"),
            *("tbody", "thead", "tr", "ul"),
        )
    },
}
CLASSES = {
    *STANDARD_TYPES.values(),
    *("code", "wide", "right", "center", "picture", "hint", "unseen-character"),
}
SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)


def check(html: str) -> Fragment:
    """Assert that a fragment has only what our pages allow a document."""
    found = Fragment(html)
    assert found.others == []
    for name, attributes in found.elements:
        assert name in ALLOWED
        assert set(attributes) <= ALLOWED[name]
        assert set((attributes.get("class") or "").split()) <= CLASSES
        if "id" in attributes:
            assert (attributes["id"] or "").startswith("doc-")
        if name == "a":
            assert attributes["rel"] == "noopener noreferrer"
            scheme = SCHEME.match(attributes.get("href") or "")
            assert scheme is None or scheme[1].lower() in {"http", "https", "mailto"}
        if name == "img":
            assert re.match(r"data:image/(png|jpeg|gif|webp);base64,", attributes["src"] or "")
    return found


PIECES = [
    *"<>\"'`[]()!|#*\\a",
    *("---", "```", "1."),
    *("javascript:", "data:", "JaVaScRiPt&colon;", "&#x6A;", "text/html,", "image/png;base64,"),
    *("script", "img", "src=", "href=", "onerror=", "style=", "alert(1)", "//example.com"),
    *("<!--", "-->", "]]>"),
]
WHITE = ["\n", "\n\n", " ", "    ", "\t", "\0", "\ud800", "\u202e"]


@given(st.lists(st.sampled_from([*PIECES, *WHITE]), max_size=40).map("".join))
@settings(max_examples=examples(150))
def test_no_text_leaves_the_allowed_elements(text: str) -> None:
    check(rendered(text))


@pytest.mark.parametrize(
    "text",
    [
        *("a\u202eb", "a&#8238;b", "`a\u202eb`", "# a\u202eb", "[a\u202eb](https://a.example)"),
        *(f'![a\u202eb]({PIXEL} "a\u202eb")', '[x](https://a.example "a\u202eb")'),
    ],
)
def test_hidden_characters_are_escaped_wherever_they_are_shown(text: str) -> None:
    html = rendered(text)

    assert "\u202e" not in html
    assert "a\\u{202e}b" in html


def test_html_in_a_document_is_text() -> None:
    found = check(rendered('<b onclick="x()">bold</b>\n\n<script>alert(1)</script>'))

    assert [name for name, _ in found.elements] == ["p", "p"]
    assert found.text.strip() == '<b onclick="x()">bold</b>\n<script>alert(1)</script>'


def test_tables_and_deleted_words_are_shown() -> None:
    found = check(rendered("| a | b | c |\n| - | :-: | --: |\n| 1 | 2 | ~~3~~ |\n"))

    assert found.elements[:2] == [("div", {"class": "wide", "tabindex": "0"}), ("table", {})]
    assert found.of("td") == [{}, {"class": "center"}, {"class": "right"}]
    assert found.of("s") == [{}]


@pytest.mark.parametrize(
    "link",
    [
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "[x](data:text/html,x)",
        f"[x]({PIXEL})",
        "<javascript:alert(1)>",
        "[x](blob:x)",
    ],
)
def test_links_that_run_or_read_something_have_no_target(link: str) -> None:
    assert all("href" not in attributes for attributes in check(rendered(link)).of("a"))


def test_links_to_other_sites_send_no_referrer() -> None:
    (link,) = check(rendered("[x](https://example.com/a?b&c)")).of("a")

    assert link == {"href": "https://example.com/a?b&c", "rel": "noopener noreferrer"}


def test_ids_of_headings_are_not_those_of_the_page() -> None:
    html = rendered("# Über `das`!\n\n## a\n\n## a\n\n## a-1\n\n## ...\n\n[go](#über-das)")

    found = check(html)
    ids = [attributes["id"] for name, attributes in found.elements if name in HEADINGS]
    assert ids == ["doc-über-das", "doc-a", "doc-a-1", "doc-a-1-1", "doc-section"]
    assert found.of("a")[0]["href"] == "#doc-%C3%BCber-das"


def test_an_image_in_the_document_is_shown() -> None:
    (picture,) = check(rendered(f'![a "dot"]({PIXEL} "t")')).of("img")

    assert picture == {"src": PIXEL, "alt": 'a "dot"', "title": "t"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("https://example.com/a.png", "image on example.com: alt"),
        ("//example.com/a.png", "image on example.com: alt"),
        ("a.png", "image: alt"),
        ("/api/list_tools", "image: alt"),
        ("data:image/svg+xml;base64,PHN2Zz4=", "![alt](data:image/svg+xml;base64,PHN2Zz4=)"),
        ("data:image/png;utf8,raw", "image: alt"),
    ],
)
def test_other_images_are_words_and_never_fetched(source: str, words: str) -> None:
    found = check(rendered(f"![alt]({source})"))

    assert found.of("img") == []
    assert found.text.strip() == words
    assert len(found.of("a")) == ("example.com" in source)


def test_an_image_in_a_link_is_one_link() -> None:
    found = check(rendered("[![alt](https://img.example.com/b.svg)](https://example.com)"))

    assert [link["href"] for link in found.of("a")] == ["https://example.com"]
    assert found.of("span") == [{"class": "picture"}]


def test_a_document_too_large_or_too_slow_is_shown_as_written() -> None:
    large = rendered("# heading\n" * (markdown.MOST_RENDERED // 10 + 1))
    slow = [rendered(text, patience_s=-1) for text in ("# x", "![" * 100, "- a\n" * 10)]

    for html in (large, *slow):
        assert '<pre class="code"' in html
        assert "<h1" not in html
