"""Frames that take the keyboard while the user types elsewhere lose it again (static/focus.js)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.api_client import Api
from tests.live_server import Live
from tests.server.outside import Outside
from tests.server.render.page_tool import add_page_tool, show
from tests.server.render.test_frames import put_preview

pytestmark = pytest.mark.rest

Kind = Callable[[Api], AbstractContextManager[str]]

THIEF = """<!doctype html><html lang="en"><title>thief</title><input id="box"><script>
onmessage = () => setInterval(() => box.focus(), 20);
</script>"""
"""A page that takes the focus again and again, from when it gets a message."""


@contextmanager
def artifact(api: Api) -> Iterator[str]:
    """Yield the path of a page with an artifact of a tool."""
    add_page_tool(api.root)
    yield f"/chats/c1/calls/{show(api, THIEF)}"


@contextmanager
def preview(api: Api) -> Iterator[str]:
    """Yield the path of a page with a preview of the chat's files."""
    api.write("index.html", THIEF)
    yield "/chats/c1/preview/index.html"


@contextmanager
def tool_server(api: Api) -> Iterator[str]:
    """Yield the path of a page with a frame of a tool's own server."""
    with Outside() as tool:
        tool.pages["/app"] = ({"Content-Type": "text/html"}, THIEF.encode())
        yield f"/chats/c1/calls/{put_preview(api, tool.port, 'localhost')}"


def box(page: Page, kind: Kind) -> Locator:
    """Return the field of the page that takes the focus; the page of a tool's server is in a frame of ours."""
    frame = page.frame_locator("iframe")
    return (frame.frame_locator("iframe") if kind is tool_server else frame).locator("#box")


@pytest.mark.parametrize("kind", [artifact, preview, tool_server])
def test_a_frame_that_takes_the_keyboard_again_and_again_is_hidden(
    api: Api, served: Live, page: Page, kind: Kind
) -> None:
    with kind(api) as path:
        page.goto(served.url + path)
        field = page.get_by_label("Search everything")
        field.focus()
        box(page, kind).evaluate("() => postMessage('start', '*')")

        expect(
            page.get_by_text("This page is hidden, because it took the keyboard")
        ).to_be_visible()
        expect(field).to_be_focused()
        page.keyboard.type("my words")
        expect(field).to_have_value("my words")
        expect(page.get_by_role("button", name="Show it again")).to_be_visible()


@pytest.mark.parametrize("kind", [artifact, preview])
def test_a_user_who_clicks_into_a_frame_types_there(
    api: Api, served: Live, page: Page, kind: Kind
) -> None:
    with kind(api) as path:
        page.goto(served.url + path)
        page.get_by_label("Search everything").focus()
        box(page, kind).click()
        page.keyboard.type("in the app")

        expect(box(page, kind)).to_have_value("in the app")
        expect(page.get_by_label("Search everything")).to_have_value("")
