"""The lock of a chat between real processes: all writes are kept, and nobody is overtaken."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.workspaces.locking import CancelledError, ChatBusyError, ChatGoneError, Place, held
from tests.workspaces.stores import fsck, git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.chats import Chats, ChatStore

REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def process(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run one of the test programs beside this file."""
    started = subprocess.Popen(
        [sys.executable, "-m", f"tests.workspaces.{name}", *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


def said(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


@contextlib.contextmanager
def lock(folder: Path, *, timeout_s: float = 0.0) -> Iterator[list[Place]]:
    """Hold a lock; yield the places in the queue that were told before."""
    told: list[Place] = []
    with held(folder, "c1", timeout_s=timeout_s, waiting=told.append):
        yield told


def in_line(folder: Path) -> list[str]:
    queue = folder / "queue"
    return sorted(path.name for path in queue.iterdir()) if queue.is_dir() else []


def wait_for(line: int, folder: Path) -> None:
    while True:  # one that is not a number yet has still to get its place
        found = in_line(folder)
        if len(found) == line and all(name.isdigit() for name in found):
            return


def test_writes_of_six_processes_are_all_kept_and_nobody_starves(
    chats: Chats, chat: ChatStore
) -> None:
    with contextlib.ExitStack() as stack:
        with lock(chat.folder):  # so that all are there before the first begins
            writers = [
                stack.enter_context(process("fair_writer", str(chats.folder.parent), "30"))
                for _ in range(6)
            ]
            wait_for(6, chat.folder)
        said = [writer.communicate(timeout=120) for writer in writers]

    assert [problems for _, problems in said] == [""] * 6
    written = {oid for printed, _ in said for oid in printed.split()}
    store = chat.folder / "store.git"
    history = git(store, "rev-list", "--first-parent", "--reverse", "main").split()
    assert set(history) == written
    assert len(history) == 180
    assert fsck(chat) == ""
    assert in_line(chat.folder) == []
    # All stood in line before the first began: none comes a second time before each came once.
    owners = [git(store, "log", "-1", "--format=%an", oid).strip() for oid in history[:6]]
    assert len(set(owners)) == 6


def test_those_who_wait_go_in_the_order_of_coming(tmp_path: Path) -> None:
    order: list[int] = []

    def take(number: int) -> None:
        with lock(tmp_path, timeout_s=60):
            order.append(number)

    with lock(tmp_path):
        threads = []
        for number in range(8):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            wait_for(number + 1, tmp_path)
    for thread in threads:
        thread.join()

    assert order == list(range(8))
    assert in_line(tmp_path) == []


def test_nobody_comes_in_before_those_who_wait(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with lock(tmp_path):
            waiting = stack.enter_context(process("lock_holder", str(tmp_path), "60"))
            wait_for(1, tmp_path)
            os.kill(waiting.pid, signal.SIGSTOP)
        # Free, but it is the other's turn.
        with pytest.raises(ChatBusyError, match="another process is writing"), lock(tmp_path):
            pytest.fail("overtaken")
        os.kill(waiting.pid, signal.SIGCONT)
        assert said(waiting) == "held"


def test_whoever_waits_is_told_who_comes_before_until_nobody_does(tmp_path: Path) -> None:
    places: list[Place] = []
    with contextlib.ExitStack() as stack:
        with lock(tmp_path):
            first = stack.enter_context(process("lock_holder", str(tmp_path), "60"))
            wait_for(1, tmp_path)
            taking = threading.Thread(target=lambda: take(tmp_path, places))
            taking.start()
            wait_for(2, tmp_path)
            while not places:
                pass
        assert said(first) == "held"
        while places[-1].before:
            pass
        first.kill()
        taking.join()

    assert places[0].holder.startswith(f"process {os.getpid()} ")
    assert places[0].before == 1
    assert places[-1].holder.startswith(f"process {first.pid} ")


def take(folder: Path, places: list[Place]) -> None:
    with held(folder, "c1", timeout_s=60, waiting=places.append):
        pass


def test_whoever_gives_up_waiting_leaves_the_queue(tmp_path: Path) -> None:
    cancel = threading.Event()
    with (
        lock(tmp_path),
        pytest.raises(CancelledError),
        held(
            tmp_path,
            "c1",
            timeout_s=60,
            waiting=lambda _: cancel.set(),
            cancel=cancel,
        ),
    ):
        pytest.fail("taken twice")

    assert in_line(tmp_path) == []


def test_a_process_that_dies_while_it_waits_stands_in_nobodys_way(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with lock(tmp_path):
            waiting = stack.enter_context(process("lock_holder", str(tmp_path), "60"))
            wait_for(1, tmp_path)
            waiting.kill()
            waiting.wait()
            assert in_line(tmp_path) == ["000000001"]
        with lock(tmp_path):
            pass
    assert in_line(tmp_path) == []


def test_who_waits_too_long_is_told_who_writes_what_and_since_when(tmp_path: Path) -> None:
    with process("lock_holder", str(tmp_path), "0") as holder:
        assert said(holder) == "held"

        with pytest.raises(ChatBusyError) as caught, lock(tmp_path, timeout_s=0.02):
            pytest.fail("two hold the lock")

    who = rf"chat 'c1' is busy: process {holder.pid} \(lock_holder.py\) is writing since "
    assert re.fullmatch(who + r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", caught.value.message)
    assert caught.value.hint.endswith(f"ps -fp {holder.pid}")
    assert in_line(tmp_path) == []


def test_what_is_told_of_a_command_is_never_an_argument_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = {
        "covalt-git chat upload": ["/bin/covalt-git", "chat", "upload", "secret.txt"],
        "covalt-git call": ["/x/covalt_git/__main__.py", "call", "c1", "a:b", "k=hunter2"],
        "covalt-git": ["covalt-git", "-C", "/home/ann/secret", "call"],
    }
    for told, arguments in commands.items():
        monkeypatch.setattr(sys, "argv", arguments)
        with lock(tmp_path):
            assert f"({told})" in (tmp_path / "lock").read_text()


def test_the_lock_says_nothing_once_it_is_free(tmp_path: Path) -> None:
    with lock(tmp_path) as told:
        assert told == []
    assert (tmp_path / "lock").read_text().splitlines()[0] == ""


def test_a_lock_held_by_another_program_is_waited_for(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("a") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)

        with pytest.raises(ChatBusyError, match="another process"), lock(tmp_path):
            pytest.fail("two hold the lock")
    with lock(tmp_path):
        pass


def test_a_chat_that_is_deleted_meanwhile_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "c1").mkdir()
    folder = tmp_path / "c1"
    gone: list[ChatGoneError] = []

    def wait() -> None:
        with (
            pytest.raises(ChatGoneError, match="'c1' was deleted meanwhile") as caught,
            lock(folder, timeout_s=60),
        ):
            pytest.fail("wrote to a chat that is gone")
        gone.append(caught.value)

    with lock(folder):
        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_for(1, tmp_path / "c1")
        (tmp_path / "c1").rename(tmp_path / "gone")
        (tmp_path / "c1").mkdir()
    waiting.join()

    assert len(gone) == 1
    (tmp_path / "c1").rmdir()
    with pytest.raises(ChatGoneError), lock(folder):
        pytest.fail("there is no such chat")
