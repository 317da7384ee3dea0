"""Trial of the sandbox levels: why this machine cannot enter each.

The fork server runs it, because a process that has threads cannot fork safely.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from covalt_git.runtime.sandbox import landlock, seatbelt, system_calls
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.policy import Policy, SandboxError

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel

_ENTERED = 0
_LINUX: Final[tuple[SandboxLevel, ...]] = ("full", "landlock")


def missing_levels() -> dict[SandboxLevel, str]:
    """Return why this machine cannot enter each level that restricts a tool; empty where it can."""
    if sys.platform == "darwin":
        linux = dict.fromkeys(_LINUX, "only Linux has it")
        no_call = "this macOS has no sandbox_init_with_parameters"
        return {**linux, "seatbelt": "" if seatbelt.is_here() else no_call}
    return {**{level: _why_not(level) for level in _LINUX}, "seatbelt": "only macOS has it"}


def _why_not(level: SandboxLevel) -> str:
    if system_calls.MACHINE not in system_calls.MACHINES:
        known = " and ".join(system_calls.MACHINES)
        return f"it is written for {known}, not for {system_calls.MACHINE}"
    if level == "landlock" and (old := _too_old(landlock.version())):
        return old
    with tempfile.TemporaryDirectory(prefix="covalt-") as made:
        folder = Path(os.path.realpath(made))
        for name in ("workspace", "toolset", "scratch"):
            (folder / name).mkdir()
        policy = Policy(folder / "workspace", folder / "toolset", (), folder / "scratch")
        return _try(policy, level)


def _too_old(known: int) -> str:
    if known == 0:
        return "this kernel has no landlock: Linux 6.2 with landlock among its `lsm`s does"
    if known < landlock.HOLDS_TRUNCATION:
        return f"landlock {known} cannot keep files from being emptied: Linux 6.2 can"
    return ""


def _try(policy: Policy, level: SandboxLevel) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setsid()
            enter(policy, level)
            (policy.workspace / "written").touch()
            os._exit(_ENTERED)
        except SandboxError as error:
            os.write(writing, f"it could not {error.what}: {error.why}".encode())
        except OSError as error:
            os.write(writing, f"it cannot write in its workspace: {error.strerror}".encode())
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        why = pipe.read()
    _, status = os.waitpid(child, 0)
    return why or ("" if status == _ENTERED else "its process ended at once")
