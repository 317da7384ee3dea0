"""A hostile artifact in a real browser: no attempt reaches a server or learns anything.

By the time that the same attempts of a plain page have arrived (``tests/server/escapes.py``), none of an artifact has.
"""

import re
from collections.abc import Iterator

import pytest
from flask import Flask, get_template_attribute
from markupsafe import Markup
from playwright.sync_api import Browser, sync_playwright

from tests.api_client import Api
from tests.browser import launched
from tests.live_server import live
from tests.server.escapes import (
    ATTEMPTS,
    CLASSES,
    HTML,
    LOADER,
    ONLY_BY_ALLOWLIST,
    arrived,
    click,
    filled,
    has_allowlist,
    one_of_each_class,
    opened,
    reach_by_a_plain_page,
)
from tests.server.outside import Outside
from tests.server.render.page_tool import add_page_tool, show
from tests.tables import tables

TABLES = tables(__file__)
HEIGHTS: dict[str, str] = dict(TABLES["heights"])
REQUESTED_BY_PAGES = r"(static/|frames/|favicon|api/events|\?token|$)"
"""Paths that the pages around an artifact request themselves."""


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


# Attempts


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


@pytest.mark.parametrize("attempts", one_of_each_class(ATTEMPTS, CLASSES))
def test_no_attempt_of_an_artifact_reaches_a_server(
    api: Api, chromium: Browser, attempts: dict[str, str]
) -> None:
    stopped = {} if has_allowlist(chromium) else ONLY_BY_ALLOWLIST
    attempts = {name: markup for name, markup in attempts.items() if name not in stopped}
    names = list(attempts)

    with Outside() as outside, live(api.root, prepare=with_frames) as own:
        call_id = show(api, LOADER, filled(attempts, outside, own.url))
        ours = f"{own.url}/frames/{call_id}/{','.join(names)}"
        with opened(chromium, own.door, ours) as page:
            noticed: list[str] = []

            def notice(one: object) -> None:
                noticed.append(type(one).__name__)

            page.on("dialog", notice)
            page.on("download", notice)
            page.wait_for_function("count => tried.length === count", arg=len(names))
            click(page, attempts)
            reach_by_a_plain_page(chromium, attempts)

            assert arrived(outside) == set()
            assert (outside.requests, outside.datagrams) == ([], 0)
            expected = re.compile(rf"/artifacts/c1/{call_id}|/{REQUESTED_BY_PAGES}")
            assert [path for path in own.paths if not expected.match(path)] == []
            assert page.url == ours
            assert page.evaluate("document.body.dataset.owned") is None
            assert page.context.pages == [page]
            assert noticed == []
            own_cookies = {f"covalt_git_{own.port}", f"covalt_git_{own.port}_messages"}
            assert {one["name"] for one in page.context.cookies()} == own_cookies


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


@pytest.mark.rest
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
