"""One call of a Python tool, in an idle or a new sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.models.outcomes import Log, Outcome, Progress
from covalt_git.runtime.awaited_call import MAX_OUTPUT, AwaitedCall
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.pool import NoWorkerError, SandboxPool, SandboxProcess, SandboxSpec, shared
from covalt_git.runtime.sandbox.policy import RunLimits

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.tool_properties import Limits

__all__ = ["MAX_OUTPUT", "Job", "Log", "Outcome", "Progress", "prepare", "run"]


def prepare(python: Path) -> None:
    """Start the fork server of an interpreter, so that it is ready when the call comes."""
    shared().start(python)


def run(job: Job, *, pool: SandboxPool | None = None) -> Outcome:
    """Run the job until it ends, exceeds a limit or is interrupted; none of its processes is left then.

    Raises:
        NoWorkerError: if no process can be started.
        FileNotFoundError: if the workspace does not exist.
        ToolsetChangedError: if the toolset no longer has the files of the job's digest.
    """
    pool = pool or shared()
    spec, function = _spec(job), job.entrypoint.partition(":")[2]
    sandbox = pool.take(spec)
    try:
        if sandbox is None:
            job.toolset.make()
        if job.begin is not None:
            job.begin()
    except BaseException:
        if sandbox is not None:
            pool.give_back(sandbox)
        raise
    outcome = None
    if sandbox is not None:
        outcome = _run_in(sandbox, job, pool)
    if outcome is None:  # no sandbox was idle, or it ended before the call began
        outcome = _run_in(pool.open(spec, function), job, pool)
    if outcome is None:
        raise NoWorkerError("the process that tools are forked from has ended")
    return outcome


def _run_in(sandbox: SandboxProcess, job: Job, pool: SandboxPool) -> Outcome | None:
    """Make the call in a sandbox; return None if the sandbox ended before the call began."""
    call = AwaitedCall(sandbox, job)
    try:
        outcome = call.outcome()
    except BaseException:
        sandbox.end()
        raise
    finally:
        call.close()
    if call.is_reusable and sandbox.spec.warm:
        pool.give_back(sandbox)
    else:
        sandbox.end()
    return outcome


def _spec(job: Job) -> SandboxSpec:
    return SandboxSpec(
        toolset=job.toolset,
        module=job.entrypoint.partition(":")[0],
        workspace=job.workspace,
        level=job.level,
        python=job.python,
        hosts=job.hosts,
        limits=_limits(job.limits),
        warm=job.warm,
    )


def _limits(limits: Limits) -> RunLimits:
    return RunLimits(
        cpu_s=limits.cpu_s,
        memory_mb=limits.memory_mb,
        # The warm sandbox that the tool process is forked from is counted too.
        processes=(limits.processes or RunLimits().processes) + 1,
        file_mb=limits.file_mb,
    )
