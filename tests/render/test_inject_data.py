"""Pages and their data: where the script goes, and that no data can take the page apart."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser

from covalt_git.render.inject_data import inject
from tests.tables import tables

TABLES = tables(__file__)

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared"
STRINGS = SHARED / "data" / "security" / "json-in-script-strings.json"
NAUGHTY: list[str] = json.loads(STRINGS.read_text("utf-8")) if STRINGS.exists() else []
PAGE = b"<!doctype html><html><head><title>t</title></head><body>b</body></html>"


def literal(data: Any) -> bytes:
    """Return the data that the script sets, in an otherwise unchanged page."""
    before, opened, rest = inject(PAGE, data).partition(b"<script>window.__TOOL_DATA__ = ")
    found, closed, after = rest.partition(b";</script>")
    assert (opened, closed) != (b"", b"")
    assert before + after == PAGE
    return found


def run(browser: Browser, scripts: list[bytes]) -> Any:
    """Return the values that JavaScript itself sees."""
    statements = "".join(f"seen.push({script.decode('ascii')});" for script in scripts)
    with browser.new_page() as page:
        page.set_content(f"<body><script>const seen = []; {statements}</script>")
        return json.loads(page.evaluate("JSON.stringify(seen)"))


@pytest.mark.requirement("covalt-5.4.2", "covalt-5.4.3")
@pytest.mark.parametrize("page", TABLES["script_goes_where_a_browser_sees_it_first"])
def test_script_goes_where_a_browser_sees_it_first(page: str) -> None:
    before, _, after = page.partition("|")

    assert inject((before + after).encode(), 1) == (
        f"{before}<script>window.__TOOL_DATA__ = 1;</script>{after}".encode()
    )


def test_page_keeps_its_bytes_in_any_encoding_that_holds_ascii() -> None:
    page = b"<head><title>caf\xe9 \xff\x80</title></head>\x00"

    assert (
        inject(page, "é")
        .replace(b"<script>window.__TOOL_DATA__ = ", b"")
        .replace(b'"\\u00e9";</script>', b"")
        == page
    )


@pytest.mark.parametrize("text", ["$&", "$'", "$`", "$1", "\\1", "\\g<0>", "</head>", "%s{0}"])
def test_data_is_not_a_replacement_pattern(text: str) -> None:
    assert json.loads(literal({"text": text})) == {"text": text}


def test_naughty_strings_come_back_and_are_plain_ascii() -> None:
    for text in [*NAUGHTY, '"__proto__":']:
        for data in (text, {text: [text]}):
            written = literal(data)

            assert written.isascii()
            assert not re.search(rb"[<>&]", written)
            if text != "__proto__":
                assert json.loads(written) == data


def test_javascript_sees_the_same_strings_and_members(chromium: Browser) -> None:
    data = {"__proto__": {"admin": True}, "text": '</script>"__proto__":', "a": [{"__proto__": 1}]}
    values = [*NAUGHTY, "\u2028\u2029", "__proto__", data]

    assert run(chromium, [literal(value) for value in values]) == values
    assert not re.search(rb"[<>&]", literal(data))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
MARKUP = st.lists(
    st.sampled_from(
        [
            *("<", ">", "</", "<!--", "-->", "--!>", "<!doctype", "html>", "<html>", "<head>"),
            *("</head>", "<body>", "<script>", "</script>", "<title>", "</title>", "<template>"),
            *("</template>", "<p", "a='", "'", '"', "=", "/", "a"),
        ]
    ),
    max_size=20,
).map("".join)


@given(data=JSON)
def test_any_data_comes_back(data: Any) -> None:
    written = literal(data)

    assert json.loads(written) == data
    assert written.isascii()
    assert not re.search(rb"[<>&]", written)


@given(page=MARKUP.map(str.encode) | st.binary())
def test_any_page_keeps_its_bytes_around_one_script(page: bytes) -> None:
    script = b"<script>window.__TOOL_DATA__ = 1;</script>"

    assert inject(page, 1).replace(script, b"", 1) == page


def test_large_hostile_page_is_read_in_linear_time() -> None:
    for part in (b"<a ", b"<!--", b"<script>", b"<a b='", b"<", b"</", b"<!", b"<script><!--"):
        page = part * 100_000

        assert len(inject(page, 1)) > len(page)
