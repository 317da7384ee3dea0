"""The sandbox: the one place where a tool's process is started, and how strong the walls around it are.

Today there is one level, ``process``: a process group of its own with a clean environment, an empty
standard input and a private temporary folder.  That keeps accidents apart, not malice, so toolsets
that somebody else wrote are refused at this level.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.toolset_state import ToolsetState

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SandboxNeededError(CovaltError):
    """An imported toolset may not run at this level."""

    code = "sandbox_needed"
    http_status = 403


def level() -> SandboxLevel:
    """Return the strongest level that this machine and version offer."""
    return "process"


def check_trust(toolset_id: str, state: ToolsetState) -> None:
    """Make sure that a toolset may run at the level in force.

    Raises:
        SandboxNeededError: for an imported toolset at ``process``.
    """
    if state.imported and level() == "process":
        raise SandboxNeededError(
            f"the toolset {toolset_id!r} was imported, and only the sandbox level 'process' is here",
            hint="read its code; once you trust it, make it the project's own: "
            f"git rm toolsets/state/{toolset_id}.yaml",
        )


def start(
    argv: Sequence[str],
    *,
    folder: Path,
    scratch: Path,
    output: int,
    pipes: tuple[int, ...],
) -> subprocess.Popen[bytes]:
    """Start a tool's program in ``folder``; it inherits ``pipes`` and prints to ``output``.

    ``scratch`` is its home and its temporary folder.
    """
    environment = {
        "PATH": PATH,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
    return subprocess.Popen(
        list(argv),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=pipes,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a tool's process and everything it started in its group, at once."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()
