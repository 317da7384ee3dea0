"""Merges, conflicts and replays over the API."""

from __future__ import annotations

import pytest

from tests.api_client import Api, configure, refused


@pytest.fixture
def parted(api: Api) -> Api:
    """A chat on main, where a line, a folder and a picture are not what they are on idea."""
    api.write("a.txt", "1\n2\n3\n")
    api.upload(("p.png", b"\0"))
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("a.txt", "1\ntheirs\n3\n")
    api.write("new.txt", "new\n")
    (api.workspace / "p.png").write_bytes(b"\0theirs")
    api.post("switch_branch", chat_id="c1", branch="main")
    api.write("a.txt", "1\nours\n3\n")
    (api.workspace / "p.png").write_bytes(b"\0ours")
    return api


def files(api: Api) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in api.workspace.iterdir()}


def test_conflicts_stop_a_merge(parted: Api) -> None:
    before = files(parted)

    told = parted.post("merge_branch", chat_id="c1", branch="idea")

    assert (told["status"], told["into"], told["changes"]) == ("conflicts", "main", [])
    assert told["conflicts"] == [
        {
            "path": "a.txt",
            "kind": "text",
            "deleted": None,
            "about": "both changed the same lines",
            "decision": None,
            "saved_as": None,
        },
        {
            "path": "p.png",
            "kind": "binary",
            "deleted": None,
            "about": "both changed it, and it has no lines",
            "decision": None,
            "saved_as": None,
        },
    ]
    assert files(parted) == before


def test_both_versions_are_kept_and_decided_one_by_one(parted: Api) -> None:
    told = parted.post("merge_branch", chat_id="c1", branch="idea", conflicts="both")

    assert (told["status"], [one["saved_as"] for one in told["conflicts"]]) == (
        "merged",
        ["a.txt.theirs-idea", "p.png.theirs-idea"],
    )
    waiting = parted.get("list_conflicts", chat_id="c1")["conflicts"]
    assert [(one["path"], one["branch"]) for one in waiting] == [
        ("a.txt", "idea"),
        ("p.png", "idea"),
    ]
    assert waiting[0]["manifest_id"] == told["manifest_id"]
    done = parted.post("resolve_conflict", chat_id="c1", path="p.png", decision="theirs")
    assert [one["path"] for one in done["conflicts"]] == ["a.txt"]
    done = parted.post(
        "resolve_conflict", chat_id="c1", path="a.txt", decision="content", content="both\n"
    )
    assert (done["conflicts"], [one["path"] for one in done["changes"]]) == (
        [],
        ["a.txt", "a.txt.theirs-idea"],
    )
    assert files(parted) == {"a.txt": b"both\n", "new.txt": b"new\n", "p.png": b"\0theirs"}
    history = parted.get("list_manifests", chat_id="c1", branch="main")["manifests"]
    assert [one["source"] for one in history][:3] == ["edit", "edit", "merge"]
    assert history[0]["id"] == done["manifest_id"]
    assert len(history[2]["parents"]) == 2


def test_a_merge_is_decided_at_once(parted: Api) -> None:
    resolutions = [{"path": "a.txt", "decision": "union"}]

    told = parted.post(
        "merge_branch",
        chat_id="c1",
        branch="idea",
        conflicts="ours",
        resolutions=resolutions,
        message="Bring it in",
    )

    assert told["status"] == "merged"
    assert files(parted)["a.txt"] == b"1\nours\ntheirs\n3\n"
    assert files(parted)["p.png"] == b"\0ours"
    made = parted.get("get_workspace_manifest", chat_id="c1", manifest="HEAD")
    assert (made["id"], made["title"]) == (told["manifest_id"], "merge: Bring it in")
    assert made["record"]["merge"]["conflicts"][0] == {
        "path": "a.txt",
        "kind": "text",
        "decision": "union",
    }


def test_a_dry_run_changes_nothing(parted: Api) -> None:
    head = parted.get("get_chat", chat_id="c1")["active_manifest_id"]
    before = files(parted)

    told = parted.post("merge_branch", chat_id="c1", branch="idea", conflicts="both", dry_run=True)

    assert (told["status"], told["manifest_id"]) == ("merged", None)
    assert parted.get("get_chat", chat_id="c1")["active_manifest_id"] == head
    assert files(parted) == before


def test_a_branch_moves_on_and_the_index_knows(parted: Api) -> None:
    parted.post("switch_branch", chat_id="c1", branch="idea")
    parted.post("create_branch", chat_id="c1", name="later")
    parted.post("switch_branch", chat_id="c1", branch="later")
    parted.write("more.txt", "more")
    parted.post("switch_branch", chat_id="c1", branch="idea")

    told = parted.post("merge_branch", chat_id="c1", branch="later")

    assert told["status"] == "fast_forward"
    (row,) = parted.get("list_chats")["chats"]
    assert (row["active_branch"], row["active_manifest_id"]) == ("idea", told["manifest_id"])


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"branch": "no"}, 404, "unknown_manifest"),
        ({"branch": "idea", "resolutions": [{"path": "x", "decision": "ours"}]}, 404, "unknown_conflict"),
        ({"branch": "idea", "resolutions": [{"path": "p.png", "decision": "union"}]}, 400, "not_mergeable"),
        ({"branch": "idea", "resolutions": [{"path": "p.png", "decision": "content"}]}, 400, "invalid_request"),
        ({"branch": "idea", "resolutions": [{"path": "p.png", "decision": "ours", "content": ""}]}, 400, "invalid_request"),
        ({"branch": "idea", "conflicts": "mine"}, 400, "invalid_request"),
    ],
)  # fmt: skip
def test_a_merge_that_cannot_be_is_refused(
    parted: Api, body: dict[str, object], status: int, code: str
) -> None:
    refused(parted.tell("merge_branch", chat_id="c1", **body), status, code)


def test_a_conflict_that_does_not_wait_is_refused(parted: Api) -> None:
    told = parted.tell("resolve_conflict", chat_id="c1", path="a.txt", decision="ours")

    refused(told, 404, "unknown_conflict")


def test_a_call_is_made_once_more(api: Api) -> None:
    made = api.write("a.txt", "one")

    told = api.post("replay_call", chat_id="c1", call_id=made["id"], keep="always")

    assert (told["same"], told["tool_id"], told["branch"]) == (
        True,
        "app-builder:write_file",
        "replay-1",
    )
    assert (told["then"], told["toolset_changed"]) == (told["now"], False)
    branches = api.get("list_branches", chat_id="c1")["branches"]
    assert [one["name"] for one in branches] == ["main", "replay-1"]
    shown = api.get("get_workspace_manifest", chat_id="c1", manifest="replay-1")
    assert shown["id"] == told["manifest_id"]


def test_a_call_that_asks_is_made_once_more_only_when_it_is_approved(api: Api) -> None:
    asked = api.call("app-builder:run_command", command="date +%N > now")
    made = api.post("approve_call", execution_id=asked["execution_id"])

    told = refused(api.tell("replay_call", chat_id="c1", call_id=made["id"]), 409, "asks_first")
    assert (
        told["error_description"] == "app-builder:run_command waits for a person: the toolset asks"
    )
    done = api.post("replay_call", chat_id="c1", call_id=made["id"], approve=True)
    assert [one["path"] for one in done["changes"]] == ["now"]
    assert done["branch"] == "replay-1"


def test_a_call_of_a_hidden_tool_is_no_call(api: Api) -> None:
    made = api.write("a.txt", "one")
    configure(api.root, "roles: {dev: {allow: ['app-builder.read_file']}}\n")
    dev = Api.of(api.root, "dev")

    told = refused(dev.tell("replay_call", chat_id="c1", call_id=made["id"]), 404, "unknown_call")

    assert "write_file" not in str(told)
