"""Files of a workspace: listed, compared, edited, deleted and uploaded."""

from typing import Any

import pytest

from covalt_git.git_store.objects import blob_id
from tests.operations_client import Operations
from tests.workspaces.stores import git, put


def files(operate: Operations, manifest: str = "HEAD") -> dict[str, Any]:
    listed = operate("get_workspace_files", chat_id="new", manifest=manifest)
    return {file["path"]: file for file in listed["files"]}


def edit(path: str, content: str, base: str | None, **more: object) -> dict[str, Any]:
    return {"chat_id": "new", "path": path, "content": content, "base": base, **more}


@pytest.mark.requirement("covalt-2.2.create", "covalt-7.3.get_workspace_files")
def test_files_have_the_ids_of_git_and_sha256(new: Operations) -> None:
    layout = {
        "a.txt": ("file", b"hi\n"),
        "bin/run": ("program", b"#!/bin/sh\n"),
        "l": ("link", b"a.txt"),
        "empty": ("folder", b""),
    }
    put(new.workspace("new"), layout)
    now = new("get_workspace_files", chat_id="new", manifest="")
    new.commit("new")
    listed = new("get_workspace_files", chat_id="new", manifest="HEAD")

    assert now == listed | {"manifest_id": None}
    assert listed["empty_folders"] == ["empty"]
    assert listed["manifest_id"] == git(new.store("new"), "rev-parse", "main").strip()
    assert listed["files"][0] == {
        "path": "a.txt",
        "size": 3,
        "sha256": "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4",
        "oid": blob_id(b"hi\n", "sha1"),
        "executable": False,
        "link": False,
    }
    assert [(file["path"], file["executable"], file["link"]) for file in listed["files"]] == [
        ("a.txt", False, False),
        ("bin/run", True, False),
        ("l", False, True),
    ]


def test_a_link_is_read_as_its_target(new: Operations) -> None:
    put(new.workspace("new"), {"a": ("file", b"secret"), "l": ("link", b"a")})

    for manifest in ("", "HEAD"):
        assert new("get_workspace_file", chat_id="new", path="l", manifest=manifest) == b"a"
        new.commit("new")


def test_only_the_path_of_a_file_is_read(operate: Operations) -> None:
    operate.commit("c1", **{"docs/notes.txt": "1"})
    for manifest in ("", "HEAD"):
        for path in ("", "docs", "docs/", "/b.txt", "b.txt/", "b.txt/x", "../x", "./b.txt", "b\0"):
            request = {"chat_id": "c1", "path": path, "manifest": manifest}
            assert operate.error("get_workspace_file", **request).code == "unknown_file", path
    error = operate.error("get_workspace_file", chat_id="c1", path="docs/note.txt")
    assert "'docs/notes.txt'" in error.hint


def test_differences_are_patches_as_git_writes_them(new: Operations) -> None:
    first = new.commit("new", **{"a.txt": "one\ntwo\n"})
    new.commit("new", **{"a.txt": "one\n2\n3\n"})
    told = new("get_workspace_diff", chat_id="new", old=first)
    (change,) = told["changes"]

    assert told["truncated"] is False
    assert (change["path"], change["kind"]) == ("a.txt", "modified")
    assert (change["added"], change["deleted"], change["binary"]) == (2, 1, False)
    assert change["patch"] == git(new.store("new"), "diff", "main~1", "main")


def test_the_empty_text_is_no_files_on_one_side_and_the_folder_on_the_other(
    new: Operations,
) -> None:
    new.commit("new", **{"a.txt": "1\n"})
    (new.workspace("new") / "a.txt").unlink()
    (new.workspace("new") / "b.png").write_bytes(b"\x89PNG\r\n\0")
    all_new = new("get_workspace_diff", chat_id="new", old="", new="HEAD")["changes"]
    edits = new("get_workspace_diff", chat_id="new", old="HEAD", new="")["changes"]

    assert [(one["path"], one["kind"]) for one in all_new] == [("a.txt", "added")]
    assert [(one["path"], one["kind"], one["binary"]) for one in edits] == [
        ("a.txt", "deleted", False),
        ("b.png", "added", True),
    ]
    assert len(new("list_manifests", chat_id="new")["manifests"]) == 1


def test_a_file_too_large_to_compare_is_named_without_a_patch(new: Operations) -> None:
    lines = b"".join(b"%d\n" % number for number in range(90_000))
    new.commit("new", **{"large.txt": lines, "small.txt": b"1\n"})
    told = new("get_workspace_diff", chat_id="new", old="")
    whole = new("get_commit_diff", chat_id="new", old="")

    assert (told["truncated"], whole["truncated"]) == (True, False)
    assert [(one["patch"] is None, one["added"]) for one in told["changes"]] == [
        (True, None),
        (False, 1),
    ]
    assert [one["added"] for one in whole["changes"]] == [90_000, 1]


# Editing


def test_an_edit_replaces_only_the_version_that_was_read(new: Operations) -> None:
    new.commit("new", **{"a.txt": "1"})
    base = files(new)["a.txt"]["oid"]
    (new.workspace("new") / "a.txt").write_text("theirs")
    error = new.error("update_workspace_file", **edit("a.txt", "mine", base))

    assert error.code == "moved"
    assert "has been changed since you read it" in error.message
    for name, request in (
        ("update_workspace_file", edit("a.txt", "mine", None)),
        ("update_workspace_file", edit("gone.txt", "mine", base)),
        ("delete_workspace_file", {"chat_id": "new", "path": "a.txt", "base": base}),
    ):
        assert new.error(name, **request).code == "moved"
    assert (new.workspace("new") / "a.txt").read_text() == "theirs"


def test_an_edit_is_made_only_on_the_branch_that_it_names(new: Operations) -> None:
    new.commit("new", **{"a.txt": "1"})
    base = files(new)["a.txt"]["oid"]
    new("create_branch", chat_id="new", name="idea")
    new("switch_branch", chat_id="new", branch="idea")
    request = edit("a.txt", "2", base, branch="main")

    assert new.error("update_workspace_file", **request).code == "moved"
    assert new("update_workspace_file", **request | {"branch": "idea"})["changed"]
