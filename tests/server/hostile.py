"""The toolset of ``fixtures/hostile_toolset``, how the call of each tool ends, and what is left of it.

Its limits are small, so that each is hit at once.  Whatever forks ends by itself after ten seconds,
so that a limit that does not hold fails a test and not the machine.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from tests.api_client import FIXTURES

ENDS = {
    "bomb": "limit_processes: it started more processes than it may",
    "hog": "limit_memory: it needed more than 200 MiB of memory",
    "flood": "limit_output: it printed or returned more than 1 MiB",
    "huge_result": "limit_output: it printed or returned more than 1 MiB",
    "unzip": "limit_files: its workspace holds more than 2000 files",
    "open_zip": "limit_memory: it needed more than 200 MiB of memory",
    "sparse": "limit_workspace: its workspace holds more than 64 MiB",
}
"""What the call of each tool says."""


def put_hostile(root: Path) -> None:
    """Give a project the toolset ``bad``."""
    shutil.copytree(FIXTURES / "hostile_toolset", root / "toolsets" / "bad")


def is_held(workspace: Path) -> bool:
    """Tell whether a process that a tool started is still there."""
    held = workspace / "held"
    if not held.exists():
        return False
    with held.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def check_store(store: Path) -> None:
    """Have git itself look at every object and ref of a chat."""
    checked = subprocess.run(
        ["git", "-C", str(store), "fsck", "--strict", "--no-dangling"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stderr
