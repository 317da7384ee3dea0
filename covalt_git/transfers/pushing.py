"""Pushes to a chat: which refs git may fetch and push, and how a push is carried out.

A push can create a branch or fast-forward it, but never overwrite or delete it.  The received pack
stays in a quarantine until every object is inspected by the rules of an import (:mod:`.admission`), and
only objects that a moved branch reaches are stored.  So a push that fails or is killed changes nothing.
The chat is locked only while branches move.

If the active branch moves, the workspace changes with it, as in a merge.  If the workspace has uncommitted
changes, they are committed first; that commit moves the branch, so the push is refused as outdated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import CommitGraph
from covalt_git.git_store.incoming import BadPackError, PackLimits, Quarantine
from covalt_git.git_store.serving import PushReport, VisibleRefs
from covalt_git.names import LOCAL_USER
from covalt_git.transfers.admission import admit
from covalt_git.workspaces import branches, commits
from covalt_git.workspaces.chat import ABOUT, DELETED, HEADS, MovedError, existing
from covalt_git.workspaces.records import REF as RECORDS
from covalt_git.workspaces.writing import writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.git_store.serving import Command, PushRequest, Stream
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

LIMITS = partial(PackLimits, pack=1 << 30, objects=1_000_000, other=16 << 20, together=8 << 30)
"""Limits of a pushed pack, except that of files."""

_MOST_PROBLEMS = 20
_PART = 1 << 18


class _Accepted(NamedTuple):
    """A command that may be carried out.

    Attributes:
        objects: the objects that the branch reaches, of the pack or of the chat.
        lookalikes: the new commits whose messages look like records of covalt-git.
    """

    command: Command
    objects: frozenset[str]
    lookalikes: set[str]

    @property
    def name(self) -> str:
        return self.command.ref.removeprefix(HEADS)


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
    stream: Stream,
    *,
    by: str = LOCAL_USER,
    timeout_s: float = 30,
) -> PushReport:
    """Carry out a push, each branch separately, and return the report for git.

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
            return _Push(chat, quarantine, graph, by, timeout_s).carry_out(request.commands)
    except BadPackError as error:
        return _not_unpacked(request, error)
    except OSError as error:
        return _not_unpacked(request, _not_stored(error))


def _not_unpacked(request: PushRequest, error: CovaltError) -> PushReport:
    refused = dict.fromkeys((command.ref for command in request.commands), "unpacker error")
    return PushReport(refused, unpack=error.message, messages=(error.message,))


def _not_stored(error: OSError) -> CovaltError:
    return CovaltError(f"it cannot be stored: {(error.strerror or 'no reason given').lower()}")


@dataclass(slots=True)
class _Push:
    """One push whose pack was received."""

    chat: ChatStore
    quarantine: Quarantine
    graph: CommitGraph
    by: str
    timeout_s: float
    moved: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def carry_out(self, commands: Sequence[Command]) -> PushReport:
        """Inspect every command, and then carry out the accepted ones."""
        accepted: list[_Accepted] = []
        for command in commands:
            try:
                accepted.append(self._inspect(command))
            except CovaltError as error:
                self._refuse(command, error)
        if accepted:
            try:
                with writing(self.chat, by=self.by, timeout_s=self.timeout_s) as writer:
                    self._move(writer, accepted)
            except CovaltError as error:  # such as a chat that another process has locked
                self._refuse_rest(accepted, error)
            except OSError as error:
                self._refuse_rest(accepted, _not_stored(error))
        return PushReport(self.refused, messages=self.messages)

    def _inspect(self, command: Command) -> _Accepted:
        """Inspect a command and its objects, before the chat is locked."""
        chat, graph = self.chat, self.graph
        name, new = _check_kind(chat, command)
        if command.old is None and name != chat.active_branch():
            branches.check_free(chat, name)
        admitted = admit(graph, [new], chat.store.refs(HEADS).values(), config=chat.config)
        if command.old and command.old not in graph.ancestors([new]):
            raise CovaltError(
                "non-fast-forward",
                code="not_pushed",
                hint="a push does not overwrite commits; push a new branch: "
                f"git push origin HEAD:{name}-2",
            )
        parents = {parent for oid in admitted.commits for parent in graph.commit(oid).parents}
        objects = admitted.objects | parents | {new}
        return _Accepted(command, objects, commits.lookalikes(graph.reader, admitted.commits))

    def _move(self, writer: Writer, accepted: Sequence[_Accepted]) -> None:
        """Move the branches that are still at the commit that the client saw."""
        store = self.chat.store
        ready = []
        for one in accepted:
            try:
                self._check_still(writer, one)
                ready.append(one)
            except CovaltError as error:
                self._refuse(one.command, error)
        objects = frozenset[str]().union(*(one.objects for one in ready))
        self.quarantine.adopt(objects & self.quarantine.ids, durable=store.durable)
        _list_foreign(self.chat, {oid for one in ready for oid in one.lookalikes})
        for one in ready:
            try:
                _move_branch(writer, one)
                self.moved.add(one.command.ref)
            except CovaltError as error:
                self._refuse(one.command, error)

    def _check_still(self, writer: Writer, one: _Accepted) -> None:
        """Check again, while the chat is locked, that the branch has not moved and that its objects exist."""
        chat = self.chat
        active = one.name == chat.active_branch()
        now = writer.commit_changes() if active else chat.store.read_ref(one.command.ref)
        if now != one.command.old:
            raise _fetch_first()
        if not all(map(chat.store.has, one.objects - self.quarantine.ids)):
            raise MovedError("objects were removed meanwhile", hint="push again")

    def _refuse_rest(self, accepted: Sequence[_Accepted], error: CovaltError) -> None:
        for one in accepted:
            if one.command.ref not in self.moved | self.refused.keys():
                self._refuse(one.command, error)

    def _refuse(self, command: Command, error: CovaltError) -> None:
        problems = [f"{one.path}: {one.message}" for one in error.problems]
        self.refused[command.ref] = problems[0] if len(problems) == 1 else error.message
        if problems or error.hint:
            name = command.ref.removeprefix(HEADS).encode("utf-8", "replace").decode()
            self.messages.append(f"{name}: {error.message}")
            self.messages += [f"  {line}" for line in problems[:_MOST_PROBLEMS]]
            self.messages += [f"  hint: {error.hint}"] if error.hint else []


def _check_kind(chat: ChatStore, command: Command) -> tuple[str, str]:
    """Return the branch that a command creates or moves, and its new commit.

    Raises:
        CovaltError: if the command does something else.
    """
    name = command.ref.removeprefix(HEADS)
    if name == command.ref:
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
            hint=f"covalt-git chat branch delete {chat.id} {name}",
        )
    return name, command.new


def _list_foreign(chat: ChatStore, found: set[str]) -> None:
    """Add commits to the list of foreign commits, unless a branch, or a deleted branch, reaches them already.

    They may be in the store already, if a push was killed.
    """
    if found:
        tips = *chat.store.refs(HEADS).values(), *chat.store.refs(DELETED).values()
        chat.foreign.add(found - chat.above(*tips, without=()).keys())


def _move_branch(writer: Writer, one: _Accepted) -> None:
    """Create or fast-forward a branch; if it is active, the workspace changes with it."""
    chat, command = writer.chat, one.command
    if one.name == chat.active_branch():
        writer.advance(chat.head(), str(command.new))
    elif command.old is None:
        branches.create(writer, one.name, command.new)
    elif not chat.store.swap_ref(command.ref, command.old, command.new):
        raise _fetch_first()


def _fetch_first() -> MovedError:
    return MovedError("fetch first", hint="git pull, and push again: the branch has new commits")
