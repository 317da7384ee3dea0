"""Which toolsets may run at which level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.runtime.sandbox.levels import level

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.toolset_state import ToolsetState

_HOLDS: tuple[SandboxLevel, ...] = ("full", "landlock", "seatbelt")


class SandboxNeededError(CovaltError):
    """An imported toolset may not run at this level."""

    code = "sandbox_needed"
    http_status = 403


def check_trust(
    toolset_id: str, state: ToolsetState, *, digest: str = "", at: SandboxLevel | None = None
) -> None:
    """Make sure that a toolset may run at a level, by default the strongest of this machine.

    The project's own may run at any.  An imported one needs walls that hold, or the grant
    ``unsandboxed`` for exactly the files whose ``digest`` is given.

    Raises:
        SandboxNeededError: it may not.
    """
    if not state.imported or (at or level()) in _HOLDS:
        return
    given = [grant for grant in state.grants.values() if grant.kind == "unsandboxed"]
    if any(grant.digest == digest for grant in given):
        return
    since = "; it has changed since it was granted to run so" if given else ""
    raise SandboxNeededError(
        f"the toolset {toolset_id!r} was imported, and only the sandbox level 'process' is here{since}",
        hint="`covalt-git doctor` tells what a stronger level needs; to trust it without one: "
        f"covalt-git grant add {toolset_id} unsandboxed",
    )
