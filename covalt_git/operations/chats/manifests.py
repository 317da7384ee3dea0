"""Operations on the commits of a chat: its workspace manifests."""

from __future__ import annotations

import posixpath
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.conversations.commit_names import NAMES
from covalt_git.conversations.conversation import Conversation
from covalt_git.errors import UnknownNameError
from covalt_git.index.history import HistoryPage
from covalt_git.json_values import JsonObject
from covalt_git.models.chats import Origin
from covalt_git.models.commit_record import CommitOrigin, Source
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    InvalidRequestError,
    Request,
    Result,
    operation,
)
from covalt_git.operations.results import Change
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.git_store import TreeEntry
    from covalt_git.index.history import HistoryRow
    from covalt_git.workspaces.chat import ChatStore


_HIDDEN = "a tool call"
_READ = 1_000
"""How many commits are read at once to find those that changed a path."""


class ListManifests(Request):
    """Which part of a chat's history."""

    chat_id: str = Field(max_length=200)
    branch: str | None = Field(None, max_length=200, description="Only this branch; else all.")
    manifest: str | None = Field(
        None, max_length=200, description=f"Only this commit and its ancestors. {NAMES}"
    )
    first_parents: bool = Field(
        default=False, description="Follow only first parents; merged branches are left out."
    )
    path: str | None = Field(
        None, max_length=4096, description="Only commits that changed this file, or files below it."
    )
    changes: bool = Field(default=False, description="Whether each row has its changes.")
    limit: int = Field(100, ge=1, le=500)
    before: str | None = Field(
        None, max_length=200, description="Go on behind this manifest, the last of the page before."
    )


class GetWorkspaceManifest(Request):
    """Which manifest: by itself, or as the last one of a message; HEAD where neither is given."""

    chat_id: str = Field(max_length=200)
    manifest: str | None = Field(
        None,
        max_length=200,
        description=NAMES,
    )
    message_id: str | None = Field(None, max_length=200)


class ManifestRow(Result):
    """One state of a chat's files, and what made it.

    Where a call of a tool that does not exist for the role made it, ``title`` does not name the
    tool, and ``status`` is null.
    """

    id: str
    parents: tuple[str, ...]
    created_at: str
    source: Source
    source_ref: str | None
    made: CommitOrigin = Field(
        description="elsewhere: it came by a push or an import, so that nothing it says of itself counts."
    )
    message_id: str | None
    title: str = Field(description="What was done, in one line.")
    status: Literal["success", "error"] | None = Field(description="How the call ended, if any.")
    branches: tuple[str, ...] = Field(description="The branches that are at it.")
    files_changed: int | None = Field(description="null where it was not counted.")
    tree_id: str
    by: str
    changes: tuple[Change, ...] | None = Field(
        description="Against its first parent; null in a list that was requested without."
    )


class ManifestPage(Result):
    """Part of a chat's history, newest first, children before their parents."""

    manifests: tuple[ManifestRow, ...]
    more: bool
    active_branch: str
    active_manifest_id: str | None


class ManifestDetail(ManifestRow):
    """One state of a chat's files with what its maker changed.

    ``record`` is the commit's record (docs/chats.md); it is empty where a tool made the state that
    does not exist for the role.
    """

    changes: tuple[Change, ...] = Field(description="Against its first parent.")
    record: JsonObject
    active_branch: str
    chat_made_by: str | None = Field(
        description="The agent that made the chat, `agent:NAME`; null where a user did."
    )
    forked_from: Origin | None = Field(description="What the chat was forked from at this commit.")


@operation(errors=(404,))
def list_manifests(context: Context, request: ListManifests) -> ManifestPage:
    """List the states of a chat's files, newest first: of one branch, or of all."""
    chat = context.chat(request.chat_id)
    if request.branch is not None and request.manifest is not None:
        raise InvalidRequestError("give a branch or a manifest, not both")
    facts = {"active_branch": chat.active_branch(), "active_manifest_id": chat.head()}
    head = None
    if request.branch is not None:
        head = chat.branch(request.branch).manifest_id
    elif request.manifest is not None:
        head = context.commit_id(chat, request.manifest)
    if head is None and (request.branch or request.manifest) is not None:
        return ManifestPage(manifests=(), more=False, **facts)
    context.index().sync_chat(chat)
    history = partial(
        context.index().manifests, chat.id, head=head, first_parents=request.first_parents
    )
    if request.path is None:
        page = history(limit=request.limit, before=request.before)
    else:
        page = _that_changed(chat, request, request.path, history)
    listed = chat if request.changes else None
    return ManifestPage(
        manifests=tuple(_manifest_row(context, row, listed) for row in page.rows),
        more=page.more,
        **facts,
    )


@operation(errors=(404,))
def get_workspace_manifest(context: Context, request: GetWorkspaceManifest) -> ManifestDetail:
    """Tell about one state of a chat's files: what made it, and what that changed.

    A message's manifest is the last one that was made for it; where several branches have one, that
    of the active branch.
    """
    chat = context.chat(request.chat_id)
    manifest = chat.manifest(_manifest_id(context, chat, request))
    call = manifest.record.call
    shown = call is None or context.catalog.sees(call.tool_id)
    changes = chat.changes(manifest.parent_id, manifest.id)
    card = chat.card()
    starts_here = card.forked_from is not None and card.forked_from.manifest_id == manifest.id
    return ManifestDetail.of(
        manifest,
        title=manifest.title if shown else _HIDDEN,
        status=call.status if call and shown else None,
        branches=tuple(one.name for one in chat.branches() if one.manifest_id == manifest.id),
        files_changed=len(changes),
        by=manifest.record.by,
        changes=changes,
        record=manifest.record.model_dump(mode="json", exclude_defaults=True) if shown else {},
        active_branch=chat.active_branch(),
        chat_made_by=card.made_by,
        forked_from=card.forked_from if starts_here else None,
    )


def _that_changed(
    chat: ChatStore, request: ListManifests, path: str, history: Callable[..., HistoryPage]
) -> HistoryPage:
    """Return a page of the commits of a history that changed a file or folder."""
    rows: list[HistoryRow] = []
    page = history(limit=_READ, before=request.before)
    changed = _changes_of(chat, path, first_parents=request.first_parents)
    while True:
        rows += filter(changed, page.rows)
        if len(rows) > request.limit or not page.more:
            return HistoryPage(tuple(rows[: request.limit]), len(rows) > request.limit)
        page = history(limit=_READ, before=page.rows[-1].id)


def _changes_of(chat: ChatStore, path: str, *, first_parents: bool) -> Callable[[HistoryRow], bool]:
    """Return the test of whether a commit has something else at the path than each of its parents."""
    path = posixpath.normpath(path)

    @cache
    def entry(tree: str) -> TreeEntry | None:
        return trees.find_entry(chat.store, tree, path)

    def changed(row: HistoryRow) -> bool:
        if not row.changed_files:
            return False
        parents = row.parents[:1] if first_parents else row.parents
        before = [entry(chat.store.read_commit(oid).tree) for oid in parents]
        return entry(row.tree_id) not in (before or [None])

    return changed


def _manifest_row(context: Context, row: HistoryRow, chat: ChatStore | None) -> ManifestRow:
    """Return a row; ``chat`` where it has its changes."""
    shown = row.source != "tool_run" or context.catalog.sees(row.tool_id or "")
    ended = row.status if row.status in {"success", "error"} else None
    return ManifestRow.of(
        row,
        title=row.title if shown else _HIDDEN,
        status=ended if shown else None,
        files_changed=row.changed_files,
        changes=chat and chat.changes(next(iter(row.parents), None), row.id),
    )


def _manifest_id(context: Context, chat: ChatStore, request: GetWorkspaceManifest) -> str:
    index = context.index()
    if request.message_id is None:
        return index.resolve(chat, "HEAD" if request.manifest is None else request.manifest)
    if request.manifest is not None:
        raise InvalidRequestError("the manifest and the message are given; only one can be meant")
    for message in Conversation.of(chat).messages.values():
        if request.message_id in {message.id, message.ref}:
            return message.manifest_id
    index.sync_chat(chat)  # an application's own id, of which only calls tell
    found = index.message_manifest(chat.id, request.message_id)
    if found is None:
        list_with = f"covalt-git chat log {chat.id} --all"
        raise UnknownNameError("message", request.message_id, (), list_with=list_with)
    return found
