"""Pages of toolsets in a host of MCP Apps, in a browser.

The host, ``app_host.html``, is a page of another server that speaks the protocol of SEP-1865. It shows the
``ui://`` resource in a sandboxed frame, with the content security policy of the specification; a careless host
has no policy.
"""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client
from playwright.sync_api import Browser, FrameLocator, Page

from covalt_git.render.inject_data import inject
from covalt_git.toolsets.new_project import create_project
from tests.browser import DRAWN
from tests.examples import rest
from tests.mcp_client import TOOLSETS, read, talk
from tests.server.outside import Outside
from tests.settling import until

HTML = {"Content-Type": "text/html; charset=utf-8"}
HOST = Path(__file__).with_name("app_host.html").read_bytes()
ATTEMPTS = yaml.load(Path(__file__).with_name("app_attempts.yaml").read_text(), yaml.CSafeLoader)


POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self'; media-src 'self' data:; "
    "frame-src 'none'; object-src 'none'; base-uri 'none';"
)
"""The content security policy of the specification for a page that names no domains."""


@dataclass(frozen=True)
class Shown:
    """A host that shows the page of a call: its page, the frame that it loaded, and the server of both."""

    host: Page
    view: FrameLocator
    server: Outside

    @property
    def page(self) -> FrameLocator:
        """The page of the toolset, which is in a frame of the view."""
        return self.view.frame_locator("iframe")


@pytest.fixture(scope="module")
def project_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("apps") / "project"
    create_project(root)
    config = root / "covalt.yaml"
    rule = "rules:\n  - {effect: ask, pattern: panels.wipe}\n"
    config.write_text(config.read_text().replace("rules:\n", rule, 1))
    for name in ("probe", "panels"):
        shutil.copytree(TOOLSETS / name, root / "toolsets" / name)
    return root


def called(root: Path, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what a host of Apps has after calls: the last result, its arguments and its page."""

    async def say(client: Client) -> dict[str, Any]:
        pages = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        for name, args in calls:
            result = await client.call_tool(name, args)
        page = await read(client, pages[name]["ui"]["resourceUri"])
        return {
            "args": args,
            "html": page.text,
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    # In another thread, because the driver of the browser has this thread's event loop.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(talk, root, say, apps=True).result()


@contextmanager
def shown(
    chromium: Browser,
    call: dict[str, Any],
    *,
    context: dict[str, Any] | None = None,
    careless: bool = False,
    capabilities: dict[str, Any] | None = None,
    messages: list[dict[str, Any]] | None = None,
    width: int = 1280,
) -> Iterator[Shown]:
    """Open a host that shows a call."""
    if messages is None:
        messages = [
            {"method": "ui/notifications/tool-input", "params": {"arguments": call["args"]}},
            {"method": "ui/notifications/tool-result", "params": call["result"]},
        ]
    data = {"context": context or {}, "messages": messages, "capabilities": capabilities or {}}
    data |= {"html": call["html"]} if careless else {"view": "/view"}
    headers = HTML | {"Content-Security-Policy": POLICY}
    viewport: Any = {"width": width, "height": 2000}
    with (
        Outside() as server,
        chromium.new_context(viewport=viewport, color_scheme="null") as profile,
    ):
        server.pages["/view"] = (headers, call["html"].encode())
        server.pages["/"] = (HTML, inject(HOST, data))
        host = profile.new_page()
        host.goto(server.url)
        yield Shown(host, host.frame_locator("#view"), server)


@pytest.fixture(scope="module")
def chart(project_root: Path) -> dict[str, Any]:
    """The chart of the sample table."""
    load = ("data-lab.load_sample", {"output": "weather.csv"})
    return called(project_root, load, ("data-lab.summarize", {"path": "weather.csv"}))


@pytest.mark.parametrize(("width", "theme"), [rest(1280, "light"), (375, "dark")])
def test_a_host_shows_the_chart_of_data_lab_in_its_theme_and_at_its_full_size(
    chromium: Browser, chart: dict[str, Any], width: int, theme: str
) -> None:
    with shown(chromium, chart, context={"theme": theme}, width=width) as app:
        printed: list[str] = []
        app.host.on("console", lambda message: printed.append(message.text))
        app.page.locator("svg text").first.wait_for()
        app.host.wait_for_function("() => document.getElementById('view').clientHeight > 1000")
        app.host.evaluate(DRAWN)

        root = app.page.locator("html")
        assert app.page.locator("h1").inner_text() == "weather.csv"
        color = root.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert color == ("rgb(17, 22, 29)" if theme == "dark" else "rgb(246, 247, 249)")
        overflow = "one => [one.scrollHeight - innerHeight, one.scrollWidth - innerWidth]"
        assert root.evaluate(overflow) == [0, 0]
        assert printed == []
        assert {one.path for one in app.server.requests} <= {"/", "/view", "/favicon.ico"}


def test_the_view_speaks_the_protocol_of_mcp_apps(chromium: Browser, project_root: Path) -> None:
    with shown(chromium, called(project_root, ("probe.echo", {"of": 1}))) as app:
        app.page.locator("#data").wait_for()
        app.host.evaluate("""() => {
            send({id: "a", method: "ping"});
            send({id: "b", method: "ui/resource-teardown", params: {reason: "x"}});
            send({id: "c", method: "toString"});
            send({method: "constructor"});
        }""")
        answers = "received.filter((one) => 'id' in one && !one.method)"
        app.host.wait_for_function(f"() => {answers}.length === 3")
        answered: list[Any] = app.host.evaluate(answers)
        (initialize, initialized) = app.host.evaluate("received.slice(0, 2)")

    assert initialize["method"] == "ui/initialize"
    assert initialize["params"].keys() == {"appInfo", "appCapabilities", "protocolVersion"}
    assert initialize["params"]["protocolVersion"] == "2026-01-26"
    ready = {"jsonrpc": "2.0", "method": "ui/notifications/initialized", "params": {}}
    assert initialized == ready
    assert [(one["id"], one.get("error", {}).get("code")) for one in answered] == [
        ("a", None),
        ("b", None),
        ("c", -32601),
    ]


def test_the_view_listens_to_its_host_alone(chromium: Browser, chart: dict[str, Any]) -> None:
    forged = {"jsonrpc": "2.0", "method": "ui/notifications/tool-cancelled", "params": {}}
    with shown(chromium, chart, messages=[]) as app:
        app.host.wait_for_function("() => received.length > 1")
        # Another frame of the host sends it, and the view itself.
        app.host.evaluate(
            """forged => new Promise((done) => {
                addEventListener("message", (event) => { if (event.data === "sent") done() });
                const other = document.createElement("iframe");
                other.srcdoc = `<script>parent.frames[0].postMessage(${JSON.stringify(forged)}, "*");
                    parent.postMessage("sent", "*")</` + `script>`;
                document.body.append(other);
            })""",
            forged,
        )
        app.view.locator("html").evaluate("(_, forged) => postMessage(forged, '*')", forged)
        app.host.evaluate(DRAWN)

        assert app.view.locator("#status").inner_text() == "Waiting for the result"


@pytest.mark.parametrize(
    "leaving",
    [pytest.param(1, id="one"), pytest.param(None, marks=pytest.mark.rest, id="each")],
)
def test_a_page_reaches_no_server_and_leaves_no_frame_even_in_a_careless_host(
    chromium: Browser, project_root: Path, leaving: int | None
) -> None:
    """The same pages without a host reach the server, so each of them is an attempt."""
    call = called(project_root, ("probe.show", {"page": "<p>x"}))
    config = call["result"]["_meta"]["covalt-git/render_plan"]["config"]
    tried = {**ATTEMPTS, "leaving": dict([*ATTEMPTS["leaving"].items()][:leaving])}
    with Outside() as outside, chromium.new_context() as profile:

        def attempts(kind: str) -> list[str]:
            return [
                markup.replace("OUT", f"{outside.url}/{name}")
                for name, markup in tried[kind].items()
            ]

        pages = ["".join(attempts("loading")), *attempts("leaving")]
        for page in pages:
            config["content"] = f"<!doctype html><body>{page}"
            with shown(chromium, call, careless=True) as app:
                app.view.locator("iframe").wait_for()
                app.host.wait_for_timeout(200)
                assert app.host.url == f"{app.server.url}/"
                assert len(app.host.context.pages) == 1
        assert [one.path for one in outside.requests] == []

        for page in pages:
            outside.pages["/"] = (HTML, f"<!doctype html><body>{page}".encode())
            tab = profile.new_page()
            tab.goto(outside.url, wait_until="commit")
        names = {f"/{name}" for kind in tried.values() for name in kind}
        until(lambda: names <= {one.path for one in outside.requests})


def test_a_page_cannot_call_tools_through_the_host(chromium: Browser, project_root: Path) -> None:
    message = "{jsonrpc: '2.0', id: 7, method: 'tools/call', params: {name: 'demo.write'}}"
    page = (
        f"<script>for (const one of [parent, top]) one.postMessage({message}, '*')</script><p>sent"
    )
    with shown(chromium, called(project_root, ("probe.show", {"page": page}))) as app:
        app.page.get_by_text("sent").wait_for()
        app.host.wait_for_function(
            "() => received.some((one) => one.method === 'ui/notifications/size-changed')"
        )

        assert "tools/call" not in app.host.evaluate("received.map((one) => one.method)")


PANEL = """<button>call</button><output></output><script>
  document.querySelector("button").onclick = async () => {
    const shown = [];
    for (const [tool, args] of CALLS) {
      try {
        const { isError, content } = await window.__CALL_TOOL__(tool, args);
        shown.push(`${tool} ${isError ? "failed" : "returned"}: ${content[0].text.split("\\n")[0]}`);
      } catch (error) { shown.push(`${tool} refused: ${error.message}`); }
    }
    document.querySelector("output").textContent = shown.join("\\n");
  };
</script>"""
FORWARDS: dict[str, Any] = {"serverTools": {}}


def panel(root: Path, *calls: tuple[str, Any]) -> dict[str, Any]:
    """Return the call whose page makes calls when its button is clicked."""
    page = PANEL.replace("CALLS", json.dumps(calls))
    return called(root, ("panels.panel", {"page": page}))


def forward(root: Path, app: Shown, number: int) -> dict[str, Any]:
    """Send the page's request with a number to the server, as a host does, and return its parameters."""
    requests = "received.filter((message) => message.method === 'tools/call')"
    app.host.wait_for_function(f"number => {requests}.length > number", arg=number)
    request: dict[str, Any] = app.host.evaluate(f"number => {requests}[number]", number)
    params: dict[str, Any] = request["params"]

    async def say(client: Client) -> dict[str, Any]:
        (tool,) = [
            tool for tool in (await client.list_tools()).tools if tool.name == params["name"]
        ]
        assert "app" in (tool.meta or {})["ui"]["visibility"]  # a host refuses other tools
        result = await client.call_tool(params["name"], params["arguments"])
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(talk, root, say, apps=True).result()
    app.host.evaluate("answer => send(answer)", {"id": request["id"], "result": result})
    return params


def test_a_page_calls_the_tools_that_its_renderer_names_and_no_others(
    chromium: Browser, project_root: Path
) -> None:
    calls = [
        ("save", {"text": "x"}),
        ("wipe", {}),
        ("hidden", {}),
        ("panels:save", {}),
        ("resume", {}),
    ]
    call = panel(project_root, *calls, ("toString", {}), ("save", [1]))
    with shown(chromium, call, capabilities=FORWARDS) as app:
        app.page.get_by_role("button").click()
        sent = [forward(project_root, app, number) for number in range(2)]
        output = app.page.locator("output")
        output.get_by_text("refused").wait_for()
        lines = output.text_content() or ""

    assert [params["name"] for params in sent] == ["panels.save", "panels.wipe"]
    saved, asked, *refused = lines.split("\n")
    assert saved == "save returned: saved x"
    # A rule of covalt.yaml requires approval of this tool, also for a call of a page.
    assert asked.startswith("wipe failed: panels:wipe needs approval: ")
    reason = "its renderer does not name it in calls"
    assert refused == [
        *(
            f"{name} refused: this page may not call {name}: {reason}"
            for name in ("hidden", "panels:save", "resume", "toString")
        ),
        "save refused: the arguments must be an object",
    ]


@pytest.mark.rest
def test_a_page_calls_no_tool_through_a_host_that_does_not_offer_it(
    chromium: Browser, project_root: Path
) -> None:
    with shown(chromium, panel(project_root, ("save", {"text": "x"}))) as app:
        app.page.get_by_role("button").click()
        app.page.get_by_text("save refused: this host does not let pages call tools").wait_for()

        assert "tools/call" not in app.host.evaluate("received.map((one) => one.method)")


@pytest.mark.rest
def test_a_page_whose_renderer_names_no_tool_has_no_function_that_calls_tools(
    chromium: Browser, project_root: Path
) -> None:
    page = "<p></p><script>document.querySelector('p').textContent = typeof window.__CALL_TOOL__</script>"
    call = called(project_root, ("probe.show", {"page": page}))
    with shown(chromium, call, capabilities=FORWARDS) as app:
        app.page.get_by_text("undefined").wait_for()
