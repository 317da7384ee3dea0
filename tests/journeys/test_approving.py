"""A command that has to be approved: at once at a terminal, by a script with a reason, or later."""

from __future__ import annotations

import pytest

from tests.command import Terminal as AtATerminal
from tests.journeys.terminal import Terminal

COMMAND = ("call", "c1", "app-builder:run_command", "--arg", "command=echo done >> ran.txt")

FROM_A_SCRIPT = ("--no-terminal", "tested")


@pytest.fixture
def chat(project: Terminal) -> Terminal:
    project.covalt("chat", "new", "--id", "c1")
    return project


def runs(terminal: Terminal) -> int:
    """Return how often the command ran."""
    file = terminal.folder / "data/chats/c1/workspace/ran.txt"
    return file.read_text(encoding="utf-8").count("done") if file.exists() else 0


def pending(terminal: Terminal) -> list[str]:
    return [row["execution_id"] for row in terminal.json("approval", "list")["approvals"]]


def test_a_pending_call_runs_once_when_it_is_approved(chat: Terminal) -> None:
    waiting = chat.json(*COMMAND, code=1)
    assert (waiting["status"], runs(chat)) == ("pending", 0)
    assert pending(chat) == [waiting["execution_id"]]

    (chat.folder / "data/index.db").unlink()
    assert pending(chat) == [waiting["execution_id"]]
    done = chat.json("approval", "approve", waiting["execution_id"], *FROM_A_SCRIPT)
    assert (done["id"], done["status"], runs(chat)) == (waiting["id"], "success", 1)

    chat.covalt("approval", "approve", waiting["execution_id"], *FROM_A_SCRIPT, code=1)
    (chat.folder / "data/index.db").unlink()
    assert (pending(chat), runs(chat)) == ([], 1)


def test_a_script_approves_its_call_with_a_reason_and_not_with_yes(chat: Terminal) -> None:
    chat.covalt(*COMMAND, "--yes", code=1)
    assert runs(chat) == 0
    assert chat.json(*COMMAND, *FROM_A_SCRIPT)["status"] == "success"
    assert runs(chat) == 1


@pytest.mark.parametrize(("typed", "count"), [("y", 1), ("n", 0)])
def test_a_terminal_asks_at_once(chat: Terminal, typed: str, count: int) -> None:
    user = AtATerminal(*COMMAND, cwd=chat.folder)
    user.until("echo done")
    user.answers("run it? [y/N]", typed)
    user.end()

    assert (runs(chat), pending(chat)) == (count, [])


def test_approving_at_a_terminal_shows_the_call_and_asks(chat: Terminal) -> None:
    waiting = chat.json(*COMMAND, code=1)
    user = AtATerminal("approval", "approve", waiting["execution_id"], cwd=chat.folder)
    user.until("app-builder:run_command in c1 on main")
    user.until("echo done")
    user.answers("approve it? [y/N]", "y")
    user.end()

    assert (runs(chat), pending(chat)) == (1, [])
