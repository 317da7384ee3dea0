"""Workspaces over the API: listing, reading in parts, comparing, editing and uploading files."""

from __future__ import annotations

import base64
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from covalt_git.git_objects import blob_id
from tests.api_client import BEARER, HOME, NO_NOTES, Api, answered, form_file, refused
from tests.workspaces.stores import git, put

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def save(api: Api, **files: bytes) -> None:
    """Put files into the folder and make them a state."""
    put(api.workspace, {name: ("file", content) for name, content in files.items()})
    api.post("save_edits", chat_id="c1")


def edit(api: Api, path: str, content: str, base: str | None, **more: object) -> Any:
    return api.tell(
        "update_workspace_file", chat_id="c1", path=path, content=content, base=base, **more
    )


def diff(api: Api, old: str, **query: object) -> Any:
    return api.get("get_workspace_diff", chat_id="c1", old=old, **query)


def test_files_are_listed_with_what_git_and_sha256_call_them(api: Api) -> None:
    put(
        api.workspace,
        {
            "a.txt": ("file", b"hi\n"),
            "bin/run": ("program", b"#!/bin/sh\n"),
            "l": ("link", b"a.txt"),
            "empty": ("folder", b""),
        },
    )
    api.post("save_edits", chat_id="c1")
    listed = api.get("get_workspace_files", chat_id="c1")

    assert listed["empty_folders"] == ["empty"]
    assert listed["manifest_id"] == git(api.store, "rev-parse", "main").strip()
    assert [file["path"] for file in listed["files"]] == ["a.txt", "bin/run", "l"]
    assert listed["files"][0] == {
        "path": "a.txt",
        "size": 3,
        "sha256": "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4",
        "oid": blob_id(b"hi\n", "sha1"),
        "executable": False,
        "link": False,
    }
    assert [file["executable"] for file in listed["files"]] == [False, True, False]
    assert [file["link"] for file in listed["files"]] == [False, False, True]


def test_the_etag_of_the_files_changes_with_them(api: Api) -> None:
    api.write("a.txt", "1")
    first = api.ask("get_workspace_files", chat_id="c1")
    etag = first.headers["ETag"]

    again = api.ask("get_workspace_files", chat_id="c1", headers={"If-None-Match": etag})
    assert again.status_code == 304
    api.write("a.txt", "2")
    later = api.ask("get_workspace_files", chat_id="c1", headers={"If-None-Match": etag})
    assert later.status_code == 200


KINDS = [
    pytest.param("a.txt", b"hi", "text/plain; charset=utf-8", "inline", id="text"),
    pytest.param("a.html", b"<script>1</script>", "text/plain; charset=utf-8", "inline", id="html"),
    pytest.param("a.svg", b"<svg/>", "text/plain; charset=utf-8", "inline", id="svg"),
    pytest.param("a.png", b"<script>1</script>", "text/plain; charset=utf-8", "inline", id="named"),
    pytest.param("x", "ü 日本".encode(), "text/plain; charset=utf-8", "inline", id="utf-8"),
    pytest.param("empty", b"", "text/plain; charset=utf-8", "inline", id="empty"),
    pytest.param("a.txt", b"caf\xe9", "application/octet-stream", "attachment", id="latin-1"),
    pytest.param("a.txt", b"a\0b", "application/octet-stream", "attachment", id="nul"),
    pytest.param("a.pdf", b"%PDF-1.7\n\xff", "application/octet-stream", "attachment", id="pdf"),
    pytest.param("a.txt", PNG, "image/png", "inline", id="png"),
    pytest.param("a", b"\xff\xd8\xff\xe0...", "image/jpeg", "inline", id="jpeg"),
    pytest.param("a", b"GIF89a...", "image/gif", "inline", id="gif"),
    pytest.param("a", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", "inline", id="webp"),
    pytest.param("a", b"\0\0\0\x1cftypavif", "image/avif", "inline", id="avif"),
    pytest.param("a", b"RIFF\0\0\0\0WAVEfmt ", "audio/wav", "inline", id="wav"),
    pytest.param("a", b"ID3\x04\0\0", "audio/mpeg", "inline", id="mp3"),
    pytest.param("a", b"\xff\xfb\x90\x64", "audio/mpeg", "inline", id="mp3-alone"),
    pytest.param("a", b"OggS\0\x02", "audio/ogg", "inline", id="ogg"),
    pytest.param("a", b"fLaC\0\0\0\x22", "audio/flac", "inline", id="flac"),
    pytest.param("a.mp3", b"ID3 <script>", "text/plain; charset=utf-8", "inline", id="called-mp3"),
    pytest.param("a", b"\0\0\0\x1cftypisom", "application/octet-stream", "attachment", id="mp4"),
]


@pytest.mark.parametrize(("name", "content", "kind", "shown"), KINDS)
def test_a_file_is_sent_as_what_it_is_and_never_as_a_page(
    api: Api, name: str, content: bytes, kind: str, shown: str
) -> None:
    save(api, **{name: content})
    sent = api.read(name)

    assert sent.status_code == 200
    assert sent.get_data() == content
    assert sent.headers["Content-Type"] == kind
    assert sent.headers["Content-Disposition"].partition(";")[0] == shown
    assert sent.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert sent.headers["X-Content-Type-Options"] == "nosniff"
    assert sent.headers["ETag"] == f'"{blob_id(content, "sha1")}"'
    asked = api.read(name, download=True).headers["Content-Disposition"]
    assert asked.startswith("attachment; filename=")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("d/a b.txt", 'inline; filename="a b.txt"', id="space"),
        pytest.param(
            "ü.txt", "inline; filename=u.txt; filename*=UTF-8''%C3%BC.txt", id="not-ascii"
        ),
        pytest.param('a"b.txt', r'inline; filename="a\"b.txt"', id="quote"),
        pytest.param(
            "日本", "inline; filename=\"\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC", id="all"
        ),
    ],
)
def test_the_name_of_a_download_is_told_in_every_script(api: Api, name: str, said: str) -> None:
    save(api, **{name: b"1"})

    assert api.read(name).headers["Content-Disposition"] == said


def test_a_name_that_only_git_could_make_is_told_in_one_line(api: Api) -> None:
    blob = git(api.store, "hash-object", "-w", "--stdin", given=b"1").strip()
    tree = git(api.store, "mktree", "-z", given=f"100644 blob {blob}\ta\nb: c\0".encode()).strip()
    commit = git(api.store, "commit-tree", "-m", "mine", tree).strip()
    git(api.store, "update-ref", "refs/heads/main", commit)
    sent = api.read("a\nb: c")

    assert sent.get_data() == b"1"
    assert sent.headers["Content-Disposition"] == 'inline; filename="a b: c"'


def test_a_link_is_told_and_not_followed(api: Api) -> None:
    put(api.workspace, {"a": ("file", b"secret"), "l": ("link", b"a")})
    api.post("save_edits", chat_id="c1")

    assert api.read("l").get_data() == b"a"


@pytest.mark.parametrize(
    ("asked", "said", "content"),
    [
        pytest.param("bytes=0-3", "bytes 0-3/10", b"0123", id="first"),
        pytest.param("bytes=8-", "bytes 8-9/10", b"89", id="from"),
        pytest.param("bytes=-3", "bytes 7-9/10", b"789", id="last"),
        pytest.param("bytes=5-99", "bytes 5-9/10", b"56789", id="beyond"),
    ],
)
def test_a_part_of_a_file_may_be_asked_for(api: Api, asked: str, said: str, content: bytes) -> None:
    save(api, a=b"0123456789")
    sent = api.ask("get_workspace_file", chat_id="c1", path="a", headers={"Range": asked})

    assert sent.status_code == 206
    assert sent.headers["Content-Range"] == said
    assert sent.get_data() == content
    assert sent.headers["Accept-Ranges"] == "bytes"


def test_a_part_that_is_not_there_is_refused_with_the_size(api: Api) -> None:
    save(api, a=b"0123456789")
    sent = api.ask("get_workspace_file", chat_id="c1", path="a", headers={"Range": "bytes=10-"})

    refused(sent, 416, "requested_range_not_satisfiable")
    assert sent.headers["Content-Range"] == "bytes */10"


def test_a_part_is_of_the_version_that_was_begun(api: Api) -> None:
    save(api, a=b"0123456789")
    etag = api.read("a").headers["ETag"]
    asked = {"Range": "bytes=5-", "If-Range": etag}
    same = api.ask("get_workspace_file", chat_id="c1", path="a", headers=asked)
    save(api, a=b"abcdefghijk")
    other = api.ask("get_workspace_file", chat_id="c1", path="a", headers=asked)

    assert (same.status_code, same.get_data()) == (206, b"56789")
    assert (other.status_code, other.get_data()) == (200, b"abcdefghijk")


def test_what_is_known_already_is_not_sent_again(api: Api) -> None:
    save(api, a=b"1")
    known = {"If-None-Match": api.read("a").headers["ETag"]}
    sent = api.ask("get_workspace_file", chat_id="c1", path="a", headers=known)

    assert (sent.status_code, sent.get_data()) == (304, b"")


def test_head_tells_the_size_without_the_content(api: Api) -> None:
    save(api, a=b"0123456789")
    sent = api.client().head(
        "/api/get_workspace_file?chat_id=c1&path=a", base_url=HOME, headers=BEARER
    )

    assert sent.status_code == 200
    assert sent.content_length == 10
    assert sent.get_data() == b""


@pytest.mark.parametrize(
    "path",
    ["", "gone", "d", "d/", "/a", "a/", "a/b", "../a", "./a", "a\0", "..", "x" * 5000, "ä", "\\a"],
)
def test_a_path_that_is_no_file_is_unknown(api: Api, path: str) -> None:
    save(api, **{"a": b"1", "d/e": b"2"})

    refused(api.read(path), 404, "unknown_file")


def test_the_nearest_path_is_named(api: Api) -> None:
    api.write("docs/notes.txt", "1")

    assert "did you mean 'docs/notes.txt'?" in api.read("docs/note.txt").json["hint"]  # type: ignore[index]


# Comparing


def test_a_difference_is_told_as_git_writes_it(api: Api) -> None:
    api.write("a.txt", "one\ntwo\n")
    api.write("a.txt", "one\n2\n3\n")
    first = api.get("list_manifests", chat_id="c1")["manifests"][1]["id"]
    told = diff(api, first)

    assert told["truncated"] is False
    assert [
        (one["path"], one["kind"], one["added"], one["deleted"]) for one in told["changes"]
    ] == [("a.txt", "modified", 2, 1)]
    assert told["changes"][0]["patch"] == git(api.store, "diff", "main~1", "main")


def test_the_state_before_any_file_is_the_empty_text(api: Api) -> None:
    api.write("a.txt", "1\n")

    assert [one["kind"] for one in diff(api, "")["changes"]] == ["added"]
    assert [one["kind"] for one in diff(api, "HEAD", new="")["changes"]] == []


def test_the_folder_as_it_is_now_is_the_empty_text_too(api: Api) -> None:
    api.write("a.txt", "1\n")
    (api.workspace / "a.txt").unlink()
    (api.workspace / "b.png").write_bytes(PNG)
    told = diff(api, "HEAD", new="")["changes"]

    assert [(one["path"], one["kind"], one["binary"]) for one in told] == [
        ("a.txt", "deleted", False),
        ("b.png", "added", True),
    ]
    assert "Binary files" in told[1]["patch"]
    assert len(api.get("list_manifests", chat_id="c1")["manifests"]) == 1


def test_an_empty_chat_differs_in_nothing(api: Api) -> None:
    assert diff(api, "HEAD") == diff(api, "") == {"changes": [], "truncated": False}


def test_a_file_too_large_to_compare_is_only_named(api: Api) -> None:
    lines = b"".join(b"%d\n" % number for number in range(90_000))
    save(api, **{"large.txt": lines, "small.txt": b"1\n"})
    told = diff(api, "")

    assert told["truncated"] is True
    assert [(one["patch"] is None, one["added"]) for one in told["changes"]] == [
        (True, None),
        (False, 1),
    ]


# Editing


def test_an_edited_file_is_a_state_and_in_the_folder(api: Api) -> None:
    api.write("a.txt", "1")
    base = api.files()["a.txt"]["oid"]
    done = answered(edit(api, "a.txt", "zwei ü\n", base))
    row = api.get("get_workspace_manifest", chat_id="c1")

    assert done == {
        "manifest_id": row["id"],
        "oid": blob_id("zwei ü\n".encode(), "sha1"),
        "changed": True,
        "changes": row["changes"],
    }
    assert (api.workspace / "a.txt").read_text(encoding="utf-8") == "zwei ü\n"
    assert row["source"] == "edit"
    assert git(api.store, "log", "-1", "--format=%s", "main") == "edit: a.txt\n"
    again = answered(edit(api, "a.txt", "zwei ü\n", done["oid"]))
    assert again == done | {"changed": False, "changes": []}


def test_a_new_file_needs_no_base(api: Api) -> None:
    answered(edit(api, "d/new.txt", "1", None))

    assert api.files().keys() == {"d/new.txt"}
    refused(edit(api, "d/new.txt", "2", None), 409, "moved")


def test_an_edit_of_what_has_changed_is_refused_with_both_ids(api: Api) -> None:
    api.write("a.txt", "1")
    base = api.files()["a.txt"]["oid"]
    (api.workspace / "a.txt").write_text("theirs")
    told = refused(edit(api, "a.txt", "mine", base), 409, "moved")

    assert base in told["error_description"]
    assert blob_id(b"theirs", "sha1") in told["error_description"]
    assert (api.workspace / "a.txt").read_text() == "theirs"


def test_an_edit_on_another_branch_is_refused(api: Api) -> None:
    api.write("a.txt", "1")
    base = api.files()["a.txt"]["oid"]
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    told = refused(edit(api, "a.txt", "2", base, branch="main"), 409, "moved")

    assert told["error_description"] == "the folder is on 'idea' now, not on 'main'"
    answered(edit(api, "a.txt", "2", base, branch="idea"))


@pytest.mark.parametrize(
    "path", ["", "../x", "/x", ".git/x", "a:b", "con", "a\0b", "x/", "ü\u0308 "]
)
def test_a_path_that_not_every_system_has_is_refused(api: Api, path: str) -> None:
    refused(edit(api, path, "1", None), 400, "bad_path")

    assert [*api.workspace.iterdir()] == []


def test_a_deleted_file_is_gone_and_in_the_history(api: Api) -> None:
    call = api.write("a.txt", "1")
    base = api.files()["a.txt"]["oid"]
    done = api.post("delete_workspace_file", chat_id="c1", path="a.txt", base=base)

    assert api.files() == {}
    assert done["manifest_id"] == api.get("get_workspace_manifest", chat_id="c1")["id"]
    assert api.read("a.txt", manifest=call["id"]).get_data() == b"1"
    refused(api.tell("delete_workspace_file", chat_id="c1", path="a.txt", base=base), 409, "moved")


# Uploading


def test_uploads_are_one_state_and_taken_names_get_numbers(api: Api) -> None:
    save(api, **{"d/a.txt": b"there"})
    done = answered(api.upload(("a.txt", b"1"), ("b.bin", bytes(range(256))), folder="d"))

    assert done["files"] == [
        {"path": "d/a_1.txt", "renamed_from": "d/a.txt", "was_there": False},
        {"path": "d/b.bin", "renamed_from": None, "was_there": False},
    ]
    assert done["changed"] is True
    assert (api.workspace / "d/b.bin").read_bytes() == bytes(range(256))
    assert api.get("get_workspace_manifest", chat_id="c1")["source"] == "user_upload"
    again = answered(api.upload(("b.bin", bytes(range(256))), folder="d/"))
    assert again == {
        "manifest_id": done["manifest_id"],
        "files": [{"path": "d/b.bin", "renamed_from": None, "was_there": True}],
        "changed": False,
        "notes": NO_NOTES,
    }


def test_a_name_that_some_system_takes_for_one_that_is_there_is_refused(api: Api) -> None:
    save(api, **{"d/a.txt": b"there"})
    told = refused(api.upload(("b.txt", b"1"), ("A.TXT", b"2"), folder="d"), 400, "bad_path")
    beside = refused(api.upload(("c.txt", b"1"), ("C.txt", b"2")), 400, "bad_path")

    assert "'d/A.TXT' cannot be a file's path: some systems take it for 'd/a.txt'" in str(told)
    assert "some systems take it for 'c.txt'" in str(beside)
    assert api.files("main").keys() == {"d/a.txt"}


def test_a_name_that_a_mac_wrote_in_parts_is_composed(api: Api) -> None:
    done = answered(api.upload(("u\u0308.txt", b"1")))

    assert done["files"][0]["path"] == "ü.txt"


@pytest.mark.parametrize(
    ("name", "folder", "code"),
    [
        pytest.param("a:b.txt", "", "bad_path", id="unportable"),
        pytest.param("a.txt", "aux", "bad_path", id="unportable-folder"),
        pytest.param("a.txt", "..", "bad_path", id="above"),
        pytest.param("a.txt", "/etc", "bad_path", id="absolute"),
        pytest.param(".git", "", "bad_path", id="git"),
        pytest.param("a/b.txt", "", "invalid_request", id="folder-in-the-name"),
    ],
)
def test_an_upload_that_cannot_be_stored_adds_nothing(
    api: Api, name: str, folder: str, code: str
) -> None:
    refused(api.upload(("good.txt", b"1"), (name, b"2"), folder=folder), 400, code)

    assert [*api.workspace.iterdir()] == []


def test_the_largest_file_that_is_stored_may_be_uploaded(api: Api) -> None:
    answered(api.upload(("largest", b"x" * (1 << 20))))
    told = refused(api.upload(("larger", b"x" * ((1 << 20) + 1))), 400, "invalid_request")

    assert told["hint"] == "raise workspace.max_file_mb in covalt.yaml"
    refused(api.upload(("flood", b"x" * (18 << 20))), 413, "request_entity_too_large")
    assert [path.name for path in api.workspace.iterdir()] == ["largest"]


def test_only_an_upload_may_be_that_large(api: Api) -> None:
    (api.root / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
    answered(api.upload(("large", b"x" * (17 << 20))))

    refused(edit(api, "a", "x" * (17 << 20), None), 413, "request_entity_too_large")


@pytest.mark.parametrize("phrase", ["Request Entity Too Large", "Content Too Large"])
def test_too_large_a_body_has_one_code_on_every_python(
    api: Api, phrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "phrase", phrase)

    refused(edit(api, "a", "x" * (17 << 20), None), 413, "request_entity_too_large")
    answers = api.get("openapi.json")["paths"]["/api/update_workspace_file"]["post"]["responses"]
    assert answers["413"]["description"] == "Request Entity Too Large"


def test_a_form_without_a_file_says_so(api: Api) -> None:
    empty = refused(api.upload(("", b"")), 400, "invalid_request")
    none = refused(api.upload(), 400, "invalid_request")

    assert empty["error_description"] == "there is no file in the request"
    assert [problem["path"] for problem in none["problems"]] == ["files"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"chat_id": "c1", "x": "1"}, "x", id="unknown"),
        pytest.param({}, "chat_id", id="missing"),
        pytest.param({"chat_id": form_file("c1", b"c1")}, "chat_id", id="file-for-a-text"),
    ],
)
def test_a_form_that_says_something_else_is_told_what(
    api: Api, fields: dict[str, object], path: str
) -> None:
    sent = api.send_form("upload_files", {**fields, "files": form_file("a.txt", b"1")})

    assert [one["path"] for one in refused(sent, 400, "invalid_request")["problems"]] == [path]


def test_an_upload_that_is_no_form_is_refused(api: Api) -> None:
    refused(api.tell("upload_files", chat_id="c1"), 415, "unsupported_media_type")


def test_a_link_in_the_folder_leads_no_write_outside(api: Api, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (api.workspace / "out").symlink_to(outside)

    refused(edit(api, "out/x", "1", None), 400, "bad_path")
    refused(api.upload(("x", b"1"), folder="out"), 400, "invalid_request")
    assert [*outside.iterdir()] == []
