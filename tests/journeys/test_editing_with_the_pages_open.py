"""An author edits with a page open: `covalt-git dev` reports the errors, and reloads the page."""

import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import console_errors, violations
from tests.journeys.terminal import Terminal
from tests.journeys.test_live_pages import impatient

PROBLEM = "data-lab has errors, so its last valid version is shown"


@pytest.fixture(scope="module")
def url(shared: Terminal) -> Iterator[str]:
    with shared.serving("dev", end=signal.SIGINT) as url:
        yield url


@pytest.fixture
def page(context: BrowserContext, url: str) -> Iterator[Page]:
    """A browser at the printed address; whatever its console calls an error fails the test."""
    page = context.new_page()
    errors = console_errors(page)
    page.goto(url)
    yield page
    # Broken toolsets answer with an error, which the console also reports.
    assert [one for one in errors if not one.startswith("Failed to load resource")] == []


def edit(project: Terminal, old: str, new: str) -> None:
    manifest = project.folder / "toolsets/data-lab/toolset.yaml"
    text = manifest.read_text(encoding="utf-8")
    assert old in text
    manifest.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_save_shows_its_problem_on_every_page_until_it_is_fixed(
    page: Page, shared: Terminal
) -> None:
    home = page.url
    page.goto(f"{home}tools")
    edit(shared, "\ndescription:", "\ndescriptoin:")

    expect(page.get_by_text(PROBLEM)).to_be_visible()
    expect(
        page.get_by_text("toolsets/data-lab/toolset.yaml:9: unknown key 'descriptoin'")
    ).to_be_visible()
    expect(page.get_by_role("link", name="Summarize Table", exact=True)).to_be_visible()
    assert violations(page) == []
    page.goto(f"{home}chats")
    expect(page.get_by_text(PROBLEM)).to_be_visible()
    page.locator("#live").get_by_role("link", name="data-lab").click()
    page.wait_for_url("**/toolsets/data-lab")

    edit(shared, "\ndescriptoin:", "\ndescription:")

    expect(page.get_by_text(PROBLEM)).to_have_count(0)
    expect(page.get_by_text("unknown key")).to_have_count(0)


def test_a_page_loads_again_by_itself_and_stays_where_it_was_scrolled_to(
    page: Page, shared: Terminal
) -> None:
    page.goto(f"{page.url}toolsets/data-lab/files/toolset.yaml")
    page.evaluate("scrollTo(0, 300)")
    page.evaluate("window.old = true")

    edit(shared, "# Data Lab ", "# Data Lab really ")

    expect(page.get_by_text("Data Lab really ")).to_have_count(1)
    assert page.evaluate("window.old") is None
    page.wait_for_function("scrollY === 300")


@pytest.mark.rest
def test_a_message_is_still_there_after_a_reload(page: Page, shared: Terminal) -> None:
    page.route("**/live.js*", impatient)
    page.goto(f"{page.url}toolsets/data-lab")
    message = page.get_by_text("Disabled. Its tools cannot be called.")
    page.route("**/api/events*", lambda route: route.abort())
    page.get_by_role("button", name="Disable").click()
    expect(message).to_be_visible()
    page.wait_for_load_state()  # the event that is expected below is that of the page loaded again
    edit(shared, "# Data Lab ", "# Data Lab also ")

    with page.expect_event("load"):
        page.unroute("**/api/events*")

    expect(message).to_be_visible()
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("button", name="Disable")).to_be_visible()


def test_typed_text_is_kept_and_the_page_shows_that_it_is_outdated(
    page: Page, shared: Terminal
) -> None:
    page.goto(f"{page.url}tools/data-lab:summarize")
    box = page.get_by_label(re.compile("^path"))
    box.fill("weather.csv")

    edit(shared, "\ndescription:", "\ndescriptoin:")

    expect(page.get_by_text("The project has changed")).to_be_visible()
    expect(page.get_by_text(PROBLEM)).to_be_visible()
    expect(box).to_have_value("weather.csv")
    edit(shared, "\ndescriptoin:", "\ndescription:")
    expect(page.get_by_text(PROBLEM)).to_have_count(0)
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_text("The project has changed")).to_have_count(0)
    expect(page.get_by_label(re.compile("^path"))).to_have_value("")


@pytest.mark.rest
def test_invalid_settings_are_reported_too_and_the_page_comes_back(
    page: Page, shared: Terminal
) -> None:
    settings = shared.folder / "covalt.yaml"
    sound = settings.read_text(encoding="utf-8")
    page.goto(f"{page.url}toolsets")

    with page.expect_response(re.compile("/toolsets$")):
        settings.write_text(sound.replace("version: 1", "version: 9"), encoding="utf-8")
    expect(page.locator("#live").get_by_text("covalt.yaml has errors")).to_be_visible()
    settings.write_text(sound, encoding="utf-8")

    expect(page.get_by_role("link", name="Data Lab", exact=True)).to_be_visible()
