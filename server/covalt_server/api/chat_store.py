"""The API's chats as a whole: forking, exporting, importing, freeing room, deleting."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Annotated

from pydantic import Field
from werkzeug.wrappers import Response

from covalt_git.workspaces import collecting, deleting, exporting, forking, importing
from covalt_server import request_context
from covalt_server.api.changes import PathNote
from covalt_server.api.chats import ChatRow
from covalt_server.api.http import Answer, Asked, FormFile, operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.models import commit_record
    from covalt_git.workspaces.chats import ChatStore

MOST_IMPORT_BYTES = 1 << 30
"""What a request may bring; ``covalt-git chat import`` takes larger ones."""

_MOST_NOTES = 1000
_BUSY_S = 5
_PART = 1 << 18


class ForkChat(Asked):
    """A chat to fork; without ``from_manifest`` with all branches and the folder as it is now."""

    chat_id: str = Field(max_length=200)
    from_manifest: str | None = Field(
        None, max_length=200, description="Only the history of this manifest, on a branch main."
    )
    new_chat_id: str | None = Field(
        None, max_length=200, description="null: the next of c1, c2, ..."
    )
    title: str | None = Field(None, max_length=500, description="null: the same.")


class ExportChat(Asked):
    """Which chat, or which of its branches."""

    chat_id: str = Field(max_length=200)
    branch: str | None = Field(None, max_length=200)


class ImportChat(Asked):
    """A bundle to take in: ``covalt-git chat export`` or ``git bundle create`` makes one."""

    file: Annotated[tuple[FormFile, ...], Field(min_length=1, max_length=1)]
    chat_id: str | None = Field(
        None, max_length=200, description="null: the one it had, or the next of c1, c2, ..."
    )
    title: str | None = Field(None, max_length=500, description="null: as it was.")


class CollectGarbage(Asked):
    """Which chat's."""

    chat_id: str = Field(max_length=200)
    now: bool = Field(
        default=False, description="Forget deleted branches, and keep nothing for an hour."
    )


class DeleteChat(Asked):
    """Which chat to delete for good."""

    chat_id: str = Field(max_length=200)


class ChatImported(Answer):
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


class StoreUsage(Answer):
    """What a chat's objects take: bytes of their files, how many they are, and in how many packs."""

    size: int
    objects: int
    packs: int


class GarbageCollected(Answer):
    """What was freed."""

    before: StoreUsage
    after: StoreUsage
    forgotten: tuple[str, ...] = Field(description="Deleted branches that cannot come back now.")
    records: int = Field(description="Large fields of records that went with their commits.")


class ChatDeleted(Answer):
    """What went with a chat; null where its store could not be read."""

    chat_id: str
    manifests: int | None
    branches: int | None
    waiting: int | None = Field(description="Calls that waited for a person.")
    size: int = Field(description="Bytes that the disk got back.")


@operation("POST", errors=(404, 409))
def fork_chat(asked: ForkChat) -> ChatRow:
    """Make a chat with the same history, which shares what is stored and goes its own way.

    Calls that wait for a person stay where they are.
    """
    chat = request_context.chat(asked.chat_id)
    chats = request_context.project().chats
    with request_context.writing(chat) as writer:
        start = asked.from_manifest
        at = None if start is None else request_context.index().resolve(chat, start)
        made = forking.fork(writer, chats, at=at, chat_id=asked.new_chat_id, title=asked.title)
    with made:
        _bring_folder(made)
        return _row(made)


@operation("GET", errors=(404,), media="application/octet-stream")
def export_chat(asked: ExportChat) -> Response:
    """Send a chat as one file: a bundle, which stock git clones.

    It has the branches, the records and what the chat is.  Edits that no manifest holds are not in
    it (``save_edits`` makes them one), nor are calls that wait and approvals.
    """
    chat = request_context.chat(asked.chat_id)
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        size = exporting.export(chat, file, branch=asked.branch).size
        file.seek(0)
        sent = Response(_parts(file, stack.pop_all()), mimetype="application/octet-stream")
    sent.content_length = size
    sent.headers["Content-Disposition"] = f"attachment; filename={chat.id}.bundle"
    return sent


@operation("POST", errors=(409,), multipart=lambda: MOST_IMPORT_BYTES)
def import_chat(asked: ImportChat) -> ChatImported:
    """Take in a bundle as a new chat.

    Every object, path and link of it is looked at before; nothing that comes in is run, and where
    something must not come in, nothing does.  Its commits count as made elsewhere: the chat begins with
    no calls or messages of its own.
    """
    chats = request_context.project().chats
    (file,) = asked.file
    found = importing.import_bundle(
        chats, file.stream, chat_id=asked.chat_id or None, title=asked.title
    )
    chat = request_context.chat(found.chat_id)
    with request_context.writing(chat) as writer:
        ignored = importing.left_out(writer)
    return ChatImported(
        chat=_row(chat),
        was=found.was,
        branches=found.branches,
        unportable=_notes(found.unportable),
        ignored=_notes(ignored),
        left_out=found.left_out,
    )


@operation("POST", errors=(404, 409))
def collect_garbage(asked: CollectGarbage) -> GarbageCollected:
    """Free what no branch of a chat leads to, and pack up the rest.

    A deleted branch is kept for 30 days, and what was stored in the last hour, unless ``now``.
    """
    chat = request_context.chat(asked.chat_id)
    with request_context.writing(chat) as writer:
        done = collecting.collect(writer, everything=asked.now)
    return GarbageCollected(
        before=StoreUsage(**asdict(done.before)),
        after=StoreUsage(**asdict(done.after)),
        forgotten=done.forgotten,
        records=done.records,
    )


@operation("POST", errors=(404, 409))
def delete_chat(asked: DeleteChat) -> ChatDeleted:
    """Delete a chat with its history and its folder, for good."""
    gone = deleting.delete(request_context.project().chats, asked.chat_id, timeout_s=_BUSY_S)
    request_context.index().sync_chats()
    return ChatDeleted(chat_id=asked.chat_id, **asdict(gone))


def _parts(file: IO[bytes], closing: ExitStack) -> Iterator[bytes]:
    """Yield a file part by part, and close it."""
    with closing:
        while part := file.read(_PART):
            yield part


def _bring_folder(chat: ChatStore) -> None:
    """Let a new chat have its folder, and the index know the chat."""
    with request_context.writing(chat):
        pass


def _row(chat: ChatStore) -> ChatRow:
    request_context.index().sync_chat(chat)
    row = request_context.index().chat_row(chat.id)
    assert row is not None
    return ChatRow(**row)


def _notes(found: Iterable[commit_record.PathNote]) -> tuple[PathNote, ...]:
    told = (PathNote(path=note.path, reason=note.reason) for note in found)
    return tuple(told)[:_MOST_NOTES]


OPERATIONS = (fork_chat, export_chat, import_chat, collect_garbage, delete_chat)
