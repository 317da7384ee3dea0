"""What git may fetch of a chat, and what a push to it means.

A push makes branches and moves them forward, nothing else: what a chat has is never overwritten or
deleted by one.  What comes in stays apart from the store until all of it has been looked at, by the
same rules as an import (:mod:`.admission`), and only what a branch that moves leads to is kept; so a
push that fails or is killed leaves nothing.  The chat is held only while branches move.

The active branch moves together with the folder, as a merge moves it.  What a person changed in the
folder is saved on it first, and the push is then one that comes too late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import SUBMODULE
from covalt_git.git_store.ancestry import Ancestry
from covalt_git.git_store.incoming_packs import BadPackError, PackLimits
from covalt_git.git_store.receive_pack import PushReport
from covalt_git.git_store.upload_pack import Shown
from covalt_git.names import PERSON
from covalt_git.transfers.admission import admit
from covalt_git.workspaces import branches
from covalt_git.workspaces.chats import ABOUT, DELETED, HEADS, MovedError
from covalt_git.workspaces.foreign_commits import lookalikes
from covalt_git.workspaces.records import REF as RECORDS
from covalt_git.workspaces.switching import Journal
from covalt_git.workspaces.writing import writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.git_store.incoming_packs import IncomingPack
    from covalt_git.git_store.pkt_lines import Stream
    from covalt_git.git_store.receive_pack import Command, PushRequest
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.writing import Writer

MOST_PACK_BYTES = 1 << 30
MOST_OBJECTS = 1_000_000
MOST_OBJECTS_BYTES = 8 << 30
_MOST_OTHER_BYTES = 16 << 20
_MOST_TOLD = 20


class NotPushedError(CovaltError):
    """A ref that a push may not move so."""

    code = "not_pushed"


@dataclass(slots=True)
class _Accepted:
    """A command that may be carried out, and what the pack brings for it.

    ``brought`` are the objects to be kept, ``relied_on`` those that the store has to have by then;
    ``lookalikes`` are the new commits that look like our records.
    """

    command: Command
    brought: set[str] = field(default_factory=set)
    relied_on: set[str] = field(default_factory=set)
    lookalikes: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.command.ref.removeprefix(HEADS)


def fetchable(chat: ChatStore) -> Shown:
    """Return what git may fetch: branches, and what the chat says of itself and of its commits.

    Calls that wait, approvals and deleted branches are the chat's own affair.
    """
    refs = chat.store.refs(HEADS)
    for ref in (RECORDS, ABOUT):
        oid = chat.store.read_ref(ref)
        if oid is not None:
            refs[ref] = oid
    return Shown(chat.store, refs, chat.store.head())


def pushable(chat: ChatStore) -> Shown:
    """Return the refs that a push may move."""
    return Shown(chat.store, chat.store.refs(HEADS), chat.store.head())


def limits(config: WorkspaceConfig) -> PackLimits:
    """Return what a push may bring."""
    return PackLimits(
        pack=MOST_PACK_BYTES,
        objects=MOST_OBJECTS,
        blob=config.max_file_mb << 20,
        other=_MOST_OTHER_BYTES,
        together=MOST_OBJECTS_BYTES,
    )


def push(
    chat: ChatStore,
    request: PushRequest,
    stream: Stream,
    *,
    by: str = PERSON,
    timeout_s: float = 30,
) -> PushReport:
    """Take in what somebody pushes, each branch by itself; return what became of it.

    ``stream`` is read to its end.  Nothing is raised for what cannot be done: git hears the reason.
    """
    if not request.commands:
        return PushReport({})
    with chat.store.incoming(chat.folder, limits(chat.config)) as pack:
        if request.brings_pack:
            try:
                pack.receive(stream)
            except BadPackError as error:
                return _not_unpacked(request, error)
            except OSError as error:
                return _not_unpacked(request, _of_the_disk(error))
        return _Push(chat, pack, by, timeout_s).carry_out(request.commands)


def _not_unpacked(request: PushRequest, error: CovaltError) -> PushReport:
    refused = dict.fromkeys((command.ref for command in request.commands), "unpacker error")
    return PushReport(refused, unpack=error.message, told=(error.message,))


def _of_the_disk(error: OSError) -> CovaltError:
    return CovaltError(f"it cannot be stored: {(error.strerror or 'no reason given').lower()}")


@dataclass(slots=True)
class _Push:
    """One push whose pack was received."""

    chat: ChatStore
    pack: IncomingPack
    by: str
    timeout_s: float
    moved: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def carry_out(self, commands: Sequence[Command]) -> PushReport:
        """Look at every command, and then carry out those that may be."""
        accepted: list[_Accepted] = []
        for command in commands:
            try:
                accepted.append(self._look_at(command, accepted))
            except CovaltError as error:
                self._refuse(command, error)
        if accepted:
            try:
                with writing(self.chat, by=self.by, timeout_s=self.timeout_s) as writer:
                    self._move(writer, accepted)
            except CovaltError as error:  # such as that somebody else holds the chat
                self._refuse_rest(accepted, error)
            except OSError as error:
                self._refuse_rest(accepted, _of_the_disk(error))
        return PushReport(self.refused, told=self.told)

    def _look_at(self, command: Command, accepted: Sequence[_Accepted]) -> _Accepted:
        """Judge a command by all that can be known before the chat is held."""
        chat = self.chat
        _check_kind(chat, command)
        one = _Accepted(command)
        assert command.new is not None
        if command.old is None and one.name != chat.active_branch():
            branches.check_free(chat, one.name)
            _check_beside(one.name, accepted)
        with chat.store.beside(self.pack):
            known = [*chat.store.refs(HEADS).values()]
            admitted = admit(chat.store, [command.new], known, config=chat.config)
            ancestry = Ancestry(chat.store)
            if command.old and not ancestry.is_ancestor(command.old, command.new):
                raise NotPushedError(
                    "non-fast-forward",
                    hint="what a chat has is not overwritten; push it as a new branch: "
                    f"git push origin HEAD:{one.name}-2",
                )
            self._sort_out(one, ancestry, admitted.commits[::-1])
            one.lookalikes = lookalikes(chat.store, admitted.commits)
        return one

    def _sort_out(self, one: _Accepted, ancestry: Ancestry, new: Sequence[str]) -> None:
        """Find what the pack brings for some commits, parents first, and what the store has."""
        needed = set(new)
        met: set[tuple[str, bool]] = set()
        for oid in new:
            commit = ancestry.commit(oid)
            needed.update(commit.parents)
            before = [ancestry.commit(parent).tree for parent in commit.parents]
            entries = ancestry.new_entries(commit.tree, before, met)
            needed.update(entry.oid for _, entry in entries if entry.mode != SUBMODULE)
        assert one.command.new is not None
        needed.add(one.command.new)
        one.brought = {oid for oid in needed if oid in self.pack}
        one.relied_on = needed - one.brought

    def _move(self, writer: Writer, accepted: Sequence[_Accepted]) -> None:
        """Move the branches that are still where the client saw them."""
        store = self.chat.store
        ready = []
        for one in accepted:
            try:
                self._check_still(writer, one)
                ready.append(one)
            except CovaltError as error:
                self._refuse(one.command, error)
        brought = {oid for one in ready for oid in one.brought}
        store.adopt(self.pack, [oid for oid in self.pack.in_order() if oid in brought])
        store.flush()
        _list_foreign(self.chat, {oid for one in ready for oid in one.lookalikes})
        for one in ready:
            try:
                _move_branch(writer, one)
                self.moved.add(one.command.ref)
            except CovaltError as error:
                self._refuse(one.command, error)

    def _check_still(self, writer: Writer, one: _Accepted) -> None:
        """Make sure, now that the chat is held, that the branch and the objects are still there."""
        chat = self.chat
        active = one.name == chat.active_branch()
        now = writer.save_edits() if active else chat.store.read_ref(one.command.ref)
        if now != one.command.old:
            raise MovedError("fetch first", hint="git pull, and push again: the branch went on")
        if not all(map(chat.store.holds, one.relied_on)):
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
            self.told.append(f"{name}: {error.message}")
            self.told += [f"  {line}" for line in problems[:_MOST_TOLD]]
            self.told += [f"  hint: {error.hint}"] if error.hint else []


def _check_kind(chat: ChatStore, command: Command) -> None:
    """Judge what is asked for by itself.

    Raises:
        NotPushedError: when it is not to make a branch or to move one.
    """
    if not command.ref.startswith(HEADS):
        kind = "tags" if command.ref.startswith("refs/tags/") else "other refs"
        raise NotPushedError(
            f"only branches are pushed to a chat, no {kind}",
            hint="git push origin HEAD:refs/heads/NAME",
        )
    if command.new is None:
        name = command.ref.removeprefix(HEADS)
        raise NotPushedError(
            "a push deletes no branch",
            hint=f"covalt-git chat branch delete {chat.id} {name}",
        )


def _check_beside(name: str, accepted: Sequence[_Accepted]) -> None:
    for other in (one.name for one in accepted):
        if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
            raise branches.BranchExistsError(
                f"{other!r} comes with it, so {name!r} cannot be a branch",
                hint="choose another name",
            )


def _list_foreign(chat: ChatStore, found: set[str]) -> None:
    """List those of some commits that no branch led to until now, not even a deleted one.

    That they are in the store says nothing: a push that was killed may have left them.
    """
    known: set[str] = set()
    if found:
        for tip in {*chat.store.refs(HEADS).values(), *chat.store.refs(DELETED).values()}:
            known.update(chat.above(tip, without=known))
    chat.foreign.add(found - known)


def _move_branch(writer: Writer, one: _Accepted) -> None:
    """Make a branch or move it forward, the folder with it where it is on that branch."""
    chat, command = writer.chat, one.command
    if one.name == chat.active_branch():
        head = chat.head()
        writer.switch(Journal(old=head, new=command.new, head=command.ref, moves=True, before=head))
    elif command.old is None:
        writer.create_branch(one.name, command.new)
    elif not chat.store.swap_ref(command.ref, command.old, command.new):
        raise MovedError("fetch first", hint="git pull, and push again: the branch went on")
