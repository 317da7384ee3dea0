"""Operations on chats: list, show, create, rename, fork, export, import, collect garbage, delete."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.file_edits import restoring
from covalt_git.manifests.machine_folders import check_output
from covalt_git.manifests.state_files import locked_packages
from covalt_git.merging import branch_merge
from covalt_git.models.calls import CallStatus
from covalt_git.models.chats import Branch, Origin
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.names import ID_PATTERN, MAX_ID
from covalt_git.operations.chats.lost_work import LostWork, lost_work
from covalt_git.operations.chats.merges import WaitingConflict, waiting_conflicts
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    MANAGE_CHATS,
    ChatRequest,
    EmptyRequest,
    PathText,
    Request,
    Result,
    ResultFile,
    UploadField,
    operation,
)
from covalt_git.operations.results import Change, DamagedChat, Notes, PathNote
from covalt_git.system import atomic_write
from covalt_git.text.media_types import BYTES
from covalt_git.transfers import exporting, forking, importing
from covalt_git.workspaces import collecting
from covalt_git.workspaces.chat import write_about
from covalt_git.workspaces.disk_usage import large_store
from covalt_git.workspaces.scan import IGNORED
from covalt_git.workspaces.switching import WorkingFolder

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.workspaces.chat import ChatStore


class CreateChat(Request):
    """Request for a new chat."""

    chat_id: str | None = Field(
        None,
        max_length=200,
        description="null: the next of c1, c2, ...",
        json_schema_extra={"pattern": ID_PATTERN, "maxLength": MAX_ID},
    )
    title: str = Field("", max_length=500)


class RenameChat(ChatRequest):
    """Request: a chat and its new title; the id stays."""

    title: str = Field(max_length=500)


class ChatRow(Result):
    """A chat in a list."""

    id: str
    title: str
    created_at: str
    active_branch: str
    active_manifest_id: str | None
    active_leaf_message_id: str | None
    forked_from: Origin | None = Field(description="The chat that it was forked from, and where.")
    made_by: str | None = Field(
        description="The agent that created and uses it, `agent:NAME`; null if a user created it."
    )
    manifests: int
    tool_calls: int
    active_at: str = Field(
        description="Time of its newest commit or call; without one, of its creation."
    )
    workspace: str = Field(description="The path of its folder, on the machine of the project.")


class ChatList(Result):
    """The chats, newest first."""

    chats: tuple[ChatRow, ...]
    damaged: tuple[DamagedChat, ...]


class WaitingCall(Result):
    """A call that is pending or running."""

    call_id: str
    tool_id: str
    status: CallStatus
    branch: str
    started_at: str
    execution_id: str | None


class ChatStatus(Result):
    """The current workspace, compared with the last commit of its branch."""

    changes: tuple[Change, ...] = Field(description="Uncommitted changes.")
    ignored: tuple[PathText, ...] = Field(
        description="Paths that workspace.ignore excludes; a checkout does not change them."
    )
    workspace: Notes
    redoable: bool = Field(description="Whether the newest commit is an undo that can be redone.")
    switching_to: str | None = Field(
        description="The branch of an interrupted checkout; the next operation completes it."
    )
    conflicts: tuple[WaitingConflict, ...] = Field(description="Unresolved conflicts of merges.")
    stopped_merge: str | None = Field(
        description="The branch or commit whose merge into the active branch was last stopped by conflicts."
    )
    waiting: tuple[WaitingCall, ...]
    store_warning: str = Field(description="Warning if the store is large; empty below 2,048 MiB.")
    lost: tuple[LostWork, ...] = Field(
        description="Work of nodes that lost the lease of a chat on a git server."
    )


class ChatDetail(ChatRow):
    """A chat with its branches and the status of its workspace."""

    branches: tuple[Branch, ...]
    status: ChatStatus


MOST_IMPORT_BYTES = 1 << 30
"""Maximum size of an uploaded bundle in bytes; ``covalt-git chat import`` accepts larger ones."""

_MOST_NOTES = 1000
_BUSY_S = 5
_UNUSED_S = 30 * 24 * 3600


class ForkChat(ChatRequest):
    """A chat to fork; without ``from_manifest`` with all branches and the current workspace."""

    from_manifest: str | None = Field(
        None, max_length=200, description="Only the history of this commit, on a branch main."
    )
    new_chat_id: str | None = Field(
        None, max_length=200, description="null: the next of c1, c2, ..."
    )
    title: str | None = Field(None, max_length=500, description="null: the same.")


class ChatForked(ChatRow):
    """A forked chat; ``lacks`` are the untracked paths of the workspace."""

    lacks: tuple[PathText, ...]
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


class ExportChat(ChatRequest):
    """Request: the chat, or one of its branches, to export."""

    branch: str | None = Field(None, max_length=200)


class ImportChat(Request):
    """A bundle to import, created by ``covalt-git chat export`` or ``git bundle create``."""

    file: Annotated[tuple[UploadField, ...], Field(min_length=1, max_length=1)]
    chat_id: str | None = Field(
        None, max_length=200, description="null: the id in the bundle, or the next of c1, c2, ..."
    )
    title: str | None = Field(None, max_length=500, description="null: the title in the bundle.")


class ExportChatTo(ExportChat):
    """Request: the chat, or one of its branches, to export, and the file to write."""

    path: Path


class ChatExported(Result):
    """A written bundle: its size in bytes and its content."""

    file: str
    branches: tuple[str, ...]
    objects: int
    size: int
    lacks: tuple[PathText, ...] = Field(
        description="Paths of the workspace that no commit contains."
    )
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


class ImportChatFrom(Request):
    """A bundle, or the folder of a git repository, to import."""

    path: Path
    chat_id: str | None = None
    title: str | None = None


class CollectAllGarbage(Request):
    """Request: options for collecting the garbage of all chats."""

    now: bool = Field(
        default=False, description="Also remove deleted branches, and objects of the last hour."
    )


class CollectGarbage(ChatRequest, CollectAllGarbage):
    """Request: the chat whose garbage is collected."""


class DeleteChat(ChatRequest):
    """Request: the chat to delete permanently."""

    dry_run: bool = Field(default=False, description="Only return what would be deleted.")


class ChatImported(Result):
    """An imported chat."""

    chat: ChatRow
    was: str | None = Field(description="The id in the bundle; null if it was not a chat.")
    branches: tuple[str, ...]
    unportable: tuple[PathNote, ...] = Field(
        description="Paths that some operating systems cannot check out, at most 1,000."
    )
    ignored: tuple[PathNote, ...] = Field(
        description="Files that later commits will not contain, for example by workspace.ignore."
    )
    left_out: tuple[str, ...] = Field(description="Refs that are not imported, such as tags.")


class StoreUsage(Result):
    """Disk usage of a chat's objects: bytes, number of objects, number of packs."""

    size: int
    objects: int
    packs: int


class GarbageCollected(Result):
    """The result of a garbage collection."""

    chat_id: str
    before: StoreUsage
    after: StoreUsage
    forgotten: tuple[str, ...] = Field(
        description="Deleted branches that can no longer be restored."
    )
    records: int = Field(
        description="Number of large record fields that were deleted with their commits."
    )


class NotCollected(DamagedChat):
    """A chat whose garbage was not collected, such as a damaged one, and the error."""

    error: str = Field(description="Its code.")


class AllGarbageCollected(Result):
    """The results of all chats, and the installations of MCP servers that were removed."""

    collected: tuple[GarbageCollected, ...]
    failed: tuple[NotCollected, ...]
    removed_installations: int = Field(
        0, description="Number of installations of packages of MCP servers that were removed."
    )
    removed_size: int = Field(0, description="Their size in bytes.")


class ChatDeleted(Result):
    """The deleted content of a chat; null if its store could not be read."""

    chat_id: str
    manifests: int | None
    branches: int | None
    waiting: int | None = Field(description="Calls that were pending approval.")
    size: int = Field(description="Freed disk space in bytes.")


@operation()
def list_chats(context: Context, _: EmptyRequest) -> ChatList:
    """List the chats, newest first."""
    damaged = synced_chats(context)
    return ChatList(chats=indexed_chats(context), damaged=damaged)


def synced_chats(context: Context) -> tuple[DamagedChat, ...]:
    """Bring the index of chats up to date; return the chats whose stores are damaged."""
    damaged = context.chat_index().sync_chats()
    return DamagedChat.each(damage for damage in damaged if context.chat_exists(damage[0]))


def indexed_chats(context: Context) -> tuple[ChatRow, ...]:
    """Return the chats of the index, newest first, without a synchronization."""
    rows = context.chat_index().chat_rows()
    return tuple(_chat_row(context, row) for row in rows if context.chat_exists(row["id"]))


@operation(errors=(404,))
def get_chat(context: Context, request: ChatRequest) -> ChatDetail:
    """Return one chat: its branches, uncommitted changes, and unfinished calls."""
    chat = context.chat(request.chat_id)
    facts = dict(_row(context, chat))
    return ChatDetail(**facts, branches=tuple(chat.branches()), status=_status(context, chat))


@operation(changes=True, errors=(409,))
def create_chat(context: Context, request: CreateChat) -> ChatRow:
    """Create a chat with an empty workspace."""
    with context.project.chats.new(request.chat_id, title=request.title) as chat:
        return _row(context, chat)


@operation(changes=True, errors=(404, 409), needs=(MANAGE_CHATS,))
def rename_chat(context: Context, request: RenameChat) -> ChatRow:
    """Change the title of a chat; its id stays."""
    chat = context.chat(request.chat_id)
    with context.writing(chat):
        write_about(chat.store, chat.card().model_copy(update={"title": request.title}))
    return _row(context, chat)


@operation(changes=True, errors=(404, 409))
def fork_chat(context: Context, request: ForkChat) -> ChatForked:
    """Create a chat with the same history, which shares the stored objects and is independent of the first.

    Pending calls are not copied.
    """
    chat = context.chat(request.chat_id)
    chats = context.project.chats
    with context.writing(chat) as writer:
        # Under the lock, because the call that held it may be of a hidden tool.
        context.require_export(chat, stays=True)
        start = request.from_manifest
        at = None if start is None else context.chat_index().resolve(chat, start)
        fork = forking.fork(writer, chats, at=at, chat_id=request.new_chat_id, title=request.title)
        lacks = writer.snapshot.unstored()
    with fork:
        with context.writing(fork) as of_fork:  # this creates the folder
            pass
        notes = writer.fresh_notes()
        notes = notes.model_copy(update={"lost": (*notes.lost, *of_fork.fresh_notes().lost)})
        return ChatForked(**dict(_row(context, fork)), lacks=lacks, notes=notes)


@operation(errors=(404,))
def export_chat(context: Context, request: ExportChat) -> ResultFile:
    """Export a chat as a bundle, a single file that stock git can clone.

    It contains the branches, the records and the facts of the chat.  It does not contain uncommitted
    changes (see ``save_edits``), pending calls and approvals.
    """
    chat = context.chat(request.chat_id)
    # The caller closes the file after it was sent; an error here closes it at once.
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        size = exporting.export(chat, file, branch=request.branch).size
        # After the export, because it may contain a call that ended meanwhile.
        context.require_export(chat)
        file.seek(0)
        stack.pop_all()
    return ResultFile(f"{chat.id}.bundle", BYTES, file, size)


@operation(changes=True, errors=(404, 409), local=True)
def export_chat_to(context: Context, request: ExportChatTo) -> ChatExported:
    """Commit uncommitted changes of a chat, and write it to a bundle, which stock git can clone.

    The bundle does not contain pending calls and approvals.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        context.require_export(chat)
        writer.commit_changes()
        # The workspace has only files of the active branch, so its untracked files belong to no other export.
        of_folder = request.branch in {None, chat.active_branch()}
        lacks = writer.snapshot.unstored() if of_folder else ()
    # A clone may have a link here, which leads outside of the project.
    check_output(request.path)
    with atomic_write.create(request.path) as file:
        bundle = exporting.export(chat, file, branch=request.branch, progress=context.progress)
        # Again, because the export may contain a call that ended meanwhile.
        context.require_export(chat)
    notes = writer.fresh_notes()
    return ChatExported.of(bundle, file=str(request.path), lacks=lacks, notes=notes)


@operation(
    changes=True, errors=(409,), upload_limit=lambda _: MOST_IMPORT_BYTES, needs=(MANAGE_CHATS,)
)
def import_chat(context: Context, request: ImportChat) -> ChatImported:
    """Import a bundle as a new chat.

    All objects, paths and links are checked first; if one is forbidden, nothing is imported.  Nothing in
    the bundle is run.  Its commits count as made elsewhere, so the chat has no calls or messages yet.
    """
    (file,) = request.file
    imported_chat = importing.import_bundle(
        context.project.chats, file.stream, chat_id=request.chat_id or None, title=request.title
    )
    return _imported(context, imported_chat)


@operation(changes=True, errors=(409,), local=True, needs=(MANAGE_CHATS,))
def import_chat_from(context: Context, request: ImportChatFrom) -> ChatImported:
    """Import a bundle of any size, or the branches of a git repository, as a new chat.

    The checks are those of ``import_chat``.
    """
    chats, chat_id = context.project.chats, request.chat_id
    imported_chat = importing.import_path(chats, request.path, chat_id=chat_id, title=request.title)
    return _imported(context, imported_chat)


def _imported(context: Context, imported_chat: importing.ImportedChat) -> ChatImported:
    chat = context.chat(imported_chat.chat_id)
    with context.writing(chat) as writer:
        ignored = importing.left_out(writer)
    return ChatImported.of(
        imported_chat,
        chat=_row(context, chat),
        unportable=imported_chat.unportable[:_MOST_NOTES],
        ignored=ignored[:_MOST_NOTES],
    )


@operation(changes=True, errors=(404, 409), needs=(MANAGE_CHATS,))
def collect_garbage(context: Context, request: CollectGarbage) -> GarbageCollected:
    """Delete unreachable objects of a chat and repack its store.

    Without ``now``, deleted branches are kept for 30 days, and objects of the last hour are kept.
    """
    return _collect(context, request.chat_id, now=request.now)


@operation(changes=True, needs=(MANAGE_CHATS,))
def collect_all_garbage(context: Context, request: CollectAllGarbage) -> AllGarbageCollected:
    """Collect the garbage of all chats, and remove installed packages of MCP servers that nothing uses.

    A chat that cannot be read does not stop the others.  An installation is removed if no lock of the project has it, and
    no program was started from it for 30 days; with ``now``, regardless of the time.  A running one stays.
    """
    from covalt_git.runtime.server_packages import cache  # noqa: PLC0415 - most commands install nothing

    collected, failed = [], []
    for chat_id in context.project.chats.ids():
        try:
            collected.append(_collect(context, chat_id, now=request.now))
        except CovaltError as error:
            failed.append(NotCollected.of(error, chat_id=chat_id, error=error.code))
    removed = cache.remove_unused(
        locked_packages(context.project.root), unused_s=0 if request.now else _UNUSED_S
    )
    return AllGarbageCollected(
        collected=tuple(collected),
        failed=tuple(failed),
        removed_installations=removed.installations,
        removed_size=removed.size,
    )


def _collect(context: Context, chat_id: str, *, now: bool) -> GarbageCollected:
    def progress(step: str) -> None:
        context.report(f"{chat_id}: {step}")

    with context.project.chats.open(chat_id) as chat, context.writing(chat) as writer:
        collection = collecting.collect(writer, everything=now, progress=progress)
    return GarbageCollected.of(collection, chat_id=chat_id)


@operation(changes=True, errors=(404, 409), needs=(MANAGE_CHATS,))
def delete_chat(context: Context, request: DeleteChat) -> ChatDeleted:
    """Delete a chat with its history and its workspace permanently."""
    chats, chat_id = context.project.chats, request.chat_id
    if request.dry_run:
        return ChatDeleted.of(chats.loss(chat_id), chat_id=chat_id)
    # The role may lose the right to this while it waits for the chat's lock
    # (tests/security/test_rights_that_end_during_a_wait.py).
    gone = chats.delete(
        chat_id, timeout_s=_BUSY_S, waiting=context.waiting, check=context.require_again
    )
    context.chat_index().sync_chats()
    return ChatDeleted.of(gone, chat_id=chat_id)


def _row(context: Context, chat: ChatStore) -> ChatRow:
    context.chat_index().sync_chat(chat)
    row = context.chat_index().chat_row(chat.id)
    assert row is not None
    return _chat_row(context, row)


def _chat_row(context: Context, row: JsonObject) -> ChatRow:
    folder = context.project.chats.folder / row["id"] / "workspace"
    return ChatRow(**row, workspace=str(folder))


def _status(context: Context, chat: ChatStore) -> ChatStatus:
    folder = WorkingFolder(chat)
    # Files that an interrupted checkout has placed are not edits
    # (test_status_distinguishes_an_interrupted_checkout_from_edits).
    begun = folder.announced()
    with chat.scan_in_memory() as scan:
        changes = folder.edits(scan.tree, begun)
        head = chat.head()
        stored = WorkspaceNotes() if head is None else chat.outline(head).record.workspace
        return ChatStatus(
            changes=changes,
            ignored=scan.paths(IGNORED),
            # The notes of a call start with its own begin, so they lack what was deleted between calls
            # (test_the_status_names_what_was_not_stored_and_is_gone).
            workspace=scan.with_gone(stored, chat.workspace).notes,
            # A redo is refused once files have changed since the undo, and uncommitted changes are such a change.
            redoable=not changes and restoring.is_redoable(chat),
            switching_to=None if begun is None else begun.branch,
            conflicts=waiting_conflicts(chat, scan),
            stopped_merge=branch_merge.stopped_branch(chat),
            waiting=tuple(
                WaitingCall.of(call, call_id=call.id)
                for call in chat.calls()
                if context.visibility.sees(call.tool_id)
            ),
            store_warning=large_store(chat),
            lost=lost_work(chat),
        )
