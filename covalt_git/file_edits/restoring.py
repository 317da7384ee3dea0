"""Bringing files back to what they were in a manifest; history only ever grows by it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import UnknownNameError
from covalt_git.models.commit_record import CommitRecord, RestoreRecord
from covalt_git.names import new_id
from covalt_git.workspaces import branches, commits, tree_notes, trees
from covalt_git.workspaces.chat import HEADS
from covalt_git.workspaces.switching import Journal
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

_SHORT = 12
_FEW = 3


@dataclass(frozen=True, slots=True)
class Restored:
    """The branch that the folder is on, and its manifest; ``made`` unless all was so already."""

    branch: str
    manifest_id: str | None
    changes: tuple[FileChange, ...]
    made: bool = True


def restore(writer: Writer, manifest_id: str, paths: Sequence[str] = ()) -> Restored:
    """Bring all files, or what is at ``paths``, back to what they were in a manifest.

    That is a new manifest of the active branch.  A folder is brought back with all below it; what
    the manifest does not have at a path is removed.  Edits are saved first.

    Raises:
        UnknownNameError: for a path that is neither in the manifest nor in the folder.
        InTheWayError: when something that is in no state stands where a file goes.
    """
    chat = writer.chat
    head = writer.save_edits()
    now, then = chat.state(head), chat.state(manifest_id)
    wanted = _wanted(chat, paths, now, then, manifest_id)
    tree = then.tree
    if wanted:
        edits = {path: trees.find_entry(chat.store, then.tree, path) for path in wanted}
        tree = trees.edited(chat.store, now.tree, edits)
    empty = _empty_folders(chat, tree, now, then, wanted)
    new = FolderState(tree, empty)
    branch = chat.active_branch()
    if new == now:
        return Restored(branch, head, (), made=False)
    seen = writer.look()
    record = CommitRecord(
        id=new_id(),
        at=commits.now(),
        by=writer.by,
        restore=RestoreRecord(manifest_id=manifest_id, paths=wanted),
        workspace=tree_notes.notes(chat.store, seen.notes, now.tree, new),
    )
    some = ", ".join(wanted[:_FEW]) or "all files"
    more = f" and {len(wanted) - _FEW} more" if len(wanted) > _FEW else ""
    oid = writer.make(
        "restore",
        record,
        tree,
        () if head is None else (head,),
        subject=f"{some}{more} of {manifest_id[:_SHORT]}",
    )
    journal = Journal(old=head, new=oid, head=HEADS + branch, moves=True, before=head)
    changes = writer.switch(journal)
    return Restored(branch, oid, tuple(changes))


def keep_files(writer: Writer, manifest_id: str, *, branch: str | None = None) -> Restored:
    """Go on from a manifest on a new branch, ``restore-N`` unless named, with the files of now.

    Raises:
        BranchExistsError: when ``branch`` is taken.
    """
    chat = writer.chat
    if branch is not None:
        branches.check_free(chat, branch)
    name = branches.free_name(chat, "restore") if branch is None else branch
    head = writer.save_edits()
    record = CommitRecord(
        id=new_id(),
        at=commits.now(),
        by=writer.by,
        restore=RestoreRecord(manifest_id=manifest_id, keeps_files=True),
        workspace=writer.noted(head),
    )
    oid = writer.make(
        "restore",
        record,
        chat.state(head).tree,
        (manifest_id,),
        subject=f"the conversation of {manifest_id[:_SHORT]}, with the files kept",
    )
    journal = Journal(old=head, new=oid, head=HEADS + name, moves=True)
    return Restored(name, oid, tuple(writer.switch(journal)))


def _wanted(
    chat: ChatStore, paths: Iterable[str], now: FolderState, then: FolderState, manifest_id: str
) -> tuple[str, ...]:
    """Return the paths as trees have them, each once; nothing stands for all of the workspace.

    Raises:
        UnknownNameError: naming the nearest path of the manifest.
    """
    wanted = dict.fromkeys(posixpath.normpath(path) for path in paths)
    if "." in wanted:
        return ()
    for path in wanted:
        if not any(_has(chat, state, path) for state in (then, now)):
            known = set(chat.files(manifest_id)) | set(then.empty_folders)
            folders = {
                path[:at] for path in known for at, letter in enumerate(path) if letter == "/"
            }
            listing = f"covalt-git chat files {chat.id} {manifest_id[:_SHORT]}"
            raise UnknownNameError("file", path, known | folders, list_with=listing)
    return tuple(wanted)


def _has(chat: ChatStore, state: FolderState, path: str) -> bool:
    """Tell whether there is a file or a folder at a path."""
    if any(folder == path or folder.startswith(f"{path}/") for folder in state.empty_folders):
        return True
    return trees.find_entry(chat.store, state.tree, path) is not None


def _empty_folders(
    chat: ChatStore,
    tree: str | None,
    now: FolderState,
    then: FolderState,
    wanted: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the empty folders there are after ``wanted`` was brought back, the tree being so."""
    if not wanted:
        return then.empty_folders

    def is_wanted(folder: str) -> bool:
        return any(folder == path or folder.startswith(f"{path}/") for path in wanted)

    kept = {folder for folder in now.empty_folders if not is_wanted(folder)}
    back = {folder for folder in then.empty_folders if is_wanted(folder)}
    return tree_notes.still_empty(chat.store, tree, kept | back)
