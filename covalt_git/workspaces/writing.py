"""Changing a chat: the one writer that holds its lock, and all it may do.

Every change ends in one compare-and-swap of a ref; before it, everything that the ref will reach is
on the disk.  Taking the lock first finishes what a killed process left: lock files, a half switched
folder, and calls that were running (recorded as errors, with what they had changed).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_objects import EXECUTABLE, FILE, blob_id
from covalt_git.models.calls import CallError
from covalt_git.models.commit_record import (
    CallRecord,
    CommitRecord,
    Source,
    UploadedFile,
    WorkspaceNotes,
)
from covalt_git.names import check_branch, new_id
from covalt_git.paths import check_element
from covalt_git.workspaces import commits, materialize, snapshot, trees
from covalt_git.workspaces.chats import (
    APPROVALS,
    CALLS,
    HEADS,
    ChatStore,
    read_stored,
    write_stored,
)
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.materialize import FolderState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from covalt_git.models.calls import Approval, PendingCall
    from covalt_git.models.chats import FileChange

PERSON = "local"
"""The principal of whoever sits at this machine."""


class ChatBusyError(CovaltError):
    """Somebody else is writing to the chat and did not finish in time."""

    code = "chat_busy"
    http_status = 409


class BranchExistsError(CovaltError):
    """There is a branch of that name."""

    code = "branch_exists"
    http_status = 409


class MovedError(CovaltError):
    """A ref is not where it was: another writer, such as a push, came first."""

    code = "moved"
    http_status = 409


@contextlib.contextmanager
def writing(
    chat: ChatStore,
    *,
    by: str = PERSON,
    timeout_s: float = 30,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[Writer]:
    """Hold the chat's lock and yield its writer; ``waiting`` is told once, who holds it meanwhile.

    Raises:
        ChatBusyError: when the lock is not free after ``timeout_s`` seconds.
    """
    path = chat.folder / "lock"
    with path.open("a+", encoding="utf-8") as lock:
        _take(lock.fileno(), path, chat.id, timeout_s, waiting)
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        writer = Writer(chat, by)
        writer.recover()
        yield writer
        lock.truncate(0)


def _take(
    handle: int, path: Path, chat_id: str, timeout_s: float, waiting: Callable[[str], None] | None
) -> None:
    end = time.monotonic() + timeout_s
    pause = 0.002
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = path.read_text(encoding="utf-8") or "another process"
            if time.monotonic() > end:
                raise ChatBusyError(
                    f"chat {chat_id!r} is busy: {holder} has been writing for {timeout_s:g} s",
                    hint="try again when it has finished",
                ) from None
            if waiting is not None:
                waiting(holder)
                waiting = None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        else:
            return


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to add: the name it should have, and its content."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(slots=True)
class Writer:
    """What may be done to a chat while its lock is held."""

    chat: ChatStore
    by: str

    # States

    def look(self) -> snapshot.Snapshot:
        """Return the folder as it is now, its content stored."""
        if not self.chat.workspace.exists():
            self.chat.workspace.mkdir()
        return snapshot.take(self.chat.store, self.chat.workspace, self.chat.config)

    def save_edits(self) -> str | None:
        """Make what a person changed in the folder a manifest; return the branch's manifest.

        A folder that is not there at all, as after a clone, is brought to the branch's manifest.
        """
        head = self.chat.head()
        state = self.chat.state(head)
        if not self.chat.workspace.exists():
            self._switch(FolderState(), state)
            return head
        seen = self.look()
        if same(seen, state):
            return head
        changes = self._changed(state.tree, seen.tree)
        return self.commit(
            "edit",
            CommitRecord(id=new_id(), at=commits.now(), by=self.by, workspace=seen.notes),
            seen.tree,
            subject=_some(changes) or "empty folders",
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
        ref = self.chat.store.head() if branch is None else HEADS + branch
        before = self.chat.store.read_ref(ref)
        commit = commits.build(
            self.chat.store.write_tree([]) if tree is None else tree,
            () if before is None else (before,),
            source,
            record,
            self.chat.records,
            subject=subject,
            message_id=message_id,
        )
        self.chat.records.save()
        oid = self.chat.store.write_commit(commit)
        if not self.chat.store.swap_ref(ref, before, oid):
            raise MovedError(f"the branch {ref.removeprefix(HEADS)!r} has moved", hint="try again")
        return oid

    # Branches

    def create_branch(self, name: str, manifest_id: str | None) -> None:
        """Make a branch at a manifest; no commit is made.

        Raises:
            BranchExistsError: when there is one.
            CovaltError: when there is no manifest to branch from.
        """
        check_branch(name)
        names = [branch.name for branch in self.chat.branches()]
        if name in names:
            raise BranchExistsError(
                f"there is a branch {name!r}",
                hint=f"covalt-git chat checkout {self.chat.id} {name}",
            )
        for known in names:
            if known.startswith(f"{name}/") or name.startswith(f"{known}/"):
                raise BranchExistsError(
                    f"there is a branch {known!r}, so {name!r} cannot be one", hint="choose another"
                )
        if manifest_id is None:
            raise CovaltError(
                f"chat {self.chat.id!r} has no manifest to branch from",
                hint=f"make the first: covalt-git chat upload {self.chat.id} FILE",
            )
        if not self.chat.store.swap_ref(HEADS + name, None, manifest_id):
            raise BranchExistsError(f"there is a branch {name!r}", hint="choose another name")

    def checkout(self, name: str) -> list[FileChange]:
        """Bring the folder to a branch; return what changed in it.

        What a person changed is saved on the branch they were on first.

        Raises:
            UnknownNameError: naming the nearest branch.
            InTheWayError: when something that is in no state stands where a file goes.
        """
        target = self.chat.branch(name)
        head = self.save_edits()
        if target.active:
            return []
        old, new = self.chat.state(head), self.chat.state(target.manifest_id)
        seen = self.look()
        materialize.check_way(self.chat.store, old, new, seen.left_in_place)
        journal = materialize.Journal(old=head, new=target.manifest_id, head=HEADS + name)
        materialize.write_journal(self._journal, journal)
        changes = self._switch(old, new)
        self.chat.store.set_head(journal.head)
        materialize.remove_journal(self._journal)
        return changes

    # Uploads

    def upload(self, uploads: Sequence[Upload], *, folder: str = "") -> list[UploadedFile]:
        """Add files to the workspace as one manifest; return where each of them is now.

        A name that is taken gets a number (``report_1.csv``), unless the content is the same.

        Raises:
            CovaltError: for a name or a size that cannot be stored; nothing was added.
        """
        for upload in uploads:
            self._check_upload(upload)
        self.save_edits()
        placed: list[UploadedFile] = []
        with Folder.opened(self.chat.workspace) as root:
            for upload in uploads:
                wanted = f"{folder.strip('/')}/{upload.name}".lstrip("/")
                path = self._place(root, wanted, upload)
                renamed = wanted if path != wanted else None
                placed.append(UploadedFile(path=path, renamed_from=renamed))
        seen = self.look()
        if not same(seen, self.chat.state(self.chat.head())):
            record = CommitRecord(
                id=new_id(),
                at=commits.now(),
                by=self.by,
                upload=tuple(placed),
                workspace=seen.notes,
            )
            names = ", ".join(file.path for file in placed)
            self.commit("user_upload", record, seen.tree, subject=names)
        return placed

    def _check_upload(self, upload: Upload) -> None:
        verdict = check_element(upload.name)
        if verdict.kind == "refused":
            raise CovaltError(f"{upload.name!r} cannot be stored: {verdict.reason}")
        most = self.chat.config.max_file_mb
        if len(upload.content) > most << 20:
            raise CovaltError(
                f"{upload.name!r} is larger than {most} MiB",
                hint="raise workspace.max_file_mb in covalt.yaml",
            )

    def _place(self, root: Folder, wanted: str, upload: Upload) -> str:
        mode = EXECUTABLE if upload.executable else FILE
        object_format = self.chat.store.object_format
        oid = blob_id(upload.content, object_format)
        stem, dot, ending = wanted.rpartition(".")
        if not stem or "/" in ending or stem.endswith("/"):
            stem, dot, ending = wanted, "", ""
        path, number = wanted, 0
        while root.exists(path):
            there = root.state(path, object_format)
            if there is not None and there.oid == oid:
                return path
            number += 1
            path = f"{stem}_{number}{dot}{ending}"
        root.write(
            path, mode, upload.content, staging=self._staging, durable=self.chat.store.durable
        )
        return path

    # Calls and approvals

    def put_call(self, call: PendingCall) -> None:
        """Write down that a call waits or runs, before anything of it happens."""
        ref = CALLS + call.id
        if not self._move_stored(ref, self.chat.store.read_ref(ref), call):
            raise MovedError(f"the call {call.id} has moved", hint="try again")

    def drop_call(self, call_id: str) -> None:
        """Forget a waiting or running call: its commit says all there is to say."""
        ref = CALLS + call_id
        before = self.chat.store.read_ref(ref)
        if before is not None and self.chat.store.swap_ref(ref, before, None):
            self.chat.store.discard(before)

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
        """Let a ref hold another value, and remove the one it held; return whether it moved."""
        store = self.chat.store
        new = write_stored(store, value)
        moved = new == old or store.swap_ref(ref, old, new)
        if moved and old not in {None, new}:
            store.discard(str(old))
        return moved

    def finish_call(
        self, call: PendingCall, record: CallRecord, *, seen: snapshot.Snapshot | None = None
    ) -> str:
        """Make the commit of a call and forget that it was running; return the manifest's id.

        ``seen`` is the folder after the call.  Without it the call never ran: its commit goes on
        the branch it was asked for, with the files that are there.
        """
        if seen is None:
            state = self.chat.state(self.chat.branch(call.branch).manifest_id)
            tree, notes = state.tree, WorkspaceNotes(empty_folders=state.empty_folders)
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

    # Recovery

    def recover(self) -> None:
        """Finish what a process that died had begun; only whoever holds the lock may."""
        store = self.chat.store
        store.clear_stale_locks()
        self._staging.mkdir(exist_ok=True)
        for path in self._staging.iterdir():
            path.unlink()
        journal = materialize.read_journal(self._journal)
        if journal is not None:
            self._switch(self.chat.state(journal.old), self.chat.state(journal.new))
            store.set_head(journal.head)
            materialize.remove_journal(self._journal)
        for call in self.chat.calls():
            if self._is_committed(call):
                self.drop_call(call.id)
            elif call.status == "running":
                seen = self.look() if self.chat.active_branch() == call.branch else None
                message = "the process that ran it ended before the tool did"
                self.finish_call(call, unfinished(call, "interrupted", message), seen=seen)
            elif call.execution_id is not None:
                self._settle(call, self.chat.approval(call.execution_id))

        waiting = {call.id for call in self.chat.calls()}
        for approval in self.chat.approvals():
            if approval.state == "pending" and approval.call_id not in waiting:
                self.put_approval(_expired(approval), before=approval)

    def _settle(self, call: PendingCall, approval: Approval | None) -> None:
        """Record a waiting call whose approval can no longer come."""
        if approval is not None and approval.state == "pending":
            if approval.expires_at > commits.now():
                return
            self.put_approval(_expired(approval), before=approval)
            approval = _expired(approval)
        state = "lost" if approval is None else approval.state
        code, message = _ENDINGS.get(state, _ENDINGS["lost"])
        self.finish_call(call, unfinished(call, code, message))

    def _is_committed(self, call: PendingCall) -> bool:
        for manifest in self.chat.log(self.chat.store.read_ref(HEADS + call.branch)):
            if manifest.id == call.base:
                return False
            if manifest.record.id == call.id:
                return True
        return False

    # The folder

    @property
    def _journal(self) -> Path:
        return self.chat.folder / "switch.json"

    @property
    def _staging(self) -> Path:
        return self.chat.folder / "staging"

    def _switch(self, old: FolderState, new: FolderState) -> list[FileChange]:
        return materialize.switch(
            self.chat.store,
            self.chat.workspace,
            old,
            new,
            staging=self._staging,
            durable=self.chat.store.durable,
        )

    def _changed(self, old: str | None, new: str | None) -> list[str]:
        return [change.path for change in trees.changes(self.chat.store, old, new)]


def _expired(approval: Approval) -> Approval:
    return approval.model_copy(update={"state": "expired", "decided_at": commits.now()})


_ENDINGS = {
    "approved": ("interrupted", "it was approved, and the process ended before it ran"),
    "denied": ("denied", "a person denied it"),
    "expired": ("expired", "nobody approved it in time"),
    "lost": ("interrupted", "its approval is gone"),
}


def unfinished(call: PendingCall, code: str, message: str, *, hint: str = "") -> CallRecord:
    """Return the record of a call that never came to its end."""
    return CallRecord(
        tool_id=call.tool_id,
        args=call.args,
        status="error",
        error=CallError(code=code, message=message, hint=hint),
        started_at=call.started_at,
        finished_at=commits.now(),
        toolset=call.toolset,
        execution_id=call.execution_id,
    )


def same(seen: snapshot.Snapshot, state: FolderState) -> bool:
    """Tell whether a snapshot is that state."""
    return FolderState(seen.tree, seen.notes.empty_folders) == state


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""  # noqa: PLR2004 - a short line
    return ", ".join(paths[:3]) + more
