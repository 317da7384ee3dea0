"""Lease of a chat on a git server: which node may write, until when, and a counter that only grows.

The lease is a blob at ``refs/covalt/lease``.  Each push of a node also moves the lease from the blob that the node
stored last, in the same atomic push.  So a node that lost the lease cannot push, whatever its clock says: the clock
decides only when another node *tries* to take over.  ``head`` is the active branch, because a push cannot move HEAD.

A node may write without taking a free lease first: its first push takes the lease and moves the other refs.  A node that
takes the lease meanwhile makes that push fail, so nothing is overwritten.

The functions here have no I/O; ``tests/workspaces/test_lease_model.py`` checks the protocol with them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import Field

from covalt_git import timestamps
from covalt_git.models.base import Int, One, StrictModel
from covalt_git.names import new_id

REF: Final = "refs/covalt/lease"
RUNNING: Final = "refs/covalt/running"
"""The call that runs under the lease."""

LOST: Final = "refs/covalt/lost/"
"""Work of nodes that lost the lease: ``<node>-<counter>/<branch>``."""

GONE: Final = "refs/covalt/gone"
"""Description of a deleted chat, in place of all its other refs."""

SKEW_S: Final = 30
"""Difference between the clocks of two nodes that does no harm, in seconds."""


class Lease(StrictModel):
    """The lease of a chat.

    Attributes:
        counter: the number of moves of the lease; it only grows.
        node: the node that holds it; empty if it is free.
        session: a random id of the holder, so that two leases are never equal.
        expires_at: the time from which it is no longer renewed, by the holder's clock.
        head: the ref of the active branch.
        last: the node that moved it last.
    """

    v: One = 1
    counter: Int
    node: str = ""
    session: str
    expires_at: str
    head: Annotated[str, Field(pattern=r"^refs/heads/[^\s~^:?*\[\\]+$")]
    last: str = ""

    @property
    def subject(self) -> str:
        """The first line of the blob."""
        return f"lease: {self.counter} {self.node or 'free'}"

    def is_expired(self, now: datetime) -> bool:
        """Return whether the holder has not renewed it in time, whatever the difference of the clocks is."""
        return timestamps.written(now - timedelta(seconds=SKEW_S)) >= self.expires_at

    def may_be_taken_by(self, node: str, now: datetime) -> bool:
        """Return whether a node may try to take it.

        The caller holds the chat's lock on this node, so a lease of the node itself is of a process that has ended.
        """
        return self.node in {"", node} or self.is_expired(now)

    @property
    def is_free(self) -> bool:
        """Whether no node holds it."""
        return not self.node

    def was_left_by(self, node: str) -> bool:
        """Return whether it is free, and a node moved it last."""
        return self.is_free and self.last == node

    def moved(self, *, node: str, by: str, head: str, now: datetime, lease_s: float) -> Lease:
        """Return the next lease, of a ``node``, which ``by`` moves; it is free if ``node`` is empty."""
        return Lease(
            counter=self.counter + 1,
            node=node,
            session=new_id(),
            expires_at=timestamps.written(now + timedelta(seconds=lease_s)),
            head=head,
            last=by,
        )


def first(head: str, node: str = "") -> Lease:
    """Return the free lease of a new chat, which a node creates."""
    start = timestamps.written(datetime(1970, 1, 1, tzinfo=UTC))
    return Lease(counter=0, session=new_id(), expires_at=start, head=head, last=node)
