"""The API's chats: their states and branches, and moving between them."""

# ruff: noqa: TC001 - pydantic reads the annotations when it makes the models

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.errors import UnknownNameError
from covalt_git.json_values import JsonObject
from covalt_git.models.calls import CallStatus
from covalt_git.models.chats import Branch, Origin
from covalt_git.models.commit_record import Made, Source
from covalt_git.workspaces import unsaved
from covalt_git.workspaces.commit_names import NAMES
from covalt_git.workspaces.conversation import Conversation
from covalt_server import request_context
from covalt_server.api.changes import Change, Notes, notes, told
from covalt_server.api.http import Answer, Asked, InvalidRequestError, Nothing, PathText, operation

if TYPE_CHECKING:
    from covalt_git.index.history import HistoryRow
    from covalt_git.workspaces.chats import ChatStore

_HIDDEN = "a tool call"


class GetChat(Asked):
    """Which chat."""

    chat_id: str = Field(max_length=200)


class CreateChat(Asked):
    """A chat to make."""

    chat_id: str | None = Field(None, max_length=200, description="null: the next of c1, c2, ...")
    title: str = Field("", max_length=500)


class ListManifests(Asked):
    """Which part of a chat's history."""

    chat_id: str = Field(max_length=200)
    branch: str | None = Field(None, max_length=200, description="Only this branch; else all.")
    limit: int = Field(100, ge=1, le=500)
    before: str | None = Field(
        None, max_length=200, description="Go on behind this manifest, the last of the page before."
    )


class GetWorkspaceManifest(Asked):
    """Which manifest: by itself, or as the last one of a message; HEAD where neither is given."""

    chat_id: str = Field(max_length=200)
    manifest: str | None = Field(
        None,
        max_length=200,
        description=NAMES,
    )
    message_id: str | None = Field(None, max_length=200)


class ListBranches(Asked):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class CreateBranch(Asked):
    """A branch to make; without ``from_manifest`` at the folder as it is now."""

    chat_id: str = Field(max_length=200)
    name: str = Field(max_length=200)
    from_manifest: str | None = Field(None, max_length=200)


class SwitchBranch(Asked):
    """Which branch to go to."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)


class SaveEdits(Asked):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class ChatFacts(Answer):
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


class ChatRow(ChatFacts):
    """A chat in a list."""


class DamagedChat(Answer):
    """A chat whose store cannot be read; lists show it as it was."""

    chat_id: str
    message: str
    hint: str


class ChatList(Answer):
    """The chats, newest first."""

    chats: tuple[ChatRow, ...]
    damaged: tuple[DamagedChat, ...]


class WaitingCall(Answer):
    """A call that waits for a person, or runs."""

    call_id: str
    tool_id: str
    status: CallStatus
    branch: str
    started_at: str
    execution_id: str | None


class ChatStatus(Answer):
    """The folder as it is now, against the manifest of its branch."""

    changes: tuple[Change, ...] = Field(description="Edits that the next step saves.")
    ignored: tuple[PathText, ...] = Field(
        description="What workspace.ignore leaves out; kept in the folder through every switch."
    )
    workspace: Notes
    waiting: tuple[WaitingCall, ...]


class ChatDetail(ChatFacts):
    """A chat with its branches and the state of its folder."""

    branches: tuple[Branch, ...]
    status: ChatStatus


class ManifestRow(Answer):
    """One state of a chat's files, and what made it.

    Where a call of a tool that does not exist for the role made it, ``title`` does not name the
    tool, and ``status`` is null.
    """

    id: str
    parents: tuple[str, ...]
    created_at: str
    source: Source
    source_ref: str | None
    made: Made = Field(
        description="elsewhere: it came by a push or an import, so that nothing it says of itself counts."
    )
    message_id: str | None
    title: str = Field(description="What was done, in one line.")
    status: Literal["success", "error"] | None = Field(description="How the call ended, if any.")
    branches: tuple[str, ...] = Field(description="The branches that are at it.")
    files_changed: int | None = Field(description="null where it was not counted.")


class ManifestPage(Answer):
    """Part of a chat's history, newest first, children before their parents."""

    manifests: tuple[ManifestRow, ...]
    more: bool


class ManifestDetail(ManifestRow):
    """One state of a chat's files with what its maker changed.

    ``record`` is the commit's record (docs/chats.md); it is empty where a tool made the state that
    does not exist for the role.
    """

    tree_id: str
    by: str
    changes: tuple[Change, ...] = Field(description="Against its first parent.")
    record: JsonObject


class BranchList(Answer):
    """A chat's branches, by name."""

    branches: tuple[Branch, ...]


class BranchCreated(Answer):
    """A branch that was made, and where."""

    name: str
    manifest_id: str
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class BranchSwitched(Answer):
    """The branch that the folder is on now, and what changed in it."""

    branch: str
    manifest_id: str | None
    changes: tuple[Change, ...]
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class EditsSaved(Answer):
    """The manifest that holds the folder as it is."""

    manifest_id: str | None
    changed: bool
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


@operation("GET")
def list_chats(_: Nothing) -> ChatList:
    """List the chats, newest first."""
    damaged = request_context.index().sync_chats()
    return ChatList(
        chats=tuple(ChatRow(**row) for row in request_context.index().chat_rows()),
        damaged=tuple(
            DamagedChat(chat_id=chat_id, message=error.message, hint=error.hint)
            for chat_id, error in damaged
        ),
    )


@operation("GET", errors=(404,))
def get_chat(asked: GetChat) -> ChatDetail:
    """Tell about one chat: its branches, the edits that no manifest holds yet, and what waits."""
    chat = request_context.chat(asked.chat_id)
    return ChatDetail(**_row(chat), branches=tuple(chat.branches()), status=_status(chat))


@operation("POST", errors=(409,))
def create_chat(asked: CreateChat) -> ChatRow:
    """Make a chat with an empty workspace."""
    with request_context.project().chats.new(asked.chat_id, title=asked.title) as chat:
        return ChatRow(**_row(chat))


@operation("GET", errors=(404,))
def list_manifests(asked: ListManifests) -> ManifestPage:
    """List the states of a chat's files, newest first: of one branch, or of all."""
    chat = request_context.chat(asked.chat_id)
    head = None if asked.branch is None else chat.branch(asked.branch).manifest_id
    if asked.branch is not None and head is None:
        return ManifestPage(manifests=(), more=False)
    request_context.index().sync_chat(chat)
    page = request_context.index().manifests(
        chat.id, head=head, limit=asked.limit, before=asked.before
    )
    return ManifestPage(manifests=tuple(_manifest_row(row) for row in page.rows), more=page.more)


@operation("GET", errors=(404,), tagged=True)
def get_workspace_manifest(asked: GetWorkspaceManifest) -> ManifestDetail:
    """Tell about one state of a chat's files: what made it, and what that changed.

    A message's manifest is the last one that was made for it; where several branches have one, that
    of the active branch.
    """
    chat = request_context.chat(asked.chat_id)
    manifest = chat.manifest(_manifest_id(chat, asked))
    call = manifest.record.call
    shown = call is None or request_context.catalog().sees(call.tool_id)
    changes = chat.changes(manifest.parent_id, manifest.id)
    return ManifestDetail(
        id=manifest.id,
        parents=manifest.parents,
        tree_id=manifest.tree_id,
        created_at=manifest.created_at,
        source=manifest.source,
        source_ref=manifest.source_ref,
        made=manifest.made,
        message_id=manifest.message_id,
        title=manifest.title if shown else _HIDDEN,
        status=call.status if call and shown else None,
        branches=tuple(one.name for one in chat.branches() if one.manifest_id == manifest.id),
        files_changed=len(changes),
        by=manifest.record.by,
        changes=told(changes),
        record=manifest.record.model_dump(mode="json", exclude_defaults=True) if shown else {},
    )


@operation("GET", errors=(404,))
def list_branches(asked: ListBranches) -> BranchList:
    """List a chat's branches and the manifests they are at."""
    return BranchList(branches=tuple(request_context.chat(asked.chat_id).branches()))


@operation("POST", errors=(404, 409))
def create_branch(asked: CreateBranch) -> BranchCreated:
    """Make a branch at a manifest, or at the folder as it is now; the folder stays where it is."""
    chat = request_context.chat(asked.chat_id)
    start = asked.from_manifest
    with request_context.writing(chat) as writer:
        oid = writer.save_edits() if start is None else request_context.index().resolve(chat, start)
        writer.create_branch(asked.name, oid)
    assert oid is not None  # there is no branch at nothing
    return BranchCreated(name=asked.name, manifest_id=oid, notes=notes(writer.fresh_notes()))


@operation("POST", errors=(404, 409))
def switch_branch(asked: SwitchBranch) -> BranchSwitched:
    """Bring the folder to a branch; edits are saved on the branch they were made on."""
    chat = request_context.chat(asked.chat_id)
    with request_context.writing(chat) as writer:
        changes = writer.checkout(asked.branch)
    return BranchSwitched(
        branch=asked.branch,
        manifest_id=chat.head(),
        changes=told(changes),
        notes=notes(writer.fresh_notes()),
    )


@operation("POST", errors=(404, 409))
def save_edits(asked: SaveEdits) -> EditsSaved:
    """Make what a person changed in the folder a manifest, if anything did change."""
    chat = request_context.chat(asked.chat_id)
    with request_context.writing(chat) as writer:
        before = chat.head()
        after = writer.save_edits()
    return EditsSaved(manifest_id=after, changed=after != before, notes=notes(writer.fresh_notes()))


def _row(chat: ChatStore) -> JsonObject:
    request_context.index().sync_chat(chat)
    row = request_context.index().chat_row(chat.id)
    assert row is not None
    return row


def _status(chat: ChatStore) -> ChatStatus:
    with chat.looking() as seen:
        changes = unsaved.changes(chat, seen.tree, unsaved.begun_switch(chat))
        return ChatStatus(
            changes=told(changes),
            ignored=seen.ignored,
            workspace=notes(seen.notes),
            waiting=tuple(
                WaitingCall(
                    call_id=call.id,
                    tool_id=call.tool_id,
                    status=call.status,
                    branch=call.branch,
                    started_at=call.started_at,
                    execution_id=call.execution_id,
                )
                for call in chat.calls()
                if request_context.catalog().sees(call.tool_id)
            ),
        )


def _manifest_row(row: HistoryRow) -> ManifestRow:
    shown = row.source != "tool_run" or request_context.catalog().sees(row.tool_id or "")
    ended = row.status if row.status in {"success", "error"} else None
    return ManifestRow(
        id=row.id,
        parents=row.parents,
        created_at=row.created_at,
        source=row.source,
        source_ref=row.source_ref,
        made=row.made,
        message_id=row.message_id,
        title=row.title if shown else _HIDDEN,
        status=ended if shown else None,
        branches=row.branches,
        files_changed=row.changed_files,
    )


def _manifest_id(chat: ChatStore, asked: GetWorkspaceManifest) -> str:
    index = request_context.index()
    if asked.message_id is None:
        return index.resolve(chat, "HEAD" if asked.manifest is None else asked.manifest)
    if asked.manifest is not None:
        raise InvalidRequestError("the manifest and the message are given; only one can be meant")
    for message in Conversation.of(chat).messages.values():
        if asked.message_id in {message.id, message.ref}:
            return message.manifest_id
    index.sync_chat(chat)  # an application's own id, of which only calls tell
    found = index.message_manifest(chat.id, asked.message_id)
    if found is None:
        list_with = f"covalt-git chat log {chat.id} --all"
        raise UnknownNameError("message", asked.message_id, (), list_with=list_with)
    return found


OPERATIONS = (
    list_chats,
    get_chat,
    create_chat,
    list_manifests,
    get_workspace_manifest,
    list_branches,
    create_branch,
    switch_branch,
    save_edits,
)
