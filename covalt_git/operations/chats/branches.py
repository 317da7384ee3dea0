"""Operations on the branches of a chat."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.conversations import commit_names
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.chats import Branch
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    Request,
    Result,
    operation,
)
from covalt_git.operations.results import Change, Notes
from covalt_git.workspaces import branches

if TYPE_CHECKING:
    from covalt_git.workspaces.branches import DeletedBranch
    from covalt_git.workspaces.chat import ChatStore


class RenameBranch(Request):
    """A branch and what to call it."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)
    name: str = Field(max_length=200)


class DeleteBranch(Request):
    """A branch to delete."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)
    force: bool = Field(
        False,
        description="Also one with manifests that no other branch has, or on which a call waits.",
    )


class ListDeletedBranches(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class BranchRenamed(Result):
    """The branch under its new name."""

    branch: Branch


class BranchDeleted(Result):
    """A branch that is gone: where it was, and how many manifests no other branch has.

    A branch made at ``manifest_id`` with create_branch has all of it again.
    """

    name: str
    manifest_id: str
    manifests: int
    back: str = Field(description="The command that makes it again.")


class DeletedBranchList(Result):
    """The deleted branches that had what no branch has now, the last one first."""

    branches: tuple[BranchDeleted, ...]


class ListBranches(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class CreateBranch(Request):
    """A branch to make; without ``from_manifest`` at the folder as it is now."""

    chat_id: str = Field(max_length=200)
    name: str = Field(max_length=200)
    from_manifest: str | None = Field(None, max_length=200)


class SwitchBranch(Request):
    """Which branch to go to."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)


class BranchList(Result):
    """A chat's branches, by name."""

    branches: tuple[Branch, ...]


class BranchCreated(Result):
    """A branch that was made, and where."""

    name: str
    manifest_id: str
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class BranchSwitched(Result):
    """The branch that the folder is on now, and what changed in it."""

    branch: str
    manifest_id: str | None
    changes: tuple[Change, ...]
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


@operation(changes=True, errors=(404, 409))
def rename_branch(context: Context, request: RenameBranch) -> BranchRenamed:
    """Give a branch another name; the folder stays on it.

    It is refused while a call waits for a person on the branch.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        renamed = branches.rename(writer, request.branch, request.name)
    return BranchRenamed(branch=renamed)


@operation(changes=True, errors=(404, 409))
def delete_branch(context: Context, request: DeleteBranch) -> BranchDeleted:
    """Delete a branch that the folder is not on.

    Without ``force`` it is refused where the branch has manifests that no other has, or a call waits
    on it for a person, which ends as cancelled.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        gone = branches.delete(writer, request.branch, force=request.force)
    return _deleted(chat, gone)


@operation(errors=(404,))
def list_deleted_branches(context: Context, request: ListDeletedBranches) -> DeletedBranchList:
    """List the deleted branches that had manifests which no branch has now."""
    chat = context.chat(request.chat_id)
    found = branches.deleted(chat)
    return DeletedBranchList(branches=tuple(_deleted(chat, one) for one in found))


@operation(errors=(404,))
def list_branches(context: Context, request: ListBranches) -> BranchList:
    """List a chat's branches and the manifests they are at."""
    return BranchList(branches=tuple(context.chat(request.chat_id).branches()))


@operation(changes=True, errors=(404, 409))
def create_branch(context: Context, request: CreateBranch) -> BranchCreated:
    """Make a branch at a manifest, or at the folder as it is now; the folder stays where it is."""
    chat = context.chat(request.chat_id)
    start = request.from_manifest
    with context.writing(chat) as writer:
        oid = writer.commit_changes() if start is None else context.index().resolve(chat, start)
        branches.create(writer, request.name, oid)
    assert oid is not None  # there is no branch at nothing
    return BranchCreated(name=request.name, manifest_id=oid, notes=writer.fresh_notes())


@operation(changes=True, errors=(404, 409))
def switch_branch(context: Context, request: SwitchBranch) -> BranchSwitched:
    """Bring the folder to a branch; edits are saved on the branch they were made on."""
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
    """Check that a branch exists; if the name is a commit's, the hint says how to go back to it.

    Raises:
        UnknownNameError: naming the nearest branch.
    """
    try:
        chat.branch(name)
    except UnknownNameError as error:
        with suppress(CovaltError):  # it is no commit either
            commit_names.resolve(chat, name)
            error.hint = (
                f"it is a commit; create a branch there: covalt-git chat branch {chat.id} NAME "
                f"--from {name}, or restore its files: covalt-git chat restore {chat.id} {name}"
            )
        raise


def _deleted(chat: ChatStore, gone: DeletedBranch) -> BranchDeleted:
    return BranchDeleted.of(gone, back=branches.restore_command(chat, gone))
