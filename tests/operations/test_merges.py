"""Merges of branches, and their conflicts."""

from typing import Any

import pytest

from tests.operations_client import Operations


@pytest.fixture
def parted(operate: Operations) -> Operations:
    """Operations on a project whose chat ``m`` has, on main and idea, different lines and images."""
    operate("create_chat", chat_id="m")
    operate.commit("m", **{"a.txt": b"1\n2\n3\n", "p.png": b"\0"})
    operate("create_branch", chat_id="m", name="idea")
    operate("switch_branch", chat_id="m", branch="idea")
    operate.commit("m", **{"a.txt": b"1\ntheirs\n3\n", "p.png": b"\0theirs", "new.txt": b"new\n"})
    operate("switch_branch", chat_id="m", branch="main")
    operate.commit("m", **{"a.txt": b"1\nours\n3\n", "p.png": b"\0ours"})
    return operate


def files(operate: Operations) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in operate.workspace("m").iterdir()}


def merge(operate: Operations, **how: Any) -> Any:
    return operate("merge_branch", chat_id="m", branch="idea", **how)


def test_conflicts_stop_a_merge(parted: Operations) -> None:
    before = files(parted)
    told = merge(parted)

    assert (told["status"], told["into"], told["changes"]) == ("conflicts", "main", [])
    assert [(one["path"], one["kind"], one["decision"]) for one in told["conflicts"]] == [
        ("a.txt", "text", None),
        ("p.png", "binary", None),
    ]
    assert [one["lines"] for one in told["conflicts"]] == [
        "1\n<<<<<<< main\nours\n||||||| base\n2\n=======\ntheirs\n>>>>>>> idea\n3\n",
        None,
    ]
    assert files(parted) == before


def test_a_conflict_of_a_stopped_merge_is_resolved_and_the_others_are_kept(
    parted: Operations,
) -> None:
    decision = {"chat_id": "m", "path": "a.txt", "decision": "theirs"}
    merge(parted, dry_run=True)
    assert parted.error("resolve_conflict", **decision).code == "unknown_conflict"
    merge(parted)
    unknown = parted.error("resolve_conflict", **{**decision, "path": "new.txt"})
    done = parted("resolve_conflict", **decision)

    assert unknown.code == "unknown_conflict"
    assert [one["path"] for one in done["conflicts"]] == ["p.png"]
    assert (files(parted)["a.txt"], files(parted)["p.png"]) == (b"1\ntheirs\n3\n", b"\0ours")
    assert merge(parted)["status"] == "already_merged"
    # The merge is no longer stopped.
    assert parted.error("resolve_conflict", **decision).code == "unknown_conflict"


def test_a_merge_takes_decisions_by_path_and_one_for_the_rest(parted: Operations) -> None:
    resolutions = [{"path": "a.txt", "decision": "union"}]
    told = merge(parted, conflicts="ours", resolutions=resolutions, message="Bring it in")
    made = parted("get_workspace_manifest", chat_id="m", manifest="HEAD")

    assert told["status"] == "merged"
    assert files(parted)["a.txt"] == b"1\nours\ntheirs\n3\n"
    assert files(parted)["p.png"] == b"\0ours"
    assert made["id"] == told["manifest_id"]
    assert made["title"].endswith("Bring it in")
    assert [one["decision"] for one in made["record"]["merge"]["conflicts"]] == ["union", "ours"]


def test_a_restore_from_before_a_merge_says_how_to_merge_again(parted: Operations) -> None:
    merge(parted, conflicts="theirs")
    undone = parted("undo_change", chat_id="m")
    assert undone["hint"].endswith("covalt-git chat merge m idea --again")
    told = merge(parted)
    assert (told["status"], told["taken_back_by"]) == ("already_merged", undone["manifest_id"])

    assert merge(parted, conflicts="theirs", again=True)["status"] == "merged"
    assert parted("restore_workspace", chat_id="m", manifest="main")["hint"] == ""


def test_an_undo_of_a_fast_forward_says_how_to_merge_again(operate: Operations) -> None:
    operate("create_chat", chat_id="m")
    operate.commit("m", a="1")
    operate("create_branch", chat_id="m", name="idea")
    operate("switch_branch", chat_id="m", branch="idea")
    operate.commit("m", a="2")
    operate("switch_branch", chat_id="m", branch="main")
    assert merge(operate)["status"] == "fast_forward"

    undone = operate("undo_change", chat_id="m")

    assert undone["hint"].endswith("covalt-git chat merge m idea --again")
    assert merge(operate)["status"] == "already_merged"
    assert merge(operate, again=True)["status"] == "merged"
    assert files(operate)["a"] == b"2"
    undone = operate("undo_change", chat_id="m")
    assert undone["hint"].endswith("covalt-git chat merge m idea --again")
    assert operate("redo_change", chat_id="m")["hint"] == ""


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"resolutions": [{"path": "x", "decision": "ours"}]}, "unknown_conflict"),
    ({"resolutions": [{"path": "p.png", "decision": "union"}]}, "not_mergeable"),
    ({"resolutions": [{"path": "p.png", "decision": "content"}]}, "invalid_request"),
    ({"resolutions": [{"path": "p.png", "decision": "ours", "content": ""}]}, "invalid_request"),
    ({"conflicts": "mine"}, "invalid_request"),
]


def test_a_decision_must_fit_its_conflict(parted: Operations) -> None:
    for how, code in REFUSED:
        error = parted.error("merge_branch", chat_id="m", branch="idea", **how)
        assert error.code == code, how
    error = parted.error("resolve_conflict", chat_id="m", path="a.txt", decision="ours")
    assert error.code == "unknown_conflict"


def test_hunks_take_a_side_each_and_the_other_changes_of_both_are_kept(operate: Operations) -> None:
    base = [b"%d\n" % number for number in range(1, 30)]

    def changed(changes: dict[int, bytes]) -> bytes:
        return b"".join(changes.get(at, line) for at, line in enumerate(base, 1))

    operate("create_chat", chat_id="m")
    operate.commit("m", a=b"".join(base))
    operate("create_branch", chat_id="m", name="idea")
    operate("switch_branch", chat_id="m", branch="idea")
    operate.commit("m", a=changed({2: b"T2\n", 12: b"T12\n", 20: b"T20\n", 28: b"T28\n"}))
    operate("switch_branch", chat_id="m", branch="main")
    operate.commit("m", a=changed({2: b"O2\n", 7: b"O7\n", 12: b"O12\n", 20: b"O20\n"}))

    [conflict] = merge(operate)["conflicts"]
    hunks = conflict["hunks"]
    assert [(one["line"], one["base"], one["ours"], one["theirs"]) for one in hunks["hunks"]] == [
        (at, f"{at}\n", f"O{at}\n", f"T{at}\n") for at in (2, 12, 20)
    ]
    assert hunks["merged"] == 2
    resolution = {"chat_id": "m", "path": "a", "decision": "hunks", "versions": hunks["versions"]}
    mine = files(operate)["a"]
    assert operate.error("resolve_conflict", **resolution, hunks=["ours"]).code == "not_mergeable"
    assert files(operate)["a"] == mine

    both = resolution | {"hunks": ["ours", "theirs", "both"]}
    operate.commit("m", a=mine + b"a person's line\n")
    stale = operate.error("resolve_conflict", **both)
    assert (stale.code, files(operate)["a"]) == ("moved", mine + b"a person's line\n")
    operate("resolve_conflict", **{**both, "versions": None})

    assert (
        files(operate)["a"]
        == changed({2: b"O2\n", 7: b"O7\n", 12: b"T12\n", 20: b"O20\nT20\n", 28: b"T28\n"})
        + b"a person's line\n"
    )


def test_the_text_of_a_conflict_has_its_markers(parted: Operations) -> None:
    merge(parted, conflicts="both")
    listed = parted("list_conflicts", chat_id="m", text_of="a.txt.theirs-idea")["conflicts"]

    marked = "1\n<<<<<<< a.txt\nours\n=======\ntheirs\n>>>>>>> a.txt.theirs-idea\n3\n"
    assert [one["text"] for one in listed] == [marked, None]
    parted("resolve_conflict", chat_id="m", path="a.txt", decision="hunks", hunks=["both"])
    assert files(parted)["a.txt"] == b"1\nours\ntheirs\n3\n"
