"""Ending a process at every step of something that it does with files, one step after another."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tests.examples import EVERY

STEPS = {
    *("os.mkdir", "os.rename", "os.chmod", "os.link", "os.symlink", "os.truncate", "os.utime"),
    *("os.remove", "os.rmdir", "shutil.rmtree", "ctypes.dlsym"),
}
"""The audit events of what changes files, or may; a file that is opened to be written is one, too."""


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Do something in a process that ends right before its ``step``-th step; return whether it did end so.

    ``kill -9`` cannot be caught, so that the process cannot clean up.
    """
    child = os.fork()
    if child == 0:
        _act(step, action)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def kills(action: Callable[[], object], reset: Callable[[], object]) -> Iterator[bool]:
    """Kill something before each of its steps in turn, each time after ``reset``; yield whether it was killed.

    A test of it has the mark ``kills``: ``make test`` kills before one in :data:`tests.examples.EVERY` steps.

    The last time it was not, so that it has ended.
    """
    for step in range(1, 1000, EVERY):
        reset()
        killed = killed_at(step, action)
        yield killed
        if not killed:
            return
    raise AssertionError("it has too many steps")


def _writes(flags: object) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _act(step: int, action: Callable[[], object]) -> NoReturn:
    left = step

    def count(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        if event in STEPS or (event == "open" and _writes(args[2])):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(count)
        action()
    except BaseException as error:  # noqa: BLE001 - pytest must not continue in the child
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)
