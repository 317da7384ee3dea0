"""The editor of texts in the browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.api_client import Api
from tests.live_server import Live


@pytest.mark.browser
def test_the_editor_has_each_tag_of_html_as_often_as_it_was_typed(
    page: Page, served: Live, api: Api
) -> None:
    api.write("x.html", "hi")
    page.goto(f"{served.url}/chats/c1/files/x.html?view=edit")
    expect(page.locator(".cm-content")).to_be_focused()  # the page has the purpose to edit
    page.keyboard.press("Control+End")
    page.keyboard.type("<div>x</div>")
    expect(page.locator(".cm-content")).to_have_text("hi<div>x</div>")
