"""Ending a process at every step of something that it does with files, one step after another."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = {
    *("open", "os.mkdir", "os.rename", "os.chmod", "os.link", "os.truncate"),
    *("os.remove", "os.rmdir", "shutil.rmtree", "ctypes.dlsym"),
}
"""The audit events of what changes files, or may."""


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Do something in a process that ends right before its ``step``-th step; return whether it did end so.

    ``kill -9`` cannot be caught, so that nothing of the process can tidy up behind it.
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


def _act(step: int, action: Callable[[], object]) -> NoReturn:
    left = step

    def count(event: str, _: object) -> None:
        nonlocal left
        if event in STEPS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(count)
        action()
    except BaseException as error:  # noqa: BLE001 - pytest must not go on in the child
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)
