"""Writer of a chat: the changes that the holder of the chat's lock can make.

Each change ends with one compare-and-swap of a ref.  Before that, all objects that the ref will reach are durable.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from covalt_git import timestamps
from covalt_git.errors import listed
from covalt_git.models.calls import Approval, PendingCall
from covalt_git.models.commit_record import (
    CallRecord,
    CommitRecord,
    Source,
    WorkspaceNote,
    WorkspaceNotes,
)
from covalt_git.names import new_id
from covalt_git.workspaces import commits, narrow_modes, running_call, trees
from covalt_git.workspaces.chat import (
    APPROVALS,
    CALLS,
    HEADS,
    ChatStore,
    MovedError,
    move_branch,
    put_stored,
    read_stored,
    stored_at,
    write_stored,
)
from covalt_git.workspaces.commit_key import signed
from covalt_git.workspaces.folders import Folder, folders_above
from covalt_git.workspaces.lease import RUNNING
from covalt_git.workspaces.snapshot import Snapshot
from covalt_git.workspaces.switching import Journal, WorkingFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.models.calls import ApprovalState
    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.lease_holder import LeaseHolder
    from covalt_git.workspaces.trees import FolderState

NEVER = "never"
"""A time that is later than all others, as texts are compared."""

_NOT_SCANNED = Snapshot(None, WorkspaceNotes())


@dataclass(slots=True)
class Writer:
    """Writer of a locked chat; ``snapshot`` is the result of the last scan of the workspace, ``_head`` its branch's head.

    ``due`` is the RFC 3339 time at which the first pending call expires, or :data:`NEVER`.  It is empty if the next writer
    has to read the pending calls, because an approval was decided.  ``holder`` has the lease if the chat is on a git server.
    ``has_edits`` says whether it has committed edits of the user.
    """

    chat: ChatStore
    by: str
    snapshot: Snapshot = _NOT_SCANNED
    due: str = NEVER
    holder: LeaseHolder | None = None
    has_edits: bool = False
    _head: str | None = None
    _before: str | None = None
    _lost: list[WorkspaceNote] = field(default_factory=list)

    @property
    def folder(self) -> WorkingFolder:
        return WorkingFolder(self.chat)

    # Commits

    def scan(self) -> Snapshot:
        """Scan the workspace, store its content and return the snapshot; create a missing workspace."""
        if not self.folder.exists():
            self.chat.workspace.mkdir()
        self._head = self.chat.head()
        if self.snapshot is _NOT_SCANNED:
            self._before = self._head
        self.snapshot = self.chat.scan(self._head)
        self.chat.stat_cache.scan = self.snapshot.scan
        return self.snapshot

    def fresh_notes(self) -> WorkspaceNotes:
        """Return the notes of the last scan, except those of the newest commit before this writer.

        Each command shows them to the user, so that no file is left out silently.
        """
        notes = self.snapshot.notes.without(self._notes_at(self._before))
        return notes.model_copy(update={"lost": (*notes.lost, *self.lost)})

    @property
    def lost(self) -> tuple[WorkspaceNote, ...]:
        """What this writer noted as not restored."""
        return (*self._lost,)

    def note_lost(
        self,
        manifest_id: str | None,
        changes: Iterable[FileChange] = (),
        *,
        paths: Sequence[str] = (),
        remaining: bool = False,
    ) -> None:
        """Note what the workspace of a commit had, or had at ``paths``, and the commit does not have.

        ``changes`` are those of the workspace.  Files that are still there are noted only if ``remaining``, and if they
        have changed since the commit.  Other commits can have files at these paths, so the note is only on this commit.
        """
        missing = self._notes_at(manifest_id).not_stored
        if manifest_id is None or not missing:
            return
        at = self.chat.outline(manifest_id).record.at
        removed = {change.path for change in changes if change.new is None}
        left = self.snapshot.unstored_files(self.chat.workspace) if remaining else {}
        for note in missing:
            if paths and not any(f"{note.path}/".startswith(f"{path}/") for path in paths):
                continue
            if note.path in removed:
                what = "is removed"
            elif not os.path.lexists(self.chat.workspace / note.path):
                what = "is not restored"
            elif note.path in left and timestamps.of_ns(left[note.path].changed_ns) > at:
                what = "stays as it is now"
            else:
                continue
            reason = f"{what}, because that commit does not have it (its note: {note.reason})"
            self._lost.append(WorkspaceNote(path=note.path, reason=reason))

    def note_modes(self, manifest_id: str | None, changes: Iterable[FileChange]) -> None:
        """Note which of the changed files, and of the new folders, had a narrower mode at a commit than now."""
        modes = {
            note.path: mode
            for note in self._notes_at(manifest_id).unportable
            if (mode := narrow_modes.noted_mode(note.reason)) is not None
        }
        if not modes:
            return
        written = {change.path for change in changes if change.new is not None}
        folders = {folder for path in written for folder in folders_above(path)}
        folders.update(self.chat.state(manifest_id).empty_folders)
        written |= folders - self.snapshot.scan.folder_paths()
        for path in sorted(written & modes.keys()):
            with contextlib.suppress(OSError), Folder.opened(self.chat.workspace) as root:
                with root.parent_of(path) as (parent, name):
                    mode = os.lstat(name, dir_fd=parent).st_mode
                if reason := narrow_modes.what_was_restored(mode, modes[path]):
                    self._lost.append(WorkspaceNote(path=path, reason=reason))

    def snapshot_at(self, manifest_id: str | None) -> Snapshot:
        """Return the workspace with the files of a commit; untracked files stay in the folder."""
        left = {"not_stored": self.snapshot.notes.not_stored, "lost": ()}
        notes = self._notes_at(manifest_id).model_copy(update=left)
        return Snapshot(self.chat.state(manifest_id).tree, notes)

    def _notes_at(self, manifest_id: str | None) -> WorkspaceNotes:
        if manifest_id is None:
            return WorkspaceNotes()
        return self.chat.outline(manifest_id).record.workspace

    def commit_changes(
        self, source: Source = "edit", subject: str = "", **fields: Any
    ) -> str | None:
        """Commit the uncommitted changes of the workspace; return the head of the active branch.

        The commit's record has ``fields``.  Without ``subject``, the subject lists the changed paths.
        """
        snapshot = self.scan()
        head = self._head
        state = self.chat.state(head)
        if not snapshot.holds(state) and self._is_behind(head, snapshot):
            last = self.chat.stat_cache.head
            self.switch(self.chat.active_branch(), old=last, before=head, new=head)
            snapshot = self.scan()
        if not snapshot.holds(state):
            if not subject:
                paths = trees.changed_paths(self.chat.store, state.tree, snapshot.tree)
                subject = listed(paths) or "empty folders"
            head = self.commit(source, snapshot, subject=subject, **fields)
            self.has_edits |= source == "edit"
        self.chat.store.flush()  # write objects again that the store lost, for example in a power cut
        # At once, not only when the writer ends without an error.  Otherwise, if the operation then fails and plain
        # git moves the branch, the next writer does not know whose files the folder has, and reverts git's commit.
        self.chat.stat_cache.head = head
        return head

    def _is_behind(self, head: str | None, snapshot: Snapshot) -> bool:
        """Return whether plain git moved the active branch, and the folder has not changed since then.

        Then the folder still has the files of the previous commit, which are not a user's edit.
        """
        last = self.chat.stat_cache.head
        for manifest in self.chat.log(head):
            if manifest.id == last:
                return snapshot.holds(self.chat.state(last))
            # A commit by covalt-git moved the folder with the branch, so a difference is an edit.
            if manifest.source != "push":
                break
        return False

    def commit(
        self, source: Source, snapshot: Snapshot, *, branch: str | None = None, **fields: Any
    ) -> str:
        """Add a commit, as :meth:`make`, to a branch, by default the active one; return its id.

        Raises:
            MovedError: if a push moved the branch meanwhile.
        """
        name = self.chat.active_branch() if branch is None else branch
        old = self.chat.store.read_ref(HEADS + name)
        oid = self.make(source, snapshot, old, **fields)
        move_branch(self.chat.store, name, old, oid)
        return oid

    def commit_files(
        self, source: Source, files: FolderState, head: str | None, *merged: str, **fields: Any
    ) -> tuple[str, list[FileChange]]:
        """Change the workspace to files, in a commit on the active branch; return the commit's id and the changes.

        ``head`` is the commit with all other changes, which :meth:`commit_changes` returned; ``merged`` are further
        parents.  The ``fields`` are as for :meth:`make`.

        Raises:
            CovaltError: if an untracked path is where a file must be written.
            MovedError: if a push moved the branch from ``head`` meanwhile; then nothing has changed.
        """
        chat = self.chat
        notes = trees.notes(chat.store, self.snapshot.notes, chat.state(head).tree, files)
        self.snapshot = replace(self.snapshot, tree=files.tree, notes=notes)
        # On `head`, not on the branch's newest commit: the files are based on it, and on any later one they
        # would revert the push that brought it
        # (test_files_are_not_committed_on_a_commit_that_was_pushed_meanwhile).
        oid = self.make(source, self.snapshot, head, *merged, **fields)
        return oid, self.switch(chat.active_branch(), old=head, before=head, new=oid)

    def make(
        self,
        source: Source,
        snapshot: Snapshot,
        *parents: str | None,
        subject: str,
        message_id: str | None = None,
        **fields: Any,
    ) -> str:
        """Store a commit, and everything that it reaches, durably, without moving a branch to it; return its id.

        The commit's record has ``fields``; its id, time and author are new unless they are among these.  Parents can
        be None: a branch without commits has no newest one.
        """
        chat, store = self.chat, self.chat.store
        new = {"id": new_id(), "at": commits.now(), "by": self.by, "workspace": snapshot.notes}
        commit = commits.build(
            store.write_tree([]) if snapshot.tree is None else snapshot.tree,
            tuple(filter(None, parents)),
            source,
            CommitRecord(**(new | fields)),
            chat.records,
            subject=subject,
            message_id=message_id,
        )
        # The record's large fields before the commit that refers to them; the flush makes all of it durable
        # before any ref moves.
        chat.records.save()
        oid = store.write_commit(signed(commit, chat.signing_key, chat.id))
        store.flush()
        return oid

    # Branches

    def checkout(self, name: str) -> list[FileChange]:
        """Check out a branch, after committing uncommitted changes; return the changed files.

        Raises:
            UnknownNameError: if the branch does not exist; the hint has the most similar one.
            CovaltError: if an untracked path is where a file must be written.
            CovaltError: if the branch contains a path that a scan never stores.
        """
        target = self.chat.branch(name)
        head = self.commit_changes()
        if target.active:
            return []
        at = target.manifest_id
        changes = self.switch(name, old=head, before=at, new=at)
        self.note_lost(at, changes)
        return changes

    def switch(
        self, name: str, *, old: str | None, before: str | None, new: str | None
    ) -> list[FileChange]:
        """Move a branch, or create it, and switch to it; return the changed files.

        Args:
            name: the branch; it can be the active one.
            old: the commit with the files of the workspace, after all changes were committed.
            before: the commit that the branch is at; None if it has none.
            new: the commit to which it moves.

        Raises:
            CovaltError: if an untracked path is where a file must be written.
            CovaltError: if the new commit contains a path that a scan never stores.
            MovedError: if a push moved the branch in the meantime; then nothing has changed.
        """
        chat, moves = self.chat, before != new
        # If neither the files nor HEAD change, the compare-and-swap of the branch is the only step, and needs no journal.
        if name != chat.active_branch() or chat.state(old) != chat.state(new):
            journal = Journal(old=old, new=new, head=HEADS + name, moves=moves, before=before)
            changes = self.folder.switch(journal, self.snapshot.unstored())
            self.note_modes(new, changes)
            return changes
        if moves:
            move_branch(chat.store, name, before, new)
        return []

    def put_back(self, snapshot: Snapshot) -> None:
        """Restore the files of the active branch in a folder whose content is ``snapshot``.

        The snapshot becomes a commit without a branch.  So the journal of the switch has two commits, and if the
        process dies, the next writer can complete the switch.
        """
        head = self.chat.head()
        left = self.make("edit", snapshot, head, subject="put back")
        self.folder.switch(Journal(old=left, new=head, head=self.chat.store.head()))

    # Calls and approvals

    def put_call(self, call: PendingCall) -> None:
        """Store a pending or running call, before it changes anything."""
        store = self.chat.store
        if call.status == "running":
            if self.holder is not None:
                # On the server before the tool starts: if this node dies, another one must not run the call again.
                put_stored(store, RUNNING, call, f"call: {call.tool_id} {call.status}")
                try:
                    self.holder.push()
                except BaseException:
                    # The tool has not started, so the next push must not say that the call runs.
                    put_stored(store, RUNNING, None)
                    raise
            running_call.put(store.path, call, durable=store.durable)
            return
        if not put_stored(store, CALLS + call.id, call, f"call: {call.tool_id} {call.status}"):
            raise MovedError(
                f"another process has changed the pending call {call.id}", hint="try again"
            )
        self._forget_running(call.id)  # the tool's own code required approval

    def drop_call(self, call_id: str) -> None:
        """Remove a stored pending or running call, after its outcome was committed."""
        put_stored(self.chat.store, CALLS + call_id, None)
        self._forget_running(call_id)

    def _forget_running(self, call_id: str) -> None:
        running_call.forget(self.chat.store.path, call_id)
        if self.holder is not None:
            call = stored_at(self.chat.store, RUNNING, PendingCall)
            if call is not None and call.id == call_id:
                put_stored(self.chat.store, RUNNING, None)

    def put_approval(self, approval: Approval, *, before: Approval | None = None) -> bool:
        """Store an approval if the stored one equals ``before``; return whether it does.

        Decisions are stored only by this method, so an approval is decided once.
        """
        store, ref = self.chat.store, APPROVALS + approval.execution_id
        # Compared and swapped from the same object: between two reads, another process could decide
        # (test_approval_that_is_decided_meanwhile_is_not_decided_again).
        old = store.read_ref(ref)
        if before != (None if old is None else read_stored(store, old, Approval)):
            return False
        if approval.state == "pending":
            self.note_due(approval)
        else:
            self.due = ""  # the next writer looks whether its call was recorded
        subject = f"approval: {approval.tool_id} {approval.state}"
        return store.swap_ref(ref, old, write_stored(store, approval, subject))

    def note_due(self, approval: Approval) -> None:
        """Note when a pending approval expires."""
        self.due = min(self.due, approval.expires_at)

    def decide(self, approval: Approval, state: ApprovalState, **fields: str | None) -> bool:
        """Store a decision on an approval, taken now, with ``fields`` such as ``decided_by``.

        Returns whether the stored approval still equaled ``approval``.
        """
        decision = {"state": state, "decided_at": commits.now()} | fields
        return self.put_approval(approval.model_copy(update=decision), before=approval)

    def finish_call(
        self, call: PendingCall, record: CallRecord, *, snapshot: Snapshot | None = None
    ) -> str:
        """Commit a call, and remove its stored pending or running state; return the commit's id.

        ``snapshot`` is the workspace after the call.  Without it, the call never ran: its commit is on the branch
        on which it was requested, with the files of the previous commit.
        """
        if snapshot is None:
            head = self.chat.branch(call.branch).manifest_id
            notes = self._notes_at(head).model_copy(update={"lost": ()})
            snapshot = Snapshot(self.chat.state(head).tree, notes)
        oid = self.commit(
            "tool_run",
            snapshot,
            branch=call.branch,
            subject=call.tool_id,
            message_id=call.message_id,
            id=call.id,
            at=record.finished_at,
            by=call.by,
            call=record,
        )
        # After the commit: a process that is killed in between leaves a call that recovery finds in the
        # history, and not one that has disappeared.
        self.drop_call(call.id)
        return oid
