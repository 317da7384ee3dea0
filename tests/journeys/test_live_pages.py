"""Pages that are open while agents work: they update in place, and move neither the reader nor their text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import console_errors
from tests.journeys.terminal import Terminal

PATIENCE_MS = 20_000
"""The promise is 1 second; this machine may be busy."""

TOP = "row => row.getBoundingClientRect().top"


@pytest.fixture
def open_page(project: Terminal, chromium: Browser) -> Iterator[Callable[[str], Page]]:
    """A function that opens a page of a served project; an error in its console fails the test."""
    project.covalt("chat", "new", "--id", "c1", "--title", "A chat")
    errors: list[list[str]] = []
    with (
        project.serving("serve") as url,
        chromium.new_context(viewport={"width": 1280, "height": 400}) as context,
    ):

        def opened(path: str) -> Page:
            page = context.new_page()
            errors.append(console_errors(page))
            page.goto(url)
            page.goto(url.partition("?")[0] + path)
            return page

        yield opened
    found = [error for one in errors for error in one]
    assert [error for error in found if "ERR_FAILED" not in error] == []  # a test aborts streams


def write(project: Terminal, path: str) -> None:
    project.covalt(
        *("call", "c1", "app-builder:write_file", "--arg", f"path={path}", "--arg", "content=a")
    )


def test_a_call_appears_in_the_open_conversation_and_nothing_else_changes(
    project: Terminal, open_page: Callable[[str], Page]
) -> None:
    write(project, "a.txt")
    page = open_page("chats/c1")
    calls = page.locator("[data-new] details.call")
    calls.first.locator("summary").first.click()
    shown = calls.first.get_by_role("heading", name="a.txt")
    expect(shown).to_be_visible()
    shown.evaluate("one => { one.dataset.old = 'yes' }")
    text = page.get_by_label("Message", exact=True)
    text.fill("What I am typing")

    write(project, "b.txt")
    ended = time.monotonic()
    expect(calls.filter(has_text="success")).to_have_count(2, timeout=PATIENCE_MS)
    print(f"the call appeared {time.monotonic() - ended:.2f} s after its command")  # noqa: T201

    expect(shown).to_be_visible()
    assert shown.get_attribute("data-old") == "yes"
    expect(text).to_have_value("What I am typing")
    expect(calls).to_have_count(2)  # the row of the running call is gone
    calls.last.locator("summary").first.click()
    expect(calls.last.get_by_role("heading", name="b.txt")).to_be_visible()


def test_the_row_of_a_decided_call_is_replaced_although_it_has_the_focus(
    project: Terminal, open_page: Callable[[str], Page]
) -> None:
    project.covalt("call", "c1", "app-builder:run_command", "--arg", "command=ls", code=1)
    page = open_page("chats/c1")
    page.get_by_role("button", name="Deny").focus()

    (waiting,) = project.json("approval", "list")["approvals"]
    project.covalt("approval", "deny", waiting["execution_id"], "--no-terminal", "a test")

    expect(page.get_by_text("denied", exact=False).first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("button", name="Deny")).to_have_count(0)


def test_new_rows_out_of_sight_are_counted_and_the_page_stays_where_it_is(
    project: Terminal, open_page: Callable[[str], Page]
) -> None:
    for name in "abcdefgh":
        write(project, name)
    page = open_page("chats/c1/history")
    oldest = page.locator("[data-new] > *").last
    oldest.evaluate("row => row.scrollIntoView({block: 'end'})")
    top = oldest.evaluate(TOP)

    write(project, "i")
    write(project, "j")

    new = page.get_by_role("button", name="2 new")
    expect(new).to_be_visible(timeout=PATIENCE_MS)
    assert oldest.evaluate(TOP) == pytest.approx(top, abs=2)  # browsers scroll by whole pixels
    new.click()
    expect(page.locator("[data-new] > *").first).to_be_in_viewport()
    expect(new).to_be_hidden()


def test_a_pending_approval_is_counted_and_a_typed_title_stays(
    project: Terminal, open_page: Callable[[str], Page]
) -> None:
    write(project, "a.txt")
    approvals, page = open_page("approvals"), open_page("")
    title = page.get_by_label("Title")
    title.fill("What I am typing")

    project.covalt("call", "c1", "app-builder:run_command", "--arg", "command=ls", code=1)

    count = page.get_by_role("link", name="Approvals 1 pending")
    expect(count).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Pending approval")).to_be_visible()
    expect(title).to_have_value("What I am typing")
    expect(title).to_be_focused()
    listed = approvals.get_by_role("link", name="app-builder:run_command")
    expect(listed).to_be_visible(timeout=PATIENCE_MS)
    (waiting,) = project.json("approval", "list")["approvals"]
    project.covalt("approval", "deny", waiting["execution_id"], "--no-terminal", "a test")
    expect(count).to_have_count(0, timeout=PATIENCE_MS)
    expect(listed).to_have_count(0, timeout=PATIENCE_MS)


def test_the_page_is_updated_by_long_polling_where_streams_fail(
    project: Terminal, open_page: Callable[[str], Page]
) -> None:
    write(project, "a.txt")
    page = open_page("chats")
    no_stream = re.compile(r"/api/events(?!.*poll=true)")
    page.route(no_stream, lambda route: route.abort())
    page.get_by_role("link", name="A chat").click()

    write(project, "b.txt")

    expect(page.locator("[data-new] .call")).to_have_count(2, timeout=PATIENCE_MS)
