"""Replay of an ended script: it runs against its records, and nothing is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.calls.outcomes import as_recorded
from covalt_git.models.scripts import ScriptRecord
from covalt_git.runtime.scripts.steps import CallReply, ScriptFault, ScriptSource
from covalt_git.scripts.script_run import DivergedError, check_same, with_reason
from covalt_git.workspaces import commits

if TYPE_CHECKING:
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.models.commit_record import CallRecord
    from covalt_git.models.scripts import SettledCall
    from covalt_git.runtime.scripts.steps import ScriptCall, ScriptEnd, ScriptLimits
    from covalt_git.workspaces.chat import ChatStore

_ENDS = frozenset({"cancelled", "expired", "script_diverged", "branch_deleted", "script_died"})
"""Codes of errors with which a script ended that its source does not decide."""


class Divergence(NamedTuple):
    """The first difference of a replay, and the line of the script."""

    why: str
    line: int | None


def replay(
    chat: ChatStore, record: CallRecord, manifest: WorkspaceManifest, limits: ScriptLimits
) -> tuple[int, Divergence | None]:
    """Run a script against its records; return the number of equal calls, and the first divergence.

    Raises:
        CovaltError: if scripts of its language do not run here.
    """
    from covalt_git.runtime.scripts.process import ScriptProcess  # noqa: PLC0415 - it loads an interpreter

    script = ScriptRecord.model_validate(record.script)
    settled = {call.index: call for call in script.calls}
    args = record.args
    source = ScriptSource(
        args["script"], script.language, args.get("args", {}), script.started_ms, script.seed
    )
    commits_by_id = _commits(chat, {call.call_id for call in script.calls if call.call_id})
    count = 0
    ended = record.error.code if record.error is not None else ""
    with ScriptProcess(source, limits) as process:
        step = process.advance(())
        while step.end is None:
            replies = []
            for call in step.calls:
                try:
                    replies.append(_reply(chat, settled, commits_by_id, call))
                except DivergedError as error:
                    # Beyond its last call, such a script was ended from outside.
                    if call.index not in settled and ended in _ENDS:
                        return count, None
                    return count, Divergence(error.message, error.line)
                count += 1
            step = process.advance(replies)
    return count, _of_end(step.end, manifest, record)


def _commits(chat: ChatStore, ids: set[str]) -> dict[str, str]:
    """Return the commits of calls by their ids, whatever branch has them."""
    commits_by_id = {}
    for oid in chat.reachable():
        ref = commits.source_ref(chat.store.read_commit(oid).message)
        if ref in ids and chat.outline(oid).record.id == ref:
            commits_by_id[ref] = oid
    return commits_by_id


def _reply(
    chat: ChatStore,
    settled: dict[int, SettledCall],
    commits_by_id: dict[str, str],
    call: ScriptCall,
) -> CallReply:
    recorded = settled.get(call.index)
    if recorded is None:
        raise DivergedError(call, "was not made")
    check_same(recorded, call)
    error, value = recorded.error, recorded.answer
    if recorded.call_id is not None:
        oid = commits_by_id.get(recorded.call_id)
        if oid is None:
            raise DivergedError(call, "has lost its record")
        called = chat.manifest(oid)
        outcome = as_recorded(chat, called)
        error, value = outcome.error, outcome.call.returned
        if error is not None:
            record = called.record.call
            error = with_reason(chat, None if record is None else record.execution_id, error)
    if error is not None:
        return CallReply(call.index, error=ScriptFault(error.code, error.message))
    return CallReply(call.index, value)


def _of_end(end: ScriptEnd, manifest: WorkspaceManifest, record: CallRecord) -> Divergence | None:
    result = record.result
    if end.error is not None:
        recorded = result.get("error") or {}
        if recorded.get("code") == end.error.code:
            return None
        return Divergence(f"it ended with {end.error.code}: {end.error.message}", end.error.line)
    if not result.get("success"):
        return Divergence(f"it succeeded, and ended with {record.error} then", None)
    if result.get("value") != end.value:
        return Divergence(f"its value differs from that of {manifest.id[:12]}", None)
    return None
