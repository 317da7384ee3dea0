"""What a workspace is after a switch, known without a look at it: as it was seen, with what came.

It is for the watch only.  A process that has heard that nothing was done in the workspace but what
the switch itself did need not read the very files that it put there.  Whatever else was done,
before, meanwhile or since, makes the next look one at all that was touched, as without this.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from covalt_git.git_store import EXECUTABLE, FILE, LINK, object_id
from covalt_git.workspaces.spelling import spell_changed
from covalt_git.workspaces.stat_cache import KnownFolder, StatCache
from covalt_git.workspaces.watches import watch_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.git_store import TreeEntry
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.stat_cache import Anchor
    from covalt_git.workspaces.trees import Difference

_STATUS = {
    FILE: stat.S_IFREG | 0o644,
    EXECUTABLE: stat.S_IFREG | 0o755,
    LINK: stat.S_IFLNK | 0o777,
}


def foresee(
    chat: ChatStore,
    seen: KnownFolder,
    found: Sequence[Difference],
    tree: str | None,
    *,
    anchor: Anchor,
) -> None:
    """Have the next look believe what a switch led to, if all that it did was to replace files.

    ``seen`` is the workspace as it was before, ``found`` what differed; ``tree`` is what the switch
    was to, that of the manifest that the active branch is at now.
    """
    settings = StatCache.beside(chat.workspace, chat.config, chat.store.object_format).settings
    with watch_of(chat.workspace, settings) as watch:
        if watch is None or watch.root is not seen:
            return
        coming = {path: now for path, was, now in found if was is not None and now is not None}
        if len(coming) < len(found):
            return  # of names that come or go there may be more to be noted
        root = with_replaced(seen, coming, chat.store.object_format)
        if root is not None and root.tree == tree:
            root.anchor = anchor
            watch.replaced(root, coming)


def with_replaced(
    folder: KnownFolder, coming: Mapping[str, TreeEntry], object_format: str
) -> KnownFolder | None:
    """Return a folder in which some files are others; None where one of them is none in it.

    Those files, and the names of the folders that they are in, are not to be trusted to stat.
    """
    files, folders = dict(folder.files), dict(folder.folders)
    inode_and_device = folder.mark[1:]
    mark, changed = folder.mark, []
    below: dict[str, dict[str, TreeEntry]] = {}
    for path, entry in coming.items():
        name, slash, rest = path.partition("/")
        if slash:
            below.setdefault(name, {})[rest] = entry
        elif name in files:
            files[name] = (0, 0, 0, 0, _STATUS[entry.mode], bytes.fromhex(entry.oid))
            mark = (0, *inode_and_device)
            changed.append(name)
        else:
            return None
    for name, entries in below.items():
        known = folders.get(name)
        one = None if known is None else with_replaced(known, entries, object_format)
        if one is None:
            return None
        folders[name] = one
    spelled = spell_changed(folder, [*changed, *below], files, folders)
    return KnownFolder(
        mark,
        object_id(b"tree", spelled, object_format),
        files,
        folders,
        folder.others,
        folder.odd,
        folder.notes,
        folder.noted,
        spelled,
    )
