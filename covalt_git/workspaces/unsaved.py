"""What a folder holds that no manifest does, told apart from a switch that has not come to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.workspaces import materialize, trees
from covalt_git.workspaces.working_folder import WorkingFolder

if TYPE_CHECKING:
    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.materialize import Journal


def begun_switch(chat: ChatStore) -> Journal | None:
    """Return the switch of the folder that has begun and not ended, if there is one."""
    return materialize.read_journal(WorkingFolder(chat).journal)


def changes(chat: ChatStore, seen: str | None, begun: Journal | None) -> list[FileChange]:
    """Return what differs in the folder, the tree ``seen``, from the manifest that it is at.

    Of a switch that has ``begun`` it is what will be there once it has ended: what it brings or takes
    away is nobody's edit, wherever it was interrupted.
    """
    if begun is None:
        return chat.tree_changes(chat.state(chat.head()).tree, seen)
    old = chat.state(begun.old).tree
    return [
        change
        for change in chat.tree_changes(chat.state(begun.new).tree, seen)
        if change.new != trees.find(chat.store, old, change.path)
    ]
