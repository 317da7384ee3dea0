"""Garbage collection: what no ref of a chat leads to is removed, and the rest packed up.

Kept are all that branches, calls and approvals lead to, and for a while also branches that were
deleted and files that somebody stored lately: whoever writes to the store with git alone first
stores, then moves a ref.  Large fields of records go with the commits that they belong to, which
gives ``refs/covalt/records`` a history of one commit.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.git_store.graph import reachable
from covalt_git.workspaces import records
from covalt_git.workspaces.chat import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.git_store import Usage
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

GRACE_S = 3600
"""How long what nothing leads to is kept, as somebody may be about to lead a ref there."""

DELETED_S = 30 * 24 * 3600
"""How long a deleted branch can be brought back."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did: what the store took before and after, and what was given up for good."""

    before: Usage
    after: Usage
    forgotten: tuple[str, ...]
    records: int


def collect(
    writer: Writer, *, everything: bool = False, told: Callable[[str], None] = lambda _: None
) -> Collected:
    """Remove what nothing leads to, and pack up the rest; ``told`` hears what takes its time.

    With ``everything`` nothing is kept for a while: deleted branches are forgotten now.

    Raises:
        BrokenStoreError: when the store is damaged; nothing is removed then.
    """
    chat = writer.chat
    store = chat.store
    store.clear_leftovers()
    before = store.usage()
    now = time.time()
    told("looking for what is used")
    live = reachable(store, _tips(chat))  # before anything is given up: is all of it there?
    forgotten = _forget_deleted(chat, now if everything else now - DELETED_S)
    dropped = _drop_records(chat)
    if forgotten or dropped:
        live = reachable(store, _tips(chat))
    told("writing one pack")
    store.rewrite(live, until=float("inf") if everything else now - GRACE_S)
    return Collected(before, store.usage(), forgotten, dropped)


def _tips(chat: ChatStore) -> list[str]:
    """Return what all refs are at, and the manifests that waiting calls were asked on."""
    found = list(chat.store.refs("refs/").values())
    asked = [call.base for call in chat.calls()]
    asked += [one.base for one in chat.approvals() if one.state == "pending"]
    return found + [oid for oid in asked if oid is not None and chat.store.has(oid)]


def _forget_deleted(chat: ChatStore, until: float) -> tuple[str, ...]:
    """Forget the branches that were deleted before a time; return their names."""
    names = []
    for ref, oid in chat.store.refs(DELETED).items():
        made, _, name = ref.removeprefix(DELETED).partition("/")
        if _made_at(made) < until and chat.store.swap_ref(ref, oid, None):
            names.append(name)
    return tuple(names)


def _made_at(text: str) -> float:
    """Return when a UUIDv7 was made; what is none seems to be new."""
    try:
        return (uuid.UUID(text).int >> 80) / 1000
    except ValueError:
        return float("inf")


def _drop_records(chat: ChatStore) -> int:
    """Let the records be only those that commits, calls and approvals lead to; return how many go."""
    store = chat.store
    tip = store.read_ref(records.REF)
    held = records.entries(store, tip)
    tips = [oid for oid in _tips(chat) if oid != tip and store.read_object(oid)[0] == b"commit"]
    stored = [call.model_dump_json() for call in chat.calls()]
    stored += [approval.model_dump_json() for approval in chat.approvals()]
    texts = [*records.messages(store, tips), *stored]
    used = records.used(store, held, texts)
    if len(used) == len(held):
        return 0
    store.swap_ref(records.REF, tip, records.write(store, used, int(time.time())))
    return len(held) - len(used)
