"""Trials in the sandbox: an attempted action, and why this machine cannot enter a level.

A process that has threads cannot fork safely, so the fork server tries the levels.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from covalt_git.errors import CovaltError
from covalt_git.runtime.sandbox import landlock, seatbelt, system_calls
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.policy import Policy
from covalt_git.runtime.sandbox.syscall_numbers import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from covalt_git.models.calls import SandboxLevel

Verdict = Literal["refused", "through", "broken"]

_ATTEMPT_S, _END_S = 20.0, 2.0


def why_missing(level: SandboxLevel) -> str:
    """Return why this machine cannot enter a level that restricts a tool; empty if it can."""
    if sys.platform == "darwin":
        if level != "seatbelt":
            return "only Linux has it"
        return "" if seatbelt.is_here() else "this macOS has no sandbox_init_with_parameters"
    return "only macOS has it" if level == "seatbelt" else _why_not(level)


def attempt(
    policy: Policy,
    level: SandboxLevel,
    action: Callable[[], str | None],
    *,
    closed: Collection[int] = (),
) -> tuple[Verdict, str]:
    """Run an action in a sandboxed fork without the ``closed`` descriptors; return its verdict and message.

    The action returns what it obtained, or None.  An ``OSError`` or a ``MemoryError`` means that it was refused;
    ``broken`` means that the sandbox was never entered, or that the action has a bug.
    """
    report, end = os.pipe()
    child = os.fork()
    if child == 0:
        for descriptor in (report, *closed):
            os.close(descriptor)
        _act(policy, level, action, end)
    os.close(end)
    with os.fdopen(report, "rb", buffering=0) as file:
        said = file.read(1 << 16) if select.select([file], [], [], _ATTEMPT_S)[0] else b""
    status = _reap(child)
    if said:
        verdict, text = json.loads(said)
        return verdict, " ".join(text.replace("\0", " ").split())
    if os.WIFSIGNALED(status):
        return "refused", f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return "broken", "it ended without a result"


def _why_not(level: SandboxLevel) -> str:
    if system_calls.MACHINE not in NUMBERS:
        return f"it is written for {' and '.join(NUMBERS)}, not for {system_calls.MACHINE}"
    if level == "landlock" and (old := _too_old(landlock.version())):
        return old
    with tempfile.TemporaryDirectory(prefix="covalt-") as temporary:
        folder = Path(os.path.realpath(temporary))  # as a policy needs it: /tmp may be a link
        for name in ("workspace", "toolset", "scratch"):
            (folder / name).mkdir()
        policy = Policy(folder / "workspace", folder / "toolset", (), folder / "scratch")
        verdict, said = attempt(policy, level, _write)
    if verdict == "refused":
        return f"it cannot write in its workspace: {said}"
    return said if verdict == "broken" else ""


def _write() -> str:
    Path("written").touch()
    return "written"


def _too_old(known: int) -> str:
    if known == 0:
        return "this kernel has no landlock: Linux 6.2 with landlock among its `lsm`s does"
    if known < landlock.HOLDS_TRUNCATION:
        return f"landlock {known} cannot keep files from being emptied: Linux 6.2 can"
    return ""


def _act(
    policy: Policy, level: SandboxLevel, action: Callable[[], str | None], end: int
) -> NoReturn:
    verdict: Verdict = "broken"
    try:
        os.setsid()
        enter(policy, level)
        try:
            obtained = action()
        except (OSError, MemoryError) as error:
            verdict, said = "refused", f"{type(error).__name__}: {error}"
        else:
            verdict = "refused" if obtained is None else "through"
            said = "got nothing" if obtained is None else obtained
    except BaseException as error:  # noqa: BLE001 - a bug of an action must not look like a refusal
        said = (
            error.message if isinstance(error, CovaltError) else f"{type(error).__name__}: {error}"
        )
    os.write(end, json.dumps([verdict, said[:200]]).encode())
    os._exit(0)


def _reap(child: int) -> int:
    """Wait for the process of an attempt, kill it if it does not end, and kill its group; return its status."""
    end = time.monotonic() + _END_S
    # WNOWAIT leaves it unreaped: once its id is free, the group that is killed could be another one's.
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while time.monotonic() < end and not os.waitid(os.P_PID, child, options):
        time.sleep(0.001)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]
