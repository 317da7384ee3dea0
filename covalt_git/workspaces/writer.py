"""Writer of a chat: everything that the holder of the chat's lock may change.

Each change ends in one compare-and-swap of a ref.  Everything that the ref will reach is on the disk
before.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.models.calls import Approval
from covalt_git.models.commit_record import (
    CallRecord,
    CommitRecord,
    Source,
    UploadedFile,
    WorkspaceNotes,
)
from covalt_git.names import new_id
from covalt_git.workspaces import (
    commits,
    running_call,
    snapshot,
    trees,
)
from covalt_git.workspaces.chat import (
    APPROVALS,
    CALLS,
    HEADS,
    ChatStore,
    MovedError,
    read_stored,
    write_stored,
)
from covalt_git.workspaces.switching import Journal, WorkingFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import FileChange

NAMED = 3
"""How many paths a subject names."""


@dataclass(slots=True)
class Writer:
    """What may be done to a chat while its lock is held."""

    chat: ChatStore
    by: str
    _seen: snapshot.Snapshot | None = None
    _before: str | None = None

    @property
    def folder(self) -> WorkingFolder:
        """The working folder."""
        return WorkingFolder(self.chat)

    # States

    def look(self) -> snapshot.Snapshot:
        """Return the folder as it is now, its content stored; one that a tool removed is empty."""
        return self._look(self.chat.head())

    def _look(self, head: str | None) -> snapshot.Snapshot:
        if not self.folder.exists():
            self.chat.workspace.mkdir()
        if self._seen is None:
            self._before = head
        self._seen = self.chat.scan()
        return self._seen

    def fresh_notes(self) -> WorkspaceNotes:
        """Return what was seen in the folder that the manifest before this writer does not note.

        Whoever shows a person what was done shows that, too: nothing is left out silently.
        """
        if self._seen is None:
            return WorkspaceNotes()
        before = None if self._before is None else self.chat.manifest(self._before)
        told = WorkspaceNotes() if before is None else before.record.workspace
        return self._seen.notes.beyond(told)

    def left_in_place(self) -> tuple[str, ...]:
        """Return the paths that were seen in the folder and that no manifest holds."""
        return () if self._seen is None else self._seen.left_in_place

    def unstored(self) -> tuple[str, list[str]]:
        """Return the digest of the files that no commit holds, and the paths that they are at or below."""
        seen = self.look()
        return seen.unstored_digest(self.chat.workspace), seen.unstored()

    def held(self) -> tuple[int, int]:
        """Return how many files were seen in the folder, and how many bytes they hold."""
        return (0, 0) if self._seen is None else self._seen.held(self.chat.workspace)

    def noted(self, manifest_id: str | None) -> WorkspaceNotes:
        """Return the notes of a manifest as they are for another one that is made of it here and now.

        What could not be stored stays in the folder, whichever files come.
        """
        notes = WorkspaceNotes()
        if manifest_id is not None:
            notes = self.chat.manifest(manifest_id).record.workspace
        if self._seen is None:
            return notes
        return notes.model_copy(update={"not_stored": self._seen.notes.not_stored})

    def save_edits(self) -> str | None:
        """Make what a person changed in the folder a manifest; return the branch's manifest."""
        head = self.chat.head()
        state = self.chat.state(head)
        seen = self._look(head)
        if seen.holds(state):
            if self.chat.store.has_pending:  # again, as after a power cut
                self.chat.store.flush()
            return head
        return self.commit(
            "edit",
            CommitRecord(id=new_id(), at=commits.now(), by=self.by, workspace=seen.notes),
            seen.tree,
            subject=self._named(state.tree, seen) or "empty folders",
        )

    def commit(
        self,
        source: Source,
        record: CommitRecord,
        tree: str | None,
        *,
        subject: str,
        branch: str | None = None,
        message_id: str | None = None,
    ) -> str:
        """Make a manifest on a branch, the active one unless named; return its id.

        Raises:
            MovedError: when the branch moved meanwhile, which only a push can do.
        """
        active = self.chat.store.head()
        ref = active if branch is None else HEADS + branch
        before = self.chat.store.read_ref(ref)
        parents = () if before is None else (before,)
        oid = self._store(source, record, tree, parents, subject=subject, message_id=message_id)
        if not self.chat.store.swap_ref(ref, before, oid):
            raise MovedError(f"the branch {ref.removeprefix(HEADS)!r} has moved", hint="try again")
        return oid

    def make(
        self,
        source: Source,
        record: CommitRecord,
        tree: str | None,
        parents: tuple[str, ...],
        *,
        subject: str,
        message_id: str | None = None,
    ) -> str:
        """Store a manifest that no branch is at, durable with all it reaches; return its id."""
        oid = self._store(source, record, tree, parents, subject=subject, message_id=message_id)
        self.chat.store.flush()
        return oid

    def _store(
        self,
        source: Source,
        record: CommitRecord,
        tree: str | None,
        parents: tuple[str, ...],
        *,
        subject: str,
        message_id: str | None,
    ) -> str:
        commit = commits.build(
            self.chat.store.write_tree([]) if tree is None else tree,
            parents,
            source,
            record,
            self.chat.records,
            subject=subject,
            message_id=message_id,
        )
        self.chat.records.save()
        return self.chat.store.write_commit(commit)

    # Branches

    def checkout(self, name: str) -> list[FileChange]:
        """Bring the folder to a branch; return what changed in it.

        What a person changed is saved on the branch they were on first.

        Raises:
            UnknownNameError: naming the nearest branch.
            InTheWayError: when something that is in no state stands where a file goes.
            UnsafeTreeError: when the branch holds what must not come into a folder.
        """
        target = self.chat.branch(name)
        head = self.save_edits()
        if target.active:
            return []
        journal = Journal(old=head, new=target.manifest_id, head=HEADS + name)
        return self.switch(journal)

    def switch(self, journal: Journal) -> list[FileChange]:
        """Make a switch from the active branch, whose edits are saved; return what changed.

        Raises:
            InTheWayError: when something that is in no state stands where a file goes.
            UnsafeTreeError: when the new state holds what must not come into a folder.
            MovedError: when the branch was to move, and a push came first; nothing has changed.
        """
        seen = self._seen or self.look()  # when its edits were saved
        return self.folder.switch(journal, seen.left_in_place)

    def put_back(self, seen: snapshot.Snapshot) -> None:
        """Bring the folder, which is as it was seen, back to the branch's manifest.

        What was seen is kept as a manifest that no branch is at: a process that dies over it leaves
        a switch which the next writer finishes.
        """
        head = self.chat.head()
        record = CommitRecord(id=new_id(), at=commits.now(), by=self.by, workspace=seen.notes)
        parents = () if head is None else (head,)
        left = self.make("edit", record, seen.tree, parents, subject="put back")
        self.folder.switch(Journal(old=left, new=head, head=self.chat.store.head()))

    def commit_files(
        self, source: Source, subject: str, *, upload: tuple[UploadedFile, ...] = ()
    ) -> None:
        """Commit what the folder holds now, with what an ``upload`` added, if it has changed."""
        seen = self.look()
        if not seen.holds(self.chat.state(self.chat.head())):
            record = CommitRecord(
                id=new_id(), at=commits.now(), by=self.by, upload=upload, workspace=seen.notes
            )
            self.commit(source, record, seen.tree, subject=subject)

    # Calls and approvals

    def put_call(self, call: PendingCall) -> None:
        """Write down that a call waits or runs, before anything of it happens."""
        store = self.chat.store
        if call.status == "running":
            running_call.put(store.path, call, durable=store.durable)
            return
        ref = CALLS + call.id
        if not self._move_stored(ref, store.read_ref(ref), call):
            raise MovedError(f"the call {call.id} has moved", hint="try again")
        running_call.forget(store.path, call.id)  # its own code asked first

    def drop_call(self, call_id: str) -> None:
        """Forget a waiting or running call: its commit says all there is to say."""
        ref = CALLS + call_id
        before = self.chat.store.read_ref(ref)
        if before is not None:
            self.chat.store.swap_ref(ref, before, None)
        running_call.forget(self.chat.store.path, call_id)

    def put_approval(self, approval: Approval, *, before: Approval | None = None) -> bool:
        """Write an approval if it is still as it was ``before``; return whether it was.

        This is the one place where an approval is settled, so it is settled once.
        """
        store = self.chat.store
        ref = APPROVALS + approval.execution_id
        old = store.read_ref(ref)
        current = None if old is None else read_stored(store, old, type(approval))
        return current == before and self._move_stored(ref, old, approval)

    def _move_stored(self, ref: str, old: str | None, value: PendingCall | Approval) -> bool:
        """Let a ref hold another value; return whether it moved."""
        store = self.chat.store
        state = value.state if isinstance(value, Approval) else value.status
        kind = "approval" if isinstance(value, Approval) else "call"
        new = write_stored(store, value, f"{kind}: {value.tool_id} {state}")
        return new == old or store.swap_ref(ref, old, new)

    def finish_call(
        self, call: PendingCall, record: CallRecord, *, seen: snapshot.Snapshot | None = None
    ) -> str:
        """Make the commit of a call and forget that it was running; return the manifest's id.

        ``seen`` is the folder after the call.  Without it the call never ran: its commit goes on
        the branch it was asked for, with the files that are there.
        """
        if seen is None:
            head = self.chat.branch(call.branch).manifest_id
            tree = self.chat.state(head).tree
            notes = self.chat.manifest(head).record.workspace if head else WorkspaceNotes()
        else:
            tree, notes = seen.tree, seen.notes
        oid = self.commit(
            "tool_run",
            CommitRecord(
                id=call.id, at=record.finished_at, by=call.by, call=record, workspace=notes
            ),
            tree,
            subject=call.tool_id,
            branch=call.branch,
            message_id=call.message_id,
        )
        self.drop_call(call.id)
        return oid

    def _named(self, old: str | None, seen: snapshot.Snapshot) -> str:
        """Return some of the paths that differ from a tree."""
        if old is None:  # of the first files of a chat, which may be very many, a few are read
            paths = itertools.islice(trees.files_in(self.chat.store, seen.tree), NAMED)
            return some(list(paths), of=seen.files)
        return some(trees.changed_paths(self.chat.store, old, seen.tree))


def some(paths: Sequence[str], *, of: int | None = None) -> str:
    """Return the first of some paths, and how many more there are; ``of`` says how many in all."""
    more = (len(paths) if of is None else of) - NAMED
    return ", ".join(paths[:NAMED]) + (f" and {more} more" if more > 0 else "")
