"""The HTTP adapter of operations: bodies, queries, ETags, files, ranges, uploads and their limits."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from werkzeug.test import EnvironBuilder, TestResponse, run_wsgi_app

from covalt_git.bundles.archive_reader import MAX_ARCHIVE
from covalt_git.git_store.objects import blob_id
from covalt_git.operations import toolset_imports
from tests.api_client import BEARER, HOME, Api, answered, form_file, refused
from tests.server.sample_bundle import DEMO
from tests.workspaces.stores import git

JSON = "application/json"
FILES: list[tuple[str, str, str, str]] = yaml.load(
    Path(__file__).with_name("files.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.fixture(scope="module")
def shared(shared: Api) -> Api:
    """The same with the files of ``files.yaml``."""
    api = shared
    for name, content, *_ in FILES:
        (api.workspace / name).write_bytes(content.encode("latin-1"))
    (api.workspace / "ten").write_bytes(b"0123456789")
    api.post("save_edits", chat_id="c1")
    return api


# Requests

BODIES = [
    pytest.param(b"{", JSON, 400, "invalid_request", id="cut-off"),
    pytest.param(b"[]", JSON, 400, "invalid_request", id="list"),
    pytest.param(b'{"a": 1, "a": 2}', JSON, 400, "invalid_request", id="name-twice"),
    pytest.param(b'{"a": NaN}', JSON, 400, "invalid_request", id="nan"),
    pytest.param(b'{"a": 9007199254740993}', JSON, 400, "invalid_request", id="large-number"),
    pytest.param(b'{"a": "\xff"}', JSON, 400, "invalid_request", id="not-utf-8"),
    pytest.param(b'{"a": "\\ud800"}', JSON, 400, "invalid_request", id="half-a-character"),
    pytest.param(b"[" * 99_999, JSON, 400, "invalid_request", id="deep"),
    pytest.param(b"x" * (16 << 20), JSON, 400, "invalid_request", id="largest"),
    pytest.param(b"x" * ((16 << 20) + 1), JSON, 413, "request_entity_too_large", id="larger"),
    pytest.param(b"a=1", "text/plain", 415, "unsupported_media_type", id="text"),
]


@pytest.mark.parametrize(("content", "kind", "status", "code"), BODIES)
def test_a_body_must_be_a_json_object(
    shared: Api, content: bytes, kind: str, status: int, code: str
) -> None:
    response = shared.client().post(
        "/api/enable_toolset", base_url=HOME, data=content, content_type=kind, headers=BEARER
    )

    refused(response, status, code)


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({"toolset_id": 1, "enabled": "yes"}, {"toolset_id": "", "enabled": ""}),
        (
            {"toolset": "x", "enabled": True},
            {"toolset": "did you mean 'toolset_id'?", "toolset_id": ""},
        ),
    ],
)
def test_every_wrong_field_of_a_request_is_named(
    shared: Api, body: dict[str, object], places: dict[str, str]
) -> None:
    told = refused(shared.tell("enable_toolset", **body), 400, "invalid_request")

    assert {problem["path"]: problem["hint"] for problem in told["problems"]} == places


def test_a_name_is_given_once_in_a_query(shared: Api) -> None:
    path = "/api/get_chat?chat_id=c1&chat_id=c2"

    refused(shared.client().get(path, base_url=HOME, headers=BEARER), 400, "invalid_request")


def test_an_unknown_operation_has_the_nearest_name(shared: Api) -> None:
    told = refused(shared.ask("list_chat"), 404, "unknown_operation")
    wrong = shared.tell("list_chats")

    assert "'list_chats'" in told["hint"]
    assert "did you mean" not in refused(shared.ask("delete_cht"), 404, "unknown_operation")["hint"]
    refused(wrong, 405, "method_not_allowed")
    assert set(wrong.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}


def test_a_bug_is_reported_without_its_details(
    shared: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("covalt_git.operations.context.Context.chat_index", broken)
    told = refused(shared.ask("list_chats"), 500, "internal_error")

    assert "secret" not in str(told)
    assert "a secret" in caplog.text


# ETags

CHANGES: dict[str, tuple[dict[str, str], Callable[[Api], object]]] = {
    "get_toolset": (
        {"toolset_id": "data-lab"},
        lambda api: api.post("enable_toolset", toolset_id="data-lab", enabled=False),
    ),
    "get_workspace_files": ({"chat_id": "c1"}, lambda api: api.upload(("b.txt", b"2"))),
    "get_workspace_manifest": (
        {"chat_id": "c1"},
        lambda api: api.post("create_branch", chat_id="c1", name="idea"),
    ),
    "get_workspace_file": ({"chat_id": "c1", "path": "a.txt"}, lambda api: edit(api, b"2")),
    "export_toolset": (
        {"toolset_id": "data-lab"},
        lambda api: (api.root / "toolsets/data-lab/new.txt").write_text("new"),
    ),
}


def edit(api: Api, content: bytes) -> None:
    (api.workspace / "a.txt").write_bytes(content)
    api.post("save_edits", chat_id="c1")


@pytest.mark.parametrize("operation", CHANGES)
def test_an_answer_is_sent_again_only_when_it_changed(api: Api, operation: str) -> None:
    request, change = CHANGES[operation]
    edit(api, b"1")

    def ask(etag: str = "") -> TestResponse:
        answer = api.ask(operation, **request, headers={"If-None-Match": etag})
        answer.get_data()  # which closes a file
        return answer

    etag = ask().headers["ETag"]
    same = ask(etag)
    change(api)

    assert (same.status_code, same.get_data()) == (304, b"")
    assert ask(etag).status_code == 200
    assert ask().headers["ETag"] != etag


# Files


@pytest.mark.parametrize(
    ("name", "content", "kind", "shown"), [pytest.param(*row, id=row[0]) for row in FILES]
)
def test_a_file_is_sent_by_its_content_and_never_as_a_page(
    shared: Api, name: str, content: str, kind: str, shown: str
) -> None:
    expected = content.encode("latin-1")
    sent = shared.read(name)
    download = shared.read(name, download=True)

    assert (sent.status_code, sent.get_data()) == (200, expected)
    assert sent.headers["Content-Type"] == kind
    assert sent.headers["Content-Disposition"].partition(";")[0] == shown
    assert sent.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert sent.headers["X-Content-Type-Options"] == "nosniff"
    assert sent.headers["ETag"] == f'"{blob_id(expected, "sha1")}"'
    assert download.headers["Content-Disposition"].startswith("attachment; filename=")


def test_a_line_break_in_a_name_ends_no_header(api: Api) -> None:
    blob = git(api.store, "hash-object", "-w", "--stdin", given=b"1").strip()
    tree = git(api.store, "mktree", "-z", given=f"100644 blob {blob}\ta\nb: c\0".encode()).strip()
    commit = git(api.store, "commit-tree", "-m", "mine", tree).strip()
    git(api.store, "update-ref", "refs/heads/main", commit)
    sent = api.read("a\nb: c")

    assert sent.get_data() == b"1"
    assert sent.headers["Content-Disposition"] == 'inline; filename="a b: c"'


def test_a_range_of_the_same_version_of_a_file_is_sent(shared: Api) -> None:
    etag = shared.read("ten").headers["ETag"]
    headers = {"Range": "bytes=5-99", "If-Range": etag}
    part, other = (shared.read(name, headers=headers) for name in ("ten", "a.txt"))

    assert (part.status_code, part.get_data()) == (206, b"56789")
    assert part.headers["Content-Range"] == "bytes 5-9/10"
    assert (other.status_code, other.get_data()) == (200, b"hi")
    after = shared.read("ten", headers={"Range": "bytes=10-"})
    refused(after, 416, "requested_range_not_satisfiable")


# Uploads


def test_only_an_upload_may_be_larger_than_other_requests(api: Api) -> None:
    refused(api.upload(("flood", b"x" * (18 << 20))), 413, "request_entity_too_large")
    (api.root / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
    content = "x" * (17 << 20)
    answered(api.upload(("large", content.encode())))
    request = {"chat_id": "c1", "path": "a", "content": content}

    refused(api.tell("update_workspace_file", **request), 413, "request_entity_too_large")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"chat_id": "c1", "x": "1"}, "x"),
        ({}, "chat_id"),
        ({"chat_id": form_file("c1", b"c1")}, "chat_id"),
        ({"chat_id": "c1", "files": "a text"}, "files"),
    ],
)
def test_a_wrong_field_of_a_form_is_named(
    shared: Api, fields: dict[str, object], path: str
) -> None:
    sent = shared.send_form("upload_files", {"files": form_file("a.txt", b"1"), **fields})

    assert [one["path"] for one in refused(sent, 400, "invalid_request")["problems"]] == [path]


def test_an_upload_over_its_limit_is_refused_before_it_is_read(shared: Api) -> None:
    assert toolset_imports.MOST_FORM_BYTES > MAX_ARCHIVE
    asked = EnvironBuilder(
        "/api/import_toolset",
        method="POST",
        base_url=HOME,
        headers=[*BEARER.items()],
        content_type="multipart/form-data; boundary=x",
    ).get_environ()
    asked["CONTENT_LENGTH"] = str(toolset_imports.MOST_FORM_BYTES + 1)
    asked["wsgi.input"] = None  # reading from it fails
    parts, status, _ = run_wsgi_app(shared.app.wsgi_app, asked)

    assert status == "413 REQUEST ENTITY TOO LARGE"
    assert json.loads(b"".join(parts))["error"] == "request_entity_too_large"


def test_a_list_in_a_form_has_its_name_for_each_item(shared: Api) -> None:
    def sent(**fields: object) -> TestResponse:
        form = {"file": form_file("demo.zip", DEMO), "dry_run": "true", **fields}
        return shared.send_form("import_toolset", form)

    for permissions in (["a"], ["a", "b"]):
        answered(sent(permissions=permissions))
    twice = sent(reason=["a", "b"])
    refused(twice, 400, "invalid_request")


def test_a_path_on_the_machine_of_the_server_is_not_a_bundle(shared: Api) -> None:
    for body in ({"file": "/etc/passwd"}, {"source": "toolsets/data-lab"}, {}):
        refused(shared.tell("import_toolset", **body), 400, "invalid_request")
    refused(shared.tell("import_toolset", url="file:///etc/passwd"), 400, "bad_host")
    refused(shared.tell("upload_files", chat_id="c1"), 415, "unsupported_media_type")
    two = [form_file("a.zip", DEMO), form_file("b.zip", DEMO)]
    for file in ("/etc/passwd", two):
        answer = shared.send_form("import_toolset", {"file": file})
        refused(answer, 400, "invalid_request")
    page = shared.send_form("import_toolset", {"file": form_file("page.html", b"<h1>no</h1>")})
    refused(page, 422, "bad_bundle")
