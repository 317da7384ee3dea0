"""``chat message``: a conversation that is told, shown and gone back in on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from covalt_git.cli import cli, main
from covalt_git.toolsets.new_project import create_project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a chat in which nothing has happened."""
    create_project(tmp_path)
    (tmp_path / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
    say(tmp_path, "chat", "new", "--id", "c1")
    return tmp_path


def say(root: Path, *args: str, given: str = "") -> str:
    """Return what a command prints, which goes well."""
    runner = CliRunner()
    done = runner.invoke(cli, ["-C", str(root), *args], input=given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def told(root: Path, *args: str) -> Any:
    return json.loads(say(root, "chat", "message", *args, "--json"))


def write(root: Path, content: str, *args: str) -> Any:
    call = ["call", "c1", "app-builder:write_file", "--arg", "path=a.txt"]
    return json.loads(say(root, *call, "--arg", f"content={content}", "--json", *args))


def test_a_conversation_is_a_tree(root: Path) -> None:
    one = told(root, "add", "c1", "Make a page")["message_id"]
    two = told(root, "add", "c1", "Here it is", "--role", "assistant", "--ref", "m2")["message_id"]
    call = write(root, "1", "--message", "m2")
    say(root, "chat", "message", "retry", "c1")
    told(root, "add", "c1", "Or this", "--role", "assistant")
    told(root, "edit", "c1", one, "Make a blue page")
    listed = told(root, "list", "c1")["messages"]
    lines = say(root, "chat", "message", "list", "c1").splitlines()

    assert call["message_id"] == two
    assert [line[14:] for line in lines] == [
        "user 1/2: Make a page",
        "  assistant 1/2: Here it is  (main)",
        "  assistant 2/2: Or this  (retry-1)",
        "user 2/2: Make a blue page  (*edit-1)",
    ]
    assert [line[:12] for line in lines] == [row["manifest_id"][:12] for row in listed]
    assert listed[1]["manifest_id"] == call["post_manifest_id"]


def test_a_step_tells_where_the_chat_is(root: Path) -> None:
    told(root, "add", "c1", "Make a page")
    told(root, "add", "c1", "Here it is", "--role", "assistant")
    write(root, "1")
    said = say(root, "chat", "message", "retry", "c1", "--branch", "again").splitlines()

    assert said[0] == "  - a.txt"
    assert said[1].startswith("on again, at ")
    assert said[2] == "user: Make a page"
    said = say(root, "chat", "message", "retry", "c1").splitlines()
    assert said == ["on retry-1, at no manifest yet", "before the first message"]


def test_show_tells_all_of_a_message(root: Path) -> None:
    told(root, "add", "c1", "Make a page", "--ref", "m1")
    write(root, "1", "--message", "m1")
    said = say(root, "chat", "message", "show", "c1")

    assert "the application's id: m1\n" in said
    assert "  + a.txt\n" in said
    assert said.endswith("\n\nMake a page\n")
    assert told(root, "show", "c1", "m1")["changes"][0]["path"] == "a.txt"


def test_a_text_is_read_from_the_input(root: Path) -> None:
    say(root, "chat", "message", "add", "c1", "-", given="two\nlines\n")
    say(root, "chat", "message", "edit", "c1", told(root, "show", "c1")["id"], "-", given="three\n")

    assert [one["text"] for one in told(root, "list", "c1")["messages"]] == [
        "two\nlines\n",
        "three\n",
    ]


def test_switch_and_continue_go_where_they_say(root: Path) -> None:
    one = told(root, "add", "c1", "one")["message_id"]
    write(root, "1", "--message", one)
    told(root, "add", "c1", "two")
    went = told(root, "continue", "c1", one)
    back = told(root, "switch", "c1", one)

    assert went["branch"] == "continue-1"
    assert back["branch"] == "main"
    assert told(root, "add", "c1", "three", "--parent", one, "--branch", "b")["branch"] == "b"


def test_an_empty_conversation_says_how_to_begin(root: Path) -> None:
    said = say(root, "chat", "message", "list", "c1")

    assert said == "no messages yet; add one: covalt-git chat message add c1 TEXT\n"
    assert told(root, "list", "c1")["messages"] == []


@pytest.mark.parametrize(
    ("args", "error"),
    [
        pytest.param(["message", "add", "c1"], "a message has a text, or", id="no-text"),
        pytest.param(["message", "switch", "c1", "m9"], "no message 'm9'", id="unknown"),
        pytest.param(["message", "retry", "c1", "--branch", "main"], "a branch 'main'", id="taken"),
    ],
)
def test_what_cannot_be_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], args: list[str], error: str
) -> None:
    told(root, "add", "c1", "one")

    with pytest.raises(SystemExit) as ended:
        main(["-C", str(root), "chat", *args])
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert error in said
    assert "\n  hint: " in said


def test_a_call_for_an_unknown_message_is_not_made(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(root, "add", "c1", "one")

    with pytest.raises(SystemExit):
        main(["-C", str(root), "call", "c1", "app-builder:list_files", "--message", "m9"])
    assert "no message 'm9'" in capsys.readouterr().err
    assert len(json.loads(say(root, "chat", "log", "c1", "--json"))["manifests"]) == 1


def test_chat_show_tells_a_message_and_a_restored_state(root: Path) -> None:
    one = told(root, "add", "c1", "Make a\npage", "--ref", "m1")["message_id"]
    shown = say(root, "chat", "show", "c1")
    write(root, "1", "--message", one)

    assert f"message {one}\nthe application's id: m1\nuser: Make a\npage\n" in shown
    assert "(*main)" in shown
    assert f"for the message {one}" in say(root, "chat", "show", "c1")
    say(root, "chat", "restore", "c1", "m1")
    say(root, "chat", "restore", "c1", told(root, "show", "c1", "m1")["own_manifest_id"])
    assert "restore: all files of " in say(root, "chat", "show", "c1")
