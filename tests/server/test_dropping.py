"""Files dropped on a page, in a real browser."""

import base64

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api_client import Api
from tests.live_server import Live
from tests.server.sample_bundle import DEMO


def drop(page: Page, name: str, content: bytes) -> None:
    """Drop a file on the page."""
    page.evaluate(
        """([name, text]) => {
            const bytes = Uint8Array.from(atob(text), one => one.charCodeAt(0));
            const dropped = new DataTransfer();
            dropped.items.add(new File([bytes], name));
            document.body.dispatchEvent(
                new DragEvent("drop", {dataTransfer: dropped, bubbles: true, cancelable: true}));
        }""",
        [name, base64.b64encode(content).decode()],
    )


@pytest.mark.rest
def test_a_dropped_bundle_is_reviewed(page: Page, served: Live) -> None:
    page.goto(f"{served.url}/imports")
    expect(page.get_by_text("Or drop it anywhere on this page.")).to_be_visible()
    drop(page, "demo.zip", DEMO)
    page.wait_for_url("**/imports/*")

    expect(page.get_by_role("heading", name="Permissions")).to_be_visible()


@pytest.mark.rest
def test_what_needs_a_mouse_or_a_keyboard_is_not_shown_on_a_phone(
    chromium: Browser, api: Api, served: Live
) -> None:
    api.upload(("a.txt", b"x"))
    with chromium.new_context(has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(served.door)
        for path, words in (
            ("/chats/c1/files", "Or drop files anywhere on this page."),
            ("/chats/c1/files/a.txt?view=edit", "indents;"),
        ):
            page.goto(f"{served.url}{path}")
            expect(page.get_by_text(words)).to_be_hidden()
            expect(page.get_by_text(words)).to_have_count(1)


def test_a_file_dropped_on_a_workspace_is_uploaded_and_its_name_is_escaped(
    api: Api, page: Page, served: Live
) -> None:
    page.goto(f"{served.url}/chats/c1/files")
    expect(page.get_by_text("Or drop files anywhere on this page.")).to_be_visible()
    drop(page, "a\u2800b.txt", b"hello")
    expect(page.get_by_role("main")).to_contain_text("Uploaded a\\u{2800}b.txt")
    assert "\u2800" not in page.get_by_role("main").inner_text()
    drop(page, "a\u2800b.txt", b"another")
    expect(page.locator("[data-sent]")).to_have_text("Uploaded.")

    assert (api.workspace / "a\u2800b.txt").read_bytes() == b"hello"
    expect(page.locator("#last")).to_contain_text("a\\u{2800}b.txt already existed")
    assert "\u2800" not in page.get_by_role("main").inner_text()
