"""Undo of one call: its files as before it, on a branch that has the call, with all later changes.

It is a three-way merge: the base are the files after the call, ours those of the branch now, theirs those before the
call.  If later changes are in the same lines, the undo stops before anything is changed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.conversations.commit_names import SHOWN_DIGITS
from covalt_git.errors import CovaltError
from covalt_git.merging.state_merge import merge_states
from covalt_git.models.commit_record import UndoneCall, WorkspaceNote, WorkspaceNotes
from covalt_git.workspaces import switching, trees
from covalt_git.workspaces.scan import IGNORED
from covalt_git.workspaces.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.merging.merge_conflicts import Choices, Hunks
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.models.commit_record import MergeConflict, MergeDecision
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer

UndoStatus = Literal["undone", "kept", "nothing_to_undo", "conflicts"]

_BEFORE = "before-the-call"
"""Label of the files before the call in the markers of conflicts."""

_MOST_IGNORED = 20


class CallUndo(NamedTuple):
    """Result of an undo of a call, or of its preview.

    ``manifest_id`` is the new head of the branch, None in a preview.  With the status ``conflicts``, some conflicts
    have no decision, and nothing has changed; ``lines``, ``hunks`` and ``texts`` are as in a merge.  With ``kept``, the decisions keep the later lines, so nothing changes either.
    ``unstored`` are the paths that no commit has, so that they stay as
    they are.
    """

    status: UndoStatus
    branch: str
    manifest_id: str | None
    changes: tuple[FileChange, ...] = ()
    conflicts: tuple[MergeConflict, ...] = ()
    lines: Mapping[str, str | None] = MappingProxyType({})
    hunks: Mapping[str, Hunks | None] = MappingProxyType({})
    texts: Mapping[str, bytes | None] = MappingProxyType({})
    possible: Mapping[str, tuple[MergeDecision, ...]] = MappingProxyType({})
    unstored: tuple[WorkspaceNote, ...] = ()


class _Plan(NamedTuple):
    undo: CallUndo
    after: FolderState
    head: str | None


def undo(
    writer: Writer,
    call: WorkspaceManifest,
    branch: str | None = None,
    choices: Choices | None = None,
) -> CallUndo:
    """Undo the changes of files by a call in a new commit on a branch, by default the active one.

    On the active branch, uncommitted changes are committed first, and the workspace changes too.

    Raises:
        UnknownNameError: if the branch does not exist, or a choice is for a path without a conflict.
        NotMergeableError: if a choice is not possible for its conflict.
        CovaltError: ``call_elsewhere``, if the branch does not have the call.
        CovaltError: if an untracked path is where a file must be written.
    """
    chat = writer.chat
    name = chat.active_branch() if branch is None else chat.branch(branch).name
    is_active = name == chat.active_branch()
    if is_active:
        writer.commit_changes()
    plan = _plan(chat, writer.snapshot if is_active else None, call, name, choices or {})
    if plan.undo.status != "undone":
        return plan.undo
    fields = {
        "subject": f"undo of the call {call.record.id[-SHOWN_DIGITS:]}",
        "undone": UndoneCall(call_id=call.record.id, manifest_id=call.id),
    }
    if is_active:
        oid, changes = writer.commit_files("restore", plan.after, plan.head, **fields)
        writer.note_modes(call.parent_id, changes)
        return plan.undo._replace(manifest_id=oid, changes=tuple(changes))
    # Not by a checkout: the folder has the files of another branch, and a user may work in it.
    notes = trees.notes(
        chat.store,
        WorkspaceNotes() if plan.head is None else chat.outline(plan.head).record.workspace,
        chat.state(plan.head).tree,
        plan.after,
    )
    oid = writer.commit("restore", Snapshot(plan.after.tree, notes), branch=name, **fields)
    return plan.undo._replace(manifest_id=oid)


def preview(
    chat: ChatStore,
    snapshot: Snapshot,
    call: WorkspaceManifest,
    branch: str | None = None,
    choices: Choices | None = None,
    *,
    text_of: str | None = None,
) -> CallUndo:
    """Return what :func:`undo` would do now; ``snapshot`` is a scan in memory.

    The conflict at the path ``text_of`` gets its text.  It raises the errors of :func:`undo`.
    """
    name = chat.active_branch() if branch is None else chat.branch(branch).name
    is_active = name == chat.active_branch()
    plan = _plan(chat, snapshot if is_active else None, call, name, choices or {}, text_of=text_of)
    if is_active and plan.undo.status == "undone":
        # The undo would raise this error when it switches.
        switching.Switch(chat, snapshot.state, plan.after).check(snapshot.unstored())
    return plan.undo._replace(manifest_id=None)


def _plan(
    chat: ChatStore,
    snapshot: Snapshot | None,
    call: WorkspaceManifest,
    branch: str,
    choices: Choices,
    *,
    text_of: str | None = None,
) -> _Plan:
    """Return the undo on a branch; ``snapshot`` is the content of the workspace if the branch is active."""
    head = chat.branch(branch).manifest_id
    command = f"covalt-git chat undo {chat.id} {call.record.id}"
    if call.id not in chat.above(head):
        others = [other for other in chat.branches() if call.id in chat.above(other.manifest_id)]
        raise CovaltError(
            f"the branch {branch!r} does not have the call {call.record.id}",
            hint="\n".join(f"{command} --branch {other.name}" for other in others[:3]),
            code="call_elsewhere",
            http_status=409,
        )
    ours = chat.state(head) if snapshot is None else snapshot.state
    # A hollow folder is no change, as for a commit of uncommitted changes.
    if snapshot is not None and snapshot.holds(chat.state(head)):
        ours = chat.state(head)
    merged = merge_states(
        chat,
        chat.state(call.id),
        ours,
        chat.state(call.parent_id),
        choices,
        names=(branch, _BEFORE),
        unstored=() if snapshot is None else snapshot.unstored(),
        list_with=f"{command} --dry-run",
        text_of=text_of,
    )
    status: UndoStatus = "undone"
    if merged.lines:
        status = "conflicts"
    elif merged.after == ours:
        status = "kept" if merged.conflicts else "nothing_to_undo"
    changes = () if merged.lines else tuple(chat.tree_changes(ours.tree, merged.after.tree))
    undo = CallUndo(
        status,
        branch,
        head,
        changes,
        merged.conflicts,
        merged.lines,
        merged.hunks,
        merged.texts,
        {path: _without_both(possible) for path, possible in merged.possible.items()},
        tuple(_unstored(chat, call, snapshot)),
    )
    return _Plan(undo, merged.after, head)


def _without_both(decisions: tuple[MergeDecision, ...]) -> tuple[MergeDecision, ...]:
    # The other version is in the history, and no merge would list it as a conflict to resolve.
    return tuple(decision for decision in decisions if decision != "both")


def _unstored(
    chat: ChatStore, call: WorkspaceManifest, snapshot: Snapshot | None
) -> list[WorkspaceNote]:
    """Return what an undo of the call cannot restore: what it left or lost that no commit has, and ignored paths."""
    notes = call.record.workspace
    earlier = WorkspaceNotes()
    if call.parent_id is not None:
        earlier = chat.outline(call.parent_id).record.workspace
    unstored = [*notes.lost]
    unstored += [
        WorkspaceNote(
            path=note.path, reason=f"stays as it is, because no commit has it: {note.reason}"
        )
        for note in notes.not_stored
        if note not in earlier.not_stored
    ]
    ignored = [] if snapshot is None else snapshot.paths(IGNORED)
    unstored += [
        WorkspaceNote(
            path=path, reason="stays as it is, because workspace.ignore excludes it from commits"
        )
        for path in ignored[:_MOST_IGNORED]
    ]
    return list({note.path: note for note in unstored}.values())
