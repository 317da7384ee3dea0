"""Toolsets that come and go over the API: checked whole, inert when here, the same bytes when sent on."""

from __future__ import annotations

import http.server
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import EnvironBuilder, TestResponse, run_wsgi_app

from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.operations import toolset_imports
from tests.api_client import BEARER, HOME, Api, answered, configure, form_file, refused
from tests.installs.hostile_bundles import GOOD, File, archive
from tests.installs.test_uninstall import commit

MANIFEST = b"""\
id: demo
name: Demo
version: "1.2"
secrets: [MAPS_KEY]
python: {dependencies: [tinypkg]}
tools:
  - {id: run, entrypoint: "tools.a:run", requires_confirmation: true}
  - id: far
    http: {url: "https://maps.example/{q}", headers: {Authorization: "Bearer ${MAPS_KEY}"}}
    input_schema: {type: object, properties: {q: {type: string}}, required: [q]}
mcp_servers:
  - {id: maps, command: maps-server, args: [--stdio, "a b"], env: {KEY: "${MAPS_KEY}"}}
"""
DEMO = archive((File(b"toolset.yaml", MANIFEST), GOOD[1]))


def send(api: Api, content: bytes, name: str = "demo.zip", **fields: str) -> TestResponse:
    return api.send_form("import_toolset", {"file": form_file(name, content), **fields})


def below(folder: Path) -> list[tuple[str, bytes]]:
    return sorted(
        (str(path.relative_to(folder)), path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
        if "index.db" not in path.name
    )


@pytest.fixture
def upstream() -> Iterator[str]:
    """A server on this machine that has the demo at any path, and no signature."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if ".sig" in self.path:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(DEMO)))
            self.end_headers()
            self.wfile.write(DEMO)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_bundle_is_told_whole_before_it_comes_and_comes_inert(api: Api) -> None:
    before = below(api.root)
    told = answered(send(api, DEMO, "mine/demo.zip", dry_run="true"))

    assert below(api.root) == before
    assert told["dry_run"] is True
    assert (told["toolset_id"], told["name"], told["version"]) == ("demo", "Demo", "1.2")
    assert (told["source_type"], told["source_ref"]) == ("zip", "demo.zip")
    assert [file["path"] for file in told["files"]] == ["tools/a.py", "toolset.yaml"]
    assert {tool["tool_id"]: tool["requires_confirmation"] for tool in told["tools"]} == {
        "demo:run": ["the toolset asks"],
        "demo:far": [],
    }
    assert told["mcp_servers"][0]["args"] == ["--stdio", "a b"]
    assert told["mcp_servers"][0]["env"] == ["KEY"]
    assert told["python_packages"] == ["tinypkg"]
    assert told["asks"] == [
        {"kind": "network", "name": None, "host": "maps.example", "granted": False},
        {"kind": "secret", "name": "MAPS_KEY", "host": "maps.example", "granted": False},
    ]

    taken = answered(send(api, DEMO))
    here = api.get("get_toolset", toolset_id="demo")

    assert taken == told | {"dry_run": False}
    assert here["enabled"] is False
    assert here["grants"] == {}
    assert here["asks"] == told["asks"]
    assert here["came"] == {
        "source_type": "zip",
        "source_ref": "demo.zip",
        "version": "1.2",
        "installed_at": here["installed_at"],
        "digest": here["digest"],
    }
    refused(api.tell("call_tool", chat_id="c1", tool_id="demo:run", args={}), 403, "tool_disabled")
    again = answered(send(api, DEMO))["update"]
    assert (again["files"], again["old_version"], again["new_version"]) == ([], "1.2", "1.2")


def test_what_is_exported_is_what_came_and_comes_back_the_same(api: Api, upstream: str) -> None:
    answered(send(api, DEMO))
    sent = api.ask("export_toolset", toolset_id="demo")
    etag = sent.headers["ETag"]
    with zipfile.ZipFile(io.BytesIO(sent.get_data())) as bundle:
        assert bundle.read("toolset.yaml") == MANIFEST

    assert sent.headers["Content-Disposition"] == "attachment; filename=demo-1.2.zip"
    assert api.ask("export_toolset", toolset_id="demo").get_data() == sent.get_data()
    again = api.ask("export_toolset", headers={"If-None-Match": etag}, toolset_id="demo")
    assert again.status_code == 304

    api.post("uninstall_toolset", toolset_id="demo", force=True)
    refused(api.ask("get_toolset", toolset_id="demo"), 404, "unknown_toolset")
    answered(send(api, sent.get_data()))
    assert api.ask("export_toolset", toolset_id="demo").get_data() == sent.get_data()
    api.post("uninstall_toolset", toolset_id="demo", force=True)

    fetched = api.post("import_toolset", url=f"{upstream}/demo.zip?key=s3cret")
    assert (fetched["source_type"], fetched["source_ref"]) == ("url", f"{upstream}/demo.zip")
    assert api.ask("export_toolset", toolset_id="demo").get_data() == sent.get_data()


def test_a_bad_bundle_is_refused_with_every_place_and_leaves_nothing(api: Api) -> None:
    before = below(api.root)
    names = (File(b"tools/../../evil"), File(b"/etc/evil"))
    told = refused(send(api, archive((*GOOD, *names))), 422, "bad_bundle")

    assert len(told["problems"]) == 2
    assert all(one["path"].startswith("demo.zip/") for one in told["problems"])
    assert all(one["code"].startswith("CG") for one in told["problems"])
    refused(send(api, b"<h1>no</h1>", "page.html"), 422, "bad_bundle")
    refused(api.tell("import_toolset", url="http://far.example/demo.zip"), 502, "not_fetched")
    refused(api.tell("import_toolset", url="file:///etc/passwd"), 400, "bad_host")
    assert below(api.root) == before


def test_a_path_of_the_servers_machine_is_no_bundle(api: Api) -> None:
    for body in ({"file": "/etc/passwd"}, {"source": "toolsets/data-lab"}, {}):
        refused(api.tell("import_toolset", **body), 400, "invalid_request")
    text = api.send_form("import_toolset", {"file": "/etc/passwd"})
    two = [form_file("a.zip", DEMO), form_file("b.zip", DEMO)]

    refused(text, 400, "invalid_request")
    refused(api.send_form("import_toolset", {"file": two}), 400, "invalid_request")


def test_a_body_that_no_bundle_has_is_refused_before_it_is_read(api: Api) -> None:
    assert toolset_imports.MOST_FORM_BYTES > MAX_ARCHIVE
    asked = EnvironBuilder(
        "/api/import_toolset",
        method="POST",
        base_url=HOME,
        headers=[*BEARER.items()],
        content_type="multipart/form-data; boundary=x",
    ).get_environ()
    asked["CONTENT_LENGTH"] = str(toolset_imports.MOST_FORM_BYTES + 1)
    asked["wsgi.input"] = None  # whoever reads from it fails
    parts, status, _ = run_wsgi_app(api.app.wsgi_app, asked)

    assert status == "413 REQUEST ENTITY TOO LARGE"
    assert json.loads(b"".join(parts))["error"] == "request_entity_too_large"


def test_only_a_role_that_sees_everything_takes_in_and_removes(api: Api) -> None:
    configure(
        api.root,
        'roles: {dev: {allow: ["**"]}, half: {allow: ["data-lab.summarize"]}, owner: {admin: true}}',
    )
    dev, half = Api.of(api.root, "dev"), Api.of(api.root, "half")
    before = below(api.root)

    refused(send(dev, DEMO), 403, "forbidden")
    refused(dev.tell("import_toolset", url="https://example.com/demo.zip"), 403, "forbidden")
    refused(dev.tell("uninstall_toolset", toolset_id="data-lab", force=True), 403, "forbidden")
    refused(half.ask("export_toolset", toolset_id="data-lab"), 403, "forbidden")
    refused(half.ask("export_toolset", toolset_id="app-builder"), 404, "unknown_toolset")
    assert dev.ask("export_toolset", toolset_id="data-lab").status_code == 200
    assert below(api.root) == before
    answered(send(Api.of(api.root, "owner"), DEMO))


def test_a_credential_is_not_exported_and_its_place_is_told(api: Api) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (api.root / "toolsets/data-lab/assets/notes.txt").write_text(f"\nkey {token}\n")
    told = refused(api.ask("export_toolset", toolset_id="data-lab"), 409, "not_exported")

    assert [(one["path"], one["line"]) for one in told["problems"]] == [
        ("toolsets/data-lab/assets/notes.txt", 2)
    ]
    assert token not in str(told)


def test_a_toolset_that_git_could_not_bring_back_goes_by_force_only(api: Api) -> None:
    folder = api.root / "toolsets/data-lab"
    refused(api.tell("uninstall_toolset", toolset_id="data-lab"), 409, "not_in_git")
    assert folder.is_dir()
    commit(api.root)

    gone = api.post("uninstall_toolset", toolset_id="data-lab")

    assert gone["undo"] == "git checkout HEAD -- toolsets/data-lab"
    assert not folder.exists()
    refused(api.tell("uninstall_toolset", toolset_id="data-lab"), 404, "unknown_toolset")
