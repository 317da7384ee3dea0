"""A user works with the preview server: from the printed URL to another branch."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import console_errors
from tests.journeys.terminal import Terminal

pytestmark = pytest.mark.rest


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A browser; whatever its console calls an error fails the test."""
    with chromium.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        errors = console_errors(page)
        yield page
        assert [one for one in errors if "401" not in one] == []


def call_a_tool(page: Page, name: str, **args: str) -> None:
    """Find a tool as people do, fill in its form and press its button."""
    page.wait_for_load_state()
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.get_by_role(
        "link", name=re.compile(rf"^(Tool )?{name}\b", re.IGNORECASE)
    ).first.click()  # another may be built in
    for field, value in args.items():
        page.get_by_label(re.compile(f"^{field}")).fill(value)
    page.get_by_role("button", name=re.compile("^(Run|Request approval)$")).last.click()


def test_without_the_token_there_is_only_the_way_in(page: Page, url: str) -> None:
    home, _, token = url.partition("/?token=")
    page.goto(home)
    page.get_by_label("Or paste the token here").fill(token)
    page.get_by_role("button", name="Open").click()

    expect(page.get_by_role("heading", name="demo")).to_be_visible()


def test_a_day_with_the_preview_server(page: Page, url: str, shared: Terminal) -> None:
    page.goto(url)
    home = url.partition("/?")[0]

    # A first chat, a table in it, and its chart inside the sandboxed frame.
    page.get_by_label("What is it about?").fill("Seattle's weather")
    page.get_by_role("button", name="Create a chat").click()
    expect(page.get_by_role("heading", name="Seattle's weather")).to_be_visible()
    call_a_tool(page, "Load Sample")
    expect(page.get_by_role("heading", name="Load sample")).to_be_visible()
    call_a_tool(page, "Summarize Table", path="weather.csv")
    chart = page.frame_locator("iframe[sandbox='allow-scripts']")
    expect(chart.locator("svg").first).to_be_visible()
    expect(chart.get_by_text("precipitation").first).to_be_visible()
    framed = page.locator("iframe.artifact")
    before = framed.evaluate("one => one.clientWidth")
    page.get_by_role("link", name="Fill the window").click()
    width, height = framed.evaluate("one => [one.clientWidth, one.clientHeight]")
    assert 500 < before < width
    assert height > 500
    page.get_by_role("link", name="Back to the call").click()

    # A command that a person has to approve.
    call_a_tool(page, "Run Command", command="wc -l weather.csv")
    expect(page.get_by_text("The call has not run.")).to_be_visible()
    assert "wc -l" in page.inner_text("main")
    page.get_by_role("button", name="Approve and run").click()
    expect(page.get_by_text("1462 weather.csv").first).to_be_visible()

    # A file is written, edited in the page and saved.
    call_a_tool(page, "Write File", path="notes.py", content="print('one')\n")
    assert "codemirror" not in page.evaluate("JSON.stringify(performance.getEntries())")
    page.get_by_role("link", name="Edit", exact=True).click()
    editor = page.locator(".cm-content")
    expect(page.locator("#editor-keys")).to_have_text(
        "Ctrl S saves. Tab indents; Esc and then Tab leaves the editor."
    )
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("print('two')")
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert shared.json("chat", "show", "c1")["source"] == "edit"

    # Another branch, another file on it, and back again.
    page.goto(f"{home}/chats/c1/history")
    aside = page.get_by_role("complementary")
    aside.get_by_label("Name", exact=True).fill("idea")
    aside.get_by_role("button", name="Branch", exact=True).click()
    expect(page.get_by_text("Created idea.")).to_be_visible()
    call_a_tool(page, "Write File", path="idea.txt", content="an idea")
    page.goto(f"{home}/chats/c1/files")
    expect(page.get_by_role("link", name="idea.txt", exact=True)).to_be_visible()
    page.goto(f"{home}/chats/c1/history")
    aside.get_by_role("combobox").select_option("main")
    aside.get_by_role("button", name="Switch", exact=True).click()
    expect(page.get_by_text("Switched to main.")).to_be_visible()
    page.goto(f"{home}/chats/c1/files")
    expect(page.get_by_role("link", name="notes.py", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="idea.txt", exact=True)).to_have_count(0)
    assert not (shared.folder / "data/chats/c1/workspace/idea.txt").exists()
