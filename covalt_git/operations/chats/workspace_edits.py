"""Operations that change the files of a workspace, each as a commit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field

from covalt_git.conversations import commit_names
from covalt_git.conversations.commit_names import NAMES
from covalt_git.file_edits import edits, restoring, uploads
from covalt_git.file_edits.edits import check_portable
from covalt_git.file_edits.uploads import NewFile, Uploaded, check_size
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    ChatRequest,
    EquivalentCall,
    InvalidRequestError,
    Result,
    UploadField,
    operation,
)
from covalt_git.operations.results import Change, Notes
from covalt_git.text.normal_form import normalized
from covalt_git.workspaces.chat import MovedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.operations import registry
    from covalt_git.workspaces.chat import ChatStore


_FORM_BYTES = 16 << 20


class UpdateWorkspaceFile(ChatRequest):
    """Request: a file and its new text."""

    path: str = Field(json_schema_extra={"minLength": 1})
    content: str
    base: str | None = Field(
        None, max_length=64, description="The blob id that was edited; null: the file is new."
    )
    overwrite: bool = Field(
        default=False, description="Replace the current file without comparing it with ``base``."
    )
    branch: str | None = Field(
        None,
        max_length=200,
        description="The branch that was edited; another active branch is an error.",
    )


class DeleteWorkspaceFile(ChatRequest):
    """Request: the file to delete."""

    path: str
    base: str = Field(max_length=64, description="The blob id of the file to delete.")
    branch: str | None = Field(
        None,
        max_length=200,
        description="The branch of the file; another active branch is an error.",
    )


class UploadFiles(ChatRequest):
    """Request: the files to add."""

    folder: str = Field("", description="Folder of the workspace to put them in.")
    files: Annotated[tuple[UploadField, ...], Field(min_length=1)]
    portable: bool = Field(
        True,
        description="Reject names that some operating systems cannot check out; otherwise note them.",
    )


class FileUpdated(Result):
    """A written file; ``changed`` is false if it had the same content before."""

    manifest_id: str | None
    oid: str
    changed: bool
    changes: tuple[Change, ...] = Field(description="The file, if it has changed.")


class FileDeleted(Result):
    """The commit that deleted the file."""

    manifest_id: str | None


class FilesUploaded(Result):
    """The uploaded files; ``changed`` is false if the workspace already had all of them."""

    manifest_id: str | None
    files: tuple[Uploaded, ...]
    changed: bool
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


class SaveEdits(ChatRequest):
    """Request: the chat whose changes are committed."""


class EditsSaved(Result):
    """The last commit, which has the files of the current workspace."""

    manifest_id: str | None
    changed: bool
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


class RestoreWorkspace(ChatRequest):
    """Request: a commit, or the message of a commit, and the paths to restore from it."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {
                    "required": ["keep_files"],
                    "properties": {"keep_files": {"const": True}, "paths": {"maxItems": 0}},
                },
                {"properties": {"keep_files": {"const": False}, "branch": {"type": "null"}}},
            ]
        }
    )

    manifest: str = Field(
        max_length=200,
        description=NAMES,
    )
    paths: tuple[str, ...] = Field((), description="Files and folders; empty: all.")
    keep_files: bool = Field(
        False,
        description="Start a new branch at the commit, and leave all files unchanged.",
    )
    branch: str | None = Field(
        None, max_length=200, description="With keep_files, the new branch; null: restore-1, ..."
    )
    on_branch: str | None = Field(
        None,
        max_length=200,
        description="The branch that is restored; another active branch is an error.",
    )


class WorkspaceRestored(Result):
    """The active branch, its last commit, and the changes of the workspace."""

    branch: str
    manifest_id: str | None
    changes: tuple[Change, ...]
    made: bool = Field(
        description="Whether a commit was created; false if the files were the same."
    )
    hint: str = Field(
        description="How to repeat a merge, if the restored files are from before it; otherwise empty."
    )
    undoes: str | None = Field(
        None,
        description="The commit that an undo takes back; null for other restores, and if a dry run finds uncommitted"
        " changes.",
    )
    notes: Notes = Field(description="Notes on the workspace that no earlier commit recorded.")


class UndoChange(ChatRequest):
    """Request: the chat whose last change is undone."""

    commit: str | None = Field(
        None,
        max_length=64,
        description="The commit to take back, ``undoes`` of a dry run; refused if another commit is the last change.",
    )
    dry_run: bool = Field(
        default=False, description="Return ``undoes`` without undoing; ``made`` is false."
    )


class RedoChange(ChatRequest):
    """Request: the chat whose last undo is reverted."""


def most_upload_bytes(context: Context) -> int:
    """Return the maximum size of an upload: that of the largest file that a chat stores, and of the form around it."""
    return (context.project.config.workspace.max_file_mb << 20) + _FORM_BYTES


def _edited(request: UpdateWorkspaceFile | DeleteWorkspaceFile) -> Iterator[EquivalentCall]:
    """Yield the call that writes the file; a deleted one counts as an empty one."""
    content = request.content if isinstance(request, UpdateWorkspaceFile) else ""
    args = {"path": request.path, "content": content, "base": request.base}
    yield EquivalentCall("workspace:write_file", args)


@operation(
    changes=True, errors=(404, 409), needs=("workspace:write_file",), calls=_edited, repeats=True
)
def update_workspace_file(context: Context, request: UpdateWorkspaceFile) -> FileUpdated:
    """Write a text file as UTF-8, as one ``edit`` commit; its executable bit is kept.

    Other uncommitted changes are committed first.  If the file no longer has the blob id ``base``, nothing is
    written and the answer is 409 ``moved``.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        # Under the lock: another branch may be checked out while a user edits
        # (test_an_edit_is_made_only_on_the_branch_that_it_names).
        _check_branch(chat, request.branch)
        base = request.base
        # The version on the disk may be in no commit yet; it is replaced, and has to stay in the history.
        if request.overwrite:
            file = chat.find_file(writer.commit_changes(), request.path)
            base = None if file is None else file.oid
        oid = edits.edit_file(writer, request.path, request.content.encode(), before=base)
    head = chat.head()
    changed = oid != base
    changes = chat.changes(chat.outline(head).parent_id, head) if changed and head else ()
    return FileUpdated(manifest_id=head, oid=oid, changed=changed, changes=changes)


@operation(
    changes=True, errors=(404, 409), needs=("workspace:write_file",), calls=_edited, repeats=True
)
def delete_workspace_file(context: Context, request: DeleteWorkspaceFile) -> FileDeleted:
    """Delete a file, as one ``edit`` commit; it stays in the history.

    If it no longer has the blob id ``base``, nothing is deleted and the answer is 409 ``moved``.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        _check_branch(chat, request.branch)
        edits.delete_file(writer, request.path, before=request.base)
    return FileDeleted(manifest_id=chat.head())


def _written(request: UploadFiles) -> Iterator[EquivalentCall]:
    """Yield calls that write the files of an upload, without their contents, which may be too large to be read."""
    for file in request.files:
        path = _below(request.folder) + _upload_name(file, portable=request.portable)
        yield EquivalentCall("workspace:write_file", {"path": path})


@operation(
    changes=True,
    errors=(404, 409),
    needs=("workspace:write_file",),
    calls=_written,
    upload_limit=most_upload_bytes,
    repeats=True,
)
def upload_files(context: Context, request: UploadFiles) -> FilesUploaded:
    """Add files to the workspace as one commit.

    If a name already exists with another content, a number is added (``report_1.csv``).  A name that some
    operating system could not check out with the existing files is an error.  Parts without a file name,
    which browsers send if no file was chosen, are ignored.
    """
    chat = context.chat(request.chat_id)
    below = _below(request.folder)
    files = [file for file in request.files if file.name]
    if not files:
        raise InvalidRequestError("the request has no file", hint="choose one")
    # All sizes first, so that a large file is refused before any file is read into memory.
    for file in files:
        check_size(file.name, file.stream.seek(0, os.SEEK_END), chat.config)
        file.stream.seek(0)
    sent = [_upload(file, below, portable=request.portable) for file in files]

    # Only under the lock is it known which name a file gets: beside another app.yaml, it is app_1.yaml
    # (test_a_rule_about_a_path_holds_for_the_name_that_an_upload_gets).
    def check(path: str, file: NewFile) -> None:
        args = {"path": path, "content": file.content.decode(errors="replace")}
        context.require_tool("workspace:write_file", args)

    with context.writing(chat) as writer:
        old_head = writer.commit_changes()
        placed = uploads.upload(
            writer, sent, folder=request.folder, portable=request.portable, check=check
        )
    return FilesUploaded(
        manifest_id=chat.head(),
        files=placed,
        changed=chat.head() != old_head,
        notes=writer.fresh_notes(),
    )


@operation(changes=True, errors=(404, 409), needs=("workspace:write_file",))
def save_edits(context: Context, request: SaveEdits) -> EditsSaved:
    """Commit the uncommitted changes of the workspace, if there are any."""
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        old_head = chat.head()
        after = writer.commit_changes()
    return EditsSaved(manifest_id=after, changed=after != old_head, notes=writer.fresh_notes())


def _restored(request: RestoreWorkspace) -> Iterator[EquivalentCall]:
    """Yield calls that restore the same; a new branch is made and checked out."""
    args = {"manifest": request.manifest, "paths": list(request.paths)}
    yield EquivalentCall("workspace:restore", args)
    # Else a role with workspace:restore alone could make and check out branches
    # (test_a_request_that_does_more_needs_the_tools_that_do_it).
    if request.keep_files:
        yield EquivalentCall("workspace:branch", None)
        yield EquivalentCall("workspace:checkout", None)


@operation(
    changes=True, errors=(404, 409), needs=("workspace:restore",), calls=_restored, repeats=True
)
def restore_workspace(context: Context, request: RestoreWorkspace) -> WorkspaceRestored:
    """Restore files from a commit, in a new commit on the active branch.

    Uncommitted changes are committed first.  A folder is restored with everything below it; files that it
    did not contain at that commit are removed.
    """
    if request.keep_files and request.paths:
        raise InvalidRequestError(
            "keep_files leaves all files unchanged, so it cannot be combined with paths"
        )
    if request.branch is not None and not request.keep_files:
        raise InvalidRequestError("a branch requires keep_files")
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        _check_branch(chat, request.on_branch)
        # Under the lock, because each call that ends moves names such as HEAD~1.
        oid = commit_names.resolve(chat, request.manifest)
        if request.keep_files:
            result = restoring.keep_files(writer, oid, branch=request.branch)
        else:
            result = restoring.restore(writer, oid, request.paths)
    return WorkspaceRestored.of(result, notes=writer.fresh_notes())


@operation(changes=True, errors=(404, 409), needs=("workspace:restore",))
def undo_change(context: Context, request: UndoChange) -> WorkspaceRestored:
    """Undo the last change of the files on the active branch, in a new commit.

    Uncommitted changes are committed first, so they are undone first.  Another undo goes one change
    further back.  Commits that changed no file, such as messages, are skipped.
    """
    chat = context.chat(request.chat_id)
    if request.dry_run:
        with chat.scan_in_memory() as scan:
            return WorkspaceRestored.of(restoring.undo_preview(chat, scan), notes=WorkspaceNotes())
    with context.writing(chat) as writer:
        result = restoring.undo(writer, request.commit)
    return WorkspaceRestored.of(result, notes=writer.fresh_notes())


@operation(changes=True, errors=(404, 409), needs=("workspace:restore",))
def redo_change(context: Context, request: RedoChange) -> WorkspaceRestored:
    """Revert the last undo, in a new commit; refused if files have changed since."""
    with context.writing(context.chat(request.chat_id)) as writer:
        result = restoring.redo(writer)
    return WorkspaceRestored.of(result, notes=writer.fresh_notes())


def _below(folder: str) -> str:
    """Return what the paths of files in a folder begin with."""
    return f"{folder.removesuffix('/')}/" if folder else ""


def _check_branch(chat: ChatStore, branch: str | None) -> None:
    active = chat.active_branch()
    if branch not in {None, active}:
        raise MovedError(
            f"the active branch is now {active!r}, not {branch!r}",
            hint=f"switch back: covalt-git chat checkout {chat.id} {branch}",
        )


def _upload(file: registry.RequestFile, below: str, *, portable: bool) -> NewFile:
    name = _upload_name(file, portable=portable)
    if portable and "/" not in name:  # otherwise the engine reports the invalid name
        check_portable(below + name)
    return NewFile(name, file.stream.read(), file.executable)


def _upload_name(file: registry.RequestFile, *, portable: bool) -> str:
    """Return the name of an uploaded file; a portable one is normalized to NFC."""
    return normalized("NFC", file.name) if portable else file.name
