"""The lock of a chat between real processes: no write is lost, and the next writer is not overtaken."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.system import file_lock
from covalt_git.workspaces.lock import CancelledError, ChatBusyError, ChatGoneError, held
from tests.workspaces.kills import process


def printed(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


@contextlib.contextmanager
def lock(folder: Path, *, timeout_s: float = 0.0) -> Iterator[list[str]]:
    """Hold a lock; yield the holders that were reported before."""
    holders: list[str] = []
    with held(folder, "c1", timeout_s=timeout_s, waiting=holders.append):
        yield holders


def wait_for_next(folder: Path) -> None:
    """Return once a writer waits for the lock, and none can overtake it."""
    while True:
        try:
            with file_lock.held(folder / "lock.next", wait=False):
                pass
        except BlockingIOError:
            return


def test_a_writer_that_comes_again_does_not_overtake_the_next(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with lock(tmp_path):
            waiting = stack.enter_context(process("lock_holder", str(tmp_path), "60"))
            wait_for_next(tmp_path)
            os.kill(waiting.pid, signal.SIGSTOP)
        # The lock is free, but it is the other's turn.
        with pytest.raises(ChatBusyError, match="another process is writing"), lock(tmp_path):
            pytest.fail("overtaken")
        os.kill(waiting.pid, signal.SIGCONT)
        assert printed(waiting) == "held"


def test_a_writer_that_is_cancelled_lets_the_next_one_wait(tmp_path: Path) -> None:
    cancel = threading.Event()
    with lock(tmp_path):
        with (
            pytest.raises(CancelledError),
            held(tmp_path, "c1", timeout_s=60, waiting=lambda _: cancel.set(), cancel=cancel),
        ):
            pytest.fail("taken twice")
        with file_lock.held(tmp_path / "lock.next", wait=False):
            pass


def test_a_process_that_dies_while_it_waits_blocks_no_other(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with lock(tmp_path):
            waiting = stack.enter_context(process("lock_holder", str(tmp_path), "60"))
            wait_for_next(tmp_path)
            waiting.kill()
            waiting.wait()
        with lock(tmp_path):
            pass


def test_a_timeout_reports_the_writer_its_command_and_its_start(tmp_path: Path) -> None:
    with process("lock_holder", str(tmp_path), "0") as holder:
        assert printed(holder) == "held"

        with pytest.raises(ChatBusyError) as caught, lock(tmp_path, timeout_s=0.02):
            pytest.fail("two hold the lock")

    who = rf"chat 'c1' is busy: process {holder.pid} \(lock_holder.py\) is writing since "
    assert re.fullmatch(who + r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", caught.value.message)
    assert caught.value.hint.endswith(f"ps -fp {holder.pid}")


def test_a_reported_command_never_contains_its_arguments(
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


def ends_unclean(folder: Path) -> bool:
    with held(folder, "c1", timeout_s=0, waiting=None) as handover:
        return handover.unclean


def test_only_an_end_without_an_error_in_this_boot_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c1").mkdir()
    folder = tmp_path / "c1"
    assert [ends_unclean(folder), ends_unclean(folder)] == [True, False]

    with contextlib.suppress(InterruptedError), lock(folder):
        raise InterruptedError
    assert [ends_unclean(folder), ends_unclean(folder)] == [True, False]

    shutil.copytree(folder, tmp_path / "copy")
    assert [ends_unclean(tmp_path / "copy"), ends_unclean(folder)] == [True, False]

    (folder / "lock").write_bytes(b"")  # as a power cut may leave it
    assert [ends_unclean(folder), ends_unclean(folder)] == [True, False]

    monkeypatch.setattr("covalt_git.workspaces.lock.boot_id", lambda: "another boot")
    assert [ends_unclean(folder), ends_unclean(folder)] == [True, False]
    monkeypatch.setattr("covalt_git.workspaces.lock.boot_id", lambda: "")
    assert [ends_unclean(folder), ends_unclean(folder)] == [True, True]


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
        wait_for_next(folder)
        (tmp_path / "c1").rename(tmp_path / "gone")
        (tmp_path / "c1").mkdir()
    waiting.join()

    assert len(gone) == 1
    (tmp_path / "c1").rmdir()
    with pytest.raises(ChatGoneError), lock(folder):
        pytest.fail("there is no such chat")
