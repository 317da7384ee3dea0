"""Operations on the branches of a chat."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.calls.servers import left_tasks
from covalt_git.conversations import commit_names
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.chats import Branch
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    MANAGE_CHATS,
    ChatRequest,
    EquivalentCall,
    Result,
    operation,
)
from covalt_git.operations.results import Change, Notes
from covalt_git.workspaces import branches
from covalt_git.workspaces.branches import BranchDeleted

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore


class RenameBranch(ChatRequest):
    """Request: a branch and its new name."""

    branch: str = Field(max_length=200)
    name: str = Field(max_length=200)


class DeleteBranch(ChatRequest):
    """Request: the branch to delete."""

    branch: str = Field(max_length=200)
    force: bool = Field(
        False,
        description="Also if it has commits that no other branch has, or a pending call.",
    )


class BranchRenamed(Result):
    """The branch under its new name."""

    branch: Branch


class DeletedBranchList(Result):
    """The deleted branches with commits that no branch has, the most recently deleted first."""

    branches: tuple[BranchDeleted, ...]


class CreateBranch(ChatRequest):
    """Request: the branch to create; without ``from_manifest``, it starts at the current workspace."""

    name: str = Field(max_length=200)
    from_manifest: str | None = Field(None, max_length=200)


class SwitchBranch(ChatRequest):
    """Request: the branch to check out."""

    branch: str = Field(max_length=200)


class BranchList(Result):
    """A chat's branches, by name."""

    branches: tuple[Branch, ...]


class BranchCreated(Result):
    """A new branch and its commit."""

    name: str
    manifest_id: str
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


class BranchSwitched(Result):
    """The active branch, and the changes of the workspace."""

    branch: str
    manifest_id: str | None
    changes: tuple[Change, ...]
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


@operation(changes=True, errors=(404, 409), needs=(MANAGE_CHATS,), repeats=True)
def rename_branch(context: Context, request: RenameBranch) -> BranchRenamed:
    """Rename a branch; if it is active, it stays active.

    This is refused while a call on the branch is pending approval.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        renamed = branches.rename(writer, request.branch, request.name)
    return BranchRenamed(branch=renamed)


@operation(changes=True, errors=(404, 409), needs=(MANAGE_CHATS,), repeats=True)
def delete_branch(context: Context, request: DeleteBranch) -> BranchDeleted:
    """Delete a branch that is not active.

    Without ``force`` this is refused if the branch has commits that no other branch has, or if a call on
    it is pending.  With ``force`` such a call is cancelled, also at its MCP server.
    """
    chat = context.chat(request.chat_id)
    if request.force and not chat.branch(request.branch).active:
        why = f"the branch {request.branch!r} of the call was deleted"
        left_tasks.end_all(context.engine(), chat, lambda call: call.branch == request.branch, why)
    with context.writing(chat) as writer:
        return branches.delete(writer, request.branch, force=request.force)


@operation(errors=(404,))
def list_deleted_branches(context: Context, request: ChatRequest) -> DeletedBranchList:
    """List the deleted branches with commits that no branch has."""
    chat = context.chat(request.chat_id)
    return DeletedBranchList(branches=tuple(branches.deleted(chat)))


@operation(errors=(404,))
def list_branches(context: Context, request: ChatRequest) -> BranchList:
    """List a chat's branches and their last commits."""
    return BranchList(branches=tuple(context.chat(request.chat_id).branches()))


@operation(
    changes=True,
    errors=(404, 409),
    needs=("workspace:branch",),
    calls=lambda request: [
        EquivalentCall("workspace:branch", {"name": request.name, "start": request.from_manifest})
    ],
    repeats=True,
)
def create_branch(context: Context, request: CreateBranch) -> BranchCreated:
    """Create a branch at a commit or at the current workspace, without checking it out."""
    chat = context.chat(request.chat_id)
    start = request.from_manifest
    with context.writing(chat) as writer:
        oid = (
            writer.commit_changes() if start is None else context.chat_index().resolve(chat, start)
        )
        branches.create(writer, request.name, oid)
    assert oid is not None  # a chat without commits has no other branch
    return BranchCreated(name=request.name, manifest_id=oid, notes=writer.fresh_notes())


@operation(
    changes=True,
    errors=(404, 409),
    needs=("workspace:checkout",),
    calls=lambda request: [EquivalentCall("workspace:checkout", {"branch": request.branch})],
    repeats=True,
)
def switch_branch(context: Context, request: SwitchBranch) -> BranchSwitched:
    """Check out a branch; uncommitted changes are committed to the current branch first."""
    chat = context.chat(request.chat_id)
    _require_branch(chat, request.branch)
    with context.writing(chat) as writer:
        changes = writer.checkout(request.branch)
    return BranchSwitched(
        branch=request.branch,
        manifest_id=chat.head(),
        changes=changes,
        notes=writer.fresh_notes(),
    )


def _require_branch(chat: ChatStore, name: str) -> None:
    """Check that a branch exists; if the name is a commit's, the hint shows how to return to that.

    Raises:
        UnknownNameError: if the branch does not exist; the hint has the most similar one.
    """
    try:
        chat.branch(name)
    except UnknownNameError as error:
        with suppress(CovaltError):  # it is not a commit either
            commit_names.resolve(chat, name)
            error.hint = (
                f"it is a commit; create a branch there: covalt-git chat branch {chat.id} NAME "
                f"--from {name}, or restore its files: covalt-git chat restore {chat.id} {name}"
            )
        raise
