"""Writing to a chat under its lease: taking the lease, renewing it, and pushing what the writer changed.

An operation is acknowledged only after the server has accepted its push.  A push moves all changed refs and the lease
together, or nothing.  If the server refuses it because another node has the lease, the work of this node becomes a lost branch.

A caller that can repeat its work (``repeats``) needs no push that only takes the lease, if the lease is free as this node knows
it, and this node wrote last or makes a call of the queue: the lease is *assumed*, and the first push takes it.  If another
node was faster, nothing was pushed, and the caller repeats its work.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.server_repository import Move, PushRefusedError, ServerError
from covalt_git.git_store.store import GitStore
from covalt_git.system.metrics import Counter
from covalt_git.workspaces import lease as leases
from covalt_git.workspaces import node_copy, running_call
from covalt_git.workspaces.chat import ABOUT, write_stored
from covalt_git.workspaces.commits import FOREIGN
from covalt_git.workspaces.lease import REF, Lease
from covalt_git.workspaces.lock import (
    CancelledError,
    ChatBusyError,
    ChatGoneError,
    LeaseLostError,
)
from covalt_git.workspaces.node_copy import Agreed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.storage import ChatRepository
    from covalt_git.workspaces.writer import Writer

REFUSED_PUSHES = Counter("refused_pushes_total", "Pushes that the git server has refused.")
TAKEOVERS = Counter("lease_takeovers_total", "Leases of other nodes that were taken over.")
_FIRST_POLL_S, _LAST_POLL_S = 0.05, 1.0
ASSUMED_S = 1.0
"""Time after which an assumed lease is taken, in seconds, so that long work is seldom repeated."""

_LOOKS = 16
"""Number of times that refs which move are read again without a pause."""

_REFUSALS = 4
"""Number of times that the server refuses to move the lease, until that is reported."""

_PUSHES = 4
"""Number of times that a push with an unknown outcome is repeated."""


def now() -> datetime:
    """Return the time of this node."""
    return datetime.now(UTC)


@dataclass
class LeaseHolder:
    """Holder of the lease of a chat, for one writer; ``clock`` returns the time in UTC."""

    chat: ChatStore
    repository: ChatRepository
    node: str
    lease_s: float
    clock: Callable[[], datetime] = field(default_factory=lambda: now)
    _agreed: Agreed = field(default_factory=Agreed, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _is_lost: bool = field(default=False, init=False)
    _is_assumed: bool = field(default=False, init=False)
    _held_until: float = field(default=0.0, init=False)
    """The time at which the lease expires if it is not renewed, of the monotonic clock."""

    def take(
        self,
        writer: Writer,
        *,
        timeout_s: float = 0,
        waiting: Callable[[str], None] | None = None,
        cancel: threading.Event | None = None,
        repeats: bool = False,
    ) -> None:
        """Bring the node's copy up to date and take the lease; while this waits, ``waiting`` is called with the holder.

        With ``repeats``, the lease may be assumed only.

        Raises:
            ChatBusyError: if another node has the lease after ``timeout_s`` seconds.
            CancelledError: if ``cancel`` is set before.
            ChatGoneError: if the chat was deleted.
            PushRefusedError: if the server refuses to move the lease, which no other node has moved.
            ServerError: if the server cannot be reached.
        """
        if repeats and self._assume_followed():
            return
        until, pause, reported = time.monotonic() + timeout_s, _FIRST_POLL_S, ""
        refusals = 0
        for look in itertools.count(1):
            # A ref moved meanwhile: look again at once. If this happens each time, wait as for a holder: a server that
            # does not have the objects of its refs would be asked without an end.
            holder = "" if look < _LOOKS else "another node"
            refs = self.repository.refs()
            if ABOUT not in refs:
                raise ChatGoneError(self.chat.id)
            if node_copy.fetch(self.repository, self.chat.store, refs):
                last = node_copy.lease_of(self.chat.store, refs) or leases.first("refs/heads/main")
                # Also while another node has the lease: readers of this node cannot do it while this holds the lock.
                node_copy.update(writer, self.node, refs)
                self._agreed = node_copy.agreed(self.chat.store.path) or Agreed()
                if repeats and self._assume():
                    return
                if not last.may_be_taken_by(self.node, self.clock()):
                    holder = f"the node {last.node}"
                else:
                    try:
                        if self._take_from(last):
                            return
                    except PushRefusedError:
                        # A push of another node may hold the lock of the ref for a moment.
                        refusals += 1
                        if refusals == _REFUSALS:
                            raise
                        time.sleep(_FIRST_POLL_S * refusals)
            if cancel is not None and cancel.is_set():
                raise CancelledError("it was cancelled before it began")
            if time.monotonic() >= until and holder:
                raise self._busy(holder)
            if holder:
                if waiting is not None and holder != reported:
                    reported = holder
                    waiting(holder)
                time.sleep(pause)
                pause = min(pause * 1.5, _LAST_POLL_S)

    def _assume_followed(self) -> bool:
        """Assume the lease without a request, if the chat was opened just now, and the copy has not moved since."""
        followed, self.chat.followed = self.chat.followed, None
        self._agreed = node_copy.agreed(self.chat.store.path) or Agreed()
        return followed is not None and self._agreed.refs.get(REF) == followed and self._assume()

    def _assume(self) -> bool:
        """Assume the lease, if it is free, and this node has no unpushed work; return whether it did.

        The first push takes an assumed lease, or shows that another node was faster.  Then the user's edits in the folder
        can become lost work.  So a node that did not write last does not assume the lease.  The exception is a call of the
        queue, whose copy does not follow the server: it must cost no request before that push
        (test_a_queued_call_costs_two_pushes_and_one_fetch).
        """
        lease = self._agreed.lease
        self._is_assumed = (
            lease is not None
            and lease.is_free
            and (lease.was_left_by(self.node) or not self.chat.is_followed)
            # No caller repeats what a killed process left: a commit, a call, or a checkout, which moved no ref but HEAD.
            # So it must be pushed, or become lost work.
            and not node_copy.unpushed_refs(self.chat.store, self._agreed)
            and running_call.read(self.chat.store.path) is None
            and lease.head == self.chat.store.head()
        )
        return self._is_assumed

    def resume(self, agreed: Agreed) -> None:
        """Continue from what the server has, without moving the lease; a push fails if it has moved.

        Raises:
            ChatBusyError: if another node has the lease.
        """
        lease = agreed.lease
        if lease is not None and not lease.may_be_taken_by(self.node, self.clock()):
            raise self._busy(f"the node {lease.node}")
        self._agreed = agreed

    def _busy(self, holder: str) -> ChatBusyError:
        return ChatBusyError(
            f"chat {self.chat.id!r} is busy: {holder} is writing",
            hint="try again when it has finished; a node that died is replaced after"
            f" {self.lease_s + leases.SKEW_S:g} s",
        )

    def _take_from(self, last: Lease) -> bool:
        """Take the lease, if it has not moved; return whether it is this node's now."""
        try:
            self._move_lease(last, {}, holder=self.node)
        except LeaseLostError:
            self._is_lost = False  # this node did not have it, and may try again
            return False
        if last.node not in {"", self.node}:
            TAKEOVERS.add()
        return True

    def push(self, *, release: bool = False) -> None:
        """Push every ref that differs from the server's, and renew the lease, or ``release`` it.

        The result of a call that has run is pushed until the lease expires, if the server does not answer.

        Raises:
            LeaseLostError: if another node has the lease; nothing was pushed.
            PushRefusedError: if the server refuses a ref for good.
            ServerError: if the server cannot be reached; the work stays in the copy, and a later push pushes it.
        """
        with self._lock:
            changed = node_copy.unpushed_refs(self.chat.store, self._agreed)
            moves = {ref: Move(*values) for ref, values in changed.items()}
            last = self._agreed.lease
            assert last is not None
            # A writer that has changed nothing leaves an assumed lease where it is.
            is_unchanged = not moves and last.head == self.chat.store.head()
            ends_call = release and leases.RUNNING in self._agreed.refs
            if not (release and self._is_assumed and is_unchanged):
                until = self._held_until if ends_call else 0.0
                self._move_lease(last, moves, holder="" if release else self.node, until=until)
            if release:
                self._ended.set()

    def delete(self) -> None:
        """Delete all refs of the chat on the server, so that it no longer exists.

        Raises:
            LeaseLostError: if another node has the lease.
            ServerError: if the server cannot be reached.
        """
        with self._lock:
            refs = self._agreed.refs
            moves = {ref: Move(oid, None) for ref, oid in refs.items()}
            # Without it, a deleted chat would look like a chat that the server has lost, whose copies stay.
            moves[leases.GONE] = Move(None, refs[ABOUT])
            self._push(self.chat.store, moves)
            self._ended.set()

    def _move_lease(
        self,
        last: Lease,
        moves: Mapping[str, Move],
        *,
        holder: str,
        store: GitStore | None = None,
        until: float = 0.0,
    ) -> None:
        """Push moves together with the lease, which is ``last`` on the server; repeat this ``until`` a time."""
        if self._is_lost:
            raise self._lost()
        store = store or self.chat.store
        lease = last.moved(
            node=holder,
            by=self.node,
            head=self.chat.store.head(),
            now=self.clock(),
            lease_s=self.lease_s,
        )
        oid = write_stored(store, lease, lease.subject)
        every = {**moves, REF: Move(self._agreed.refs.get(REF), oid)}
        started = time.monotonic()
        self._push(store, every, until)
        self._held_until = started + self.lease_s
        refs = {ref: value for ref, value in self._agreed.refs.items() if ref not in every}
        refs |= {ref: move.new for ref, move in every.items() if move.new is not None}
        self._agreed = Agreed(refs=refs, lease=lease)
        self._is_assumed = False
        self.chat.is_followed = True  # the server has compared the refs of the copy with its own
        node_copy.write_agreed(self.chat.store.path, self._agreed)

    def _push(self, store: GitStore, moves: Mapping[str, Move], until: float = 0.0) -> None:
        """Push, until it is known whether the server has accepted; also without an answer ``until`` a time."""
        pause = _FIRST_POLL_S
        for number in itertools.count(1):
            is_last = number >= _PUSHES and time.monotonic() >= until
            try:
                self.repository.push(store, moves, known=self._agreed.refs.values())
            except (PushRefusedError, ServerError) as error:
                if isinstance(error, PushRefusedError):
                    REFUSED_PUSHES.add()
                try:
                    refs = self.repository.refs()
                except ServerError:
                    if is_last:
                        raise error from None
                    # Not time.sleep(): at the end of renewed(), the writer waits for the thread that renews the lease.
                    pause = min(pause * 2, _LAST_POLL_S)
                    self._ended.wait(pause)
                    continue
                # An answer can be lost after the server has accepted.  The lease has a random id, so no other push made
                # this one.
                if refs.get(REF) == moves[REF].new:
                    return
                if refs.get(REF) != moves[REF].old:
                    self._is_lost = True
                    raise self._lost() from None
                if is_last or isinstance(error, PushRefusedError):
                    raise
            else:
                return

    def _lost(self) -> LeaseLostError:
        error = LeaseLostError(
            f"another node took over the chat {self.chat.id!r} before this node had pushed its work",
            hint=f"the work is not lost: covalt-git chat status {self.chat.id} names its branch",
        )
        error.may_repeat = self._is_assumed
        return error

    def save_lost(self, writer: Writer, *, refused: bool = False, drops: bool = False) -> None:
        """Make the unpushed work of this node lost branches, follow the server, and push them.

        If the server has ``refused`` the work for another reason than the lease, the lease is released.  With ``drops``,
        the work is removed, because its caller repeats it.

        Raises:
            CovaltError: if the server cannot be reached; the next writer or reader of this node does it then.
        """
        refs = self.repository.refs()
        if not node_copy.fetch(self.repository, self.chat.store, refs):
            return
        node_copy.update(writer, self.node, refs, refused=refused, drops=drops)
        self.chat.followed, self.chat.is_followed = refs.get(REF), True
        if refused:
            self.push(release=True)
        push_lost(self.chat, self.repository)

    @contextlib.contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lease in a thread while the block runs: a tool may run for longer than the lease."""
        thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _renew(self) -> None:
        pause = ASSUMED_S if self._is_assumed else self.lease_s / 3
        while not self._ended.wait(pause) and self.renew():
            pause = self.lease_s / 3

    def renew(self) -> bool:
        """Renew the lease, or take an assumed one; return whether it has to be renewed again.  For any thread."""
        # A store is for one thread.
        with self._lock, GitStore(self.chat.store.path, durable=False) as store:
            if self._ended.is_set() or self._is_lost:
                return False
            last = self._agreed.lease
            # A server that is away for a moment, or a lease that is lost: the push of the writer reports it.
            with contextlib.suppress(CovaltError, OSError):
                if last is not None:
                    self._move_lease(last, {}, holder=self.node, store=store)
        return True


def push_lost(chat: ChatStore, repository: ChatRepository) -> None:
    """Push lost branches that the server does not have; they are new refs, so this needs no lease."""
    last = node_copy.agreed(chat.store.path) or Agreed()
    # Commits that came from elsewhere must be listed as such first, and the list moves under the lease only.
    if FOREIGN in node_copy.unpushed_refs(chat.store, last):
        return
    moves = {ref: Move(None, oid) for ref, oid in node_copy.unpushed_lost(chat.store, last).items()}
    if not moves:
        return
    repository.push(chat.store, moves, known=last.refs.values())
    refs = last.refs | {ref: move.new for ref, move in moves.items() if move.new is not None}
    node_copy.write_agreed(chat.store.path, Agreed(refs=refs, lease=last.lease))
