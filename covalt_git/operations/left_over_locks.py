"""Operation on locks that no toolset declares any more."""

from __future__ import annotations

from pydantic import Field

from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.sources import left_over


class RemoveLeftOverLock(Request):
    """Request: the lock to remove, by its namespace."""

    namespace: str = Field(max_length=200)


class LeftOverLockRemoved(Result):
    """A removed lock, and what is lost with it."""

    namespace: str
    toolset_id: str = Field(description="The toolset that the lock names; it may not exist.")
    accepted: tuple[str, ...] = Field(
        description="The definitions that were accepted: those of a server that comes back need a new acceptance."
    )


@operation(changes=True, errors=(404, 409), admin="remove sources")
def remove_left_over_lock(context: Context, request: RemoveLeftOverLock) -> LeftOverLockRemoved:
    """Remove the lock of a source that no toolset declares, with the acceptances of its definitions.

    If a toolset declares the namespace, the answer is 409 ``lock_in_use``, and nothing is removed.
    """
    removed = left_over.remove_lock(context.project.root, request.namespace)
    context.update_toolset_index()
    return LeftOverLockRemoved(
        namespace=request.namespace, toolset_id=removed.lock.toolset_id, accepted=removed.accepted
    )
