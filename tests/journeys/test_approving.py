"""A command that has to be approved: at a terminal, or by a script."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command import Terminal

COMMAND = ("call", "c1", "app-builder:run_command", "--arg", "command=echo done >> ran.txt")

Covalt = Callable[..., Any]


@pytest.fixture
def covalt(cli: Callable[..., tuple[int, str]]) -> Covalt:
    """Run a command in a project with the chat c1; return its JSON."""
    cli("chat", "new", "--id", "c1")
    return lambda *args: json.loads(cli(*args, "--json")[1])


def runs(root: Path) -> int:
    """Return how often the command ran."""
    file = root / "data/chats/c1/workspace/ran.txt"
    return file.read_text(encoding="utf-8").count("done") if file.exists() else 0


def pending(covalt: Covalt) -> list[str]:
    return [row["execution_id"] for row in covalt("approval", "list")["approvals"]]


def test_a_pending_call_runs_once_when_it_is_approved(root: Path, covalt: Covalt) -> None:
    waiting = covalt(*COMMAND)
    assert (waiting["status"], runs(root)) == ("pending", 0)
    assert pending(covalt) == [waiting["execution_id"]]

    (root / "data/index.db").unlink()
    assert pending(covalt) == [waiting["execution_id"]]
    approve = ("approval", "approve", waiting["execution_id"], "--no-terminal", "tested")
    done = covalt(*approve)
    assert (done["id"], done["status"], runs(root)) == (waiting["id"], "success", 1)

    assert covalt(*approve)["error"] == "already_settled"
    (root / "data/index.db").unlink()
    assert (pending(covalt), runs(root)) == ([], 1)


@pytest.mark.rest
def test_a_terminal_shows_the_call_and_asks_later_or_at_once(root: Path, covalt: Covalt) -> None:
    waiting = covalt(*COMMAND)["execution_id"]
    for args, prompt, typed in (
        (("approval", "approve", waiting), "approve it? [y/N]", "y"),
        (COMMAND, "run it? [y/N]", "n"),
        (COMMAND, "run it? [y/N]", "y"),
    ):
        before = runs(root)
        user = Terminal(*args, cwd=root)
        user.until("app-builder:run_command")
        user.until("echo done")
        user.answers(prompt, typed)
        user.end()
        assert runs(root) == before + (typed == "y")

    assert pending(covalt) == []
