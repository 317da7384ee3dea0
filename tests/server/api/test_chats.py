"""Chats over the API: making them, their states and branches, and going between them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.api_client import NO_NOTES, Api, answered, configure, refused
from tests.workspaces.stores import git, loose


def manifests(api: Api, **query: object) -> list[Any]:
    return list(api.get("list_manifests", chat_id="c1", **query)["manifests"])


def test_a_project_without_chats_has_none(api: Api) -> None:
    listed = api.get("list_chats")

    assert [chat["id"] for chat in listed["chats"]] == ["c1"]
    assert listed["chats"][0]["title"] == "A chat"
    assert listed["chats"][0]["active_branch"] == "main"
    assert listed["chats"][0]["active_manifest_id"] is None
    assert listed["damaged"] == []


def test_chats_without_a_name_are_numbered(api: Api) -> None:
    made = [api.post("create_chat")["id"] for _ in range(2)]

    assert made == ["c2", "c3"]
    assert [chat["id"] for chat in api.get("list_chats")["chats"]] == ["c3", "c2", "c1"]


def test_chats_made_at_once_get_different_names(api: Api) -> None:
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.append(api.post("create_chat")["id"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(made) == ["c2", "c3", "c4", "c5"]


@pytest.mark.parametrize(
    ("chat_id", "status", "code"),
    [
        pytest.param("c1", 409, "chat_exists", id="taken"),
        pytest.param("My Chat", 400, "bad_name", id="no-id"),
        pytest.param("../x", 400, "bad_name", id="path"),
        pytest.param("", 400, "bad_name", id="empty"),
        pytest.param("a\0b", 400, "bad_name", id="nul"),
    ],
)
def test_a_chat_that_cannot_be_made_is_refused(
    api: Api, chat_id: str, status: int, code: str
) -> None:
    refused(api.tell("create_chat", chat_id=chat_id), status, code)

    assert [chat["id"] for chat in api.get("list_chats")["chats"]] == ["c1"]


@pytest.mark.parametrize("chat_id", ["c9", "", "..", "../chats/c1", "C1", "a\0b", "ü"])
@pytest.mark.parametrize(
    "operation", ["get_chat", "list_manifests", "list_branches", "get_workspace_files"]
)
def test_a_chat_that_is_none_is_unknown(api: Api, operation: str, chat_id: str) -> None:
    refused(api.ask(operation, chat_id=chat_id), 404, "unknown_chat")


def test_a_new_chat_has_a_branch_and_nothing_else(api: Api) -> None:
    told = api.get("get_chat", chat_id="c1")

    assert told["branches"] == [{"name": "main", "manifest_id": None, "active": True}]
    assert told["status"]["changes"] == told["status"]["waiting"] == []
    assert manifests(api) == manifests(api, branch="main") == []
    assert api.files() == {}
    refused(api.ask("get_workspace_manifest", chat_id="c1"), 400, "invalid_request")
    refused(api.tell("create_branch", chat_id="c1", name="idea"), 400, "invalid_request")
    assert api.post("save_edits", chat_id="c1") == {
        "manifest_id": None,
        "changed": False,
        "notes": NO_NOTES,
    }


def test_a_chat_tells_the_edits_that_no_manifest_holds(api: Api) -> None:
    ignoring = "version: 1\nworkspace: {ignore: ['*.log'], durability: fast}\n"
    (api.root / "covalt.yaml").write_text(ignoring)
    for name in ("kept.txt", "left.log", "aux"):
        (api.workspace / name).write_text("1")
    (api.workspace / "empty").mkdir()
    status = api.get("get_chat", chat_id="c1")["status"]

    assert [(one["path"], one["kind"]) for one in status["changes"]] == [
        ("aux", "added"),
        ("kept.txt", "added"),
    ]
    assert status["ignored"] == ["left.log"]
    assert status["workspace"]["empty_folders"] == ["empty"]
    assert [note["path"] for note in status["workspace"]["unportable"]] == ["aux"]


def test_names_that_are_no_text_are_written_out(api: Api) -> None:
    (api.workspace / "caf\udce9").write_text("1")
    told = api.get("get_chat", chat_id="c1")["status"]

    assert [note["path"] for note in told["workspace"]["not_stored"]] == ["caf\\xe9"]


def test_edits_are_saved_once(api: Api) -> None:
    (api.workspace / "a.txt").write_text("mine")
    saved = api.post("save_edits", chat_id="c1")
    again = api.post("save_edits", chat_id="c1")

    assert saved["changed"] is True
    assert again == {
        "manifest_id": saved["manifest_id"],
        "changed": False,
        "notes": NO_NOTES,
    }
    assert api.get("get_chat", chat_id="c1")["manifests"] == 1
    assert git(api.store, "show", "main:a.txt") == "mine"


def test_history_is_newest_first_with_what_was_done(api: Api) -> None:
    api.write("a.txt", "1")
    (api.workspace / "b.txt").write_text("mine")
    api.write("a.txt", "2")
    api.call("app-builder:read_file", path="gone")
    api.upload(("c.txt", b"3"))
    rows = manifests(api)

    assert [(row["title"], row["files_changed"]) for row in rows] == [
        ("uploaded c.txt", 1),
        (rows[1]["title"], 0),
        ("app-builder:write_file success", 1),
        ("edit: b.txt", 1),
        ("app-builder:write_file success", 1),
    ]
    assert rows[1]["title"].startswith("app-builder:read_file error: tool_raised: ")
    assert [row["status"] for row in rows] == [None, "error", "success", None, "success"]
    assert rows[0]["branches"] == ["main"]
    assert [row["parents"] for row in rows] == [*([row["id"]] for row in rows[1:]), []]


def test_history_comes_in_pages(api: Api) -> None:
    for number in range(5):
        (api.workspace / "a.txt").write_text(str(number))
        api.post("save_edits", chat_id="c1")
    whole = manifests(api)
    first = api.get("list_manifests", chat_id="c1", limit=2)
    second = api.get("list_manifests", chat_id="c1", limit=2, before=whole[1]["id"])
    third = api.get("list_manifests", chat_id="c1", limit=2, before=whole[3]["id"], branch="main")

    assert [*first["manifests"], *second["manifests"], *third["manifests"]] == whole
    assert [page["more"] for page in (first, second, third)] == [True, True, False]
    refused(api.ask("list_manifests", chat_id="c1", before="0" * 40), 404, "unknown_manifest")
    for limit in (0, 501, "x"):
        refused(api.ask("list_manifests", chat_id="c1", limit=limit), 400, "invalid_request")


def test_branches_part_and_each_has_its_own_history(api: Api) -> None:
    api.write("a.txt", "1")
    made = api.post("create_branch", chat_id="c1", name="idea")
    switched = api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("b.txt", "2")
    api.post("switch_branch", chat_id="c1", branch="main")
    back = api.post("switch_branch", chat_id="c1", branch="idea")
    branches = {one["name"]: one for one in api.get("list_branches", chat_id="c1")["branches"]}

    assert made["manifest_id"] == switched["manifest_id"] == branches["main"]["manifest_id"]
    assert switched["changes"] == []
    assert [(one["path"], one["kind"]) for one in back["changes"]] == [("b.txt", "added")]
    assert branches["idea"]["active"] is True
    assert len(manifests(api, branch="main")) == 1
    assert len(manifests(api, branch="idea")) == len(manifests(api)) == 2
    assert api.files("main").keys() == {"a.txt"}
    assert (api.workspace / "b.txt").read_text() == "2"
    refused(api.ask("list_manifests", chat_id="c1", branch="ideas"), 404, "unknown_branch")


def test_a_branch_may_start_at_any_call(api: Api) -> None:
    call = api.write("a.txt", "1")
    api.write("a.txt", "2")
    made = api.post("create_branch", chat_id="c1", name="retry-1", from_manifest=call["id"])

    assert made == {
        "name": "retry-1",
        "manifest_id": call["post_manifest_id"],
        "notes": NO_NOTES,
    }
    assert api.read("a.txt", manifest="retry-1").get_data() == b"1"


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        pytest.param("main", 409, "branch_exists", id="taken"),
        pytest.param("main/x", 409, "branch_exists", id="below-one"),
        pytest.param("../x", 400, "bad_name", id="path"),
        pytest.param("", 400, "bad_name", id="empty"),
    ],
)
def test_a_branch_that_cannot_be_made_is_refused(
    api: Api, name: str, status: int, code: str
) -> None:
    api.write("a.txt", "1")
    refused(api.tell("create_branch", chat_id="c1", name=name), status, code)

    assert len(api.get("list_branches", chat_id="c1")["branches"]) == 1


def test_edits_stay_on_the_branch_they_were_made_on(api: Api) -> None:
    api.write("a.txt", "1")
    api.post("create_branch", chat_id="c1", name="idea")
    (api.workspace / "mine.txt").write_text("typed")
    api.post("switch_branch", chat_id="c1", branch="idea")

    assert api.files("main").keys() == {"a.txt", "mine.txt"}
    assert not (api.workspace / "mine.txt").exists()
    refused(api.tell("switch_branch", chat_id="c1", branch="ide"), 404, "unknown_branch")


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("save_edits", {}),
        ("create_branch", {"name": "other"}),
        ("switch_branch", {"branch": "idea"}),
        ("restore_workspace", {"manifest": "idea"}),
        ("add_message", {"text": "hello"}),
        ("merge_branch", {"branch": "idea"}),
    ],
)
def test_what_saves_edits_tells_what_could_not_be_stored(
    api: Api, operation: str, body: dict[str, str]
) -> None:
    api.write("a.txt", "1")
    api.post("create_branch", chat_id="c1", name="idea")
    (api.workspace / "a.txt").write_text("2")
    (api.workspace / "out").symlink_to("/etc")
    told = api.post(operation, chat_id="c1", **body)
    (api.workspace / "more.txt").write_text("1")

    assert told["notes"]["not_stored"] == [
        {"path": "out", "reason": "it is a link that may lead outside"}
    ]
    if operation != "switch_branch":  # whose branch has no note of it yet
        assert api.post("save_edits", chat_id="c1")["notes"]["not_stored"] == []


def test_an_upload_tells_what_could_not_be_stored(api: Api) -> None:
    (api.workspace / "out").symlink_to("/etc")
    told = [answered(api.upload((name, b"1")))["notes"]["not_stored"] for name in ("a", "b")]

    assert [[note["path"] for note in notes] for notes in told] == [["out"], []]


def test_what_stands_in_the_way_of_a_switch_is_named(api: Api) -> None:
    api.write("a.txt", "1")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("b/c.txt", "2")
    api.post("switch_branch", chat_id="c1", branch="main")
    (api.workspace / "b").write_bytes(b"x" * ((1 << 20) + 1))  # larger than is stored
    told = refused(api.tell("switch_branch", chat_id="c1", branch="idea"), 409, "in_the_way")

    assert told["error_description"] == "'b' is in the way of 'b/c.txt'"


def test_a_manifest_tells_its_changes_and_its_record(api: Api) -> None:
    call = api.write("a.txt", "1")
    told = api.get("get_workspace_manifest", chat_id="c1", manifest=call["id"])

    assert told["id"] == call["post_manifest_id"]
    assert told["record"]["call"]["args"] == {"path": "a.txt", "content": "1"}
    assert told["by"] == "local"
    assert [(one["path"], one["kind"]) for one in told["changes"]] == [("a.txt", "added")]
    assert told["changes"][0]["old"] is None
    assert told["tree_id"] == git(api.store, "rev-parse", "main^{tree}").strip()
    for name in ("HEAD", "main", told["id"], told["id"][:8]):
        assert api.get("get_workspace_manifest", chat_id="c1", manifest=name) == told


def test_a_message_names_the_last_manifest_made_for_it(api: Api) -> None:
    def say(message: str) -> Any:
        return api.post(
            "call_tool",
            chat_id="c1",
            tool_id="app-builder:write_file",
            args={"path": "a.txt", "content": message},
            message_id="m1",
        )

    say("1")
    last = say("2")
    api.write("a.txt", "3")
    told = api.get("get_workspace_manifest", chat_id="c1", message_id="m1")

    assert told["id"] == last["post_manifest_id"]
    assert told["message_id"] == "m1"
    refused(
        api.ask("get_workspace_manifest", chat_id="c1", message_id="m2"), 404, "unknown_message"
    )
    refused(
        api.ask("get_workspace_manifest", chat_id="c1", message_id="m1", manifest="main"),
        400,
        "invalid_request",
    )


def test_a_manifest_that_is_none_is_unknown(api: Api) -> None:
    api.write("a.txt", "1")

    for name in ("mian", "0" * 40, "ffffffff", "", "-", "HEAD~1", "x\0y"):
        refused(
            api.ask("get_workspace_manifest", chat_id="c1", manifest=name), 404, "unknown_manifest"
        )


def test_the_etag_of_a_manifest_tells_when_a_branch_comes_to_it(api: Api) -> None:
    api.write("a.txt", "1")
    first = api.ask("get_workspace_manifest", chat_id="c1").headers["ETag"]
    same = api.ask("get_workspace_manifest", chat_id="c1", headers={"If-None-Match": first})
    api.post("create_branch", chat_id="c1", name="idea")

    assert same.status_code == 304
    assert api.ask("get_workspace_manifest", chat_id="c1").headers["ETag"] != first


def test_a_call_of_a_hidden_tool_is_a_state_that_does_not_name_it(api: Api) -> None:
    secret = api.write("a.txt", "secret words")
    api.call("app-builder:run_command", command="echo")
    configure(api.root, 'default_role: r\nroles: {r: {allow: ["app-builder.read_file"]}}')
    listed = api.ask("list_manifests", chat_id="c1")
    detail = api.ask("get_workspace_manifest", chat_id="c1", manifest=secret["post_manifest_id"])
    chat = api.ask("get_chat", chat_id="c1")

    for answer in (listed, detail, chat):
        assert answer.status_code == 200
        for hidden in ("write_file", "run_command", "secret words"):
            assert hidden not in answer.get_data(as_text=True)
    assert listed.json is not None
    assert [row["title"] for row in listed.json["manifests"]] == ["a tool call"]
    assert detail.json is not None
    assert detail.json["record"] == {}


def test_a_damaged_chat_is_named_and_hides_no_other(api: Api) -> None:
    api.post("create_chat", chat_id="c2")
    api.write("a.txt", "1")
    head = git(api.store, "rev-parse", "main").strip()
    loose(api.store, head).unlink()
    (api.root / "data" / "index.db").unlink()
    listed = api.get("list_chats")

    assert [chat["id"] for chat in listed["chats"]] == ["c2"]
    assert [chat["chat_id"] for chat in listed["damaged"]] == ["c1"]
    assert head in listed["damaged"][0]["message"]


def test_what_was_done_elsewhere_is_there_at_once(api: Api) -> None:
    git(api.store, "symbolic-ref", "HEAD", "refs/heads/other")

    assert api.get("get_chat", chat_id="c1")["active_branch"] == "other"
    assert api.get("list_chats")["chats"][0]["active_branch"] == "other"
