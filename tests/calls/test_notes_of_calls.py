"""What a call tells of the workspace that its files cannot say: once, and where it came about."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from covalt_git.workspaces.writing import writing
from tests import command

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.commit_record import WorkspaceNotes
    from tests.calls.conftest import World


@pytest.fixture
def fifo(world: World) -> Path:
    """A file that is none, which a person left in the workspace."""
    path = world.workspace / "pipe"
    os.mkfifo(path)
    return path


def paths(notes: WorkspaceNotes) -> list[str]:
    return [one.path for one in notes.not_stored]


def told(world: World) -> list[str]:
    """Make a call, and return the paths that it says could not be stored."""
    return paths(world.call("add").notes)


def test_what_cannot_be_stored_is_told_once_and_is_in_every_record(
    world: World, fifo: Path
) -> None:
    first, second = told(world), told(world)
    (world.workspace / "more").symlink_to("../../..")
    third, fourth = told(world), told(world)

    assert (first, second, third, fourth) == ([fifo.name], [], ["more"], [])
    recorded = [paths(one.record.workspace) for one in world.log() if one.record.call]
    assert recorded == [["pipe"]] * 2 + [["more", "pipe"]] * 2


def test_what_came_back_is_told_again(world: World, fifo: Path) -> None:
    told(world)
    fifo.unlink()
    told(world)
    os.mkfifo(fifo)

    assert told(world) == [fifo.name]


def test_what_a_person_brought_in_with_other_files_is_told_by_the_next_call(
    world: World, fifo: Path
) -> None:
    (world.workspace / "mine.txt").write_text("mine")
    with world.project().chats.open("c1") as chat, writing(chat) as writer:
        writer.save_edits()
        assert paths(chat.manifest(str(chat.head())).record.workspace) == [fifo.name]

    assert (told(world), told(world)) == ([fifo.name], [])


def test_a_call_that_was_denied_records_what_is_there_and_tells_it_to_nobody(
    world: World, fifo: Path
) -> None:
    world.project().approvals().deny(world.ask())
    first = told(world)
    world.project().approvals().deny(world.ask())

    assert world.codes() == ["denied", "success", "denied"]
    assert [paths(one.record.workspace) for one in world.log()][1:] == [[fifo.name]] * 2
    assert (first, told(world)) == ([fifo.name], [])


def test_the_command_line_says_it_once_and_chat_status_always(world: World, fifo: Path) -> None:
    line = f"! {fifo.name} is not stored: it is neither a file, a folder nor a link"

    calls = [command.run("-C", str(world.root), "call", "c1", "demo:add") for _ in range(2)]
    states = [command.run("-C", str(world.root), "chat", "status", "c1") for _ in range(2)]

    assert [line in one.stderr for one in calls] == [True, False]
    assert [line in one.stderr for one in states] == [True, True]
