"""A tool's form and the picker in a real browser: what goes without a reload, and without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api_client import Api
from tests.live_server import Live, live


@pytest.fixture
def served(api: Api) -> Iterator[Live]:
    api.upload(("days.csv", b"day,celsius\n2026-01-01,3.5\n"))
    with live(api.root) as own:
        yield own


def open_form(page: Page, served: Live, tool_id: str) -> None:
    page.goto(f"{served.url}/tools/{tool_id}?chat=c1")


def arguments(page: Page) -> object:
    """Return the arguments as the JSON side has them."""
    page.get_by_role("button", name="JSON").click()
    text = page.get_by_label("Arguments as JSON").input_value()
    return json.loads(text)


def test_lists_grow_and_shrink_without_a_reload(page: Page, served: Live) -> None:
    open_form(page, served, "data-lab:select_rows")
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

    assert page.evaluate("window.same")
    assert arguments(page) == {
        "query": {"path": "days.csv", "filters": [{"column": "celsius", "value": 3}]}
    }


def test_an_example_is_one_click_away(page: Page, served: Live) -> None:
    open_form(page, served, "app-builder:write_file")

    page.get_by_role("group", name="Examples").get_by_role("button").first.click()

    expect(page.get_by_label("path")).to_have_value("index.html")
    expect(page.get_by_label("content")).to_have_value("hi")


def test_what_is_wrong_is_told_while_one_types_and_gone_when_it_is_right(
    page: Page, served: Live
) -> None:
    open_form(page, served, "app-builder:list_files")
    page.get_by_role("button", name="JSON").click()
    box = page.get_by_label("Arguments as JSON")

    box.fill('{"path": 7}')
    expect(page.get_by_role("main")).to_contain_text("must be a text, not an integer")
    box.fill("{")
    expect(page.get_by_role("main")).to_contain_text("this is not JSON")
    box.fill("{}")
    expect(page.get_by_role("main")).not_to_contain_text("this is not JSON")


def test_a_required_line_that_was_forgotten_is_asked_for_before_anything_runs(
    page: Page, served: Live
) -> None:
    open_form(page, served, "data-lab:report")

    page.get_by_role("button", name="Run").click()

    assert page.evaluate("document.querySelector('form.form').checkValidity()") is False
    assert page.url.endswith("/tools/data-lab:report?chat=c1")
    assert not [path for path in served.paths if "/calls/" in path]


def test_the_picker_narrows_while_one_types_and_the_address_follows(
    page: Page, served: Live
) -> None:
    page.goto(f"{served.url}/tools")
    page.evaluate("window.same = true")

    page.get_by_label("Search tools").last.press_sequentially("report")

    expect(page.get_by_role("link", name="Write Report")).to_be_visible()
    expect(page.get_by_role("link", name="Run Command")).to_have_count(0)
    expect(page).to_have_url(f"{served.url}/tools?q=report")
    assert page.evaluate("window.same")


def test_a_form_is_filled_in_and_sent_without_javascript(
    chromium: Browser, served: Live, root: Path
) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(served.door)
        open_form(page, served, "data-lab:select_rows")
        page.get_by_label("path").fill("days.csv")
        page.get_by_label("output").fill("warm.csv")
        filters = page.get_by_role("group", name="filters", exact=True)
        filters.get_by_role("button", name="Add").last.click()
        filters.get_by_label("column").fill("celsius")
        filters.get_by_label("op").select_option(">")
        filters.get_by_label("value").last.fill("3")
        page.get_by_role("button", name="Run").click()

        expect(page.get_by_role("heading", name="data-lab:select_rows success")).to_be_visible()

    assert (
        root / "data/chats/c1/workspace/warm.csv"
    ).read_text() == "day,celsius\n2026-01-01,3.5\n"
