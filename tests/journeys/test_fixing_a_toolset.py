"""A user breaks a toolset, fixes it on its pages, edits its page, and never needs a command."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import console_errors, violations
from tests.journeys.terminal import Terminal


@pytest.fixture
def page(context: BrowserContext, url: str) -> Iterator[Page]:
    """A browser at the printed address; whatever its console calls an error fails the test."""
    page = context.new_page()
    errors = console_errors(page)
    page.goto(url)
    yield page
    assert errors == []


def type_at_end(page: Page, text: str) -> None:
    """Type at the end of the editor."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(text)


@pytest.mark.rest
def test_a_broken_toolset_is_fixed_and_its_tool_runs(page: Page, shared: Terminal) -> None:
    manifest = shared.folder / "toolsets/app-builder/toolset.yaml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("entrypoint", "entrypont", 1), encoding="utf-8")

    page.get_by_role("link", name="Toolsets", exact=True).click()
    page.get_by_role("link", name="App Builder").click()
    page.get_by_role("link", name=re.compile(r"^toolsets\S+toolset\.yaml:\d+:\d+")).click()
    expect(page.locator(".line.marked mark")).to_have_text("entrypont")
    expect(page.locator(".problem-note")).to_contain_text("unknown key 'entrypont'")
    page.locator(".problem-note").get_by_role("link", name="Edit").first.click()
    expect(page.locator(".cm-content")).to_be_focused()
    expect(page.locator(".cm-activeLine")).to_contain_text("entrypont")
    page.keyboard.press("Shift+End")  # from the cursor, which is at the column of the problem
    assert page.evaluate("getSelection().toString()").startswith("entrypont")
    page.go_back()
    page.get_by_role("link", name="Fix...").first.click()
    expect(page.locator(".diff .add")).to_contain_text("entrypoint: tools.files:write_file")
    expect(page.get_by_text("none left")).to_be_visible()
    page.get_by_role("button", name="Fix it").click()
    expect(page.get_by_text("Fixed.")).to_be_visible()
    expect(page.locator(".line.marked")).to_have_count(0)
    assert manifest.read_text(encoding="utf-8") == text

    # A call of the tool finds it fixed.
    page.goto(re.sub(r"(:\d+)/.*", r"\1/tools/app-builder:write_file", page.url))
    page.get_by_label(re.compile("^path")).fill("index.html")
    page.get_by_label(re.compile("^content")).fill("<h1>Hi</h1>")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("success"))).to_be_visible()


@pytest.mark.rest
def test_a_page_is_edited_beside_its_preview(page: Page, shared: Terminal) -> None:
    file = shared.folder / "toolsets/data-lab/artifacts/chart.html"
    text = file.read_text(encoding="utf-8")
    page.goto(re.sub(r"(:\d+)/.*", r"\1/toolsets/data-lab/files/artifacts/chart.html", page.url))
    page.get_by_role("link", name="Edit", exact=True).click()
    shown = page.frame_locator("iframe[name=typed-page]")
    expect(shown.get_by_text("Nothing to draw")).to_be_visible()

    type_at_end(page, "<p>A typed line</p>\n")
    expect(shown.get_by_text("A typed line")).to_be_visible()
    assert file.read_text(encoding="utf-8") == text

    page.keyboard.press("Control+s")
    expect(page.get_by_role("heading", name="Effect of this change")).to_be_visible()
    expect(page.locator(".diff .add")).to_contain_text("A typed line")
    assert violations(page) == []
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert file.read_text(encoding="utf-8") == f"{text}<p>A typed line</p>\n"
