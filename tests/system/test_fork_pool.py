"""Work in forked processes: the results are those of one process, whatever happens to the others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from covalt_git.system.fork_pool import each

ITEMS = list(range(2_000))
ROOT = Path(__file__).parents[2]


def doubled(number: int) -> tuple[int, int]:
    return number * 2, os.getpid()


def test_results_have_the_order_of_the_items() -> None:
    answers = list(each(doubled, ITEMS))

    assert [number for number, _ in answers] == [number * 2 for number in ITEMS]


ELSEWHERE = """
import os
from tests.system.test_fork_pool import ITEMS, doubled, each
print(os.getpid() in {process for _, process in each(doubled, ITEMS)})
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one core")
def test_much_work_is_done_in_other_processes() -> None:
    # In a process of its own: here some other test may have left a thread.
    argv = [sys.executable, "-c", ELSEWHERE]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_little_work_is_done_in_this_process() -> None:
    assert {process for _, process in each(doubled, ITEMS[:100])} == {os.getpid()}


def test_a_process_with_threads_does_not_fork() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert {process for _, process in each(doubled, ITEMS)} == {os.getpid()}
    finally:
        done.set()
        thread.join()


def test_the_work_of_a_killed_process_is_done_in_this_one() -> None:
    here = os.getpid()

    def dying(number: int) -> int:
        if number == 1_000 and os.getpid() != here:
            os._exit(9)
        return number

    assert list(each(dying, ITEMS)) == ITEMS


def test_an_error_of_the_work_is_raised_in_this_process() -> None:
    def failing(number: int) -> int:
        return 1 // (number - 1_500)

    with pytest.raises(ZeroDivisionError):
        list(each(failing, ITEMS))


def test_no_process_is_left_when_the_results_are_not_read() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("this system does not tell a process's children")
    before = children.read_text().split()
    answers = each(lambda number: b"x" * 10_000 + bytes(number % 9), ITEMS)
    next(answers)
    answers.close()  # type: ignore[attr-defined]

    assert set(children.read_text().split()) <= set(before)
