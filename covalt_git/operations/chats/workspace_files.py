"""Operations that read the files of a workspace: lists, content and differences."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.conversations.commit_names import NAMES
from covalt_git.errors import UnknownNameError
from covalt_git.git_store.objects import EXECUTABLE, LINK, blob_id, is_binary_content
from covalt_git.git_store.patches import change_patch, is_text
from covalt_git.manifests.toolset_files import readable
from covalt_git.operations.context import Context
from covalt_git.operations.registry import (
    ChatRequest,
    EquivalentCall,
    PathText,
    Request,
    Result,
    ResultFile,
    operation,
)
from covalt_git.operations.results import Change
from covalt_git.paths import check_path
from covalt_git.text.media_types import BYTES, media_type
from covalt_git.workspaces import commits, trees
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.rules import why_not_stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chat import ChatStore

_PATCHED_BYTES = 512 << 10
_PATCH_BYTES = 2 << 20
_MOST_CHANGES = 2_000
_OR_FOLDER = f"{NAMES} Empty: the current workspace."


class GetWorkspaceFiles(ChatRequest):
    """Request: the commit whose files are listed; by default the current workspace."""

    manifest: str = Field("HEAD", max_length=200, description=_OR_FOLDER)


class GetWorkspaceFile(ChatRequest):
    """Request: a file of a commit or of the workspace."""

    path: str
    manifest: str = Field("HEAD", max_length=200, description=_OR_FOLDER)
    download: bool = Field(
        default=False, description="Send it as a download, whatever its type is."
    )


class GetWorkspaceDiff(ChatRequest):
    """Request: two commits, or a commit and the workspace, to compare."""

    old: str = Field(max_length=200, description=f"{NAMES} Empty: an empty workspace.")
    new: str = Field("HEAD", max_length=200, description=_OR_FOLDER)
    patches: int = Field(
        2_000,
        ge=0,
        le=2_000,
        description="Maximum number of files with a patch; others are only listed.",
    )


class GetCommitDiff(Request):
    """Request: two commits, or a commit and the workspace, to compare without limits."""

    chat_id: str
    old: str = Field("HEAD", description=NAMES)
    new: str = Field("", description=_OR_FOLDER)
    patches: bool = True
    binary: bool = Field(
        default=False,
        description="Whether files that are not UTF-8 text get binary patches, which ``git apply`` accepts.",
    )


class WorkspaceFile(Result):
    """A file of a commit: its size in bytes, its sha256 in hex, and its blob id."""

    path: PathText
    size: int
    sha256: str
    oid: str
    executable: bool
    link: bool = Field(description="Whether it is a symbolic link; its content is the target.")


class WorkspaceFiles(Result):
    """The files of a commit; ``manifest_id`` is null if the chat has no commits."""

    manifest_id: str | None
    files: tuple[WorkspaceFile, ...]
    empty_folders: tuple[PathText, ...]


class FileDiff(Change):
    """The difference of one path; ``patch`` and the counts are null if the file is too large."""

    binary: bool
    added: int | None = Field(description="Lines.")
    deleted: int | None = Field(description="Lines.")
    patch: str | None = Field(description="In git's format.")
    exact: bool = Field(
        description="Whether ``git apply`` makes the change from the patch; otherwise the file is not UTF-8 text, "
        "and ``binary`` gives a patch that does, or ``patch`` is null."
    )


class WorkspaceDiff(Result):
    """The differences; ``truncated``: some are left out because of the limits."""

    changes: tuple[FileDiff, ...]
    truncated: bool


def _listed(request: GetWorkspaceFiles) -> EquivalentCall:
    return EquivalentCall("workspace:list_files", {"manifest": request.manifest})


def _read(request: GetWorkspaceFile) -> EquivalentCall:
    args = {"path": request.path, "manifest": request.manifest}
    return EquivalentCall("workspace:read_file", args)


def _compared(request: GetWorkspaceDiff | GetCommitDiff) -> EquivalentCall:
    return EquivalentCall("workspace:diff", {"old": request.old, "new": request.new})


@operation(errors=(404,), reads=_listed)
def get_workspace_files(context: Context, request: GetWorkspaceFiles) -> WorkspaceFiles:
    """List the files of a commit, or of the current workspace."""
    chat = context.chat(request.chat_id)
    with _state(context, chat, request.manifest) as (manifest_id, tree, empty_folders):
        files = trees.files(chat.store, tree)
        context.chat_index().sync_chat(chat)
        blobs = context.chat_index().blobs(chat, [file.oid for file in files.values()])
        return WorkspaceFiles(
            manifest_id=manifest_id,
            files=tuple(
                WorkspaceFile(
                    path=path,
                    size=blob.size,
                    sha256=blob.sha256,
                    oid=file.oid,
                    executable=file.mode == EXECUTABLE,
                    link=file.mode == LINK,
                )
                for path, file in files.items()
                for blob in [blobs[file.oid]]
            ),
            empty_folders=tuple(empty_folders),
        )


@operation(errors=(404, 416), reads=_read)
def get_workspace_file(context: Context, request: GetWorkspaceFile) -> ResultFile:
    """Send one file of a commit, or of the current workspace.

    Its ETag is its blob id, and range requests are supported.  PNG, JPEG, GIF, WebP, AVIF, WAV, MP3, Ogg
    and FLAC files have their media type; UTF-8 text and the target of a symbolic link are text/plain;
    other files are downloads.
    """
    chat = context.chat(request.chat_id)
    content = _content(context, chat, request.path, request.manifest)
    if content is None:
        with _state(context, chat, request.manifest) as (_, tree, _folders):
            paths = [readable(path) for path in trees.files(chat.store, tree)]
        listed = f"covalt-git chat files {chat.id}"
        raise UnknownNameError("file", request.path, paths, list_with=listed)
    media = media_type(content)
    return ResultFile.of_bytes(
        content,
        commits.one_line(request.path.rpartition("/")[2]) or "file",
        media,
        etag=blob_id(content, chat.store.object_format),
        # A browser would run code in other types with the rights of the server's pages.
        attachment=request.download or media == BYTES,
    )


@operation(errors=(404,), reads=_compared)
def get_workspace_diff(context: Context, request: GetWorkspaceDiff) -> WorkspaceDiff:
    """Return the differences between two commits, or between a commit and the current workspace.

    Files of more than 512 KiB, and files after the first 2 MiB of patches, are listed without a patch.  At
    most 2,000 paths are listed.
    """
    chat = context.chat(request.chat_id)
    with _changes(context, chat, request.old, request.new) as changes:
        return diff_of(chat, changes, request.patches)


# Local, because over HTTP the size of the answer would have no limit.
@operation(errors=(404,), local=True, reads=_compared)
def get_commit_diff(context: Context, request: GetCommitDiff) -> WorkspaceDiff:
    """Return the differences between two commits, or between a commit and the workspace, without limits."""
    chat = context.chat(request.chat_id)
    with _changes(context, chat, request.old, request.new) as changes:
        patches = len(changes) if request.patches else 0
        return diff_of(chat, changes, patches, complete=True, as_binary=request.binary)


@contextmanager
def _state(
    context: Context, chat: ChatStore, text: str
) -> Iterator[tuple[str | None, str | None, Sequence[str]]]:
    """Yield the id, the tree and the empty folders of a commit; without ``text``, of the current workspace.

    For the workspace, the id is that of the last commit, and the tree can only be read within the block.
    """
    if text:
        manifest_id = context.commit_id(chat, text)
        state = chat.state(manifest_id)
        yield manifest_id, state.tree, state.empty_folders
        return
    with chat.scan_in_memory() as scan:
        yield chat.head(), scan.tree, scan.notes.empty_folders


def _content(context: Context, chat: ChatStore, path: str, text: str) -> bytes | None:
    """Return a file of a commit; without ``text``, of the current workspace."""
    # The first writer creates the folder; until then, its files are those of HEAD.
    if text or not chat.workspace.is_dir():
        file = chat.find_file(context.commit_id(chat, text or "HEAD"), path)
        return None if file is None else chat.store.read_blob(file.oid)
    # Before the disk is read: `../x` and `.git/config` are outside of the workspace's files
    # (test_only_the_path_of_a_file_is_read).
    if check_path(path).kind == "refused":
        return None
    try:
        with Folder.opened(chat.workspace) as root:
            # No commit stores a larger file, so that reading one to the end would only fill the memory.
            disk_file = root.read(path, most=chat.config.max_file_mb << 20)
    except OSError:
        return None
    if disk_file is None or why_not_stored(path, disk_file[1], chat.config):
        return None
    return disk_file[1]


@contextmanager
def _changes(context: Context, chat: ChatStore, old: str, new: str) -> Iterator[list[FileChange]]:
    """Yield the differences; the files of the workspace can only be read within the block."""
    old_tree = chat.state(context.commit_id(chat, old)).tree if old else None
    with _state(context, chat, new) as (_, new_tree, _folders):
        yield chat.tree_changes(old_tree, new_tree)


def diff_of(
    chat: ChatStore,
    changes: Sequence[FileChange],
    patches: int,
    *,
    complete: bool = False,
    as_binary: bool = False,
) -> WorkspaceDiff:
    """Return changes with the patches of the first ``patches`` files; unless ``complete``, with the limits of a page."""
    room, largest = (math.inf, math.inf) if complete else (_PATCH_BYTES, _PATCHED_BYTES)
    diffs: list[FileDiff] = []
    for number, change in enumerate(changes if complete else changes[:_MOST_CHANGES]):
        if number >= patches:
            diffs.append(_file_diff(change, None, binary=False, exact=False))
            continue
        sides = [chat.store.read_blob(side.oid) for side in (change.old, change.new) if side]
        binary = any(is_binary_content(side) for side in sides)
        patch = None
        # Without `as_binary` the patch of a binary file is one line, whatever its size, so the limits do not matter.
        if binary or (room > 0 and all(len(side) <= largest for side in sides)):
            patch = change_patch(chat.store, change, binary=as_binary)
            room -= len(patch)
        # A change of the mode alone has no lines, which could be inexact.
        has_same_content = change.old and change.new and change.old.oid == change.new.oid
        exact = patch is not None and bool(
            as_binary or has_same_content or all(map(is_text, sides))
        )
        diffs.append(_file_diff(change, patch, binary=binary, exact=exact))
    truncated = len(changes) > len(diffs) or any(diff.patch is None for diff in diffs[:patches])
    return WorkspaceDiff(changes=tuple(diffs), truncated=truncated)


def _file_diff(change: FileChange, patch: str | None, *, binary: bool, exact: bool) -> FileDiff:
    added = deleted = None
    if patch is not None:
        lines = patch.partition("\n@@")[2].split("\n")
        added = sum(line.startswith("+") for line in lines)
        deleted = sum(line.startswith("-") for line in lines)
    return FileDiff.of(
        change, binary=binary, added=added, deleted=deleted, patch=patch, exact=exact
    )
