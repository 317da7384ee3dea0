"""The API's chats: their states and branches, and moving between them."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.file_edits import undoing
from covalt_git.models.calls import CallStatus
from covalt_git.models.chats import Branch, Origin
from covalt_git.operations.chats.merges import WaitingConflict, waiting_conflicts
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    EmptyRequest,
    File,
    PathText,
    Request,
    Result,
    UploadField,
    operation,
)
from covalt_git.operations.results import Change, DamagedChat, Notes, PathNote
from covalt_git.text.media_types import BYTES
from covalt_git.transfers import exporting, forking, importing
from covalt_git.workspaces import collecting
from covalt_git.workspaces.chat import write_about
from covalt_git.workspaces.switching import WorkingFolder

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.workspaces.chat import ChatStore


class GetChat(Request):
    """Which chat."""

    chat_id: str = Field(max_length=200)


class CreateChat(Request):
    """A chat to make."""

    chat_id: str | None = Field(None, max_length=200, description="null: the next of c1, c2, ...")
    title: str = Field("", max_length=500)


class RenameChat(Request):
    """A chat and its new title; the id stays."""

    chat_id: str = Field(max_length=200)
    title: str = Field(max_length=500)


class ChatFacts(Result):
    """What lists and details say of a chat alike."""

    id: str
    title: str
    created_at: str
    active_branch: str
    active_manifest_id: str | None
    active_leaf_message_id: str | None
    forked_from: Origin | None = Field(description="The chat that it was forked from, and where.")
    made_by: str | None = Field(
        description="The agent that made it and works in it, `agent:NAME`; null where a person did."
    )
    manifests: int
    tool_calls: int
    workspace: str = Field(description="The path of its folder, on the machine of the project.")


class ChatRow(ChatFacts):
    """A chat in a list."""


class ChatList(Result):
    """The chats, newest first."""

    chats: tuple[ChatRow, ...]
    damaged: tuple[DamagedChat, ...]


class WaitingCall(Result):
    """A call that waits for a person, or runs."""

    call_id: str
    tool_id: str
    status: CallStatus
    branch: str
    started_at: str
    execution_id: str | None


class ChatStatus(Result):
    """The folder as it is now, against the manifest of its branch."""

    changes: tuple[Change, ...] = Field(description="Edits that the next step saves.")
    ignored: tuple[PathText, ...] = Field(
        description="What workspace.ignore leaves out; kept in the folder through every switch."
    )
    workspace: Notes
    redoable: bool = Field(description="Whether the newest commit is an undo that can be redone.")
    switching_to: str | None = Field(
        description="The branch of a switch that was interrupted; the next step finishes it."
    )
    conflicts: tuple[WaitingConflict, ...] = Field(description="Those that merges have left.")
    waiting: tuple[WaitingCall, ...]


class ChatDetail(ChatFacts):
    """A chat with its branches and the state of its folder."""

    branches: tuple[Branch, ...]
    status: ChatStatus


MOST_IMPORT_BYTES = 1 << 30
"""What a request may bring; ``covalt-git chat import`` takes larger ones."""


_MOST_NOTES = 1000


_BUSY_S = 5


_PART = 1 << 18


class ForkChat(Request):
    """A chat to fork; without ``from_manifest`` with all branches and the folder as it is now."""

    chat_id: str = Field(max_length=200)
    from_manifest: str | None = Field(
        None, max_length=200, description="Only the history of this manifest, on a branch main."
    )
    new_chat_id: str | None = Field(
        None, max_length=200, description="null: the next of c1, c2, ..."
    )
    title: str | None = Field(None, max_length=500, description="null: the same.")


class ChatForked(ChatRow):
    """A chat that was made from another; ``lacks`` are the paths of its folder that no commit has."""

    lacks: tuple[PathText, ...]
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class ExportChat(Request):
    """Which chat, or which of its branches."""

    chat_id: str = Field(max_length=200)
    branch: str | None = Field(None, max_length=200)


class ImportChat(Request):
    """A bundle to take in: ``covalt-git chat export`` or ``git bundle create`` makes one."""

    file: Annotated[tuple[UploadField, ...], Field(min_length=1, max_length=1)]
    chat_id: str | None = Field(
        None, max_length=200, description="null: the one it had, or the next of c1, c2, ..."
    )
    title: str | None = Field(None, max_length=500, description="null: as it was.")


class ExportChatTo(Request):
    """Which chat, or which of its branches, and the file to make."""

    chat_id: str
    path: Path
    branch: str | None = None


class ChatExported(Result):
    """A bundle that was written: its size in bytes, and what it holds."""

    file: str
    branches: tuple[str, ...]
    objects: int
    size: int
    lacks: tuple[PathText, ...] = Field(description="Paths of the folder that no commit has.")
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class ImportChatFrom(Request):
    """A bundle, or the folder of a git repository, to import."""

    path: Path
    chat_id: str | None = None
    title: str | None = None


class CollectGarbage(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)
    now: bool = Field(
        default=False, description="Forget deleted branches, and keep nothing for an hour."
    )


class CollectAllGarbage(Request):
    """How much is freed."""

    now: bool = Field(
        default=False, description="Forget deleted branches, and keep nothing for an hour."
    )


class DeleteChat(Request):
    """Which chat to delete for good."""

    chat_id: str = Field(max_length=200)
    dry_run: bool = Field(default=False, description="Only return what would be deleted.")


class ChatImported(Result):
    """A chat that came in."""

    chat: ChatRow
    was: str | None = Field(description="The id it had; null where it was no chat.")
    branches: tuple[str, ...]
    unportable: tuple[PathNote, ...] = Field(
        description="Paths that some system cannot check out, at most 1,000."
    )
    ignored: tuple[PathNote, ...] = Field(
        description="Files that later states will not hold, such as workspace.ignore leaves out."
    )
    left_out: tuple[str, ...] = Field(description="Refs that are nothing to a chat, such as tags.")


class StoreUsage(Result):
    """What a chat's objects take: bytes of their files, how many they are, and in how many packs."""

    size: int
    objects: int
    packs: int


class GarbageCollected(Result):
    """What was freed."""

    chat_id: str
    before: StoreUsage
    after: StoreUsage
    forgotten: tuple[str, ...] = Field(description="Deleted branches that cannot come back now.")
    records: int = Field(description="Large fields of records that went with their commits.")


class NotCollected(Result):
    """A chat whose garbage was not collected, such as a damaged one, and the error."""

    chat_id: str
    error: str = Field(description="Its code.")
    message: str
    hint: str


class AllGarbageCollected(Result):
    """What was freed in each chat."""

    collected: tuple[GarbageCollected, ...]
    failed: tuple[NotCollected, ...]


class ChatDeleted(Result):
    """What went with a chat; null where its store could not be read."""

    chat_id: str
    manifests: int | None
    branches: int | None
    waiting: int | None = Field(description="Calls that waited for a person.")
    size: int = Field(description="Bytes that the disk got back.")


@operation()
def list_chats(context: Context, _: EmptyRequest) -> ChatList:
    """List the chats, newest first."""
    damaged = context.index().sync_chats()
    return ChatList(
        chats=tuple(_chat_row(context, row) for row in context.index().chat_rows()),
        damaged=DamagedChat.each(damaged),
    )


@operation(errors=(404,))
def get_chat(context: Context, request: GetChat) -> ChatDetail:
    """Tell about one chat: its branches, the edits that no manifest holds yet, and what waits."""
    chat = context.chat(request.chat_id)
    facts = dict(_row(context, chat))
    return ChatDetail(**facts, branches=tuple(chat.branches()), status=_status(context, chat))


@operation(changes=True, errors=(409,))
def create_chat(context: Context, request: CreateChat) -> ChatRow:
    """Make a chat with an empty workspace."""
    with context.project.chats.new(request.chat_id, title=request.title) as chat:
        return _row(context, chat)


@operation(changes=True, errors=(404, 409))
def rename_chat(context: Context, request: RenameChat) -> ChatRow:
    """Change the title of a chat; its id stays."""
    chat = context.chat(request.chat_id)
    with context.writing(chat):
        write_about(chat.store, chat.card().model_copy(update={"title": request.title}))
    return _row(context, chat)


@operation(changes=True, errors=(404, 409))
def fork_chat(context: Context, request: ForkChat) -> ChatForked:
    """Make a chat with the same history, which shares what is stored and goes its own way.

    Calls that wait for a person stay where they are.
    """
    chat = context.chat(request.chat_id)
    chats = context.project.chats
    with context.writing(chat) as writer:
        start = request.from_manifest
        at = None if start is None else context.index().resolve(chat, start)
        made = forking.fork(writer, chats, at=at, chat_id=request.new_chat_id, title=request.title)
        lacks = writer.left_in_place()
    with made:
        with context.writing(made):  # it makes the folder
            pass
        notes = writer.fresh_notes()
        return ChatForked(**dict(_row(context, made)), lacks=lacks, notes=notes)


@operation(errors=(404,))
def export_chat(context: Context, request: ExportChat) -> File:
    """Send a chat as one file: a bundle, which stock git clones.

    It has the branches, the records and what the chat is.  Edits that no manifest holds are not in
    it (``save_edits`` makes them one), nor are calls that wait and approvals.
    """
    chat = context.chat(request.chat_id)
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        size = exporting.export(chat, file, branch=request.branch).size
        file.seek(0)
        stack.pop_all()
    return File(f"{chat.id}.bundle", BYTES, file, size)


@operation(changes=True, errors=(404, 409), local=True)
def export_chat_to(context: Context, request: ExportChatTo) -> ChatExported:
    """Commit the edits of a chat, and write it to a new file: a bundle, which stock git clones.

    Pending calls and approvals are not in it.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        writer.commit_changes()
        of_folder = request.branch in {None, chat.active_branch()}
        lacks = writer.left_in_place() if of_folder else ()
    done = exporting.export_to(chat, request.path, branch=request.branch, progress=context.progress)
    notes = writer.fresh_notes()
    return ChatExported.of(done, file=str(request.path), lacks=lacks, notes=notes)


@operation(changes=True, errors=(409,), upload_limit=lambda _: MOST_IMPORT_BYTES)
def import_chat(context: Context, request: ImportChat) -> ChatImported:
    """Take in a bundle as a new chat.

    Every object, path and link of it is looked at before; nothing that comes in is run, and where
    something must not come in, nothing does.  Its commits count as made elsewhere: the chat begins with
    no calls or messages of its own.
    """
    (file,) = request.file
    found = importing.import_bundle(
        context.project.chats, file.stream, chat_id=request.chat_id or None, title=request.title
    )
    return _imported(context, found)


@operation(changes=True, errors=(409,), local=True)
def import_chat_from(context: Context, request: ImportChatFrom) -> ChatImported:
    """Import a bundle of any size, or the branches of a git repository, as a new chat.

    The checks are those of ``import_chat``.
    """
    chats, wanted = context.project.chats, request.chat_id
    found = importing.import_path(chats, request.path, chat_id=wanted, title=request.title)
    return _imported(context, found)


def _imported(context: Context, found: importing.Imported) -> ChatImported:
    chat = context.chat(found.chat_id)
    with context.writing(chat) as writer:
        ignored = importing.left_out(writer)
    return ChatImported.of(
        found,
        chat=_row(context, chat),
        unportable=found.unportable[:_MOST_NOTES],
        ignored=ignored[:_MOST_NOTES],
    )


@operation(changes=True, errors=(404, 409))
def collect_garbage(context: Context, request: CollectGarbage) -> GarbageCollected:
    """Free what no branch of a chat leads to, and pack up the rest.

    A deleted branch is kept for 30 days, and what was stored in the last hour, unless ``now``.
    """
    return _collect(context, request.chat_id, now=request.now)


@operation(changes=True)
def collect_all_garbage(context: Context, request: CollectAllGarbage) -> AllGarbageCollected:
    """Collect the garbage of all chats; a chat that cannot be read does not stop the others."""
    collected, failed = [], []
    for chat_id in context.project.chats.ids():
        try:
            collected.append(_collect(context, chat_id, now=request.now))
        except CovaltError as error:
            failed.append(NotCollected.of(error, chat_id=chat_id, error=error.code))
    return AllGarbageCollected(collected=tuple(collected), failed=tuple(failed))


def _collect(context: Context, chat_id: str, *, now: bool) -> GarbageCollected:
    def progress(step: str) -> None:
        context.report(f"{chat_id}: {step}")

    with context.project.chats.open(chat_id) as chat, context.writing(chat) as writer:
        done = collecting.collect(writer, everything=now, progress=progress)
    return GarbageCollected.of(done, chat_id=chat_id)


@operation(changes=True, errors=(404, 409))
def delete_chat(context: Context, request: DeleteChat) -> ChatDeleted:
    """Delete a chat with its history and its folder, for good."""
    chats, chat_id = context.project.chats, request.chat_id
    if request.dry_run:
        return ChatDeleted.of(chats.loss(chat_id), chat_id=chat_id)
    gone = chats.delete(chat_id, timeout_s=_BUSY_S, waiting=context.waiting)
    context.index().sync_chats()
    return ChatDeleted.of(gone, chat_id=chat_id)


def _row(context: Context, chat: ChatStore) -> ChatRow:
    context.index().sync_chat(chat)
    row = context.index().chat_row(chat.id)
    assert row is not None
    return _chat_row(context, row)


def _chat_row(context: Context, row: JsonObject) -> ChatRow:
    folder = context.project.chats.folder / row["id"] / "workspace"
    return ChatRow(**row, workspace=str(folder))


def _status(context: Context, chat: ChatStore) -> ChatStatus:
    folder = WorkingFolder(chat)
    begun = folder.announced()
    with chat.scan_in_memory() as seen:
        changes = folder.edits(seen.tree, begun)
        return ChatStatus(
            changes=changes,
            ignored=seen.ignored,
            workspace=seen.notes,
            redoable=not changes and undoing.is_redoable(chat),
            switching_to=None if begun is None else begun.branch,
            conflicts=waiting_conflicts(chat, seen),
            waiting=tuple(
                WaitingCall.of(call, call_id=call.id)
                for call in chat.calls()
                if context.catalog.sees(call.tool_id)
            ),
        )
