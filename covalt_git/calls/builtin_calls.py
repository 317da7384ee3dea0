"""Calls of the built-in tools that change files: each is one ``edit`` or ``restore`` commit with the call's record."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.calls.outcomes import CallOutcome, as_recorded, record_of
from covalt_git.conversations import commit_names
from covalt_git.errors import CovaltError
from covalt_git.file_edits import edits, restoring
from covalt_git.git_store.objects import FILE, TreeEntry
from covalt_git.models.outcomes import Outcome
from covalt_git.workspaces import trees
from covalt_git.workspaces.rules import check_storable

if TYPE_CHECKING:
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.commit_record import CallRecord, RestoreRecord, Source
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer


class CallChange(NamedTuple):
    """The files after a call, its result, and the source and subject of its commit."""

    source: Source
    files: FolderState
    result: JsonObject
    subject: str
    restore: RestoreRecord | None = None


def run(writer: Writer, call: PendingCall, target: Found) -> CallOutcome:
    """Make a call in one commit, after all other changes were committed.

    A failed call is recorded only if it was approved.

    Raises:
        CovaltError: if the file cannot be written, or the commit or a path does not exist.
    """
    try:
        head = writer.chat.head()
        change = _TOOLS[target.tool.tool_id](
            writer.chat, head, _as_approved(writer.chat, target.tool.tool_id, call)
        )
        outcome = Outcome("success", change.result)
        record = record_of(writer, call, target, outcome, None, level=None, read=None)
        manifest_id = commit_change(writer, call, record, change, head)
    except CovaltError as error:
        if call.execution_id is None:
            raise
        failed = Outcome.failed(error)
        record = record_of(writer, call, target, failed, failed.error, level=None, read=None)
        manifest_id = writer.finish_call(call, record)
    call_outcome = as_recorded(writer.chat, writer.chat.manifest(manifest_id))
    notes = call_outcome.notes.model_copy(update={"lost": (*call_outcome.notes.lost, *writer.lost)})
    return call_outcome._replace(notes=notes)


def _as_approved(chat: ChatStore, tool_id: str, call: PendingCall) -> JsonObject:
    """Return the arguments of a call, with the commits that its approval stored in place of their names.

    Raises:
        CovaltError: if an argument named no commit when the approval was requested.
    """
    # Git can move or create a branch after the approval was checked, because it does not take the chat's lock.  So a name
    # is never resolved again (test_an_approved_restore_uses_the_commit_that_was_approved).
    approval = None if call.execution_id is None else chat.approval(call.execution_id)
    if approval is None:
        return call.args
    for argument in _COMMIT_ARGUMENTS.get(tool_id, ()):
        if argument not in approval.commits:
            raise CovaltError(
                f"{call.args[argument]!r} named no commit, or several, when the approval was requested",
                hint=f"request the call again, with a name from: covalt-git chat log {chat.id} --all",
                code="unknown_manifest",
                http_status=404,
            )
    return {**call.args, **approval.commits}


def commit_change(
    writer: Writer, call: PendingCall, record: CallRecord, change: CallChange, head: str | None
) -> str:
    """Change the workspace from ``head`` in a new commit with the call's record; return the commit's id.

    Raises:
        CovaltError: as :meth:`Writer.commit_files`.
    """
    oid, changes = writer.commit_files(
        change.source,
        change.files,
        head,
        subject=change.subject,
        message_id=call.message_id,
        id=call.id,
        at=record.finished_at,
        by=call.by,
        call=record,
        restore=change.restore,
    )
    # After the commit: a process that is killed in between leaves a call that is recorded and stored, which a
    # repeated request finds as recorded.
    writer.drop_call(call.id)
    if change.restore is not None:
        restoring.note_missing(writer, change.restore, changes)
    return oid


def _write_file(chat: ChatStore, head: str | None, args: JsonObject) -> CallChange:
    path, content, state = args["path"], args["content"].encode(), chat.state(head)
    stored = trees.find(chat.store, state.tree, path)
    base: str | None = args.get("base", None if stored is None else stored.oid)
    edits.check_portable(path)
    check_storable(path, content, chat.config)
    file = edits.find_editable(chat, state, path, before=base)
    oid = chat.store.write_blob(content)
    entry = TreeEntry(b"", file.mode if file else FILE, oid)
    files = trees.edited_state(chat.store, state, {path: entry})
    return CallChange("edit", files, {"path": path, "oid": oid, "changed": oid != base}, path)


def returned(
    chat: ChatStore, head: str | None, call: PendingCall, files: dict[str, bytes]
) -> CallChange:
    """Return the change by files that a read-only call on a copy of an earlier commit returned.

    Raises:
        CovaltError: if another file is in the place of one.
    """
    state, entries = chat.state(head), {}
    for path, content in files.items():
        oid = chat.store.write_blob(content)
        stored = trees.find(chat.store, state.tree, path)
        same = stored is not None and stored.oid == oid
        edits.find_editable(chat, state, path, before=oid if same else None)
        entries[path] = TreeEntry(b"", FILE, oid)
    changed = trees.edited_state(chat.store, state, entries)
    return CallChange("tool_run", changed, {}, call.tool_id)


def named_commits(chat: ChatStore, tool_id: str, args: JsonObject) -> dict[str, str]:
    """Return the commits that arguments of a call name now; a branch can mean another one later."""
    named = {}
    for argument in _COMMIT_ARGUMENTS.get(tool_id, ()):
        with suppress(CovaltError):  # the call itself reports the name
            named[argument] = commit_names.resolve(chat, args[argument])
    return named


def _restore(chat: ChatStore, head: str | None, args: JsonObject) -> CallChange:
    state = chat.state(head)
    manifest_id = commit_names.resolve(chat, args["manifest"])
    files, record, subject = restoring.restored_files(
        chat, state, manifest_id, args.get("paths", ())
    )
    changes = chat.tree_changes(state.tree, files.tree)[:MOST_PATHS]
    result: JsonObject = {
        "branch": chat.active_branch(),
        "changes": [{"path": change.path, "kind": change.kind} for change in changes],
    }
    return CallChange("restore", files, result, subject, record)


MOST_PATHS = 2000
"""Most changed paths in a result."""

_COMMIT_ARGUMENTS = {"workspace:restore": ("manifest",)}
"""The arguments that name a commit, by the tool."""

_TOOLS = {"workspace:restore": _restore, "workspace:write_file": _write_file}
