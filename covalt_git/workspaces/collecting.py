"""Garbage collection: delete unreachable objects of a chat, and write the others into one pack.

Objects stay if a branch, a call or an approval reaches them, or a branch that was deleted less than 30 days ago.
Objects in files that are younger than an hour stay too, because git stores objects before it moves a ref to
them.  Large fields are deleted with the last commit that needs them; then ``refs/covalt/records`` starts a new
history.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store import repacking
from covalt_git.git_store.graph import reachable
from covalt_git.workspaces import records
from covalt_git.workspaces.chat import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.git_store.repacking import ObjectUsage
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

GRACE_S = 3600
"""Seconds for which unreachable objects stay; another process may be about to move a ref to them."""

DELETED_S = 30 * 24 * 3600
"""Seconds for which a deleted branch can be restored."""


class Collected(NamedTuple):
    """Result of a collection: the store's size before and after, deleted branches and records."""

    before: ObjectUsage
    after: ObjectUsage
    forgotten: tuple[str, ...]
    records: int


def collect(
    writer: Writer, *, everything: bool = False, progress: Callable[[str], None] = lambda _: None
) -> Collected:
    """Delete unreachable objects and write one pack; ``progress`` is called at each long step.

    With ``everything``, recently deleted branches and young objects are removed, too.

    Raises:
        BrokenStoreError: when the store is damaged; nothing is deleted then.
    """
    chat = writer.chat
    store = chat.store
    store.clear_leftovers()
    usage_before = repacking.usage(store)
    started = time.time()
    progress("finding reachable objects")
    # Before anything is deleted, because this fails if the store is damaged.
    live = reachable(store, _tips(chat))
    forgotten = _forget_deleted(chat, started if everything else started - DELETED_S)
    dropped = _drop_records(chat)
    if forgotten or dropped:
        live = reachable(store, _tips(chat))
    progress("writing one pack")
    until = float("inf") if everything else started - GRACE_S
    repacking.rewrite(store, live, until=until)
    return Collected(usage_before, repacking.usage(store), forgotten, dropped)


def _tips(chat: ChatStore) -> list[str]:
    """Return the objects of all refs, and the commits on which pending calls were requested."""
    # An approval shows the changes since the commit on which its call was requested, also after the branch was
    # replaced (test_a_waiting_call_keeps_the_manifest_it_was_asked_on).
    bases = [call.base for call in chat.calls()]
    bases += [approval.base for approval in chat.approvals() if approval.state == "pending"]
    refs = chat.store.refs("refs/").values()
    return [*refs, *(oid for oid in bases if oid is not None and chat.store.has(oid))]


def _forget_deleted(chat: ChatStore, until: float) -> tuple[str, ...]:
    """Remove the refs of branches that were deleted before a time; return the names."""
    names = []
    for ref, oid in chat.store.refs(DELETED).items():
        uuid7, _, name = ref.removeprefix(DELETED).partition("/")
        with contextlib.suppress(ValueError):  # a ref with another name, which git created
            deleted_at = (uuid.UUID(uuid7).int >> 80) / 1000
            if deleted_at < until and chat.store.swap_ref(ref, oid, None):
                names.append(name)
    return tuple(names)


def commit_messages(chat: ChatStore) -> Iterator[str]:
    """Return the messages of the commits that branches, deleted branches and pending calls reach."""
    store = chat.store
    tip = store.read_ref(records.REF)
    tips = [oid for oid in _tips(chat) if oid != tip and store.read_object(oid)[0] == b"commit"]
    return records.messages(store, tips)


def _drop_records(chat: ChatStore) -> int:
    """Remove the records that no commit, call or approval needs; return their number."""
    store = chat.store
    tip = store.read_ref(records.REF)
    stored = records.entries(store, tip)
    # Their arguments can be references too, and are in no commit yet.
    pending = (stored.model_dump_json() for stored in [*chat.calls(), *chat.approvals()])
    used = records.used(store, stored, [*commit_messages(chat), *pending])
    if len(used) < len(stored):
        # A commit without a parent: the history of the ref would keep the deleted fields reachable.
        store.swap_ref(records.REF, tip, records.write(store, used, int(time.time())))
    return len(stored) - len(used)
