"""Merge of a branch into the active one.

If a conflict has no decision, the merge stops before anything is changed; ``refs/covalt/merge`` then stores
the names of the branches, so that a user can resolve the conflict by its path alone.  Otherwise the merge is one
commit with two parents.  The workspace and the branch change to it together, by the journal.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.conversations import commit_names
from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import CommitGraph
from covalt_git.merging.state_merge import merge_states
from covalt_git.merging.taken_back import taken_back
from covalt_git.models.base import StrictModel
from covalt_git.models.commit_record import MergeConflict, MergeRecord, WorkspaceNotes
from covalt_git.workspaces import switching, trees
from covalt_git.workspaces.chat import put_stored, stored_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.merging.merge_conflicts import Choices, Hunks
    from covalt_git.models.chats import FileChange
    from covalt_git.models.commit_record import MergeDecision
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer

STOPPED = "refs/covalt/merge"

MergeStatus = Literal["already_merged", "fast_forward", "merged", "conflicts"]


class Merge(NamedTuple):
    """Result of a merge, or of its preview.

    ``manifest_id`` is the new head of the active branch; None in a preview of a new commit.  With the
    status ``conflicts``, some conflicts have no decision, and nothing has changed.  For these conflicts,
    ``lines`` has the lines in conflict, by path, ``hunks`` the hunks, and ``possible`` the decisions that each conflict
    can have.  ``texts`` has the text with conflict markers of the one path for which it was requested.
    ``taken_back_by`` is the undo or restore because of which the files lack changes of ``branch`` that were merged
    before; if they are merged ``again``, it is None.
    """

    status: MergeStatus
    branch: str
    into: str
    base_id: str | None
    manifest_id: str | None
    changes: tuple[FileChange, ...] = ()
    conflicts: tuple[MergeConflict, ...] = ()
    notes: WorkspaceNotes = WorkspaceNotes()
    lines: Mapping[str, str | None] = MappingProxyType({})
    hunks: Mapping[str, Hunks | None] = MappingProxyType({})
    texts: Mapping[str, bytes | None] = MappingProxyType({})
    taken_back_by: str | None = None
    again: bool = False
    possible: Mapping[str, tuple[MergeDecision, ...]] = MappingProxyType({})


class StoppedMerge(StrictModel):
    """The last merge that conflicts stopped: its branch or commit, and the branch to merge into."""

    v: int = 1
    branch: str
    into: str
    again: bool = False


def merge(
    writer: Writer,
    branch: str,
    choices: Choices | None = None,
    *,
    message: str = "",
    fast_forward: bool = True,
    again: bool = False,
    check_path: Callable[[str], None] = lambda _path: None,
) -> Merge:
    """Merge a branch, or another commit, into the active branch; uncommitted edits are committed first.

    If the active branch has no commits that ``branch`` lacks, it is fast-forwarded, unless ``fast_forward`` is false.
    With ``again``, changes that were merged before, and taken back by an undo or restore, are merged once more.
    ``check_path`` is called with each path at which the other version of a conflict is saved, before anything is written:
    the name of the branch is a part of it.

    Raises:
        UnknownNameError: if the branch or a conflict does not exist; the hint has the most similar one.
        CovaltError: if the name means several commits.
        NotMergeableError: if a choice is not possible for its conflict.
        CovaltError: if an untracked path is where a file of the merge must be written.
        CovaltError: if the branch contains a path that a scan never stores.
    """
    chat = writer.chat
    branch, theirs = _theirs(chat, branch)
    head = writer.commit_changes()
    plan, after = _plan(
        chat, writer.snapshot, branch, theirs, choices, fast_forward=fast_forward, again=again
    )
    if plan.status == "already_merged":
        return plan
    if plan.status == "conflicts":
        stopped_merge = StoppedMerge(branch=branch, into=plan.into, again=again)
        put_stored(chat.store, STOPPED, stopped_merge, f"stopped merge: {branch} into {plan.into}")
        return plan
    # A role chooses the name of the branch, and with it a path that an approval rule may keep from it
    # (test_a_rule_about_a_path_holds_for_the_other_version_of_a_conflict).
    for conflict in plan.conflicts:
        if conflict.saved_as is not None:
            check_path(conflict.saved_as)
    new = theirs
    if plan.status == "fast_forward":
        changes = writer.switch(plan.into, old=head, before=head, new=theirs)
    else:
        record = MergeRecord(
            branch=branch, manifest_id=theirs, base_id=plan.base_id, conflicts=plan.conflicts
        )
        subject = message or f"{branch} into {plan.into}"
        new, changes = writer.commit_files(
            "merge", after, head, theirs, subject=subject, merge=record
        )
        writer.note_modes(theirs, changes)
    put_stored(chat.store, STOPPED, None)
    writer.note_lost(theirs, changes)
    return plan._replace(manifest_id=new, changes=tuple(changes))


def preview(
    chat: ChatStore,
    snapshot: Snapshot,
    branch: str,
    choices: Choices | None = None,
    *,
    fast_forward: bool = True,
    again: bool = False,
    text_of: str | None = None,
) -> Merge:
    """Return what :func:`merge` would do now; it stores nothing and does not lock the chat.

    ``snapshot`` is a scan in memory, which has the merged files as long as it is open.

    The conflict at the path ``text_of`` gets its text.  It raises the errors of :func:`merge`.
    """
    branch, theirs = _theirs(chat, branch)
    plan, after = _plan(
        chat,
        snapshot,
        branch,
        theirs,
        choices,
        fast_forward=fast_forward,
        again=again,
        text_of=text_of,
    )
    if plan.status == "already_merged":
        return plan
    ours = snapshot.state
    # Already for the plan: the merge would raise this error only when it switches.
    switching.Switch(chat, ours, after).check(snapshot.unstored())
    changes = () if plan.status == "conflicts" else chat.tree_changes(ours.tree, after.tree)
    new = theirs if plan.status == "fast_forward" else None
    return plan._replace(manifest_id=new, changes=tuple(changes))


def stopped(chat: ChatStore) -> StoppedMerge | None:
    """Return the last merge into the active branch, if conflicts stopped it."""
    merge = stored_at(chat.store, STOPPED, StoppedMerge)
    return merge if merge is not None and merge.into == chat.active_branch() else None


def stopped_branch(chat: ChatStore) -> str | None:
    """Return the branch or commit whose merge into the active branch was stopped, if it can still be merged."""
    merge = stopped(chat)
    if merge is None:
        return None
    try:
        _, theirs = _theirs(chat, merge.branch)
    except CovaltError:  # it is deleted, for example
        return None
    is_open = merge.again or theirs not in chat.above(chat.head())
    return merge.branch if is_open else None


def _theirs(chat: ChatStore, name: str) -> tuple[str, str]:
    """Return the name of the branch or commit to merge, and its id."""
    theirs = commit_names.resolve(chat, name)
    label = name if name in chat.branch_names() else theirs[: commit_names.SHOWN_DIGITS]
    return label, theirs


def _plan(
    chat: ChatStore,
    snapshot: Snapshot,
    branch: str,
    theirs_id: str,
    choices: Choices | None,
    *,
    fast_forward: bool,
    again: bool,
    text_of: str | None = None,
) -> tuple[Merge, FolderState]:
    """Return a merge whose new commit and changes are not known yet, and the files after it.

    ``snapshot`` is the content of the workspace, in a preview with uncommitted changes.
    """
    store, head, into = chat.store, chat.head(), chat.active_branch()
    graph = CommitGraph(store)
    base_id = common = None if head is None else graph.merge_base(head, theirs_id)
    lost = taken_back(chat, head, common) if head is not None and common is not None else None
    # With the merge base as the base, what was taken back would be unchanged on their side, so nothing would
    # come.  The files that were restored have another base, and edits since then stay.
    if lost is not None and again:
        base_id = None if lost.restored is None else graph.merge_base(lost.restored, theirs_id)
    ours, theirs, base = (chat.state(oid) for oid in (head, theirs_id, base_id))
    plan = Merge("already_merged", branch, into, base_id, head)
    if lost is not None:
        plan = plan._replace(again=True) if again else plan._replace(taken_back_by=lost.by)
    if theirs_id == base_id:
        return plan, ours
    # In a preview: the merge commits these changes first, so it cannot be a fast-forward.
    if not snapshot.holds(ours):
        ours = snapshot.state
    elif head == base_id and (fast_forward or head is None):
        return plan._replace(status="fast_forward"), theirs
    merged = merge_states(
        chat,
        base,
        ours,
        theirs,
        choices or {},
        names=(into, branch),
        unstored=snapshot.unstored(),
        list_with=f"covalt-git chat merge {chat.id} {branch} --dry-run",
        text_of=text_of,
    )
    notes = trees.notes(store, snapshot.notes, ours.tree, merged.after)
    status: MergeStatus = "conflicts" if merged.lines else "merged"
    plan = plan._replace(
        status=status,
        conflicts=merged.conflicts,
        lines=merged.lines,
        hunks=merged.hunks,
        texts=merged.texts,
        possible=merged.possible,
        notes=notes,
    )
    return plan, merged.after
