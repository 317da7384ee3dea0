"""Several processes use one index at once: each gets complete answers, and in the end the rows are right."""

import multiprocessing
import shutil
from pathlib import Path

import pytest

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.workspaces.writing import writing
from tests.index.rows import anew, chats_of, open_index, synced

spawn = multiprocessing.get_context("spawn")


def keep_syncing(root: Path, times: int, *, rebuild: bool) -> None:
    for turn in range(times):
        with open_index(root) as index:
            if rebuild and turn % 3 == 0:
                index.rebuild()
            index.sync()
            assert len(index.tools()) >= 10


@pytest.mark.rest
def test_processes_that_sync_and_rebuild_at_once_agree(root: Path) -> None:
    shutil.rmtree(root / "data" / "chats" / "c1")
    processes = [
        spawn.Process(target=keep_syncing, args=(root, 6), kwargs={"rebuild": rebuild})
        for rebuild in (False, True)
    ]
    for process in processes:
        process.start()
    with chats_of(root).open("c2") as chat:
        for number in range(10):
            with writing(chat) as writer:
                uploads.upload(writer, [NewFile(f"f{number}.txt", str(number).encode())])
    keep_syncing(root, 6, rebuild=True)
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0] * 2
    assert synced(root) == anew(root, root / "data" / "anew.db")
