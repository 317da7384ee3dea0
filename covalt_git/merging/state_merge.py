"""Three-way merge of the content of a workspace: its tree and its empty folders, with decisions about conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.merging import merge_conflicts
from covalt_git.merging.tree_merge import TreeMerge
from covalt_git.workspaces import rules, trees
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.merging.merge_conflicts import Choices, Hunks
    from covalt_git.merging.tree_merge import Clash, MergedTree
    from covalt_git.models.commit_record import MergeConflict, MergeDecision
    from covalt_git.workspaces.chat import ChatStore


class StateMerge(NamedTuple):
    """Merged content; at the path of a conflict without a decision it has our version.

    For these conflicts, ``lines`` has the lines in conflict, by path, and ``hunks`` the hunks; ``possible`` has the
    decisions that each conflict can have.  ``texts`` has the text with conflict markers of the one path for which it
    was requested.
    """

    after: FolderState
    conflicts: tuple[MergeConflict, ...]
    lines: Mapping[str, str | None]
    hunks: Mapping[str, Hunks | None]
    texts: Mapping[str, bytes | None]
    possible: Mapping[str, tuple[MergeDecision, ...]]


def merge_states(
    chat: ChatStore,
    base: FolderState,
    ours: FolderState,
    theirs: FolderState,
    choices: Choices,
    *,
    names: tuple[str, str],
    unstored: Iterable[str],
    list_with: str,
    text_of: str | None = None,
) -> StateMerge:
    """Merge the changes from ``base`` to ``theirs`` into ``ours``.

    Args:
        chat: The chat that has all three.
        base: The content with which both sides began.
        ours: The content into which the changes are merged.
        theirs: The content with the changes.
        choices: Decisions about conflicts.
        names: The labels of the two sides, ours first.
        unstored: The untracked paths of the workspace.
        list_with: The command that lists the conflicts.
        text_of: The path of a conflict without a decision that gets its text with conflict markers.

    Raises:
        UnknownNameError: if a choice is for a path without a conflict.
        NotMergeableError: if a choice is not possible for its conflict.
    """
    merging = TreeMerge(
        chat.store, lambda path, text: rules.why_not_stored(path, text, chat.config)
    )
    merged = merging.merge(base.tree, ours.tree, theirs.tree)
    others = (*unstored, *ours.empty_folders, *theirs.empty_folders)
    edits, conflicts = merge_conflicts.decide(
        chat, names[1], merged, choices, others, list_with=list_with
    )
    empty = _three_ways(*(set(state.empty_folders) for state in (base, ours, theirs)))
    after = trees.edited_state(chat.store, FolderState(merged.tree, tuple(empty)), edits)
    undecided = [
        clash
        for clash, conflict in zip(merged.clashes, conflicts, strict=True)
        if conflict.decision is None
    ]
    lines = {
        clash.path: merge_conflicts.conflicting_lines(chat.store, clash, names)
        for clash in undecided
    }
    hunks = {clash.path: merge_conflicts.hunks(chat.store, clash) for clash in undecided}
    texts = {
        clash.path: merge_conflicts.with_markers(chat.store, clash, names)
        for clash in undecided
        if clash.path == text_of
    }
    possible = {
        clash.path: _possible(chat, names[1], clash, merged, others) for clash in merged.clashes
    }
    return StateMerge(after, conflicts, lines, hunks, texts, possible)


def _possible(
    chat: ChatStore, branch: str, clash: Clash, merged: MergedTree, unstored: Iterable[str]
) -> tuple[MergeDecision, ...]:
    """Return the decisions that a conflict can have, besides new content."""
    others = (*unstored, *(other.path for other in merged.clashes))
    decisions: dict[MergeDecision, bool] = {
        "ours": True,
        "theirs": True,
        "union": merge_conflicts.can_unite(chat, clash),
        "both": merge_conflicts.can_keep_both(chat, branch, clash, merged.tree, others),
    }
    return tuple(decision for decision, is_possible in decisions.items() if is_possible)


def _three_ways(base: set[str], ours: set[str], theirs: set[str]) -> set[str]:
    """Merge sets: apply the changes of both sides to ``base``."""
    return (ours & theirs) | (ours - base) | (theirs - base)
