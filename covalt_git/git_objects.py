"""Git's objects and refs in a bare store, on dulwich's plumbing: the only module that knows dulwich.

It owns reading and durable writing of blobs, trees, commits and refs, and nothing of what they mean
to a chat.  Objects are written to a temporary name, flushed and renamed, so that a name never
stands for half an object; refs move by compare-and-swap only.  Dulwich's own ``WorkTree.commit``,
``porcelain`` and ``add_object`` are not used: they lose commits under concurrency and leave locks
behind a killed process.  Formats: git's ``gitformat-loose(5)``, ``git-commit-tree(1)``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import struct
import tempfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    NotGitRepository,
)
from dulwich.file import FileLocked
from dulwich.objects import Blob, Commit, ObjectID, parse_tree, serialize_tree, sorted_tree_items
from dulwich.patch import is_binary, write_object_diff
from dulwich.refs import Ref
from dulwich.repo import Repo, UnsupportedExtension, UnsupportedVersion

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
FOLDER = 0o040000

_HEX_DIGITS = {40: "sha1", 64: "sha256"}
_KINDS = (b"", b"commit", b"tree", b"blob", b"tag")
# What dulwich raises over objects, packs and their indexes that are not as git wrote them.
_DAMAGE = (
    ApplyDeltaError,
    AssertionError,
    ChecksumMismatch,
    FileFormatException,
    OSError,
    ValueError,
    struct.error,
    zlib.error,
)


class BrokenStoreError(CovaltError):
    """A store that cannot be read as git wrote it."""

    code = "broken_store"
    http_status = 500


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name of a tree: bytes as they stand in git, git's mode, and the id of what it is."""

    name: bytes
    mode: int
    oid: str


@dataclass(frozen=True, slots=True)
class CommitObject:
    """A commit: ids in hex, the author as ``name <email>``, the time in seconds since 1970 UTC."""

    tree: str
    parents: tuple[str, ...]
    author: str
    committer: str
    time: int
    message: str


@dataclass(slots=True)
class GitStore:
    """One bare repository on disk.  Not for use by several threads at once; close it after use.

    ``durable`` tells whether writes are on the disk before they return.
    """

    path: Path
    durable: bool = True
    _repo: Repo = field(init=False, repr=False)
    _touched: set[str] = field(init=False, default_factory=set, repr=False)
    _scratch: dict[str, tuple[bytes, bytes]] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        """Open the repository.

        Raises:
            BrokenStoreError: when there is none at the path.
        """
        try:
            self._repo = Repo(str(self.path))
        except (NotGitRepository, OSError, ValueError) as error:
            raise BrokenStoreError(f"{self.path} is not a git store: {error}") from None
        except (UnsupportedVersion, UnsupportedExtension) as error:
            raise BrokenStoreError(
                f"{self.path} is of a newer kind of git store: {error}",
                hint="pip install --upgrade dulwich",
            ) from None

    @classmethod
    def create(cls, path: Path, *, object_format: str = "sha1", durable: bool = True) -> Self:
        """Make an empty bare repository at ``path``, its HEAD on the unborn branch main.

        Hooks are switched off in its configuration: nothing of a chat is ever run by git.
        """
        repo = Repo.init_bare(
            str(path), mkdir=True, default_branch=b"main", object_format=object_format
        )
        config = repo.get_config()
        config.set("core", "hooksPath", "/dev/null")
        config.set("core", "logAllRefUpdates", "false")
        config.set("gc", "auto", "0")
        config.set("receive", "fsckObjects", "true")
        config.write_to_path()
        repo.close()
        store = cls(path, durable=durable)
        if durable:
            for folder, _, files in os.walk(path):
                for name in files:
                    _fsync(os.path.join(folder, name))  # noqa: PTH118 - os.walk gives strings
                _fsync(folder)
        return store

    def close(self) -> None:
        """Let go of open packs."""
        self._repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def object_format(self) -> str:
        """Git's hash here: ``sha1`` or ``sha256``."""
        return str(self._repo.object_format.name)

    # Objects

    def read_blob(self, oid: str) -> bytes:
        """Return a blob's content."""
        return self._read(oid, b"blob")

    def read_tree(self, oid: str) -> list[TreeEntry]:
        """Return a tree's entries in git's order."""
        content = self._read(oid, b"tree")
        with self._damage_of(oid):
            entries = parse_tree(content, self._repo.object_format.oid_length)
        return [TreeEntry(name, mode, sha.decode()) for name, mode, sha in entries]

    def read_commit(self, oid: str) -> CommitObject:
        """Return a commit."""
        content = self._read(oid, b"commit")
        with self._damage_of(oid):
            commit = Commit.from_string(content)
            return CommitObject(
                tree=commit.tree.decode(),
                parents=tuple(parent.decode() for parent in commit.parents),
                author=commit.author.decode("utf-8", "replace"),
                committer=commit.committer.decode("utf-8", "replace"),
                time=commit.commit_time,
                message=commit.message.decode("utf-8", "replace"),
            )

    def write_blob(self, content: bytes) -> str:
        """Store a blob and return its id; durable after :meth:`flush`."""
        return self._write(b"blob", content)

    def write_tree(self, entries: Iterable[TreeEntry]) -> str:
        """Store a tree and return its id; durable after :meth:`flush`."""
        named = {entry.name: (entry.mode, ObjectID(entry.oid.encode())) for entry in entries}
        items = [(name, mode, ObjectID(oid)) for name, mode, oid in sorted_tree_items(named, False)]
        return self._write(b"tree", b"".join(serialize_tree(items)))

    def write_commit(self, commit: CommitObject) -> str:
        """Store a commit, flush everything before it, and return its id."""
        lines = [f"tree {commit.tree}"]
        lines += [f"parent {parent}" for parent in commit.parents]
        lines += [f"author {commit.author} {commit.time} +0000"]
        lines += [f"committer {commit.committer} {commit.time} +0000", "", commit.message]
        oid = self._write(b"commit", "\n".join(lines).encode("utf-8"))
        self.flush()
        return oid

    def read_note(self, oid: str) -> str:
        """Return the text of a note."""
        return self._read(oid, b"tag").partition(b"\n\n")[2].decode("utf-8", "replace")

    def write_note(self, text: str, *, author: str, time: int) -> str:
        """Store a note, flush it, and return its id.

        A note is a tag object of the empty tree, with ``text`` as its message.  No tree can hold
        one and no log walks to it, so that it never mixes with a chat's files or history.
        """
        empty = self.write_tree([])
        head = f"object {empty}\ntype tree\ntag note\ntagger {author} {time} +0000\n\n"
        oid = self._write(b"tag", (head + text).encode("utf-8"))
        self.flush()
        return oid

    def flush(self) -> None:
        """Make the names of all objects written so far durable."""
        if self.durable:
            for folder in self._touched:
                _fsync(folder)
            if self._touched:
                _fsync(str(self.path / "objects"))
        self._touched.clear()

    def discard(self, oid: str) -> None:
        """Remove an object that nothing refers to any more, if it lies loose; else gc will.

        Only whoever holds the chat's lock may ask, and only for objects of their own making.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._loose(oid))  # noqa: PTH108 - beside the other calls on such names

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """Keep what is written meanwhile in memory only: to see what would be stored."""
        self._scratch = {}
        try:
            yield
        finally:
            self._scratch = None

    # Refs

    def head(self) -> str:
        """Return the ref that HEAD names, such as ``refs/heads/main``, born or not."""
        target = self._repo.refs.read_ref(Ref(b"HEAD")) or b""
        if not target.startswith(b"ref: refs/heads/"):
            raise BrokenStoreError(
                f"HEAD of {self.path} names no branch",
                hint=f"git -C {self.path} symbolic-ref HEAD refs/heads/main",
            )
        return target[5:].strip().decode("utf-8", "replace")

    def set_head(self, ref: str) -> None:
        """Let HEAD name another ref."""
        self._repo.refs.set_symbolic_ref(Ref(b"HEAD"), Ref(ref.encode()))
        self._sync_folder(self.path)

    def read_ref(self, ref: str) -> str | None:
        """Return the id that a ref is at, or None where there is no such ref.

        Raises:
            BrokenStoreError: when the ref is there and no id, as others' unsynced writes leave it.
        """
        value = self._repo.refs.read_ref(Ref(ref.encode())) or b""
        text = value.decode("utf-8", "replace")
        if is_object_id(text):
            return text
        # A ref of zero bytes reads like none; the branch would seem never to have been.
        if text or (self.path / ref).is_file():
            raise BrokenStoreError(
                f"the ref {ref} of {self.path} is damaged",
                hint=f"git -C {self.path} fsck --lost-found names what it may have been at",
            )
        return None

    def refs(self, prefix: str) -> dict[str, str]:
        """Return the refs below ``prefix`` (which ends in ``/``), sorted, with what they are at."""
        base = prefix.removesuffix("/")
        names = sorted(self._repo.refs.subkeys(Ref(base.encode())))
        found = {}
        for name in names:
            oid = self.read_ref(f"{base}/{name.decode()}")
            if oid is not None:
                found[f"{base}/{name.decode()}"] = oid
        return found

    def swap_ref(self, ref: str, old: str | None, new: str | None) -> bool:
        """Move a ref from ``old`` to ``new`` if it is still there; None stands for no ref.

        Returns False, and changes nothing, when the ref was somewhere else.
        """
        refs, name = self._repo.refs, Ref(ref.encode())
        old_id = None if old is None else ObjectID(old.encode())
        try:
            if new is None:
                moved = old_id is not None and refs.remove_if_equals(name, old_id)
            elif old_id is None:
                moved = refs.add_if_new(name, ObjectID(new.encode()))
            else:
                moved = refs.set_if_equals(name, old_id, ObjectID(new.encode()))
        except FileLocked:
            return False  # somebody is moving it at this moment
        if moved:
            folder = (self.path / ref).parent
            self._sync_folder(folder if folder.is_dir() else self.path / "refs")
        return bool(moved)

    def clear_stale_locks(self) -> None:
        """Remove lock files and temporary objects of processes that died.

        Only whoever holds the chat's lock may ask: then nobody alive owns any of them.
        """
        stale = [*self.path.glob("*.lock"), *self.path.glob("refs/**/*.lock")]
        stale += self.path.glob("objects/??/tmp_obj_*")
        for path in stale:
            path.unlink(missing_ok=True)

    # Differences

    def patch(self, path: str, old: tuple[int, str] | None, new: tuple[int, str] | None) -> bytes:
        """Return git's patch of one path between two (mode, blob id), either of them absent."""
        if old and new and stat.S_IFMT(old[0]) != stat.S_IFMT(new[0]):
            return self.patch(path, old, None) + self.patch(path, None, new)
        out = io.BytesIO()
        name = path.encode("utf-8", "surrogateescape")
        write_object_diff(out, _Blobs(self), _side(name, old), _side(name, new))  # type: ignore[arg-type]
        if not old or not new or old[0] == new[0]:
            return out.getvalue()
        # dulwich writes "old file mode", which git does not understand, and an index line with no
        # hunk below it when nothing but the mode has changed.
        patch = out.getvalue().replace(b" file mode ", b" mode ", 2)
        return patch if old[1] != new[1] else patch.partition(b"index ")[0]

    def _loose(self, oid: str) -> str:
        return f"{self.path}/objects/{oid[:2]}/{oid[2:]}"

    def _read(self, oid: str, kind: bytes) -> bytes:
        if self._scratch and self._scratch.get(oid, (b"",))[0] == kind:
            return self._scratch[oid][1]
        try:
            with self._damage_of(oid):
                number, raw = self._repo.object_store.get_raw(ObjectID(oid.encode()))
        except KeyError:
            raise BrokenStoreError(f"{self.path} lacks the object {oid}") from None
        content = bytes(raw)
        # dulwich believes what it finds under the name.
        if _object_id(_KINDS[number], content, self.object_format) != oid:
            raise BrokenStoreError(f"the object {oid} of {self.path} is damaged: it is another one")
        if _KINDS[number] != kind:
            raise BrokenStoreError(f"the object {oid} of {self.path} is no {kind.decode()}")
        return content

    def _loose_size(self, oid: str) -> int | None:
        try:
            return os.stat(self._loose(oid)).st_size  # noqa: PTH116 - the hottest line of a snapshot
        except FileNotFoundError:
            return None

    def _is_packed(self, oid: str) -> bool:
        with self._damage_of(oid):
            return self._repo.object_store.contains_packed(ObjectID(oid.encode()))

    @contextlib.contextmanager
    def _damage_of(self, oid: str) -> Iterator[None]:
        """Tell dulwich's errors over one object as ours."""
        try:
            yield
        except _DAMAGE as error:
            raise BrokenStoreError(
                f"the object {oid} of {self.path} is damaged: {error}",
                hint=f"git -C {self.path} fsck names everything that is",
            ) from None

    def _write(self, kind: bytes, content: bytes) -> str:
        oid = _object_id(kind, content, self.object_format)
        # An empty file in place of an object is what a power cut leaves of others' unsynced writes.
        if self._loose_size(oid):
            # Whoever wrote it may have been killed before its name was on the disk.
            self._touched.add(os.path.dirname(self._loose(oid)))  # noqa: PTH120
            return oid
        if self._is_packed(oid):
            return oid
        if self._scratch is not None:
            self._scratch[oid] = (kind, content)
            return oid
        target = self._loose(oid)
        folder = os.path.dirname(target)  # noqa: PTH120
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        # git's own prune clears files of this name away when a process died over them.
        descriptor, temporary = tempfile.mkstemp(prefix="tmp_obj_", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(zlib.compress(_header(kind, content) + content, 1))
                file.flush()
                os.fchmod(file.fileno(), 0o444)
                if self.durable:
                    os.fsync(file.fileno())
            os.rename(temporary, target)  # noqa: PTH104
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise
        self._touched.add(folder)
        return oid

    def _sync_folder(self, folder: Path) -> None:
        if self.durable:
            _fsync(str(folder))


@dataclass(frozen=True, slots=True)
class _Blobs:
    """All that dulwich's patches ask of an object store, with our errors and our scratch."""

    store: GitStore

    def __getitem__(self, oid: ObjectID) -> Blob:
        return Blob.from_string(self.store.read_blob(oid.decode()))


def is_object_id(text: str) -> bool:
    """Tell whether ``text`` is a full object id."""
    return len(text) in _HEX_DIGITS and all(digit in "0123456789abcdef" for digit in text)


def is_binary_content(content: bytes) -> bool:
    """Tell whether git would call the content binary."""
    return bool(is_binary(content))


def blob_id(content: bytes, object_format: str) -> str:
    """Return the id that a blob of this content has, without storing it."""
    return _object_id(b"blob", content, object_format)


def create_work_repository(path: Path) -> None:
    """Make a repository with a working tree at ``path``, on branch main, with nothing in it yet."""
    Repo.init(str(path), default_branch=b"main").close()


def _header(kind: bytes, content: bytes) -> bytes:
    return kind + b" %d\0" % len(content)


def _object_id(kind: bytes, content: bytes, object_format: str) -> str:
    hasher = hashlib.new(object_format, _header(kind, content), usedforsecurity=False)
    hasher.update(content)
    return hasher.hexdigest()


def _side(
    name: bytes, state: tuple[int, str] | None
) -> tuple[bytes | None, int | None, ObjectID | None]:
    return (None, None, None) if state is None else (name, state[0], ObjectID(state[1].encode()))


def _fsync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
