"""The copy that a node has of a chat on a git server: what it agreed on with the server, and how it follows it.

``store.git/server-refs`` has the refs that the server had when the node last fetched or pushed.  A ref of the copy that differs
from it is work that the server does not have yet.  If the server's refs have not moved, the next push of this node pushes
that work: for example the commit of a process that was killed before its push.  If they have moved, another node was
writing, and the work becomes ``refs/covalt/lost/<node>-<counter>/<branch>``: ``chat status`` names it, and no commit is lost.

The caller of everything that changes the copy holds the chat's lock on this node.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.git_store.server_repository import RefGoneError
from covalt_git.models.base import One, StrictModel
from covalt_git.models.calls import PendingCall
from covalt_git.models.reported_refs import ReportedRefs
from covalt_git.system import atomic_write
from covalt_git.workspaces import records, running_call
from covalt_git.workspaces.chat import ABOUT, HEADS, MovedError, read_stored, stored_at
from covalt_git.workspaces.commits import FOREIGN
from covalt_git.workspaces.lease import LOST, REF, RUNNING, Lease
from covalt_git.workspaces.storage import COPY
from covalt_git.workspaces.switching import Journal
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from covalt_git.git_store.store import GitStore
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.storage import ChatRepository

_PREFIXES = (HEADS, "refs/covalt/")
_MOST_REPORTED = 200


class Agreed(StrictModel):
    """The refs that the server had when the node last fetched or pushed, and the lease among them."""

    v: One = 1
    refs: dict[str, str] = Field(default_factory=dict)
    lease: Lease | None = None

    @property
    def work(self) -> dict[str, str]:
        """The refs without the lease."""
        return {ref: oid for ref, oid in self.refs.items() if ref != REF}


def agreed(store: Path) -> Agreed | None:
    """Return what a copy agreed on with the server; None if the chat was never shared."""
    try:
        return Agreed.model_validate_json((store / COPY).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:  # another version wrote it; then all refs are compared
        return Agreed()


def write_agreed(store: Path, state: Agreed) -> None:
    """Note what a copy agreed on with the server."""
    # Without an fsync: an older state costs the next update a comparison of equal refs.
    atomic_write.replace(store / COPY, state.model_dump_json(exclude_none=True))


def reported(store: Path) -> ReportedRefs | None:
    """Return what a copy agreed on with the server, for other processes; None without a server, or for too many refs."""
    last = agreed(store)
    if last is None or last.lease is None or len(last.refs) > _MOST_REPORTED:
        return None
    return ReportedRefs(counter=last.lease.counter, refs=last.refs)


def newer(last: Agreed, reported: ReportedRefs) -> dict[str, str] | None:
    """Return the newer of what a copy agreed on and what another process ``reported``; None if that cannot be said."""
    if last.lease is None:
        return None
    # The counter only grows, but begins anew in another chat with the same id.
    if reported.counter <= last.lease.counter:
        return last.refs
    return reported.refs if reported.refs.get(ABOUT) == last.refs.get(ABOUT) else None


def forget_agreed(store: Path) -> None:
    """Make a copy a chat of this machine only, durably."""
    (store / COPY).unlink(missing_ok=True)
    atomic_write.fsync(store)


def own_refs(store: GitStore) -> dict[str, str]:
    """Return the refs of the copy that the server has too."""
    return {ref: oid for prefix in _PREFIXES for ref, oid in store.refs(prefix).items()}


def lease_of(store: GitStore, refs: Mapping[str, str]) -> Lease | None:
    """Return the lease among refs whose objects were fetched."""
    oid = refs.get(REF)
    return None if oid is None else read_stored(store, oid, Lease)


def fetch(repository: ChatRepository, store: GitStore, refs: Mapping[str, str]) -> bool:
    """Fetch the objects of a server's refs; return False if a ref moved meanwhile, so that an object is missing."""
    missing = {ref: oid for ref, oid in refs.items() if not store.has(oid)}
    # Each call of another node removes a ref: that of the running call.
    try:
        repository.fetch_objects(store, missing)
    except RefGoneError:
        return False
    return all(store.has(oid) for oid in missing.values())


def update(
    writer: Writer,
    node: str,
    refs: Mapping[str, str],
    *,
    refused: bool = False,
    drops: bool = False,
) -> None:
    """Bring the copy to what the server has, whose objects were fetched; unpushed work stays, or becomes lost work.

    With ``refused``, the server refuses the unpushed work, which becomes lost work although the refs have not moved.  With
    ``drops``, the caller repeats the unpushed work of commits, which is removed.

    Raises:
        CovaltError: with the code ``in_the_way`` if an untracked path is where a file must be written.
        MovedError: if another process moved a ref of the copy.
    """
    # A scan of this writer is of files that are replaced here.
    writer = Writer(writer.chat, writer.by)
    store = writer.chat.store
    last = agreed(store.path) or Agreed()
    lease = lease_of(store, refs)
    theirs = {ref: oid for ref, oid in refs.items() if ref != REF}
    # Another node may have checked out a branch only.  If the lease names the branch that it named before, another HEAD is
    # an unpushed checkout of this node.
    has_new_head = lease is not None and (last.lease is None or last.lease.head != lease.head)
    if theirs != last.work or has_new_head or refused:
        own = own_refs(store)
        unpushed = {
            ref
            for ref in own.keys() | last.work.keys()
            if own.get(ref) not in {last.work.get(ref), theirs.get(ref)}
        }
        counter = 0 if last.lease is None else last.lease.counter
        # A lost branch that was on the server, and is no longer there, was deleted. It must not come back from this copy.
        lost = {
            ref: oid for ref, oid in own.items() if ref.startswith(LOST) and ref not in last.work
        }
        _follow(
            writer,
            f"{node}-{counter}",
            own,
            {**lost, **theirs},
            set() if drops else unpushed,
            lease,
        )
    write_agreed(store.path, Agreed(refs=dict(refs), lease=lease))
    copy_running_call(store)


def _follow(
    writer: Writer,
    name: str,
    own: dict[str, str],
    theirs: dict[str, str],
    unpushed: set[str],
    lease: Lease | None,
) -> None:
    """Move the refs, HEAD and the workspace to what the server has, after saving unpushed work below ``name``."""
    chat, store = writer.chat, writer.chat.store
    active = store.head()
    target = active if lease is None else lease.head
    left = own.get(active)
    has_files = writer.folder.exists()
    unstored: Collection[str] = ()
    if has_files and (theirs.get(target) != left or target != active):
        # A user's edits in the folder, or what an interrupted tool wrote, would look like a change of the new files.
        snapshot = writer.scan()
        unstored = snapshot.unstored()
        if not snapshot.holds(chat.state(left)):
            left = writer.make(
                "edit", snapshot, left, subject="files of a node that lost the lease"
            )
            own, unpushed = {**own, active: left}, unpushed | {active}
    saved = _save_lost(chat, name, own, theirs, unpushed)
    theirs = {**theirs, **saved}
    current = own_refs(store)
    # Deletions first: `a` cannot be a ref while `a/b` is one.
    for ref in sorted(current.keys() - theirs.keys()):
        if ref != target:
            _swap(store, ref, current[ref], None)
    for ref, oid in sorted(theirs.items()):
        if ref != target and current.get(ref) != oid:
            _swap(store, ref, current.get(ref), oid)
    old, new = current.get(target), theirs.get(target)
    if has_files:
        journal = Journal(old=left, new=new, head=target, moves=old != new, before=old)
        writer.folder.switch(journal, unstored)
    else:
        if old != new:
            _swap(store, target, old, new)
        if target != active:
            store.set_head(target)
    chat.stat_cache.head = new


def _swap(store: GitStore, ref: str, old: str | None, new: str | None) -> None:
    if not store.swap_ref(ref, old, new):
        raise MovedError(f"another process moved {ref}", hint="try again")


def _save_lost(
    chat: ChatStore, name: str, own: dict[str, str], theirs: dict[str, str], unpushed: set[str]
) -> dict[str, str]:
    """Save unpushed commits of branches; return the refs that differ from the server's because of it."""
    store = chat.store
    reached = chat.above(*(oid for ref, oid in theirs.items() if ref.startswith((HEADS, LOST))))
    refs: dict[str, str] = {}
    for ref in sorted(unpushed):
        oid = own.get(ref)
        if oid is None or not ref.startswith(HEADS) or not chat.above(oid, without=reached):
            continue
        lost, number = f"{LOST}{name}/{ref.removeprefix(HEADS)}", 1
        while (lost in theirs or lost in own) and oid not in {theirs.get(lost), own.get(lost)}:
            number += 1
            lost = f"{LOST}{name}-{number}/{ref.removeprefix(HEADS)}"
        if store.read_ref(lost) is None:
            _swap(store, lost, None, oid)
        refs[lost] = oid
    if not refs:
        return refs
    # The large fields of its commits, which are in no other ref.
    stored = records.entries(store, theirs.get(records.REF))
    more = {
        digest: oid
        for digest, oid in records.entries(store, own.get(records.REF)).items()
        if digest not in stored
    }
    if tip := records.write(store, more, int(time.time()), before=theirs.get(records.REF)):
        refs[records.REF] = tip
    # And which of them came from elsewhere, because such a commit must never count as a record of this chat.
    lists = [store.read_blob(side[FOREIGN]) for side in (own, theirs) if FOREIGN in side]
    lines = {line for content in lists for line in content.split()}
    content = b"".join(line + b"\n" for line in sorted(lines))
    if lines and content != lists[-1]:
        refs[FOREIGN] = store.write_blob(content)
    store.flush()
    return refs


def copy_running_call(store: GitStore) -> None:
    """Write the note of the running call as the refs have it, for readers and recovery on this node."""
    call = stored_at(store, RUNNING, PendingCall)
    noted = running_call.read(store.path)
    if call is not None and call != noted:
        running_call.put(store.path, call, durable=False)
    elif call is None and noted is not None:
        running_call.forget(store.path, noted.id)


def unpushed_refs(store: GitStore, last: Agreed) -> dict[str, tuple[str | None, str | None]]:
    """Return the refs that differ from the server's, with their values on the server and in the copy, except lost work."""
    own = own_refs(store)
    return {
        ref: (last.work.get(ref), own.get(ref))
        for ref in sorted(own.keys() | last.work.keys())
        if own.get(ref) != last.work.get(ref) and not ref.startswith(LOST)
    }


def unpushed_lost(store: GitStore, last: Agreed) -> dict[str, str]:
    """Return the lost work that the server does not have."""
    return {ref: oid for ref, oid in store.refs(LOST).items() if ref not in last.work}


def lost_work(chat: ChatStore) -> dict[str, str]:
    """Return the work of nodes that lost the lease: the last commit of each branch, by ref."""
    with contextlib.suppress(BrokenStoreError):
        return chat.store.refs(LOST)
    return {}
