"""Operations on the commits of a chat: its workspace manifests."""

from __future__ import annotations

import posixpath
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.conversations.commit_names import NAMES, UnknownCommitError
from covalt_git.conversations.conversation import Conversation
from covalt_git.errors import UnknownNameError
from covalt_git.index.history import HistoryPage
from covalt_git.json_values import JsonObject
from covalt_git.models.calls import MAY_BE_SCRIPTS, run_start
from covalt_git.models.chats import Origin
from covalt_git.models.commit_record import CommitOrigin, Source
from covalt_git.models.scripts import SCRIPT_REFS
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    ChatRequest,
    EquivalentCall,
    InvalidRequestError,
    Result,
    operation,
)
from covalt_git.operations.results import CallLine, Change
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.git_store.objects import TreeEntry
    from covalt_git.index.history import HistoryRow
    from covalt_git.workspaces.chat import ChatStore


_HIDDEN = "a tool call"
_READ = 1_000
"""Number of commits that are read at once in the search for changes of a path."""


class ListManifests(ChatRequest):
    """Request for a page of a chat's history."""

    branch: str | None = Field(None, max_length=200, description="Only this branch; else all.")
    manifest: str | None = Field(
        None, max_length=200, description=f"Only this commit and its ancestors. {NAMES}"
    )
    first_parents: bool = Field(
        default=False, description="Follow first parents only, without merged branches."
    )
    path: str | None = Field(
        None, max_length=4096, description="Only commits that changed this file, or files below it."
    )
    changes: bool = Field(default=False, description="Whether each row has its changes.")
    limit: int = Field(100, ge=1, le=500)
    before: str | None = Field(
        None,
        max_length=200,
        description="Continue after this commit, the last of the previous page.",
    )


class GetWorkspaceManifest(ChatRequest):
    """A commit, by its name, or by a message whose last commit it is; by default HEAD."""

    manifest: str | None = Field(
        None,
        max_length=200,
        description=NAMES,
    )
    message_id: str | None = Field(None, max_length=200)


class UndoneLine(Result):
    """A call that a commit undoes."""

    id: str
    tool_id: str
    object: str = Field(description="The argument that names what it works on; empty if none does.")


class ManifestRow(Result):
    """A commit of a chat, with its source.

    If the commit is a call of a tool that the role may not see, ``title`` does not contain the tool, and
    ``status`` is null.
    """

    id: str
    parents: tuple[str, ...]
    created_at: str
    source: Source
    source_ref: str | None
    made: CommitOrigin = Field(
        description="elsewhere: it was pushed or imported, so that its record is not trusted."
    )
    message_id: str | None
    title: str = Field(description="One line that describes the commit.")
    status: Literal["success", "error"] | None = Field(
        description="The call's status, if it is a call."
    )
    branches: tuple[str, ...] = Field(description="The branches that point to it.")
    call: CallLine | None = Field(
        description="The call, unless its tool does not exist for the role."
    )
    undone: UndoneLine | None = Field(
        description="The call that the commit undoes, unless its tool does not exist for the role."
    )
    undone_by: str | None = Field(
        description="The newest commit that undoes the call, on any branch."
    )
    files_changed: int | None = Field(description="null if they were not counted.")
    added_lines: int = Field(description="In its text files.")
    deleted_lines: int = Field(description="In its text files.")
    tree_id: str
    by: str
    changes: tuple[Change, ...] | None = Field(
        description="Compared with its first parent; null in a list without ``changes``."
    )
    script_id: str | None = Field(
        description="The script that made the call; null in a list without ``changes``."
    )
    waited_s: int | None = Field(
        description="Seconds for which the call waited for its approval; null in a list without ``changes``."
    )


class ManifestPage(Result):
    """A page of a chat's history, newest first, children before their parents."""

    manifests: tuple[ManifestRow, ...]
    more: bool
    active_branch: str
    active_manifest_id: str | None
    open_scripts: int = Field(description="Number of scripts of the chat that have not ended.")


class ManifestDetail(ManifestRow):
    """A commit of a chat with its changes.

    ``record`` is the commit's record (docs/explanation/chats-in-git.md); it is empty for a call of a tool that the role
    may not see.
    """

    changes: tuple[Change, ...] = Field(description="Compared with its first parent.")
    record: JsonObject
    active_branch: str
    chat_made_by: str | None = Field(
        description="The agent that created the chat, `agent:NAME`; null if a user created it."
    )
    forked_from: Origin | None = Field(
        description="The chat from which it was forked at this commit."
    )


def _logged(request: ListManifests) -> EquivalentCall:
    return EquivalentCall(
        "workspace:log", {"manifest": request.manifest or request.branch or "HEAD"}
    )


@operation(errors=(404,), reads=_logged)
def list_manifests(context: Context, request: ListManifests) -> ManifestPage:
    """List the commits of a chat, newest first: of one branch, or of all."""
    chat = context.chat(request.chat_id)
    if request.branch is not None and request.manifest is not None:
        raise InvalidRequestError("use either a branch or a manifest, not both")
    facts: JsonObject = {
        "active_branch": chat.active_branch(),
        "active_manifest_id": chat.head(),
        "open_scripts": len(chat.store.refs(SCRIPT_REFS)),
    }
    head = None
    if request.branch is not None:
        head = chat.branch(request.branch).manifest_id
    elif request.manifest is not None:
        head = context.commit_id(chat, request.manifest)
    # To the index, no head means all branches; a branch without commits has an empty history instead.
    if head is None and (request.branch or request.manifest) is not None:
        return ManifestPage(manifests=(), more=False, **facts)
    context.chat_index().sync_chat(chat)
    history = partial(
        context.chat_index().manifests, chat.id, head=head, first_parents=request.first_parents
    )
    if request.path is None:
        page = history(limit=request.limit, before=request.before)
    else:
        page = _that_changed(chat, request, request.path, history)
    listed = chat if request.changes else None
    return ManifestPage(
        manifests=tuple(manifest_row(context, row, listed) for row in page.rows),
        more=page.more,
        **facts,
    )


@operation(errors=(404,))
def get_workspace_manifest(context: Context, request: GetWorkspaceManifest) -> ManifestDetail:
    """Return one commit of a chat: its record and its changes.

    For a message, this is the commit of its last call.  If several branches have such a commit, the active branch
    takes precedence.
    """
    chat = context.chat(request.chat_id)
    manifest = chat.manifest(_manifest_id(context, chat, request))
    context.chat_index().sync_chat(chat)
    rows = context.chat_index().manifests(chat.id, head=manifest.id, limit=1).rows
    # The index has only commits that a branch leads to, but the store still has those of deleted branches.
    if not rows:
        list_with = f"covalt-git chat branch list {chat.id} --deleted"
        raise UnknownCommitError(chat.id, manifest.id, list_with=list_with)
    row = manifest_row(context, rows[0])
    recorded = manifest.record.call
    is_visible = recorded is None or (
        row.call is not None and context.visibility.sees_call(recorded.tool_id, recorded.result)
    )
    changes = chat.changes(manifest.parent_id, manifest.id)
    card = chat.card()
    starts_here = card.forked_from is not None and card.forked_from.manifest_id == manifest.id
    return ManifestDetail.of(
        row,
        changes=changes,
        record=manifest.record.model_dump(mode="json", exclude_defaults=True) if is_visible else {},
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
    """Return a predicate: whether a commit has another entry at the path than each of its parents."""
    path = posixpath.normpath(path)

    @cache
    def entry(tree: str) -> TreeEntry | None:
        return trees.find_entry(chat.store, tree, path)

    def changed(row: HistoryRow) -> bool:
        # Messages and many calls change no file. The index knows that, so their trees need not be read.
        if not row.changed_files:
            return False
        # As in git, a merge that took a file unchanged from one of its parents did not change it
        # (test_the_history_of_a_path_has_the_commits_that_changed_it).
        parents = row.parents[:1] if first_parents else row.parents
        parent_entries = [entry(chat.store.read_commit(oid).tree) for oid in parents]
        return entry(row.tree_id) not in (parent_entries or [None])

    return changed


def manifest_row(context: Context, row: HistoryRow, chat: ChatStore | None = None) -> ManifestRow:
    """Return a row, with its changes if there is a ``chat``."""
    # The title of a call names its tool and what it works on (test_the_history_does_not_name_a_hidden_tool).
    by_tool = row.source == "tool_run" or row.tool_id is not None
    is_visible = not by_tool or context.visibility.sees(row.tool_id or "")
    title, error = _words_of(row)
    ended = row.status if row.status in {"success", "error"} else None
    is_call = is_visible and row.tool_id is not None
    recorded = chat.outline(row.id).record.call if chat is not None and is_call else None
    approval = None
    if chat is not None and recorded is not None and recorded.execution_id is not None:
        approval = chat.approval(recorded.execution_id)
    undone = None
    if row.undone_call and row.undone_tool_id and context.visibility.sees(row.undone_tool_id):
        undone = UndoneLine(
            id=row.undone_call, tool_id=row.undone_tool_id, object=row.undone_object or ""
        )
        title = f"undo of {undone.tool_id} {undone.object}".rstrip()
    return ManifestRow.of(
        row,
        title=title if is_visible else _HIDDEN,
        status=ended if is_visible else None,
        call=_call_line(row, error) if is_call else None,
        undone=undone,
        undone_by=row.undone_by if is_visible else None,
        files_changed=row.changed_files,
        changes=chat and chat.changes(next(iter(row.parents), None), row.id),
        script_id=recorded and recorded.parent,
        waited_s=approval and approval.waited_s,
    )


def _call_line(row: HistoryRow, error: str | None) -> CallLine:
    assert row.started_at is not None  # the row has a call
    begun = run_start(row.status, row.error, row.started_at, row.approved_at)
    return CallLine.of(row, id=row.source_ref, error=error, run_started_at=begun)


def _words_of(row: HistoryRow) -> tuple[str, str | None]:
    """Return the title and the error of a commit; of a failed script the code only: its message can name hidden tools."""
    if row.error is None or not (row.tool_id or "").startswith(MAY_BE_SCRIPTS):
        return row.title, row.error
    code = row.error.partition(":")[0]
    return f"{row.tool_id} error: {code}", code


def _manifest_id(context: Context, chat: ChatStore, request: GetWorkspaceManifest) -> str:
    index = context.chat_index()
    if request.message_id is None:
        return index.resolve(chat, "HEAD" if request.manifest is None else request.manifest)
    if request.manifest is not None:
        raise InvalidRequestError("use either a manifest or a message, not both")
    for message in Conversation(chat).messages.values():
        if request.message_id in {message.id, message.ref}:
            return message.manifest_id
    # Only the index finds the application's id of a message that exists only in calls.
    index.sync_chat(chat)
    manifest_id = index.message_manifest(chat.id, request.message_id)
    if manifest_id is None:
        list_with = f"covalt-git chat log {chat.id} --all"
        raise UnknownNameError("message", request.message_id, (), list_with=list_with)
    return manifest_id
