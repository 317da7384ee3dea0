"""Running a Python tool once: in which room, between which walls, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import covalt_toolset
from covalt_git.models.outcomes import Log, Outcome, Progress
from covalt_git.runtime.awaited_call import KEPT_OUTPUT, AwaitedCall
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.sandbox import RunLimits
from covalt_git.runtime.workers import NoWorkerError, Place, Room, Workers, shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.models.toolset_manifest import Limits

__all__ = ["KEPT_OUTPUT", "Job", "Log", "Outcome", "Progress", "prepare", "run"]

_SDK = Path(covalt_toolset.__file__).parent


def prepare(python: Path) -> None:
    """Begin to load what every tool needs, so that it is there when the call is."""
    shared().start(python)


def run(job: Job, *, workers: Workers | None = None) -> Outcome:
    """Run the job to its end, its limit or Ctrl-C; the processes it started are gone afterwards.

    Raises:
        NoWorkerError: where no process can be started.
        FileNotFoundError: where the workspace is gone.
        ToolsetChangedError: where the toolset no longer has the files of the job's digest.
    """
    workers = workers or shared()
    place = _place(job)
    function = job.entrypoint.partition(":")[2]
    begin = job.begin or _nothing
    outcome = None
    room = workers.take(place)
    if room is not None:
        outcome = _in_room(room, job, workers, begin)
    else:
        job.toolset.make()
        begin()
    if outcome is None:  # no room waited, or so long that it ended just now
        outcome = _in_room(workers.open(place, function), job, workers, _nothing)
    if outcome is None:
        raise NoWorkerError("the process that tools are forked from has ended")
    return outcome


def _place(job: Job) -> Place:
    return Place(
        toolset=job.toolset,
        module=job.entrypoint.partition(":")[0],
        workspace=job.workspace,
        level=job.level,
        python=job.python,
        readable=(_SDK,),
        hosts=job.hosts,
        limits=_limits(job.limits),
        kept=job.warm,
    )


def _limits(limits: Limits) -> RunLimits:
    return RunLimits(
        cpu_s=limits.cpu_s,
        memory_mb=limits.memory_mb,
        # The room that the tool is forked from is not the tool's.
        processes=(limits.processes or RunLimits().processes) + 1,
        file_mb=limits.file_mb,
        grouped=limits.memory_mb is not None or limits.processes is not None,
    )


def _nothing() -> None:
    pass


def _in_room(room: Room, job: Job, workers: Workers, begin: Callable[[], None]) -> Outcome | None:
    """Make the call in a room; None where the room ended before the call began.

    A process of the room waits on the call's connection; the request comes once ``begin`` is through.
    """
    call = AwaitedCall(room, job)
    try:
        begin()
        outcome = call.outcome()
    except BaseException:
        room.end()
        raise
    finally:
        call.close()
    if call.room_is_good and room.place.kept:
        workers.give_back(room)
    else:
        room.end()
    return outcome
