"""Five tasks that a user completes on the pages, without a command line."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, FrameLocator, Page, ViewportSize, expect

from tests.browser import console_errors, violations
from tests.journeys.terminal import Terminal
from tests.journeys.tip_calculator import CHAT, TipCalculator
from tests.operations_client import Operations

WIDE = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=375, height=700)

DAYLIGHT, EVENING = "rgb(244, 239, 230)", "rgb(15, 27, 45)"


@pytest.fixture
def operate(shared: Terminal) -> Operations:
    """The work of an agent, in another process than the server."""
    return Operations(shared.folder)


@pytest.fixture
def page(context: BrowserContext, url: str) -> Iterator[Page]:
    """The start page; an error in its console fails the test."""
    page = context.new_page()
    page.set_viewport_size(WIDE)
    errors = console_errors(page)
    page.goto(url)
    yield page
    assert errors == []


@pytest.fixture
def go(page: Page, url: str) -> Callable[[str], None]:
    """A function that opens a page of the project by its path."""

    def opened(path: str) -> None:
        page.goto(url.partition("/?")[0] + path)

    return opened


def app(page: Page) -> FrameLocator:
    """The app in the preview."""
    return page.frame_locator(".preview-frame iframe")


@pytest.mark.rest
def test_an_app_is_built_changed_redesigned_and_merged_beside_its_conversation(
    page: Page, operate: Operations, go: Callable[[str], None]
) -> None:
    operate("create_chat", chat_id=CHAT, title="Tip calculator")
    agent = TipCalculator(operate)
    go(f"/chats/{CHAT}")

    agent.write()
    each = app(page).locator("#each")
    expect(each).to_have_text("26.68")  # 48.50 with 10 %, by two
    app(page).get_by_label("Bill").fill("80")
    expect(each).to_have_text("44.00")
    expect(page.locator(".turns .step")).to_have_count(1)  # three equal calls are one row
    expect(page.locator(".turns .times")).to_contain_text("3")

    agent.edit()
    expect(app(page).locator("#percent")).to_have_text("20 %")
    expect(each).to_have_text("29.10")

    page.get_by_label("Actions of this message").last.click()
    page.get_by_role("button", name="Branch here").last.click()
    branch = operate("get_chat", chat_id=CHAT)["active_branch"]
    assert branch != "main"
    body = app(page).locator("body")
    expect(body).to_have_css("background-color", DAYLIGHT)
    agent.restyle()
    expect(body).to_have_css("background-color", EVENING)
    expect(page.get_by_label(re.compile("Changed on"))).to_contain_text("style.css")

    assert violations(page) == []
    page.get_by_text(f"on {branch}", exact=False).first.click()
    page.get_by_role("button", name="Switch to main").click()
    expect(body).to_have_css("background-color", DAYLIGHT)
    page.get_by_text("on main", exact=False).first.click()
    page.get_by_role("link", name=f"Merge {branch} into main").click()
    expect(page.get_by_text("Fast-forward")).to_be_visible()
    page.get_by_role("button", name="Merge", exact=True).click()
    page.wait_for_url(re.compile(f"/chats/{CHAT}(#|$)"))
    expect(body).to_have_css("background-color", EVENING)
    assert operate("get_chat", chat_id=CHAT)["active_branch"] == "main"


def tab_to(page: Page, name: str) -> None:
    """Press Tab until a control with this name has the focus, as a user without a mouse does."""
    focused = page.locator(":focus")
    for _ in range(60):
        page.keyboard.press("Tab")
        if name in focused.inner_text():
            return
    raise AssertionError(f"Tab does not reach {name!r} on {page.url}")


def go_home(page: Page) -> None:
    """Press the keys of the start page, after the scripts of the page have run."""
    page.wait_for_load_state()
    page.keyboard.press("g")
    page.keyboard.press("h")


def test_a_pending_call_is_approved_from_the_start_page_with_the_keyboard_only(
    page: Page, operate: Operations
) -> None:
    chat = operate("create_chat", title="Backup")["id"]
    message = operate("add_message", chat_id=chat, text="How many bytes are in notes.txt?")
    operate.commit(chat, **{"notes.txt": "twelve bytes"})
    operate(
        "call_tool",
        chat_id=chat,
        tool_id="app-builder:run_command",
        args={"command": "wc -c notes.txt"},
        message_id=message["message_id"],
    )
    go_home(page)

    expect(page.get_by_role("heading", name="1 thing needs you")).to_be_visible()
    tab_to(page, "Decide")
    page.keyboard.press("Enter")
    expect(page.locator("blockquote")).to_have_text("How many bytes are in notes.txt?")
    expect(page.locator("main")).to_contain_text("wc -c notes.txt")
    tab_to(page, "Approve and run")
    page.keyboard.press("Enter")

    expect(page.get_by_text("12 notes.txt").first).to_be_visible()
    go_home(page)
    expect(page.get_by_text("Nothing needs you.")).to_be_visible()


@pytest.mark.rest
def test_a_word_is_searched_in_all_chats_and_the_call_that_wrote_it_is_undone(
    page: Page, operate: Operations
) -> None:
    chat = operate("create_chat", title="Shopping")["id"]
    operate.commit(chat, **{"list.txt": "bread\n"})
    args = {"path": "list.txt", "content": "bread\ncoffee\n"}
    operate("call_tool", chat_id=chat, tool_id="app-builder:write_file", args=args)
    operate.commit(chat, **{"list.txt": "milk\nbread\ncoffee\n"})  # a later line of the user

    page.keyboard.press("/")
    page.keyboard.type("coffee")
    page.keyboard.press("Enter")
    hits = page.locator("h2", has_text="Calls").locator("+ .hits")
    expect(hits.locator("mark")).to_have_text("coffee")
    hits.get_by_role("link").click()
    page.get_by_role("link", name="Undo", exact=True).click()
    expect(page.locator(".diff .del")).to_have_text(re.compile("coffee"))
    expect(page.locator(".diff .add")).to_have_count(0)
    assert (operate.workspace(chat) / "list.txt").read_text() == "milk\nbread\ncoffee\n"
    assert violations(page) == []
    page.get_by_role("button", name="Undo on main").click()

    expect(page.get_by_text("Undone in a new commit on main.")).to_be_visible()
    assert (operate.workspace(chat) / "list.txt").read_text() == "milk\nbread\n"


def fits(page: Page) -> None:
    """Expect that the page is accessible, and that a phone does not scroll it sideways."""
    page.wait_for_load_state()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], page.url
    assert violations(page) == []


@pytest.mark.rest
def test_a_broken_toolset_is_fixed_on_a_phone_from_the_start_page(
    page: Page, shared: Terminal
) -> None:
    page.set_viewport_size(PHONE)
    manifest = shared.folder / "toolsets/text-kit/toolset.yaml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("entrypoint", "entrypont", 1), encoding="utf-8")
    page.reload()

    fits(page)
    page.get_by_role("link", name=re.compile("^Show the line.*entrypont")).click()
    expect(page.locator(".line.marked")).to_be_in_viewport()
    fits(page)
    page.get_by_role("link", name="Fix...").first.click()
    expect(page.get_by_text("none left")).to_be_visible()
    fits(page)
    page.get_by_role("button", name="Fix it").click()
    expect(page.get_by_text("Fixed.")).to_be_visible()
    fits(page)
    page.get_by_role("link", name="text-kit", exact=True).click()

    expect(page.get_by_role("heading", name="Text Kit enabled")).to_be_visible()
    fits(page)
    assert manifest.read_text(encoding="utf-8") == text


def conflict(operate: Operations) -> str:
    """Make a chat whose branches changed the same two lines of a file, and merge it; return its id."""
    chat = str(operate("create_chat", title="Conflict")["id"])
    lines = [f"line {number}\n" for number in range(1, 21)]

    def commit(word: str) -> None:
        lines[2], lines[16] = f"first {word}\n", f"second {word}\n"
        operate.commit(chat, **{"notes.txt": "".join(lines)})

    commit("draft")
    operate("create_branch", chat_id=chat, name="idea")
    commit("of main")
    operate("switch_branch", chat_id=chat, branch="idea")
    lines[9] = "a line that only idea changed\n"
    commit("of idea")
    operate("switch_branch", chat_id=chat, branch="main")
    operate("merge_branch", chat_id=chat, branch="idea", conflicts="both")
    return chat


@pytest.mark.rest
def test_a_conflict_is_resolved_hunk_by_hunk_on_a_phone_as_the_command_does(
    page: Page, operate: Operations, shared: Terminal
) -> None:
    on_page, by_command = conflict(operate), conflict(operate)
    choices = ("--hunk", "1=both", "--hunk", "2=theirs")
    shared.covalt("chat", "resolve", by_command, "notes.txt", *choices)

    page.set_viewport_size(PHONE)
    page.reload()
    page.get_by_role("link", name=re.compile("^Resolve")).click()
    expect(page.get_by_text("2 changes in conflict; 1 other change")).to_be_visible()
    fits(page)
    for number, choice in ((1, "Both, ours first"), (2, "Theirs")):
        hunk = page.get_by_role("group", name=f"Change {number} of")
        hunk.get_by_label(choice, exact=True).check()
    page.get_by_role("button", name="Apply these choices").click()

    expect(page.get_by_text("Resolved.")).to_be_visible()
    fits(page)
    resolved = (operate.workspace(on_page) / "notes.txt").read_bytes()
    assert resolved == (operate.workspace(by_command) / "notes.txt").read_bytes()
    assert b"first of main\nfirst of idea\n" in resolved
    assert b"second of main\n" not in resolved
