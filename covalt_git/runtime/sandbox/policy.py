"""Policy of a sandbox: the folders and hosts that a tool may access, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from pathlib import Path


class SandboxError(CovaltError):
    """The sandbox could not be entered; no code of the tool may run."""

    code = "sandbox_failed"
    http_status = 500

    def __init__(self, what: str, why: str, *, hint: str = "see `covalt-git doctor`") -> None:
        super().__init__(f"the sandbox could not {what}: {why}", hint=hint)


class RunLimits(NamedTuple):
    """The most that one run may take; None means no limit of its own.

    The parent process limits time and output.
    """

    cpu_s: float | None = None
    """Processor time of each process, in seconds, rounded up; a second later the system ends it."""
    memory_mb: int | None = None
    """Address space of each process; at ``landlock``, for root, also memory of all processes together."""
    processes: int = 128
    """Processes and threads at once."""
    file_mb: int | None = None
    """Size of any file written."""
    open_files: int = 1024


class Policy(NamedTuple):
    """What one run of a tool may touch; every path is absolute and resolved."""

    workspace: Path
    """Writable, at its own path; the current folder."""
    toolset: Path
    """Read-only."""
    readable: tuple[Path, ...]
    """Read-only: the SDK and the toolset's dependencies; the interpreter that enters is always."""
    scratch: Path
    """A private folder, writable: ``/tmp`` and ``HOME``."""
    hosts: tuple[str, ...] = ()
    """Hosts granted; they are reached through ``egress`` only."""
    limits: RunLimits = RunLimits()
    egress: int | None = None
    """The descriptor of a :class:`covalt_git.runtime.egress.Egress`; without it there is no network."""
    writable: tuple[Path, ...] = ()
    """Granted folders besides the workspace, at their own paths."""
    listens: bool = False
    """Whether refused system calls are reported, by the descriptor that entering returns."""
    observes: bool = False
    """Whether calls that name files, programs and addresses are reported too."""
