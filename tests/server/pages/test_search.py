"""Page of search results, and the keys of all pages."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import covalt_server
from covalt_git.index.chat_queries import ChatQueries
from tests.api_client import Api
from tests.live_server import Live
from tests.server.visitor import Visitor
from tests.settling import until


@pytest.fixture
def garden(api: Api) -> dict[str, str]:
    """Ids of what a search for "orchid" finds."""
    api.post("rename_chat", chat_id="c1", title="The orchid garden")
    message = api.post("add_message", chat_id="c1", text="Is an <b>orchid</b> red?")
    call = api.call("app-builder:write_file", path="list.txt", content="one orchid")
    return {"message": message["message_id"], "call": call["id"]}


def test_each_result_leads_to_its_place(visitor: Visitor, garden: dict[str, str]) -> None:
    form = visitor.open("/chats").form("/search")
    page = visitor.send(form, q="orchid")
    places = [
        "/chats/c1#end",
        f"/chats/c1/messages/{garden['message']}#m-{garden['message']}:~:text=orchid",
        "/chats/c1/files/list.txt?at=main&view=source#L1",
        f"/chats/c1/calls/{garden['call']}#arguments:~:text=orchid,-path&text=orchid",
    ]

    assert page.source.count("<mark>orchid</mark>") == 4
    assert "<b>orchid" not in page.source
    # Each result names its chat by its title, and all of it is the link.
    assert "in c1" not in page.text
    assert page.text.count("files that only another branch has are not searched") == 1
    assert all("orchid" in link.text for link in page.links if link.href in places)
    assert [link.href for link in page.links if link.href in places] == places
    for place in places:
        path, _, anchor = place.partition(":~:")[0].partition("#")
        opened = visitor.open(path)
        assert opened.status == 200
        assert not anchor or f'id="{anchor}"' in opened.source

    one_kind = visitor.open("/search?q=orchid&kind=call&chat=c1")
    assert "<h2>Calls</h2>" in one_kind.source
    assert "<h2>Files</h2>" not in one_kind.source
    assert "Nothing has all of these words" in visitor.open("/search?q=tulip").text


def test_no_control_that_shows_the_address_is_restored_by_the_browser() -> None:
    """After *Back*, a browser would show the choice of the page that the user left, above other results."""
    folder = Path(covalt_server.__file__).parent / "templates"
    texts = {file.name: file.read_text() for file in folder.glob("*.html")}
    forms = [
        (name, tag) for name, text in texts.items() for tag in re.findall(r"<form\b.*?>\n", text)
    ]
    of_address = [
        (name, tag) for name, tag in forms if not re.search(r'method="(post|dialog)"', tag)
    ]

    assert len(of_address) >= 10
    assert [one for one in of_address if 'autocomplete="off"' not in one[1]] == []
    for control in ('<select id="chat" name="chat"', '<select name="compare"'):
        assert f'{control} autocomplete="off"' in texts["tool.html"].replace(' form="call"', "")


def test_the_server_reads_the_files_that_a_search_leaves_pending(
    visitor: Visitor, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatQueries.sync_files, "__kwdefaults__", {"limit": 1})
    api.upload(*((f"{number}.txt", b"an orchid") for number in range(4)))

    assert "3 files that changed and are read now" in visitor.open("/search?q=orchid").text
    until(lambda: visitor.open("/search?q=orchid").source.count("<mark>orchid</mark>") == 4)


@pytest.mark.browser
@pytest.mark.rest
@pytest.mark.parametrize("kind", ["file", "call", "message"])
def test_a_result_in_a_long_text_is_in_view_and_marked(
    page: Page, served: Live, api: Api, kind: str
) -> None:
    lines = [f"chats and tools {number}" for number in range(400)]
    text = "\n\n".join([*lines, "the tools-of, an orchid garden", *lines])
    api.call("app-builder:write_file", path="long.md", content=text)
    api.post("add_message", chat_id="c1", text=text)
    page.goto(f'{served.url}/search?kind={kind}&q="tools of"')

    page.locator(".hits a").click()

    page.wait_for_url(f"**/{kind}s/**")
    # The page of a call has the text twice: in its arguments and in the difference.
    every = page.get_by_text("the tools-of, an orchid garden")
    expect(every.and_(page.locator(":visible")).first).to_be_in_viewport()
    if kind == "file":
        assert page.locator(".line:target").get_attribute("id") == "L801"


@pytest.mark.browser
def test_keys_search_move_and_go(page: Page, garden: dict[str, str]) -> None:
    field = page.get_by_label("Search everything")
    page.keyboard.press("/")
    page.keyboard.type("orchid ?jg")
    assert field.input_value() == "orchid ?jg"
    page.keyboard.press("Control+k")
    page.keyboard.type("orchid\n")
    page.wait_for_url("**/search?q=orchid")

    page.locator("h1").click()
    for _ in range(3):
        page.keyboard.press("j")
    page.keyboard.press("k")
    focused = page.locator(":focus")
    assert focused.locator("strong").text_content() == "The orchid garden"
    assert "Is an <b>orchid</b> red?" in (focused.text_content() or "")
    page.keyboard.press("o")
    page.wait_for_url(f"**/messages/{garden['message']}#m-*")

    dialog = page.get_by_role("dialog", name="Keys")
    page.keyboard.press("?")
    assert dialog.is_visible()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/chats")
    page.keyboard.press("c")  # without "g" it is no key
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/approvals")


@pytest.mark.rest
@pytest.mark.browser
def test_keys_use_the_main_link_of_a_row(page: Page, api: Api) -> None:
    call = api.call("app-builder:run_command", command="ls")
    page.reload()
    page.keyboard.press("j")
    page.keyboard.press("o")
    page.wait_for_url(f"**/approvals/{call['execution_id']}")
