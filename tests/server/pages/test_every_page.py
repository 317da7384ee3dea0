"""Every page: served with its policy, accessible, and as wide as its screen."""

import json
import struct
import time
from collections.abc import Iterator
from itertools import product
from typing import Literal

import pytest
from flask import Flask, Response
from playwright.sync_api import Browser, Page, expect

from covalt_git.installs.pending_imports import Bundle, stage_bundle
from tests.api_client import Api, form_file
from tests.browser import console_errors, violations
from tests.examples import covering
from tests.live_server import Live, live
from tests.mcp_client import add_toolset
from tests.server.sample_bundle import DEMO
from tests.sources.pets_api import document

PAGES = [
    *("/", "/chats", "/chats/c1", "/chats/c1?compare=idea", "/chats/c1/messages/{message}"),
    *("/chats/c1/history", "/chats/c1/states/HEAD", "/chats/c1/diff?old=HEAD&new="),
    *("/chats/c1/files", "/chats/c1/files/days.csv?c2=>3&sort=-2", "/chats/c1/files/notes.md"),
    *("/chats/c1/files/notes.md?view=edit", "/chats/c1/files/hum.wav", "/chats/c1/new-file"),
    *("/chats/c1/files/app.html", "/chats/c1/preview/app.html", "/chats/c1/preview/?width=768"),
    *("/chats/c1/merge?branch=idea", "/chats/c1/conflicts"),
    *("/chats/parted/diff?old=idea&new=main", "/chats/parted/diff?old=idea&new=main&view=split"),
    "/chats/parted/diff/lines?path=notes.txt&new=main&start=30&to=60&shift=0&way=up",
    *("/chats/parted/merge?branch=idea", "/chats/kept/conflicts"),
    *("/chats/c1/calls/{chart}", "/chats/c1/calls/{failed}", "/chats/c1/calls/{written}/undo"),
    "/chats/c1/undo",
    "/chats/c1/calls/{rows}/rows?sort=1",
    *("/search", "/search?q=csv", "/search?q=csv&kind=call&chat=c1"),
    *("/tools", "/tools?q=nothing-like-it", "/tools/data-lab:select_rows?chat=c1"),
    "/tools/data-lab:summarize?chat=c1&run={chart}&compare={chart}&compare={failed_chart}",
    *("/reference", "/reference/merge_branch"),
    *("/policy", "/policy?tool=app-builder:run_command"),
    *("/config", "/config/fix", "/config/edit"),
    *("/new-toolset", "/new-toolset?then=document"),
    *("/toolsets", "/toolsets/data-lab", "/toolsets/broken/files/toolset.yaml"),
    *("/toolsets/misspelt/files/toolset.yaml", "/toolsets/misspelt/fix"),
    *("/toolsets/misspelt/edit/toolset.yaml", "/toolsets/data-lab/edit/artifacts/chart.html"),
    *("/toolsets/data-lab/uninstall", "/toolsets/data-lab/sources/new", "/toolsets/demo"),
    *("/toolsets/broken", "/toolsets/demo/changes", "/toolsets/lists/sources/pets", "/registry"),
    *("/imports", "/imports/{staged}"),
    *("/approvals?state=all", "/approvals/{approval}", "/nowhere"),
    *("/scripts", "/scripts/{script}", "/approvals/{of_script}"),
]
IN_EACH_RUN = {
    *("/", "/chats/c1", "/chats/c1/history"),
    *("/chats/c1/files/days.csv?c2=>3&sort=-2", "/chats/c1/files/notes.md?view=edit"),
    *("/chats/c1/preview/app.html", "/chats/parted/diff?old=idea&new=main&view=split"),
    *("/chats/parted/merge?branch=idea", "/chats/c1/calls/{chart}"),
    *("/search?q=csv", "/tools/data-lab:select_rows?chat=c1"),
    *("/toolsets/data-lab", "/imports/{staged}", "/approvals/{approval}", "/scripts/{script}"),
}
"""Pages whose parts are those of all others, which ``make test-rest`` opens."""
NOT_PAGES = {
    "calls.frame",  # of a result that its tool's server shows: test_frames.py opens it
    "artifacts.artifact",  # the page of a toolset in a frame, which the page of its call has
    "calls.result",  # JSON
    "preview_files.file",  # the app of a chat in a frame, which the preview has
    "questions.question",  # of a running call: test_elicitation.py opens it
    "toolset_files.page",  # the page of a toolset in a frame, which its editor has
    "toolsets.export",  # a download
}
"""Endpoints that answer with something else than a page, or with a page that another test opens."""
LISTS = """\
id: lists
name: Lists
version: "1"
tools: [{id: rows, entrypoint: "tools.lists:rows"}]
"""
LISTS_PYTHON = "def rows(rows: list[dict]) -> list[dict]:\n    return rows\n"
VIEWS: list[tuple[Literal["light", "dark"], int]] = [("light", 1280), ("dark", 375)]
"""The theme and the width of a screen."""
SILENCE = struct.pack(
    "<4sI8sIHHIIHH4sI8x", b"RIFF", 44, b"WAVEfmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 8
)
DOT = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002014c003b"
)

SMALL = """() => {
  const TARGETS = "a, button, input, select, textarea, summary";
  const isSmall = (box) => box.width > 0 && box.height > 0 && (box.width < 24 || box.height < 24);
  // A link within a sentence has the height of its line (WCAG 2.5.8), and an unseen target no pointer.
  const inSentence = (one) => {
    if (!one.matches("a, button.link") || getComputedStyle(one).display !== "inline") return false;
    const sentence = one.parentElement.cloneNode(true);
    for (const target of sentence.querySelectorAll(TARGETS)) target.remove();
    return /\\p{L}{2}/u.test(sentence.textContent);
  };
  return [...document.querySelectorAll(TARGETS)]
    .filter((one) => one.checkVisibility() && isSmall(one.getBoundingClientRect()))
    .filter((one) => !one.matches(".unseen, .skip, [type=hidden], .unseen *") && !inSentence(one))
    .map((one) => one.outerHTML.slice(0, 120));
}"""
"""Script that finds targets of a pointer that are smaller than 24 px."""


@pytest.fixture(scope="module")
def api(shared: Api) -> Api:
    """The API of a project that has something for every page."""
    api = shared
    (api.root / "toolsets/broken").mkdir()
    (api.root / "toolsets/broken/toolset.yaml").write_text(
        'id: a  # a note\nlimits: {files: 1}\nname: ["b\n'
    )
    (api.root / "toolsets/misspelt").mkdir()
    (api.root / "toolsets/misspelt/toolset.yaml").write_text(
        'id: misspelt\nname: Misspelt\nverison: "1"\ndescriptoin: It is not right.\n'
    )
    add_toolset(api.root, "lists", LISTS, LISTS_PYTHON)
    text = json.dumps(document("https://pets.example.com"))
    pets = {"name": "pets.json", "files": {"pets.json": text}}
    api.post("add_source", toolset_id="lists", namespace="pets", document=pets)
    bundle = form_file("demo.zip", DEMO)
    assert api.send_form("import_toolset", {"file": bundle}).status_code == 200
    (api.root / "toolsets/demo/README.md").write_text("# A file of the user\n")
    entry = {"tool_id": "idle/one", "name": "Idle", "description": "Waits."}
    api.post("register_tool", entry=entry)
    api.upload(("days.csv", b"day,celsius\n2026-01-01,3.5\n2026-01-02,4.5\n"))
    api.post("create_branch", chat_id="c1", name="idea")
    notes = b"# Notes\n\n| a | b |\n| - | - |\n| 1 | 2 |\n"
    app = b'<!doctype html><html lang="en"><title>App</title><main><h1>App</h1></main></html>'
    api.upload(("notes.md", notes), ("hum.wav", SILENCE), ("app.html", app))
    (api.workspace / "unsaved.txt").write_text("typed")
    for chat in ("parted", "kept"):
        part(api, chat)
    api.post("merge_branch", chat_id="kept", branch="idea", conflicts="both")
    return api


def part(api: Api, chat: str) -> None:
    """Make a chat with two branches that conflict in two hunks of a text, and in an image."""
    api.post("create_chat", chat_id=chat)
    workspace = api.root / "data" / "chats" / chat / "workspace"
    lines = [f"line {number} of the notes\n" for number in range(1, 90)]

    def commit(word: str) -> None:
        changed = {3: f"line three {word}\n", 80: f"line {word}\u202e 80 \n"}
        workspace.mkdir(exist_ok=True)
        text = "".join(changed.get(at, line) if word else line for at, line in enumerate(lines))
        (workspace / "notes.txt").write_text(text)
        (workspace / "uv.lock").write_text(word)
        (workspace / "dot.gif").write_bytes(DOT + word.encode())
        api.post("save_edits", chat_id=chat)

    commit("")
    api.post("create_branch", chat_id=chat, name="idea")
    commit("ours")
    api.post("switch_branch", chat_id=chat, branch="idea")
    commit("theirs")
    api.post("switch_branch", chat_id=chat, branch="main")


@pytest.fixture(scope="module")
def ids(api: Api) -> dict[str, str]:
    asked = api.call("app-builder:run_command", command="ls")
    source = "for name in ['ls']:\n    tools.app_builder.run_command(command=name)"
    script = api.call("workspace:run_script", script=source)
    text = "# Plan\n\n- one\n- `two`"
    return {
        "message": api.post("add_message", chat_id="c1", text=text)["message_id"],
        "rows": api.call("lists:rows", rows=[{"city": "Berlin", "days": 3}, {"city": "Rome"}])[
            "id"
        ],
        "chart": api.call("data-lab:summarize", path="days.csv")["id"],
        "failed_chart": api.call("data-lab:summarize", path="missing.csv")["id"],
        "failed": api.call("app-builder:read_file", path="missing.txt")["id"],
        "written": api.write("plan.txt", "one\n")["id"],
        "approval": asked["execution_id"],
        "script": script["id"],
        "of_script": script["execution_id"],
        "staged": str(stage_bundle(api.root, Bundle.upload(DEMO, "demo.zip"))),
    }


@pytest.fixture(scope="module")
def long_chat(api: Api) -> None:
    """The chat ``long``, whose conversation is longer than a screen and has a preview."""
    api.post("create_chat", chat_id="long")
    for number in range(12):
        text = f"# Part {number}\n\n" + "Words of a text. " * 40
        message = api.post("add_message", chat_id="long", text=text)["message_id"]
        args = {"path": "app.html", "content": f"<h1>{number}</h1>" * 30}
        api.post(
            "call_tool",
            chat_id="long",
            tool_id="app-builder:write_file",
            args=args,
            message_id=message,
        )


@pytest.fixture(scope="module")
def served(api: Api) -> Iterator[Live]:
    with live(api.root) as own:
        yield own


@pytest.fixture(scope="module")
def page(chromium: Browser, served: Live) -> Iterator[Page]:
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(served.door)
        yield page


def test_every_route_of_a_page_is_opened(served: Live, ids: dict[str, str]) -> None:
    routes = served.app.url_map.bind("127.0.0.1")
    existing = [path.partition("?")[0] for path in PAGES if path != "/nowhere"]
    opened = {routes.match(path.format(**ids))[0] for path in existing}
    pages = {
        rule.endpoint
        for rule in served.app.url_map.iter_rules()
        if "GET" in (rule.methods or ())
        and "." in rule.endpoint
        and not rule.rule.startswith("/api/")
    }
    assert pages - opened == NOT_PAGES
    assert {*PAGES} >= IN_EACH_RUN


@pytest.mark.parametrize(
    ("path", "view"),
    [
        pytest.param(
            *row.values, marks=row.marks if row.values[0] in IN_EACH_RUN else pytest.mark.rest
        )
        for row in covering(PAGES, VIEWS)
    ],
)
def test_a_page_is_accessible_and_fits_its_screen(
    page: Page,
    served: Live,
    ids: dict[str, str],
    path: str,
    view: tuple[Literal["light", "dark"], int],
) -> None:
    """The console has an error for whatever is inline or from elsewhere: the policy of a page allows neither."""
    scheme, width = view
    errors = console_errors(page)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    answer = page.goto(served.url + path.format(**ids))
    assert answer is not None
    assert answer.status == (404 if path == "/nowhere" else 200)
    if path.startswith("/policy?"):  # by keyboard: the explanation is the answer of the form
        page.locator("#args").press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="A call requires approval").wait_for()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert width > 375 or page.evaluate(SMALL) == []
    assert violations(page) == []
    assert [one for one in errors if "404" not in one] == []


SHIFTS = """() => new Promise((done) => {
  const shifts = [];
  const note = (entries) => shifts.push(...entries.filter((one) => one.value > 0).map(
    (one) => `${one.value.toFixed(4)} ${one.sources.map(({ node }) => node?.outerHTML?.slice(0, 80))}`));
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => requestAnimationFrame(() => { note(observer.takeRecords()); done(shifts); }));
})"""
"""Script that waits for a drawn frame, and returns what moved on the page without an action of the user."""


@pytest.mark.usefixtures("long_chat")
@pytest.mark.parametrize(
    ("path", "width"),
    [
        ("/chats/long", 1280),
        ("/chats/long?preview=app.html#end", 375),
        ("/chats/c1/calls/{chart}", 375),
        *(
            pytest.param(*row, marks=pytest.mark.rest)
            for row in (
                ("/chats/long", 375),
                ("/chats/long?preview=app.html#end", 1280),
                ("/chats/c1/calls/{chart}", 1280),
                *product(
                    ("/chats/c1?compare=idea", "/chats/parted/diff?old=idea&new=main&view=split"),
                    (1280, 375),
                ),
                *product(
                    ("/chats/c1/calls/{written}", "/chats/parted/diff?old=idea&new=main"),
                    (1280, 375),
                ),
            )
        ),
    ],
)
def test_nothing_moves_while_a_page_loads(
    page: Page, served: Live, ids: dict[str, str], path: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("about:blank")  # another anchor alone would load nothing
    page.goto(served.url + path.format(**ids))
    expect(page.locator("iframe.artifact:not([data-sized])")).to_have_count(0)
    assert page.evaluate(SHIFTS) == []


def in_ten_parts(app: Flask) -> None:
    """Send pages as a busy machine does."""

    @app.after_request
    def slowly(answer: Response) -> Response:
        if answer.mimetype == "text/html":
            page = answer.get_data()
            size = len(page) // 10 + 1
            answer.headers.pop("Content-Length")

            def parts() -> Iterator[bytes]:
                for start in range(0, len(page), size):
                    yield page[start : start + size]
                    time.sleep(0.05)

            answer.response = parts()
        return answer


@pytest.mark.rest
def test_nothing_moves_on_a_page_that_arrives_in_parts(api: Api, chromium: Browser) -> None:
    with live(api.root, prepare=in_ten_parts) as own, chromium.new_context() as context:
        page = context.new_page()
        page.goto(own.door)
        page.set_viewport_size({"width": 375, "height": 800})
        for path in ("/chats/c1?compare=idea", "/chats/parted/diff?old=idea&new=main&view=split"):
            page.goto(own.url + path)
            assert page.evaluate(SHIFTS) == []


def test_a_conversation_has_large_targets_on_a_phone(page: Page, served: Live, api: Api) -> None:
    api.post("create_chat", chat_id="c2")
    texts = ("Write a page", "Write a page about rain")
    first = api.post("add_message", chat_id="c2", text=texts[0])["message_id"]
    api.post("edit_message", chat_id="c2", message=first, text=texts[1])
    for tool, args in (
        ("write_file", {"path": "index.html", "content": "<h1>Rain</h1>"}),
        ("run_command", {"command": "ls"}),
    ):
        api.post("call_tool", chat_id="c2", tool_id=f"app-builder:{tool}", args=args)
    page.set_viewport_size({"width": 375, "height": 800})
    page.goto(f"{served.url}/chats/c2")
    page.locator("details.call > summary").first.click()
    expect(page.locator("time").first).to_have_text("just now")
    for name in ("Previous version", "Page of the call", "Details"):
        page.get_by_text(name, exact=True).or_(page.get_by_label(name)).first.wait_for()
    assert page.evaluate(SMALL) == []
    page.get_by_role("link", name="Preview", exact=True).click()
    page.locator("#preview-changes").get_by_role("link", name="index.html").wait_for()
    assert page.evaluate(SMALL) == []
    assert violations(page) == []
