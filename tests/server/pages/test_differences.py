"""Differences in the browser: lines that copy as text, hidden lines, both sides, and images."""

import pytest
from playwright.sync_api import Page

from tests.api_client import Api
from tests.live_server import Live

OLD = [f"line {number}" for number in range(1, 91)]
PNG = [
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        f"0000000d49444154789c63{pixel}0000000049454e44ae426082"
    )
    for pixel in ("f8cfc0f01f00050001ff", "6060f8ff1f00030201ff")
]


@pytest.fixture
def changed(api: Api) -> Api:
    """A chat with one commit that changes lines 40 and 41 of a long file, a lock file and an image."""
    new = [*OLD[:39], "line forty", "  added\tüñ", *OLD[40:]]
    for version in (
        {"long.txt": "\n".join(OLD).encode(), "uv.lock": b"1\n", "dot.png": PNG[0]},
        {"long.txt": "\n".join(new).encode(), "uv.lock": b"2\n", "dot.png": PNG[1]},
    ):
        for path, content in version.items():
            (api.workspace / path).write_bytes(content)
        api.post("save_edits", chat_id="c1")
    return api


def copied(page: Page, lines: str) -> str:
    """Select elements from the first to the last, and return what the browser would copy."""
    select = """selector => {
      const found = [...document.querySelectorAll(selector)];
      const range = document.createRange();
      range.setStartBefore(found[0]);
      range.setEndAfter(found.at(-1));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return getSelection().toString();
    }"""
    return str(page.evaluate(select, lines))


@pytest.mark.usefixtures("changed")
def test_a_copied_selection_is_the_text_of_the_file(page: Page, served: Live) -> None:
    page.goto(f"{served.url}/chats/c1/states/HEAD")
    shown = page.locator("#file-2 .diff")

    for way, numbers in (("↑", range(17, 37)), ("↓", range(44, 64))):
        shown.get_by_role("link", name=f"{way} 20 more lines").click()
        shown.get_by_text(f"line {numbers[0]}").first.wait_for()
    both = [*OLD[:39], "line 40", "line forty", "  added\tüñ", *OLD[40:]]
    assert copied(page, "#file-2 .line").splitlines() == both[16:65]
    shown.get_by_role("link", name="↑ 16 more lines").click()
    shown.get_by_text("line 11").first.wait_for()
    shown.get_by_role("link", name="↓ 20 more lines").click()
    shown.get_by_text("line 83").first.wait_for()
    shown.get_by_role("link", name="↓ 20 more lines").click()
    shown.get_by_text("line 90").first.wait_for()
    assert copied(page, "#file-2 .line").splitlines() == both
    assert shown.get_by_role("link").count() == 0
    assert page.locator("#file-2 mark").all_text_contents() == ["40", "forty"]
    assert page.locator("#file-3 details").get_attribute("open") is None  # a lock file
    naturals = "images => images.map(image => image.complete && image.naturalWidth)"
    assert page.locator("#file-1 img").evaluate_all(naturals) == [1, 1]

    page.goto(f"{served.url}/chats/c1/states/HEAD?view=split")
    sides = page.locator("#file-2 .code")
    tops = "rows => rows.map(row => row.getBoundingClientRect().top)"
    assert sides.nth(0).locator(".line").evaluate_all(tops) == sides.nth(1).locator(
        ".line"
    ).evaluate_all(tops)
    assert copied(page, "#file-2 .code:first-child .line").splitlines() == OLD[36:43]
