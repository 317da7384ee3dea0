"""A call at a terminal asks the person there; elsewhere it says that nobody can be asked."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project

MANIFEST = """\
id: quiz
name: Quiz
version: "1"
tools:
  - {id: order, entrypoint: tools.quiz:order}
  - {id: page, entrypoint: tools.quiz:page}
  - {id: short, entrypoint: tools.quiz:page, limits: {answer_s: 0.5}}
"""
TOOLS = """\
from typing import Literal, Optional

from pydantic import BaseModel, Field

from covalt_toolset import get_context


class Order(BaseModel):
    name: str = Field(min_length=2, description="whose it is")
    size: int = Field(3, ge=1)
    gift: bool
    color: Literal["red", "blue"]
    extras: list[Literal["a", "b"]] = []
    note: Optional[str] = None


def order() -> dict:
    answer = get_context().elicit("Your \\x1b[2J order", Order)
    return answer.content.model_dump() if answer.accepted else {"did": answer.action}


def page() -> str:
    return get_context().elicit_url("Sign in", "https://example.com/in").action
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("questions") / "project"
    create_project(root)
    folder = root / "toolsets" / "quiz" / "tools"
    folder.mkdir(parents=True)
    (folder / "quiz.py").write_text(TOOLS)
    (folder.parent / "toolset.yaml").write_text(MANIFEST)
    with Project.open(root).chats.new("c1"):
        pass
    return root


def program(root: Path, tool: str, *args: str) -> list[str]:
    main = "from covalt_git.cli import main; main()"
    return [sys.executable, "-c", main, "-C", str(root), "call", "c1", f"quiz:{tool}", *args]


class Terminal:
    """A call in a terminal of its own, and a person who reads and types there."""

    def __init__(self, root: Path, tool: str, *args: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            program(root, tool, *args), stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.shown = ""

    def until(self, words: str) -> None:
        """Read until the words are there, and go on behind them."""
        while words not in self.shown:
            chunk = self._read()
            assert chunk, f"no {words!r} in {self.shown!r}"
        self.shown = self.shown.partition(words)[2]

    def answers(self, prompt: str, typed: str) -> None:
        self.until(prompt)
        os.write(self._ours, f"{typed}\n".encode())

    def end(self) -> str:
        while self._read():
            pass
        os.close(self._ours)
        self.process.wait(20)
        return self.shown

    def _read(self) -> str:
        with suppress(OSError):  # how a terminal ends on Linux
            chunk = os.read(self._ours, 1000).decode()
            self.shown += chunk
            return chunk
        return ""


def recorded(root: Path) -> Any:
    with Project.open(root).chats.open("c1") as chat:
        return chat.manifest(chat.head() or "").record.call


def test_a_person_fills_in_a_form(root: Path) -> None:
    person = Terminal(root, "order")
    person.until("Your \\u{1b}[2J order")
    person.answers("answer it?", "")
    person.answers("name (whose it is):", "Ada")
    person.answers("size [a whole number, may be empty] [3]:", "many")
    person.until("'many' is not a whole number")
    person.answers("size", "5")
    person.answers("gift [y or n]:", "y")
    person.answers("color:", "green")
    person.until("'green' is none of red, blue")
    person.answers("color", "blue")
    person.answers("extras", "a, b")
    person.answers("note [may be empty]:", "")
    shown = person.end()

    assert "success" in shown
    assert person.process.returncode == 0
    record = recorded(root)
    assert record.result == {
        "name": "Ada",
        "size": 5,
        "gift": True,
        "color": "blue",
        "extras": ["a", "b"],
        "note": None,
    }
    assert [one.answer for one in record.asked] == ["accept"]


def test_what_does_not_fit_is_asked_again(root: Path) -> None:
    person = Terminal(root, "order")
    person.answers("answer it?", "y")
    person.answers("name", "A")
    for prompt, typed in (
        ("size", "0"),
        ("gift", "n"),
        ("color", "red"),
        ("extras", ""),
        ("note", ""),
    ):
        person.answers(prompt, typed)
    person.until("$.name")
    person.answers("answer it?", "n")
    person.end()

    assert recorded(root).result == {"did": "decline"}


def test_an_address_is_shown_and_agreed_to(root: Path) -> None:
    person = Terminal(root, "page")
    person.until("https://example.com/in")
    person.answers("agree?", "y")
    person.end()

    assert recorded(root).result == "accept"


def test_the_end_of_the_input_is_neither_yes_nor_no(root: Path) -> None:
    person = Terminal(root, "page")
    person.answers("agree?", "\x04")
    person.end()

    assert recorded(root).result == "cancel"


def test_nobody_answers_in_time(root: Path) -> None:
    person = Terminal(root, "short")
    person.until("agree?")
    shown = person.end()

    assert "not_answered" in shown
    assert person.process.returncode == 1
    assert "Fatal" not in shown


def test_a_person_stops_a_call_that_asks(root: Path) -> None:
    person = Terminal(root, "page")
    person.until("agree?")
    began = time.monotonic()
    person.process.send_signal(signal.SIGINT)
    shown = person.end()

    assert person.process.returncode == 130
    assert time.monotonic() - began < 10
    assert "cancelled" in shown
    assert "Fatal" not in shown


@pytest.mark.parametrize("args", [(), ("--follow",), ("--json",)])
def test_where_nobody_is_at_a_terminal_nobody_can_be_asked(
    root: Path, args: tuple[str, ...]
) -> None:
    done = subprocess.run(
        program(root, "page", *args),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert done.returncode == 1
    assert "cannot_ask" in done.stdout + done.stderr
