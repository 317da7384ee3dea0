"""Pages of toolsets in a host of MCP Apps, in a real browser.

The host is a page of another server that speaks the protocol of SEP-1865 with what a real gateway gave:
it shows the ``ui://`` resource in a sandboxed frame, under the policy that the specification makes of
``_meta.ui.csp`` or, where it is careless, under none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from playwright.sync_api import Browser, FrameLocator, Page

from covalt_git.render.inject_data import inject
from covalt_git.toolsets.new_project import create_project
from tests.browser import DRAWN
from tests.mcp_client import add_toolset, talk
from tests.server.outside import Outside

DARK = "() => matchMedia('(prefers-color-scheme: dark)').matches"
HTML = {"Content-Type": "text/html; charset=utf-8"}
CHART = "ui://data-lab/artifacts/chart.html"
MANIFEST = """\
id: probe
name: Probe
version: "1"
tools:
  - {id: tell, entrypoint: tools.probe:tell}
  - {id: show, entrypoint: tools.probe:show}
tool_overrides:
  - {tool_id: tell, renderer: html, renderer_config: {artifact: artifacts/tell.html, data: {of: "$args.of", all: "$return"}}}
  - {tool_id: show, renderer: html, renderer_config: {content: "$args.page", data: "$return"}}
"""
TOOLS = '''\
from typing import Any


def tell(of: Any) -> Any:
    """Tell."""
    if of == "fail":
        raise ValueError("no such luck")
    return of


def show(page: str) -> str:
    """Show a page."""
    return page
'''
TELL = """<!doctype html><html><head><meta charset="utf-8"><title>told</title></head><body>
<pre id="told"></pre><script>
const first = document.documentElement.dataset.theme;
document.getElementById("told").textContent = JSON.stringify(window.__TOOL_DATA__);
document.title = document.compatMode + " " + first;
</script></body></html>"""
HOST = """<!doctype html><html lang="en"><head><title>host</title><style>
  body { margin: 0; background: #fff } iframe { display: block; width: 100%; height: 150px; border: 0 }
</style></head><body>
<iframe id="view" title="view" sandbox="allow-scripts"></iframe>
<script>
const view = document.getElementById("view");
const given = window.__TOOL_DATA__;
window.heard = [];
window.say = (message) => view.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", (event) => {
  if (event.source !== view.contentWindow) return;
  const { id, method, params } = event.data;
  heard.push(event.data);
  if (method === "ui/initialize") {
    say({ id, result: { protocolVersion: params.protocolVersion, hostInfo: { name: "host", version: "1" },
                        hostCapabilities: {}, hostContext: given.context } });
  } else if (method === "ui/notifications/initialized") {
    for (const message of given.messages) say(message);
  } else if (method === "ui/notifications/size-changed") {
    view.style.height = `${params.height}px`;
  }
});
if (given.view) view.src = given.view; else view.srcdoc = given.html;
</script></body></html>"""


def policy(csp: dict[str, list[str]]) -> str:
    """Return the content security policy of the specification, section "Content Security Policy"."""

    def of(name: str, without: str = "") -> str:
        return " ".join(csp[name]) or without

    return (
        f"default-src 'none'; script-src 'self' 'unsafe-inline' {of('resourceDomains')}; "
        f"style-src 'self' 'unsafe-inline' {of('resourceDomains')}; "
        f"connect-src 'self' {of('connectDomains')}; "
        f"img-src 'self' data: {of('resourceDomains')}; font-src 'self' {of('resourceDomains')}; "
        f"media-src 'self' data: {of('resourceDomains')}; frame-src {of('frameDomains', 'none')}; "
        f"object-src 'none'; base-uri {of('baseUriDomains', 'none')};"
    ).replace(" none;", " 'none';")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("apps") / "project"
    create_project(made)
    add_toolset(made, "probe", MANIFEST, TOOLS, {"artifacts/tell.html": TELL.encode()})
    return made


def called(root: Path, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what a host of Apps has after calls: the last one's result, its arguments and its page."""

    async def said(client: Client) -> dict[str, Any]:
        pages = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        for name, args in calls:
            result = await client.call_tool(name, args)
        page: Any = (await client.read_resource(pages[name]["ui"]["resourceUri"])).contents[0]
        return {
            "args": args,
            "html": page.text,
            "csp": (page.meta or {})["ui"]["csp"],
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    # In a thread of its own, because the driver of the browser has this one's event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(talk, root, said, apps=True).result()


@contextmanager
def hosted(
    chromium: Browser,
    told: dict[str, Any],
    *,
    context: dict[str, Any] | None = None,
    careless: bool = False,
    messages: list[dict[str, Any]] | None = None,
    width: int = 1280,
) -> Iterator[tuple[Page, FrameLocator, Outside]]:
    """Open a host that shows what came of a call; a ``careless`` one adds no policy of its own.

    Its frame is what the host loaded; the toolset's page stands in a frame of that.
    """
    if messages is None:
        messages = [
            {"method": "ui/notifications/tool-input", "params": {"arguments": told["args"]}},
            {"method": "ui/notifications/tool-result", "params": told["result"]},
        ]
    given = {"context": context or {}, "messages": messages}
    given |= {"html": told["html"]} if careless else {"view": "/view"}
    with Outside() as server:
        server.pages["/view"] = (
            HTML | {"Content-Security-Policy": policy(told["csp"])},
            told["html"].encode(),
        )
        server.pages["/"] = (HTML, inject(HOST.encode(), given))
        profile = chromium.new_context(
            viewport={"width": width, "height": 2000}, color_scheme="null"
        )
        try:
            page = profile.new_page()
            page.goto(server.url)
            yield page, page.frame_locator("#view"), server
        finally:
            profile.close()


def heard(page: Page, method: str) -> list[Any]:
    found: list[Any] = page.evaluate("name => heard.filter((one) => one.method === name)", method)
    return found


@pytest.fixture(scope="module")
def chart(root: Path) -> dict[str, Any]:
    """The chart of the sample table, as a host has it."""
    return called(
        root,
        ("data-lab.load_sample", {"output": "weather.csv"}),
        ("data-lab.summarize", {"path": "weather.csv"}),
    )


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (375, "dark")])
def test_the_chart_of_data_lab_is_drawn_in_a_host_as_on_our_own_page(
    chromium: Browser, chart: dict[str, Any], width: int, theme: str, tmp_path: Path
) -> None:
    with hosted(chromium, chart, context={"theme": theme}, width=width) as (page, view, server):
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        shown = view.frame_locator("iframe")
        shown.locator("svg text").first.wait_for()
        page.wait_for_function("() => document.getElementById('view').clientHeight > 1000")
        page.evaluate(DRAWN)

        root = shown.locator("html")
        assert shown.locator("h1").inner_text() == "weather.csv"
        dark = root.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert dark == ("rgb(17, 22, 29)" if theme == "dark" else "rgb(246, 247, 249)")
        # As high as it is, and no wider than its frame.
        assert root.evaluate(
            "one => [one.scrollHeight - innerHeight, one.scrollWidth - innerWidth]"
        ) == [0, 0]
        assert said == []
        assert {one.path for one in server.requests} <= {"/", "/view", "/favicon.ico"}
        page.screenshot(path=tmp_path / f"chart-{theme}-{width}.png")


@pytest.mark.parametrize("careless", [False, True])
def test_a_page_gets_the_data_that_its_renderer_asks_for(
    chromium: Browser, root: Path, *, careless: bool
) -> None:
    of = [
        *(
            "</script><script>window.injected = 1</script>",
            "<!--<script>",
            "$&$'",
            "\u2028",
            "\x00",
        ),
        {"__proto__": {"admin": True}, "constructor": 1, "é": [None, True, 1.5]},
    ]
    with hosted(chromium, called(root, ("probe.tell", {"of": of})), careless=careless) as (
        _,
        view,
        __,
    ):
        shown = view.frame_locator("iframe").locator("#told")
        shown.wait_for()

        assert json.loads(shown.inner_text()) == {"of": of, "all": of}
        assert shown.evaluate("() => window.injected") is None
        assert view.frame_locator("iframe").locator("script").count() == 2


def test_the_host_says_what_it_looks_like_before_the_page_runs_and_later(
    chromium: Browser, root: Path
) -> None:
    looks = {
        "theme": "dark",
        "styles": {"variables": {"--color-text-primary": "red", "color": "red"}},
    }
    with hosted(chromium, called(root, ("probe.tell", {"of": 1})), context=looks) as (
        page,
        view,
        _,
    ):
        shown = view.frame_locator("iframe")
        shown.locator("#told").wait_for()
        root_element = shown.locator("html")

        def style(name: str) -> str:
            value: str = root_element.evaluate(
                "(one, name) => one.style.getPropertyValue(name)", name
            )
            return value

        assert root_element.evaluate("() => document.title") == "CSS1Compat dark"
        assert (style("--color-text-primary"), style("color")) == ("red", "")
        assert root_element.evaluate(DARK) is True
        page.evaluate(
            "() => say({method: 'ui/notifications/host-context-changed', params: {theme: 'light'}})"
        )
        shown.locator("html[data-theme=light]").wait_for()
        assert root_element.evaluate(DARK) is False
        assert style("--color-text-primary") == "red"


def test_the_host_learns_how_high_a_page_is_whenever_that_changes(
    chromium: Browser, root: Path
) -> None:
    page_text = (
        "<!doctype html><style>body { margin: 0 }</style><div id='d' style='height: 700px'></div>"
    )
    with hosted(chromium, called(root, ("probe.show", {"page": page_text}))) as (page, view, _):
        for height in (700, 90, 1200):
            view.frame_locator("iframe").locator("#d").evaluate(
                "(one, high) => { one.style.height = `${high}px` }", height
            )
            page.wait_for_function(
                "high => document.getElementById('view').clientHeight === high", arg=height
            )
        told = heard(page, "ui/notifications/size-changed")

    assert [one["params"]["height"] for one in told if one["params"]["height"] >= 90][-2:] == [
        90,
        1200,
    ]
    assert {one["params"]["width"] for one in told} == {1280}


def test_the_protocol_is_spoken_as_it_is_written(chromium: Browser, root: Path) -> None:
    with hosted(chromium, called(root, ("probe.tell", {"of": 1}))) as (page, view, _):
        view.frame_locator("iframe").locator("#told").wait_for()
        page.evaluate("""() => {
            say({id: "a", method: "ping"});
            say({id: "b", method: "ui/resource-teardown", params: {reason: "x"}});
            say({id: "c", method: "toString"});
            say({method: "constructor"});
        }""")
        page.wait_for_function(
            "() => heard.filter((one) => 'id' in one && !one.method).length === 3"
        )
        said: list[Any] = page.evaluate("heard")

    (asked, ready), answers = said[:2], [one for one in said if "id" in one and "method" not in one]
    assert asked["method"] == "ui/initialize"
    assert asked["params"].keys() == {"appInfo", "appCapabilities", "protocolVersion"}
    assert asked["params"]["protocolVersion"] == "2026-01-26"
    assert ready == {"jsonrpc": "2.0", "method": "ui/notifications/initialized", "params": {}}
    assert answers == [
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        {"jsonrpc": "2.0", "id": "b", "result": {}},
        {"jsonrpc": "2.0", "id": "c", "error": {"code": -32601, "message": "unknown method"}},
    ]


def test_a_call_that_failed_is_told_in_words(chromium: Browser, root: Path) -> None:
    with hosted(chromium, called(root, ("probe.tell", {"of": "fail"}))) as (page, view, _):
        view.get_by_text("no such luck").first.wait_for()

        assert view.locator("#told").inner_text().startswith("tool_raised: ")
        page.evaluate("() => say({method: 'ui/notifications/tool-cancelled', params: {}})")
        view.get_by_text("The call was cancelled.").wait_for()


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "<b>plain</b>"}], "_meta": {}},
        {"content": [{"type": "text", "text": "<b>plain</b>"}]},
        {
            "content": [{"type": "text", "text": "<b>plain</b>"}],
            "_meta": {"covalt-git/render_plan": {"renderer": "code", "config": {"content": "<p>"}}},
        },
    ],
)
def test_a_result_that_says_nothing_of_the_page_is_told_as_text(
    chromium: Browser, chart: dict[str, Any], result: dict[str, Any]
) -> None:
    told = [{"method": "ui/notifications/tool-result", "params": result}]
    with hosted(chromium, chart, messages=told) as (_, view, __):
        view.get_by_text("<b>plain</b>").wait_for()


def test_nobody_but_the_host_is_listened_to(chromium: Browser, chart: dict[str, Any]) -> None:
    forged = {"jsonrpc": "2.0", "method": "ui/notifications/tool-cancelled", "params": {}}
    with hosted(chromium, chart, messages=[]) as (page, view, _):
        page.wait_for_function("() => heard.length > 1")
        # Another frame of the host's page says it, and the page itself.
        page.evaluate(
            """forged => new Promise((done) => {
                addEventListener("message", (event) => { if (event.data === "said") done() });
                const other = document.createElement("iframe");
                other.srcdoc = `<script>parent.frames[0].postMessage(${JSON.stringify(forged)}, "*");
                    parent.postMessage("said", "*")</` + `script>`;
                document.body.append(other);
            })""",
            forged,
        )
        view.locator("html").evaluate("(_, forged) => postMessage(forged, '*')", forged)
        page.evaluate(DRAWN)

        assert view.locator("#told").inner_text() == "Waiting for the result"


LOADING = {
    "fetch": "<script>fetch('OUT', {mode: 'no-cors'}).catch(() => 0)</script>",
    "xhr": "<script>const x = new XMLHttpRequest(); x.open('GET', 'OUT'); x.send()</script>",
    "beacon": "<script>navigator.sendBeacon('OUT', 'x')</script>",
    "websocket": "<script>new WebSocket('OUT'.replace('http', 'ws'))</script>",
    "events": "<script>new EventSource('OUT')</script>",
    "image": "<img src='OUT'>",
    "script": "<script src='OUT'></script>",
    "import": "<script>import('OUT').catch(() => 0)</script>",
    "style": "<link rel='stylesheet' href='OUT'>",
    "css": "<style>p { background: url(OUT) }</style><p>x</p>",
    "frame": "<iframe src='OUT'></iframe>",
    "object": "<object data='OUT'></object>",
    "prefetch": "<link rel='prefetch' href='OUT'>",
    "frame-of-text": "<iframe srcdoc=\"<img src='OUT'>\"></iframe>",
}
LEAVING = {
    "form": "<form id='f' method='post' action='OUT'></form><script>f.submit()</script>",
    "location": "<script>location = 'OUT'</script>",
    "refresh": "<meta http-equiv='refresh' content='0;url=OUT'>",
    "link": "<a id='go' href='OUT'>go</a><script>go.click()</script>",
    "around": "<script>parent.location = 'OUT'</script>",
    "top": "<script>top.location = 'OUT'</script>",
    "open": "<script>window.open('OUT')</script>",
}


def test_a_page_reaches_nobody_even_where_the_host_is_careless(
    chromium: Browser, root: Path
) -> None:
    """What arrives from the same page where nothing holds it shows that each attempt is one."""
    told = called(root, ("probe.show", {"page": "<p>x"}))
    config = told["result"]["_meta"]["covalt-git/render_plan"]["config"]
    with Outside() as outside:
        attempts = [
            "".join(
                markup.replace("OUT", f"{outside.url}/{name}") for name, markup in LOADING.items()
            ),
            *(markup.replace("OUT", f"{outside.url}/{name}") for name, markup in LEAVING.items()),
        ]
        for attempt in attempts:
            config["content"] = f"<!doctype html><body>{attempt}"
            with hosted(chromium, told, careless=True) as (page, view, server):
                view.locator("iframe").wait_for()
                page.wait_for_timeout(200)
                assert page.url == f"{server.url}/"
                assert len(page.context.pages) == 1
        assert [one.path for one in outside.requests] == []

        profile = chromium.new_context()
        for attempt in attempts:
            outside.pages["/"] = (HTML, f"<!doctype html><body>{attempt}".encode())
            page = profile.new_page()
            page.goto(outside.url, wait_until="commit")
            page.wait_for_timeout(200)
        profile.close()
        assert {f"/{name}" for name in {**LOADING, **LEAVING}} <= {
            one.path for one in outside.requests
        }


def test_a_page_has_no_say_with_the_host(chromium: Browser, root: Path) -> None:
    call = "{jsonrpc: '2.0', id: 7, method: 'tools/call', params: {name: 'demo.write'}}"
    wants = (
        f"<script>for (const one of [parent, top]) one.postMessage({call}, '*')</script><p>asked"
    )
    with hosted(chromium, called(root, ("probe.show", {"page": wants}))) as (page, view, _):
        view.frame_locator("iframe").get_by_text("asked").wait_for()
        page.wait_for_function(
            "() => heard.some((one) => one.method === 'ui/notifications/size-changed')"
        )

        assert heard(page, "tools/call") == []
