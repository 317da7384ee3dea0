"""A chat: its store, its branches and its history, for reading; :mod:`.writing` changes it.

::

    data/chats/<chat_id>/store.git    the truth: commits are manifests, branches are branches
    data/chats/<chat_id>/workspace/   the folder that tools and people work in
    data/chats/<chat_id>/lock         held by whoever writes
    data/chats/<chat_id>/switch.json  a switch of the folder that has not ended
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import ValidationError

from covalt_git.errors import StaleError, UnknownNameError
from covalt_git.git_store import BrokenStoreError, GitStore
from covalt_git.git_store.patches import patch_of_blobs
from covalt_git.json_values import canonical_json
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import Approval, PendingCall, RenderPlan, ToolCall
from covalt_git.models.chats import (
    Branch,
    Chat,
    FileChange,
    FileState,
    Origin,
    WorkspaceManifest,
)
from covalt_git.models.commit_record import CommitRecord, WorkspaceNotes
from covalt_git.workspaces import commits, running_call, trees
from covalt_git.workspaces.foreign_commits import ForeignCommits
from covalt_git.workspaces.records import Records
from covalt_git.workspaces.scan import scan
from covalt_git.workspaces.snapshot import Snapshot
from covalt_git.workspaces.stat_cache import StatCache
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.models.project_config import WorkspaceConfig

HEADS = "refs/heads/"
CALLS = "refs/covalt/calls/"
APPROVALS = "refs/covalt/approvals/"
DELETED = "refs/covalt/deleted/"
ABOUT = "refs/covalt/chat"

_MOST_REMEMBERED = 1 << 12
_SHORT_MESSAGE = 1 << 12

Stored = TypeVar("Stored", bound=StrictModel)


class MovedError(StaleError):
    """A ref is not where it was: another writer, such as a push, came first."""


class AboutChat(StrictModel):
    """What a chat is, besides its states: the content of ``refs/covalt/chat``.

    Attributes:
        made_by: the agent that made it and works in it, ``agent:NAME``; None where a person did.
    """

    v: int = 1
    id: str
    title: str = ""
    created_at: str
    forked_from: Origin | None = None
    made_by: str | None = None


@dataclass(slots=True)
class ChatMemory:
    """What a process remembers of a chat while it does not have it open; all of it can be read again.

    Attributes:
        manifests: commits with short messages, by their id and whether they were made elsewhere.
    """

    manifests: dict[tuple[str, bool], WorkspaceManifest] = field(default_factory=dict)

    def remember(self, key: tuple[str, bool], manifest: WorkspaceManifest) -> None:
        """Remember a manifest, and forget the others when there are many."""
        if len(self.manifests) == _MOST_REMEMBERED:
            self.manifests.clear()
        self.manifests[key] = manifest


@dataclass
class ChatStore:
    """One chat, open for reading.  Close it after use; one thread at a time."""

    id: str
    folder: Path
    config: WorkspaceConfig
    memory: ChatMemory = field(default_factory=ChatMemory, kw_only=True, repr=False)
    store: GitStore = field(init=False)
    records: Records = field(init=False)
    foreign: ForeignCommits = field(init=False)

    def __post_init__(self) -> None:
        """Open the chat's store."""
        durable = self.config.durability == "full"
        self.store = GitStore(self.folder / "store.git", durable=durable)
        self.records = Records(self.store)
        self.foreign = ForeignCommits(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, and save what the last scan by a writer found for other processes."""
        self.store.close()
        self.stat_cache.save()

    @functools.cached_property
    def workspace(self) -> Path:
        """The working folder."""
        return self.folder / "workspace"

    @functools.cached_property
    def stat_cache(self) -> StatCache:
        """The last scan of the working folder."""
        return StatCache.of(self.workspace, self.config, self.store.object_format)

    def about(self) -> Chat:
        """Return the chat as lists show it.

        The index has the same without looking for the active leaf among the commits.
        """
        card = self.card()
        head = self.head()
        return Chat(
            id=self.id,
            title=card.title,
            created_at=card.created_at,
            active_branch=self.active_branch(),
            active_manifest_id=head,
            active_leaf_message_id=self._leaf_message(head),
            forked_from=card.forked_from,
        )

    def card(self) -> AboutChat:
        """Return what the chat says of itself; one that somebody made with git alone says nothing."""
        oid = self.store.read_ref(ABOUT)
        if oid is None:
            return AboutChat(id=self.id, created_at="1970-01-01T00:00:00Z")
        return read_stored(self.store, oid, AboutChat)

    def _leaf_message(self, oid: str | None) -> str | None:
        """Return the newest message at or above a manifest, along first parents."""
        while oid is not None:
            commit = self.store.read_commit(oid)
            # Most commits need not be parsed to see that they are none.
            if commit.message.startswith("message: "):
                manifest = self.manifest(oid)
                if manifest.source == "message":
                    return manifest.source_ref
            oid = commit.parents[0] if commit.parents else None
        return None

    # Branches

    def active_branch(self) -> str:
        """Return the name of the branch that the folder is on."""
        return self.store.head().removeprefix(HEADS)

    def head(self) -> str | None:
        """Return the manifest of the active branch; None before anything happened."""
        return self.store.read_ref(self.store.head())

    def branches(self) -> list[Branch]:
        """Return the branches by name.

        A branch that has no manifest yet is one while it is active, or a call waits on it.
        """
        active = self.active_branch()
        heads = self.store.refs(HEADS)
        return [
            Branch(name=name, manifest_id=heads.get(HEADS + name), active=name == active)
            for name in self.branch_names()
        ]

    def branch_names(self) -> list[str]:
        """Return the names of the branches, sorted."""
        names = {ref.removeprefix(HEADS) for ref in self.store.ref_names(HEADS)}
        return sorted(names | self.unborn_branches())

    def unborn_branches(self) -> set[str]:
        """Return the names of branches that may have no manifest yet, and so no ref."""
        return {self.active_branch()} | {call.branch for call in self.calls()}

    def branch(self, name: str) -> Branch:
        """Return one branch.

        Raises:
            UnknownNameError: naming the nearest one.
        """
        branches = {branch.name: branch for branch in self.branches()}
        if name not in branches:
            raise UnknownNameError(
                "branch", name, branches, list_with=f"covalt-git chat branch {self.id}"
            )
        return branches[name]

    # History

    def manifest(self, oid: str) -> WorkspaceManifest:
        """Return the manifest that a commit of this chat is; ``oid`` is its full id."""
        key = oid, oid in self.foreign
        found = self.memory.manifests.get(key)
        if found is None:
            commit = self.store.read_commit(oid)
            found = commits.read(oid, commit, self.id, self.records, foreign=key[1])
            # Large fields are in the records, which may come later, as after a clone.
            if len(commit.message) <= _SHORT_MESSAGE and '"ref":' not in commit.message:
                self.memory.remember(key, found)
        self.foreign.cover(found.parents)
        return found

    def named(self, text: str) -> str | None:
        """Return the manifest of the branch of that name, or of ``HEAD``; None where there is none."""
        if text == "HEAD":
            return self.head()
        found = (one.manifest_id for one in self.branches() if one.name == text)
        return next(found, None)

    def reachable(self, *, but: str | None = None) -> dict[str, None]:
        """Return the ids of all manifests of all branches ``but`` one, a branch's newest first."""
        return dict.fromkeys(self._walk(but))

    def above(self, oid: str, *, without: Container[str]) -> list[str]:
        """Return a manifest and what it was made from, as far as that is not ``without``."""
        met: dict[str, None] = {}
        waiting = [oid]
        while waiting:
            found = waiting.pop()
            if found not in met and found not in without:
                met[found] = None
                waiting.extend(self._parents(found))
        return list(met)

    def _walk(self, but: str | None = None) -> Iterator[str]:
        """Yield the id of every manifest of every branch ``but`` one, once."""
        met: set[str] = set()
        heads = (branch.manifest_id for branch in self.branches() if branch.name != but)
        waiting = [oid for oid in heads if oid]
        while waiting:
            oid = waiting.pop()
            if oid not in met:
                met.add(oid)
                yield oid
                waiting.extend(self._parents(oid))

    def _parents(self, oid: str) -> tuple[str, ...]:
        remembered = self.memory.manifests.get((oid, False))
        return self.store.read_commit(oid).parents if remembered is None else remembered.parents

    def log(self, oid: str | None) -> Iterator[WorkspaceManifest]:
        """Yield a manifest and its ancestors along first parents, newest first."""
        while oid is not None:
            manifest = self.manifest(oid)
            yield manifest
            oid = manifest.parent_id

    def state(self, oid: str | None) -> FolderState:
        """Return what the folder holds at a manifest."""
        if oid is None:
            return FolderState()
        manifest = self.manifest(oid)
        return state_of(manifest.tree_id, manifest.record)

    # Files

    def files(self, oid: str | None) -> dict[str, FileState]:
        """Return the files of a manifest by path."""
        return trees.files(self.store, self.state(oid).tree)

    def find_file(self, oid: str | None, path: str) -> FileState | None:
        """Return one file of a manifest, or None where there is none at that path."""
        return trees.find(self.store, self.state(oid).tree, path)

    def read_file(self, oid: str | None, path: str) -> bytes:
        """Return a file's content at a manifest, from the store, never from the folder.

        Raises:
            UnknownNameError: naming the nearest path.
        """
        found = self.find_file(oid, path)
        if found is None:
            raise UnknownNameError(
                "file", path, self.files(oid), list_with=f"covalt-git chat files {self.id}"
            )
        return self.store.read_blob(found.oid)

    def changes(self, old: str | None, new: str | None) -> list[FileChange]:
        """Return the paths that differ between two manifests."""
        return trees.changes(self.store, self.state(old).tree, self.state(new).tree)

    def scan(self) -> Snapshot:
        """Store the content of the working folder, durable after a flush, and return its snapshot."""
        known, clock = self.stat_cache.recall()
        self.stat_cache.scan = scan(self.store, self.workspace, self.config, known, clock)
        return Snapshot.of(self.stat_cache.scan)

    @contextlib.contextmanager
    def scan_in_memory(self) -> Iterator[Snapshot]:
        """Yield the folder as it is now, without storing any of it or holding the chat.

        Within, :meth:`tree_changes` and :meth:`patch` know the snapshot's files.  A folder that is
        not there is as the next writer will make it.
        """
        with self.store.scratch():
            if self.workspace.is_dir():
                known, clock = self.stat_cache.recall()
                yield Snapshot.of(scan(self.store, self.workspace, self.config, known, clock))
            else:
                state = self.state(self.head())
                yield Snapshot(state.tree, WorkspaceNotes(empty_folders=state.empty_folders))

    def tree_changes(self, old: str | None, new: str | None) -> list[FileChange]:
        """Return the paths that differ between two trees."""
        return trees.changes(self.store, old, new)

    def patch(self, change: FileChange) -> str:
        """Return git's patch of one change; what is not UTF-8 is replaced."""
        old = (change.old.mode, change.old.oid) if change.old else None
        new = (change.new.mode, change.new.oid) if change.new else None
        return patch_of_blobs(self.store, change.path, old, new).decode("utf-8", "replace")

    # Calls and approvals that wait

    def calls(self) -> list[PendingCall]:
        """Return the calls that wait, and the one that runs, oldest first."""
        found = {call.id: call for call in self._stored_below(CALLS, PendingCall)}
        if (running := running_call.read(self.store.path)) is not None:
            found[running.id] = running  # which waited before, perhaps
        return [found[call_id] for call_id in sorted(found)]

    def call(self, call_id: str) -> PendingCall | None:
        """Return one call that has not finished, or None where this chat has none of that id."""
        running = running_call.read(self.store.path)
        if running is not None and running.id == call_id:
            return running
        return self._stored_at(CALLS + call_id, PendingCall)

    def approvals(self) -> list[Approval]:
        """Return every approval ever asked for in this chat, oldest first."""
        return self._stored_below(APPROVALS, Approval)

    def approval(self, execution_id: str) -> Approval | None:
        """Return one approval, or None where this chat has none of that id."""
        return self._stored_at(APPROVALS + execution_id, Approval)

    def _stored_below(self, prefix: str, kind: type[Stored]) -> list[Stored]:
        found = [self._stored_at(ref, kind) for ref in self.store.ref_names(prefix)]
        return [value for value in found if value is not None]

    def _stored_at(self, ref: str, kind: type[Stored]) -> Stored | None:
        """Return what a ref holds; a writer may move or remove it while this reads."""
        oid = self.store.read_ref(ref)
        while oid is not None:
            try:
                return read_stored(self.store, oid, kind)
            except BrokenStoreError:
                moved = self.store.read_ref(ref)
                if moved == oid:
                    raise
                oid = moved
        return None


def state_of(tree: str | None, record: CommitRecord) -> FolderState:
    """Return what the folder holds at a manifest of that tree and record."""
    return FolderState(None if tree in trees.EMPTY else tree, record.workspace.empty_folders)


def finished_call(manifest: WorkspaceManifest) -> ToolCall | None:
    """Return the call that made a manifest, as the ``tool_calls`` table shows it."""
    call = manifest.record.call
    if call is None:
        return None
    return ToolCall(
        id=manifest.record.id,
        chat_id=manifest.chat_id,
        message_id=manifest.message_id,
        tool_id=call.tool_id,
        args=call.args,
        result=call.result,
        render_plan=call.render_plan and RenderPlan.model_validate(call.render_plan),
        status=call.status,
        error=None if call.error is None else str(call.error),
        started_at=call.started_at,
        finished_at=call.finished_at,
        pre_manifest_id=manifest.parent_id,
        post_manifest_id=manifest.id,
    )


def waiting_call(call: PendingCall) -> ToolCall:
    """Return a call that waits or runs, as the ``tool_calls`` table shows it."""
    return ToolCall(
        id=call.id,
        chat_id=call.chat_id,
        message_id=call.message_id,
        tool_id=call.tool_id,
        args=call.args,
        status=call.status,
        started_at=call.started_at,
        pre_manifest_id=call.base,
    )


def read_stored(store: ObjectReader, oid: str, kind: type[Stored]) -> Stored:
    """Return the model that a note holds (see :func:`write_stored`), or what a chat says of itself.

    Raises:
        BrokenStoreError: when it holds none.
    """
    line = store.read_note(oid).partition("\n\n")[2]
    try:
        return kind.model_validate(canonical_json.loads(line))
    except (ValidationError, canonical_json.NotJsonError) as error:
        raise BrokenStoreError(
            f"the note {oid} of {store.path} is not a {kind.__name__}: {error}"
        ) from None


def write_stored(store: GitStore, value: StrictModel, subject: str) -> str:
    """Store a model as a note: a subject and one line of canonical JSON; return its id.

    It is a blob under a ref of its own; gc removes it once no ref leads to it.
    """
    return store.write_blob(_stored(value, subject).encode())


def _stored(value: StrictModel, subject: str) -> str:
    line = canonical_json.dumps(value.model_dump(mode="json", exclude_none=True)).decode()
    return f"{commits.one_line(subject)}\n\n{line}\n"


def move_branch(store: GitStore, name: str, old: str | None, new: str | None) -> None:
    """Move a branch from one commit to another; None is no branch.

    Raises:
        MovedError: when it is at a third commit.
    """
    if not store.swap_ref(HEADS + name, old, new):
        raise MovedError(f"the branch {name!r} has moved", hint="try again")


def write_about(store: GitStore, about: AboutChat) -> None:
    """Let a chat's store say what the chat is."""
    oid = write_stored(store, about, f"chat: {about.id}")
    if not store.swap_ref(ABOUT, store.read_ref(ABOUT), oid):
        raise MovedError("somebody else writes what the chat is", hint="try again")


def make_chat(folder: str, about: AboutChat, object_format: str) -> None:
    """Make what is in the folder of a new chat: an empty workspace, and a store that says what it is."""
    (Path(folder) / "workspace").mkdir()
    with GitStore.create(
        Path(folder) / "store.git", object_format=object_format, durable=False
    ) as store:
        write_about(store, about)
