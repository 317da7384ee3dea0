"""Restoring of files from an earlier commit, and undo and redo of the last change; each is a new commit.

An undo commit has the files from before the commit that it undoes.  A redo commit has the files from before
the undo.  The next undo or redo treats an undo or redo commit as the earlier commit that has the same files.
"""

from __future__ import annotations

import itertools
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.conversations.commit_names import SHOWN_DIGITS
from covalt_git.errors import CovaltError, UnknownNameError, listed
from covalt_git.models.commit_record import RestoreRecord
from covalt_git.workspaces import branches, trees
from covalt_git.workspaces.chat import MovedError
from covalt_git.workspaces.folders import folders_above
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot
    from covalt_git.workspaces.writer import Writer


class Restored(NamedTuple):
    """Result of a restore: the branch and its head; ``made`` is false if there was nothing to restore.

    After a restore of the files from before a merge, ``hint`` has the command that repeats the merge.  ``undoes`` is the
    commit that an undo takes back; None in a preview of an undo of uncommitted changes.
    """

    branch: str
    manifest_id: str | None
    changes: tuple[FileChange, ...]
    made: bool = True
    hint: str = ""
    undoes: str | None = None


def restore(writer: Writer, manifest_id: str, paths: Sequence[str] = ()) -> Restored:
    """Restore all files, or those at ``paths``, from an earlier commit, in a new commit.

    A folder is restored with everything in it.  A path that the earlier commit does not have is removed.
    Uncommitted changes are committed first.

    Raises:
        UnknownNameError: for a path that is neither in the earlier commit nor in the workspace.
        CovaltError: if an untracked path is where a file must be written.
    """
    head = writer.commit_changes()
    new, restored, subject = restored_files(
        writer.chat, writer.chat.state(head), manifest_id, paths
    )
    return _commit_state(writer, head, new, restored, subject=subject)


def restored_files(
    chat: ChatStore, now: FolderState, manifest_id: str, paths: Sequence[str]
) -> tuple[FolderState, RestoreRecord, str]:
    """Return the files ``now`` with the restored paths, and the record and the subject of the restore.

    Raises:
        UnknownNameError: for a path that is neither in the earlier commit nor in the workspace.
    """
    then = chat.state(manifest_id)
    chosen = _chosen(chat, paths, now, then, manifest_id)
    new = then
    if chosen:
        edits = {path: trees.find_entry(chat.store, then.tree, path) for path in chosen}
        # Trees do not have empty folders, so they are restored by their list.
        empty = [folder for folder in now.empty_folders if not _is_below(folder, chosen)]
        empty += [folder for folder in then.empty_folders if _is_below(folder, chosen)]
        new = trees.edited_state(chat.store, FolderState(now.tree, tuple(empty)), edits)
    restored = RestoreRecord(manifest_id=manifest_id, paths=chosen)
    return new, restored, f"{listed(chosen) or 'all files'} of {manifest_id[:SHOWN_DIGITS]}"


def _commit_state(
    writer: Writer, head: str | None, new: FolderState, restored: RestoreRecord, *, subject: str
) -> Restored:
    """Change the workspace from ``head`` to the files ``new`` in a new commit, unless it already has them.

    Raises:
        CovaltError: if an untracked path is where a file must be written.
    """
    chat = writer.chat
    branch = chat.active_branch()
    if new == chat.state(head):
        note_missing(writer, restored, ())
        return Restored(branch, head, (), made=False)
    oid, changes = writer.commit_files("restore", new, head, subject=subject, restore=restored)
    note_missing(writer, restored, changes)
    hint = "" if restored.paths else _merge_again(chat, head, restored.manifest_id)
    return Restored(branch, oid, tuple(changes), hint=hint)


def note_missing(writer: Writer, restored: RestoreRecord, changes: Iterable[FileChange]) -> None:
    """Note the modes that a restore with these changes widened, and the files that its commit does not have."""
    changes = tuple(changes)
    writer.note_modes(restored.manifest_id, changes)
    writer.note_lost(restored.manifest_id, changes, paths=restored.paths, remaining=True)


def keep_files(writer: Writer, manifest_id: str, *, branch: str | None = None) -> Restored:
    """Create a branch at an earlier commit, by default ``restore-N``, with the current files.

    Raises:
        BranchExistsError: when ``branch`` exists.
    """
    chat = writer.chat
    name = branches.new_name(chat, branch, "restore")  # before uncommitted changes are committed
    head = writer.commit_changes()
    restored = RestoreRecord(manifest_id=manifest_id, keeps_files=True)
    subject = f"the conversation of {manifest_id[:SHOWN_DIGITS]}, with the files kept"
    files = writer.snapshot_at(head)
    oid = writer.make("restore", files, manifest_id, subject=subject, restore=restored)
    changes = writer.switch(name, old=head, before=None, new=oid)
    return Restored(name, oid, tuple(changes))


def undo(writer: Writer, expected: str | None = None) -> Restored:
    """Restore the files from before the last change of files, which may be uncommitted.

    Raises:
        CovaltError: when no commit of the active branch has changed a file.
        MovedError: if the last change is another commit than ``expected``.
        CovaltError: if an untracked path is where a file must be written.
    """
    chat = writer.chat
    head = writer.commit_changes()
    last = _undoable(chat, head)
    if expected not in {None, last.id}:
        raise MovedError(
            f"the last change of the files is now {last.id[:SHOWN_DIGITS]}, not {str(expected)[:SHOWN_DIGITS]}",
            hint=f"show the last changes: covalt-git chat log {chat.id}",
        )
    restored = RestoreRecord(manifest_id=last.parent_id, command="undo")
    subject = f"undo of {last.id[:SHOWN_DIGITS]}"
    then = chat.state(last.parent_id)
    return _commit_state(writer, head, then, restored, subject=subject)._replace(undoes=last.id)


def undo_preview(chat: ChatStore, scan: Snapshot) -> Restored:
    """Return which commit :func:`undo` would take back now; ``scan`` is a scan in memory.

    Raises:
        CovaltError: when no commit of the active branch has changed a file.
    """
    head = chat.head()
    is_committed = scan.holds(chat.state(head))
    undoes = _undoable(chat, head).id if is_committed else None
    return Restored(chat.active_branch(), head, (), made=False, undoes=undoes)


def _undoable(chat: ChatStore, head: str | None) -> WorkspaceManifest:
    last = _last_change(chat, head, "undo", "redo")
    if last is None:
        raise CovaltError(
            f"there is nothing to undo on {chat.active_branch()!r}",
            hint=f"list the commits of all branches: covalt-git chat log {chat.id} --all",
            code="nothing_to_undo",
            http_status=409,
        )
    return last


def redo(writer: Writer) -> Restored:
    """Restore the files from before the last undo.

    Raises:
        CovaltError: when there was no undo, or files have changed since.
        CovaltError: if an untracked path is where a file must be written.
    """
    chat = writer.chat
    head = writer.commit_changes()
    last = _last_undo(chat, head)
    if last is None:
        raise CovaltError(
            f"there is nothing to redo on {chat.active_branch()!r}",
            hint=f"restore any commit: covalt-git chat restore {chat.id} COMMIT",
            code="nothing_to_redo",
            http_status=409,
        )
    restored = RestoreRecord(manifest_id=last.parent_id, command="redo")
    subject = f"redo, takes back {last.id[:SHOWN_DIGITS]}"
    return _commit_state(writer, head, chat.state(last.parent_id), restored, subject=subject)


def is_redoable(chat: ChatStore) -> bool:
    """Return whether the newest commit is an undo or redo, and another redo is possible."""
    head = chat.head()
    restored = None if head is None else chat.outline(head).record.restore
    is_command = restored is not None and restored.command is not None
    return is_command and _last_undo(chat, head) is not None


def _merge_again(chat: ChatStore, head: str | None, manifest_id: str | None) -> str:
    """Return how to repeat the last merge between two commits; an empty string without a merge.

    Without ``--again``, that would change nothing, because its commits are already in the history.  A fast-forward left
    no commit of its own, but the branch that was merged ends between the two commits.
    """
    merge, oid, taken_back = None, head, set[str]()
    while oid is not None and oid != manifest_id:
        taken_back.add(oid)
        parents = chat.store.read_commit(oid).parents
        if merge is None and len(parents) > 1:
            merge = oid
        oid = next(iter(parents), None)
    if oid != manifest_id:
        return ""
    record = None if merge is None else chat.outline(merge).record.merge
    if record is not None:
        exists = record.branch in chat.branch_names()
        branch, name = record.branch, record.branch if exists else record.manifest_id[:SHOWN_DIGITS]
    else:
        ends = (end.name for end in chat.branches() if end.manifest_id in taken_back)
        branch = name = next((name for name in ends if name != chat.active_branch()), "")
    again = f"covalt-git chat merge {chat.id} {name} --again"
    return f"{branch} counts as merged; to merge it again: {again}" if name else ""


def _chosen(
    chat: ChatStore, paths: Iterable[str], now: FolderState, then: FolderState, manifest_id: str
) -> tuple[str, ...]:
    """Return the paths as in trees, each once; the empty tuple is the whole workspace.

    Raises:
        UnknownNameError: if a path is in neither state; the hint has the most similar path of the earlier commit.
    """
    chosen = dict.fromkeys(posixpath.normpath(path) for path in paths)
    if "." in chosen:
        return ()
    states = (then, now)
    for path in chosen:
        if not any(trees.find_entry(chat.store, state.tree, path) for state in states) and not any(
            _is_below(folder, (path,)) for state in states for folder in state.empty_folders
        ):
            existing = set(chat.files(manifest_id)) | set(then.empty_folders)
            folders = itertools.chain.from_iterable(map(folders_above, existing))
            listing = f"covalt-git chat files {chat.id} {manifest_id[:SHOWN_DIGITS]}"
            raise UnknownNameError("file", path, existing.union(folders), list_with=listing)
    return tuple(chosen)


def _is_below(folder: str, paths: Iterable[str]) -> bool:
    """Return whether a folder is one of the paths, or below one of them."""
    return any(folder == path or folder.startswith(f"{path}/") for path in paths)


def _last_undo(chat: ChatStore, oid: str | None) -> WorkspaceManifest | None:
    """Return the undo that the next redo reverts; None without an undo, or if files have changed since."""
    last = _last_change(chat, oid, "redo")
    restored = None if last is None else last.record.restore
    return last if restored is not None and restored.command == "undo" else None


def _last_change(chat: ChatStore, oid: str | None, *commands: str) -> WorkspaceManifest | None:
    """Return the last commit, on first parents, that changed files or empty folders; or None.

    A commit of one of the ``commands`` (``undo``, ``redo``) counts as the earlier commit with the same files.
    """
    while oid is not None:
        manifest = chat.outline(oid)
        restored = manifest.record.restore
        # Without this step, a second undo would undo the first one, and never get further back.
        if restored is not None and restored.command in commands:
            oid = restored.manifest_id
        elif chat.state(oid) != chat.state(manifest.parent_id):
            return manifest
        else:
            oid = manifest.parent_id
    return None
