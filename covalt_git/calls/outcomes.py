"""What came of a call: its errors in words, its record, and the record as callers are told it."""

from __future__ import annotations

import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.calls import Approval, CallError, PendingCall, RenderPlan, ToolCall
from covalt_git.models.commit_record import CallRecord, WorkspaceNotes
from covalt_git.render.plan import plan
from covalt_git.toolsets.toolset_copies import ToolsetCopy
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import finished_call
from covalt_git.workspaces.writer import listed

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.calls.running import Cancel
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.models.outcomes import Outcome
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer


_SILENT = frozenset({"denied", "expired", "interrupted"})
"""Errors of calls whose outcome was shown to nobody who would look for notes in it."""


class CallOutcome(NamedTuple):
    """A call as it stands: finished, with what it changed; or pending, with what is asked.

    ``notes`` are what its record has to say of the workspace and no call before it has told.
    ``repeated`` tells that it was made before under the same id, so that nothing ran now;
    ``sandbox`` the level that it ran at, if it did.
    """

    call: ToolCall
    approval: Approval | None = None
    changes: tuple[FileChange, ...] = ()
    notes: WorkspaceNotes = WorkspaceNotes()
    error: CallError | None = None
    output: str = ""
    repeated: bool = False
    sandbox: SandboxLevel | None = None


def as_recorded(chat: ChatStore, manifest: WorkspaceManifest) -> CallOutcome:
    """Return the outcome of the call that made a manifest."""
    done, record = finished_call(manifest), manifest.record.call
    assert done is not None
    assert record is not None
    return CallOutcome(
        done,
        changes=tuple(chat.changes(manifest.parent_id, manifest.id)),
        notes=fresh_notes(chat, manifest),
        error=record.error,
        output=record.output,
        sandbox=record.sandbox,
    )


def fresh_notes(chat: ChatStore, manifest: WorkspaceManifest) -> WorkspaceNotes:
    """Return what the record of a call has to say of the workspace and none of its branch has told.

    What people brought in since the last call is told by this one.  A call that did not come to its
    end told nobody anything.
    """
    notes = manifest.record.workspace
    if notes == WorkspaceNotes():
        return notes
    for before in chat.log(manifest.parent_id):
        call = before.record.call
        if call is not None and (call.error is None or call.error.code not in _SILENT):
            return notes.without(before.record.workspace)
    return notes


def record_of(
    writer: Writer,
    call: PendingCall,
    found: Found,
    outcome: Outcome,
    error: CallError | None,
    *,
    level: SandboxLevel | None,
    read: str | None,
) -> CallRecord:
    """Return the record of a call that ran behind walls of a level, on the files of ``read``."""
    # A tool may fail and return something; of one that did not end as it should have, nothing counts.
    result = outcome.result if error is None or outcome.status == "error" else None
    shown = plan(
        found.tool.renderer, args=call.args, result=result, chat_id=call.chat_id, error=error
    )
    return CallRecord(
        tool_id=call.tool_id,
        args=call.args,
        result=result,
        render_plan=shown and _with_stored_artifact(shown, found, writer),
        status="error" if error else "success",
        error=error,
        output=_as_text(outcome.output),
        started_at=call.started_at,
        finished_at=commits.now(),
        sandbox=level,
        toolset=call.toolset,
        execution_id=call.execution_id,
        base=read,
        asked=outcome.asked,
    )


def why_failed(outcome: Outcome, found: Found, cancel: Cancel) -> CallError | None:
    """Return why a run failed; for a module that is missing, with what to do."""
    error = outcome.error
    if error is not None and error.code == "cancelled":
        return error.model_copy(update={"message": cancel.why})
    if error is not None and "No module named" in error.message:
        where = f"python.dependencies of {found.toolset.id}/toolset.yaml"
        error = error.model_copy(update={"hint": f"name it under {where}"})
    return error


def wrote_though_read_only(
    chat: ChatStore, before: FolderState, seen: Snapshot, error: CallError | None
) -> CallError:
    """Return the error of a tool that only reads, and yet left the folder another one."""
    paths = [change.path for change in chat.tree_changes(before.tree, seen.tree)]
    return CallError(
        code="not_read_only",
        message=f"the tool is declared read-only, but it wrote {listed(paths) or 'empty folders'}",
        hint="its changes were undone; declare read_only: false in its annotations",
        traceback=error.traceback if error else "",
    )


def _with_stored_artifact(shown: RenderPlan, found: Found, writer: Writer) -> JsonObject:
    """Return the plan with the artifact's bytes kept, so that history still shows after an update."""
    artifact = shown.config.get("artifact")
    if isinstance(artifact, str) and artifact.startswith("toolset:"):
        path = artifact.removeprefix("toolset:")
        try:
            content = ToolsetCopy.of(found.toolset).read(path)
        except FileNotFoundError:
            problem = f"the toolset has no file {path!r}"
            shown = shown.model_copy(update={"error": problem})
        except CovaltError as error:
            shown = shown.model_copy(update={"error": error.message})
        else:
            kept = writer.chat.records.keep(content)
            shown = shown.model_copy(update={"artifact": kept})
    return shown.model_dump(mode="json", exclude_none=True)


def has_workspace(folder: Path) -> bool:
    """Tell whether the workspace is still a folder; whatever stands in its place is removed."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            return True
        folder.unlink()
    return False


def _as_text(output: str) -> str:
    """Return printed text as a record can hold it."""
    return output.encode("utf-8", "replace").decode()
