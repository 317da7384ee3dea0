"""A hostile artifact in a real browser: no attempt reaches a server or learns anything.

Each attempt is made twice: by an artifact in the frame of our page, and by the same page in a plain
frame of a plain server.  The second shows that the attempt works where nothing stops it; by the time
all of those have arrived, none of the first has.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from flask import Flask, get_template_attribute
from markupsafe import Markup
from playwright.sync_api import Browser, Page, sync_playwright

from covalt_git.render.inject_data import inject
from tests.api_client import Api
from tests.browser import launched
from tests.live_server import live
from tests.server.outside import Outside
from tests.server.render.page_tool import add_page_tool, show
from tests.settling import until
from tests.tables import tables

HTML = {"Content-Type": "text/html; charset=utf-8"}
LOADER = """<!doctype html><head></head><body><script>
const name = location.hash.slice(1);
document.write(window.__TOOL_DATA__[name]);
parent.postMessage(name, "*");
</script></body>"""
LISTENER = """if (window === top) {
  window.tried = [];
  addEventListener("message", ({ data }) => data?.covaltHeight === undefined && tried.push(data));
}"""

TABLES = tables(__file__)
ATTEMPTS: dict[str, str] = dict(TABLES["attempts"])
HEIGHTS: dict[str, str] = dict(TABLES["heights"])
ALONE = {"fetch-later", "link-top", "form-top", "top"}
"""Attempts that a plain page makes only once, or not together with others."""
ONLY_BY_ALLOWLIST = {"location-api", "refresh-api", "history", "webrtc"}
"""Attempts that only Connection-Allowlist stops, which Chromium has since version 152."""
REQUESTED_BY_PAGES = r"(static/|frames/|favicon|api/events|\?token|$)"
"""Paths that the pages around an artifact request themselves."""

FIRST_WITH_ALLOWLIST = 152


@pytest.fixture(scope="module")
def api(shared: Api) -> Api:
    """The API of a project with a tool that shows any page with any data."""
    add_page_tool(shared.root)
    return shared


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The whole Chromium of users, in which there is more to try."""
    with sync_playwright() as driver, launched(driver, whole=True) as browser:
        yield browser


@contextmanager
def opened(chromium: Browser, *urls: str) -> Iterator[Page]:
    """Open pages one after another in a window of their own, high enough for all of their frames."""
    context = chromium.new_context(viewport={"width": 1280, "height": 5000})
    context.add_init_script(LISTENER)
    try:
        page = context.new_page()
        for url in urls:
            page.goto(url, wait_until="commit")
        yield page
    finally:
        context.close()


# Attempts


def attempts(out: Outside, own: str) -> dict[str, str]:
    """Return the markup of every attempt against two servers."""
    return {
        name: markup.replace("OUT", f"{out.url}/attempt/{name}")
        .replace("API", f"{own}/api/list_toolsets?attempt={name}")
        .replace("STUN", out.stun)
        for name, markup in ATTEMPTS.items()
    }


def arrived(*servers: Outside) -> set[str]:
    """Return the names of the attempts that reached one of the servers."""
    paths = [one.path for server in servers for one in server.requests]
    names = {found[1] for path in paths if (found := re.search(r"attempt[/=]([a-z-]+)", path))}
    if any(server.datagrams for server in servers):
        names.add("webrtc")
    return names


def click(page: Page, names: list[str]) -> None:
    """Click in the frames of the attempts that need it, as a user's gesture.

    A click of the mouse waits for the next frame, for seconds once the page is behind a new window.
    """
    for name in names:
        if "id='go'" in ATTEMPTS[name]:
            frame = page.frame_locator(f'iframe[src$="#{name}"]')
            frame.locator("#go").evaluate("one => one.click()")


def with_frames(app: Flask) -> None:
    """Add a page with many frames of one artifact, one for each attempt."""

    @app.get("/frames/<call_id>/<names>")
    def frames(call_id: str, names: str) -> str:
        frame = get_template_attribute("_artifact.html", "artifact")
        one = str(frame("c1", call_id, "hostile"))
        many = (one.replace(f"/{call_id}", f"/{call_id}#{name}") for name in names.split(","))
        sheet = '<link rel="stylesheet" href="/static/calls.css">'
        head = f'<!doctype html>{sheet}<script src="/static/artifacts.js"></script><body>'
        return Markup(head) + Markup("").join(map(Markup, many))


def test_no_attempt_of_an_artifact_reaches_a_server(api: Api, chromium: Browser) -> None:
    names = list(ATTEMPTS)
    if int(chromium.version.partition(".")[0]) < FIRST_WITH_ALLOWLIST:
        names = [name for name in names if name not in ONLY_BY_ALLOWLIST]

    with Outside() as outside, live(api.root, prepare=with_frames) as own:
        call_id = show(api, LOADER, attempts(outside, own.url))
        ours = f"{own.url}/frames/{call_id}/{','.join(names)}"
        with opened(chromium, own.door, ours) as page:
            noticed: list[str] = []

            def notice(one: object) -> None:
                noticed.append(type(one).__name__)

            page.on("dialog", notice)
            page.on("download", notice)
            page.wait_for_function("count => tried.length === count", arg=len(names))
            click(page, names)
            reach_by_a_plain_page(chromium, names)

            assert arrived(outside) == set()
            assert (outside.requests, outside.datagrams) == ([], 0)
            expected = re.compile(rf"/artifacts/c1/{call_id}|/{REQUESTED_BY_PAGES}")
            assert [path for path in own.paths if not expected.match(path)] == []
            assert page.url == ours
            assert page.evaluate("document.body.dataset.owned") is None
            assert page.context.pages == [page]
            assert noticed == []
            assert [one["name"] for one in page.context.cookies()] == [f"covalt_git_{own.port}"]


def reach_by_a_plain_page(chromium: Browser, names: list[str]) -> None:
    """Make sure that every attempt arrives where nothing stops it."""
    with Outside() as outside, Outside() as own:
        own.pages["/page"] = (HTML, inject(LOADER.encode(), attempts(outside, own.url)))
        together = [name for name in names if name not in ALONE]
        with ExitStack() as windows:
            for group in (together, *([name] for name in ALONE & set(names))):
                frames = "".join(f'<iframe src="/page#{name}"></iframe>' for name in group)
                around = f"<!doctype html><body>{frames}<iframe></iframe>".encode()
                own.pages[f"/{group[0]}"] = (HTML | {"Set-Cookie": "token=secret"}, around)
                page = windows.enter_context(opened(chromium, f"{own.url}/{group[0]}"))
                click(page, group)
            until(lambda: arrived(outside, own) >= set(names))
        assert any("token=secret" in one.path for one in outside.requests)


def test_an_artifact_does_not_navigate_our_page_back(api: Api, chromium: Browser) -> None:
    back = "<script>setTimeout(() => { history.back(); parent.postMessage(1, '*') }, 100)</script>"
    with live(api.root) as own, Outside() as plain:
        call_id = show(api, back, None)
        ours = f"{own.url}/chats/c1/calls/{call_id}"
        plain.pages["/first"] = (HTML, b"first")
        plain.pages["/page"] = (HTML, back.encode())
        plain.pages["/second"] = (HTML, b"<!doctype html><iframe src='/page'></iframe>")

        with opened(chromium, own.door, f"{own.url}/chats", ours) as page:
            page.wait_for_function("() => tried.length === 1")
            with opened(chromium, f"{plain.url}/first", f"{plain.url}/second") as other:
                other.wait_for_url("**/first")

            assert page.url == ours


# Heights


def test_no_message_of_an_artifact_sets_another_height(api: Api, chromium: Browser) -> None:
    with Outside() as outside, live(api.root, prepare=with_frames) as own:
        given = {name: one.replace("OUT", outside.url) for name, one in HEIGHTS.items()}
        # After the frame's own report of its content.
        valid = "<script>setTimeout(() => parent.postMessage({covaltHeight: 500, url: 'OUT'}, '*'), 500)</script>"
        call_id = show(api, LOADER, {**given, "valid": valid.replace("OUT", outside.url)})
        ours = f"{own.url}/frames/{call_id}/{','.join([*HEIGHTS, 'valid'])}"
        with opened(chromium, own.door, ours) as page:
            page.wait_for_function(
                "names => names.every(one => tried.includes(one))", arg=[*HEIGHTS]
            )
            page.wait_for_function(
                "() => document.querySelector('[src$=valid]').clientHeight === 500"
            )
            page.wait_for_timeout(200)  # for messages that are not used
            found = page.evaluate(
                "[...document.querySelectorAll('iframe')].map(one => [one.src.split('#')[1], one.clientHeight])"
            )

        assert {name for name, height in found if height > 200} == {"valid"}
        assert (outside.requests, outside.datagrams) == ([], 0)
        expected = re.compile(rf"/artifacts/c1/{call_id}|/{REQUESTED_BY_PAGES}")
        assert [path for path in own.paths if not expected.match(path)] == []


def test_a_flood_of_heights_changes_the_frame_at_most_30_times_a_second(
    api: Api, chromium: Browser
) -> None:
    flood = """<script>let at = 0; setInterval(() => { for (let n = 0; n < 50; n++)
        parent.postMessage({covaltHeight: 500 + at++ % 100}, "*") }, 1)</script>"""
    count = """() => new Promise((done) => { let changes = 0;
        new MutationObserver((found) => { changes += found.length }).observe(
            document.querySelector("iframe"), {attributeFilter: ["style"]});
        setTimeout(() => done(changes), 1000) })"""
    with live(api.root) as own:
        call_id = show(api, flood, None)
        with opened(chromium, own.door, f"{own.url}/chats/c1/calls/{call_id}") as page:
            page.locator("iframe.artifact[data-sized]").wait_for()
            changes = page.evaluate(count)

    assert 0 < changes <= 31
