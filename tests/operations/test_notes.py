"""What cannot be stored is reported once, by the first operation that finds it."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import make_project
from tests.examples import one_in, rest
from tests.operations_client import Operations, uploads

C1 = {"chat_id": "c1"}
WRITES: dict[str, dict[str, Any]] = {
    "add_message": {"role": "user", "text": "hello"},
    "retry_message": {},
    "edit_message": {"message": "said", "text": "bye"},
    "switch_branch": {"branch": "idea"},
    "create_branch": {"name": "other"},
    "restore_workspace": {"manifest": "idea"},
    "upload_files": {"files": uploads(x=b"x")},
    "merge_branch": {"branch": "idea"},
    "fork_chat": {},
    "export_chat_to": {},
    "call_tool": {"tool_id": "app-builder:write_file", "args": {"path": "b", "content": "b"}},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose chat has a branch and a message, and then gets an edit and a named pipe."""
    root = make_project(tmp_path / "project")
    operate = Operations(root)
    operate("create_chat", **C1)
    operate.commit("c1", **{"a.txt": "one\n"})
    operate("create_branch", **C1, name="idea")
    operate("add_message", **C1, role="user", text="hello", ref="said")
    (operate.workspace("c1") / "a.txt").write_text("two\n", encoding="utf-8")
    os.mkfifo(operate.workspace("c1") / "pipe")
    return root


def write(operate: Operations, name: str, **more: Any) -> Any:
    path = {"path": operate.root / f"{len(more)}.bundle"} if name == "export_chat_to" else {}
    return operate(name, **C1, **WRITES[name], **path, **more)


def not_stored(result: Any) -> list[str]:
    return [note["path"] for note in result["notes"]["not_stored"]]


@pytest.mark.parametrize("name", one_in(2, WRITES))
def test_the_first_write_reports_it_and_the_next_does_not(operate: Operations, name: str) -> None:
    first = write(operate, name)
    operate("switch_to_message", **C1, message="said")
    later = operate("add_message", **C1, role="user", text="more")

    assert not_stored(first) == ["pipe"]
    assert not_stored(later) == []


def test_a_new_one_is_reported_by_the_next_write(operate: Operations) -> None:
    operate("add_message", **C1, role="user", text="one")
    os.mkfifo(operate.workspace("c1") / "second")

    assert not_stored(operate("add_message", **C1, role="user", text="two")) == ["second"]


@pytest.mark.parametrize("name", ["fork_chat", "export_chat_to"])
def test_a_copy_lists_the_files_that_it_lacks(operate: Operations, name: str) -> None:
    (operate.workspace("c1") / "__pycache__").mkdir()
    of_branch = {"fork_chat": "from_manifest", "export_chat_to": "branch"}[name]

    assert write(operate, name)["lacks"] == ["__pycache__", "pipe"]
    assert write(operate, name, **{of_branch: "idea"})["lacks"] == []


# What was never stored and is lost


def lost(result: Any) -> dict[str, str]:
    """Return what became of what was lost; the named pipe of the fixture stays where it is."""
    notes = {note["path"]: note["reason"] for note in result["notes"]["lost"]}
    return {path: reason.partition(",")[0] for path, reason in notes.items() if path != "pipe"}


def run(operate: Operations, command: str) -> Any:
    args = {"command": command}
    waits = operate("call_tool", **C1, tool_id="app-builder:run_command", args=args)
    if waits["status"] == "pending":
        return operate("approve_call", execution_id=waits["execution_id"])
    return waits


@pytest.fixture
def left_out(operate: Operations) -> Operations:
    """A chat with a nested repository and a file that is too large, which no commit has."""
    run(
        operate, "mkdir lib && cd lib && git init -q . && echo f > f.txt; truncate -s 3M ../big.bin"
    )
    run(operate, "echo more > more.txt")
    return operate


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        rest("rm -r lib", {"lib/.git": "is gone"}),
        ("rm -r lib/.git big.bin", {"lib/.git": "is gone", "big.bin": "is gone"}),
        ("echo small > big.bin", {"big.bin": "was replaced"}),
        ("truncate -s 3M big.bin; echo x >> big.bin", {"big.bin": "was changed"}),
        rest("rm big.bin; truncate -s 3M big.bin", {"big.bin": "was changed"}),
        ("rm lib/.git/HEAD", {"lib/.git": "was changed"}),
        rest("echo x > lib/.git/description", {"lib/.git": "was changed"}),
        rest("rm -rf lib/.git; git init -q lib", {"lib/.git": "was changed"}),
        ("cat big.bin lib/.git/* > /dev/null; echo other > other.txt", {}),
    ],
)
def test_a_call_says_what_it_removed_that_no_commit_has(
    left_out: Operations, command: str, expected: dict[str, str]
) -> None:
    assert lost(run(left_out, command)) == expected
    assert lost(run(left_out, "echo x > x.txt")) == {}


def test_an_undo_is_silent_about_files_that_it_would_not_have_changed(
    left_out: Operations,
) -> None:
    run(left_out, "echo other > other.txt")

    assert lost(left_out("undo_change", **C1)) == {}
    assert lost(left_out("redo_change", **C1)) == {}


@pytest.mark.rest
def test_a_restore_says_that_its_commit_lacks_a_file_which_later_commits_have(
    left_out: Operations,
) -> None:
    before = left_out("list_manifests", **C1)["manifests"][0]["id"]
    run(left_out, "echo small > big.bin")

    restored = left_out("restore_workspace", **C1, manifest=before, paths=["big.bin"])

    assert lost(restored) == {"big.bin": "is removed"}
    again = left_out("restore_workspace", **C1, manifest=before)
    assert lost(again) == {"big.bin": "is not restored"}
    assert not any("no commit" in note["reason"] for note in again["notes"]["lost"])


@pytest.mark.rest
def test_the_restore_tool_says_what_it_cannot_restore(left_out: Operations) -> None:
    before = left_out("list_manifests", **C1)["manifests"][0]["id"]
    run(left_out, "rm -r lib")

    args = {"manifest": before}
    done = left_out("call_tool", **C1, tool_id="workspace:restore", args=args)

    assert lost(done) == {"lib/.git": "is not restored"}


def test_a_file_that_is_not_stored_is_not_overwritten(left_out: Operations) -> None:
    run(left_out, "echo small > big.bin")
    small = left_out("list_manifests", **C1)["manifests"][0]["id"]
    run(left_out, "truncate -s 3M big.bin")
    args = {"path": "big.bin", "content": "new"}

    restored = left_out.error("restore_workspace", **C1, manifest=small)
    assert restored.code == "in_the_way"
    assert "the file in the workspace is not stored" in restored.message
    written = left_out.error("call_tool", **C1, tool_id="workspace:write_file", args=args)
    assert "it is larger than" in written.message
    assert written.hint.startswith("raise workspace.max_file_mb")


def test_an_undo_says_what_it_cannot_bring_back(left_out: Operations) -> None:
    run(left_out, "rm -r lib big.bin")

    undone = left_out("undo_change", **C1)

    assert lost(undone) == {"lib/.git": "is not restored", "big.bin": "is not restored"}
    assert (left_out.workspace("c1") / "lib/f.txt").exists()


def test_a_restore_says_what_keeps_its_later_content(left_out: Operations) -> None:
    before = left_out("list_manifests", **C1)["manifests"][0]["id"]
    run(left_out, "truncate -s 4M big.bin; echo two > more.txt; rm -r lib/.git")

    restored = left_out("restore_workspace", **C1, manifest=before)

    assert lost(restored) == {"lib/.git": "is not restored", "big.bin": "stays as it is now"}
    of_one_path = left_out("restore_workspace", **C1, manifest=before, paths=["lib"])
    assert lost(of_one_path) == {"lib/.git": "is not restored"}


@pytest.mark.parametrize("name", ["switch_branch", rest("merge_branch")])
def test_a_switch_and_a_merge_say_what_the_other_branch_had(
    left_out: Operations, name: str
) -> None:
    left_out("create_branch", **C1, name="other")
    left_out("switch_branch", **C1, branch="other")
    run(left_out, "echo changed > more.txt")
    left_out("switch_branch", **C1, branch="main")
    run(left_out, "rm -r lib/.git; echo new > new.txt")

    assert lost(left_out(name, **C1, branch="other")) == {"lib/.git": "is not restored"}
    if name == "switch_branch":
        assert lost(left_out("switch_branch", **C1, branch="main")) == {}


# Modes that git does not store


def modes(result: Any) -> dict[str, str]:
    """Return the notes about modes."""
    notes = [*result["notes"]["unportable"], *result["notes"]["lost"]]
    return {note["path"]: note["reason"] for note in notes if "mode" in note["reason"]}


RESTORED = {
    "key": "is restored with mode 0644; it had 0600",
    "p": "is restored with mode 0755; it had 0700",
    "run.sh": "is restored with mode 0755; it had 0711",
}


@pytest.fixture
def narrow(operate: Operations) -> Operations:
    """A chat in which a call created files and a folder that only their owner may read."""
    made = run(
        operate,
        "echo k > key; echo r > run.sh; mkdir p e; echo f > p/f; echo w > wide;"
        "chmod 600 key; chmod 711 run.sh; chmod 700 p e; chmod 664 wide",
    )
    assert modes(made) == {
        "e": "its mode 0700 is not stored: a restore makes it 0755",
        "key": "its mode 0600 is not stored: a restore makes it 0644",
        "p": "its mode 0700 is not stored: a restore makes it 0755",
        "run.sh": "its mode 0711 is not stored: a restore makes it 0755",
    }
    return operate


def test_a_narrow_mode_is_said_once_and_when_an_undo_restores_it(narrow: Operations) -> None:
    assert modes(run(narrow, "rm -r key run.sh p")) == {}
    assert modes(narrow("undo_change", **C1)) == RESTORED
    assert modes(run(narrow, "echo other > other.txt")) == {}


def test_a_redo_says_it(narrow: Operations) -> None:
    assert modes(narrow("undo_change", **C1)) == {}
    assert not (narrow.workspace("c1") / "key").exists()

    e = {"e": "is restored with mode 0755; it had 0700"}
    assert modes(narrow("redo_change", **C1)) == RESTORED | e


def test_a_checkout_a_merge_and_a_fork_say_it(narrow: Operations) -> None:
    fork = narrow("fork_chat", **C1)
    e = {"e": "is restored with mode 0755; it had 0700"}
    assert modes(fork) == RESTORED | e
    assert (narrow.workspace(fork["id"]) / "key").stat().st_mode & 0o777 == 0o644
    narrow("create_branch", **C1, name="other")
    narrow("save_edits", **C1)
    narrow("switch_branch", **C1, branch="idea")
    (narrow.workspace("c1") / "own.txt").write_text("own", encoding="utf-8")
    narrow("save_edits", **C1)

    assert modes(narrow("merge_branch", **C1, branch="other")) == RESTORED | e
    narrow("undo_change", **C1)
    assert modes(narrow("switch_branch", **C1, branch="other")) == RESTORED | e


def test_a_narrow_mode_stays_as_long_as_the_file_does(narrow: Operations) -> None:
    key = narrow.workspace("c1") / "key"
    run(narrow, "echo two > key")

    assert modes(narrow("undo_change", **C1)) == {}
    assert (key.read_text(encoding="utf-8"), key.stat().st_mode & 0o777) == ("k\n", 0o600)
    shown = narrow("get_chat", **C1)["status"]["workspace"]["unportable"]
    assert [note["path"] for note in shown] == ["e", "key", "p", "run.sh"]


@pytest.mark.parametrize(("before", "after"), [(0o600, 0o700), rest(0o700, 0o600)])
def test_a_file_that_becomes_a_program_or_back_gives_nobody_access(
    operate: Operations, before: int, after: int
) -> None:
    file = operate.workspace("c1") / "key"
    run(operate, f"echo k > key; chmod {before:o} key")
    run(operate, f"chmod {after:o} key")

    operate("undo_change", **C1)
    assert file.stat().st_mode & 0o777 == before
    operate("redo_change", **C1)
    assert file.stat().st_mode & 0o777 == after


@pytest.mark.rest
def test_a_mode_that_a_restore_gives_is_no_note(operate: Operations) -> None:
    before = os.umask(0o077)
    try:
        made = run(
            operate,
            "umask 077; echo k > key; echo p > run.sh; chmod 700 run.sh; mkdir p; echo f > p/f",
        )
        again = run(operate, "rm -r key run.sh p")
        undone = operate("undo_change", **C1)
    finally:
        os.umask(before)
    assert modes(made) == modes(again) == modes(undone) == {}
    files = [operate.workspace("c1") / name for name in ("key", "run.sh", "p")]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o700, 0o700]


def test_the_status_names_what_was_not_stored_and_is_gone(left_out: Operations) -> None:
    before = left_out("get_chat", **C1)["status"]["workspace"]
    paths = [note["path"] for note in before["not_stored"]]
    for path in paths:
        place = left_out.workspace("c1") / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    after = left_out("get_chat", **C1)["status"]["workspace"]

    assert before["lost"] == []
    assert [note["path"] for note in after["lost"]] == paths != []
    assert all("is gone, and is in no commit" in note["reason"] for note in after["lost"])
