"""The pane of a preview next to the conversation, and the page of a preview."""

import pytest
from playwright.sync_api import FrameLocator, Page, Route, ViewportSize, expect

from tests.api_client import HOME, Api
from tests.live_server import Live
from tests.server import visitor as visitors
from tests.server.visitor import Visitor

WIDE = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=375, height=700)
IN_A_FRAME = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"}

NOTE_FRAMES = """() => {
  const frame = document.querySelector(".preview-frame");
  window.frames_shown = [];
  new MutationObserver(() => frames_shown.push(frame.innerHTML)).observe(frame, { childList: true });
}"""


def preview_links(page: visitors.Page) -> list[str]:
    return [link.href for link in page.links if "/preview/" in link.href]


def app(page: Page) -> FrameLocator:
    return page.frame_locator(".preview-frame iframe")


def test_a_conversation_shows_the_app_of_its_branch_and_follows_it(
    page: Page, served: Live, api: Api
) -> None:
    page.set_viewport_size(WIDE)
    page.goto(f"{served.url}/chats/c1")
    expect(page.locator("#preview")).to_be_hidden()

    api.write("index.html", "<h1>First</h1>")
    expect(app(page).locator("h1")).to_have_text("First")
    first = api.get("get_chat", chat_id="c1")["active_manifest_id"]
    # A click in the frame gives it the focus, in which live.js replaces nothing.
    app(page).locator("h1").click()
    api.write("index.html", "<h1>Second</h1>")

    expect(app(page).locator("h1")).to_have_text("Second")
    expect(page.locator(".preview-frame iframe")).to_be_focused()
    expect(page.locator("#preview-changes .added")).to_contain_text("index.html")
    conversation, pane = page.locator(".conversation"), page.locator("#preview")
    left, right = conversation.bounding_box(), pane.bounding_box()
    assert left is not None
    assert right is not None
    assert left["x"] + left["width"] < right["x"]

    page.locator("#preview-at").select_option(first)
    page.locator("#preview").get_by_role("button", name="Show").click()
    expect(app(page).locator("h1")).to_have_text("First")
    api.write("other.html", "<h1>Other</h1>")
    page.locator("#preview-changes").get_by_role("link", name="other.html").click()
    expect(app(page).locator("h1")).to_have_text("Other")


@pytest.mark.rest
def test_both_sides_of_a_comparison_follow_their_branches(
    page: Page, served: Live, api: Api
) -> None:
    api.write("index.html", "<h1>Light</h1>")
    api.post("create_branch", chat_id="c1", name="dark")
    page.set_viewport_size(WIDE)
    page.goto(f"{served.url}/chats/c1/preview/index.html?at=main&compare=dark")
    frames = [page.frame_locator(f".preview-frame iframe >> nth={at}") for at in (0, 1)]
    expect(frames[1].locator("h1")).to_have_text("Light")

    api.write("index.html", "<h1>Lighter</h1>")
    expect(frames[0].locator("h1")).to_have_text("Lighter")
    api.post("switch_branch", chat_id="c1", branch="dark")
    api.write("index.html", "<h1>Dark</h1>")

    expect(frames[1].locator("h1")).to_have_text("Dark")
    expect(frames[0].locator("h1")).to_have_text("Lighter")
    page.get_by_role("link", name="375 pixels").click()
    assert page.locator('.preview-frame[data-width="375"]').count() == 2
    # On a phone, both are on the screen at once.
    page.set_viewport_size({"width": 375, "height": 700})
    page.locator(".preview-sides").evaluate("sides => sides.scrollIntoView()")
    for side in (0, 1):
        expect(page.locator(".preview-sides section").nth(side)).to_be_in_viewport(ratio=1)


@pytest.mark.rest
def test_what_an_open_page_compares_follows_a_switch_in_another_window(
    page: Page, served: Live, api: Api
) -> None:
    api.write("index.html", "<h1>Light</h1>")
    api.post("create_branch", chat_id="c1", name="dark")
    api.post("switch_branch", chat_id="c1", branch="dark")
    api.write("index.html", "<h1>Dark</h1>")
    page.set_viewport_size(WIDE)
    page.goto(f"{served.url}/chats/c1")
    page.get_by_role("link", name="Compare with main").focus()

    api.post("switch_branch", chat_id="c1", branch="main")

    page.locator("#preview").get_by_role("link", name="Compare with dark").click()
    expect(page.get_by_role("heading", name="main")).to_be_visible()
    api.post("switch_branch", chat_id="c1", branch="dark")
    expect(page.get_by_text("Both sides are dark, so there is no difference.")).to_be_visible()
    page.get_by_role("link", name="Compare with main").click()
    expect(page.get_by_role("heading", name="main")).to_be_visible()

    page.goto(f"{served.url}/chats/c1?compare=main")
    page.get_by_role("link", name="Merge main into dark").focus()
    api.post("switch_branch", chat_id="c1", branch="main")
    expect(page.get_by_text("Both sides are main, so there is no difference.")).to_be_visible()
    page.goto(f"{served.url}/chats/c1/files")
    api.post("switch_branch", chat_id="c1", branch="dark")
    expect(page.get_by_role("heading", name="Upload to dark")).to_be_visible()
    expect(page.locator("#last")).to_contain_text("dark")


@pytest.mark.rest
def test_an_answer_for_an_earlier_address_does_not_bring_the_earlier_preview_back(
    page: Page, served: Live, api: Api
) -> None:
    api.write("other.html", "<h1>Other</h1>")
    api.write("index.html", "<h1>First</h1>")
    page.set_viewport_size(WIDE)
    page.goto(f"{served.url}/chats/c1")
    expect(app(page).locator("h1")).to_have_text("First")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(f"{served.url}/chats/c1", hold, times=1)
    with page.expect_request(f"{served.url}/chats/c1"):
        api.write("notes.txt", "1")

    page.locator("#preview-changes").get_by_role("link", name="other.html").click()
    expect(app(page).locator("h1")).to_have_text("Other")
    page.evaluate(NOTE_FRAMES)
    held[0].continue_()
    api.write("later.txt", "1")

    expect(page.locator("#preview-changes")).to_contain_text("later.txt")
    assert not [frame for frame in page.evaluate("frames_shown") if "index.html" in frame]


@pytest.mark.rest
def test_a_conversation_has_the_whole_width_without_a_pane_beside_it(
    page: Page, served: Live, api: Api
) -> None:
    api.write("report.md", "# Report\n")
    page.set_viewport_size({"width": 1000, "height": 640})
    page.goto(f"{served.url}/chats/c1")
    expect(page.get_by_role("link", name="Changed files")).to_be_visible()

    head, content = page.locator(".chat-head").bounding_box(), page.locator("main").bounding_box()
    assert head is not None
    assert content is not None
    assert head["width"] > content["width"] * 0.9


@pytest.mark.rest
def test_a_wide_app_is_scaled_into_its_pane(page: Page, served: Live, api: Api) -> None:
    api.write("index.html", "<p id='w'></p><script>w.textContent = innerWidth</script>")
    page.set_viewport_size(WIDE)
    page.goto(f"{served.url}/chats/c1?width=375")
    expect(app(page).locator("#w")).to_have_text("375")

    page.locator(".widths").get_by_role("link", name="1280").click()

    expect(page.locator(".widths [aria-current]")).to_have_text("1280 pixels")
    box, frame = (
        page.locator(name).bounding_box() for name in (".preview-frame", "#preview iframe")
    )
    assert box is not None
    assert frame is not None
    assert abs(box["width"] - frame["width"]) <= 1
    assert abs(box["height"] - frame["height"]) <= 1
    page.reload()
    expect(app(page).locator("#w")).to_have_text("1280")


@pytest.mark.rest
def test_a_phone_opens_and_closes_the_preview_by_links(page: Page, served: Live, api: Api) -> None:
    api.write("index.html", "<h1>App</h1>")
    page.set_viewport_size(PHONE)
    page.goto(f"{served.url}/chats/c1")
    expect(page.locator("#preview")).to_be_hidden()
    assert not any(path.startswith("/preview/") for path in served.paths)

    page.get_by_role("link", name="Preview", exact=True).press("Enter")
    expect(app(page).locator("h1")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#preview")).to_be_hidden()
    page.go_back()
    page.get_by_role("link", name="Close").click()
    expect(page.locator("#preview")).to_be_hidden()

    # After a choice too, which changes the address; and a tap on what is dark around the sheet closes it.
    for by_link in (True, False):
        page.goto(f"{served.url}/chats/c1?width=375#preview")
        page.get_by_role("link", name="768 pixels").click()
        page.get_by_role("button", name="Show").click()
        expect(page.locator(".widths [aria-current]")).to_have_text("768 pixels")
        if by_link:
            page.get_by_role("link", name="Close").click()
        else:
            page.mouse.click(9, 9)
        expect(page.locator("#preview")).to_be_hidden()


def test_files_and_folders_lead_to_their_preview_without_javascript(
    visitor: Visitor, api: Api
) -> None:
    api.write("site/index.html", "<h1>Site</h1>")
    api.write("notes.txt", "no page")
    old = api.get("get_chat", chat_id="c1")["active_manifest_id"]
    api.post("create_branch", chat_id="c1", name="idea")
    api.write("site/index.html", "<h1>New</h1>")

    files = visitor.open("/chats/c1/files")
    links = [link.href for link in files.links if link.text == "Preview"]
    assert links == ["/chats/c1/preview/site/index.html", "/chats/c1/preview/site/"]
    assert visitor.open("/chats/c1/files/site/index.html").link("Preview") == links[0]
    assert not [
        link for link in visitor.open("/chats/c1/files/notes.txt").links if link.text == "Preview"
    ]
    page = visitor.open(links[1])
    (frame,) = page.named("iframe")
    assert frame["src"].startswith("/preview/")
    assert frame["src"].endswith("/site/")
    assert frame["sandbox"] == "allow-scripts allow-forms"
    form = page.form("/chats/c1/preview/site/")
    (other,) = visitor.send(form, "Show", at=old).named("iframe")
    assert other["src"] != frame["src"]
    assert visitor.open(page.link("375 pixels")).named("div")
    for missing in ("none.html", "site/index.html/", "../c2/x.html"):
        assert visitor.open(f"/chats/c1/preview/{missing}").status == 404


def test_a_new_branch_has_the_preview_of_the_page_that_it_has(visitor: Visitor, api: Api) -> None:
    api.write("site/index.html", "<h1>Site</h1>")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")

    page = visitor.open("/chats/c1")
    (frame,) = [one for one in page.named("iframe") if "title" in one]
    assert frame["src"].endswith("/site/index.html")
    assert page.link("Preview") == "#preview"
    shown = visitor.open("/chats/c1/preview/site/index.html?at=main")
    assert "Changed on main" in " ".join(shown.text.split())
    assert "site/index.html" in [link.text for link in shown.links]


def test_two_branches_are_compared_side_by_side_without_javascript(
    visitor: Visitor, api: Api
) -> None:
    api.write("index.html", "<h1>Light</h1>")
    api.post("create_branch", chat_id="c1", name="dark")
    assert "compare=" not in "".join(preview_links(visitor.open("/chats/c1")))
    api.post("switch_branch", chat_id="c1", branch="dark")
    api.write("index.html", "<h1>Dark</h1>")
    api.write("only-dark.html", "<h1>Dark</h1>")
    api.post("switch_branch", chat_id="c1", branch="main")

    conversation = visitor.open("/chats/c1")
    page = visitor.open(preview_links(conversation)[0])
    both = visitor.open(visitor.open("/chats/c1?compare=dark").link("Both previews"))
    own = visitor.open("/chats/c1/preview/index.html")
    by_form = visitor.send(own.form("/preview/index.html"), "Show", compare="dark")

    urls = [frame["src"] for frame in page.named("iframe")]
    files = [api.client().get(url, base_url=HOME, headers=IN_A_FRAME).text for url in urls]
    assert files == ["<h1>Light</h1>", "<h1>Dark</h1>"]
    for same in (both, by_form, visitor.open(page.link("375 pixels"))):
        assert [frame["src"] for frame in same.named("iframe")] == urls
    assert page.link("Merge dark into main") == "/chats/c1/merge?branch=dark"
    lacking = visitor.open("/chats/c1/preview/only-dark.html?compare=dark")
    assert "main has no file at this path." in lacking.text
    assert len(lacking.named("iframe")) == 1
    assert visitor.open("/chats/c1/preview/none.html?compare=dark").status == 404
    assert visitor.open("/chats/c1/preview/index.html?compare=none").status == 404


def test_the_pane_lists_what_the_branch_has_changed(visitor: Visitor, api: Api) -> None:
    api.write("a.txt", "1")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("b.html", "<p>b</p>")
    (api.workspace / "a.txt").unlink()
    api.write("c.txt", "1")

    own, main = visitor.open("/chats/c1"), visitor.open("/chats/c1?branch=main")

    assert "Changed on idea + c.txt added \N{MINUS SIGN} a.txt deleted + b.html added" in own.text
    assert "Changed on main + a.txt added" in main.text
    assert len(own.named("iframe")) == 1
    api.write("c.txt", "2")
    api.write("d.txt", "1")
    (api.workspace / "d.txt").unlink()
    api.post("save_edits", chat_id="c1")
    # The kind since the branch's start: a new file stays added, and one that came and went is not listed.
    changed = "Changed on idea + c.txt added \N{MINUS SIGN} a.txt deleted + b.html added"
    assert changed in visitor.open("/chats/c1").text
    assert main.named("iframe") == []
