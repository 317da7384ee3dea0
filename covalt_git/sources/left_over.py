"""Removal of locks that are left over: no toolset declares their servers or sources any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.manifests.override_keys import declared_with_aliases
from covalt_git.manifests.state_files import lock_file, read_lock
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.names import id_key, is_id
from covalt_git.toolsets.project_files import left_over_locks
from covalt_git.toolsets.state_store import changeable, update_state
from covalt_git.toolsets.toolset import FaultyToolsetError, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.sources.tool_lock import ToolLock
    from covalt_git.models.toolset_state import ToolsetState


class RemovedLock(NamedTuple):
    """A lock that was removed, and the definitions in it that were accepted, by their names."""

    lock: ToolLock
    accepted: tuple[str, ...]


def accepted_names(state: ToolsetState, namespace: str) -> tuple[str, ...]:
    """Return the accepted definitions of a namespace, by their names in it."""
    prefix = f"{namespace}:"
    return tuple(
        sorted(name.removeprefix(prefix) for name in state.accepted if name.startswith(prefix))
    )


@locks_toolsets
def remove_lock(root: Path, namespace: str) -> RemovedLock:
    """Remove the lock of a namespace that no toolset declares, and end the acceptances of its definitions.

    Raises:
        CovaltError: ``lock_in_use``, if a toolset declares the namespace.
        FaultyToolsetError: if the manifest of its toolset cannot be read, which may declare it.
        UnknownNameError: if no left-over lock has this namespace.
        CovaltError: if the state file of its toolset has errors; nothing is removed.
    """
    # From the files, under the lock: the index may be older than a server that was added during the wait.
    toolsets = {name: read_toolset(root, name) for name in toolset_ids(root / "toolsets")}
    declared = [
        (toolset.id, declared_with_aliases(toolset.manifest, toolset.state))
        for toolset in toolsets.values()
    ]
    for owner, names in declared:
        for _, _, named in names:
            if id_key(named) == id_key(namespace):
                raise CovaltError(
                    f"the toolset {owner!r} declares {named!r}, so its lock is in use",
                    hint=f"covalt-git source remove {owner}/{named}",
                    code="lock_in_use",
                    http_status=409,
                )
    stored = read_lock(lock_file(root, namespace), "").value if is_id(namespace) else None
    owner_of_lock = toolsets.get(stored.toolset_id) if stored is not None else None
    if owner_of_lock is not None and owner_of_lock.manifest is None:
        raise FaultyToolsetError(owner_of_lock.id, owner_of_lock.problems)
    left_over = {row.lock.namespace: row.lock for row in left_over_locks(root, declared)}
    lock = left_over.get(namespace)
    if lock is None:
        raise UnknownNameError("lock", namespace, left_over, list_with="covalt-git validate")
    accepted: tuple[str, ...] = ()
    if lock.toolset_id in toolsets:
        toolset = changeable(root, lock.toolset_id)
        accepted = accepted_names(toolset.state, namespace)
        state = toolset.state
        ids = {f"{namespace}:{name}" for name in accepted}
        others = {name: digest for name, digest in state.accepted.items() if name not in ids}
        first = tuple(name for name in state.named_first if name not in ids)
        # Before the lock: after a crash in between, the lock is still left over and can be removed again.
        if ids:
            update_state(root, toolset, {"accepted": others, "named_first": first})
    lock_file(root, namespace).unlink()
    return RemovedLock(lock, accepted)
