"""Pages of calls: their results by renderer, their files to edit, and their errors."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from covalt_git.runtime import awaited_call
from covalt_server.pages import elicitation
from tests.api_client import BEARER, HOME, PORT, Api
from tests.browser import console_errors
from tests.examples import rest
from tests.live_server import live
from tests.mcp_client import add_toolset
from tests.server.visitor import Page, Visitor
from tests.settling import until

MANIFEST = """\
id: shows
name: Shows
version: "1.0.0"
tools:
  - {id: code, entrypoint: tools.shows:write, input_schema: {type: object}}
  - {id: document, entrypoint: tools.shows:write, input_schema: {type: object}}
  - {id: fixed, entrypoint: tools.shows:write, input_schema: {type: object}}
  - {id: listing, entrypoint: tools.shows:write, input_schema: {type: object}}
  - {id: page, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: inline, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: frame, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: site, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: terminal, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: changed, entrypoint: tools.shows:write, input_schema: {type: object}}
  - {id: patch, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: pairs, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: plain, entrypoint: tools.shows:give, input_schema: {type: object}}
  - {id: parts, entrypoint: tools.shows:parts, input_schema: {type: object}}
  - {id: rows, entrypoint: tools.shows:rows, input_schema: {type: object}}
  - {id: patched, entrypoint: tools.shows:patched, input_schema: {type: object}}
  - {id: fails, entrypoint: tools.shows:fail, input_schema: {type: object}}
  - {id: slow, entrypoint: tools.shows:slow, input_schema: {type: object}}
  - {id: prints, entrypoint: tools.shows:prints, input_schema: {type: object}}
tool_overrides:
  - {tool_id: code, renderer: code, renderer_config: {file: $args.path, editable: true}}
  - {tool_id: document, renderer: document, renderer_config: {file: $args.path, editable: true}}
  - {tool_id: fixed, renderer: document, renderer_config: {file: $args.path}}
  - {tool_id: listing, renderer: code, renderer_config: {file: $args.path}}
  - {tool_id: page, renderer: html, renderer_config: {artifact: artifacts/page.html}}
  - {tool_id: inline, renderer: html, renderer_config: {content: $args.html}}
  - {tool_id: frame, renderer: frame, renderer_config: {port: $args.port}}
  - {tool_id: site, renderer: frame, renderer_config: {url: "http://localhost:$args.port/"}}
  - {tool_id: terminal, renderer: terminal}
  - {tool_id: changed, renderer: file-diff}
  - {tool_id: patch, renderer: patch-diff}
  - {tool_id: pairs, renderer: key-value}
  - {tool_id: patched, renderer: code, renderer_config: {content: $return.diff, language: diff}}
"""
TOOLS = """\
import time
from pathlib import Path

from covalt_toolset import get_context

def write(workspace: Path, path, content):
    print("writing", path)
    (workspace / path).write_text(content)
    return {"written": path}

def give(n=None, html=None, port=None, output=None, patch=None, city=None, days=None):
    return {name: value for name, value in locals().items() if value is not None}

def rows(rows):
    return rows

def patched(workspace: Path, path, content):
    (workspace / path).write_text(content)
    return {"diff": "--- a/a.txt\\n+++ b/a.txt\\n@@ -1 +1 @@\\n-old line\\n+new line\\n"}

def parts(workspace: Path):
    (workspace / "dot.png").write_bytes(b"\\x89PNG\\r\\n\\x1a\\n")
    (workspace / "page.png").write_text("<script>alert(1)</script>")
    (workspace / "hum.wav").write_bytes(b"RIFF\\0\\0\\0\\0WAVEfmt ")
    names = ("dot.png", "page.png", "hum.wav")
    files = [{"file": name, "size": 8, "media_type": "image/png"} for name in names]
    return ["<b>both</b>", *files, {"n": 1}]

def prints(text):
    print(text)

def slow(workspace: Path):
    get_context().progress(3, 10, "page 3")
    get_context().log("reading")
    (workspace / "begun.txt").write_text("1")
    while not (workspace / "go.txt").exists():
        time.sleep(0.02)
    return {"read": 10}

def fail(n):
    raise ValueError("it is broken")
"""
PAGE = "<!doctype html><title>Old</title><img src='https://elsewhere.example/x.png'>"


@pytest.fixture(scope="module")
def project(shared: Api) -> Api:
    """The API of a project with the toolset ``shows``."""
    add_toolset(shared.root, "shows", MANIFEST, TOOLS)
    artifacts = shared.root / "toolsets/shows/artifacts"
    artifacts.mkdir()
    (artifacts / "page.html").write_text(PAGE)
    return shared


@pytest.fixture
def api(project: Api) -> Api:
    """The API of that project, with a new chat c1."""
    project.post("delete_chat", chat_id="c1")
    project.post("create_chat", chat_id="c1")
    return project


@pytest.fixture
def visitor(api: Api) -> Visitor:
    return Visitor(api.app)


def called(visitor: Visitor, api: Api, tool: str, /, **args: Any) -> Page:
    """Call one of the tools, and open the page of the call."""
    call = api.call(f"shows:{tool}", **args)
    return visitor.open(f"/chats/c1/calls/{call['id']}")


@pytest.mark.requirement("covalt-5.1.code", "covalt-8.3.code")
def test_the_file_of_a_call_is_edited_by_a_link(visitor: Visitor, api: Api) -> None:
    page = called(visitor, api, "code", path="a.py", content="print(1)\r\n")
    assert [one.get("data-editor") for one in page.named("textarea")] == []
    fixed = called(visitor, api, "listing", path="b.py", content="print(1)\n")
    assert "Edit" not in [link.text for link in fixed.links]

    editor = visitor.open(page.link("Edit"))
    visitor.send(editor.form("/files/a.py"), "Save", content="print(2)\r\n2\r\n")

    assert editor.form("/files/a.py").fields["content"] == ["print(1)\r\n"]
    assert api.read("a.py").get_data() == b"print(2)\r\n2\r\n"
    assert api.get("list_manifests", chat_id="c1")["manifests"][0]["source"] == "edit"


@pytest.mark.requirement("covalt-8.3.open")
def test_a_changed_file_is_shown_at_its_commit_without_an_editor(
    visitor: Visitor, api: Api
) -> None:
    call = api.call("shows:code", path="a.py", content="print(1)\n")
    api.call("shows:code", path="a.py", content="print(2)\n")

    page = visitor.open(f"/chats/c1/calls/{call['id']}")

    assert "print(1)" in page.text
    assert "Edit" not in [link.text for link in page.links]
    assert page.link("Open the file").endswith(f"?at={call['post_manifest_id']}")


def test_an_edit_on_an_old_page_overwrites_nothing(visitor: Visitor, api: Api) -> None:
    page = called(visitor, api, "code", path="a.py", content="print(1)\n")
    editor = visitor.open(page.link("Edit"))
    api.call("shows:code", path="a.py", content="print(2)\n")

    refused = visitor.send(editor.form("/files/a.py"), "Save", content="mine")

    assert refused.status == 409
    assert "mine" in refused.source
    assert api.read("a.py").get_data() == b"print(2)\n"


@pytest.mark.requirement("covalt-5.1.document", "covalt-8.3.document")
def test_a_document_is_sanitised_markdown(visitor: Visitor, api: Api) -> None:
    text = "# Title\n\n<script>alert(1)</script> [x](javascript:alert(1))\n"
    page = called(visitor, api, "fixed", path="a.md", content=text)

    shown = page.source.partition('class="document"')[2].partition("</div>")[0]
    assert "Title</h1>" in shown
    assert all(given.get("src") for given in page.named("script"))
    assert all(not link.href.startswith("javascript:") for link in page.links)
    assert "Edit" not in [link.text for link in page.links]
    editable = called(visitor, api, "document", path="b.md", content=text)
    editor = visitor.open(editable.link("Edit"))
    assert editor.form("/files/b.md").fields["content"] == [text]


@pytest.mark.requirement("covalt-5.4.4", "covalt-8.3.html")
def test_a_page_of_a_toolset_or_of_a_call_is_in_a_sandboxed_frame(
    visitor: Visitor, api: Api
) -> None:
    for page in (
        called(visitor, api, "page", n=1),
        called(visitor, api, "inline", html="<h1>made</h1>"),
    ):
        (frame,) = page.named("iframe")
        assert frame["sandbox"] == "allow-scripts"
        assert frame["src"].startswith("/artifacts/c1/")


@pytest.mark.requirement("covalt-5.1.frame")
@pytest.mark.parametrize("tool", ["frame", "site"])
def test_a_frame_has_another_host_than_our_page(visitor: Visitor, api: Api, tool: str) -> None:
    page = called(visitor, api, tool, port=3000)

    (ours,) = page.named("iframe")
    assert "frame-src 'self';" in page.headers["Content-Security-Policy"]
    around = visitor.open(ours["src"])
    (frame,) = around.named("iframe")
    assert frame["src"] == "http://localhost:3000/"
    assert frame["sandbox"] == "allow-scripts allow-same-origin allow-forms"
    policy = around.headers["Content-Security-Policy"]
    assert "frame-src 'self' http://localhost:3000;" in policy
    assert "frame-ancestors 'self'" in policy


@pytest.mark.parametrize("port", [PORT, 80, 70000, "80@evil.example", True, 8080.5])
def test_a_frame_never_shows_us_or_another_host(visitor: Visitor, api: Api, port: Any) -> None:
    page = called(visitor, api, "frame", port=port)

    assert page.named("iframe") == []
    around = visitor.open(f"{page.address}/frame")
    assert around.status == 404
    assert "frame-src 'self';" in around.headers["Content-Security-Policy"]


RESULTS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("terminal", {"output": "$ ls\na.txt"}, ["$ ls"]),
    ("changed", {"path": "a.txt", "content": "new line\n"}, ["Files changed", "writing a.txt"]),
    ("patch", {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"}, ["-old", "+new"]),
    ("pairs", {"city": "Seattle", "days": 3}, ["city Seattle days 3"]),
    ("plain", {"city": "Seattle"}, ["Seattle"]),
    ("fails", {"n": 1}, ["it is broken", "shows.py"]),
]


@pytest.mark.requirement("covalt-0.renderers", "covalt-8.3.plan")
@pytest.mark.parametrize(("tool", "args", "shown"), RESULTS, ids=[row[0] for row in RESULTS])
def test_a_result_is_shown_by_its_renderer(
    visitor: Visitor, api: Api, tool: str, args: dict[str, Any], shown: list[str]
) -> None:
    page = called(visitor, api, tool, **args)

    for text in shown:
        assert text in page.text.replace("+ new", "+new")
    assert "covalt_git/" not in page.text
    again = visitor.open(page.link("Call it again"))
    assert again.status == 200


def test_the_preview_of_an_editor_is_sanitised(visitor: Visitor) -> None:
    answer = visitor.app.test_client().post(
        "/preview/document",
        base_url=HOME,
        data="# Hi\n<b onclick=x>bold</b>",
        headers=BEARER | {"Content-Type": "text/markdown"},
    )

    assert "<h1" in answer.text
    assert "<b" not in answer.text


def test_images_and_audio_of_a_result_are_shown_and_other_files_linked(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "parts")

    assert "&lt;b&gt;both&lt;/b&gt;" in page.source
    (picture,) = re.findall(r'<img src="([^"]+)" alt="dot.png">', page.source)
    assert "path=dot.png&amp;manifest=" in picture
    assert 'alt="page.png"' not in page.source
    assert ">page.png</a>" in page.source
    assert "path=hum.wav&" in page.named("audio")[0]["src"]


# Long results, tables and patches


def test_lines_after_the_first_60_are_on_another_page(visitor: Visitor, api: Api) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 101))

    page = called(visitor, api, "terminal", output=text)
    shorter = called(visitor, api, "terminal", output="line\n" * 60)

    assert "more line" not in shorter.text
    assert "40 more lines" in page.text
    result = page.source.partition("<summary>Arguments")[0]  # these have the whole text
    assert "line 60\n" in result
    assert "line 61\n" not in result
    assert "line 100\n" in visitor.open(page.link("40 more lines")).source


def test_a_csv_file_is_a_table_of_60_rows(visitor: Visitor, api: Api) -> None:
    text = "day,celsius\n" + "".join(f"{number},{number}.5\n" for number in range(1, 101))

    page = called(visitor, api, "code", path="days.csv", content=text)

    assert "day celsius 1 1.5 2 2.5" in page.text
    assert "60 60.5" in page.text
    assert "61 61.5" not in page.text
    assert "The first 60 of 100 rows." in page.text
    assert "100 100.5" in visitor.open(page.link("Sort, filter and download all rows")).text


def test_an_array_of_objects_alone_is_a_table(visitor: Visitor, api: Api) -> None:
    rows = [{"city": "Seattle", "days": 3}, {"city": "Berlin", "wind": None}]

    text = called(visitor, api, "rows", rows=rows).text
    assert "city days wind Seattle 3 Berlin" in text
    others: list[object] = [[], [1, 2], [{"a": 1}, 2], [{}], "text"]
    for other in others:
        assert called(visitor, api, "rows", rows=other).named("table") == []


@pytest.mark.parametrize("tool", ["changed", "patched"])
def test_a_patch_is_shown_once_and_before_the_arguments(
    visitor: Visitor, api: Api, tool: str
) -> None:
    api.call("shows:code", path="a.txt", content="old line\n")

    page = called(visitor, api, tool, path="a.txt", content="new line\n")

    assert page.source.count('class="line add"') == page.source.count('class="line del"') == 1
    assert page.text.index("Files changed") < page.text.index("Arguments")


def test_a_long_patch_links_to_the_commit(visitor: Visitor, api: Api) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 101))

    page = called(visitor, api, "changed", path="a.txt", content=text)

    assert page.source.count('class="line add"') == 59  # and the line of the hunk
    commit = visitor.open(page.link("41 more lines"))
    assert commit.source.count('class="line add"') == 100


# Running calls


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form does not wait for the end of its call, and a cancelled call ends at once."""
    monkeypatch.setattr(elicitation, "WAIT_S", 0.0)
    monkeypatch.setattr(awaited_call, "GRACE_S", 0.02)


def wait_for_file(api: Api, name: str = "begun.txt") -> None:
    """Wait until the slow tool has begun."""
    until((api.workspace / name).exists)


@pytest.mark.usefixtures("at_once")
def test_the_form_of_a_slow_tool_leads_to_the_running_call(visitor: Visitor, api: Api) -> None:
    page = visitor.send(visitor.open("/tools/shows:slow?chat=c1").form("/tools/shows:slow"))
    wait_for_file(api)
    until(lambda: "page 3" in visitor.open(page.address).text)
    running = visitor.open(page.address)

    assert "reading" in running.text
    assert [(one["value"], one["max"]) for one in running.named("progress")] == [("3.0", "10.0")]
    assert [one for one in running.named("meta") if one.get("http-equiv") == "refresh"]
    (api.workspace / "go.txt").write_text("1")
    until(lambda: api.get("list_calls", chat_id="c1")["calls"][0]["status"] == "success")
    assert "10" in visitor.open(page.address).text


@pytest.mark.usefixtures("at_once")
def test_a_running_call_is_cancelled_on_its_page(visitor: Visitor, api: Api) -> None:
    page = visitor.send(visitor.open("/tools/shows:slow?chat=c1").form("/tools/shows:slow"))
    wait_for_file(api)
    cancel = visitor.open(page.address).form("/cancel")

    done = visitor.send(cancel)
    assert done.address == page.address
    assert "cancelled" in done.text
    assert api.files()["begun.txt"]
    assert visitor.send(cancel).status == 200


@pytest.mark.usefixtures("at_once")
def test_a_call_that_waits_or_was_refused_has_a_page(visitor: Visitor, api: Api) -> None:
    first = visitor.send(visitor.open("/tools/shows:slow?chat=c1").form("/tools/shows:slow"))
    wait_for_file(api)
    form = visitor.open("/tools/shows:fails?chat=c1").form("/tools/shows:fails")
    second = visitor.send(form, _json='{"n": 7}')
    waiting = visitor.open(second.address)
    assert "waits for the chat" in waiting.text

    visitor.send(waiting.form("/cancel"))
    refused = visitor.open(second.address)
    assert "The call is not recorded." in refused.text
    again = visitor.open(refused.link("Back to the form with these arguments"))
    assert again.status == 200
    visitor.send(visitor.open(first.address).form("/cancel"))


@pytest.mark.usefixtures("at_once")
def test_an_approved_call_that_waits_is_not_shown_as_pending(visitor: Visitor, api: Api) -> None:
    asked = api.call("app-builder:run_command", command="true")
    first = visitor.send(visitor.open("/tools/shows:slow?chat=c1").form("/tools/shows:slow"))
    wait_for_file(api)
    approval = visitor.open(f"/approvals/{asked['execution_id']}")
    page = visitor.open(visitor.send(approval.form("/approve")).address)

    assert "Approve or deny" not in [link.text for link in page.links]
    visitor.send(page.form("/cancel"))
    visitor.send(visitor.open(first.address).form("/cancel"))


@pytest.mark.rest
@pytest.mark.usefixtures("at_once")
def test_the_page_of_a_running_call_shows_its_progress_and_result(
    chromium: Browser, api: Api
) -> None:
    with live(api.root) as own, chromium.new_context() as context:
        page = context.new_page()
        errors = console_errors(page)
        page.goto(own.door)
        page.goto(f"{own.url}/tools/shows:slow?chat=c1")
        page.get_by_role("button", name="Run", exact=True).last.click()
        expect(page.get_by_role("button", name="Cancel the call")).to_be_visible()
        expect(page.get_by_text("page 3")).to_be_visible()
        wait_for_file(api)
        (api.workspace / "go.txt").write_text("1")

        expect(page.get_by_role("heading", name="Result")).to_be_visible(timeout=20_000)
        expect(page.get_by_role("button", name="Cancel the call")).to_have_count(0)
    assert errors == []


# Large calls

LONG = "".join(f"line {number} of a long file\n" for number in range(1, 5001))


def test_the_page_of_a_long_write_has_its_beginning_and_links_to_the_rest(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "code", path="long.txt", content=LONG)

    assert len(page.source) < 60_000
    assert len(page.elements) < 600
    assert "line 60 of" in page.text
    whole = visitor.open(page.link("4,940 more lines"))
    assert "line 5000 of" in whole.text.partition("Arguments")[0]
    whole = visitor.open(page.link("All arguments"))
    assert "line 5000 of a long file" in whole.text.rpartition("Arguments")[2]
    again = visitor.open(page.link("Call it again"))
    assert any("line 5000" in one for (one,) in again.form("/tools/shows:code").fields.values())


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("terminal", {"output": LONG}),
        rest("plain", {"city": [*range(5000)]}, id="plain"),
        (
            "patch",
            {"patch": f"--- a/x\n+++ b/x\n@@ -1,5000 +0,0 @@\n-{LONG[:-1]}".replace("\nl", "\n-l")},
        ),
        rest("fixed", {"path": "a.md", "content": LONG.replace("\n", "\n\n")}, id="document"),
        ("prints", {"text": LONG}),
    ],
    ids=["terminal", None, "patch", None, "printed"],
)
def test_no_renderer_shows_thousands_of_lines_on_the_page_of_a_call(
    visitor: Visitor, api: Api, tool: str, args: dict[str, Any]
) -> None:
    page = called(visitor, api, tool, **args)

    assert len(page.source) < 100_000
    assert len(page.elements) < 2_500
    whole = visitor.open(f"{page.address}?all=1")
    assert len(whole.source) > len(page.source)


def test_a_pending_call_has_all_of_its_arguments(visitor: Visitor, api: Api) -> None:
    call = api.call("app-builder:run_command", command=f"echo {LONG}; rm x")

    for path in (
        "/chats/c1",
        f"/chats/c1/calls/{call['id']}",
        f"/approvals/{call['execution_id']}",
    ):
        assert "rm x" in visitor.open(path).text


def test_titles_have_the_form_of_the_conversation(visitor: Visitor, api: Api) -> None:
    api.write("a.txt", "one\n")
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n-one\n+two\n+three\n"
    call = api.call("text-kit:apply_patch", patch=patch)
    heading = "Apply patch a.txt +2 \N{MINUS SIGN}1"
    for path in (f"/chats/c1/calls/{call['id']}", f"/chats/c1/states/{call['post_manifest_id']}"):
        page = visitor.open(path)
        assert page.title.startswith("Apply patch a.txt · c1"), path
        assert heading in page.text, path
    for path in ("/chats/c1", "/chats/c1/history", "/chats/c1/files/a.txt"):
        assert heading in visitor.open(path).text, path


def test_the_place_that_failed_to_load_is_a_link_while_the_toolset_has_this_code(
    visitor: Visitor, api: Api
) -> None:
    manifest = (
        "id: broken\nname: Broken\nversion: '1'\ntools: [{id: run, entrypoint: tools.broken:run}]\n"
    )
    add_toolset(api.root, "broken", manifest, "from tools import parts\ndef run(): ...\n")
    parts = api.root / "toolsets/broken/tools/parts.py"
    parts.write_text('"""Parts."""\n\nparts = 1; raise RuntimeError("no <b>parts</b>")\n')
    call = api.call("broken:run")
    assert call["error"] == "cannot_load: RuntimeError: no <b>parts</b> (tools/parts.py:3:12)"

    page = visitor.open(f"/chats/c1/calls/{call['id']}")
    assert "RuntimeError: no &lt;b&gt;parts&lt;/b&gt; (<a" in page.source
    assert page.link("tools/parts.py:3:12") == "/toolsets/broken/files/tools/parts.py#L3"
    assert visitor.open("/toolsets/broken/files/tools/parts.py").status == 200

    parts.write_text("parts = 1\n")

    changed = visitor.open(f"/chats/c1/calls/{call['id']}")
    assert "tools/parts.py:3:12" in changed.text
    assert "tools/parts.py:3:12" not in [link.text for link in changed.links]
