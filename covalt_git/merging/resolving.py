"""Unresolved conflicts of earlier merges: their list, and their resolution.

A conflict is unresolved as long as the saved other version exists.  A user can also resolve it by deleting the
saved version, or by moving it over the file.

The conflicts of a merge that stopped are listed, too; that merge made no commit.  Resolving one of them commits
the merge with this decision; of each other conflict both versions are saved, and it stays unresolved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.merging import branch_merge, merge_conflicts
from covalt_git.merging.merge_conflicts import SAVED, Choices
from covalt_git.models.base import StrictModel
from covalt_git.models.commit_record import ConflictKind, MergeSide
from covalt_git.paths import typed
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.git_store.objects import TreeEntry
    from covalt_git.merging.merge_conflicts import Choice
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import Edits
    from covalt_git.workspaces.writer import Writer


class Waiting(StrictModel):
    """An unresolved conflict, whose other version is saved at the path ``saved_as``.

    ``branch`` was merged, ``manifest_id`` is the merge, and ``base_id`` its merge base.
    """

    path: str
    kind: ConflictKind
    deleted: MergeSide | None
    saved_as: str
    branch: str
    manifest_id: str
    base_id: str | None


def waiting(chat: ChatStore, oid: str | None, tree: str | None) -> list[Waiting]:
    """Return the unresolved conflicts of the merges in the history of a commit, sorted by path.

    ``tree`` is the tree of the commit, or of a scan of the workspace.
    """
    saved = {
        path for path, _ in trees.walk(chat.store, tree) if SAVED.search(path.rpartition("/")[2])
    }
    found: dict[str, Waiting] = {}
    for manifest in _merges(chat, oid) if saved else ():
        merge = manifest.record.merge
        for conflict in merge.conflicts if merge else ():
            saved_as = conflict.saved_as
            if merge is not None and saved_as in saved and saved_as not in found:
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


def _merges(chat: ChatStore, oid: str | None) -> list[WorkspaceManifest]:
    """Return the merges in the history of a commit, newest first."""
    above = chat.above(oid, without=()) if oid is not None else []
    # The start of the message is enough to skip other commits without parsing them.
    merges = [
        chat.manifest(one)
        for one in above
        if chat.store.read_commit(one).message.startswith("merge: ")
    ]
    return sorted(merges, key=lambda one: (one.created_at, one.record.id), reverse=True)


def lines(chat: ChatStore, conflict: Waiting, tree: str | None) -> str | None:
    """Return the lines in conflict, or None; ``tree`` as for :func:`waiting`."""
    if conflict.deleted is not None:
        return None
    base = chat.state(conflict.base_id).tree
    return merge_conflicts.conflicting_lines(
        chat.store,
        trees.find_entry(chat.store, base, conflict.path),
        trees.find_entry(chat.store, tree, conflict.path),
        trees.find_entry(chat.store, tree, conflict.saved_as),
        names=(conflict.path, conflict.saved_as),
    )


def resolve(writer: Writer, path: str, choice: Choice) -> Sequence[FileChange]:
    """Resolve a conflict that is unresolved, or that stopped the last merge; return the changed files.

    An unresolved conflict is resolved in a new commit.  ``path`` is the path of the conflict, or of the saved
    other version.  The decision is about the current files: ``ours`` keeps the file with all changes since the
    merge.

    Raises:
        UnknownNameError: if no conflict is unresolved at the path.
        NotMergeableError: if the decision is not possible for this conflict.
    """
    chat = writer.chat
    head = writer.commit_changes()
    state = chat.state(head)
    pending = waiting(chat, head, state.tree)
    stopped = branch_merge.stopped(chat)
    if stopped is not None and not any(path in {one.path, one.saved_as} for one in pending):
        choices = Choices({path: choice}, rest="both")
        return branch_merge.merge(writer, stopped.branch, choices).changes
    conflict = _named(chat, pending, path)
    edits: Edits = {conflict.saved_as: None}
    if choice.decision != "ours":
        edits[conflict.path] = _chosen(chat, state.tree, conflict, choice)
    after = trees.edited_state(chat.store, state, edits)
    subject = f"{conflict.path}, in conflict with {conflict.branch}: {choice.decision}"
    return writer.commit_files("edit", after, subject=subject)[1]


def _chosen(
    chat: ChatStore, tree: str | None, conflict: Waiting, choice: Choice
) -> TreeEntry | None:
    """Return the new entry at the path of a conflict; None deletes the file."""
    path = conflict.path
    if choice.decision == "both":
        raise merge_conflicts.NotMergeableError(
            f"both versions of {path!r} exist already",
            hint=f"rename the other version: mv {typed(chat.workspace / conflict.saved_as)} ...",
        )
    base = trees.find_entry(chat.store, chat.state(conflict.base_id).tree, path)
    ours, saved = (trees.find_entry(chat.store, tree, one) for one in (path, conflict.saved_as))
    # If theirs deleted the file, the saved version is that of the base.
    theirs = None if conflict.deleted == "theirs" else saved
    return merge_conflicts.chosen(chat, path, choice, base, ours, theirs)


def _named(chat: ChatStore, found: list[Waiting], path: str) -> Waiting:
    """Return the unresolved conflict with a path; it may also be the path of the saved version."""
    named = [one for one in found if path in {one.path, one.saved_as}]
    if not named:
        known = [one.path for one in found]
        list_with = f"covalt-git chat resolve {chat.id}"
        raise UnknownNameError("conflict", path, known, list_with=list_with)
    if len(named) > 1:
        saved = ", ".join(one.saved_as for one in named)
        raise CovaltError(
            f"several conflicts at {path!r} are unresolved", hint=f"name one of {saved}"
        )
    return named[0]
