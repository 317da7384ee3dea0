"""Several processes, and killed ones: nothing acknowledged is lost, nothing is repaired by hand."""

import itertools
import os
import random
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.stress.stores import reachable
from tests.workspaces.kills import process
from tests.workspaces.stores import branch_off, fsck, layout_of, tree_of, upload


def busy(chats: Chats, seed: int, steps: int) -> AbstractContextManager[subprocess.Popen[str]]:
    return process("busy_writer", str(chats.folder.parent), str(seed), str(steps))


def left_overs(chat: ChatStore) -> list[Path]:
    store = chat.folder / "store.git"
    found = [*store.rglob("*.lock"), *store.rglob("tmp_*"), *chat.folder.glob("staging*")]
    return [*found, *chat.folder.glob("switch.json")]


def test_nothing_acknowledged_is_lost_however_often_the_writer_is_killed(
    chats: Chats, chat: ChatStore
) -> None:
    upload(chat, "first", b"1")
    chance = random.Random(7)
    acknowledged: list[str] = []
    for kill in range(5):
        with busy(chats, kill, 100000) as process:
            assert process.stdout is not None
            lines = itertools.islice(process.stdout, chance.randrange(1, 9))
            acknowledged += [line.strip() for line in lines]
            time.sleep(chance.random() / 40)
            process.send_signal(signal.SIGKILL)
            rest, problems = process.communicate(timeout=30)
        acknowledged += [line for line in rest.splitlines(keepends=False) if len(line) == 40]
        assert problems == ""

        with writing(chat, timeout_s=0) as writer:
            head = writer.commit_changes()
        assert head is not None
        assert set(acknowledged) <= reachable(chat)
        assert fsck(chat) == ""
        assert left_overs(chat) == []
        assert chat.calls() == []
        manifests = [chat.manifest(oid) for oid in reachable(chat) & set(chat.reachable())]
        texts = [one.record.message.text or "" for one in manifests if one.record.message]
        assert all(len(text) > 20_000 for text in texts)
        files = {path for path, (kind, _) in layout_of(chat.workspace).items() if kind != "folder"}
        assert files == set(tree_of(chat, "HEAD"))
    assert len(acknowledged) > 5


def test_stale_locks_and_half_written_objects_of_dead_processes_are_cleared(
    chat: ChatStore,
) -> None:
    upload(chat, "a", b"1")
    branch_off(chat, "idea")
    store = chat.folder / "store.git"
    stale = [
        store / "HEAD.lock",
        store / "packed-refs.lock",
        store / "refs/heads/idea.lock",
        store / "refs/heads/main.lock",
        store / "refs/covalt/records.lock",
        store / "objects/tmp_obj_x1y2",
        store / "objects/pack/tmp_pack_x1y2",
        store / "objects/pack/tmp_idx_x1y2",
    ]
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    (chat.folder / "lock").write_text("process 4711 since long")
    upload(chat, "b", b"2")
    with writing(chat) as writer:
        writer.checkout("main")

    assert left_overs(chat) == []
    assert fsck(chat) == ""


@pytest.mark.rest
def test_reading_works_during_a_write(chats: Chats, chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    with busy(chats, 5, 40) as process:
        seen = 0
        while process.poll() is None:
            with chats.open("c1") as reader:
                seen += len(list(reader.log(reader.head())))
                assert reader.active_branch()
                assert [call.status for call in reader.calls()] in ([], ["running"])
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert seen > 0
    assert os.path.lexists(chat.workspace)
