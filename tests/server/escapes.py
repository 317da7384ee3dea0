"""Attempts of a page in a frame to reach a server, and the same attempts by a page that nothing stops.

Each attempt is made twice: by third-party code in a frame of our page, and by the same page in a plain frame of a plain
server.  The second shows that the attempt works where nothing stops it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from covalt_git.render.inject_data import inject
from tests.server.outside import Outside
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
"""Markup of each attempt; see :func:`filled`."""

CLASSES: dict[str, list[str]] = dict(TABLES["classes"])
"""The attempts of each class that every run makes."""

ALONE = {"fetch-later", "link-top", "form-top", "top"}
"""Attempts that a plain page makes only once, or not together with others."""

ONLY_BY_ALLOWLIST = {"location-api", "refresh-api", "history", "webrtc"}
"""Attempts that only Connection-Allowlist stops, which Chromium has since version 152."""

FIRST_WITH_ALLOWLIST = 152


def one_of_each_class(attempts: dict[str, str], *classes: Mapping[str, Sequence[str]]) -> list[Any]:
    """Return parameters: the attempts that represent the classes, and with ``make test-rest`` all attempts."""
    names = [name for rows in classes for row in rows.values() for name in row]
    return [
        pytest.param({name: attempts[name] for name in names}, id="one-of-each-class"),
        pytest.param(attempts, id="all", marks=pytest.mark.rest),
    ]


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


def has_allowlist(chromium: Browser) -> bool:
    return int(chromium.version.partition(".")[0]) >= FIRST_WITH_ALLOWLIST


def filled(
    attempts: Mapping[str, str], out: Outside, own: str, others: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the markup of attempts against two servers; ``others`` are paths of the second one by their placeholder."""
    found = {}
    for name, markup in attempts.items():
        text = markup.replace("OUT", f"{out.url}/attempt/{name}").replace("STUN", out.stun)
        for place, path in {"API": "/api/list_toolsets", **(others or {})}.items():
            text = text.replace(place, f"{own}{path}?attempt={name}")
        found[name] = text
    return found


def arrived(*servers: Outside) -> set[str]:
    """Return the names of the attempts that reached one of the servers."""
    paths = [one.path for server in servers for one in server.requests]
    names = {found[1] for path in paths if (found := re.search(r"attempt[/=]([a-z-]+)", path))}
    if any(server.datagrams for server in servers):
        names.add("webrtc")
    return names


def click(page: Page, attempts: Mapping[str, str], frame: str = "#{}") -> None:
    """Click in the frames of the attempts that need it, as a user's gesture; ``frame`` is the end of their URL.

    A click of the mouse waits for the next frame, for seconds once the page is behind a new window.
    """
    for name, markup in attempts.items():
        if "id='go'" in markup:
            within = page.frame_locator(f'iframe[src$="{frame.format(name)}"]')
            within.locator("#go").evaluate("one => one.click()")


def reach_by_a_plain_page(
    chromium: Browser, attempts: Mapping[str, str], others: Mapping[str, str] | None = None
) -> None:
    """Make sure that every attempt arrives where nothing stops it."""
    with Outside() as outside, Outside() as own:
        data = filled(attempts, outside, own.url, others)
        own.pages["/page"] = (HTML, inject(LOADER.encode(), data))
        together = [name for name in attempts if name not in ALONE]
        with ExitStack() as windows:
            for group in (together, *([name] for name in ALONE & set(attempts))):
                frames = "".join(f'<iframe src="/page#{name}"></iframe>' for name in group)
                around = f"<!doctype html><body>{frames}<iframe></iframe>".encode()
                own.pages[f"/{group[0]}"] = (HTML | {"Set-Cookie": "token=secret"}, around)
                page = windows.enter_context(opened(chromium, f"{own.url}/{group[0]}"))
                click(page, {name: attempts[name] for name in group})
            until(lambda: arrived(outside, own) >= set(attempts))
        assert any("token=secret" in one.path for one in outside.requests)
