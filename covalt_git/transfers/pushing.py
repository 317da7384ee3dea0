"""Pushes to a chat: which refs git may fetch and push, and how a push is carried out.

A push can create a branch or fast-forward it, but never overwrite or delete it.  The received pack
stays in a quarantine until every object is inspected by the rules of an import (:mod:`.admission`), and
only objects that a moved branch reaches are stored.  So a push that fails or is killed changes nothing.
The chat is locked only while branches move.

If the active branch moves, the workspace changes with it, as in a merge.  If the workspace has uncommitted
changes, they are committed first; that commit moves the branch, so the push is refused as outdated.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import CommitGraph
from covalt_git.git_store.incoming import BadPackError, PackLimits, Quarantine
from covalt_git.git_store.serving import PushReport, VisibleRefs
from covalt_git.names import LOCAL_USER
from covalt_git.transfers.admission import admit
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ABOUT, DELETED, HEADS, MovedError, existing
from covalt_git.workspaces.commit_key import FOREIGN_COMMITS, add_statement
from covalt_git.workspaces.records import REF as RECORDS
from covalt_git.workspaces.writing import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import SupportsRead

    from covalt_git.git_store.serving import Command, PushRequest
    from covalt_git.transfers.admission import Admitted
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

LIMITS = partial(PackLimits, pack=1 << 30, objects=1_000_000, other=16 << 20, together=8 << 30)
"""Limits of a pushed pack, except that of files."""

_MOST_PROBLEMS = 20
_PART = 1 << 18


def fetchable(chat: ChatStore) -> VisibleRefs:
    """Return the refs that git may fetch: branches, and those of the chat's metadata and of large records."""
    refs = chat.store.refs(HEADS) | existing(chat.store, RECORDS, ABOUT)
    return VisibleRefs(chat.store, refs, chat.store.head())


def pushable(chat: ChatStore) -> VisibleRefs:
    """Return the refs that a push may move."""
    return VisibleRefs(chat.store, chat.store.refs(HEADS), chat.store.head())


def push(
    chat: ChatStore,
    request: PushRequest,
    stream: SupportsRead[bytes],
    *,
    by: str = LOCAL_USER,
    timeout_s: float = 30,
    check: Callable[[], None] = lambda: None,
) -> PushReport:
    """Carry out a push, each branch separately, and return the report for git.

    ``check`` is called when the chat is locked, and raises an error if the push is no longer permitted.
    ``stream`` is read to its end.  Refused branches are in the report, and not raised as errors.
    """
    if not request.commands:
        return PushReport({})
    try:
        limits = LIMITS(blob=chat.config.max_file_mb << 20)
        with Quarantine.opened(chat.store, chat.folder, limits) as quarantine:
            if request.has_pack:
                quarantine.receive(iter(partial(stream.read, _PART), b""))
            graph = CommitGraph(quarantine)
            return _Push(chat, quarantine, graph, by, timeout_s, check).carry_out(request.commands)
    except (BadPackError, OSError) as error:
        message = _for_user(error).message
        refused = dict.fromkeys((command.ref for command in request.commands), "unpacker error")
        return PushReport(refused, unpack=message, messages=(message,))


def _for_user(error: CovaltError | OSError) -> CovaltError:
    if isinstance(error, CovaltError):
        return error
    return CovaltError(f"it cannot be stored: {(error.strerror or 'no reason given').lower()}")


@dataclass(slots=True)
class _Push:
    """One push whose pack was received."""

    chat: ChatStore
    quarantine: Quarantine
    graph: CommitGraph
    by: str
    timeout_s: float
    check: Callable[[], None]
    refused: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def carry_out(self, commands: Sequence[Command]) -> PushReport:
        """Inspect every command, and then carry out the accepted ones."""
        accepted: dict[Command, Admitted] = {}
        for command in commands:
            with self._refusal(command):
                accepted[command] = self._inspect(command)
        if accepted:
            try:
                with writing(self.chat, by=self.by, timeout_s=self.timeout_s) as writer:
                    # Again, as the right to push may have ended while this waited for the lock.
                    self.check()
                    self._move(writer, accepted)
            except (CovaltError, OSError) as error:
                for command in accepted:  # for example, another process has locked the chat
                    self._refuse(command, _for_user(error))
        return PushReport(self.refused, messages=self.messages)

    def _inspect(self, command: Command) -> Admitted:
        """Inspect a command and its objects, before the chat is locked."""
        chat, graph = self.chat, self.graph
        new = _check_kind(chat, command)
        # The active branch may have no commit yet; then it exists without a ref, and a push creates it.
        if command.old is None and command.branch != chat.active_branch():
            branches.check_free(chat, command.branch)
        admitted = admit(graph, [new], chat.store.refs(HEADS).values(), config=chat.config)
        if command.old and command.old not in graph.ancestors([new]):
            raise CovaltError(
                "non-fast-forward",
                code="not_pushed",
                hint="a push does not overwrite commits; push a new branch: "
                f"git push origin HEAD:{command.branch}-2",
            )
        return admitted

    def _move(self, writer: Writer, accepted: dict[Command, Admitted]) -> None:
        """Move the branches that are still at the commit that the client saw.

        Each command that was carried out or refused is removed from ``accepted``.
        """
        for command, admitted in list(accepted.items()):
            with self._refusal(command):
                self._check_still(writer, command, admitted)
            if command.ref in self.refused:
                del accepted[command]
        # The objects, then the list of foreign commits, then the branches: a push that is killed in between
        # leaves objects that nothing reaches, or ids of commits that no branch has, and never a branch whose
        # forged records count as calls.
        histories = accepted.values()
        objects = frozenset[str]().union(*(admitted.objects for admitted in histories))
        self.quarantine.adopt(objects & self.quarantine.ids, durable=self.chat.store.durable)
        _list_foreign(self.chat, {oid for admitted in histories for oid in admitted.lookalikes})
        for command in list(accepted):
            with self._refusal(command):
                _move_branch(writer, command)
            del accepted[command]

    def _check_still(self, writer: Writer, command: Command, admitted: Admitted) -> None:
        """Check again, while the chat is locked, that the branch has not moved and that its objects exist."""
        chat = self.chat
        is_active = command.branch == chat.active_branch()
        # An uncommitted edit becomes a commit, which the client does not have: the push must not undo it.
        current = writer.commit_changes() if is_active else chat.store.read_ref(command.ref)
        if current != command.old:
            raise _fetch_first()
        # The inspection read objects of the store without the lock; gc can have removed those that no ref reaches.
        if not all(map(chat.store.has, admitted.objects - self.quarantine.ids)):
            raise MovedError("objects were removed meanwhile", hint="push again")

    @contextlib.contextmanager
    def _refusal(self, command: Command) -> Iterator[None]:
        """Refuse a command if the block raises an error for the user."""
        try:
            yield
        except CovaltError as error:
            self._refuse(command, error)

    def _refuse(self, command: Command, error: CovaltError) -> None:
        problems = [f"{problem.path}: {problem.message}" for problem in error.problems]
        self.refused[command.ref] = problems[0] if len(problems) == 1 else error.message
        if problems or error.hint:
            # The name comes from the client, and can have bytes that are not UTF-8.
            name = command.branch.encode("utf-8", "replace").decode()
            self.messages.append(f"{name}: {error.message}")
            self.messages += [f"  {line}" for line in problems[:_MOST_PROBLEMS]]
            self.messages += [f"  hint: {error.hint}"] if error.hint else []


def _check_kind(chat: ChatStore, command: Command) -> str:
    """Return the new commit of the branch that a command creates or moves.

    Raises:
        CovaltError: if the command does something else.
    """
    if command.branch == command.ref:
        kind = "tags" if command.ref.startswith("refs/tags/") else "other refs"
        raise CovaltError(
            f"only branches can be pushed to a chat, not {kind}",
            code="not_pushed",
            hint="git push origin HEAD:refs/heads/NAME",
        )
    if command.new is None:
        raise CovaltError(
            "a push cannot delete a branch",
            code="not_pushed",
            hint=f"covalt-git chat branch delete {chat.id} {command.branch}",
        )
    return command.new


def _list_foreign(chat: ChatStore, lookalikes: set[str]) -> None:
    """Add commits to the list of foreign commits, unless a branch, or a deleted branch, reaches them already."""
    if lookalikes:
        # Not "unless the store has them": a killed push leaves its objects
        # (test_what_a_killed_push_left_in_the_store_is_foreign). What a branch has is the chat's own, also if
        # it is pushed back (test_own_commits_that_are_pushed_back_are_ours).
        tips = *chat.store.refs(HEADS).values(), *chat.store.refs(DELETED).values()
        foreign = lookalikes - chat.above(*tips).keys()
        if foreign:
            add_statement(chat.store, chat.signing_key, chat.id, FOREIGN_COMMITS, foreign)
            chat.foreign.add(foreign)


def _move_branch(writer: Writer, command: Command) -> None:
    """Create or fast-forward a branch; if it is active, the workspace changes with it."""
    chat = writer.chat
    if command.branch == chat.active_branch():
        writer.switch(command.branch, old=command.old, before=command.old, new=command.new)
    elif command.old is None:
        branches.create(writer, command.branch, command.new)
    elif not chat.store.swap_ref(command.ref, command.old, command.new):
        raise _fetch_first()


def _fetch_first() -> MovedError:
    return MovedError("fetch first", hint="git pull, and push again: the branch has new commits")
