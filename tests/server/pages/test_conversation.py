"""The conversation page: messages, calls, branches and approvals in place."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as BrowserPage

from tests.api_client import Api, configure
from tests.browser import DRAWN
from tests.examples import first_of
from tests.live_server import Live
from tests.server.visitor import Form, Page, Visitor


def add(api: Api, text: str | None, **how: Any) -> str:
    return str(api.post("add_message", chat_id="c1", text=text, **how)["message_id"])


def write(api: Api, path: str, message_id: str, content: str = "1\n") -> Any:
    args = {"path": path, "content": content}
    return api.post(
        "call_tool",
        chat_id="c1",
        tool_id="app-builder:write_file",
        args=args,
        message_id=message_id,
    )


def button_form(page: Page, action: str, **fields: list[str]) -> Form:
    """Return the form that a button of the page sends to another address than its form's."""
    assert action in [one.get("formaction") for one in page.named("button")]
    return Form("post", action, fields)


def test_a_reader_sees_the_messages_and_every_call_with_its_object(
    visitor: Visitor, api: Api
) -> None:
    question = add(api, "Make a **page** <script>alert(1)</script>")
    answer = add(api, "# Plan", role="assistant")
    made = write(api, "a.txt", answer)
    failed = api.call("app-builder:read_file", path="missing.txt")
    add(api, None, ref="app-7")
    page = visitor.open("/chats/c1")

    assert page.title.startswith(api.get("get_chat", chat_id="c1")["title"] or "c1")
    assert page.named("strong")
    assert "<script>alert" not in page.source
    assert "Write file a.txt" in page.text
    assert "missing.txt" in page.text
    assert "app-7" in page.text
    links = [link.href for link in page.links]
    assert f"/chats/c1/calls/{made['id']}" in links
    assert f"/chats/c1/calls/{failed['id']}" in links
    opened = [one for one in page.named("details") if "open" in one and "call" in one["class"]]
    assert [one["id"] for one in opened] == [f"c-{failed['id']}"]
    call = visitor.open(f"/chats/c1/calls/{made['id']}")
    assert f"/chats/c1/messages/{answer}" in [link.href for link in call.links]
    its = visitor.open(f"/chats/c1/messages/{answer}")
    assert f"/chats/c1/calls/{made['id']}" in [link.href for link in its.links]
    assert its.title.startswith("assistant: # Plan")
    assert visitor.open(f"/chats/c1/messages/{question}").status == 200
    assert visitor.open("/chats/c1/messages/nope").status == 404


def test_equal_successful_calls_in_a_row_are_one_line(visitor: Visitor, api: Api) -> None:
    message = add(api, "Make pages", role="assistant")
    ids = [write(api, f"{number}.txt", message)["id"] for number in range(5)]
    api.call("app-builder:list_files")
    page = visitor.open("/chats/c1")

    rows = [one for one in page.named("li") if "step" in one.get("class", "")]
    assert len(rows) == 2
    assert "\N{MULTIPLICATION SIGN} 5 0.txt, 1.txt, 2.txt, +2 +5" in page.text
    assert {f"c-{one}" for one in ids} <= {one.get("id") for one in page.named("details")}


def test_the_changed_lines_of_large_files_are_counted(visitor: Visitor, api: Api) -> None:
    content = "".join(f"this is the line {number} of a large file\n" for number in range(20_000))
    write(api, "large.txt", add(api, "Write it"), content)
    assert len(content) > 512 << 10
    assert "Write file large.txt +20000" in visitor.open("/chats/c1").text
    write(api, "large.txt", add(api, "Change it"), content.replace("line 7 of", "line seven of"))
    assert "Write file large.txt +1 \N{MINUS SIGN}1" in visitor.open("/chats/c1").text


def test_a_message_is_added_retried_edited_and_switched_back_to(visitor: Visitor, api: Api) -> None:
    page = visitor.send(
        visitor.open("/chats/c1").form("/chats/c1/messages"), text=" Make a page\r\n"
    )
    assert page.address == "/chats/c1"
    (row,) = api.get("list_messages", chat_id="c1")["messages"]
    assert (row["role"], row["text"]) == ("user", "Make a page")

    answer = add(api, "Here it is", role="assistant")
    page = visitor.send(
        button_form(visitor.open("/chats/c1"), f"/chats/c1/messages/{answer}/retry")
    )
    assert "Here it is" not in page.text
    other = add(api, "Or this", role="assistant")
    page = visitor.open("/chats/c1")
    assert "2/2" in page.text
    page = visitor.send(button_form(page, f"/chats/c1/messages/{answer}/switch"))
    assert "Here it is" in page.text
    assert api.get("get_chat", chat_id="c1")["active_branch"] == "main"

    form = visitor.open(f"/chats/c1/messages/{other}").form(f"/chats/c1/messages/{other}/edit")
    assert form.fields["text"] == ["Or this"]
    page = visitor.send(form, text="Or that")
    assert "Or that" in page.text
    assert api.get("get_chat", chat_id="c1")["active_branch"] == "edit-1"


def test_the_box_of_a_message_says_who_reads_it(visitor: Visitor, api: Api) -> None:
    message = add(api, "Make a page")
    conversation = visitor.open("/chats/c1")
    assert "the agent that uses this chat reads it" in conversation.text
    (box,) = (one for one in conversation.named("textarea") if one["name"] == "text")
    assert box["aria-describedby"] in [one.get("id") for one in conversation.named("p")]
    page = visitor.open(f"/chats/c1/messages/{message}")
    assert "The agent that uses this chat reads the message" in page.text


def test_two_branches_are_compared_after_their_common_message(visitor: Visitor, api: Api) -> None:
    add(api, "An old question")
    add(api, "Make a page")
    answer = add(api, "Design A", role="assistant")
    write(api, "a.txt", answer)
    branch = api.post("retry_message", chat_id="c1", message=answer)["branch"]
    write(api, "b.txt", add(api, "Design B", role="assistant"))
    page = visitor.open("/chats/c1?compare=main")

    assert "An old question" not in page.text
    assert (
        page.text.index("Make a page") < page.text.index("Design B") < page.text.index("Design A")
    )
    assert "b.txt" in page.text
    assert "Both previews" not in page.text
    differences = visitor.open(page.link("Differences of the files"))
    assert "2 files differ" in differences.text
    merge = visitor.open(page.link(f"Merge main into {branch}"))
    assert merge.title.startswith("Merge main")
    visitor.send(page.form("/chats/c1/switch"))
    assert api.get("get_chat", chat_id="c1")["active_branch"] == "main"
    assert visitor.open("/chats/c1?compare=nope").status == 404


def test_a_pending_call_is_denied_in_the_conversation(visitor: Visitor, api: Api) -> None:
    made = api.call("app-builder:run_command", command="ls")
    page = visitor.open("/chats/c1")
    page = visitor.send(button_form(page, f"/approvals/{made['execution_id']}/deny", to=["chat"]))
    assert page.address == "/chats/c1"
    assert "Denied. The call did not run." in page.text


def test_older_messages_are_on_older_pages(visitor: Visitor, api: Api) -> None:
    for number in range(62):
        add(api, f"message number {number};")
    page = visitor.open("/chats/c1")
    assert "message number 61;" in page.text
    assert "message number 1;" not in page.text
    older = visitor.open(page.link("Older messages"))
    assert "message number 1;" in older.text
    assert "Newest messages" in older.text
    assert "/chats/c1/messages" not in [form.action for form in older.forms]


def test_a_role_sees_calls_of_hidden_tools_without_their_names(root: Path, api: Api) -> None:
    message = add(api, "Make a page")
    write(api, "secret.txt", message)
    api.call("app-builder:run_command", command="cat secret.txt")
    configure(root, 'roles: {reader: {allow: ["data-lab.*"]}}\n')
    visitor = Visitor.of(root, role="reader")

    for path in ("", f"/messages/{message}", "/history", "/states/HEAD", "/files"):
        page = visitor.open(f"/chats/c1{path}")
        assert page.status == 200
        assert "secret.txt" not in page.source or path in {"/states/HEAD", "/files"}
        assert "write_file" not in page.source
        assert "run_command" not in page.source


@pytest.mark.rest
def test_every_call_is_read_with_two_clicks(page: BrowserPage, served: Live, api: Api) -> None:
    message = add(api, "Make pages", role="assistant")
    ids = [write(api, f"{number}.txt", message, f"part {number}\n")["id"] for number in range(4)]
    page.goto(f"{served.url}/chats/c1")
    page.locator("#turns summary").filter(has_text="× 4").click()  # noqa: RUF001
    call = page.locator(f"[id='c-{ids[2]}']")
    for _ in range(3):  # opened, closed, and opened again
        call.locator("summary").first.click()

    expect(call).to_contain_text("1part 2")
    assert len([path for path in served.paths if f"/calls/{ids[2]}" in path]) == 1


@pytest.mark.parametrize(
    ("scripts", "start"), first_of(product([True, False], ["link", "url"]), ())
)
def test_a_conversation_opens_at_its_newest_turn(
    chromium: Browser, served: Live, api: Api, *, scripts: bool, start: str
) -> None:
    for number in range(30):
        add(api, f"message number {number};")
    with chromium.new_context(java_script_enabled=scripts) as context:
        page = context.new_page()
        page.goto(served.door)
        page.goto(served.url + ("/chats" if start == "link" else "/chats/c1"))
        if start == "link":
            page.locator("#chat-c1 h2 a").click()

        expect(page.get_by_text("message number 29;")).to_be_in_viewport()
        expect(page.get_by_label("Message", exact=True)).to_be_in_viewport()


@pytest.mark.rest
def test_a_page_keeps_its_end_in_view_until_its_reader_scrolls(
    page: BrowserPage, served: Live, api: Api
) -> None:
    for number in range(30):
        add(api, f"message number {number};")
    write(api, "a.txt", add(api, "Fails", role="assistant"), "line\n" * 90)
    api.call("app-builder:read_file", path="missing.txt")
    newest, oldest = page.get_by_text("pin this;"), page.get_by_text("message number 0;")
    add(api, "pin this;")
    page.goto(f"{served.url}/chats/c1")
    expect(page.locator(".report")).to_be_attached()  # the failed call, which is loaded later
    expect(newest).to_be_in_viewport()

    oldest.scroll_into_view_if_needed()
    page.evaluate("document.body.style.paddingTop = '300px'")
    page.evaluate(DRAWN)
    expect(oldest).to_be_in_viewport()


@pytest.mark.rest
def test_a_row_that_a_key_unfolds_stays_where_it_is(
    page: BrowserPage, served: Live, api: Api
) -> None:
    for number in range(3):
        add(api, f"message number {number};")
    write(api, "a.txt", add(api, "Write it", role="assistant"), "line\n" * 30)
    page.set_viewport_size({"width": 1280, "height": 600})
    page.goto(f"{served.url}/chats/c1#end")
    row = page.locator("#turns summary", has_text="a.txt")
    expect(row).to_be_in_viewport()
    before = row.bounding_box()

    row.press("Enter")
    expect(page.locator("#turns [data-part]").first).to_be_attached()
    page.evaluate(DRAWN)

    assert row.bounding_box() == before


def test_the_end_links_to_the_calls_that_wait_for_a_decision(visitor: Visitor, api: Api) -> None:
    message = add(api, "Run it")
    assert "for a decision" not in visitor.open("/chats/c1").text
    args = {"command": "ls"}
    made = api.post(
        "call_tool",
        chat_id="c1",
        tool_id="app-builder:run_command",
        args=args,
        message_id=message,
    )
    add(api, "Something else")
    page = visitor.open("/chats/c1")

    assert page.link("1 call waits for a decision") == f"#u-{made['id']}"
    assert f"u-{made['id']}" in [one.get("id") for one in page.named("li")]


@pytest.mark.rest
def test_the_message_of_a_form_is_in_view_at_the_end(
    page: BrowserPage, served: Live, api: Api
) -> None:
    for number in range(30):
        add(api, f"message number {number};")
    page.goto(f"{served.url}/chats/c1")
    page.get_by_label("Message", exact=True).fill("One more")
    page.get_by_label("Actions of this message").last.click()
    page.get_by_role("button", name="Retry").last.click()

    message = page.get_by_text("The next message and calls are on")
    expect(message).to_be_in_viewport()
    assert message.evaluate("element => getComputedStyle(element).position") == "static"
