"""Frames of artifacts: they are as high as their content, and of a fixed height without scripts."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.api_client import Api
from tests.live_server import Live, live
from tests.server.render.page_tool import add_page_tool, show

TALL = "<!doctype html><body style='margin: 0'><p style='margin: 0; height: 1234px'>tall"


@pytest.fixture(scope="module")
def api(shared: Api) -> Api:
    """The API of a project with a tool that shows any page."""
    add_page_tool(shared.root)
    return shared


@pytest.fixture(scope="module")
def served(api: Api) -> Iterator[Live]:
    with live(api.root) as own:
        yield own


@pytest.fixture
def opened(served: Live, page: Page) -> Callable[[str], Page]:
    """A function that opens the page of a call, and waits until its frame has a height."""

    def open_call(call_id: str) -> Page:
        page.goto(f"{served.url}/chats/c1/calls/{call_id}")
        page.locator("iframe.artifact[data-sized]").wait_for()
        return page

    return open_call


def wait_for_height(page: Page, expected: int) -> None:
    page.wait_for_function(
        "want => document.querySelector('iframe.artifact').clientHeight === want", arg=expected
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(TALL, 1234, marks=pytest.mark.rest),
        *(
            pytest.param(*row, marks=pytest.mark.rest)
            for row in (
                ("<!doctype html><p style='height: 9999px; margin: 0'>", 4000),
                (
                    "<!doctype html><style>body { margin: 20px; padding: 30px }</style><p style='height: 300px; margin: 0'>",
                    400,
                ),
                ("<p style='margin: 0; height: 300px'>quirks mode", 316),
                ("<!doctype html><p>short", 80),
                (
                    "<!doctype html><style>body { margin: 0; min-height: 100vh }</style><p style='height: 300px; margin: 0'>",
                    300,
                ),
            )
        ),
    ],
)
def test_a_frame_has_the_height_of_its_content(
    opened: Callable[[str], Page], api: Api, content: str, expected: int
) -> None:
    page = opened(show(api, content))

    wait_for_height(page, expected)
    scrolls = page.frames[-1].evaluate("document.documentElement.scrollHeight > innerHeight")
    assert scrolls == (expected == 4000)


def test_a_frame_follows_content_that_grows_and_shrinks(
    opened: Callable[[str], Page], api: Api
) -> None:
    page = opened(show(api, TALL))
    wait_for_height(page, 1234)
    box = page.frames[-1].locator("p")

    box.evaluate("one => { one.style.height = '2000px' }")
    wait_for_height(page, 2000)
    box.evaluate("one => { one.style.height = '200px' }")
    wait_for_height(page, 200)


@pytest.mark.rest
def test_content_that_follows_the_frame_does_not_make_it_grow_without_end(
    opened: Callable[[str], Page], api: Api
) -> None:
    page = opened(show(api, "<!doctype html><p style='height: 100vh'>as high as its frame"))

    page.wait_for_timeout(300)  # for further reports of its height
    assert page.locator("iframe.artifact").evaluate("one => one.clientHeight") < 1000


@pytest.mark.rest
def test_a_frame_has_a_fixed_height_without_scripts(
    chromium: Browser, served: Live, api: Api
) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(served.door)
        page.goto(f"{served.url}/chats/c1/calls/{show(api, TALL)}")

        box = page.locator("iframe.artifact").bounding_box()

    assert box is not None
    assert 250 < box["height"] < 750
