"""Work in forked processes: the results are those of one process, whatever happens to the others."""

import os
import threading

from covalt_git.system.fork_pool import each

ITEMS = list(range(2_000))


def doubled(number: int) -> tuple[int, int]:
    return number * 2, os.getpid()


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
