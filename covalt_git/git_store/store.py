"""A bare store: objects, and the refs that name them by compare-and-swap only.

Dulwich's own ``WorkTree.commit``, ``porcelain`` and ``add_object`` are not used: they lose commits
under concurrency and leave locks behind a killed process.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import stat
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
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

from covalt_git.git_store import packing
from covalt_git.git_store.checking import why_bad_commit, why_bad_tree
from covalt_git.git_store.file_patches import with_modes_as_git_says
from covalt_git.git_store.graph import reachable
from covalt_git.git_store.new_store import CONFIGS, make_store
from covalt_git.git_store.object_folder import ObjectFolder
from covalt_git.git_store.object_reader import ObjectReader, ObjectStore
from covalt_git.git_store.objects import (
    ID_LENGTHS,
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
    tree_differences,
)
from covalt_git.git_store.old_log import DECIDED, OldLog, Record, this_boot
from covalt_git.git_store.ref_files import (
    locks_of,
    names_below,
    new_head,
    put_id,
    read_id,
    read_small,
    remove_id,
    swap_id,
)
from covalt_git.git_store.sweeping import Usage, sweep, usage
from covalt_git.names import new_id
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator

    from dulwich.object_store import DiskObjectStore

    from covalt_git.git_store.ref_files import NewHead

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

_PARTS = ("HEAD", "objects", "refs")


def _nobody(_: str) -> None:
    """Be told nothing."""


@dataclass(slots=True)
class GitStore(ObjectReader):
    """One bare repository on disk.  Not for use by several threads at once; close it after use.

    ``durable``: writes are fsynced before they return.  ``made_as`` is the hash of a store that the
    caller has just created; the hash of another store is read from its configuration.
    """

    path: Path
    durable: bool = True
    made_as: str | None = None
    _objects: ObjectFolder = field(init=False, repr=False)
    _opened: Repo | None = field(init=False, repr=False, default=None)
    objects: DiskObjectStore = field(init=False, repr=False)
    _at: str = field(init=False, repr=False)
    _old_log: OldLog = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Open the repository.

        Raises:
            BrokenStoreError: when there is none at the path.
        """
        self._at = str(self.path)
        self._old_log = OldLog(self.path)
        made_as = self.made_as
        known = (made_as, ID_LENGTHS[made_as]) if made_as else _format_of(self.path)
        if known is None:
            known = self._repo.object_format.name, self._repo.object_format.oid_length
        self._objects = ObjectFolder(f"{self._at}/objects", *known, durable=self.durable)
        self.objects = ObjectStore(f"{self._at}/objects", known[0])

    @property
    def _repo(self) -> Repo:
        """The store as dulwich sees it, which takes longer to open than most of what is done."""
        if self._opened is None:
            try:
                self._opened = Repo(str(self.path))
            except (NotGitRepository, OSError, ValueError) as error:
                raise BrokenStoreError(f"{self.path} is not a git store: {error}") from None
            except (UnsupportedVersion, UnsupportedExtension) as error:
                raise BrokenStoreError(
                    f"{self.path} is of a newer kind of git store: {error}",
                    hint="pip install --upgrade dulwich",
                ) from None
        return self._opened

    @classmethod
    def create(cls, path: Path, *, object_format: str = "sha1", durable: bool = True) -> Self:
        """Make an empty bare repository at ``path``: see :func:`make_store`."""
        make_store(str(path), object_format)
        if durable:
            for made in ("config", "HEAD", "objects", "refs", "."):
                fsync(f"{path}/{made}")
        return cls(path, durable=durable)

    def close(self) -> None:
        """Let go of open packs, and of what was never flushed."""
        self._objects.close()
        if self._opened is not None:
            self._opened.close()
        self.objects.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def object_format(self) -> str:
        """Git's hash here: ``sha1`` or ``sha256``."""
        return self._objects.object_format

    # Objects

    def has(self, oid: str) -> bool:
        """Tell whether an object is in the store; if so its name is durable after a flush."""
        return self._objects.has(oid)

    def can_read(self, oid: str) -> bool:
        """Tell whether an object is in the store, for somebody who stores nothing that leads to it."""
        return self._objects.can_read(oid)

    def read_object(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object, whatever it is."""
        try:
            found = self._objects.read(oid) if is_object_id(oid) else None
            found = found or self._read_otherwise(oid)
            # Whoever reads a store believes what is found under the name.
            is_that_one = object_id(*found, self._objects.object_format) == oid
        except KeyError:
            raise BrokenStoreError(f"{self.path} lacks the object {oid}") from None
        except _DAMAGE as error:
            raise self._damaged(oid, error) from None
        if not is_that_one:
            raise BrokenStoreError(f"the object {oid} of {self.path} is damaged: it is another one")
        return found

    def read_blob(self, oid: str) -> bytes:
        """Return a blob's content."""
        return self._read(oid, b"blob")

    def read_tree(self, oid: str) -> list[TreeEntry]:
        """Return a tree's entries in git's order."""
        content = self._read(oid, b"tree")
        try:
            return decode_tree(content, self._objects.id_length)
        except _DAMAGE as error:
            raise self._damaged(oid, error) from None

    def tree_differences(
        self, old: str | None, new: str | None, *, spelled: bytes | None = None
    ) -> list[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
        """Return the names that two trees do not share, with what each has; None is the empty tree.

        ``spelled`` is the content of the old one, where that is at hand.
        """
        before = spelled
        if before is None:
            before = self._read(old, b"tree") if old else b""
        after = self._read(new, b"tree") if new else b""
        try:
            return list(tree_differences(before, after, self._objects.id_length))
        except _DAMAGE as error:
            raise self._damaged(f"{old} or {new}", error) from None

    def read_commit(self, oid: str) -> CommitObject:
        """Return a commit."""
        content = self._read(oid, b"commit")
        try:
            return decode_commit(content)
        except _DAMAGE as error:
            raise self._damaged(oid, error) from None

    def blob_size(self, oid: str) -> int:
        """Return how many bytes a blob has, without reading all of it."""
        with self._damage_of(oid):
            size = self._objects.size(oid)
        return len(self.read_blob(oid)) if size is None else size

    def check_tree(self, oid: str) -> str:
        """Return what ``git fsck --strict`` would say of a tree apart from its names, or nothing."""
        return why_bad_tree(self._read(oid, b"tree"), self._objects.id_length)

    def check_commit(self, oid: str) -> str:
        """Return what ``git fsck --strict`` would say of a commit by itself, or nothing."""
        return why_bad_commit(self._read(oid, b"commit"), self._objects.id_length)

    def write_blob(self, content: bytes) -> str:
        """Store a blob and return its id; durable after :meth:`flush`."""
        return self._objects.write(b"blob", content)

    def write_deflated_blobs(self, blobs: Iterable[tuple[str, int, bytes]]) -> None:
        """Store blobs whose ids are known, each given as its size and a zlib stream of that."""
        self._objects.write_deflated_blobs(blobs)

    def write_tree(self, entries: Iterable[TreeEntry]) -> str:
        """Store a tree and return its id; durable after :meth:`flush`."""
        return self._objects.write(b"tree", encode_tree(entries))

    def write_raw_tree(self, content: bytes) -> str:
        """Do what :meth:`write_tree` does, with a tree as :func:`encode_raw_tree` returns it."""
        return self._objects.write(b"tree", content)

    def write_commit(self, commit: CommitObject) -> str:
        """Store a commit and return its id; durable after :meth:`flush`."""
        return self._objects.write(b"commit", encode_commit(commit))

    def read_note(self, oid: str) -> str:
        """Return the text of a note, or of a blob."""
        kind, content = self.read_object(oid)
        text = content if kind == b"blob" else self._read(oid, b"tag").partition(b"\n\n")[2]
        return text.decode("utf-8", "replace")

    def write_note(self, text: str, *, of: str | None, author: str, time: int) -> str:
        """Store a note and return its id; durable after :meth:`flush`.

        A note is a tag object ``of`` another one, with ``text`` as its message; where there is none,
        or it cannot be read, of the empty tree.  No tree can hold one and no log walks to it, so that
        it never mixes with a chat's files or history.
        """
        found = None if of is None else self._find(of)
        target, kind = (self.write_tree([]), b"tree") if found is None else (of, found[0])
        head = f"object {target}\ntype {kind.decode()}\ntag note\n"
        head += f"tagger {author} {time} +0000\n\n"
        return self._objects.write_loose(b"tag", f"{head}{text}".encode())

    def refresh(self) -> None:
        """Look for packs that others have made or removed."""
        self._objects.refresh()

    def flush(self) -> None:
        """Make everything durable that was written so far."""
        self._objects.flush()

    @property
    def has_unstored(self) -> bool:
        """Whether something was written that no other process can read yet."""
        return self._objects.has_pending

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
                self.pack_up(seconds=seconds)

    def reachable(self, tips: Iterable[str]) -> set[str]:
        """Return the ids of all objects that ``tips`` reach, whatever these are.

        Raises:
            BrokenStoreError: when something that they reach is damaged, or not there.
        """
        return reachable(self, tips)

    def usage(self) -> Usage:
        """Return what the objects take."""
        return usage(self._objects)

    def sweep(
        self, live: Container[str], *, until: float, told: Callable[[str], None] = _nobody
    ) -> None:
        """Remove objects that are not ``live``, of files last written before ``until``.

        That is in seconds since 1970; ``told`` hears what takes its time.  Only whoever holds the
        chat's lock may, who knows what refs reach.
        """
        Path(self._at, "wal.settled").unlink(missing_ok=True)
        sweep(self._objects, live, until=until, told=told)
        if self.durable:
            self._objects.flush_names()

    def discard(self, oid: str) -> None:
        """Remove an object that nothing refers to any more, if it lies loose; else gc will.

        Only whoever holds the chat's lock may ask, and only for objects of their own making.
        """
        self._objects.discard(oid)

    def together(self) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """Gather what is written meanwhile, to be stored in one go by the next flush.

        Until then this store alone can read it, and if it is closed before, nothing is stored.
        Yields what forgets what was written meanwhile, as long as that is little.
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
        target = read_small(f"{self._at}/HEAD")
        if not target.startswith(b"ref: refs/heads/"):
            raise BrokenStoreError(
                f"HEAD of {self.path} names no branch",
                hint=f"git -C {self.path} symbolic-ref HEAD refs/heads/main",
            )
        return target[5:].partition(b"\n")[0].strip().decode("utf-8", "replace")

    def set_head(self, ref: str) -> None:
        """Let HEAD name another ref.

        Raises:
            BrokenStoreError: when somebody who does not hold the chat's lock has locked HEAD.
        """
        with self.new_head(ref) as head:
            if self.durable:
                fsync(head.lock)
            head.put()
        self._sync_folder(self.path)

    def new_head(self, ref: str) -> NewHead:
        """Make a HEAD that names another ref, and is to be put when that is due.

        It is for whoever flushes it with others: its file has to be durable before it is put, and
        the names in the store after that.

        Raises:
            BrokenStoreError: when somebody who does not hold the chat's lock has locked HEAD.
        """
        try:
            return new_head(self._at, ref)
        except FileExistsError:
            raise BrokenStoreError(
                f"HEAD of {self.path} is locked",
                hint=f"if no git command works there: rm {self.path / 'HEAD.lock'}",
            ) from None

    def read_ref(self, ref: str) -> str | None:
        """Return the id that a ref is at, or None where there is no such ref.

        Raises:
            BrokenStoreError: when the ref is there and no id, as others' unsynced writes leave it.
        """
        plain = read_id(self._at, ref)
        if plain is not None:
            return plain
        if not self._is_known(ref):
            return None
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
        found = {name: self.read_ref(name) for name in self.ref_names(prefix)}
        return {name: oid for name, oid in found.items() if oid is not None}

    def ref_names(self, prefix: str) -> list[str]:
        """Return the names of the refs below ``prefix`` (which ends in ``/``), sorted."""
        packed = self._packed_refs()
        if not packed and not os.access(f"{self._at}/{prefix}", os.F_OK):
            return []
        names = set(names_below(self._at, prefix.removesuffix("/")))
        names.update(name for name in map(bytes.decode, packed) if name.startswith(prefix))
        return sorted(names)

    def rivals(self, prefix: str, name: str) -> list[str]:
        """Return the names below ``prefix`` that git cannot have beside another, itself among them."""
        above = itertools.accumulate(name.split("/"), "{}/{}".format)
        known = filter(self._is_known, map(prefix.__add__, above))
        found = [ref.removeprefix(prefix) for ref in known if self.read_ref(ref)]
        return found + [ref.removeprefix(prefix) for ref in self.ref_names(f"{prefix}{name}/")]

    def swap_ref(self, ref: str, old: str | None, new: str | None) -> bool:
        """Move a ref from ``old`` to ``new`` if it is still there; None stands for no ref.

        Everything that was written is flushed before it moves.  Returns False, and moves nothing,
        when the ref was somewhere else.
        """
        moved: bool | None = None
        if new is not None:
            first = self._store_before
            moved = swap_id(self._at, ref, old, new, packed=self._packed_refs, first=first)
        if moved is None:
            self.flush()
            moved = self._swap_otherwise(Ref(ref.encode()), old, new)
        if moved:
            self._sync_above(ref, whole=old is None or new is None)
        return moved

    def _store_before(self, lock: int) -> None:
        """Store what a ref will reach; ``lock`` is open, and will be the ref."""
        self._objects.put()
        if self.durable:
            os.fsync(
                lock
            )  # before the names: a file system with a journal then writes once for both
        self._objects.sync()

    def has_old_log(self) -> bool:
        """Return whether version 0.1 left a log here that :meth:`catch_up` has to replay."""
        return self._old_log.exists()

    def catch_up(self, *, aside: str) -> None:
        """Clear stale locks, and store again what the log of version 0.1 has, if there is one.

        A ref that has been moved or removed since stays as it is; where the name of a lost one is in
        use, a ref below ``aside`` gets its commit.  Only the holder of the chat's lock may call it.

        Raises:
            BrokenStoreError: when something cannot be stored again; then the log is kept.
        """
        has_log = self.has_old_log()
        boot, recorded = self._old_log.read() if has_log else ("", [])
        records = [] if boot == this_boot() else recorded
        if records:
            self._old_log.store_files(records)
        if records and boot != DECIDED:
            last = {record.ref: record.at for record in records}
            left = {ref for ref, at in last.items() if self._is_changed(ref, at)}
            records = [record for record in records if record.ref not in left]
            self._old_log.decide(records)
        self.clear_stale_locks()
        if records:
            self._objects.reopen()
        for ref in dict.fromkeys(record.ref for record in records):
            self._put_ref_back(ref, [one for one in records if one.ref == ref], aside)
        if has_log:
            self._old_log.put_away(recorded)

    def _is_changed(self, ref: str, at: int) -> bool:
        """Tell whether somebody has moved or removed a ref after the log says that we moved it.

        What we put into its place was written before that, and a name that went missing in the cut
        was the first that came into its folder afterwards.
        """
        path = f"{self._at}/{ref}"
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = os.lstat(path)
            whole = stat.S_ISDIR(found.st_mode) or read_id(self._at, ref) is not None
            return whole and found.st_mtime_ns > at
        above = "packed-refs" if ref.encode() in self._packed_refs() else ref.rpartition("/")[0]
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return os.stat(f"{self.path}/{above}").st_mtime_ns > at  # noqa: PTH116
        return False

    def _put_ref_back(self, ref: str, records: list[Record], aside: str) -> None:
        """Lead a ref to where it was last, or one below ``aside`` where its name is taken."""
        for record in records:
            if record.files and record.new and not self.can_read(record.new):
                raise BrokenStoreError(f"the object {record.new} of {self.path} cannot be put back")
        at = read_id(self._at, ref)
        if at is None and not os.path.lexists(f"{self._at}/{ref}"):
            at = self.read_ref(ref)  # it may be packed
        news = [record.new for record in records if record.new is None or self.can_read(record.new)]
        if not news:  # it was removed since, with all that it was at
            if at is not None and not self.can_read(at):
                self._swap_otherwise(Ref(ref.encode()), at, None)
        elif news[-1] is None:
            self._swap_otherwise(Ref(ref.encode()), at, None)
        elif at != news[-1]:
            try:
                put_id(self._at, ref, news[-1])
            except (FileExistsError, IsADirectoryError, NotADirectoryError):
                name = ref.removeprefix("refs/heads/")
                put_id(self._at, f"{aside}{new_id()}/{name}", news[-1])

    def forget_ref(self, ref: str, oid: str) -> bool:
        """Remove a plain ref that is at ``oid``; return whether it was.

        It may be there again after a power cut: this is for what whoever finds it removes again.
        """
        removed = remove_id(self._at, ref, oid)
        return self.swap_ref(ref, oid, None) if removed is None else removed

    def _sync_above(self, ref: str, *, whole: bool) -> None:
        """Make a moved ref's name durable; ``whole``: with folders that came or went with it."""
        above = ref.rpartition("/")[0]
        if not whole:
            self._sync_folder(f"{self.path}/{above}")
            return
        folder = self.path / above
        while not folder.is_dir():
            folder = folder.parent
        self._sync_folder(folder)
        while folder.name != "refs":
            folder = folder.parent
            self._sync_folder(folder)

    def _is_known(self, ref: str) -> bool:
        """Tell whether a ref may be there: it is packed, or something has its name."""
        return os.access(f"{self._at}/{ref}", os.F_OK) or ref.encode() in self._packed_refs()

    def _packed_refs(self) -> Collection[bytes]:
        """Return the names of the refs that have no file of their own."""
        if not os.access(f"{self._at}/packed-refs", os.F_OK):
            return ()
        return self._repo.refs.get_packed_refs().keys()

    def _swap_otherwise(self, name: Ref, old: str | None, new: str | None) -> bool:
        """Move a ref that is packed, symbolic or odd, or remove any."""
        refs = self._repo.refs
        old_id = None if old is None else ObjectID(old.encode())
        try:
            if new is None:
                return old_id is not None and bool(refs.remove_if_equals(name, old_id))
            if old_id is None:
                return bool(refs.add_if_new(name, ObjectID(new.encode())))
            return bool(refs.set_if_equals(name, old_id, ObjectID(new.encode())))
        except FileLocked:
            return False  # somebody is moving it at this moment

    def clear_stale_locks(self) -> None:
        """Remove lock files and temporary objects of processes that died.

        Only whoever holds the chat's lock may ask: then nobody alive owns any of them.
        """
        self._objects.clear_temporary()
        for path in locks_of(str(self.path)):
            os.unlink(path)  # noqa: PTH108 - it is a string

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
        return with_modes_as_git_says(out.getvalue(), same_content=old[1] == new[1])

    def _read(self, oid: str, kind: bytes) -> bytes:
        found, content = self.read_object(oid)
        if found != kind:
            raise BrokenStoreError(f"the object {oid} of {self.path} is no {kind.decode()}")
        return content

    def _find(self, oid: str) -> tuple[bytes, bytes] | None:
        """Return the kind and content of an object, or None where it cannot be had."""
        with contextlib.suppress(BrokenStoreError):
            return self.read_object(oid)
        return None

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
            raise self._damaged(oid, error) from None

    def _damaged(self, oid: str, error: Exception) -> BrokenStoreError:
        return BrokenStoreError(
            f"the object {oid} of {self.path} is damaged: {error}",
            hint=f"git -C {self.path} fsck names everything that is",
        )

    def _sync_folder(self, folder: Path | str) -> None:
        if self.durable:
            fsync(folder)


@dataclass(frozen=True, slots=True)
class _Blobs:
    """All that dulwich's patches ask of an object store, with our errors and our scratch."""

    store: GitStore

    def __getitem__(self, oid: ObjectID) -> Blob:
        return Blob.from_string(self.store.read_blob(oid.decode()))


def _format_of(path: Path) -> tuple[str, int] | None:
    """Return the hash of a store that is as it was made, and the bytes of an id; None of another."""
    config = read_small(f"{path}/config").decode("utf-8", "replace")
    for object_format, made in CONFIGS.items():
        if config == made and all(os.access(f"{path}/{part}", os.F_OK) for part in _PARTS):
            return object_format, ID_LENGTHS[object_format]
    return None


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
