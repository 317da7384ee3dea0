"""Pages that are open while agents work: they update in place, and move neither the reader nor their text."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser import DRAWN, console_errors
from tests.journeys.terminal import Terminal
from tests.operations_client import Operations

PATIENCE_MS = 20_000
"""The promise is 1 second; this machine may be busy."""

TOP = "row => row.getBoundingClientRect().top"


@pytest.fixture
def operate(shared: Terminal) -> Operations:
    """The work of an agent, in another process than the server."""
    return Operations(shared.folder)


@pytest.fixture
def chat(operate: Operations) -> str:
    """The id of a chat of this test's own."""
    return str(operate("create_chat", title="A chat")["id"])


@pytest.fixture
def open_page(context: BrowserContext, url: str) -> Iterator[Callable[[str], Page]]:
    """A function that opens a page of the served project; an error in its console fails the test."""
    errors: list[list[str]] = []

    def opened(path: str) -> Page:
        page = context.new_page()
        errors.append(console_errors(page))
        page.goto(url)
        page.goto(url.partition("?")[0] + path)
        return page

    yield opened
    found = [error for one in errors for error in one]
    assert [error for error in found if "ERR_FAILED" not in error] == []  # a test aborts streams


@pytest.fixture
def call(operate: Operations, chat: str) -> Callable[..., Any]:
    """A function that calls a tool of app-builder in the chat."""

    def called(tool: str, **args: str) -> Any:
        return operate("call_tool", chat_id=chat, tool_id=f"app-builder:{tool}", args=args)

    return called


@pytest.fixture
def write(call: Callable[..., Any]) -> Callable[[str], Any]:
    """A function that has a tool write a file."""
    return lambda path: call("write_file", path=path, content="a")


def test_a_call_appears_in_the_open_conversation_and_nothing_else_changes(
    chat: str, write: Callable[[str], Any], open_page: Callable[[str], Page]
) -> None:
    write("a.txt")
    page = open_page(f"chats/{chat}")
    calls = page.locator("[data-new] details.call")
    calls.first.locator("summary").first.click()
    shown = calls.first.get_by_role("heading", name="a.txt")
    expect(shown).to_be_visible()
    shown.evaluate("one => { one.dataset.old = 'yes' }")
    text = page.get_by_label("Message", exact=True)
    text.fill("What I am typing")

    write("b.txt")

    expect(calls.filter(has_text="success")).to_have_count(2, timeout=PATIENCE_MS)
    expect(shown).to_be_visible()
    assert shown.get_attribute("data-old") == "yes"
    expect(text).to_have_value("What I am typing")
    expect(calls).to_have_count(2)  # the row of the running call is gone
    calls.last.locator("summary").first.click()
    expect(calls.last.get_by_role("heading", name="b.txt")).to_be_visible()


def open_with_late_live_js(page: Page, address: str, sign: str) -> None:
    """Open a page whose live.js runs after another script has changed an element, which ``sign`` selects."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/live.js*", hold, times=1)
    page.goto(address, wait_until="commit")
    page.wait_for_selector(sign, state="attached")
    held[0].continue_()
    page.wait_for_load_state()


@pytest.mark.rest
def test_an_open_row_stays_on_a_page_that_htmx_has_processed_before_live_js_runs(
    chat: str, write: Callable[[str], Any], open_page: Callable[[str], Page], url: str
) -> None:
    write("a.txt")
    page = open_page("")
    open_with_late_live_js(page, f"{url.partition('?')[0]}chats/{chat}", "[data-htmx-powered]")
    calls = page.locator("[data-new] details.call")
    calls.first.locator("summary").first.click()
    shown = calls.first.get_by_role("heading", name="a.txt")
    expect(shown).to_be_visible()
    shown.evaluate("one => { one.dataset.old = 'yes' }")
    page.get_by_label("Message", exact=True).focus()  # a row that has the focus is never replaced

    write("b.txt")

    expect(calls.filter(has_text="success")).to_have_count(2, timeout=PATIENCE_MS)
    assert shown.get_attribute("data-old") == "yes"


@pytest.mark.rest
def test_the_page_of_an_artifact_that_had_its_height_before_live_js_runs_is_not_loaded_again(
    operate: Operations, chat: str, open_page: Callable[[str], Page], url: str
) -> None:
    ids = {"chat_id": chat}
    operate("call_tool", **ids, tool_id="data-lab:load_sample", args={})
    result = operate("call_tool", **ids, tool_id="data-lab:summarize", args={"path": "weather.csv"})
    page = open_page("")
    address = f"{url.partition('?')[0]}chats/{chat}/calls/{result['id']}"
    open_with_late_live_js(page, address, "iframe[data-sized]")
    page.locator("iframe.artifact").evaluate("frame => { frame.dataset.old = 'yes' }")

    with page.expect_response(address):
        operate("rename_chat", **ids, title="Another title")
    page.evaluate(DRAWN)

    assert page.locator("iframe.artifact").get_attribute("data-old") == "yes"


@pytest.mark.rest
def test_the_row_of_a_decided_call_is_replaced_although_it_has_the_focus(
    operate: Operations,
    chat: str,
    call: Callable[..., Any],
    open_page: Callable[[str], Page],
) -> None:
    waiting = call("run_command", command="ls")
    page = open_page(f"chats/{chat}")
    page.get_by_role("button", name="Deny").focus()

    operate("deny_call", execution_id=waiting["execution_id"])

    expect(page.get_by_text("denied", exact=False).first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Deny")).to_have_count(0)


@pytest.mark.rest
def test_an_open_approval_shows_a_decision_of_another_window_also_below_typed_text(
    call: Callable[..., Any], operate: Operations, open_page: Callable[[str], Page]
) -> None:
    pending = call("run_command", command="ls")["execution_id"]
    page = open_page(f"approvals/{pending}")
    page.get_by_label("Reason").fill("later")
    operate("deny_call", execution_id=pending)
    expect(page.get_by_role("heading", name="denied")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Approve and run")).to_have_count(0)


@pytest.mark.rest
def test_new_rows_out_of_sight_are_counted_and_the_page_stays_where_it_is(
    operate: Operations,
    chat: str,
    write: Callable[[str], Any],
    open_page: Callable[[str], Page],
) -> None:
    for name in "ABCDEFGHabcdefgh":
        operate.commit(chat, **{name: name})
    page = open_page(f"chats/{chat}/history")
    oldest = page.locator("[data-new] > *").last
    oldest.evaluate("row => row.scrollIntoView({block: 'end'})")
    top = oldest.evaluate(TOP)

    write("i")
    write("j")

    new = page.get_by_role("button", name="2 new")
    expect(new).to_be_visible(timeout=PATIENCE_MS)
    assert oldest.evaluate(TOP) == pytest.approx(top, abs=2)  # browsers scroll by whole pixels
    new.click()
    expect(page.locator("[data-new] > *").first).to_be_in_viewport()
    expect(new).to_be_hidden()


@pytest.mark.usefixtures("chat")
def test_a_pending_approval_is_counted_and_a_typed_title_stays(
    operate: Operations, call: Callable[..., Any], open_page: Callable[[str], Page]
) -> None:
    approvals, page = open_page("approvals"), open_page("")
    title = page.get_by_label("Title")
    title.fill("What I am typing")

    waiting = call("run_command", command="ls")

    count = page.get_by_role("link", name="Approvals 1 pending")
    expect(count).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("needs approval").first).to_be_visible()
    expect(title).to_have_value("What I am typing")
    expect(title).to_be_focused()
    listed = approvals.get_by_role("link", name="app-builder:run_command")
    expect(listed).to_be_visible(timeout=PATIENCE_MS)
    operate("deny_call", execution_id=waiting["execution_id"])
    expect(count).to_have_count(0, timeout=PATIENCE_MS)
    expect(listed).to_have_count(0, timeout=PATIENCE_MS)


def impatient(route: Route) -> None:
    """Answer with a live.js that replaces a stream that does not open by long polling at once."""
    script = route.fetch().text()
    assert "PATIENCE = 5000;" in script
    route.fulfill(
        body=script.replace("PATIENCE = 5000;", "PATIENCE = 50;"), content_type="text/javascript"
    )


def test_the_page_is_updated_by_long_polling_where_streams_fail(
    chat: str, write: Callable[[str], Any], open_page: Callable[[str], Page]
) -> None:
    write("a.txt")
    page = open_page("chats")
    page.route("**/live.js*", impatient)
    no_stream = re.compile(r"/api/events(?!.*poll=true)")
    page.route(no_stream, lambda route: route.abort())
    page.locator(f"[href='/chats/{chat}#end']").first.click()

    write("b.txt")

    expect(page.locator("[data-new] .call")).to_have_count(2, timeout=PATIENCE_MS)
