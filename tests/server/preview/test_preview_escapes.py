"""A hostile preview in a real browser: no attempt reaches a server or learns anything.

By the time that the same attempts of a plain page have arrived (``tests/server/escapes.py``), none of a preview has.
"""

import re
from collections.abc import Iterator

import pytest
from flask import Flask, get_template_attribute
from markupsafe import Markup
from playwright.sync_api import Browser, sync_playwright

from covalt_server.pages.preview import Pane
from covalt_server.preview.keys import PreviewedCommit
from tests.api_client import Api
from tests.browser import launched
from tests.live_server import Live, live
from tests.server.escapes import (
    ATTEMPTS,
    CLASSES,
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
from tests.tables import tables

TABLES = tables(__file__)
ALL = ATTEMPTS | dict(TABLES["attempts"])
OWN_CLASSES: dict[str, list[str]] = dict(TABLES["classes"])
STOPPED_BY_ALLOWLIST = {
    *ONLY_BY_ALLOWLIST,
    *("other-key-location", "page-location", "page-link"),
}
REQUESTED_BY_PAGES = r"(static/|frames|favicon|api/events|\?token|$)"
TRIED = '<!doctype html><meta charset="utf-8"><script>parent.postMessage("{}", "*")</script>{}'
OTHERS = {"PAGE": "/chats/c1", "SIGN": "/sign-out"}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The whole Chromium of users, in which there is more to try."""
    with sync_playwright() as driver, launched(driver, whole=True) as browser:
        yield browser


def key_of(own: Live, chat_id: str, commit: str) -> str:
    """Return the key of a commit for clients without a session."""
    key: str = own.app.config["COVALT_PREVIEWS"].key(PreviewedCommit("", chat_id, commit))
    return key


def add_frames(app: Flask, pages: dict[str, str]) -> None:
    """Add a page of the server with the frame of a preview for each attempt."""

    @app.get("/frames")
    def frames() -> str:
        frame = get_template_attribute("_preview.html", "frame")
        sheet = '<!doctype html><link rel="stylesheet" href="/frames.css"><body>'
        panes = (Pane(name, url, "", "", "main", "", (), {}) for name, url in pages.items())
        # At once, because only a frame in sight would load.
        markup = Markup("").join(Markup(frame(pane)) for pane in panes)
        return Markup(sheet) + Markup(markup.replace(Markup(' loading="lazy"'), Markup("")))

    @app.get("/frames.css")
    def sheet() -> tuple[str, dict[str, str]]:
        return ".preview-frame { display: inline-block }", {"Content-Type": "text/css"}


@pytest.mark.parametrize("attempts", one_of_each_class(ALL, CLASSES, OWN_CLASSES))
def test_no_attempt_of_a_preview_reaches_a_server(
    shared: Api, chromium: Browser, attempts: dict[str, str]
) -> None:
    stopped = {} if has_allowlist(chromium) else STOPPED_BY_ALLOWLIST
    attempts = {name: markup for name, markup in attempts.items() if name not in stopped}
    shared.post("create_chat", chat_id="c2")
    other = shared.post(
        "call_tool",
        chat_id="c2",
        tool_id="app-builder:write_file",
        args={"path": "secret.txt", "content": "of another chat"},
    )["post_manifest_id"]
    pages: dict[str, str] = {}

    with (
        Outside() as outside,
        live(shared.root, prepare=lambda app: add_frames(app, pages)) as own,
    ):
        others = OTHERS | {"OTHER": f"/preview/{key_of(own, 'c2', other)}/secret.txt"}
        markup = filled(attempts, outside, own.url, others)
        files = [
            (f"{name}.html", TRIED.format(name, text).encode()) for name, text in markup.items()
        ]
        assert shared.upload(*files, folder="attempts").status_code == 200
        commit = shared.get("get_chat", chat_id="c1")["active_manifest_id"]
        key = key_of(own, "c1", commit)
        pages.update({name: f"/preview/{key}/attempts/{name}.html" for name in attempts})
        with opened(chromium, own.door, f"{own.url}/frames") as page:
            noticed: list[str] = []

            def notice(one: object) -> None:
                noticed.append(type(one).__name__)

            page.on("dialog", notice)
            page.on("download", notice)
            page.wait_for_function("count => tried.length === count", arg=len(attempts))
            click(page, attempts, "attempts/{}.html")
            reach_by_a_plain_page(chromium, attempts, others)

            assert arrived(outside) == set()
            assert (outside.requests, outside.datagrams) == ([], 0)
            expected = re.compile(
                rf"/preview/{key}/attempts/([a-z-]+\.html|x)$|/{REQUESTED_BY_PAGES}"
            )
            assert [path for path in own.paths if not expected.match(path)] == []
            assert page.url == f"{own.url}/frames"
            assert page.evaluate("document.body.dataset.owned") is None
            assert page.context.pages == [page]
            assert noticed == []
            own_cookies = {f"covalt_git_{own.port}", f"covalt_git_{own.port}_messages"}
            assert {one["name"] for one in page.context.cookies()} == own_cookies
            assert len(attempts) >= 25
