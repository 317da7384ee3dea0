"""Bare git store: new objects become durable together, and refs move by compare-and-swap.

New objects are pending, and readable through this object only, until :meth:`GitStore.flush` or
:meth:`GitStore.swap_ref` writes them as one durable pack.  So a ref is never durable before all that it
reaches, and stock git finds a valid store at any time (docs/reference/chat-store.md).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from typing import TYPE_CHECKING, Self

from dulwich.config import ConfigFile
from dulwich.file import FileLocked
from dulwich.object_format import OBJECT_FORMATS
from dulwich.objects import ObjectID
from dulwich.refs import DiskRefsContainer, Ref

from covalt_git.git_store.object_reader import ObjectReader
from covalt_git.git_store.objects import (
    BrokenStoreError,
    CommitObject,
    TreeEntry,
    encode_commit,
    encode_tree,
    is_object_id,
    object_id,
)
from covalt_git.git_store.packs import TEMPORARY, PackFile, new_entry, write_pack
from covalt_git.system.atomic_write import fsync
from covalt_git.system.file_cache import FileCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FORMAT = 2
"""Version of the format of chats, ``covalt.format`` in the store's ``config``; 1 if it is missing."""

_MOST_PENDING = 64 << 20
"""Bytes of pending content at which they are flushed."""

# hooksPath is set, because the user's own core.hooksPath would replace the hook below.  gc.auto is 0, because
# git's gc does not take the chat's lock.
_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tfilemode = true
\tbare = true
\thooksPath = hooks
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[receive]
\tfsckObjects = true
[covalt]
\tformat = {format}
"""
# Git does not take the chat's lock: a push into this folder was accepted, and the next command took the files
# of the commit before it for the user's edit and undid it (test_push_into_the_folder_of_a_store_is_refused).
_PRE_RECEIVE = """\
#!/bin/sh
chat=$(basename "$(dirname "$PWD")")
echo "This is the store of the chat $chat, to which only covalt-git writes." >&2
echo "hint: push to the server: git push http://x:TOKEN@HOST:PORT/git/$chat" >&2
exit 1
"""
_FORMATS = FileCache(most=1024)
"""Object formats of stores by their ``config``, which each call would parse again."""

# Another file system, one without hard links (vfat, some network shares), or a file with as many as it can have.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
_READABLE_EXTENSIONS = {b"noop", b"preciousobjects", b"worktreeconfig", b"relativeworktrees"}
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


class GitStore(ObjectReader):
    """One bare repository on disk, for use by one thread.  Close it after use.

    Args:
        path: the folder of the repository.
        durable: whether objects are fsynced before a ref reaches them.

    Raises:
        BrokenStoreError: if there is no repository, or its format is newer than this version supports.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        super().__init__(path / "objects", _read_format(path))
        self.durable = durable
        self._refs = DiskRefsContainer(path)
        self._pending_bytes = 0
        self._in_scratch = False

    @classmethod
    def create(cls, path: Path, *, object_format: str = "sha1", durable: bool = True) -> Self:
        """Create an empty bare repository at ``path``, with HEAD on the unborn branch main.

        The caller fsyncs the folder after renaming it to its final name.
        """
        # Plain files, without locks and fsyncs: the chat's folder has no name yet under which another process
        # could find it.
        for folder in ("", "objects", "objects/pack", "hooks", "refs", "refs/heads"):
            (path / folder).mkdir()
        is_plain = object_format == "sha1"
        config = _CONFIG.format(version=0 if is_plain else 1, format=FORMAT)
        (path / "config").write_text(config if is_plain else config + _SHA256, encoding="utf-8")
        (path / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        hook = path / "hooks" / "pre-receive"
        hook.write_text(_PRE_RECEIVE, encoding="utf-8")
        hook.chmod(0o755)
        return cls(path, durable=durable)

    def close(self) -> None:
        """Close open packs, and discard pending objects."""
        self.abandon()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Objects

    def write_blob(self, content: bytes) -> str:
        """Store a blob and return its id; pending until a flush."""
        return self._write(b"blob", content)

    def write_tree(self, entries: Iterable[TreeEntry]) -> str:
        """Store a tree and return its id; pending until a flush."""
        return self._write(b"tree", encode_tree(entries))

    def write_commit(self, commit: CommitObject) -> str:
        """Store a commit and return its id; pending until a flush."""
        return self._write(b"commit", encode_commit(commit, self.object_format))

    def _write(self, kind: bytes, content: bytes) -> str:
        oid = object_id(kind, content, self.object_format)
        if oid not in self._pending and not self.find_packed(oid):
            self._pending[oid] = kind, content
            self._pending_bytes += len(content)
            if self._pending_bytes > _MOST_PENDING and not self._in_scratch:
                self.flush()  # into a separate pack, which no ref reaches yet
        return oid

    def flush(self) -> None:
        """Write one pack of all pending objects, fsynced in a durable store."""
        if not self._pending or self._in_scratch:
            return
        entries = (new_entry(oid, *row) for oid, row in self._pending.items())
        count = len(self._pending)
        path = write_pack(self.pack_folder, self.format, entries, count, durable=self.durable)
        # After a flush that failed late, the same pack may have its name, and be known, already.
        others = (pack for pack in self._packs if pack.path != path)
        self._packs = [PackFile(path, self.format), *others]
        self.abandon()

    def abandon(self) -> None:
        """Discard the pending objects."""
        self._pending, self._pending_bytes = {}, 0

    @contextlib.contextmanager
    def scratch(self) -> Iterator[None]:
        """Discard the objects that the block writes, at its end; for computing a tree without storing it."""
        pending, size = self._pending, self._pending_bytes
        self._pending, self._in_scratch = dict(pending), True
        try:
            yield
        finally:
            self._pending, self._pending_bytes, self._in_scratch = pending, size, False

    def link_objects(self, source: GitStore) -> None:
        """Hard-link all packs and loose objects of another store, so that they exist as long as one store has them.

        The caller holds the lock of the source's chat, and fsyncs this store.

        Raises:
            BrokenStoreError: if the source has alternates, that is, borrows objects from a third store.
        """
        if source.alternates:
            raise BrokenStoreError(
                f"{source.path} borrows objects from another store",
                hint=f"git -C {source.path} repack -a -d, then rm {source.folder}/info/alternates",
            )
        # The indexes first, as when a pack is written: git must not find a pack without its index.
        packs = [pack.path for pack in source.packs]
        indexes = [pack.with_suffix(".idx") for pack in packs]
        for path in [*indexes, *packs, *source.loose_objects().values()]:
            copy = self.folder / path.relative_to(source.folder)
            copy.parent.mkdir(exist_ok=True)
            try:
                os.link(path, copy)
            except OSError as error:
                if error.errno not in _CANNOT_LINK:
                    raise
                shutil.copy(path, copy)
        self.refresh()

    # Refs

    def head(self) -> str:
        """Return the ref that HEAD points at, such as ``refs/heads/main``, which need not exist."""
        target = b""
        with contextlib.suppress(OSError):
            target = (self.path / "HEAD").read_bytes()
        if not target.startswith(b"ref: refs/heads/"):
            raise BrokenStoreError(
                f"HEAD of {self.path} does not point at a branch",
                hint=f"git -C {self.path} symbolic-ref HEAD refs/heads/main",
            )
        return target[5:].partition(b"\n")[0].strip().decode("utf-8", "replace")

    def set_head(self, ref: str) -> None:
        """Point HEAD at another ref.

        Raises:
            BrokenStoreError: when a process without the chat's lock has locked HEAD.
        """
        try:
            self._refs.set_symbolic_ref(Ref(b"HEAD"), Ref(ref.encode()))
        except FileLocked:
            raise BrokenStoreError(
                f"HEAD of {self.path} is locked",
                hint=f"if no git command works there: rm {self.path / 'HEAD.lock'}",
            ) from None
        self._fsync(self.path)

    def read_ref(self, ref: str) -> str | None:
        """Return the object id of a ref; None if the ref does not exist.

        Raises:
            BrokenStoreError: if the ref's file is empty, which a power cut can cause after a write without fsync.
        """
        name = Ref(ref.encode())
        # Loose first: git moves a loose ref and leaves the packed one behind.
        content = self._refs.read_loose_ref(name)
        # An empty file is not an absent ref: a writer would begin the branch anew
        # (test_damaged_branch_is_named_and_never_begun_anew).  It is not read again, because another process
        # may be creating it.
        if not content:
            content = self._refs.get_packed_refs().get(name, content)
        if content is None:
            return None
        text = content.decode("utf-8", "replace")
        if not is_object_id(text):
            raise BrokenStoreError(
                f"the ref {ref} of {self.path} is damaged",
                hint=f"git -C {self.path} fsck --lost-found lists commits that it may have pointed to",
            )
        return text

    def refs(self, prefix: str) -> dict[str, str]:
        """Return the refs below ``prefix`` (which ends in ``/``), sorted, with their object ids."""
        # Another process may delete a ref between the listing and its reading.
        oids = {name: self.read_ref(name) for name in self.ref_names(prefix)}
        return {name: oid for name, oid in oids.items() if oid is not None}

    def ref_names(self, prefix: str) -> list[str]:
        """Return the names of the refs below ``prefix`` (which ends in ``/``), sorted."""
        names = self._refs.subkeys(Ref(prefix.encode()))
        return sorted(prefix + name.decode("utf-8", "surrogateescape") for name in names)

    def swap_ref(self, ref: str, old: str | None, new: str | None) -> bool:
        """Move a ref from ``old`` to ``new``; None means that the ref does not exist.

        Pending objects are flushed first.  Returns False and changes nothing if the ref is not at ``old``, or
        if another process has locked it.
        """
        self.flush()  # a ref must not be durable before all that it reaches
        name = Ref(ref.encode())
        old_id, new_id = (None if oid is None else ObjectID(oid.encode()) for oid in (old, new))
        try:
            if new_id is None:
                moved = old_id is not None and self._refs.remove_if_equals(name, old_id)
            elif old_id is None:
                moved = self._refs.add_if_new(name, new_id)
            else:
                moved = self._refs.set_if_equals(name, old_id, new_id)
        except FileLocked:  # a git that does not take the chat's lock may be moving the ref
            return False
        # A ref that only moves changes one folder; the name of a new or deleted one may change all folders above it.
        for folder in (self.path / ref).parents if moved else ():
            if folder.is_dir():
                self._fsync(folder)
            if None not in {old, new} or folder.parent == self.path:
                break
        return bool(moved)

    def clear_leftovers(self) -> None:
        """Remove lock files and temporary files of dead processes, and fsync the files that these renamed.

        An empty loose object is removed, too: a power cut can leave it after a write without fsync.  Only the holder of
        the chat's lock may call this, because then no living process owns such a file.
        """
        # The fsyncs below are for a process that was killed between a rename and its fsync: what it renamed
        # counts from now on.
        left = [
            *self.folder.glob(f"{TEMPORARY}*"),
            *self.folder.glob(f"pack/{TEMPORARY}*"),
            *(
                index
                for index in self.folder.glob("pack/*.idx")
                if not index.with_suffix(".pack").exists()
            ),
            *(path for path in self.loose_objects().values() if not path.stat().st_size),
            *self.path.glob("*.lock"),
            *self.path.glob("refs/**/*.lock"),
        ]
        for path in left:
            path.unlink(missing_ok=True)
        for folder in (self.pack_folder, self.path, *self.path.glob("refs/**/")):
            if folder.is_dir():
                self._fsync(folder)

    def _fsync(self, folder: Path) -> None:
        if self.durable:
            fsync(folder)


def _read_format(path: Path) -> str:
    """Return the object format of a repository, after a check that this version can read it.

    Raises:
        BrokenStoreError: when ``path`` is not a store, or needs a newer version.
    """
    config = path / "config"
    try:
        object_format = _FORMATS.get(config, [config], lambda: _configured_format(path))
        is_repository = (path / "objects").is_dir()
    except (OSError, ValueError) as error:
        raise BrokenStoreError(f"{path} is not a git store: {error}") from None
    if not is_repository:
        raise BrokenStoreError(f"{path} is not a git store: it has no objects")
    return object_format


def _configured_format(path: Path) -> str:
    with (path / "config").open("rb") as file:
        config = ConfigFile.from_file(file, expand_includes=False)
    version = _number(config, b"core", b"repositoryformatversion", 0)
    items = config.items((b"extensions",)) if version else ()
    extensions = {name.lower(): value for name, value in items}
    object_format = extensions.pop(b"objectformat", b"sha1").decode("utf-8", "replace").lower()
    unknown = set(extensions) - _READABLE_EXTENSIONS
    if version > 1 or unknown or object_format not in OBJECT_FORMATS:
        needs = ", ".join(sorted(map(bytes.decode, unknown))) or f"{version}, {object_format}"
        raise BrokenStoreError(f"{path} needs a newer version of git's format: {needs}")
    if (chat_format := _number(config, b"covalt", b"format", 1)) > FORMAT:
        raise BrokenStoreError(
            f"{path} has format {chat_format}; this version of covalt-git knows formats up to {FORMAT}",
            hint="update your clone of covalt-git: git pull && pip install .",
        )
    return object_format


def _number(config: ConfigFile, section: bytes, name: bytes, default: int) -> int:
    try:
        return int(config.get((section,), name))
    except KeyError:
        return default
    except ValueError:
        return sys.maxsize  # an unknown format
