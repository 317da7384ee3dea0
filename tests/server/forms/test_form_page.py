"""A tool's form in a real browser, with JavaScript and without."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api_client import Api
from tests.live_server import Live, live

pytestmark = pytest.mark.rest


@pytest.fixture
def served(api: Api) -> Iterator[Live]:
    api.upload(("days.csv", b"day,celsius\n2026-01-01,3.5\n"))
    with live(api.root) as own:
        yield own


def test_a_form_is_filled_in_and_checked_without_a_reload(page: Page, served: Live) -> None:
    # The list of tools narrows while one types, and the URL follows.
    page.goto(f"{served.url}/tools?chat=c1")
    page.evaluate("window.same = true")
    page.get_by_label("Search tools").last.press_sequentially("select")
    expect(page.get_by_role("link", name="Run Command")).to_have_count(0)
    assert "q=select" in page.url
    assert page.evaluate("window.same")

    # A required text stops the form, lists grow and shrink, and both sides have the same value.
    page.goto(f"{served.url}/tools/data-lab:select_rows?chat=c1")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("this is required").first).to_be_visible()
    page.evaluate("window.same = true")
    page.get_by_label("path").fill("days.csv")
    filters = page.get_by_role("group", name="filters", exact=True)
    filters.get_by_role("button", name="Add").last.click()
    filters.get_by_label("column").fill("celsius")
    filters.get_by_label("value").last.fill("3")
    filters.get_by_role("button", name="Add").last.click()
    expect(filters.get_by_label("column")).to_have_count(2)
    filters.get_by_role("button", name="Remove").last.click()
    expect(filters.get_by_label("column")).to_have_count(1)
    page.get_by_role("button", name="JSON").click()
    box = page.get_by_label("Arguments as JSON")
    assert json.loads(box.input_value()) == {
        "query": {"path": "days.csv", "filters": [{"column": "celsius", "value": 3}]}
    }

    # Problems come and go while one types; an example fills the form.
    main = page.get_by_role("main")
    box.fill("{")
    expect(main).to_contain_text("this is not JSON")
    box.fill('{"query": {"path": 7}}')
    expect(main).to_contain_text("must be a text, not an integer")
    box.fill('{"query": {"path": "days.csv"}}')
    expect(main).not_to_contain_text("must be a text, not an integer")
    assert page.evaluate("window.same")
    assert not [path for path in served.paths if "/calls/" in path]
    page.goto(f"{served.url}/tools/app-builder:write_file?chat=c1")
    page.get_by_role("group", name="Examples").get_by_role("button").first.click()
    expect(page.get_by_label("path")).to_have_value("index.html")
    expect(page.get_by_label("content")).to_have_value("hi")


def test_the_choice_of_a_chat_shows_its_last_calls_without_a_reload(
    page: Page, served: Live, api: Api
) -> None:
    api.call("app-builder:read_file", path="days.csv")
    api.call("app-builder:read_file", path="days.csv")
    api.post("create_chat", chat_id="c2", title="Other")
    page.goto(f"{served.url}/tools/app-builder:read_file?chat=c2")
    page.evaluate("window.same = true")
    page.get_by_label("path").fill("typed.csv")
    page.get_by_label("In the chat").select_option("c1")

    expect(page.get_by_role("heading", name="Last calls in this chat")).to_be_visible()
    # The time is first, because a phone cuts the end of an option.
    texts = page.get_by_label("Compare", exact=True).locator("option").all_text_contents()
    assert all(re.fullmatch(r"[\d:]+( [AP]M)? · path: days\.csv", text) for text in texts)
    expect(page.get_by_label("path required")).to_have_value("typed.csv")
    assert page.url.endswith("?chat=c1")
    assert page.evaluate("window.same")
    page.reload()
    expect(page.get_by_label("In the chat")).to_have_value("c1")


def test_a_form_is_filled_in_and_sent_without_javascript(
    chromium: Browser, served: Live, api: Api
) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(served.door)
        page.goto(f"{served.url}/tools/data-lab:select_rows?chat=c1")
        page.get_by_label("path").fill("days.csv")
        page.get_by_label("output").fill("warm.csv")
        filters = page.get_by_role("group", name="filters", exact=True)
        filters.get_by_role("button", name="Add").last.click()
        filters.get_by_label("column").fill("celsius")
        filters.get_by_label("op").select_option(">")
        filters.get_by_label("value").last.fill("3")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("heading", name="Result success")).to_be_visible()

    assert (api.workspace / "warm.csv").read_text() == "day,celsius\n2026-01-01,3.5\n"
