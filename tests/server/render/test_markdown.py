"""Documents: what Markdown becomes, and that nothing else can come of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.token import STANDARD_TYPES

from covalt_server.render import markdown
from covalt_server.render.markdown import rendered
from tests.server.fragments import Fragment

SECURITY = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "security"
STRINGS: list[str] = [
    string
    for name in ("json-in-script-strings.json", "blns.json")
    if (SECURITY / name).exists()
    for string in json.loads((SECURITY / name).read_text("utf-8"))
]
PIXEL = "data:image/png;base64,iVBORw0KGgo="

# Written down here again, and not taken from the module: this is the promise.
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
    """Assert that a fragment holds nothing but what our pages allow a document."""
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


AROUND = (
    "{}",
    "# {}",
    "[{0}]({0})",
    "[x](<{}>)",
    '[x](https://example.com "{}")',
    "![{0}]({0})",
    "<{}>",
    "`{}`",
    "```{0}\n{0}\n```",
    "| {0} |\n| --- |\n| {0} |",
    "> - {}",
    "[x]: {0}\n\n[x]\n\n![x]",
)


@pytest.mark.skipif(not STRINGS, reason="../shared is not here")
@pytest.mark.parametrize("around", AROUND)
def test_no_string_of_the_hostile_lists_leaves_the_allowed_elements(around: str) -> None:
    for string in STRINGS:
        check(rendered(around.replace("{0}", "{}").replace("{}", string)))


PIECES = st.sampled_from(
    [
        *(
            "<",
            ">",
            '"',
            "'",
            "`",
            "[",
            "]",
            "(",
            ")",
            "!",
            "|",
            "---",
            "\n",
            "\n\n",
            "#",
            " ",
            "*",
        ),
        *("javascript:", "data:", "JaVaScRiPt&colon;", "&#x6A;", "text/html,", "image/png;base64,"),
        *(
            "script",
            "img",
            "src=",
            "href=",
            "onerror=",
            "style=",
            "alert(1)",
            "//example.com",
            "\\",
        ),
        *("```", "    ", "\t", "<!--", "-->", "]]>", "\x00", "\ud800", "\u202e", "a", "1. "),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
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


def test_tables_and_struck_out_words_are_shown() -> None:
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
def test_links_that_would_run_or_read_something_lead_nowhere(link: str) -> None:
    assert all("href" not in attributes for attributes in check(rendered(link)).of("a"))


def test_links_to_elsewhere_tell_it_nothing_of_us() -> None:
    (link,) = check(rendered("[x](https://example.com/a?b&c)")).of("a")

    assert link == {"href": "https://example.com/a?b&c", "rel": "noopener noreferrer"}


def test_headings_have_ids_that_cannot_be_the_pages_own() -> None:
    html = rendered("# Über `das`!\n\n## a\n\n## a\n\n## a-1\n\n## ...\n\n[go](#über-das)")

    found = check(html)
    ids = [attributes["id"] for name, attributes in found.elements if name in HEADINGS]
    assert ids == ["doc-über-das", "doc-a", "doc-a-1", "doc-a-1-1", "doc-section"]
    assert found.of("a")[0]["href"] == "#doc-%C3%BCber-das"


def test_a_picture_in_the_document_is_shown() -> None:
    (picture,) = check(rendered(f'![a "dot"]({PIXEL} "t")')).of("img")

    assert picture == {"src": PIXEL, "alt": 'a "dot"', "title": "t"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("https://example.com/a.png", "picture on example.com: alt"),
        ("//example.com/a.png", "picture on example.com: alt"),
        ("a.png", "picture: alt"),
        ("/api/list_tools", "picture: alt"),
        ("data:image/svg+xml;base64,PHN2Zz4=", "![alt](data:image/svg+xml;base64,PHN2Zz4=)"),
        ("data:image/png;utf8,raw", "picture: alt"),
    ],
)
def test_any_other_picture_is_words_and_never_fetched(source: str, words: str) -> None:
    found = check(rendered(f"![alt]({source})"))

    assert found.of("img") == []
    assert found.text.strip() == words
    assert len(found.of("a")) == ("example.com" in source)


def test_a_picture_within_a_link_is_one_link() -> None:
    found = check(rendered("[![alt](https://img.example.com/b.svg)](https://example.com)"))

    assert [link["href"] for link in found.of("a")] == ["https://example.com"]
    assert found.of("span") == [{"class": "picture"}]


def test_code_is_coloured_in_the_language_it_names() -> None:
    html = rendered("```py\nx = '<b>'\n```\n\n```\nx = 1\n```\n\n    indented = 1\n")

    found = check(html)
    assert len(found.of("pre")) == 3
    assert '<span class="n">x</span>' in html
    assert "x = 1\n</code>" in html
    assert "indented = 1\n</code>" in html
    assert "number" not in html


def test_halves_of_characters_are_replaced() -> None:
    assert rendered("a\ud800") == "<p>a\N{REPLACEMENT CHARACTER}</p>\n"


def test_a_document_too_long_to_render_is_shown_as_it_was_written() -> None:
    html = rendered("# heading\n" * (markdown.MOST_RENDERED // 10 + 1))

    assert '<pre class="code"' in html
    assert "<h1" not in html


@pytest.mark.parametrize("text", ["# x", "![" * 100, "- a\n" * 10])
def test_a_document_that_takes_too_long_is_shown_as_it_was_written(text: str) -> None:
    assert rendered(text, patience_s=-1).startswith('<pre class="code"')
