"""A chat for reading: its branches, history, files, calls and approvals; :mod:`.writer` changes them.

``docs/reference/chat-store.md`` describes its folder and its store.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import ValidationError

from covalt_git.errors import StaleError, UnknownNameError
from covalt_git.git_store.graph import ancestors
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.git_store.store import GitStore
from covalt_git.json_values import canonical_json
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import Approval, PendingCall
from covalt_git.models.chats import (
    Branch,
    FileChange,
    FileState,
    Origin,
    WorkspaceManifest,
)
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.workspaces import commits, running_call, trees
from covalt_git.workspaces.commit_key import signing_key
from covalt_git.workspaces.records import Records
from covalt_git.workspaces.scan import scan
from covalt_git.workspaces.snapshot import Snapshot
from covalt_git.workspaces.stat_cache import StatCache
from covalt_git.workspaces.storage import storage_of
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from pathlib import Path

    from covalt_git.credentials.ssh_signatures import SigningKey
    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.storage import Storage

HEADS = "refs/heads/"
CALLS = "refs/covalt/calls/"
APPROVALS = "refs/covalt/approvals/"
DELETED = "refs/covalt/deleted/"
ABOUT = "refs/covalt/chat"

# Together, a server remembers at most 16 MiB of messages of one chat.
_MOST_REMEMBERED = 1 << 12
_SHORT_MESSAGE = 1 << 12

Stored = TypeVar("Stored", bound=StrictModel)

ChatMemory = dict[tuple[str, bool], WorkspaceManifest]
"""Cache of a chat that outlives its ``ChatStore``: commits with short messages, by id and whether they are foreign."""


class MovedError(StaleError):
    """Another process, such as a push, moved a ref before a writer could move it."""


class AboutChat(StrictModel):
    """Description of a chat: the content of ``refs/covalt/chat``.

    Attributes:
        made_by: the agent that created it, ``agent:NAME``; None for a user.
    """

    v: int = 1
    id: str
    title: str = ""
    created_at: str
    forked_from: Origin | None = None
    made_by: str | None = None


@dataclass
class ChatStore:
    """One open chat, for one thread.  Close it after use."""

    id: str
    folder: Path
    config: WorkspaceConfig
    memory: ChatMemory = field(default_factory=dict, kw_only=True, repr=False)
    store: GitStore = field(init=False)
    records: Records = field(init=False)
    foreign: commits.ForeignCommits = field(init=False)
    followed: str | None = field(default=None, init=False, compare=False)
    """The lease that a git server had when the chat was opened, until the first write."""
    is_followed: bool = field(default=True, init=False, compare=False)
    """Whether the git server was asked; False if the chat was opened with reported refs, or with those of its copy."""

    def __post_init__(self) -> None:
        """Open the chat's store."""
        durable = self.config.durability == "full"
        self.store = GitStore(self.folder / "store.git", durable=durable)
        self.records = Records(self.store)
        self.foreign = commits.ForeignCommits(self.store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, and save the stat cache for other processes."""
        self.store.close()
        self.stat_cache.save()

    @functools.cached_property
    def workspace(self) -> Path:
        """The working folder."""
        return self.folder / "workspace"

    @functools.cached_property
    def storage(self) -> Storage:
        """Where the chat is stored, besides this folder."""
        return storage_of(self.config)

    @functools.cached_property
    def stat_cache(self) -> StatCache:
        """The last scan of the working folder."""
        return StatCache.of(self.workspace, self.config, self.store.object_format)

    @functools.cached_property
    def signing_key(self) -> SigningKey | None:
        """The key that signs the chat's commits; None if they are not signed.

        It is read once: a call that has run must be recorded, whatever becomes of the file meanwhile.

        Raises:
            SigningKeyError: if the key cannot be used.
            NotTrustedError: if the user of this machine has not trusted its use.
        """
        return signing_key(self.config)

    def card(self) -> AboutChat:
        """Return the chat's description; it is empty if the chat was created with git alone."""
        unknown = AboutChat(id=self.id, created_at="1970-01-01T00:00:00Z")
        return stored_at(self.store, ABOUT, AboutChat) or unknown

    # Branches

    def active_branch(self) -> str:
        """Return the name of the branch of the working folder."""
        return self.store.head().removeprefix(HEADS)

    def head(self) -> str | None:
        """Return the head of the active branch; None before its first commit."""
        return self.store.read_ref(self.store.head())

    def branches(self) -> list[Branch]:
        """Return the branches, sorted by name.

        A branch without a commit has no ref; it exists while it is active or has a pending call.
        """
        active = self.active_branch()
        heads = self.store.refs(HEADS)
        return [
            Branch(name=name, manifest_id=heads.get(HEADS + name), active=name == active)
            for name in self.branch_names()
        ]

    def branch_names(self) -> list[str]:
        """Return the names of the branches, sorted, without reading their refs."""
        names = {ref.removeprefix(HEADS) for ref in self.store.ref_names(HEADS)}
        return sorted(names | {self.active_branch()} | {call.branch for call in self.calls()})

    def branch(self, name: str) -> Branch:
        """Return one branch.

        Raises:
            UnknownNameError: if the name does not exist; the hint has the most similar one.
        """
        branches = {branch.name: branch for branch in self.branches()}
        if name not in branches:
            raise UnknownNameError(
                "branch", name, branches, list_with=f"covalt-git chat branch {self.id}"
            )
        return branches[name]

    # History

    def manifest(self, oid: str) -> WorkspaceManifest:
        """Return a commit of this chat with its record; ``oid`` is its full id."""
        return self._manifest(oid, outline=False)

    def outline(self, oid: str) -> WorkspaceManifest:
        """Return a commit of this chat with its record, whose large arguments, results and texts are not read.

        Whatever is done for each call uses it: results of earlier calls can have many megabytes.
        """
        return self._manifest(oid, outline=True)

    def _manifest(self, oid: str, *, outline: bool) -> WorkspaceManifest:
        # A commit can become foreign after it was read: a push lists it before a branch leads to it.
        key = oid, oid in self.foreign
        manifest = self.memory.get(key)
        if manifest is None:
            commit = self.store.read_commit(oid)
            manifest = commits.read(
                oid, commit, self.id, self.records, foreign=key[1], outline=outline
            )
            # The records with the commit's large fields may be fetched later, for example after a clone.
            if len(commit.message) <= _SHORT_MESSAGE and '"ref":' not in commit.message:
                if len(self.memory) >= _MOST_REMEMBERED:
                    self.memory.clear()
                self.memory[key] = manifest
        self.foreign.cover(manifest.parents)
        return manifest

    def reachable(self) -> dict[str, int]:
        """Return the ids of the commits of all branches, newest first in each branch."""
        return self.above(*self.store.refs(HEADS).values())

    def above(self, *tips: str | None, without: Container[str] = ()) -> dict[str, int]:
        """Return commits and their ancestors, but not those in ``without`` or reached through them."""

        def parents(oid: str) -> tuple[str, ...]:
            commit = self.memory.get((oid, False)) or self.store.read_commit(oid)
            return commit.parents

        return ancestors(parents, filter(None, tips), without)

    def log(self, oid: str | None) -> Iterator[WorkspaceManifest]:
        """Yield the outlines of a commit and its ancestors along first parents, newest first."""
        while oid is not None:
            manifest = self.outline(oid)
            yield manifest
            oid = manifest.parent_id

    def state(self, oid: str | None) -> FolderState:
        """Return the content of the workspace at a commit."""
        if oid is None:
            return FolderState()
        manifest = self.outline(oid)
        # A scan stores no empty tree, so two ways to say "no files" would look like a change.
        tree = None if manifest.tree_id in trees.EMPTY else manifest.tree_id
        return FolderState(tree, manifest.record.workspace.empty_folders)

    # Files

    def files(self, oid: str | None) -> dict[str, FileState]:
        """Return the files of a commit by path."""
        return trees.files(self.store, self.state(oid).tree)

    def find_file(self, oid: str | None, path: str) -> FileState | None:
        """Return the file at a path of a commit, or None."""
        return trees.find(self.store, self.state(oid).tree, path)

    def read_file(self, oid: str | None, path: str) -> bytes:
        """Return the content of a file at a commit.

        Raises:
            UnknownNameError: if the path does not exist; the hint has the most similar one.
        """
        file = self.find_file(oid, path)
        if file is None:
            raise UnknownNameError(
                "file", path, self.files(oid), list_with=f"covalt-git chat files {self.id}"
            )
        return self.store.read_blob(file.oid)

    def changes(self, old: str | None, new: str | None) -> list[FileChange]:
        """Return the paths that differ between two commits."""
        return trees.changes(self.store, self.state(old).tree, self.state(new).tree)

    def scan(self, head: str | None) -> Snapshot:
        """Store the content of the working folder, durable after a flush, and return its snapshot.

        ``head`` is the head of the active branch.
        """
        last, clock = self.stat_cache.recall()
        tree = None
        # The tree only saves questions to the store.  Without a readable one, each object is looked for.
        with contextlib.suppress(BrokenStoreError):
            tree = self.state(head).tree
        return Snapshot.of(scan(self.store, self.workspace, self.config, last, clock, tree))

    @contextlib.contextmanager
    def scan_in_memory(self) -> Iterator[Snapshot]:
        """Yield a snapshot of the folder, without a lock, and without writing to the store.

        In the block, :meth:`tree_changes` and ``change_patch`` can read its files.  If the folder is missing, the snapshot has
        the files of the active branch, because the next writer restores them.
        """
        with self.store.scratch():
            if self.workspace.is_dir():
                head = None
                # The files can be shown although the branch is damaged.
                with contextlib.suppress(BrokenStoreError):
                    head = self.head()
                yield self.scan(head)
            else:
                state = self.state(self.head())
                yield Snapshot(state.tree, WorkspaceNotes(empty_folders=state.empty_folders))

    def tree_changes(self, old: str | None, new: str | None) -> list[FileChange]:
        """Return the paths that differ between two trees."""
        return trees.changes(self.store, old, new)

    # Calls and approvals

    def calls(self) -> list[PendingCall]:
        """Return the pending calls and the running call, oldest first.

        Raises:
            BrokenStoreError: if they are those of another chat.
        """
        # First, because a call whose code requires approval is stored as pending before its note is erased.
        running = running_call.read(self.store.path)
        return self.calls_at(self.store.refs(CALLS), running)

    def calls_at(self, refs: Mapping[str, str], running: PendingCall | None) -> list[PendingCall]:
        """Return the calls as :meth:`calls`, at the moment at which the refs and the running call were read.

        Raises:
            BrokenStoreError: as :meth:`calls`.
        """
        calls = {call.id: call for call in self._stored_in(refs, CALLS, PendingCall)}
        if running is not None:
            calls[running.id] = running  # it may have been pending before
        return [calls[call_id] for call_id in sorted(calls)]

    def call(self, call_id: str) -> PendingCall | None:
        """Return a pending or running call, or None."""
        return next((call for call in self.calls() if call.id == call_id), None)

    def approvals(self) -> list[Approval]:
        """Return all approvals of this chat, also decided ones, oldest first.

        Raises:
            BrokenStoreError: as :meth:`calls`.
        """
        return self.approvals_at(self.store.refs(APPROVALS))

    def approvals_at(self, refs: Mapping[str, str]) -> list[Approval]:
        """Return the approvals as :meth:`approvals`, at the moment at which the refs were read.

        Raises:
            BrokenStoreError: as :meth:`calls`.
        """
        return self._stored_in(refs, APPROVALS, Approval)

    def approval(self, execution_id: str) -> Approval | None:
        approval = stored_at(self.store, APPROVALS + execution_id, Approval)
        return None if approval is None else self._checked(approval)

    def _stored_in(self, refs: Mapping[str, str], prefix: str, kind: type[Stored]) -> list[Stored]:
        values = list[Stored]()
        for ref in sorted(refs):
            if ref.startswith(prefix):
                try:
                    value: Stored | None = read_stored(self.store, refs[ref], kind)
                except BrokenStoreError:  # a writer has moved the ref, and gc deleted the blob
                    value = stored_at(self.store, ref, kind)
                if value is not None:
                    values.append(self._checked(value))
        return values

    def _checked(self, stored: Stored) -> Stored:
        """Return a pending call or an approval of this chat; a copied folder has those of another one."""
        chat_id = getattr(stored, "chat_id", self.id)
        if chat_id != self.id:
            raise BrokenStoreError(
                f"the folder of the chat {self.id!r} has calls of the chat {chat_id!r}",
                hint=f"if it was renamed, give it its name again: mv {self.folder} {self.folder.parent / chat_id}",
            )
        return stored


def stored_at(store: GitStore, ref: str, kind: type[Stored]) -> Stored | None:
    """Return the model that :func:`put_stored` stored at a ref; None if the ref does not exist.

    Raises:
        BrokenStoreError: if the ref has another object, and no writer moves it meanwhile.
    """
    oid = store.read_ref(ref)
    # A writer may move the ref, and gc then delete the blob, after its id was read.
    while oid is not None:
        try:
            return read_stored(store, oid, kind)
        except BrokenStoreError:
            moved = store.read_ref(ref)
            if moved == oid:
                raise
            oid = moved
    return None


def read_stored(store: ObjectReader, oid: str, kind: type[Stored]) -> Stored:
    """Return the model that an object contains.

    Raises:
        BrokenStoreError: if the object does not contain such a model.
    """
    line = store.read_note(oid).partition("\n\n")[2]
    try:
        return kind.model_validate(canonical_json.loads(line))
    except (ValidationError, canonical_json.NotJsonError) as error:
        words = re.sub(r"\B(?=[A-Z])", " ", kind.__name__).lower()
        raise BrokenStoreError(
            f"the stored {words} {oid} in {store.path} cannot be read: {error}",
            hint="update covalt-git, or restore the chat from a backup",
        ) from None


def write_stored(store: GitStore, value: StrictModel, subject: str) -> str:
    """Store a model as a blob, for a ref: a subject and a line of canonical JSON; return the blob's id."""
    line = canonical_json.dumps(value.model_dump(mode="json", exclude_none=True))
    return store.write_blob(b"%s\n\n%s\n" % (commits.one_line(subject).encode(), line))


def put_stored(store: GitStore, ref: str, value: StrictModel | None, subject: str = "") -> bool:
    """Store a model at a ref, whatever is there; None removes the ref.

    Returns whether no other process moved the ref meanwhile.
    """
    old = store.read_ref(ref)
    new = None if value is None else write_stored(store, value, subject)
    return new == old or store.swap_ref(ref, old, new)


def existing(store: GitStore, *refs: str) -> dict[str, str]:
    """Return the refs that exist, with their object ids."""
    return {ref: oid for ref in refs if (oid := store.read_ref(ref)) is not None}


def move_branch(store: GitStore, name: str, old: str | None, new: str | None) -> None:
    """Move a branch from the commit ``old`` to ``new``; None means that the branch does not exist.

    Raises:
        MovedError: if the branch is not at ``old``.
    """
    if not store.swap_ref(HEADS + name, old, new):
        raise MovedError(f"the branch {name!r} has moved", hint="try again")


def write_about(store: GitStore, about: AboutChat) -> None:
    """Store the description of a chat."""
    if not put_stored(store, ABOUT, about, f"chat: {about.id}"):
        raise MovedError("another process describes the chat", hint="try again")
