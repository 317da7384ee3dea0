"""Files of a preview: who gets them, with which headers, and what their app can do."""

import json
import re
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from werkzeug.test import TestResponse

from covalt_git.serving.router import with_access_log
from covalt_server.preview.keys import PreviewedCommit
from covalt_server.render.artifacts import ARTIFACT_HEADERS
from covalt_server.security import masked_path
from tests.api_client import BEARER, HOME, PORT, TOKEN, Api
from tests.browser import console_errors, missing
from tests.live_server import live
from tests.server.visitor import Visitor
from tests.uvicorn_server import served

FROM_OPAQUE = {"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "empty"}
"""Headers of a request of the frame's document, which has no origin and sends no cookie."""
IN_A_FRAME = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"}
WASM = bytes.fromhex("0061736d01000000010501600001 7f03020100070701036f6e6500000a06010400412a0b")
"""A module that exports ``one``, a function that returns 42."""
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes.fromhex(
    "0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def api(shared: Api) -> Api:
    """The API of a project whose chat c1 has an app, and c2 a secret; not to be changed."""
    shared.upload(
        ("index.html", b"<h1>Start</h1>"),
        ("style.css", b"h1 { color: red }"),
        ("a b.mjs", b"export const x = 1"),
        ("icon.PNG", PIXEL),
        ("unknown.xyz", b"<script>1</script>"),
        ("latin.html", b"<p>caf\xe9</p>"),
        ("run.wasm", WASM),
    )
    (shared.workspace / "link.html").symlink_to("index.html")
    (shared.workspace / "files").mkdir()
    for name in ("<b>.txt", "a:b.txt"):
        (shared.workspace / "files" / name).write_text("listed")
    shared.upload(("index.html", b"docs"), folder="docs")
    return shared


def key(api: Api, chat_id: str = "c1", session: str = "") -> str:
    head = api.get("get_chat", chat_id=chat_id)["active_manifest_id"]
    found: str = api.app.config["COVALT_PREVIEWS"].key(PreviewedCommit(session, chat_id, head))
    return found


def ask(api: Api, path: str, **headers: str) -> TestResponse:
    """Ask for a path as the frame's document does."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client = api.app.test_client(use_cookies=False)
    return client.get(path, base_url=HOME, headers=FROM_OPAQUE | named)


# Answers


@pytest.mark.parametrize(
    ("path", "media", "content"),
    [
        ("", "text/html; charset=utf-8", b"<h1>Start</h1>"),
        ("index.html", "text/html; charset=utf-8", b"<h1>Start</h1>"),
        ("style.css", "text/css; charset=utf-8", b"h1 { color: red }"),
        ("a%20b.mjs?v=1", "text/javascript; charset=utf-8", b"export const x = 1"),
        ("icon.PNG", "image/png", PIXEL),
        ("run.wasm", "application/wasm", WASM),
        ("unknown.xyz", "application/octet-stream", b"<script>1</script>"),
        ("latin.html", "text/html", b"<p>caf\xe9</p>"),
        ("docs/", "text/html; charset=utf-8", b"docs"),
    ],
)
def test_a_file_has_the_type_of_its_name(api: Api, path: str, media: str, content: bytes) -> None:
    answer = ask(api, f"/preview/{key(api)}/{path}")

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, media)
    assert answer.get_data() == content


@pytest.mark.parametrize(
    "path", ["", "docs", "no.html", "link.html", "index.html/", "../c2/x", "..%2f..%2fapi"]
)
def test_each_answer_has_every_header_of_the_sandbox(api: Api, path: str) -> None:
    own = f"{HOME}/preview/{key(api)}/"
    answer = ask(api, f"/preview/{key(api)}/{path}")

    status = {"": HTTPStatus.OK, "docs": HTTPStatus.FOUND}.get(path, HTTPStatus.NOT_FOUND)
    assert answer.status_code == status
    if status == HTTPStatus.NOT_FOUND:
        assert (answer.mimetype, answer.text) == ("text/plain", "Not Found\n")
    assert set(answer.headers["Content-Security-Policy"].split("; ")) == {
        "sandbox allow-scripts allow-forms",
        "default-src 'none'",
        f"script-src {own} 'unsafe-inline' 'wasm-unsafe-eval'",
        f"style-src {own} 'unsafe-inline'",
        f"img-src {own} data: blob:",
        f"font-src {own} data:",
        f"media-src {own} data: blob:",
        f"connect-src {own}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    }
    same = (
        "Permissions-Policy",
        "Referrer-Policy",
        "X-Content-Type-Options",
        "X-DNS-Prefetch-Control",
    )
    expected = {name: ARTIFACT_HEADERS[name] for name in same} | {
        "Connection-Allowlist": f'("{own.replace("http", "http{s}?", 1)}*");webrtc=block;redirects=allow',
        "Access-Control-Allow-Origin": "null",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Cache-Control": "no-store",
    }
    assert expected.items() <= dict(answer.headers).items()
    assert "Set-Cookie" not in answer.headers
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_a_folder_without_an_index_is_a_list_of_links(api: Api) -> None:
    redirect = ask(api, f"/preview/{key(api)}/files")
    listing = ask(api, f"/preview/{key(api)}/files/")

    assert (redirect.status_code, redirect.headers["Location"]) == (302, "files/")
    assert '<a href="./%3Cb%3E.txt">&lt;b&gt;.txt</a>' in listing.text
    assert '<a href="./a%3Ab.txt">a:b.txt</a>' in listing.text


def test_a_part_of_a_file_is_answered(api: Api) -> None:
    answer = ask(api, f"/preview/{key(api)}/style.css", Range="bytes=1-3")
    beyond = ask(api, f"/preview/{key(api)}/style.css", Range="bytes=900-")

    assert (answer.status_code, answer.text) == (206, "1 {")
    assert (beyond.status_code, beyond.mimetype) == (416, "text/plain")
    assert beyond.headers["Access-Control-Allow-Origin"] == "null"


# Refusals


@pytest.mark.parametrize("destination", ["document", "embed", "object", "frame", "worker", ""])
def test_a_preview_is_shown_in_a_frame_only(api: Api, destination: str) -> None:
    answer = ask(api, f"/preview/{key(api)}/index.html", Sec_Fetch_Dest=destination)

    assert answer.status_code == 403
    assert "<h1>Start" not in answer.text
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("headers", [{}, BEARER])
def test_an_unknown_key_opens_nothing(api: Api, headers: dict[str, str]) -> None:
    client = api.app.test_client(use_cookies=False)
    for unknown in ("0" * 32, "1", key(api)[:-1]):
        opaque = client.get(f"/preview/{unknown}/", base_url=HOME, headers=FROM_OPAQUE | headers)
        signed = client.get(f"/preview/{unknown}/", base_url=HOME, headers=IN_A_FRAME | headers)

        assert opaque.status_code == 403
        assert signed.status_code == (404 if headers else 401)
        assert "Access-Control-Allow-Origin" not in {*opaque.headers, *signed.headers}


def test_a_key_opens_nothing_but_the_files_of_its_commit(api: Api) -> None:
    own = key(api)
    api.upload(("later.html", b"later"))

    assert ask(api, f"/preview/{own}/later.html").status_code == 404
    assert ask(api, f"/preview/{key(api)}/later.html").text == "later"
    for path in ("/chats/c1", "/api/list_chats", f"/chats/c1?key={own}", "/static/app.js"):
        assert ask(api, path).status_code == 403
    for host in ("evil.example", f"evil.example:{PORT}"):
        sent = api.app.test_client().get(
            f"/preview/{own}/", base_url=f"http://{host}", headers=FROM_OPAQUE
        )
        assert sent.status_code == 421
    for method in ("post", "put", "delete"):
        sent = getattr(api.app.test_client(), method)(
            f"/preview/{own}/", base_url=HOME, headers=FROM_OPAQUE
        )
        assert sent.status_code == 403


def test_a_preview_of_a_chat_that_the_principal_has_lost_is_not_found(api: Api) -> None:
    api.post("create_chat", chat_id="gone")
    args = {"path": "index.html", "content": "gone"}
    api.post("call_tool", chat_id="gone", tool_id="app-builder:write_file", args=args)
    own = key(api, "gone")
    assert ask(api, f"/preview/{own}/").text == "gone"

    api.post("delete_chat", chat_id="gone")

    answer = ask(api, f"/preview/{own}/")
    assert (answer.status_code, answer.text) == (404, "Not Found\n")


# Sessions


def frame_of(client: Any) -> str:
    """Return where the frame of the page of a preview begins."""
    page = client.get("/chats/c1/preview/index.html", base_url=HOME)
    assert page.status_code == 200
    (url,) = re.findall(r'<iframe [^>]*src="([^"]+)"', page.text)
    return str(url)


def test_a_key_belongs_to_a_session_and_ends_when_it_signs_out(api: Api) -> None:
    clients = [api.app.test_client() for _ in range(2)]
    for client in clients:
        client.get("/", base_url=HOME, query_string={"token": TOKEN})
    urls = [frame_of(client) for client in clients]
    assert urls[0] != urls[1]
    assert [ask(api, url).status_code for url in urls] == [200, 200]
    assert frame_of(clients[0]) == urls[0]

    signed_out = clients[0].post("/sign-out", base_url=HOME)

    assert (signed_out.status_code, signed_out.headers["Location"]) == (303, "/")
    assert [ask(api, url).status_code for url in urls] == [403, 200]
    assert clients[0].get("/chats", base_url=HOME).status_code == 401
    assert clients[1].get("/chats", base_url=HOME).status_code == 200


def test_a_sign_out_without_a_session_ends_no_key(api: Api) -> None:
    url = f"/preview/{key(api)}/"
    client = api.app.test_client()

    assert client.post("/sign-out", base_url=HOME, headers=BEARER).status_code == 303
    assert ask(api, url).status_code == 200


def test_the_key_of_a_chat_that_was_created_again_finds_no_file(api: Api) -> None:
    api.post("create_chat", chat_id="again")
    api.upload(("index.html", b"old"), chat_id="again")
    url = f"/preview/{key(api, 'again')}/index.html"
    assert ask(api, url).text == "old"

    api.post("delete_chat", chat_id="again")
    deleted = ask(api, url)
    api.post("create_chat", chat_id="again")
    created = ask(api, url)

    for answer in (deleted, created):
        assert (answer.status_code, answer.text) == (404, "Not Found\n")
        assert answer.headers["Content-Security-Policy"].startswith("sandbox ")


def test_a_new_sign_in_of_a_browser_ends_the_keys_of_the_last_one(api: Api) -> None:
    client = api.app.test_client()
    client.get("/", base_url=HOME, query_string={"token": TOKEN})
    url = frame_of(client)

    client.get("/", base_url=HOME, query_string={"token": TOKEN})

    assert ask(api, url).status_code == 403
    assert ask(api, frame_of(client)).status_code == 200


@pytest.mark.parametrize("role", ["reader", None])
def test_each_role_that_sees_the_files_of_a_chat_may_preview_them(
    api: Api, role: str | None
) -> None:
    config = api.root / "covalt.yaml"
    text = config.read_text()
    config.write_text(f"{text}roles: {{reader: {{allow: [workspace.read_file]}}}}\n")
    try:
        found = Visitor.of(api.root, role).open("/chats/c1/preview/index.html")
    finally:
        config.write_text(text)

    assert found.status == 200
    assert found.named("iframe")[0]["sandbox"] == "allow-scripts allow-forms"


def test_the_log_of_a_server_has_no_key(api: Api) -> None:
    lines: list[str] = []
    with served(api.root, wrap=lambda app: with_access_log(app, lines.append, masked_path)) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(
            "GET",
            "/chats/c1/preview/index.html",
            headers={"Authorization": "Bearer a-token-of-the-tests"},
        )
        (url,) = re.findall(r'<iframe [^>]*src="([^"]+)"', connection.getresponse().read().decode())
        connection.request("GET", url, headers=FROM_OPAQUE)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()

    assert (answer.status, content) == (200, b"<h1>Start</h1>")
    assert lines == ["GET /chats/c1/preview/index.html 200", "GET /preview/***/index.html 200"]


# In the browser

APP = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="app/app.css"><p id="box">x</p>
<a href="app">in a folder</a><script src="app/plain.js"></script><script type="module" src="app/main.mjs"></script>"""
FILES = {
    "app.css": "@font-face { font-family: own; src: url(own.ttf) } #box { font-family: own; width: 123px }",
    "plain.js": "window.plain = 1;",
    "main.mjs": """
import { part } from "./part.mjs";
const found = { part, plain: window.plain, width: box.getBoundingClientRect().width };
found.later = (await import("./part.mjs")).part;
found.json = (await (await fetch("app/data.json")).json()).a;
found.wasm = (await WebAssembly.instantiateStreaming(fetch("app/run.wasm"))).instance.exports.one();
const image = new Image();
image.src = "app/pixel.png";
await image.decode();
found.image = image.naturalWidth;
found.font = (await new FontFace("own", "url(app/own.ttf)").load()).status;
found.origin = origin;
const form = document.createElement("form");
form.onsubmit = (event) => { event.preventDefault(); found.form = "handled"; };
document.body.append(form);
form.requestSubmit();
for (const [name, use] of Object.entries({
    cookie: () => document.cookie, storage: () => localStorage.length, database: () => indexedDB.open("x"),
    caches: () => caches.keys(), parent: () => parent.document.title,
})) try { use(); found[name] = "open"; } catch (error) { found[name] = error.name; }
document.body.insertAdjacentHTML("beforeend", `<pre id="found">${JSON.stringify(found)}</pre>`);
""",
    "part.mjs": "export const part = 'module';",
    "data.json": '{"a": "fetched"}',
    "index.html": '<!doctype html><p id="found">second page</p><script src="plain.js"></script>',
}


def a_font() -> bytes:
    """Return a font of this machine; a browser needs one."""
    for folder in ("/usr/share/fonts", "/Library/Fonts"):
        for file in Path(folder).rglob("*.ttf"):
            return file.read_bytes()
    missing("a font", "apt-get install fonts-liberation")
    raise AssertionError


def test_an_app_loads_its_own_files_and_has_nothing_else(api: Api, chromium: Browser) -> None:
    api.upload(("app.html", APP.encode()))
    others = {"pixel.png": PIXEL, "run.wasm": WASM, "own.ttf": a_font()}
    api.upload(
        *((name, text.encode()) for name, text in FILES.items()), *others.items(), folder="app"
    )
    with live(api.root) as own, chromium.new_context() as context:
        page = context.new_page()
        errors = console_errors(page)
        page.goto(own.door)
        page.goto(f"{own.url}/chats/c1/preview/app.html")
        frame = page.frame_locator(".preview-frame iframe")
        found = json.loads(frame.locator("#found").inner_text())
        frame.get_by_role("link").click()
        expect(frame.locator("#found")).to_have_text("second page")

    assert found == {
        "part": "module",
        "plain": 1,
        "width": 123,
        "later": "module",
        "json": "fetched",
        "wasm": 42,
        "image": 1,
        "font": "loaded",
        "origin": "null",
        "form": "handled",
        "cookie": "SecurityError",
        "storage": "SecurityError",
        "database": "SecurityError",
        "parent": "SecurityError",
        "caches": "SecurityError",
    }
    assert [path for path in own.paths if path.startswith("/preview/") and "/app" not in path] == []
    assert errors == []


FIELD = """<!doctype html><input id="inside"><p id="typed"></p><script>
inside.focus();
document.body.dataset.loaded = "";
document.onkeydown = (event) => { typed.textContent += event.key; };
</script>"""
THIEF = f"{FIELD}<script>setInterval(() => {{ focus(); inside.focus(); }}, 50);</script>"


def test_a_frame_that_takes_the_keyboard_again_and_again_is_removed(
    api: Api, chromium: Browser
) -> None:
    api.upload(("thief.html", THIEF.encode()))
    with live(api.root) as own, chromium.new_context() as context:
        page = context.new_page()
        page.goto(own.door)
        page.goto(f"{own.url}/chats/c1?preview=thief.html")
        box, frames = page.locator("#text"), page.locator(".preview-frame iframe")
        page.frame_locator(".preview-frame iframe").locator("[data-loaded]").wait_for()
        box.click()
        expect(page.locator(".preview-frame")).to_contain_text("it took the keyboard")
        expect(frames).to_have_count(0)
        expect(box).to_be_focused()
        page.keyboard.type("what the user types")
        expect(box).to_have_value("what the user types")

        page.get_by_role("button", name="Show it again").click()
        expect(frames).to_have_count(1)
        expect(page.frame_locator(".preview-frame iframe").locator("#typed")).to_have_text("")


def test_a_frame_gets_the_keyboard_by_a_click_and_by_tab(api: Api, chromium: Browser) -> None:
    api.upload(("field.html", FIELD.encode()))
    with live(api.root) as own, chromium.new_context() as context:
        page = context.new_page()
        page.goto(own.door)
        page.goto(f"{own.url}/chats/c1?preview=field.html")
        box = page.locator("#text")
        inside = page.frame_locator(".preview-frame iframe").locator("#inside")
        inside.click()
        page.keyboard.type("by a click")
        expect(inside).to_have_value("by a click")

        box.click()
        expect(box).to_be_focused()
        for _ in range(99):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.tagName") == "IFRAME":
                break
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("End")
        page.keyboard.type(", by Tab")
        expect(inside).to_have_value("by a click, by Tab")
