"""Files that cannot be stored are recorded by every call, and reported once by the first one after them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.commit_record import WorkspaceNotes
    from tests.calls.conftest import World


@pytest.fixture
def fifo(world: World) -> Path:
    """A named pipe in the workspace, which cannot be stored."""
    path = world.workspace / "pipe"
    os.mkfifo(path)
    return path


def paths(notes: WorkspaceNotes) -> list[str]:
    return [one.path for one in notes.not_stored]


def reported(world: World) -> list[str]:
    """Make a call, and return the paths that it reports as not stored."""
    return paths(world.call("add").notes)


def test_a_file_is_reported_once_and_recorded_by_every_call(world: World, fifo: Path) -> None:
    first = [reported(world), reported(world)]
    (world.workspace / "more").symlink_to("../../..")
    second = [reported(world), reported(world)]
    fifo.unlink()
    third = [reported(world)]
    os.mkfifo(fifo)
    third.append(reported(world))

    assert first == [["pipe"], []]
    assert second == [["more"], []]
    assert third == [[], ["pipe"]]
    recorded = [paths(one.record.workspace) for one in world.log() if one.record.call]
    assert recorded == [["pipe"]] * 2 + [["more", "pipe"]] * 2 + [["more"], ["more", "pipe"]]
