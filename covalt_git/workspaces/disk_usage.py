"""Disk usage of a chat's store: by path, and by the commit that first stored each file.

Sizes are those of the stored objects, compressed and as deltas.  Trees, commits and records are not part of a path.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store import repacking
from covalt_git.git_store.graph import parents_first
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import folders_above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.chat import ChatStore

MIB = 1 << 20
LARGE_STORE = 2048 * MIB
"""Size in bytes from which a store is reported as large."""

_LARGE_FOLDER = 64 * MIB
_SHARE = 4
_PLAIN = re.compile(r"[\w.][\w.-]*/")


class DiskUsage(NamedTuple):
    """Usage in bytes: of the store, by path, and by commit; a folder ends with ``/``."""

    size: int
    paths: dict[str, int]
    commits: dict[str, int]

    def large_folders(self) -> Iterator[str]:
        """Yield the deepest folders with at least a quarter of the store and 64 MiB."""
        least = max(_LARGE_FOLDER, self.size // _SHARE)
        large = [path for path, size in self.paths.items() if path.endswith("/") and size >= least]
        for path in large:
            if not any(other != path and other.startswith(path) for other in large):
                yield path


def disk_usage(chat: ChatStore) -> DiskUsage:
    """Return the disk usage of the commits of all branches."""
    store = chat.store
    sizes = repacking.stored_sizes(store)
    commits = {oid: store.read_commit(oid) for oid in chat.reachable()}
    paths: dict[str, int] = {}
    by_commit: dict[str, int] = {}
    for oid in parents_first({oid: commit.parents for oid, commit in commits.items()}):
        parent = next(iter(commits[oid].parents), None)
        parent_tree = commits[parent].tree if parent in commits else None
        for change in trees.changes(store, _tree(parent_tree), _tree(commits[oid].tree)):
            # Removed, because the store has a content once, however many commits and paths have it.
            size = sizes.pop(change.new.oid, 0) if change.new else 0
            if size:
                by_commit[oid] = by_commit.get(oid, 0) + size
                folders = (f"{folder}/" for folder in folders_above(change.path))
                for path in (change.path, *folders):
                    paths[path] = paths.get(path, 0) + size
    return DiskUsage(repacking.usage(store).size, paths, by_commit)


def _tree(oid: str | None) -> str | None:
    return None if oid in trees.EMPTY else oid


def large_store(chat: ChatStore) -> str:
    """Return a warning if the store of a chat is large, else an empty string."""
    size = repacking.pack_bytes(chat.store)
    if size < LARGE_STORE:
        return ""
    return f"the store of {chat.id} has {size // MIB:,} MiB; covalt-git chat du {chat.id} lists the largest files"


def check_store(chat: ChatStore) -> None:
    """Check that the store of a chat is smaller than ``workspace.max_store_mb``, if that is set.

    Raises:
        CovaltError: if it is not.
    """
    most = chat.config.max_store_mb
    size = 0 if most is None else repacking.pack_bytes(chat.store)
    if most is not None and size >= most * MIB:
        raise CovaltError(
            f"the store of {chat.id} has {size // MIB:,} MiB, and workspace.max_store_mb in covalt.yaml is {most}",
            hint=f"covalt-git chat du {chat.id}\ncovalt-git chat gc {chat.id} --now",
            code="limit_store",
            http_status=507,
        )


def ignore_line(ignore: tuple[str, ...], folder: str) -> str:
    """Return the line ``ignore`` of ``covalt.yaml``, with the name of a folder added."""
    name = f"{folder.rstrip('/').rpartition('/')[2]}/"
    patterns = [
        pattern if _PLAIN.fullmatch(pattern) else json.dumps(pattern) for pattern in (*ignore, name)
    ]
    return f"ignore: [{', '.join(patterns)}]"
