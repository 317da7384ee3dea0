"""The API's workspaces: the files of any manifest, what differs, and changing them."""

# ruff: noqa: TC002 - pydantic reads the annotations when it makes the models

from __future__ import annotations

import io
import unicodedata
from typing import TYPE_CHECKING, Literal

from flask import send_file
from pydantic import Field
from werkzeug.wrappers import Response

from covalt_git.errors import UnknownNameError
from covalt_git.git_objects import EXECUTABLE, LINK, is_binary_content
from covalt_git.manifests.toolset_files import readable
from covalt_git.text.media_types import BYTES, media_type
from covalt_git.workspaces import commits
from covalt_git.workspaces.chats import MovedError
from covalt_git.workspaces.commit_names import NAMES
from covalt_git.workspaces.edits import check_portable
from covalt_git.workspaces.uploads import Upload
from covalt_server import request_context
from covalt_server.api.changes import Notes, notes
from covalt_server.api.http import (
    Answer,
    Asked,
    FormFile,
    InvalidRequestError,
    PathText,
    operation,
    tag,
)
from covalt_server.render.patches import read_patch

if TYPE_CHECKING:
    from werkzeug.datastructures import FileStorage

    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chats import ChatStore

_FORM_BYTES = 16 << 20
_PATCHED_BYTES = 512 << 10
_PATCH_BYTES = 2 << 20
_MOST_CHANGES = 2_000


class GetWorkspaceFiles(Asked):
    """Of which manifest."""

    chat_id: str = Field(max_length=200)
    manifest: str = Field("HEAD", max_length=200, description=NAMES)


class GetWorkspaceFile(Asked):
    """Which file, and of which manifest."""

    chat_id: str = Field(max_length=200)
    path: str
    manifest: str = Field("HEAD", max_length=200, description=NAMES)
    download: bool = Field(default=False, description="To be saved, whatever it holds.")


class GetWorkspaceDiff(Asked):
    """Between which manifests."""

    chat_id: str = Field(max_length=200)
    old: str = Field(
        max_length=200, description=f"{NAMES} Empty: the state before there was any file."
    )
    new: str = Field("HEAD", max_length=200, description=f"{NAMES} Empty: the folder as it is now.")
    patches: int = Field(
        2_000, ge=0, le=2_000, description="How many files come with their patch; others are named."
    )


class UpdateWorkspaceFile(Asked):
    """A text file as it is to be."""

    chat_id: str = Field(max_length=200)
    path: str
    content: str
    base: str | None = Field(
        None, max_length=64, description="The blob id that was edited; null: the file is new."
    )
    branch: str | None = Field(
        None, max_length=200, description="The branch that it was edited on; another is refused."
    )


class DeleteWorkspaceFile(Asked):
    """A file to delete."""

    chat_id: str = Field(max_length=200)
    path: str
    base: str = Field(max_length=64, description="The blob id that is to be deleted.")
    branch: str | None = Field(
        None, max_length=200, description="The branch that it is to go from; another is refused."
    )


class UploadFiles(Asked):
    """Files to add."""

    chat_id: str = Field(max_length=200)
    folder: str = Field("", description="Folder of the workspace to put them in.")
    files: tuple[FormFile, ...]


class WorkspaceFile(Answer):
    """A file of a manifest: its size in bytes, its sha256 in hex, and git's id of its content."""

    path: PathText
    size: int
    sha256: str
    oid: str
    executable: bool
    link: bool = Field(description="Whether it is a symbolic link, its content the target.")


class WorkspaceFiles(Answer):
    """The files of a manifest; ``manifest_id`` is null while a chat has none."""

    manifest_id: str | None
    files: tuple[WorkspaceFile, ...]
    empty_folders: tuple[PathText, ...]


class FileDiff(Answer):
    """What differs in one path; ``patch`` and the counts are null where it is too large to show."""

    path: PathText
    kind: Literal["added", "deleted", "modified"]
    binary: bool
    added: int | None = Field(description="Lines.")
    deleted: int | None = Field(description="Lines.")
    patch: str | None = Field(description="As git writes it.")


class WorkspaceDiff(Answer):
    """What differs; ``truncated`` tells that something was too large or too much to show."""

    changes: tuple[FileDiff, ...]
    truncated: bool


class FileUpdated(Answer):
    """Where the file is stored now; ``changed`` tells whether it was otherwise before."""

    manifest_id: str | None
    oid: str
    changed: bool


class FileDeleted(Answer):
    """The manifest that no longer has the file."""

    manifest_id: str | None


class Uploaded(Answer):
    """Where an uploaded file is; ``renamed_from`` is the path that was taken."""

    path: str
    renamed_from: str | None
    was_there: bool = Field(description="Whether the same content was at that path before.")


class FilesUploaded(Answer):
    """Where the files are; ``changed`` is false where the workspace had them all already."""

    manifest_id: str | None
    files: tuple[Uploaded, ...]
    changed: bool
    notes: Notes = Field(description="What was found in the folder that no state noted before.")


def most_upload_bytes() -> int:
    """Return how large an upload may be: the largest file that is stored, and what goes around it."""
    return (request_context.project().config.workspace.max_file_mb << 20) + _FORM_BYTES


@operation("GET", errors=(404,), tagged=True)
def get_workspace_files(asked: GetWorkspaceFiles) -> WorkspaceFiles:
    """List the files of a manifest."""
    chat = request_context.chat(asked.chat_id)
    manifest_id = state_id(chat, asked.manifest)
    files = chat.files(manifest_id)
    request_context.index().sync_chat(chat)
    blobs = request_context.index().blobs(chat.id, [file.oid for file in files.values()])
    tag(manifest_id or "none")
    return WorkspaceFiles(
        manifest_id=manifest_id,
        files=tuple(
            WorkspaceFile(
                path=path,
                size=blobs[file.oid].size,
                sha256=blobs[file.oid].sha256,
                oid=file.oid,
                executable=file.mode == EXECUTABLE,
                link=file.mode == LINK,
            )
            for path, file in files.items()
        ),
        empty_folders=chat.state(manifest_id).empty_folders,
    )


@operation("GET", errors=(404, 416), media="application/octet-stream", tagged=True)
def get_workspace_file(asked: GetWorkspaceFile) -> Response:
    """Send one file of a manifest, from the history, never from the folder.

    Its ETag is git's id of its content, and ranges of it may be asked for.  PNG, JPEG, GIF, WebP,
    AVIF, WAV, MP3, Ogg and FLAC are sent as such, UTF-8 text as text/plain, a symbolic link as its target in text, and
    everything else as a download.
    """
    chat = request_context.chat(asked.chat_id)
    manifest_id = state_id(chat, asked.manifest)
    file = chat.find_file(manifest_id, asked.path)
    if file is None:
        known = [readable(path) for path in chat.files(manifest_id)]
        listed = f"covalt-git chat files {chat.id}"
        raise UnknownNameError("file", asked.path, known, list_with=listed)
    content = chat.store.read_blob(file.oid)
    media = media_type(content)
    sent = send_file(
        io.BytesIO(content),
        mimetype=media,
        as_attachment=asked.download or media == BYTES,
        download_name=commits.one_line(asked.path.rpartition("/")[2]) or "file",
        etag=file.oid,
    )
    sent.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return sent


@operation("GET", errors=(404,))
def get_workspace_diff(asked: GetWorkspaceDiff) -> WorkspaceDiff:
    """Tell what differs between two manifests, or between one and the folder as it is now.

    Files of more than 512 KiB and whatever is beyond 2 MiB of patches are named without a patch, and
    no more than 2,000 paths are named.
    """
    chat = request_context.chat(asked.chat_id)
    before = chat.state(state_id(chat, asked.old)).tree if asked.old else None
    if asked.new:
        after = chat.state(state_id(chat, asked.new)).tree
        return _diff(chat, chat.tree_changes(before, after), asked.patches)
    with chat.looking() as seen:
        return _diff(chat, chat.tree_changes(before, seen.tree), asked.patches)


@operation("POST", errors=(404, 409))
def update_workspace_file(asked: UpdateWorkspaceFile) -> FileUpdated:
    """Write a text file as UTF-8, as one ``edit`` manifest; it stays executable if it was.

    Other edits in the folder are saved first, as a manifest of their own.  Where the file is not
    ``base`` any more, nothing is written and the answer is 409 ``moved``.
    """
    chat = request_context.chat(asked.chat_id)
    with request_context.writing(chat) as writer:
        _check_branch(chat, asked.branch)
        oid = writer.edit_file(asked.path, asked.content.encode(), before=asked.base)
    return FileUpdated(manifest_id=chat.head(), oid=oid, changed=oid != asked.base)


@operation("POST", errors=(404, 409))
def delete_workspace_file(asked: DeleteWorkspaceFile) -> FileDeleted:
    """Delete a file, as one ``edit`` manifest; the history keeps it.

    Where it is not ``base`` any more, nothing is deleted and the answer is 409 ``moved``.
    """
    chat = request_context.chat(asked.chat_id)
    with request_context.writing(chat) as writer:
        _check_branch(chat, asked.branch)
        writer.delete_file(asked.path, before=asked.base)
    return FileDeleted(manifest_id=chat.head())


@operation("POST", errors=(404, 409), multipart=most_upload_bytes)
def upload_files(asked: UploadFiles) -> FilesUploaded:
    """Add files to the workspace as one manifest.

    A name that is taken gets a number (``report_1.csv``), unless the content is the same; one that
    some system could not check out beside the files that are there is refused.  Parts without a file's
    name, as browsers send where none was chosen, are passed over.
    """
    chat = request_context.chat(asked.chat_id)
    below = f"{asked.folder.removesuffix('/')}/" if asked.folder else ""
    uploads = [_upload(file, below) for file in asked.files if file.filename]
    if not uploads:
        raise InvalidRequestError("there is no file in the request", hint="choose one")
    with request_context.writing(chat) as writer:
        before = writer.save_edits()
        placed = writer.upload(uploads, folder=asked.folder, portable=True)
    return FilesUploaded(
        manifest_id=chat.head(),
        files=tuple(Uploaded(**one.model_dump()) for one in placed),
        changed=chat.head() != before,
        notes=notes(writer.fresh_notes()),
    )


def state_id(chat: ChatStore, text: str) -> str | None:
    """Return the id of the manifest that ``text`` names; None for HEAD while there is none.

    Raises:
        UnknownNameError: naming the nearest.
    """
    if text == "HEAD" and chat.head() is None:
        return None
    return request_context.index().resolve(chat, text)


def _diff(chat: ChatStore, changes: list[FileChange], patches: int) -> WorkspaceDiff:
    room, told = _PATCH_BYTES, []
    for number, change in enumerate(changes[:_MOST_CHANGES]):
        if number >= patches:
            told.append(_file_diff(change, None, binary=False))
            continue
        sides = [chat.store.read_blob(one.oid) for one in (change.old, change.new) if one]
        binary = any(is_binary_content(side) for side in sides)
        patch = None
        if binary or (room > 0 and all(len(side) <= _PATCHED_BYTES for side in sides)):
            patch = chat.patch(change)
            room -= len(patch)
        told.append(_file_diff(change, patch, binary=binary))
    truncated = len(changes) > len(told) or any(one.patch is None for one in told[:patches])
    return WorkspaceDiff(changes=tuple(told), truncated=truncated)


def _file_diff(change: FileChange, patch: str | None, *, binary: bool) -> FileDiff:
    added = deleted = None
    if patch is not None:
        files = read_patch(patch)
        added = sum(file.count("add") for file in files)
        deleted = sum(file.count("del") for file in files)
    return FileDiff(
        path=change.path,
        kind=change.kind,
        binary=binary,
        added=added,
        deleted=deleted,
        patch=patch,
    )


def _check_branch(chat: ChatStore, branch: str | None) -> None:
    active = chat.active_branch()
    if branch not in {None, active}:
        raise MovedError(
            f"the folder is on {active!r} now, not on {branch!r}",
            hint=f"switch back: covalt-git chat checkout {chat.id} {branch}",
        )


def _upload(file: FileStorage, below: str) -> Upload:
    """Return a file of the form, its name composed as most systems write it."""
    name = unicodedata.normalize("NFC", file.filename or "")
    if "/" not in name:  # else the engine says what is wrong with it
        check_portable(below + name)
    return Upload(name, file.stream.read())


OPERATIONS = (
    get_workspace_files,
    get_workspace_file,
    get_workspace_diff,
    update_workspace_file,
    delete_workspace_file,
    upload_files,
)
