"""Work of nodes that lost the lease of a chat, for the status of the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.operations.registry import Result
from covalt_git.workspaces.lease import LOST

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore


class LostWork(Result):
    """Commits of a node that another node had replaced before it pushed them; no branch has them."""

    ref: str
    branch: str = Field(description="The branch on which the node made them.")
    manifest_id: str = Field(description="The last one.")
    manifests: int = Field(description="The number of commits that no branch has.")
    back: str = Field(description="The command that makes a branch of them.")


def lost_work(chat: ChatStore) -> tuple[LostWork, ...]:
    """Return the lost work of a chat whose commits no branch has."""
    refs = chat.store.refs(LOST)
    reached = chat.reachable() if refs else {}
    rows = []
    for ref, oid in refs.items():
        place, _, branch = ref.removeprefix(LOST).partition("/")
        if count := len(chat.above(oid, without=reached)):
            back = f"covalt-git chat branch new {chat.id} {place} --from {oid[:12]}"
            rows.append(
                LostWork(ref=ref, branch=branch, manifest_id=oid, manifests=count, back=back)
            )
    return tuple(rows)
