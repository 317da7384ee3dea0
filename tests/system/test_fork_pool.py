"""Work in forked processes: the results are those of one process, whatever happens to the others."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from covalt_git.system.fork_pool import each

ITEMS = list(range(2_000))


def doubled(number: int) -> tuple[int, int]:
    return number * 2, os.getpid()


PROGRAM = """
import os
from tests.system.test_fork_pool import ITEMS, doubled, each
results = list(each(doubled, ITEMS))
assert [number for number, _ in results] == [2 * number for number in ITEMS]
print(os.getpid() in {process for _, process in results})
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one core")
def test_much_work_is_done_in_other_processes_in_its_order() -> None:
    # In a new process: another test may have left a thread in this one.
    argv = [sys.executable, "-c", PROGRAM]
    root = Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_little_work_and_that_of_a_process_with_threads_is_done_in_this_process() -> None:
    assert {process for _, process in each(doubled, ITEMS[:100])} == {os.getpid()}
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
