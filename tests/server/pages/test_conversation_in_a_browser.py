"""Journeys on the page of a chat in Chromium: read, retry and switch, approve, compare."""

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FloatRect, Page, expect

from tests.api_client import Api
from tests.live_server import Live


@pytest.fixture
def coffee(api: Api) -> dict[str, Any]:
    """The chat c1 with a question, an answer and its calls."""
    api.post("rename_chat", chat_id="c1", title="Coffee shop")
    api.post("add_message", chat_id="c1", text="Make a page with **prices**")
    place = api.post("add_message", chat_id="c1", role="assistant", text="Here it is")
    made = [write(api, f"part-{number}.html", place["message_id"]) for number in range(4)]
    return {"answer": place["message_id"], "calls": [one["id"] for one in made]}


def write(api: Api, path: str, message_id: str) -> Any:
    args = {"path": path, "content": f"<h1>{path}</h1>\n"}
    where = {"chat_id": "c1", "tool_id": "app-builder:write_file", "message_id": message_id}
    return api.post("call_tool", **where, args=args)


def open_chat(page: Page, served: Live) -> None:
    page.goto(f"{served.url}/chats/c1")
    expect(page.get_by_role("heading", name="Coffee shop")).to_be_visible()


def box_of(page: Page, label: str) -> FloatRect:
    box = page.get_by_label(label, exact=True).bounding_box()
    assert box is not None
    return box


def test_every_call_is_read_with_two_clicks(page: Page, served: Live, coffee: Any) -> None:
    open_chat(page, served)
    fold = page.locator("#turns summary").filter(has_text="× 4")  # noqa: RUF001
    fold.click()
    call = page.locator(f"[id='c-{coffee['calls'][2]}']")
    call.locator("summary").first.click()

    expect(call).to_contain_text("1<h1>part-2.html</h1>")
    call.locator("summary").first.click()
    call.locator("summary").first.click()
    expect(call).to_contain_text("1<h1>part-2.html</h1>")
    loaded = [path for path in served.paths if f"/calls/{coffee['calls'][2]}" in path]
    assert len(loaded) == 1
    assert page.title().startswith("Coffee shop")


def test_an_answer_is_retried_and_the_first_one_is_checked_out_again(
    page: Page, served: Live, api: Api, coffee: Any
) -> None:
    open_chat(page, served)
    answer = page.locator(f"[id='m-{coffee['answer']}']")
    answer.get_by_role("button", name="retry").click()
    expect(page.get_by_text("new branch retry-1")).to_be_visible()
    expect(page.get_by_text("Here it is")).to_have_count(0)
    assert not (api.workspace / "part-0.html").exists()

    api.post("add_message", chat_id="c1", role="assistant", text="Or this")
    open_chat(page, served)
    page.get_by_role("button", name="Previous version").click()
    expect(page.get_by_text("Here it is")).to_be_visible()
    assert (api.workspace / "part-0.html").exists()


@pytest.mark.usefixtures("coffee")
def test_a_call_is_approved_in_place_and_its_result_is_below(
    page: Page, served: Live, api: Api
) -> None:
    made = api.call("app-builder:run_command", command="echo finished")
    open_chat(page, served)
    waiting = page.locator(f"[id='u-{made['id']}']")
    expect(waiting).to_contain_text("echo finished")
    waiting.get_by_role("button", name="Approve and run").click()

    call = page.locator(f"[id='c-{made['id']}']")
    expect(call.get_by_role("button", name="Approve and run")).to_have_count(0)
    call.locator("summary").first.click()
    expect(call).to_contain_text("finished")
    assert page.url.startswith(f"{served.url}/chats/c1#")


def test_two_answers_are_side_by_side_or_below_each_other(
    page: Page, served: Live, api: Api, coffee: Any
) -> None:
    api.post("retry_message", chat_id="c1", message=coffee["answer"])
    api.post("add_message", chat_id="c1", role="assistant", text="Or this")
    page.set_viewport_size({"width": 1280, "height": 800})
    open_chat(page, served)
    page.locator(".sub summary").click()
    page.get_by_role("link", name="Compare").click()

    expect(page.get_by_text("Make a page with prices")).to_be_visible()
    boxes = [box_of(page, name) for name in ("retry-1", "main")]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] < boxes[1]["x"]
    page.set_viewport_size({"width": 800, "height": 800})
    boxes = [box_of(page, name) for name in ("retry-1", "main")]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert boxes[0]["y"] < boxes[1]["y"]


@pytest.mark.usefixtures("coffee")
def test_the_first_row_is_near_the_top_of_a_phone(page: Page, served: Live) -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    open_chat(page, served)
    for path, row in (("", ".turn"), ("/history", ".state")):
        page.goto(f"{served.url}/chats/c1{path}")
        box = page.locator(row).first.bounding_box()
        assert box is not None
        assert box["y"] <= 420


def test_a_conversation_is_read_without_javascript(
    context: BrowserContext, served: Live, coffee: Any
) -> None:
    browser = context.browser
    assert browser is not None
    with browser.new_context(java_script_enabled=False) as plain:
        page = plain.new_page()
        page.goto(served.door)
        open_chat(page, served)
        page.locator("#turns summary").filter(has_text="× 4").click()  # noqa: RUF001
        call = page.locator(f"[id='c-{coffee['calls'][2]}']")
        call.locator("summary").first.click()
        call.get_by_role("link", name="Page of the call").click()
        expect(page.locator("main")).to_contain_text("1<h1>part-2.html</h1>")
