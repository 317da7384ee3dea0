"""Operations that change the files of a workspace, each as a commit."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.conversations import commit_names
from covalt_git.conversations.commit_names import NAMES
from covalt_git.file_edits import edits, restoring, undoing, uploads
from covalt_git.file_edits.edits import check_portable
from covalt_git.file_edits.uploads import Upload, check_size
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    InvalidRequestError,
    Request,
    Result,
    UploadField,
    operation,
)
from covalt_git.operations.results import Change, Notes
from covalt_git.workspaces.chat import MovedError

if TYPE_CHECKING:
    from covalt_git.operations import registry
    from covalt_git.workspaces.chat import ChatStore


_FORM_BYTES = 16 << 20


class UpdateWorkspaceFile(Request):
    """A text file as it is to be."""

    chat_id: str = Field(max_length=200)
    path: str
    content: str
    base: str | None = Field(
        None, max_length=64, description="The blob id that was edited; null: the file is new."
    )
    overwrite: bool = Field(
        default=False, description="Replace whatever the path has now; ``base`` is not compared."
    )
    branch: str | None = Field(
        None, max_length=200, description="The branch that it was edited on; another is refused."
    )


class DeleteWorkspaceFile(Request):
    """A file to delete."""

    chat_id: str = Field(max_length=200)
    path: str
    base: str = Field(max_length=64, description="The blob id that is to be deleted.")
    branch: str | None = Field(
        None, max_length=200, description="The branch that it is to go from; another is refused."
    )


class UploadFiles(Request):
    """Files to add."""

    chat_id: str = Field(max_length=200)
    folder: str = Field("", description="Folder of the workspace to put them in.")
    files: tuple[UploadField, ...]
    portable: bool = Field(
        True,
        description="Whether a name is refused that some system could not check out; else it is noted.",
    )


class FileUpdated(Result):
    """Where the file is stored now; ``changed`` tells whether it was otherwise before."""

    manifest_id: str | None
    oid: str
    changed: bool
    changes: tuple[Change, ...] = Field(description="The file, where it was otherwise before.")


class FileDeleted(Result):
    """The manifest that no longer has the file."""

    manifest_id: str | None


class Uploaded(Result):
    """Where an uploaded file is; ``renamed_from`` is the path that was taken."""

    path: str
    renamed_from: str | None
    was_there: bool = Field(description="Whether the same content was at that path before.")


class FilesUploaded(Result):
    """Where the files are; ``changed`` is false where the workspace had them all already."""

    manifest_id: str | None
    files: tuple[Uploaded, ...]
    changed: bool
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class SaveEdits(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class EditsSaved(Result):
    """The manifest that holds the folder as it is."""

    manifest_id: str | None
    changed: bool
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class RestoreWorkspace(Request):
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


class WorkspaceRestored(Result):
    """The branch that the folder is on, its manifest, and what changed in the folder."""

    branch: str
    manifest_id: str | None
    changes: tuple[Change, ...]
    made: bool = Field(description="Whether a manifest was made: not where all was so already.")
    hint: str = Field(
        description="How to make a merge again, if the files are from before it; else empty."
    )
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


class UndoChange(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


class RedoChange(Request):
    """Which chat's."""

    chat_id: str = Field(max_length=200)


def most_upload_bytes(context: Context) -> int:
    """Return how large an upload may be: the largest file that is stored, and what goes around it."""
    return (context.project.config.workspace.max_file_mb << 20) + _FORM_BYTES


@operation(changes=True, errors=(404, 409))
def update_workspace_file(context: Context, request: UpdateWorkspaceFile) -> FileUpdated:
    """Write a text file as UTF-8, as one ``edit`` manifest; it stays executable if it was.

    Other edits in the folder are saved first, as a manifest of their own.  Where the file is not
    ``base`` any more, nothing is written and the answer is 409 ``moved``.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        _check_branch(chat, request.branch)
        base = request.base
        if request.overwrite:
            found = chat.find_file(writer.commit_changes(), request.path)
            base = None if found is None else found.oid
        oid = edits.edit_file(writer, request.path, request.content.encode(), before=base)
    head = chat.head()
    changed = oid != base
    changes = chat.changes(chat.manifest(head).parent_id, head) if changed and head else ()
    return FileUpdated(manifest_id=head, oid=oid, changed=changed, changes=changes)


@operation(changes=True, errors=(404, 409))
def delete_workspace_file(context: Context, request: DeleteWorkspaceFile) -> FileDeleted:
    """Delete a file, as one ``edit`` manifest; the history keeps it.

    Where it is not ``base`` any more, nothing is deleted and the answer is 409 ``moved``.
    """
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        _check_branch(chat, request.branch)
        edits.delete_file(writer, request.path, before=request.base)
    return FileDeleted(manifest_id=chat.head())


@operation(changes=True, errors=(404, 409), upload_limit=most_upload_bytes)
def upload_files(context: Context, request: UploadFiles) -> FilesUploaded:
    """Add files to the workspace as one manifest.

    A name that is taken gets a number (``report_1.csv``), unless the content is the same; one that
    some system could not check out beside the files that are there is refused.  Parts without a file's
    name, as browsers send where none was chosen, are passed over.
    """
    chat = context.chat(request.chat_id)
    below = f"{request.folder.removesuffix('/')}/" if request.folder else ""
    files = [file for file in request.files if file.name]
    if not files:
        raise InvalidRequestError("there is no file in the request", hint="choose one")
    for file in files:  # before any of them is read
        check_size(file.name, file.stream.seek(0, os.SEEK_END), chat.config)
        file.stream.seek(0)
    sent = [_upload(file, below, portable=request.portable) for file in files]
    with context.writing(chat) as writer:
        before = writer.commit_changes()
        placed = uploads.upload(writer, sent, folder=request.folder, portable=request.portable)
    return FilesUploaded(
        manifest_id=chat.head(),
        files=placed,
        changed=chat.head() != before,
        notes=writer.fresh_notes(),
    )


@operation(changes=True, errors=(404, 409))
def save_edits(context: Context, request: SaveEdits) -> EditsSaved:
    """Make what a person changed in the folder a manifest, if anything did change."""
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        before = chat.head()
        after = writer.commit_changes()
    return EditsSaved(manifest_id=after, changed=after != before, notes=writer.fresh_notes())


@operation(changes=True, errors=(404, 409))
def restore_workspace(context: Context, request: RestoreWorkspace) -> WorkspaceRestored:
    """Bring files back to what they were in a manifest, as a new manifest of the active branch.

    Edits are saved first.  A folder is brought back with all below it; what was not there is removed.
    """
    if request.keep_files and request.paths:
        raise InvalidRequestError(
            "keep_files leaves all files as they are, so it goes with no paths"
        )
    if request.branch is not None and not request.keep_files:
        raise InvalidRequestError("a branch goes with keep_files")
    chat = context.chat(request.chat_id)
    with context.writing(chat) as writer:
        oid = commit_names.resolve(chat, request.manifest)
        if request.keep_files:
            done = restoring.keep_files(writer, oid, branch=request.branch)
        else:
            done = restoring.restore(writer, oid, request.paths)
    return WorkspaceRestored.of(done, notes=writer.fresh_notes())


@operation(changes=True, errors=(404, 409))
def undo_change(context: Context, request: UndoChange) -> WorkspaceRestored:
    """Undo the last change of the files on the active branch, in a new commit.

    Uncommitted changes are committed first, so they are undone first.  Another undo goes one change
    further back.  Commits that changed no file, such as messages, are skipped.
    """
    with context.writing(context.chat(request.chat_id)) as writer:
        done = undoing.undo(writer)
    return WorkspaceRestored.of(done, notes=writer.fresh_notes())


@operation(changes=True, errors=(404, 409))
def redo_change(context: Context, request: RedoChange) -> WorkspaceRestored:
    """Take back the last undo, in a new commit; refused when files have changed since."""
    with context.writing(context.chat(request.chat_id)) as writer:
        done = undoing.redo(writer)
    return WorkspaceRestored.of(done, notes=writer.fresh_notes())


def _check_branch(chat: ChatStore, branch: str | None) -> None:
    active = chat.active_branch()
    if branch not in {None, active}:
        raise MovedError(
            f"the folder is on {active!r} now, not on {branch!r}",
            hint=f"switch back: covalt-git chat checkout {chat.id} {branch}",
        )


def _upload(file: registry.Upload, below: str, *, portable: bool) -> Upload:
    """Return an upload; a name that has to be portable is composed as most systems write it."""
    name = unicodedata.normalize("NFC", file.name) if portable else file.name
    if portable and "/" not in name:  # else the engine says what is wrong with it
        check_portable(below + name)
    return Upload(name, file.stream.read(), file.executable)
