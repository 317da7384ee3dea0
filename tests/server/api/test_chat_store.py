"""Chats as a whole over the API: forked, exported, imported, collected and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.workspaces.locking import held
from tests.api_client import Api, answered, form_file, refused
from tests.workspaces.stores import git, run_git

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def chats(api: Api) -> dict[str, Any]:
    return {chat["id"]: chat for chat in api.get("list_chats")["chats"]}


def bundle_of(api: Api, **query: Any) -> bytes:
    with api.ask("export_chat", chat_id="c1", **query) as sent:
        assert sent.status_code == 200
        assert sent.mimetype == "application/octet-stream"
        assert sent.headers["Content-Disposition"] == "attachment; filename=c1.bundle"
        return sent.get_data()


def send_bundle(api: Api, content: bytes, **fields: str) -> Any:
    return api.send_form("import_chat", {"file": form_file("x.bundle", content), **fields})


def test_a_fork_has_the_history_and_the_files(api: Api) -> None:
    api.write("a.txt", "one")
    first = api.get("get_chat", chat_id="c1")["active_manifest_id"]
    api.write("a.txt", "two")

    whole = api.post("fork_chat", chat_id="c1")
    part = api.post(
        "fork_chat", chat_id="c1", from_manifest=first, new_chat_id="then", title="Then"
    )

    assert (whole["id"], whole["manifests"], whole["title"]) == ("c2", 2, "A chat")
    assert (part["id"], part["manifests"], part["title"]) == ("then", 1, "Then")
    assert part["forked_from"] == {"chat_id": "c1", "manifest_id": first}
    assert chats(api)["c2"]["forked_from"]["chat_id"] == "c1"
    assert chats(api)["c1"]["forked_from"] is None
    folder = api.root / "data/chats"
    assert (folder / "c2/workspace/a.txt").read_text() == "two"
    assert (folder / "then/workspace/a.txt").read_text() == "one"
    refused(api.tell("fork_chat", chat_id="c1", new_chat_id="c2"), 409, "chat_exists")
    refused(api.tell("fork_chat", chat_id="nope"), 404, "unknown_chat")
    refused(api.tell("fork_chat", chat_id="c1", from_manifest="nope"), 404, "unknown_manifest")


def test_calls_of_both_are_found(api: Api) -> None:
    api.write("a.txt", "one")

    api.post("fork_chat", chat_id="c1")

    assert chats(api)["c2"]["tool_calls"] == 1
    assert chats(api)["c1"]["tool_calls"] == 1


def test_an_export_is_a_bundle_that_git_clones(api: Api, tmp_path: Path) -> None:
    api.write("a.txt", "one")
    (tmp_path / "x.bundle").write_bytes(bundle_of(api))

    git(tmp_path, "clone", "-q", "x.bundle", "copy")

    assert (tmp_path / "copy/a.txt").read_text() == "one"
    assert bundle_of(api) == (tmp_path / "x.bundle").read_bytes()
    assert len(bundle_of(api, branch="main")) == len(bundle_of(api))
    refused(api.ask("export_chat", chat_id="c1", branch="nope"), 404, "unknown_branch")


def test_an_empty_chat_has_nothing_to_export(api: Api) -> None:
    refused(api.ask("export_chat", chat_id="c1"), 400, "invalid_request")


def test_an_import_makes_a_chat(api: Api) -> None:
    api.write("a.txt", "one")
    content = bundle_of(api)

    found = answered(send_bundle(api, content))
    named = answered(send_bundle(api, content, chat_id="mine", title="My own"))

    assert (found["chat"]["id"], found["was"], found["branches"]) == ("c2", "c1", ["main"])
    assert (named["chat"]["id"], named["chat"]["title"]) == ("mine", "My own")
    assert found["chat"]["active_manifest_id"] == chats(api)["c1"]["active_manifest_id"]
    assert (api.root / "data/chats/mine/workspace/a.txt").read_text() == "one"
    assert sorted(chats(api)) == ["c1", "c2", "mine"]
    refused(send_bundle(api, content, chat_id="mine"), 409, "chat_exists")


def test_what_must_not_come_in_is_told_path_by_path(api: Api, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "work")
    (tmp_path / "work/out").symlink_to("/etc")
    git(tmp_path / "work", "add", "-A")
    git(tmp_path / "work", "commit", "-q", "-m", "first")
    git(tmp_path / "work", "bundle", "create", "-q", str(tmp_path / "x.bundle"), "--all")

    told = refused(send_bundle(api, (tmp_path / "x.bundle").read_bytes()), 400, "not_admitted")

    assert [problem["path"] for problem in told["problems"]] == ["out"]
    assert sorted(chats(api)) == ["c1"]


def test_what_is_no_bundle_is_refused(api: Api) -> None:
    refused(send_bundle(api, b"PK\3\4"), 400, "bad_bundle")
    refused(api.send_form("import_chat", {"chat_id": "x"}), 400, "invalid_request")
    two = [form_file("a", b""), form_file("b", b"")]
    refused(api.send_form("import_chat", {"file": two}), 400, "invalid_request")
    assert sorted(chats(api)) == ["c1"]


def test_garbage_is_collected(api: Api) -> None:
    api.write("a.txt", "one")
    for number in range(4):
        api.write("a.txt", f"{number}")

    done = api.post("collect_garbage", chat_id="c1", now=True)

    assert done["after"]["packs"] == 1
    assert done["after"]["objects"] <= done["before"]["objects"]
    assert (done["forgotten"], done["records"]) == ([], 0)
    assert run_git(api.store, "fsck", "--strict", "--full").returncode == 0
    assert api.read("a.txt").get_data() == b"3"


def test_a_deleted_chat_is_gone(api: Api) -> None:
    api.write("a.txt", "one")

    done = api.post("delete_chat", chat_id="c1")

    assert (done["chat_id"], done["manifests"], done["branches"]) == ("c1", 1, 1)
    assert done["size"] > 0
    assert chats(api) == {}
    refused(api.tell("delete_chat", chat_id="c1"), 404, "unknown_chat")
    refused(api.ask("get_chat", chat_id="c1"), 404, "unknown_chat")


def test_a_chat_that_is_written_to_is_not_deleted(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covalt_git.operations.chats.chats._BUSY_S", 0)

    with held(api.root / "data/chats/c1", "c1", timeout_s=0, waiting=None):
        refused(api.tell("delete_chat", chat_id="c1"), 409, "chat_busy")

    assert sorted(chats(api)) == ["c1"]
