"""Frames of a tool's own server: their URLs, and that our token never goes there."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from covalt_git.render.targets import RefusedError
from covalt_server.render.artifacts import FrameAddress, frame_address
from tests.api_client import TOKEN, Api
from tests.browser import console_errors, violations
from tests.live_server import live
from tests.mcp_client import add_toolset
from tests.server.outside import Outside
from tests.tables import tables

OWN_PORT = 8787
TABLES = tables(__file__)
SHOWN = b"""<!doctype html><html lang="en"><title>tool</title><main><h1 id="told"></h1></main><script>
fetch("/again").then(() => { told.textContent = `shown by ${origin}` });
</script>"""
PREVIEW = """\
id: preview
name: Preview
version: "1"
tools: [{id: start, entrypoint: "tools.preview:start"}]
tool_overrides: [{tool_id: start, renderer: frame, renderer_config: {url: "$return.url"}}]
"""


def address(url: object, page_host: str, granted: str) -> FrameAddress:
    """Return the frame of a URL, of which the hosts ``granted`` are granted."""
    return frame_address(
        {"url": url}, own_port=OWN_PORT, page_host=page_host, granted=granted.split()
    )


@pytest.mark.parametrize(("url", "page_host", "granted", "shown"), TABLES["shown"])
def test_a_frame_never_has_the_host_of_our_page(
    url: str, page_host: str, granted: str, shown: str
) -> None:
    found = address(url, page_host, granted)

    assert found.url.replace(":443/", "/") == shown.replace(":443/", "/")
    parts = urlsplit(shown.replace(":443/", "/"))
    assert found.origin == f"{parts.scheme}://{parts.netloc}"
    assert parts.hostname != urlsplit(f"//{page_host}").hostname


@pytest.mark.parametrize(("url", "page_host", "granted", "reason"), TABLES["refused"])
def test_a_frame_that_could_reach_us_or_was_not_granted_is_refused(
    url: object, page_host: str, granted: str, reason: str
) -> None:
    with pytest.raises(RefusedError, match=reason):
        address(url, page_host, granted)


# In the browser


def put_preview(api: Api, port: int, name: str, **fields: str) -> str:
    """Give a project a tool whose result is a frame; return the id of a call of it."""
    code = f"def start() -> object:\n    return {{'url': 'http://{name}:{port}/app'}}\n"
    add_toolset(api.root, "preview", PREVIEW, code)
    call = api.post("call_tool", chat_id="c1", tool_id="preview:start", args={}, **fields)
    return str(call["id"])


def content(page: Page) -> Locator:
    """Return what the tool's page in the frame says."""
    around = page.frame_locator("iframe.artifact")
    return around.frame_locator("iframe").locator("#told:not(:empty)")


@pytest.mark.parametrize("name", ["127.0.0.1", pytest.param("localhost", marks=pytest.mark.rest)])
def test_our_token_never_reaches_the_server_of_a_tool(
    api: Api, chromium: Browser, name: str
) -> None:
    with Outside() as tool, live(api.root) as own:
        tool.pages["/app"] = ({"Content-Type": "text/html"}, SHOWN)
        call_id = put_preview(api, tool.port, name)
        with chromium.new_context() as context:
            page = context.new_page()
            page.goto(f"{own.at(name)}/?token={TOKEN}")
            page.goto(f"{own.at(name)}/chats/c1/calls/{call_id}")
            told = content(page).inner_text()
            own_cookies = {f"covalt_git_{own.port}", f"covalt_git_{own.port}_messages"}
            assert {one["name"] for one in context.cookies()} == own_cookies
            seen = list(tool.requests)

            # What the name is for: by that of our page, the browser sends it.
            tool.pages["/around"] = ({"Content-Type": "text/html"}, b"<iframe src=/same></iframe>")
            page.goto(f"http://{name}:{tool.port}/around")

    other = "localhost" if name == "127.0.0.1" else "127.0.0.1"
    assert told == f"shown by http://{other}:{tool.port}"
    assert {one.path for one in seen} >= {"/app", "/again"}
    assert [one.headers.get("Cookie") for one in seen] == [None] * len(seen)
    assert {one.path for one in tool.requests if TOKEN in one.headers.get("Cookie", "")} >= {
        "/around",
        "/same",
    }


@pytest.mark.rest
def test_every_page_that_shows_a_result_shows_its_frame(api: Api, chromium: Browser) -> None:
    """A browser keeps the policy of a page as it loaded it, also for the calls that are added later."""
    message = str(api.post("add_message", chat_id="c1", text="Start it")["message_id"])
    api.post("create_branch", chat_id="c1", name="idea")
    with Outside() as tool, live(api.root) as own, chromium.new_context() as context:
        tool.pages["/app"] = ({"Content-Type": "text/html"}, SHOWN)
        page = context.new_page()
        errors = console_errors(page)
        page.goto(own.door)
        page.goto(f"{own.url}/chats/c1")
        call_id = put_preview(api, tool.port, "localhost", message_id=message)
        row = page.locator(f"[id='c-{call_id}']")
        row.locator("summary").first.click()
        expect(content(page)).to_contain_text("shown by")
        branches = "?compare=idea", f"/messages/{message}", f"/calls/{call_id}"
        for path in ("", *branches):
            page.goto(f"{own.url}/chats/c1{path}")
            expect(content(page)).to_contain_text("shown by")
            expect(content(page)).to_be_in_viewport()
        page.get_by_role("link", name="Open it alone").click()
        expect(page.frame_locator("iframe").locator("#told")).to_contain_text("shown by")
        assert violations(page) == []

    assert errors == []
