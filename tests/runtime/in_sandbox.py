"""The sandbox levels of this machine, and the processes that tools leave."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

import covalt_git
from covalt_git.runtime import sandbox_levels
from covalt_git.system import file_lock

SOURCES = Path(covalt_git.__file__).parents[1]
LEVELS = [one.level for one in sandbox_levels.levels() if one.here]
HOLDING = [level for level in LEVELS if level != "process"]

needs_full = pytest.mark.skipif("full" not in LEVELS, reason="this machine has no level 'full'")
needs_groups = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/sys/fs/cgroup", os.W_OK),
    reason="no control group can be made here",
)
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
needs_landlock = pytest.mark.skipif("landlock" not in LEVELS, reason="no landlock here")


def programs(text: str) -> list[str]:
    """Return the processes, anywhere on this machine, that have a text on their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in file.read_bytes():
                found.append(file.parent.name)
    return found


def is_held(workspace: Path) -> bool:
    """Return whether a process still runs that a tool started while it had a lock on the file ``held``."""
    held = workspace / "held"
    if not held.exists():
        return False
    with held.open("w") as file:
        return not file_lock.acquire(file.fileno(), wait=False)


def python_for_everybody() -> str | None:
    """Return an interpreter that an ordinary user can start too, if root's own is not one."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if found is None:
        return None
    asked = [found, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    return found if subprocess.run(asked, check=False).returncode == 0 else None
