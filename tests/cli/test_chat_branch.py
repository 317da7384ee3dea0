"""``chat branch`` in all its forms, ``chat restore``, and the picture of a chat's branches."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli, main
from covalt_git.toolsets.new_project import create_project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a chat that has one file."""
    create_project(tmp_path)
    (tmp_path / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
    say(tmp_path, "new", "--id", "c1")
    (tmp_path / "data/chats/c1/workspace/a.txt").write_text("one\n")
    say(tmp_path, "branch", "c1", "idea")
    return tmp_path


def say(root: Path, *args: str) -> str:
    """Return what a chat command prints, which goes well."""
    done = CliRunner().invoke(cli, ["-C", str(root), "chat", *args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def told(root: Path, *args: str) -> Any:
    return json.loads(say(root, *args, "--json"))


def refused(root: Path, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """Return the exit code of a chat command that does not go well, and what it says."""
    with pytest.raises(SystemExit) as ended:
        main(["-C", str(root), "chat", *args])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


def names(root: Path, chat: str = "c1") -> list[str]:
    return [one["name"] for one in told(root, "branch", "list", chat)["branches"]]


def test_branch_lists_and_makes_with_and_without_the_word(root: Path) -> None:
    assert say(root, "branch", "c1") == say(root, "branch", "list", "c1")
    made = told(root, "branch", "new", "c1", "blue")
    assert told(root, "branch", "--from", "blue", "c1", "red") == made | {"name": "red"}
    assert told(root, "branch", "c1", "green", "--from=idea") == made | {"name": "green"}
    assert names(root) == ["blue", "green", "idea", "main", "red"]
    assert "* main  " in say(root, "branch", "c1")


def test_a_chat_with_the_name_of_a_command_has_branches_too(root: Path) -> None:
    say(root, "new", "--id", "list")
    (root / "data/chats/list/workspace/a.txt").write_text("one\n")
    say(root, "branch", "new", "list", "idea")

    assert names(root, "list") == ["idea", "main"]


@pytest.mark.parametrize(
    "args", [["branch"], ["branch", "c1", "--from", "main"], ["branch", "c1", "a", "b"]]
)
def test_a_wrong_call_of_branch_exits_with_2(
    root: Path, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert refused(root, capsys, *args)[0] == 2


def test_a_branch_is_renamed(root: Path) -> None:
    assert say(root, "branch", "rename", "c1", "idea", "blue") == "idea is blue now\n"
    renamed = told(root, "branch", "rename", "c1", "main", "trunk")

    assert (renamed["branch"]["name"], renamed["branch"]["active"]) == ("trunk", True)
    assert names(root) == ["blue", "trunk"]


def test_a_deleted_branch_comes_back_as_the_answer_says(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(root, "checkout", "c1", "idea")
    (root / "data/chats/c1/workspace/a.txt").write_text("two\n")
    say(root, "checkout", "c1", "main")
    code, said = refused(root, capsys, "branch", "delete", "c1", "idea")
    gone = told(root, "branch", "delete", "c1", "idea", "--force")
    listed = told(root, "branch", "list", "c1", "--deleted")

    assert code == 1
    assert "the branch 'idea' has a manifest that no other branch has" in said
    assert gone["manifests"] == 1
    assert listed == {"branches": [gone]}
    assert f"get it back: {gone['back']}" in say(root, "branch", "list", "c1", "--deleted")
    say(root, *gone["back"].split()[2:])
    assert say(root, "diff", "c1", "main", "idea", "--stat") == "  ~ a.txt\n"
    assert "no deleted branch" in say(root, "branch", "list", "c1", "--deleted")


def test_a_deletion_names_what_is_gone(root: Path) -> None:
    at = told(root, "branch", "c1")["branches"][0]["manifest_id"][:12]

    assert say(root, "branch", "delete", "c1", "idea") == (
        f"deleted idea, which was at {at}\n"
        f"get it back: covalt-git chat branch new c1 idea --from {at}\n"
    )


def test_restore_brings_a_path_back(root: Path) -> None:
    workspace = root / "data/chats/c1/workspace"
    (workspace / "a.txt").write_text("two\n")
    (workspace / "b.txt").write_text("new\n")
    said = say(root, "restore", "c1", "idea", "a.txt")
    again = told(root, "restore", "c1", "idea", "a.txt")

    assert said.startswith("  ~ a.txt\n")
    assert again["changes"] == []
    assert "the files are as they were there" in say(root, "restore", "c1", "idea", "a.txt")
    assert (workspace / "a.txt").read_text() == "one\n"
    assert (workspace / "b.txt").read_text() == "new\n"
    log = told(root, "log", "c1")["manifests"]
    assert [one["title"] for one in log][:2] == [
        f"restore: a.txt of {again['manifest_id'] and log[2]['id'][:12]}",
        "edit: a.txt, b.txt",
    ]


def test_restore_may_keep_the_files(root: Path) -> None:
    (root / "data/chats/c1/workspace/a.txt").write_text("two\n")
    said = say(root, "restore", "c1", "idea", "--keep-files", "--branch", "again")

    assert said.startswith("on again, at ")
    assert (root / "data/chats/c1/workspace/a.txt").read_text() == "two\n"


@pytest.mark.parametrize("args", [["--keep-files", "a.txt"], ["--branch", "x"]])
def test_a_wrong_call_of_restore_exits_with_2(
    root: Path, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert refused(root, capsys, "restore", "c1", "idea", *args)[0] == 2


def test_an_unknown_path_is_told_with_the_nearest(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = refused(root, capsys, "restore", "c1", "idea", "a.text")

    assert code == 1
    assert "no file 'a.text'\n  hint: did you mean 'a.txt'? list them with" in said


def marks(lines: list[str]) -> list[str]:
    """Return what stands before the ids and times."""
    return [re.split(r"  (?=[0-9a-f]{12}|[0-9]{4}-)", line)[0] for line in lines]


def test_the_log_draws_the_branches(root: Path) -> None:
    workspace = root / "data/chats/c1/workspace"
    (workspace / "a.txt").write_text("main\n")
    say(root, "checkout", "c1", "idea")
    (workspace / "a.txt").write_text("idea\n")
    say(root, "checkout", "c1", "main")
    drawn = say(root, "log", "c1", "--graph").splitlines()
    alone = say(root, "log", "c1", "idea", "--graph").splitlines()

    assert marks(drawn) == ["  *", "  │", "* │", "│ │", "├─╯", "*", " "]
    assert "(idea)  edit: a.txt" in drawn[0]
    assert "(*main)  edit: a.txt" in drawn[2]
    assert marks(alone) == ["*", "│", "*", " "]
    assert len(told(root, "log", "c1", "--graph")["manifests"]) == 3
    assert len(say(root, "log", "c1", "--graph", "-n", "1").splitlines()) == 2


def test_the_log_of_a_chat_in_which_nothing_happened_says_so(root: Path) -> None:
    say(root, "new", "--id", "c2")

    for args in ([], ["--graph"], ["--all"]):
        assert "nothing has happened in c2 yet" in say(root, "log", "c2", *args)
    assert told(root, "log", "c2")["manifests"] == []
