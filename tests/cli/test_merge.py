"""``chat merge`` and ``chat resolve`` as somebody at a terminal, or a program, meets them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from covalt_git.toolsets.new_project import create_project
from tests import command
from tests.workspaces.merges import parted
from tests.workspaces.stores import Layout, open_chats


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose chat is on main; idea changed the same line, a picture, and made a file."""
    create_project(tmp_path)
    start: Layout = {"a.txt": ("file", b"1\n2\n3\n"), "p.png": ("file", b"\0")}
    ours: Layout = {"a.txt": ("file", b"1\nours\n3\n"), "p.png": ("file", b"\0ours")}
    theirs: Layout = {"a.txt": ("file", b"1\ntheirs\n3\n"), "new.txt": ("file", b"new\n")}
    with open_chats(tmp_path / "data").new("c1") as chat:
        parted(chat, start, ours, theirs)
    return tmp_path


def run(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return command.run("-C", str(root), *args)


def covalt(root: Path, *args: str, code: int = 0) -> str:
    done = run(root, *args)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def told(root: Path, *args: str, code: int = 0) -> Any:
    done = run(root, *args, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def files(root: Path) -> dict[str, bytes]:
    workspace = root / "data/chats/c1/workspace"
    return {path.name: path.read_bytes() for path in workspace.iterdir()}


def test_conflicts_stop_the_merge_and_say_what_to_type(root: Path) -> None:
    before = files(root)

    said = covalt(root, "chat", "merge", "c1", "idea", code=1)

    assert said == (
        "nothing was merged: idea and main are in conflict\n"
        "  ! a.txt: both changed the same lines\n"
        "  ! p.png: idea deleted it, main changed it\n"
        "keep both versions, to decide later:  covalt-git chat merge c1 idea --keep-both\n"
        "or decide them now:  covalt-git chat merge c1 idea --prefer ours|theirs|union, "
        "--resolve PATH=CHOICE\n"
    )
    assert files(root) == before


def test_both_versions_stand_side_by_side_until_each_is_decided(root: Path) -> None:
    said = covalt(root, "chat", "merge", "c1", "idea", "--keep-both")

    assert "! a.txt: both changed the same lines; the other version is a.txt.theirs-idea\n" in said
    assert "decide them: covalt-git chat resolve c1 PATH --ours|--theirs|--with FILE\n" in said
    assert files(root) == {
        "a.txt": b"1\nours\n3\n",
        "a.txt.theirs-idea": b"1\ntheirs\n3\n",
        "new.txt": b"new\n",
        "p.png": b"\0ours",
        "p.png.deleted-in-idea": b"\0",
    }
    status = covalt(root, "chat", "status", "c1")
    assert "conflicts to decide with covalt-git chat resolve c1 PATH:\n  ! a.txt: both" in status
    listed = covalt(root, "chat", "resolve", "c1")
    assert "! p.png: idea deleted it, main changed it; the other version is p.png.del" in listed
    assert "- p.png\n" in covalt(root, "chat", "resolve", "c1", "./p.png", "--theirs")
    mine = root / "mine.txt"
    mine.write_text("mine\n", encoding="utf-8")
    assert covalt(root, "chat", "resolve", "c1", "a.txt", "--with", str(mine)).endswith(
        "no conflict waits\n"
    )
    assert files(root) == {"a.txt": b"mine\n", "new.txt": b"new\n"}
    assert covalt(root, "chat", "merge", "c1", "idea") == "main has all of idea already\n"


def test_conflicts_are_decided_with_the_merge(root: Path) -> None:
    mine = root / "mine.txt"
    mine.write_text("mine\n", encoding="utf-8")
    args = ("--prefer", "theirs", "--resolve", f"a.txt={mine}", "--message", "Take it")

    done = told(root, "chat", "merge", "c1", "idea", *args)

    assert (done["status"], done["branch"], done["into"]) == ("merged", "idea", "main")
    assert [(one["path"], one["decision"]) for one in done["conflicts"]] == [
        ("a.txt", "content"),
        ("p.png", "theirs"),
    ]
    assert files(root) == {"a.txt": b"mine\n", "new.txt": b"new\n"}
    log = told(root, "chat", "log", "c1")["manifests"]
    assert (log[0]["id"], log[0]["source"]) == (done["manifest_id"], "merge")
    store = root / "data/chats/c1/store.git"
    shown = subprocess.run(
        ["git", "-C", str(store), "log", "-1", "--format=%s"], capture_output=True, check=True
    )
    assert shown.stdout == b"merge: Take it\n"


def test_a_dry_run_says_what_would_happen_and_does_nothing(root: Path) -> None:
    store = root / "data/chats/c1/store.git"
    before = files(root), {str(path) for path in store.rglob("*")}

    assert "nothing would be merged" in covalt(
        root, "chat", "merge", "c1", "idea", "--dry-run", code=1
    )
    done = told(root, "chat", "merge", "c1", "idea", "--dry-run", "--keep-both")
    assert (done["status"], done["manifest_id"]) == ("merged", None)
    assert [one["path"] for one in done["changes"]] == [
        "a.txt.theirs-idea",
        "new.txt",
        "p.png.deleted-in-idea",
    ]
    assert (files(root), {str(path) for path in store.rglob("*")}) == before


def test_a_branch_moves_on_unless_told_otherwise(root: Path) -> None:
    covalt(root, "chat", "checkout", "c1", "idea")
    covalt(root, "chat", "branch", "c1", "later")
    covalt(root, "chat", "checkout", "c1", "later")
    (root / "data/chats/c1/workspace/more.txt").write_text("more", encoding="utf-8")
    covalt(root, "chat", "checkout", "c1", "idea")

    dry = covalt(root, "chat", "merge", "c1", "later", "--dry-run")
    assert dry == "idea would move on to later, having nothing of its own\n  + more.txt\n"
    assert told(root, "chat", "merge", "c1", "later", "--no-ff")["status"] == "merged"
    covalt(root, "chat", "checkout", "c1", "later")
    assert told(root, "chat", "merge", "c1", "idea")["status"] == "fast_forward"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["merge", "c1", "idea", "--keep-both", "--prefer", "ours"], "give one of"),
        (["merge", "c1", "idea", "--resolve", "a.txt"], "--resolve takes PATH=CHOICE, not 'a.txt'"),
        (["merge", "c1", "idea", "--resolve", "a.txt=none"], "there is no file 'none'"),
        (["resolve", "c1", "a.txt"], "say what 'a.txt' is to be"),
        (["resolve", "c1", "--ours"], "name one PATH"),
        (["resolve", "c1", "a.txt", "--ours", "--theirs"], "name one PATH"),
    ],
)
def test_a_wrong_call_exits_with_2(root: Path, args: list[str], said: str) -> None:
    assert said in covalt(root, "chat", *args, code=2)


def test_what_waits_is_json_too(root: Path) -> None:
    covalt(root, "chat", "merge", "c1", "idea", "--keep-both")

    status = told(root, "chat", "status", "c1")["status"]["conflicts"]
    waiting = told(root, "chat", "resolve", "c1")["conflicts"]
    after = told(root, "chat", "resolve", "c1", "a.txt", "--union")

    assert status == waiting
    assert [one["path"] for one in waiting] == ["a.txt", "p.png"]
    assert [one["path"] for one in after["changes"]] == ["a.txt", "a.txt.theirs-idea"]
    assert [one["path"] for one in after["conflicts"]] == ["p.png"]
    assert files(root)["a.txt"] == b"1\nours\ntheirs\n3\n"
