"""Registry of a project's chats, which creates, lists, opens and deletes them.

A chat is a folder of ``data/chats``.  It appears and disappears by a single rename::

    data/chats/.new-<uuid7>/    a chat that is being created; its creator locks the folder
    data/chats/.gone-<uuid7>/   a chat that is being deleted

Each creation first removes such folders of killed processes.  Only the owner may enter a chat's
folder, because tools can give files of the workspace modes that permit other users to read them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.git_store.store import GitStore
from covalt_git.git_store.tracked_files import TrackedDataError, has_submodule
from covalt_git.names import check_id, id_key, is_id, new_id
from covalt_git.system import file_lock, locked_folder
from covalt_git.system.atomic_write import fsync, fsync_tree
from covalt_git.system.links import check_entries
from covalt_git.system.remove_tree import remove_tree
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import AboutChat, ChatStore, write_about
from covalt_git.workspaces.lock import ChatGoneError, held
from covalt_git.workspaces.storage import storage_of
from covalt_git.workspaces.writing import finish_left, follow_server, push_left_later

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.models.reported_refs import ReportedRefs
    from covalt_git.workspaces.chat import ChatMemory
    from covalt_git.workspaces.shared_chats import SharedChats

_NEW = ".new-"
_GONE = ".gone-"
_MOST_MEMORIES = 64


class ChatExistsError(CovaltError):
    """A chat with that id already exists."""

    code = "chat_exists"
    http_status = 409


class OneChat(NamedTuple):
    """One particular chat: its id and creation time, as a later chat can have the same id."""

    id: str
    created_at: str


class DeletionLoss(NamedTuple):
    """The loss when a chat is deleted: numbers of commits, branches and pending calls, and bytes of files.

    Files that the chat shares with forks do not count.  The numbers are None if the store cannot be read.
    """

    manifests: int | None
    branches: int | None
    waiting: int | None
    size: int


_STORE_FOLDERS = ("", "objects", "objects/pack", "refs", "refs/heads", "refs/covalt")
_OWN_FOLDERS = ("", *(f"store.git/{name}" for name in _STORE_FOLDERS))
"""Folders of a chat in which only covalt-git creates entries."""


@dataclass(frozen=True, slots=True)
class Chats:
    """The chats of a project, each a folder of ``data/chats``.

    With ``only``, only this chat exists for the caller.  With an agent as ``maker``, only chats exist that this agent
    created; the store of a chat names its creator, even after the agent's token was deleted.  ``memories`` are
    the caches of the chats that the process opened last.
    """

    folder: Path
    config: WorkspaceConfig
    maker: str | None = None
    only: OneChat | None = None
    memories: dict[str, ChatMemory] = field(default_factory=dict, compare=False, repr=False)

    def ids(self, *, most_age_s: float = 0.0) -> list[str]:
        """Return the ids of the chats, sorted; the list of a git server may have been read ``most_age_s`` seconds ago."""
        return [name for name in sorted(self._names(most_age_s)) if self.has(name)]

    def listed(self) -> list[str]:
        """Return the names in the list of chats, sorted, without fetching any of them."""
        return sorted(self._names())

    def ids_in_folder(self) -> list[str]:
        """Return the ids of the chats that have a folder on this machine, whatever a git server has."""
        names = sorted(self._local_names())
        return [name for name in names if is_id(name) and _is_chat(self.folder / name)]

    def first_with_ref(self, ref: str) -> Iterator[str]:
        """Yield the ids of the chats, first those that have a ref in the folder.

        With a git server, each chat that the caller opens costs a request, and one that the node does not have is fetched.  A
        server that reported an approval has its chat.
        """
        likely = [
            name
            for name in self.ids_in_folder()
            if (self.folder / name / "store.git" / ref).is_file() and self.has(name)
        ]
        yield from likely
        for name in self.listed():
            if name not in likely and self.has(name):
                yield name

    def has(self, chat_id: str) -> bool:
        """Return whether there is a chat with that id."""
        return is_id(chat_id) and self._is_in_folder(chat_id) and self._is_visible(chat_id)

    def _is_in_folder(self, chat_id: str) -> bool:
        """Return whether a chat is in the folder, after fetching it if another node created it."""
        if _is_chat(self.folder / chat_id):
            return True
        if (shared := self._shared) is None or (refs := shared.refs_of(chat_id)) is None:
            return False
        with self.creating(shared.object_format(refs)) as store:
            shared.fill(store, chat_id, refs)
            if self.config.durability == "full":
                fsync_tree(store.path.parent)
            with file_lock.held(self.folder):
                if not _is_chat(self.folder / chat_id):  # another process was faster
                    self._rename(store.path.parent, self.folder / chat_id)
        return True

    @property
    def _shared(self) -> SharedChats | None:
        """The chats on the git server; None if the project has no server."""
        if self.config.git_storage is None:
            return None
        from covalt_git.workspaces.shared_chats import SharedChats  # noqa: PLC0415 - of few projects

        return SharedChats(self.folder, storage_of(self.config))

    def one(self, chat_id: str) -> OneChat:
        """Return the chat that has an id now, with its creation time.

        Raises:
            UnknownNameError: if the name does not exist; the hint has the most similar one.
        """
        with self.as_left(chat_id) as chat:
            return OneChat(chat_id, chat.card().created_at)

    def newest_created(self) -> str | None:
        """Return the id of the newest chat that the agent ``maker`` created, or None."""
        created = {}
        for chat_id in [] if self.maker is None else self.ids():
            with contextlib.suppress(CovaltError), self.as_left(chat_id) as chat:
                created[chat_id] = chat.card().created_at
        return max(created, key=created.__getitem__, default=None)

    def check_exists(self, chat_id: str) -> None:
        """Check that a chat exists for the principal.

        Raises:
            TrackedDataError: if a submodule brought it.
            UnknownNameError: if it does not; the hint has the most similar one.
        """
        if not self.has(chat_id):
            if self.maker is None and self.only is None and is_id(chat_id):
                self._check_no_submodule(chat_id)
                self._check_no_submodule(chat_id, "store.git")
            raise UnknownNameError("chat", chat_id, self.ids(), list_with="covalt-git chat list")

    def path(self, chat_id: str) -> Path:
        """Return the folder of a chat.

        Raises:
            LinkedFolderError: if a link is in place of a file or a folder of the chat.
            TrackedDataError: if a submodule brought a folder of it.
            UnknownNameError: if the name does not exist; the hint has the most similar one.
        """
        self.check_exists(chat_id)
        for name in _OWN_FOLDERS:
            self._check_no_submodule(chat_id, name)
        # An unpacked archive can have links in place of the files of a chat; the workspace is entered by handles.
        check_entries(self.folder / chat_id, _OWN_FOLDERS, but={"workspace"})
        return self.folder / chat_id

    def open(self, chat_id: str, reported: ReportedRefs | None = None) -> ChatStore:
        """Open a chat, after completing the unfinished work of a killed process.

        With refs that another process ``reported``, a git server is not asked for them (:func:`.follow_server`).

        Raises:
            UnknownNameError: if the name does not exist; the hint has the most similar one.
        """
        chat = self.as_left(chat_id, reported)
        finish_left(chat)
        return chat

    def follow(self, chat: ChatStore) -> None:
        """Bring the copy of an open chat to what a git server has, unless this was done when it was opened.

        Raises:
            UnknownNameError: if it was deleted.
        """
        if chat.is_followed:
            return
        try:
            follow_server(chat)
        except ChatGoneError:
            self.as_left(chat.id).close()
            raise

    def as_left(self, chat_id: str, reported: ReportedRefs | None = None) -> ChatStore:
        """Open a chat without completing unfinished work, and without writing anything but what the git server has.

        Raises:
            UnknownNameError: if the name does not exist; the hint has the most similar one.
            ServerError: if the chats are on a git server that cannot be reached.
        """
        folder = self.path(chat_id)
        self.memories[chat_id] = memory = self.memories.pop(chat_id, {})
        if len(self.memories) > _MOST_MEMORIES:
            self.memories.pop(next(iter(self.memories)), None)  # the least recently used
        chat = ChatStore(chat_id, folder, self.config, memory=memory)
        with contextlib.ExitStack() as stack:
            stack.enter_context(chat)
            try:
                follow_server(chat, reported)
            except ChatGoneError:
                # Another node deleted it, and perhaps created another chat with the id.
                self._remove_copy(chat_id)
                self.memories.pop(chat_id, None)
                return self.as_left(chat_id)
            stack.pop_all()
        return chat

    def _remove_copy(self, chat_id: str) -> None:
        """Remove the copy of a chat that another node deleted.

        Raises:
            ChatBusyError: if a process of this node is writing to it.
        """
        with held(self.folder / chat_id, chat_id, timeout_s=0, waiting=None):
            self._remove(chat_id)

    def _remove(self, chat_id: str) -> None:
        # By one rename, so that a killed deletion leaves the complete chat or no chat; the next creation
        # removes the rest (test_a_killed_deletion_leaves_the_complete_chat_or_no_chat).
        gone = self.folder / f"{_GONE}{new_id()}"
        self._rename(self.folder / chat_id, gone)
        remove_tree(gone)

    def finish_left(self) -> None:
        """Complete the unfinished work of killed processes in all chats; servers call this at their start."""
        # A server has to start although the git server is away, and without fetching every chat.
        ids = self.ids() if self._shared is None else self.ids_in_folder()
        for chat_id in ids:
            # A chat may be damaged, or be deleted meanwhile.
            with contextlib.suppress(CovaltError):
                try:
                    self.open(chat_id).close()
                except CovaltError:
                    # The git server is away, and this may be the only node that has the result of a call.
                    with ChatStore(chat_id, self.folder / chat_id, self.config) as chat:
                        push_left_later(chat)

    def new(self, chat_id: str | None = None, *, title: str = "") -> ChatStore:
        """Create a chat and open it; its id is ``c1``, ``c2``, ... unless ``chat_id`` is passed.

        Raises:
            ChatExistsError: when the id exists, or differs from an existing id in ``-`` and ``_`` only.
            BadNameError: when the id is not valid.
        """
        about = AboutChat(id="", title=title, created_at=commits.now(), made_by=self.maker)
        if chat_id is not None:
            check_id(chat_id, "chat")
        with self.creating(self.config.object_format) as store:
            (store.path.parent / "workspace").mkdir()
            final = self.place(store, about, wanted=chat_id)
        return ChatStore(final, self.folder / final, self.config)

    def check_free(self, chat_id: str) -> None:
        """Check that a chat with that id can be created.

        Raises:
            ChatExistsError: when the id exists, or differs from an existing id in ``-`` and ``_`` only.
            BadNameError: when the id is not valid.
        """
        check_id(chat_id, "chat")
        alike = [name for name in self._names() if id_key(name) == id_key(chat_id) and is_id(name)]
        for name in alike:
            if self._shared is not None or _is_chat(self.folder / name):
                raise ChatExistsError(
                    f"the chat {name!r} already exists", hint=f"covalt-git chat show {name}"
                )
        if chat_id in alike:
            raise ChatExistsError(
                f"{chat_id!r} is the name of a file or folder that is not a chat",
                hint=f"choose another id, or move {self.folder / chat_id} away",
            )

    @contextlib.contextmanager
    def creating(self, object_format: str) -> Iterator[GitStore]:
        """Yield the empty store of a new chat; the chat is removed unless :meth:`place` renames it.

        Raises:
            CovaltError: when a file cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for prefix in (_GONE, _NEW):
                locked_folder.clear(self.folder, prefix)
            with locked_folder.create(self.folder, _NEW) as folder:
                path = folder / "store.git"
                # Not durable: place() fsyncs the whole chat at once, before it gets its name.
                with GitStore.create(path, object_format=object_format, durable=False) as store:
                    yield store
        except OSError as error:
            raise CovaltError(
                f"the chat cannot be created: {error.strerror}: {error.filename}"
            ) from None

    def place(
        self,
        store: GitStore,
        about: AboutChat,
        *,
        wanted: str | None,
        preferred: str | None = None,
        finish: Callable[[str], None] = lambda _: None,
    ) -> str:
        """Describe a created chat in its store, rename its folder to its id, and return the id.

        The id is ``wanted``, else ``preferred`` if it is available, else the next of ``c1``, ``c2``, ...  ``finish`` is
        called with it, and can still change the store.

        Raises:
            ChatExistsError: when the id ``wanted`` exists.
            BadNameError: when ``wanted`` is not valid.
        """
        folder = store.path.parent
        if wanted is not None and self._shared is not None:
            # A copy of a chat with this id that another node deleted is in the way, and is removed when it is opened.
            with contextlib.suppress(CovaltError):
                self.as_left(wanted).close()
        # Locked, because ids that differ only in ``-`` and ``_`` must not exist both.
        with file_lock.held(self.folder):
            if wanted is not None:
                self.check_free(wanted)
            taken = set(map(id_key, (*self._names(), *self._local_names())))
            numbered = (f"c{number}" for number in itertools.count(1))
            ids = itertools.chain(filter(is_id, filter(None, [preferred])), numbered)
            available = [wanted] if wanted else (free for free in ids if id_key(free) not in taken)
            for chat_id in available:
                refs = store.refs("refs/")
                write_about(store, about.model_copy(update={"id": chat_id}))
                finish(chat_id)
                # Another node may create a chat with the same id at the same time, and be first.
                if (shared := self._shared) is None or shared.add(chat_id, store, unless=refs):
                    break
            else:
                raise ChatExistsError(
                    f"the chat {wanted!r} already exists", hint=f"covalt-git chat show {wanted}"
                )
            # The rename publishes the chat: after a power cut, a chat with its name must have its content.
            if self.config.durability == "full":
                fsync_tree(folder)
            self._rename(folder, self.folder / chat_id)
        return chat_id

    def loss(self, chat_id: str) -> DeletionLoss:
        """Return what would be deleted with a chat.

        Raises:
            UnknownNameError: if the chat does not exist; the hint has the most similar one.
        """
        size = _unshared_size(self.path(chat_id))
        try:
            with self.open(chat_id) as chat:
                born = [branch for branch in chat.branches() if branch.manifest_id is not None]
                return DeletionLoss(len(chat.reachable()), len(born), len(chat.calls()), size)
        except BrokenStoreError:
            return DeletionLoss(None, None, None, size)

    def delete(
        self,
        chat_id: str,
        *,
        timeout_s: float = 5,
        waiting: Callable[[str], None] | None = None,
        check: Callable[[], None] | None = None,
    ) -> DeletionLoss:
        """Delete a chat, also if its store is damaged; return what was deleted with it.

        ``check`` is called when the chat is locked, and raises an error if it may no longer be deleted.

        Raises:
            UnknownNameError: if the chat does not exist; the hint has the most similar one.
            ChatBusyError: if a process is writing to it, such as a running call.
        """
        folder = self.path(chat_id)
        with held(folder, chat_id, timeout_s=timeout_s, waiting=waiting):
            if check is not None:
                check()
            loss = self.loss(chat_id)
            if (shared := self._shared) is not None:
                with ChatStore(chat_id, folder, self.config) as chat:
                    shared.delete(chat, timeout_s=timeout_s, waiting=waiting)
            self._remove(chat_id)
        return loss

    def _rename(self, folder: Path, target: Path) -> None:
        folder.rename(target)
        if self.config.durability == "full":
            fsync(self.folder)

    def _names(self, most_age_s: float = 0.0) -> list[str]:
        names = self._local_names()
        return names if (shared := self._shared) is None else shared.names(names, most_age_s)

    def _local_names(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                return [entry.name for entry in entries]
        except FileNotFoundError:
            return []

    def _check_no_submodule(self, chat_id: str, name: str = "") -> None:
        folder = f"{self.folder}/{chat_id}"  # a text, for the reason in links_in()
        if has_submodule(f"{folder}/{name}"):
            raise TrackedDataError(
                f"the chat {chat_id!r} has the files of a submodule",
                f"if you did not make it: rm -rf {shlex.quote(folder)}",
            )

    def _is_visible(self, chat_id: str) -> bool:
        """Return whether a chat in the folder is visible to the caller."""
        if self.maker is None and self.only is None:
            return True
        if self.only is not None and chat_id != self.only.id:
            return False
        try:
            with ChatStore(chat_id, self.folder / chat_id, self.config) as chat:
                card = chat.card()
        except (CovaltError, OSError):  # the owner of a chat with a damaged store is unknown
            return False
        if self.only is not None:
            return card.created_at == self.only.created_at
        return card.made_by == self.maker


def _is_chat(folder: Path) -> bool:
    """Return whether a folder is that of a chat; one that a submodule of the project's repository brought is not."""
    store = f"{folder}/store.git"
    return os.path.isdir(store) and not (has_submodule(folder) or has_submodule(store))  # noqa: PTH112 - of each chat


def _unshared_size(folder: Path) -> int:
    """Return the bytes of the files that have no other hard link."""
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(f"{top}/{name}")
                size += status.st_size if status.st_nlink == 1 else 0
    return size
