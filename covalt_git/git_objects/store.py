"""A bare store: objects, and the refs that name them by compare-and-swap only.

Dulwich's own ``WorkTree.commit``, ``porcelain`` and ``add_object`` are not used: they lose commits
under concurrency and leave locks behind a killed process.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
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
from dulwich.objects import Blob, ObjectID
from dulwich.patch import is_binary, write_object_diff
from dulwich.refs import Ref
from dulwich.repo import Repo, UnsupportedExtension, UnsupportedVersion

from covalt_git.git_objects import packing
from covalt_git.git_objects.object_folder import ObjectFolder, sync_folder
from covalt_git.git_objects.objects import (
    KINDS,
    BrokenStoreError,
    CommitObject,
    DamagedObjectError,
    TreeEntry,
    decode_commit,
    decode_tree,
    encode_commit,
    encode_tree,
    is_object_id,
    object_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# What dulwich raises over objects, packs and their indexes that are not as git wrote them.
_DAMAGE = (
    ApplyDeltaError,
    AssertionError,
    ChecksumMismatch,
    DamagedObjectError,
    FileFormatException,
    OSError,
    OverflowError,
    ValueError,
    struct.error,
    zlib.error,
)
_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = true
\thooksPath = /dev/null
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[receive]
\tfsckObjects = true
"""
_EXTENSION = """\
[extensions]
\tobjectFormat = {format}
"""


@dataclass(slots=True)
class GitStore:
    """One bare repository on disk.  Not for use by several threads at once; close it after use.

    ``durable`` tells whether writes are on the disk before they return.
    """

    path: Path
    durable: bool = True
    _repo: Repo = field(init=False, repr=False)
    _objects: ObjectFolder = field(init=False, repr=False)

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
        self._objects = ObjectFolder(
            self.path / "objects",
            self.object_format,
            self._repo.object_format.oid_length,
            durable=self.durable,
        )

    @classmethod
    def create(cls, path: Path, *, object_format: str = "sha1", durable: bool = True) -> Self:
        """Make an empty bare repository at ``path``, its HEAD on the unborn branch main.

        Hooks are switched off in its configuration: nothing of a chat is ever run by git.
        """
        for folder in (path, path / "objects", path / "refs", path / "refs" / "heads"):
            folder.mkdir()
        extended = object_format != "sha1"
        config = _CONFIG.format(version=int(extended))
        config += _EXTENSION.format(format=object_format) if extended else ""
        (path / "config").write_text(config)
        (path / "HEAD").write_text("ref: refs/heads/main\n")
        if durable:
            for made in ("config", "HEAD", "objects", "refs/heads", "refs", "."):
                sync_folder(f"{path}/{made}")
        return cls(path, durable=durable)

    def close(self) -> None:
        """Let go of open packs, and of what was never flushed."""
        self._objects.close()
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

    def has(self, oid: str) -> bool:
        """Tell whether an object is in the store; if so its name is durable after a flush."""
        return self._objects.has(oid)

    def read_blob(self, oid: str) -> bytes:
        """Return a blob's content."""
        return self._read(oid, b"blob")

    def read_tree(self, oid: str) -> list[TreeEntry]:
        """Return a tree's entries in git's order."""
        content = self._read(oid, b"tree")
        with self._damage_of(oid):
            return decode_tree(content, self._repo.object_format.oid_length)

    def read_commit(self, oid: str) -> CommitObject:
        """Return a commit."""
        content = self._read(oid, b"commit")
        with self._damage_of(oid):
            return decode_commit(content)

    def write_blob(self, content: bytes) -> str:
        """Store a blob and return its id; durable after :meth:`flush`."""
        return self._objects.write(b"blob", content)

    def write_tree(self, entries: Iterable[TreeEntry]) -> str:
        """Store a tree and return its id; durable after :meth:`flush`."""
        return self._objects.write(b"tree", encode_tree(entries))

    def write_commit(self, commit: CommitObject) -> str:
        """Store a commit, flush everything before it, and return its id."""
        oid = self._objects.write(b"commit", encode_commit(commit))
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
        oid = self._objects.write_loose(b"tag", (head + text).encode("utf-8"))
        self.flush()
        return oid

    def flush(self) -> None:
        """Make everything durable that was written so far."""
        self._objects.flush()

    def pack_up(self, *, seconds: float | None = None) -> None:
        """Put packs and loose objects into one pack: all of them, or small ones for some ``seconds``.

        Only whoever holds the chat's lock may.
        """
        packing.pack_up(self._objects, seconds=seconds)

    def pack_up_if_due(self, *, seconds: float) -> None:
        """Pack up for some ``seconds`` where there are many packs or loose objects.

        Nothing depends on it: what stands in its way is left to the next time.
        """
        with contextlib.suppress(OSError, DamagedObjectError):
            if packing.is_due(self._objects):
                packing.pack_up(self._objects, seconds=seconds)

    def discard(self, oid: str) -> None:
        """Remove an object that nothing refers to any more, if it lies loose; else gc will.

        Only whoever holds the chat's lock may ask, and only for objects of their own making.
        """
        self._objects.discard(oid)

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Gather what is written meanwhile, to be stored in one go by the next flush.

        Until then this store alone can read it, and if it is closed before, nothing is stored.
        """
        return self._objects.together()

    @property
    def in_scratch(self) -> bool:
        """Whether what is written is kept in memory only."""
        return self._objects.in_scratch

    def scratch(self) -> contextlib.AbstractContextManager[None]:
        """Keep what is written meanwhile in memory only: to see what would be stored."""
        return self._objects.scratch()

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
        self._objects.clear_temporary()
        self._objects.refresh()
        for path in self.path.glob("*.lock"):
            path.unlink(missing_ok=True)
        for folder, _, names in os.walk(self.path / "refs"):
            for name in names:
                if name.endswith(".lock"):
                    os.unlink(f"{folder}/{name}")  # noqa: PTH108 - os.walk gives strings

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

    def _read(self, oid: str, kind: bytes) -> bytes:
        with self._damage_of(oid):
            found = self._objects.read(oid) if is_object_id(oid) else None
            try:
                found = found or self._read_otherwise(oid)
            except KeyError:
                raise BrokenStoreError(f"{self.path} lacks the object {oid}") from None
            content = found[1]
            # Whoever reads a store believes what is found under the name.
            if object_id(*found, self.object_format) != oid:
                raise BrokenStoreError(
                    f"the object {oid} of {self.path} is damaged: it is another one"
                )
        if found[0] != kind:
            raise BrokenStoreError(f"the object {oid} of {self.path} is no {kind.decode()}")
        return content

    def _read_otherwise(self, oid: str) -> tuple[bytes, bytes]:
        """Read what lies where we never put it, such as in the store that this one borrows from."""
        number, raw = self._repo.object_store.get_raw(ObjectID(oid.encode()))
        return KINDS[number], bytes(raw)

    @contextlib.contextmanager
    def _damage_of(self, oid: str) -> Iterator[None]:
        """Tell errors over one object as ours."""
        try:
            yield
        except _DAMAGE as error:
            raise BrokenStoreError(
                f"the object {oid} of {self.path} is damaged: {error}",
                hint=f"git -C {self.path} fsck names everything that is",
            ) from None

    def _sync_folder(self, folder: Path) -> None:
        if self.durable:
            sync_folder(str(folder))


@dataclass(frozen=True, slots=True)
class _Blobs:
    """All that dulwich's patches ask of an object store, with our errors and our scratch."""

    store: GitStore

    def __getitem__(self, oid: ObjectID) -> Blob:
        return Blob.from_string(self.store.read_blob(oid.decode()))


def is_binary_content(content: bytes) -> bool:
    """Tell whether git would call the content binary."""
    return bool(is_binary(content))


def create_work_repository(path: Path) -> None:
    """Make a repository with a working tree at ``path``, on branch main, with nothing in it yet."""
    Repo.init(str(path), default_branch=b"main").close()


def _side(
    name: bytes, state: tuple[int, str] | None
) -> tuple[bytes | None, int | None, ObjectID | None]:
    return (None, None, None) if state is None else (name, state[0], ObjectID(state[1].encode()))
