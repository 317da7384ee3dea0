"""Unresolved conflicts of earlier merges: their list, and their resolution.

A conflict is unresolved as long as the saved other version exists.  A user can also resolve it by deleting the
saved version, or by moving it over the file.

The conflicts of a merge that stopped are listed, too; that merge made no commit.  Resolving one of them commits
the merge with this decision; of each other conflict both versions are saved, and it stays unresolved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.merging import branch_merge, merge_conflicts
from covalt_git.merging.merge_conflicts import Choice, Hunks
from covalt_git.merging.tree_merge import Clash
from covalt_git.models.commit_record import MergeConflict
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import Edits
    from covalt_git.workspaces.writer import Writer


_RESOLUTIONS = {
    "ours": "kept the version from before the merge of {branch}",
    "theirs": "took the version of {branch}",
    "union": "kept the lines of both",
    "content": "wrote a new text",
}


class Waiting(MergeConflict):
    """An unresolved conflict, whose other version is saved at the path ``saved_as``.

    ``branch`` was merged, ``manifest_id`` is the merge, and ``base_id`` its merge base.
    """

    saved_as: str
    branch: str
    manifest_id: str
    base_id: str | None


def waiting(chat: ChatStore, oid: str | None, tree: str | None) -> list[Waiting]:
    """Return the unresolved conflicts of the merges in the history of a commit, sorted by path.

    ``tree`` is the tree of the commit, or of a scan of the workspace.
    """
    return unresolved(chat, _merges(chat, oid), tree)


def unresolved(
    chat: ChatStore, merges: Iterable[WorkspaceManifest], tree: str | None
) -> list[Waiting]:
    """Return the unresolved conflicts of some merges, newest first, as :func:`waiting`."""
    conflicts: dict[str, Waiting] = {}
    for manifest in merges:
        merge = manifest.record.merge
        for conflict in merge.conflicts if merge else ():
            saved = conflict.saved_as
            if merge and saved and trees.find_entry(chat.store, tree, saved) is not None:
                where = {
                    "branch": merge.branch,
                    "manifest_id": manifest.id,
                    "base_id": merge.base_id,
                }
                # The newest merge that saved a version at this path is the one whose version is there.
                conflicts.setdefault(saved, Waiting(**dict(conflict), **where))
    return sorted(conflicts.values(), key=lambda conflict: (conflict.path, conflict.saved_as))


def _merges(chat: ChatStore, oid: str | None) -> list[WorkspaceManifest]:
    """Return the merges in the history of a commit, newest first."""
    above = chat.above(oid)
    # The start of the message is enough to skip other commits without parsing them.
    merges = [
        chat.manifest(commit)
        for commit in above
        if chat.store.read_commit(commit).message.startswith("merge: ")
    ]
    return sorted(merges, key=lambda merge: (merge.created_at, merge.record.id), reverse=True)


def lines(chat: ChatStore, conflict: Waiting, tree: str | None) -> str | None:
    """Return the lines in conflict, or None; ``tree`` as for :func:`waiting`."""
    if conflict.deleted is not None:
        return None
    clash = _clash(chat, conflict, tree)
    names = (conflict.path, conflict.saved_as)
    return merge_conflicts.conflicting_lines(chat.store, clash, names)


def hunks(chat: ChatStore, conflict: Waiting, tree: str | None) -> Hunks | None:
    """Return the hunks in conflict, or None; ``tree`` as for :func:`waiting`."""
    return merge_conflicts.hunks(chat.store, _clash(chat, conflict, tree))


def text(chat: ChatStore, conflict: Waiting, tree: str | None) -> bytes | None:
    """Return the merged text with git's conflict markers, or None; ``tree`` as for :func:`waiting`."""
    names = (conflict.path, conflict.saved_as)
    return merge_conflicts.with_markers(chat.store, _clash(chat, conflict, tree), names)


def possible(
    chat: ChatStore, conflict: Waiting, tree: str | None
) -> tuple[Literal["ours", "theirs", "union"], ...]:
    """Return the decisions that a conflict can have, besides new content; ``tree`` as for :func:`waiting`."""
    can_unite = merge_conflicts.can_unite(chat, _clash(chat, conflict, tree))
    return ("ours", "theirs", "union") if can_unite else ("ours", "theirs")


def _clash(chat: ChatStore, conflict: Waiting, tree: str | None) -> Clash:
    """Return the three current versions of a file in conflict."""
    path, saved_as, base_tree = conflict.path, conflict.saved_as, chat.state(conflict.base_id).tree
    base, ours, theirs = (
        trees.find_entry(chat.store, *where)
        for where in ((base_tree, path), (tree, path), (tree, saved_as))
    )
    # If theirs deleted the file, the saved version is that of the base.
    return Clash(path, conflict.kind, base, ours, None if conflict.deleted == "theirs" else theirs)


def resolve(
    writer: Writer,
    path: str,
    choice: Choice,
    *,
    check_path: Callable[[str], None] = lambda _path: None,
) -> Sequence[FileChange]:
    """Resolve a conflict that is unresolved, or that stopped the last merge; return the changed files.

    An unresolved conflict is resolved in a new commit.  ``path`` is the path of the conflict, or of the saved
    other version.  The decision is about the current files: ``ours`` keeps the file with all changes since the
    merge.  ``check_path`` is called as by :func:`.branch_merge.merge`.

    Raises:
        UnknownNameError: if no conflict is unresolved at the path.
        NotMergeableError: if the decision is not possible for this conflict.
    """
    chat = writer.chat
    head = writer.commit_changes()
    state = chat.state(head)
    pending = waiting(chat, head, state.tree)
    stopped = branch_merge.stopped(chat)
    # A saved version comes first: it is in the workspace, while a stopped merge has changed nothing and can be
    # repeated.
    if stopped is not None and not any(
        path in {conflict.path, conflict.saved_as} for conflict in pending
    ):
        choices = {path: choice, None: Choice("both")}
        merge = branch_merge.merge(
            writer, stopped.branch, choices, again=stopped.again, check_path=check_path
        )
        return merge.changes
    conflict = _named(chat, pending, path)
    edits: Edits = {conflict.saved_as: None}
    assert choice.decision != "both"  # no choice here: the workspace has both versions already
    if choice.decision != "ours":
        clash = _clash(chat, conflict, state.tree)
        edits[conflict.path] = merge_conflicts.chosen(chat, clash, choice)
    after = trees.edited_state(chat.store, state, edits)
    words = _RESOLUTIONS[choice.decision].format(branch=conflict.branch)
    subject = f"conflict of {conflict.path} resolved: {words}"
    return writer.commit_files("edit", after, head, subject=subject)[1]


def _named(chat: ChatStore, pending: list[Waiting], path: str) -> Waiting:
    """Return the unresolved conflict with a path; it may also be the path of the saved version."""
    named = [conflict for conflict in pending if path in {conflict.path, conflict.saved_as}]
    if not named:
        paths = [conflict.path for conflict in pending]
        list_with = f"covalt-git chat resolve {chat.id}"
        raise UnknownNameError("conflict", path, paths, list_with=list_with)
    if len(named) > 1:
        saved = ", ".join(conflict.saved_as for conflict in named)
        raise CovaltError(
            f"several conflicts at {path!r} are unresolved", hint=f"name one of {saved}"
        )
    return named[0]
