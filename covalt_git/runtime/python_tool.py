"""One call of a Python tool, in an idle or a new sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.runtime.awaited_call import AwaitedCall
from covalt_git.runtime.pool import NoWorkerError, SandboxPool, SandboxProcess, SandboxSpec, shared
from covalt_git.runtime.sandbox.policy import RunLimits

if TYPE_CHECKING:
    from covalt_git.models.outcomes import Outcome
    from covalt_git.runtime.jobs import Job


def run(job: Job, *, pool: SandboxPool | None = None) -> Outcome:
    """Run the job until it ends, exceeds a limit or is interrupted; none of its processes is left then.

    Raises:
        NoWorkerError: if no process can be started.
        FileNotFoundError: if the workspace does not exist.
        ToolsetChangedError: if the toolset no longer has the files of the job's digest.
    """
    pool = pool or shared()
    spec, function = _spec(job), job.entrypoint.partition(":")[2]
    job.toolset.make()
    # Before a sandbox is opened, as that imports the module (test_no_code_of_a_call_runs_before_begin_returns).
    if job.begin is not None:
        job.begin()
    outcome = None
    if (sandbox := pool.take(spec)) is not None:
        outcome = _run_in(sandbox, job, pool)
    if outcome is None:  # no sandbox was idle, or it ended before the call began
        outcome = _run_in(pool.open(spec, function), job, pool)
    if outcome is None:
        raise NoWorkerError(
            "the fork server, which starts tools, has ended", hint="call the tool again"
        )
    return outcome


def _run_in(sandbox: SandboxProcess, job: Job, pool: SandboxPool) -> Outcome | None:
    """Make the call in a sandbox; return None if the sandbox ended before the call began."""
    call = AwaitedCall(sandbox, job)
    try:
        outcome = call.outcome()
    except BaseException:  # also Ctrl-C, which must not leave the tool running
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
        limits=RunLimits(
            cpu_s=job.limits.cpu_s,
            memory_mb=job.limits.memory_mb,
            # The warm sandbox that the tool process is forked from is counted too.
            processes=(job.limits.processes or RunLimits().processes) + 1,
            file_mb=job.limits.file_mb,
        ),
        warm=job.warm,
    )
