"""The program that enters each level once and prints, as JSON, why it could not; empty where it could.

Started by :mod:`covalt_git.runtime.sandbox.levels`; it needs nothing but Python's own library.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.policy import Policy, SandboxError

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel

_ENTERED = 0


def main() -> None:
    """Try the levels of Linux."""
    sys.stdout.write(json.dumps({"full": try_level("full"), "landlock": try_level("landlock")}))


def try_level(level: SandboxLevel) -> str:
    """Return why a level could not be entered; empty where it was."""
    with tempfile.TemporaryDirectory(prefix="covalt-") as made:
        folder = Path(os.path.realpath(made))
        for name in ("workspace", "toolset", "scratch"):
            (folder / name).mkdir()
        policy = Policy(folder / "workspace", folder / "toolset", (), folder / "scratch")
        return _try(policy, level)


def _try(policy: Policy, level: SandboxLevel) -> str:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(told)
            os.setsid()
            enter(policy, level)
            (policy.workspace / "written").touch()
            os._exit(_ENTERED)
        except SandboxError as error:
            os.write(tell, f"it could not {error.what}: {error.why}".encode())
        except OSError as error:
            os.write(tell, f"it cannot write in its workspace: {error.strerror}".encode())
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(told, encoding="utf-8") as pipe:
        why = pipe.read()
    _, status = os.waitpid(child, 0)
    return why or ("" if status == _ENTERED else "its process ended at once")
