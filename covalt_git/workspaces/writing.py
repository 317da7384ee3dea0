"""Writing to a chat: locks it, recovers it after a killed process, and yields its writer.

Recovery completes the unfinished work of a killed process before the next writer begins.
"""

from __future__ import annotations

import contextlib
import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import repacking
from covalt_git.git_store.incoming import PREFIX as INCOMING
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.names import LOCAL_USER
from covalt_git.system import locked_folder
from covalt_git.system.metrics import Counter
from covalt_git.workspaces import branches, commits, running_call
from covalt_git.workspaces.chat import ABOUT, HEADS, AboutChat, ChatStore, read_stored
from covalt_git.workspaces.lease import GONE, REF
from covalt_git.workspaces.lock import (
    ChatBusyError,
    ChatGoneError,
    LeaseLostError,
    held,
    is_abandoned,
)
from covalt_git.workspaces.storage import COPY
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from covalt_git.models.calls import Approval, PendingCall
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.models.reported_refs import ReportedRefs

PATIENCE_S = 600.0
"""How long a user's command waits for other writers of the chat."""

REPEATS = 2
"""How often work is performed under an assumed lease, before it takes the lease first."""

_FETCHES = 5
_ASSUMING_S = 2.0
"""Time for which a reader waits for a writer that assumes the lease, in seconds."""

COPY_READS = Counter(
    "copy_reads_total",
    "Chats that were opened: hit, if the copy of this node was up to date with the git server.",
    ("result",),
)
_ENDINGS = {
    "approved": ("interrupted", "it was approved, and the process ended before it ran"),
    "denied": ("denied", "a user denied it"),
    "expired": ("expired", "it was not approved in time"),
    "lost": ("interrupted", "its approval was lost"),
}


@contextlib.contextmanager
def writing(
    chat: ChatStore,
    *,
    by: str = LOCAL_USER,
    timeout_s: float = 30,
    waiting: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
    repeats: bool = False,
) -> Iterator[Writer]:
    """Lock the chat, recover it and yield its writer; while this waits, ``waiting`` is called with each holder.

    With ``repeats``, the caller performs the block again after a LeaseLostError with ``may_repeat``, which needs one push
    less.  It passes ``repeats=False`` the last time, and the block has no effect outside of the chat before its first push.

    Raises:
        ChatBusyError: when the lock is not free after ``timeout_s`` seconds.
        CancelledError: when ``cancel`` is set before the lock is free.
        LeaseLostError: when another node of the project has taken over the chat.
    """
    lock = held(chat.folder, chat.id, timeout_s=timeout_s, waiting=waiting, cancel=cancel)
    with lock as handover:
        writer = Writer(chat, by)
        recover_folder(writer, unclean=handover.unclean)
        with _leased(writer, timeout_s, waiting, cancel, repeats=repeats):
            recover_calls(writer, unclean=handover.unclean, due=handover.note)
            yield writer
        handover.note = writer.due
        chat.stat_cache.head = chat.head()
        # Last, because the caller's result does not depend on it, and the next writer tries again.
        with contextlib.suppress(CovaltError, OSError):
            repacking.combine(chat.store)


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """End the block without an error if the writer in it has to be repeated."""
    try:
        yield
    except LeaseLostError as error:
        if not error.may_repeat:
            raise


@contextlib.contextmanager
def _leased(
    writer: Writer,
    timeout_s: float,
    waiting: Callable[[str], None] | None,
    cancel: threading.Event | None,
    *,
    repeats: bool,
) -> Iterator[None]:
    """Write under the lease of the chat if a git server has it, and push what the block changed."""
    chat, storage = writer.chat, writer.chat.storage
    repository = storage.repository(chat.id)
    if repository is None:
        yield
        return
    from covalt_git.git_store.server_repository import (  # noqa: PLC0415 - of few projects
        PushRefusedError,
        ServerError,
    )
    from covalt_git.workspaces.lease_holder import LeaseHolder  # noqa: PLC0415

    holder = LeaseHolder(chat, repository, storage.node, storage.lease_s)
    holder.take(writer, timeout_s=timeout_s, waiting=waiting, cancel=cancel, repeats=repeats)
    writer.holder = holder
    try:
        with holder.renewed():
            try:
                yield
            except Exception:
                # What it has changed before the error, such as committed edits; the error is what the caller gets.
                with contextlib.suppress(CovaltError, OSError):
                    try:
                        holder.push(release=True)
                    except ServerError:
                        _push_later(chat)
                raise
            try:
                holder.push(release=True)
            except ServerError as error:
                _push_later(chat)
                error.hint = (
                    "its work is stored on this node, and is pushed when the git server answers"
                )
                raise
    except (LeaseLostError, PushRefusedError) as error:
        with contextlib.suppress(CovaltError, OSError):
            refused = isinstance(error, PushRefusedError)
            # The user's edits of the folder are not repeated.
            repeated = isinstance(error, LeaseLostError) and error.may_repeat
            drops = repeated and not writer.has_edits
            holder.save_lost(Writer(chat, writer.by), refused=refused, drops=drops)
        raise


def _push_left(folder: Path, config: WorkspaceConfig) -> None:
    """Push the work that a copy has and the git server does not have, as a writer does; or make it lost work.

    Raises:
        ServerError: if the server cannot be reached.
        ChatBusyError: if another process is writing.
        NotTrustedError: if the user does not trust the server any more.
    """
    from covalt_git.workspaces.lease_holder import push_lost  # noqa: PLC0415 - of few projects

    with ChatStore(folder.name, folder, config) as chat:
        # The server may have been away for hours, and the user may have ended the trust in it meanwhile.
        chat.storage.check_trust()
        try:
            with writing(chat, timeout_s=0):
                pass
        except ChatBusyError:
            # If another node has written to the chat, the work is lost work now.
            if has_unpushed(chat):
                raise
        repository = chat.storage.repository(chat.id)
        if repository is not None:
            push_lost(chat, repository)


def has_unpushed(chat: ChatStore) -> bool:
    """Return whether a copy has work that the git server does not have."""
    from covalt_git.workspaces import node_copy  # noqa: PLC0415 - of few projects

    last = node_copy.agreed(chat.store.path)
    return last is not None and bool(node_copy.unpushed_refs(chat.store, last))


def push_left_later(chat: ChatStore) -> None:
    """Push what an earlier process has left, when the git server answers."""
    if has_unpushed(chat):
        _push_later(chat)


def _push_later(chat: ChatStore) -> None:
    from covalt_git.workspaces import later_pushes  # noqa: PLC0415 - of few projects

    later_pushes.push_later(chat.folder, partial(_push_left, chat.folder, chat.config))


def follow_server(chat: ChatStore, reported: ReportedRefs | None = None) -> None:
    """Bring the node's copy of a chat to what the git server has, for a reader, which needs no lease.

    With refs that another process ``reported``, the server is not asked for them.  A copy that is as new stays.

    Raises:
        ChatGoneError: if the chat was deleted.
        NotSharedError: if the chat is on this machine only.
        ServerError: if the server cannot be reached.
    """
    repository = chat.storage.repository(chat.id)
    if repository is None:
        # Later commits may be on the server, and commits that were added here would become lost work.
        if os.path.exists(f"{chat.store.path}/{COPY}"):  # noqa: PTH110 - of each chat that is opened
            raise CopyError(chat.id)
        return
    from covalt_git.workspaces import node_copy  # noqa: PLC0415 - of few projects
    from covalt_git.workspaces.lease_holder import push_lost  # noqa: PLC0415

    last = node_copy.agreed(chat.store.path)
    if last is None:
        raise NotSharedError(chat.id)
    refs = None if reported is None else node_copy.newer(last, reported)
    chat.is_followed = refs is None
    if refs is None:
        refs = repository.refs()
    COPY_READS.add("hit" if refs == last.refs else "miss")
    if ABOUT not in refs:
        if GONE in refs:
            raise ChatGoneError(chat.id)
        raise NotSharedError(chat.id)  # the server lost it: this copy may be the last one
    if refs == last.refs:
        chat.followed = refs.get(REF)
        return
    # If a process of this node is writing, it has the lease, and the copy is as new as the server; or it assumes the lease,
    # and will learn soon whether the copy is.
    has_lease = last.lease is not None and last.lease.node == chat.storage.node
    timeout_s = 0 if has_lease else _ASSUMING_S
    with (
        contextlib.suppress(ChatBusyError, _MovesError, _UncleanError),
        held(chat.folder, chat.id, timeout_s=timeout_s, waiting=None) as handover,
    ):
        writer = Writer(chat, LOCAL_USER)
        recover_folder(writer, unclean=handover.unclean)
        for _ in range(_FETCHES):
            if node_copy.fetch(repository, chat.store, refs):
                break
            refs = repository.refs()
        else:
            raise _MovesError
        if ABOUT in refs:
            about = read_stored(chat.store, refs[ABOUT], AboutChat)
            if about.created_at != chat.card().created_at:
                raise ChatGoneError(chat.id)  # and another chat has its id
            node_copy.update(writer, chat.storage.node, refs)
            push_lost(chat, repository)
            chat.followed = refs.get(REF)
        if handover.unclean:
            raise _UncleanError  # the next writer has to recover the calls, which needs the lease


class _UncleanError(Exception):
    """The last writer left work that only a writer can complete."""


class _MovesError(Exception):
    """Another node moves refs all the time, so the copy stays as old as it is."""


class CopyError(BrokenStoreError):
    """A chat is a copy of one on a git server, and the project has no git server."""

    def __init__(self, chat_id: str) -> None:
        super().__init__(
            f"the chat {chat_id!r} is a copy of one on a git server, and storage in covalt.yaml is local",
            hint="write the storage into covalt.yaml again, and then: covalt-git storage migrate local",
        )


class NotSharedError(BrokenStoreError):
    """A chat of a project with a git server is on this machine only, or the server has lost it."""

    def __init__(self, chat_id: str) -> None:
        super().__init__(
            f"the chat {chat_id!r} is on this machine only, and storage in covalt.yaml is a git server",
            hint="covalt-git storage migrate git",
        )


def finish_left(chat: ChatStore) -> None:
    """Complete the unfinished work of a killed process, so that readers do not see it; not if the chat is locked.

    Errors are ignored here, because the next writer reports them.
    """
    has_call = running_call.read(chat.store.path) is not None
    if is_abandoned(chat.folder, has_call=has_call):
        with contextlib.suppress(CovaltError, OSError), writing(chat, timeout_s=0):
            pass


def recover(writer: Writer, *, unclean: bool = True, due: str = "") -> None:
    """Recover the locks, branches, folder, calls and approvals of a chat, in that order.

    Only the holder of the chat's lock may call this, or a part of it.
    """
    recover_folder(writer, unclean=unclean)
    recover_calls(writer, unclean=unclean, due=due)


def recover_folder(writer: Writer, *, unclean: bool) -> None:
    """Recover the locks, the branches and the workspace.

    Stale locks, temporary files and stored renames are only looked for if the last writer may have left work unfinished
    (``unclean``).
    """
    chat = writer.chat
    # Always: a push is received without the chat's lock, so the lock does not say whether it was killed.
    locked_folder.clear(chat.folder, INCOMING)
    chat.store.refresh()
    if unclean:
        # Version 0.1 created the folder with access for other users.
        mode = stat.S_IMODE(chat.folder.stat().st_mode)
        if mode & 0o077:
            # Another user of the project may own the folder.
            with contextlib.suppress(PermissionError):
                chat.folder.chmod(mode & ~0o077)
        # Stale locks first, as they would stop each of the next steps from moving a ref.
        chat.store.clear_leftovers()
        branches.finish_rename(chat.store)
        writer.folder.clear_staging()
    # Also after a clean end: an operation that continues after a failed switch, such as a push of several
    # branches, may leave its journal.  Before the calls, whose commits scan the folder: half a switch would
    # look like what a tool wrote.
    writer.folder.roll_forward()


def recover_calls(writer: Writer, *, unclean: bool, due: str) -> None:
    """Recover the calls and approvals, and a missing workspace.

    A call that was running is recorded as an error, with the files that it changed.  A pending call is recorded
    if its approval was decided or has expired.  Approvals without a call are only looked for if the last writer may have
    left work unfinished (``unclean``).  Pending calls are only read then, and from the time ``due`` on, at which the first
    of them expires, so that forgotten ones do not slow each call down.
    """
    chat = writer.chat
    if unclean or due <= commits.now() or running_call.read(chat.store.path) is not None:
        _end_calls(writer)
    else:
        writer.due = due
    if unclean:
        _expire_left(writer)
    # Last, because the commit of an interrupted call records the removal of a workspace that its tool destroyed.
    if writer.folder.restore_if_missing():
        head = chat.head()
        writer.note_modes(head, chat.tree_changes(None, chat.state(head).tree))


def _end_calls(writer: Writer) -> None:
    """Record the running call as interrupted, and each pending call that was decided or has expired."""
    chat = writer.chat
    calls = chat.calls()
    ended = _ended(chat, calls)
    for call in calls:
        if call.id in ended:
            writer.drop_call(call.id)
        elif call.status == "running" and call.server_task is not None:
            # Its server works on another machine, and the answer can still be fetched; meanwhile the chat is free
            # (`calls/servers/left_tasks.py`).
            writer.put_call(call.model_copy(update={"status": "pending"}))
        elif call.status == "running":
            # The tool may have replaced the whole workspace, and the chat must work again
            # (test_dead_call_that_destroyed_its_workspace_leaves_a_chat_that_works).
            writer.folder.remove_non_folder()
            # A node that has fetched the chat for this has no workspace yet, which must not look like one that the tool removed
            # (test_a_node_without_a_workspace_takes_no_file_away_when_it_records_the_call_of_a_dead_node).
            has_files = writer.holder is None or writer.folder.exists()
            is_active = chat.active_branch() == call.branch
            snapshot = writer.scan() if is_active and has_files else None
            message = (
                "the process that ran it ended before its outcome was recorded; "
                "the tool may have had its effect"
            )
            writer.finish_call(
                call, commits.unfinished(call, "interrupted", message), snapshot=snapshot
            )
        # An approved call that has a task has run already, and its answer can still come.
        elif call.execution_id is not None and call.server_task is None:
            _settle(writer, call, chat.approval(call.execution_id))


def _expire_left(writer: Writer) -> None:
    """Expire the pending approvals whose call is gone."""
    pending = [approval for approval in writer.chat.approvals() if approval.state == "pending"]
    awaited = {call.execution_id for call in writer.chat.calls()} if pending else set()
    for approval in pending:
        if approval.execution_id not in awaited:
            writer.decide(approval, "expired")


def _settle(writer: Writer, call: PendingCall, approval: Approval | None) -> None:
    """Record a pending call whose approval was decided or has expired."""
    state = "lost" if approval is None else approval.state
    if approval is not None and state == "pending":
        if approval.expires_at > commits.now():
            writer.note_due(approval)
            return
        writer.decide(approval, "expired")
        state = "expired"
    code, message = _ENDINGS.get(state, _ENDINGS["lost"])
    writer.finish_call(call, commits.unfinished(call, code, message))


def _ended(chat: ChatStore, calls: Sequence[PendingCall]) -> set[str]:
    """Return the ids of the calls that were committed.

    The branch of a running call cannot be deleted, so a running call whose branch is gone has ended, too.
    """
    ended: set[str] = set()
    for branch in {call.branch for call in calls}:
        open_calls = {call.id: call for call in calls if call.branch == branch}
        oid = chat.store.read_ref(HEADS + branch)
        if oid is None:
            ended.update(
                call.id
                for call in open_calls.values()
                if call.status == "running" and call.base is not None
            )
        while oid is not None and open_calls:
            # The commit of a call is above the commit on which it was requested: there the search for it ends.
            for call in list(open_calls.values()):
                if call.base == oid:
                    del open_calls[call.id]
            commit = chat.store.read_commit(oid)
            # Only a record that may be one of these calls is read: others may have results of many megabytes.
            if commits.source_ref(commit.message) in open_calls:
                recorded = chat.outline(oid).record.id
                if open_calls.pop(recorded, None) is not None:
                    ended.add(recorded)
            oid = next(iter(commit.parents), None)
    return ended
