"""The editor of texts in the browser."""

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.api_client import Api
from tests.examples import rest
from tests.live_server import Live


@pytest.mark.rest
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


@pytest.mark.browser
@pytest.mark.parametrize(
    ("address", "line", "col"),
    [
        rest("/toolsets/data-lab/edit/tools/lab.py", 2, 4),
        rest("/config/edit", 1, 1),
    ],
)
def test_an_editor_of_the_project_has_the_focus_and_its_caret_at_the_place_that_was_asked_for(
    page: Page, served: Live, root: Path, address: str, line: int, col: int
) -> None:
    text = "".join(
        f"# 🍎🍐🍊 {number}\n" for number in range(400)
    )  # each fruit has two UTF-16 units
    (root / "toolsets/data-lab/tools/lab.py").write_text(text)
    page.goto(f"{served.url}{address}" + (f"?line={line}&col={col}" if line > 1 else ""))
    content = page.locator(".cm-content")
    expect(content).to_be_focused()
    page.keyboard.type("X")
    expected = "# 🍎X🍐🍊 1" if line > 1 else "Xversion: 1"
    expect(content.locator(".cm-line").nth(line - 1)).to_have_text(expected)
    # Seen, and read to a screen reader, before the text.
    keys = page.locator(f"#{content.get_attribute('aria-describedby')}")
    expect(keys).to_be_in_viewport()
    expect(keys).to_contain_text("Esc and then Tab leaves the editor")


@pytest.mark.browser
def test_a_text_that_the_browser_puts_back_does_not_overwrite_a_later_change(
    context: BrowserContext, served: Live, api: Api
) -> None:
    api.write("plan.txt", "first")
    page = context.new_page()  # whose console has the refused request
    page.goto(served.door)
    page.goto(f"{served.url}/chats/c1/files/plan.txt?view=edit")
    expect(page.locator(".cm-content")).to_be_focused()
    page.keyboard.type("mine ")
    api.write("plan.txt", "theirs")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("has been changed since you read it")).to_be_visible()
    page.go_back()
    expect(page.locator(".cm-content")).to_have_text("mine first")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("has been changed since you read it")).to_be_visible()
    assert (api.workspace / "plan.txt").read_text() == "theirs"
