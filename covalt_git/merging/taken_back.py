"""Merged changes that an undo or a restore took back, while the merged commits stay in the history.

A merge of these commits changes nothing, because the branch has them.  To merge them again, the base of the merge
must be that of the files which were restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.graph import CommitGraph, parents_first

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore


class TakenBack(NamedTuple):
    """The undo or restore that took changes back, and the commit whose files it restored (None: no files)."""

    by: str
    restored: str | None


def taken_back(chat: ChatStore, head: str, merged: str) -> TakenBack | None:
    """Return what took back the changes of the commit ``merged``, an ancestor of ``head``; None if nothing did.

    The walk begins at ``head`` and follows first parents, but goes from an undo or restore to the commit whose files it
    restored, because it has the same files.  If such a step leads to a commit without ``merged`` in its history,
    the changes were taken back.  A restore of single paths counts as an edit.  A merge brought the changes only if its
    base lacks them: a merge of later commits of the same branch does not bring back what was taken back before.
    """
    graph = CommitGraph(chat.store)
    parents = {oid: graph.commit(oid).parents for oid in graph.ancestors([head])}
    having = {merged}  # the commits with `merged` in their history
    for oid in parents_first(parents):
        if having.intersection(parents[oid]):
            having.add(oid)
    oid = head
    while oid in having and oid != merged:
        record = chat.outline(oid).record
        if having.intersection(parents[oid][1:]):
            base = record.merge.base_id if record.merge else graph.merge_base(*parents[oid][:2])
            if base not in having:  # what its branch had before may still be taken back
                return None if base is None else taken_back(chat, parents[oid][0], base)
        if record.restore is None or record.restore.paths or record.restore.keeps_files:
            oid = parents[oid][0]
            continue
        restored = record.restore.manifest_id
        if restored is None or merged not in graph.ancestors([restored]):
            return TakenBack(oid, restored)
        if restored not in parents:  # of another branch, which has the changes
            return None
        oid = restored
    return None
