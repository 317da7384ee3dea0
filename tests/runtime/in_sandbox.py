"""Runs lines of Python in the sandbox of a level, in a process as the fork server forks it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

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

_PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
asked = json.loads(sys.argv[2])
from covalt_git.runtime.sandbox.policy import RunLimits, SandboxError, Policy
from covalt_git.runtime.sandbox.entering import enter
folder = Path(asked["folder"])
policy = Policy(
    folder / "workspace", folder / "toolset", (), folder / "scratch",
    limits=RunLimits(**asked["limits"]), **asked["policy"],
)
{before}
pid = os.fork()
if pid == 0:
    os.setsid()
    try:
        enter(policy, asked["level"])
    except SandboxError as error:
        print(error.message, flush=True)
        os._exit(90)
    try:
{body}
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if sys.exc_info()[0]:
            import traceback
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(91)
        os._exit(0)
{meanwhile}
_, status = os.waitpid(pid, 0)
print("=>", os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True)
class Run:
    """Output of sandboxed lines, and how their process ended."""

    output: str
    code: int
    errors: str


@dataclass
class Yard:
    """A folder with a workspace, a toolset and a scratch folder."""

    folder: Path
    limits: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def run(self, level: str, body: str, *, before: str = "", meanwhile: str = "") -> Run:
        """Run ``body`` in the sandbox; the other two run in the process that forks and waits."""
        program = _PROGRAM.format(
            before=dedent(before), body=indent(dedent(body), " " * 8), meanwhile=dedent(meanwhile)
        )
        asked = {
            "folder": str(self.folder),
            "level": level,
            "limits": self.limits,
            "policy": self.policy,
        }
        done = subprocess.run(
            [sys.executable, "-I", "-B", "-c", program, str(SOURCES), json.dumps(asked)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        )
        output, found, code = done.stdout.rpartition("=> ")
        assert found, done.stderr
        return Run(output, int(code), done.stderr)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    for name in ("workspace", "toolset", "scratch"):
        (tmp_path / name).mkdir()
    return Yard(tmp_path.resolve())


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
