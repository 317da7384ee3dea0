"""A lock excludes other holders, in this process or another, until its holder closes it or ends."""

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from covalt_git.system import file_lock


def hold(path: Path, ready: Connection) -> None:
    with file_lock.held(path, create=True):
        ready.send(None)
        signal.pause()


def test_a_lock_is_released_when_its_holder_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    holder = fork.Process(target=hold, args=(file, theirs))
    holder.start()
    ours.recv()

    with pytest.raises(BlockingIOError), file_lock.held(file, wait=False):
        pass
    holder.kill()

    with file_lock.held(file):
        pass
    holder.join()
