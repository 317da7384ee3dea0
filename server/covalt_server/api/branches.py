"""The API's changes of what is there: renaming and deleting branches, bringing files back."""

# ruff: noqa: TC001 - pydantic reads the annotations when it makes the models

from __future__ import annotations

from pydantic import Field

from covalt_git.models.chats import Branch
from covalt_git.workspaces import branches, commit_names, restoring
from covalt_git.workspaces.branches import DeletedBranch
from covalt_git.workspaces.commit_names import NAMES
from covalt_server import request_context
from covalt_server.api.changes import Change, Notes, notes, told
from covalt_server.api.http import Answer, Asked, InvalidRequestError, operation


class RenameBranch(Asked):
    """A branch and what to call it."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)
    name: str = Field(max_length=200)


class DeleteBranch(Asked):
    """A branch to delete."""

    chat_id: str = Field(max_length=200)
    branch: str = Field(max_length=200)
    force: bool = Field(
        False,
        description="Also one with manifests that no other branch has, or on which a call waits.",
    )


class ListDeletedBranches(Asked):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class RestoreWorkspace(Asked):
    """What to bring back: a manifest, or that of a message; all of its files, or some paths."""

    chat_id: str = Field(max_length=200)
    manifest: str = Field(
        max_length=200,
        description=NAMES,
    )
    paths: tuple[str, ...] = Field((), description="Files and folders; none of them means all.")
    keep_files: bool = Field(
        False,
        description="Go on from the manifest on a new branch, and leave all files as they are.",
    )
    branch: str | None = Field(
        None, max_length=200, description="With keep_files, the new branch; null: restore-1, ..."
    )


class BranchRenamed(Answer):
    """The branch under its new name."""

    branch: Branch


class BranchDeleted(Answer):
    """A branch that is gone: where it was, and how many manifests no other branch has.

    A branch made at ``manifest_id`` with create_branch has all of it again.
    """

    name: str
    manifest_id: str
    manifests: int


class DeletedBranchList(Answer):
    """The deleted branches that had what no branch has now, the last one first."""

    branches: tuple[BranchDeleted, ...]


class WorkspaceRestored(Answer):
    """The branch that the folder is on, its manifest, and what changed in the folder."""

    branch: str
    manifest_id: str | None
    changes: tuple[Change, ...]
    made: bool = Field(description="Whether a manifest was made: not where all was so already.")
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


@operation("POST", errors=(404, 409))
def rename_branch(asked: RenameBranch) -> BranchRenamed:
    """Give a branch another name; the folder stays on it.

    It is refused while a call waits for a person on the branch.
    """
    with request_context.writing(request_context.chat(asked.chat_id)) as writer:
        renamed = branches.rename(writer, asked.branch, asked.name)
    return BranchRenamed(branch=renamed)


@operation("POST", errors=(404, 409))
def delete_branch(asked: DeleteBranch) -> BranchDeleted:
    """Delete a branch that the folder is not on.

    Without ``force`` it is refused where the branch has manifests that no other has, or a call waits
    on it for a person, which ends as cancelled.
    """
    with request_context.writing(request_context.chat(asked.chat_id)) as writer:
        gone = branches.delete(writer, asked.branch, force=asked.force)
    return _told(gone)


@operation("GET", errors=(404,))
def list_deleted_branches(asked: ListDeletedBranches) -> DeletedBranchList:
    """List the deleted branches that had manifests which no branch has now."""
    found = branches.deleted(request_context.chat(asked.chat_id))
    return DeletedBranchList(branches=tuple(map(_told, found)))


@operation("POST", errors=(404, 409))
def restore_workspace(asked: RestoreWorkspace) -> WorkspaceRestored:
    """Bring files back to what they were in a manifest, as a new manifest of the active branch.

    Edits are saved first.  A folder is brought back with all below it; what was not there is removed.
    """
    if asked.keep_files and asked.paths:
        raise InvalidRequestError(
            "keep_files leaves all files as they are, so it goes with no paths"
        )
    if asked.branch is not None and not asked.keep_files:
        raise InvalidRequestError("a branch goes with keep_files")
    chat = request_context.chat(asked.chat_id)
    with request_context.writing(chat) as writer:
        oid = commit_names.resolve(chat, asked.manifest)
        if asked.keep_files:
            done = restoring.keep_files(writer, oid, branch=asked.branch)
        else:
            done = restoring.restore(writer, oid, asked.paths)
    return WorkspaceRestored(
        branch=done.branch,
        manifest_id=done.manifest_id,
        changes=told(done.changes),
        made=done.made,
        notes=notes(writer.fresh_notes()),
    )


def _told(gone: DeletedBranch) -> BranchDeleted:
    return BranchDeleted(**gone.model_dump())


OPERATIONS = (rename_branch, delete_branch, list_deleted_branches, restore_workspace)
