from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import PORT, Api
from tests.server.visitor import Page, Visitor

MANIFEST = """\
id: shows
name: Shows
version: "1.0.0"
tools:
  - {id: code, entrypoint: tools:write, input_schema: &any {type: object}}
  - {id: document, entrypoint: tools:write, input_schema: {type: object}}
  - {id: page, entrypoint: tools:give, input_schema: {type: object}}
  - {id: inline, entrypoint: tools:give, input_schema: {type: object}}
  - {id: frame, entrypoint: tools:give, input_schema: {type: object}}
  - {id: terminal, entrypoint: tools:give, input_schema: {type: object}}
  - {id: changed, entrypoint: tools:write, input_schema: {type: object}}
  - {id: patch, entrypoint: tools:give, input_schema: {type: object}}
  - {id: pairs, entrypoint: tools:give, input_schema: {type: object}}
  - {id: plain, entrypoint: tools:give, input_schema: {type: object}}
  - {id: parts, entrypoint: tools:parts, input_schema: {type: object}}
  - {id: fails, entrypoint: tools:fail, input_schema: {type: object}}
tool_overrides:
  - {tool_id: code, renderer: code, renderer_config: {file: $args.path, editable: true}}
  - {tool_id: document, renderer: document, renderer_config: {file: $args.path, editable: true}}
  - {tool_id: page, renderer: html, renderer_config: {artifact: artifacts/page.html}}
  - {tool_id: inline, renderer: html, renderer_config: {content: $args.html}}
  - {tool_id: frame, renderer: frame, renderer_config: {port: $args.port}}
  - {tool_id: terminal, renderer: terminal}
  - {tool_id: changed, renderer: file-diff}
  - {tool_id: patch, renderer: patch-diff}
  - {tool_id: pairs, renderer: key-value}
"""
TOOLS = """\
from pathlib import Path

def write(workspace: Path, path, content):
    print("writing", path)
    (workspace / path).write_text(content)
    return {"written": path}

def give(n=None, html=None, port=None, output=None, patch=None, city=None, days=None):
    return {name: value for name, value in locals().items() if value is not None}

def parts(workspace: Path):
    (workspace / "dot.png").write_bytes(b"\\x89PNG\\r\\n\\x1a\\n")
    (workspace / "page.png").write_text("<script>alert(1)</script>")
    files = [{"file": name, "size": 8, "media_type": "image/png"} for name in ("dot.png", "page.png")]
    return ["<b>both</b>", *files, {"n": 1}]

def fail(n):
    raise ValueError("it is broken")
"""
PAGE = "<!doctype html><title>Old</title><img src='https://elsewhere.example/x.png'>"


@pytest.fixture
def visitor(root: Path) -> Visitor:
    folder = root / "toolsets" / "shows"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "toolset.yaml").write_text(MANIFEST.replace("&any ", ""))
    (folder / "tools.py").write_text(TOOLS)
    (folder / "artifacts" / "page.html").write_text(PAGE)
    return Visitor.of(root)


def called(visitor: Visitor, api: Api, tool: str, /, **args: Any) -> Page:
    """Call one of the tools, and open the page of the call."""
    call = api.call(f"shows:{tool}", **args)
    return visitor.open(f"/chats/c1/calls/{call['id']}")


def test_code_is_shown_with_the_state_of_the_call_and_may_be_edited(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "code", path="a.py", content="print(1)\n")

    saved = visitor.send(page.form("/files/a.py"), "Save", content="print(2)\n")

    assert page.form("/files/a.py").fields["content"] == ["print(1)\n"]
    assert "Saved." in saved.text
    assert api.read("a.py").get_data() == b"print(2)\n"
    assert api.get("list_manifests", chat_id="c1")["manifests"][0]["source"] == "edit"


def test_a_file_that_is_another_by_now_is_shown_as_it_was_and_not_to_be_edited(
    visitor: Visitor, api: Api
) -> None:
    call = api.call("shows:code", path="a.py", content="print(1)\n")
    api.call("shows:code", path="a.py", content="print(2)\n")

    page = visitor.open(f"/chats/c1/calls/{call['id']}")

    assert "print ( 1 )" in page.text or "print(1)" in page.text
    assert all(not form.action.endswith("/files/a.py") for form in page.forms)
    assert page.link("Open in workspace").endswith(f"?at={call['post_manifest_id']}")


def test_an_edit_of_an_old_page_never_overwrites_what_came_after(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "code", path="a.py", content="print(1)\n")
    api.call("shows:code", path="a.py", content="print(2)\n")

    refused = visitor.send(page.form("/files/a.py"), "Save", content="mine")

    assert refused.status == 409
    assert "mine" in refused.source
    assert api.read("a.py").get_data() == b"print(2)\n"


def test_a_document_is_sanitised_markdown(visitor: Visitor, api: Api) -> None:
    text = "# Title\n\n<script>alert(1)</script> [x](javascript:alert(1))\n"
    call = api.call("shows:document", path="a.md", content=text)
    api.write("a.md", "later")  # no longer editable, so it is shown

    page = visitor.open(f"/chats/c1/calls/{call['id']}")

    assert "Title" in page.text
    assert all(given.get("src") for given in page.named("script"))
    assert all(not link.href.startswith("javascript:") for link in page.links)


def test_the_editor_s_preview_is_the_same_sanitised_fragment(visitor: Visitor) -> None:
    client = visitor.app.test_client()
    answer = client.post(
        "/preview/document",
        base_url=f"http://127.0.0.1:{PORT}",
        data="# Hi\n<b onclick=x>bold</b>",
        headers={"Authorization": "Bearer the-token-of-this-test", "Content-Type": "text/markdown"},
    )

    assert "<h1" in answer.text
    assert "<b" not in answer.text


def test_a_page_of_the_toolset_stands_in_a_sandboxed_frame_and_its_vain_wishes_are_told(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "page", n=1)

    (frame,) = page.named("iframe")
    assert frame["sandbox"] == "allow-scripts"
    assert frame["src"].startswith("/artifacts/c1/")
    assert "This page asks for 1 thing that it may not have" in page.text


def test_history_shows_the_page_as_it_was_after_the_toolset_changed(
    visitor: Visitor, api: Api, root: Path
) -> None:
    page = called(visitor, api, "page", n=1)
    (root / "toolsets/shows/artifacts/page.html").write_text("<title>New</title>")

    artifact = visitor.app.test_client().get(
        page.named("iframe")[0]["src"],
        base_url=f"http://127.0.0.1:{PORT}",
        headers={"Authorization": "Bearer the-token-of-this-test", "Sec-Fetch-Dest": "iframe"},
    )

    assert "<title>Old</title>" in artifact.text
    assert 'window.__TOOL_DATA__ = {"n":1};' in artifact.text


def test_html_that_a_call_made_is_shown_in_the_same_frame(visitor: Visitor, api: Api) -> None:
    page = called(visitor, api, "inline", html="<h1>made</h1>")

    assert page.named("iframe")[0]["sandbox"] == "allow-scripts"


def test_a_frame_shows_a_port_of_this_machine_under_its_other_name(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "frame", port=3000)

    assert page.named("iframe")[0]["src"] == "http://localhost:3000/"
    assert "frame-src 'self' http://localhost:3000;" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("port", [PORT, 80, 70000, "80@evil.example", True, 8080.5])
def test_a_frame_never_leads_to_us_or_elsewhere(visitor: Visitor, api: Api, port: Any) -> None:
    page = called(visitor, api, "frame", port=port)

    assert page.named("iframe") == []
    assert "Not shown as its author meant" in page.text
    assert "frame-src 'self';" in page.headers["Content-Security-Policy"]


def test_a_terminal_a_difference_a_patch_and_pairs_are_shown_as_such(
    visitor: Visitor, api: Api
) -> None:
    terminal = called(visitor, api, "terminal", output="$ ls\na.txt")
    changed = called(visitor, api, "changed", path="a.txt", content="new line\n")
    patch = called(visitor, api, "patch", patch="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n")
    pairs = called(visitor, api, "pairs", city="Seattle", days=3)

    assert "$ ls" in terminal.text
    assert "new line" in changed.text
    assert "+new" in patch.text.replace("+ new", "+new")
    assert "city Seattle days 3" in pairs.text


def test_a_tool_without_a_renderer_is_shown_as_json(visitor: Visitor, api: Api) -> None:
    page = called(visitor, api, "plain", city="Seattle")

    assert "Seattle" in page.text
    assert "default" in page.text


def test_pictures_that_a_result_refers_to_are_shown_and_other_files_are_links(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "parts")

    assert "&lt;b&gt;both&lt;/b&gt;" in page.source
    (picture,) = re.findall(r'<img src="([^"]+)" alt="dot.png">', page.source)
    assert "path=dot.png&amp;manifest=" in picture
    assert 'alt="page.png"' not in page.source
    assert ">page.png</a>" in page.source


def test_the_page_of_a_call_tells_all_about_it(visitor: Visitor, api: Api) -> None:
    page = called(visitor, api, "changed", path="a.txt", content="new line\n")

    for said in ("writing a.txt", "a.txt", "By local", "Sandbox", "Took", "Call it again"):
        assert said in page.text
    again = visitor.open(page.link("Call it again"))
    assert '"new line' in again.source or "new line" in again.source


def test_a_failed_call_shows_the_error_where_in_the_tool_and_no_traceback_of_ours(
    visitor: Visitor, api: Api
) -> None:
    page = called(visitor, api, "fails", n=1)

    assert "it is broken" in page.text
    assert "tools.py" in page.text
    assert "covalt_git/" not in page.text


def test_a_call_that_waits_leads_to_its_question(visitor: Visitor, api: Api) -> None:
    call = api.call("app-builder:run_command", command="ls")

    page = visitor.open(f"/chats/c1/calls/{call['id']}")

    assert "It waits for a person" in page.text
    assert page.link("Look at it and decide").endswith(call["execution_id"])


def test_an_unknown_call_is_no_page(visitor: Visitor, api: Api) -> None:
    api.write("a.txt", "x")

    assert visitor.open("/chats/c1/calls/nope").status == 404
    assert visitor.open("/chats/nope/calls/nope").status == 404
