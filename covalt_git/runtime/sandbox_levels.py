"""Sandbox levels of this machine, and which toolsets may run at them.

Distributions, containers and administrators disable features of the kernel in many ways.  So the fork server
enters a level for a trial (:mod:`covalt_git.runtime.sandbox.trial`) before the level counts as available.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.runtime.pool import ForkServerProcess

_HOLDING: Final[tuple[SandboxLevel, ...]] = ("full", "landlock", "seatbelt")
"""The levels that restrict a tool, strongest first: imported toolsets may run at them."""


class Available(NamedTuple):
    """Availability of a level on this machine; ``why`` it is missing, and a hint to enable it."""

    level: SandboxLevel
    here: bool
    why: str = ""
    hint: str = ""


def levels() -> tuple[Available, ...]:
    """Return every level, strongest first, and whether this machine has it.

    Raises:
        NoWorkerError: if a level could not be tried; the next call tries it again.
    """
    return (*map(_tried, _HOLDING), Available("process", here=True))


def level() -> SandboxLevel:
    """Return the strongest level that this machine has; weaker ones are not tried.

    Raises:
        NoWorkerError: as :func:`levels`.
    """
    return next((candidate for candidate in _HOLDING if _tried(candidate).here), "process")


_begun: Final[dict[SandboxLevel, Callable[[], str]]] = {}
"""Started trials whose answer is not read yet."""

os.register_at_fork(after_in_child=_begun.clear)  # the answers are for the parent


def begin() -> None:
    """Start the fork server, which tries the strongest level while this process does something else."""
    server = _fork_server()
    if not _begun and not _tried.cache_info().currsize:
        _begun[_HOLDING[0]] = server.try_level(_HOLDING[0])


def _fork_server() -> ForkServerProcess:
    from covalt_git.runtime import pool  # noqa: PLC0415 - most commands start no process

    return pool.shared().start()


@functools.cache
def _tried(level: SandboxLevel) -> Available:
    try:
        why = _begun.pop(level)()
    except (KeyError, CovaltError):  # it was not begun, or its fork server has ended
        # An error here is raised, and not cached: it must not count as a machine without this level
        # (test_levels_that_could_not_be_tried_are_an_error_and_not_a_weaker_level).
        why = _fork_server().try_level(level)()
    return Available(level, here=not why, why=why, hint=_hint() if why and level == "full" else "")


def _hint() -> str:
    """Return how to enable user namespaces on this machine, if it is known."""
    for name, closed, hint in _SWITCHES:
        switch = Path("/proc/sys", name)
        if switch.exists() and switch.read_text(encoding="utf-8").strip() == closed:
            return hint
    return ""


_SWITCHES: Final = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor closes them: `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "`sudo sysctl kernel.unprivileged_userns_clone=1` opens them",
    ),
    ("user/max_user_namespaces", "0", "`sudo sysctl user.max_user_namespaces=15000` opens them"),
)


class SandboxNeededError(CovaltError):
    """An imported toolset may not run at this level."""

    code = "sandbox_needed"
    http_status = 403


def is_sandbox(at: SandboxLevel | None = None) -> bool:
    """Return whether a level, by default the strongest of this machine, is a sandbox."""
    return (at or level()) in _HOLDING


def check_trust(
    toolset_id: str, state: ToolsetState, *, digest: str = "", at: SandboxLevel | None = None
) -> None:
    """Check that a toolset may run at a level, by default the strongest of this machine.

    Toolsets of the project may run at every level.  An imported one needs a sandbox, or the grant
    ``unsandboxed`` for the files with this ``digest``.

    Raises:
        SandboxNeededError: if it may not.
    """
    if not state.imported or is_sandbox(at):
        return
    given = [grant for grant in state.grants.values() if grant.kind == "unsandboxed"]
    if any(grant.digest == digest for grant in given):
        return
    since = "; it has changed since it was granted" if given else ""
    raise SandboxNeededError(
        f"this machine has only the sandbox level 'process', too weak for the imported toolset {toolset_id!r}{since}",
        hint="`covalt-git doctor` shows what a stronger level needs; to run the toolset at this level: "
        f"covalt-git grant add {toolset_id} unsandboxed",
    )
