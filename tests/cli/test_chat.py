"""Reading commands of ``chat``: they store nothing, and do not wait for a writer."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.workspaces.switching import Journal
from tests.command import run_raw
from tests.workspaces.stores import git, open_chats

Cli = Callable[..., tuple[int, str]]
READING = ["status", "diff", "log", "log --graph", "show", "files", "branch", "message list"]


@pytest.fixture
def workspace(root: Path, cli: Cli) -> Path:
    """The folder of the chat c1, which has two branches and an edit."""
    cli("chat", "new", "--id", "c1")
    workspace = root / "data/chats/c1/workspace"
    for name in ("a.txt", "b.txt", "c.txt"):
        (workspace / name).write_text("old", encoding="utf-8")
    cli("chat", "branch", "c1", "idea")
    cli("chat", "checkout", "c1", "idea")
    for name in ("a.txt", "b.txt", "c.txt"):
        (workspace / name).write_text("new", encoding="utf-8")
    cli("chat", "checkout", "c1", "main")
    (workspace / "c.txt").write_text("mine", encoding="utf-8")
    return workspace


@pytest.mark.parametrize("command", READING)
def test_reading_stores_nothing_and_waits_for_no_writer(
    workspace: Path, cli: Cli, command: str
) -> None:
    store = workspace.with_name("store.git")
    before = set(store.rglob("*"))
    with workspace.with_name("lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, shown = cli("chat", *command.split(), "c1")

    assert (code, shown != "") == (0, True)
    assert set(store.rglob("*")) == before


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    ("option", "begins"), [("--branch=main", b"# v2"), ("--conversation", b"{")]
)
def test_export_writes_to_standard_output(root: Path, option: str, begins: bytes) -> None:
    done = run_raw("chat", "export", "c1", "-o", "-", option, cwd=root)

    assert (done.returncode, done.stdout[: len(begins)]) == (0, begins)
    assert not (root / "-").exists()


def test_status_distinguishes_an_interrupted_checkout_from_edits(
    root: Path, workspace: Path, cli: Cli
) -> None:
    """Of three files that the switch changes, one was written, one is to come and one was edited."""
    with open_chats(root / "data").open("c1") as chat:
        old, new = (chat.branch(name).manifest_id for name in ("main", "idea"))
    journal = Journal(old=old, new=new, head="refs/heads/idea")
    workspace.with_name("switch.json").write_text(journal.model_dump_json(), encoding="utf-8")
    (workspace / "a.txt").write_text("new", encoding="utf-8")
    shown = cli("chat", "status", "c1")[1]

    assert f"a checkout of idea, at {str(new)[:12]}, was interrupted" in shown
    assert [line for line in shown.splitlines() if "~" in line] == ["  ~ c.txt"]
    cli("chat", "checkout", "c1", "idea")
    assert (workspace / "b.txt").read_text(encoding="utf-8") == "new"
    assert (workspace / "c.txt").read_text(encoding="utf-8") == "mine"


def test_a_diff_in_a_pipe_is_a_patch_for_git(
    root: Path, workspace: Path, tmp_path: Path, cli: Cli
) -> None:
    before = {
        "two words": b"a\x1b[1m\x0c\nb\n",
        "picture": b"\0" + bytes(range(256)),
        "latin": b"\xe4\n",
    }
    for name, content in before.items():
        (workspace / name).write_bytes(content)
    cli("chat", "branch", "c1", "saved")
    copy = tmp_path / "copy"
    shutil.copytree(workspace, copy)
    for name, content in before.items():
        (workspace / name).write_bytes(content + b"\xc2\x85new\n")
    (workspace / "c.txt").unlink()

    lossy = run_raw("chat", "diff", "c1", cwd=root)
    assert b"left out, because not UTF-8 text: latin, picture" in lossy.stderr
    part = tmp_path / "part"
    shutil.copytree(copy, part)
    git(part, "init", "--quiet")
    git(part, "apply", "--whitespace=nowarn", given=lossy.stdout)
    assert contents(part) == contents(workspace) | {
        name: content for name, content in before.items() if name != "two words"
    }
    exact = run_raw("chat", "diff", "c1", "--binary", cwd=root)
    assert exact.stderr == b""
    git(copy, "init", "--quiet")
    git(copy, "apply", "--whitespace=nowarn", given=exact.stdout)
    assert contents(copy) == contents(workspace)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.usefixtures("workspace")
def test_status_shows_a_merge_that_conflicts_stopped(cli: Cli) -> None:
    cli("chat", "merge", "c1", "idea")
    assert "conflicts stopped the merge of idea" in cli("chat", "status", "c1")[1]
    cli("chat", "merge", "c1", "idea", "--prefer", "ours")
    assert "stopped" not in cli("chat", "status", "c1")[1]
