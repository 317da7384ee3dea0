"""Conflicts that a merge left to be decided: which of them wait, and deciding one.

A conflict waits while the version that was saved beside its file is there.  Nothing else says so:
whoever removes that version by hand, or moves it over the file, has decided just as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store import FOLDER
from covalt_git.merging import merge_conflicts
from covalt_git.merging.merge_conflicts import SAVED
from covalt_git.models.base import StrictModel
from covalt_git.models.commit_record import CommitRecord, ConflictKind, MergeSide
from covalt_git.names import new_id
from covalt_git.paths import typed
from covalt_git.workspaces import commits, switching, tree_notes, trees
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.git_store import TreeEntry
    from covalt_git.merging.merge_conflicts import Choice
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import Edits
    from covalt_git.workspaces.writer import Writer


class Waiting(StrictModel):
    """A conflict that nobody has decided: the other version is at ``saved_as``.

    ``branch`` was merged, ``manifest_id`` is the merge, and ``base_id`` what both sides came from.
    """

    path: str
    kind: ConflictKind
    deleted: MergeSide | None
    saved_as: str
    branch: str
    manifest_id: str
    base_id: str | None


def waiting(chat: ChatStore, oid: str | None, tree: str | None) -> list[Waiting]:
    """Return the conflicts that wait, by path, of the merges that a manifest comes from.

    ``tree`` is the manifest's, or that of the folder as it is now.
    """
    there = set(_saved(chat, tree, ""))
    found: dict[str, Waiting] = {}
    for manifest in _merges(chat, oid) if there else ():
        merge = manifest.record.merge
        for conflict in merge.conflicts if merge else ():
            saved_as = conflict.saved_as
            if merge is not None and saved_as in there and saved_as not in found:
                found[saved_as] = Waiting(
                    path=conflict.path,
                    kind=conflict.kind,
                    deleted=conflict.deleted,
                    saved_as=saved_as,
                    branch=merge.branch,
                    manifest_id=manifest.id,
                    base_id=merge.base_id,
                )
    return sorted(found.values(), key=lambda one: (one.path, one.saved_as))


def _saved(chat: ChatStore, tree: str | None, below: str) -> Iterator[str]:
    """Yield the paths of a tree whose names are such as other versions have."""
    for entry in chat.store.read_tree(tree) if tree else ():
        path = below + entry.name.decode("utf-8", "surrogateescape")
        if SAVED.search(path, len(below)):
            yield path
        if entry.mode == FOLDER:
            yield from _saved(chat, entry.oid, f"{path}/")


def _merges(chat: ChatStore, oid: str | None) -> list[WorkspaceManifest]:
    """Return the merges that a manifest comes from, the newest first."""
    above = chat.above(oid, without=()) if oid is not None else []
    # Most commits need not be parsed to see that they are none.
    merges = [
        chat.manifest(one)
        for one in above
        if chat.store.read_commit(one).message.startswith("merge: ")
    ]
    return sorted(merges, key=lambda one: (one.created_at, one.record.id), reverse=True)


def resolve(writer: Writer, path: str, choice: Choice) -> list[FileChange]:
    """Decide a conflict that waits, as a manifest of its own; return what changed in the folder.

    ``path`` is the conflict's, or that of the version saved beside it.  What stands there now is
    decided about: ``ours`` keeps the file as it has become since the merge.

    Raises:
        UnknownNameError: when no conflict waits there.
        NotMergeableError: when it cannot be decided that way.
    """
    chat = writer.chat
    head = writer.save_edits()
    state = chat.state(head)
    conflict = _named(chat, waiting(chat, head, state.tree), path)
    edits: Edits = {conflict.saved_as: None}
    if choice.decision != "ours":
        edits[conflict.path] = _chosen(chat, state.tree, conflict, choice)
    tree = trees.edited(chat.store, state.tree, edits)
    empty = tree_notes.still_empty(chat.store, tree, state.empty_folders)
    after = FolderState(tree, empty)
    record = CommitRecord(
        id=new_id(),
        at=commits.now(),
        by=writer.by,
        workspace=tree_notes.notes(chat.store, writer.look().notes, state.tree, after),
    )
    subject = f"{conflict.path}, in conflict with {conflict.branch}: {choice.decision}"
    assert head is not None  # a merge has made it
    oid = writer.make("edit", record, tree, (head,), subject=subject)
    ref = chat.store.head()
    return writer.switch(switching.Journal(old=head, new=oid, head=ref, moves=True, before=head))


def _chosen(
    chat: ChatStore, tree: str | None, conflict: Waiting, choice: Choice
) -> TreeEntry | None:
    """Return what is to stand at the path of a conflict; None for nothing."""
    path = conflict.path
    ours, theirs = (trees.find_entry(chat.store, tree, one) for one in (path, conflict.saved_as))
    match choice.decision:
        case "theirs":
            return None if conflict.deleted == "theirs" else theirs
        case "content":
            return merge_conflicts.written(chat, path, choice.content, ours, theirs)
        case "union":
            known = trees.find_entry(chat.store, chat.state(conflict.base_id).tree, path)
            return merge_conflicts.united(
                chat, path, known, ours, None if conflict.deleted else theirs
            )
        case _:
            raise merge_conflicts.NotMergeableError(
                f"both versions of {path!r} are there already",
                hint=f"give the other a name that is its own: mv {typed(chat.workspace / conflict.saved_as)} ...",
            )


def _named(chat: ChatStore, found: list[Waiting], path: str) -> Waiting:
    """Return the conflict that waits at a path, or whose saved version is there."""
    named = [one for one in found if path in {one.path, one.saved_as}]
    if not named:
        known = [one.path for one in found]
        list_with = f"covalt-git chat resolve {chat.id}"
        raise UnknownNameError("conflict", path, known, list_with=list_with)
    if len(named) > 1:
        saved = ", ".join(one.saved_as for one in named)
        raise CovaltError(f"several conflicts wait at {path!r}", hint=f"name one of {saved}")
    return named[0]
