"""Taking a snapshot: a folder becomes a tree, byte for byte, and a list of what a tree cannot hold.

Nothing found in the folder changes how it is read: no ``.gitignore``, attribute, filter, hook or
nested repository.  What cannot be stored stays in place and is named; nothing is left out silently
but what ``workspace.ignore`` says.
"""

from __future__ import annotations

import contextlib
import operator
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import FILE, FOLDER, LINK, BrokenStoreError, GitStore, TreeEntry
from covalt_git.models.commit_record import PathNote, WorkspaceNotes
from covalt_git.names import matches_text
from covalt_git.paths import (
    GOOD,
    MAX_PATH_BYTES,
    check_element,
    check_path,
    collisions,
    is_plain,
)
from covalt_git.workspaces import set_id, trees
from covalt_git.workspaces.folders import Folder, TooLargeError, mode_of, read_entry
from covalt_git.workspaces.git_files import why_git_refuses
from covalt_git.workspaces.stat_cache import NOTHING_KNOWN, Anchor, KnownFolder, StatCache

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.stat_cache import Clock, Mark, Note, Seen

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 100
_MOST_HOLES = 256 << 20  # bytes of sparse files that are read in a scan
_DENSE = (
    1 << 16,
    32,
)  # files are not sparse that are as small, or use one part in so many of their length
_SURELY_SHORT = MAX_PATH_BYTES // 4 - 1  # letters, of which none has more bytes
_NAME = operator.attrgetter("name")
_EMPTY, _HOLLOW, _IGNORED = "empty", "hollow", "ignored"
_NOT_STORED, _UNPORTABLE = "not stored", "unportable"


class _NotStorableError(Exception):
    """Why one entry of a folder cannot be part of a tree."""


class _GoneError(Exception):
    """An entry is gone since the listing: then it is not part of this state."""


class _Reading:
    """What cannot be read of the workspace is no part of a tree; an error of the store is an error."""

    def __enter__(self) -> None:
        """Begin to read."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise _GoneError from None
        if isinstance(error, OSError):
            reason = f"it cannot be read: {os.strerror(error.errno or 0).lower()}"
            raise _NotStorableError(reason) from None


_READING = _Reading()
_NOTHING_NOTED = WorkspaceNotes()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folder as it was: its tree (None: no file), the notes for the record, the paths left out.

    ``files`` counts what is stored.  ``hollow`` names the folders that are not empty and of which
    nothing was stored: whether there is one, such as around a ``__pycache__``, is no change of the
    workspace.  ``root`` is what the folder is known as from now on, ``before`` what it was known as.
    """

    tree: str | None
    notes: WorkspaceNotes
    ignored: tuple[str, ...] = ()
    hollow: tuple[str, ...] = ()
    files: int = 0
    root: KnownFolder | None = field(default=None, compare=False, repr=False)
    before: KnownFolder | None = field(default=None, compare=False, repr=False)

    @property
    def left_in_place(self) -> tuple[str, ...]:
        """The paths that are in the folder and not in the tree."""
        return self.ignored + tuple(note.path for note in self.notes.not_stored)

    def unstored(self) -> list[str]:
        """Return the paths that no commit holds, as the file system spells them, sorted."""
        return sorted(self._left(_IGNORED, _NOT_STORED))

    def held(self, path: Path) -> tuple[int, int]:
        """Return how many files were seen and their bytes by length; not those in ignored folders."""
        if self.root is None:
            return 0, 0
        files, size = self.root.count(), self.root.size()
        with contextlib.suppress(OSError), Folder.opened(path) as root:
            for left in self._left(_NOT_STORED):
                with contextlib.suppress(OSError), root.parent_of(left) as (parent, name):
                    status = os.lstat(name, dir_fd=parent)
                    files += 1
                    size += status.st_size if stat.S_ISREG(status.st_mode) else 0
        return files, size

    def clear_set_id(self, path: Path) -> None:
        """Clear set-user-ID and set-group-ID bits in what was left in place, and not scanned."""
        if left := self.unstored():
            with Folder.opened(path) as root:
                set_id.clear_below(root, left)

    def _left(self, *kinds: str) -> list[str]:
        """Return the paths of what was left in place, as the system has them."""
        notes = () if self.root is None else self.root.all_notes()
        return [path for kind, path, _ in notes if kind in kinds]

    def changed_paths(self, store: GitStore, tree: str) -> list[str]:
        """Return the paths of files that differ from those of a tree, sorted."""
        if self.root is not None and self.before is not None and self.before.tree == tree:
            return sorted(self.root.changed_paths(self.before))
        return trees.changed_paths(store, tree, self.tree)


def take(store: GitStore, path: Path, config: WorkspaceConfig) -> Snapshot:
    """Store the folder at ``path`` and return its snapshot; objects are durable after a flush.

    A file that has not changed since it was last read is not read again (see :mod:`.stat_cache`).
    """
    cache = StatCache.beside(path, config, store.object_format)
    branch = _active_branch(store)
    known, clock = cache.recall()
    stored = tree = _tree_of(store, None if branch is None else branch.manifest)
    if known is not None and known.tree != tree and _is_held(store, known.anchor):
        stored = known.tree  # as after a switch, from a branch that still has it
    with Folder.opened(path) as folder:
        walk = _Walk(store, config, clock)
        root = walk.folder(folder.handle, (), known or NOTHING_KNOWN, stored)
    if branch is not None and root.tree is not None and root.tree == tree:
        root.anchor = branch
    if not store.in_scratch:
        cache.remember(root)
    return _snapshot_of(root, known)


def _snapshot_of(root: KnownFolder, before: KnownFolder | None) -> Snapshot:
    """Return the snapshot that a look at a whole folder is."""
    if not root.noted:
        return Snapshot(root.tree, _NOTHING_NOTED, (), (), root.count(), root, before)
    found: dict[str, list[tuple[str, str]]] = {}
    for kind, path, reason in root.all_notes():
        found.setdefault(kind, []).append((path, reason))
    paths = {kind: tuple(sorted(path for path, _ in notes)) for kind, notes in found.items()}
    notes = WorkspaceNotes(
        empty_folders=paths.get(_EMPTY, ()),
        not_stored=_path_notes(found.get(_NOT_STORED, [])),
        unportable=_path_notes(found.get(_UNPORTABLE, [])),
    )
    ignored, hollow = paths.get(_IGNORED, ()), paths.get(_HOLLOW, ())
    return Snapshot(root.tree, notes, ignored, hollow, root.count(), root, before)


def _path_notes(notes: list[tuple[str, str]]) -> tuple[PathNote, ...]:
    """Return notes for the record, their paths readable whatever bytes they are made of."""
    readable = [
        PathNote(path=os.fsencode(path).decode("utf-8", "backslashreplace"), reason=reason)
        for path, reason in notes
    ]
    return tuple(sorted(readable, key=lambda note: note.path))


def why_not_stored(path: str, content: bytes, config: WorkspaceConfig) -> str:
    """Return why a snapshot would leave out a file of that path and content, or nothing."""
    verdict = check_path(path)
    if verdict.kind == "refused":
        return verdict.reason
    elements = tuple(path.split("/"))
    for length in range(1, len(elements) + 1):
        if _is_ignored(config.ignore, elements[:length], folder=length < len(elements)):
            return "workspace.ignore in covalt.yaml leaves it out"
    if len(elements) > _MAX_DEPTH + 1:
        return f"it lies deeper than {_MAX_DEPTH} folders"
    if len(content) > config.max_file_mb << 20:
        return f"it is larger than {config.max_file_mb} MiB"
    above = (why_git_refuses(element, FOLDER, b"") for element in elements[:-1])
    return next(filter(None, above), "") or why_git_refuses(elements[-1], FILE, content)


def check_storable(path: str, content: bytes, config: WorkspaceConfig) -> None:
    """Make sure that a snapshot would store a file of that path and content.

    Raises:
        CovaltError: with the reason.
    """
    reason = why_not_stored(path, content, config)
    if reason:
        hint = "raise workspace.max_file_mb in covalt.yaml" if "MiB" in reason else ""
        raise CovaltError(f"{path!r} cannot be stored: {reason}", hint=hint)


def _active_branch(store: GitStore) -> Anchor | None:
    """Return the active branch and its manifest; None where there is none that can be read."""
    try:
        ref = store.head()
        manifest = store.read_ref(ref)
    except BrokenStoreError:
        return None
    return None if manifest is None else Anchor(ref, manifest)


def _is_held(store: GitStore, anchor: Anchor | None) -> bool:
    """Tell whether a ref is still where it was, so that nothing it reaches was pruned."""
    try:
        return anchor is not None and store.read_ref(anchor.ref) == anchor.manifest
    except BrokenStoreError:
        return False


def _tree_of(store: GitStore, manifest: str | None) -> str | None:
    try:
        return None if manifest is None else store.read_commit(manifest).tree
    except BrokenStoreError:
        return None


@dataclass(slots=True)
class _Look:
    """One folder that is being looked at: an open handle, what was known of it, what was found.

    ``head`` is the tree that a branch has of it, mostly the active one.  All that hangs on it is in
    the store; whatever else is known may have been pruned since.  ``fresh`` has the trees, before and
    now, of the folders in it that are not the very ones that were known.
    """

    handle: int
    path: tuple[str, ...]
    known: KnownFolder
    head: str | None
    store: GitStore
    files: dict[str, Seen] = field(default_factory=dict)
    folders: dict[str, KnownFolder] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    fresh: list[tuple[str | None, str | None]] = field(default_factory=list)
    where: str = ""
    _branch: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Spell the path."""
        self.where = "/".join(self.path)

    @property
    def is_sure(self) -> bool:
        """Whether all that is known hangs on the branch."""
        return self.known.tree is not None and self.known.tree == self.head

    def changed_files(self) -> dict[str, bool]:
        """Return the known files that are not what they were, or whose content may be gone.

        The value is whether the entry certainly is still a regular file.
        """
        files, handle = self.known.files, self.handle
        changed = {}
        for name, seen in files.items():
            try:
                now = os.lstat(name, dir_fd=handle)
            except OSError:
                changed[name] = False
                continue
            if seen != (
                now.st_ctime_ns,
                now.st_mtime_ns,
                now.st_ino,
                now.st_size,
                now.st_mode,
                seen[5],
            ):
                changed[name] = stat.S_ISREG(now.st_mode)
        if not self.is_sure:
            branch, store = self.on_branch(), self.store
            for name, seen in files.items():
                oid = seen[5].hex()
                if branch.get(name) != oid and name not in changed and not store.has(oid):
                    changed[name] = False
        return changed

    def head_of(self, name: str) -> str | None:
        """Return what the branch has under a name."""
        if self.is_sure and name in self.known.folders:
            return self.known.folders[name].tree
        return self.on_branch().get(name)

    def on_branch(self) -> dict[str, str]:
        """Return what the branch has in the folder, by name."""
        if self._branch is None:
            self._branch = {}
            with contextlib.suppress(BrokenStoreError):
                for entry in self.store.read_tree(self.head) if self.head else ():
                    self._branch[os.fsdecode(entry.name)] = entry.oid
        return self._branch

    def compare(self) -> None:
        """Note, once all was found, which folders are not the very ones that were known."""
        now, known = self.folders, self.known.folders
        changed = [name for name, one in now.items() if known.get(name) is not one]
        self.fresh = [
            (known.get(name, NOTHING_KNOWN).tree, now.get(name, NOTHING_KNOWN).tree)
            for name in (*changed, *(known.keys() - now.keys()))
        ]

    def is_as_known(self) -> bool:
        """Tell whether the same is stored, whatever may have become of the folder's own entry."""
        return self.files is self.known.files and all(was == now for was, now in self.fresh)

    def has_same_names(self) -> bool:
        """Tell whether something is stored of the same names as before."""
        return self.files.keys() == self.known.files.keys() and all(
            (was is None) == (now is None) for was, now in self.fresh
        )

    def note(self, kind: str, name: str, reason: str = "") -> None:
        """Add a note on one name."""
        self.notes.append((kind, name, reason))

    def is_all_as_known(self, mark: Mark) -> bool:
        """Tell whether nothing at all is new, nor is there anything to be noted or stored again."""
        known = self.known
        if self.files is not known.files or mark != known.mark or not self.is_sure:
            return False
        return not (known.others or known.notes or known.odd or self.fresh)

    def result(self, mark: Mark, tree: str | None, *, odd: bool) -> KnownFolder:
        """Return the folder as it is now: the very same, where nothing at all is new."""
        known = self.known
        others, notes = tuple(sorted(self.others)), tuple(sorted(self.notes))
        found = (mark, tree, odd, others, notes)
        as_known = (known.mark, known.tree, known.odd, known.others, known.notes)
        if self.files is known.files and found == as_known and not self.fresh:
            return known
        noted = bool(notes) or any(folder.noted for folder in self.folders.values())
        return KnownFolder(mark, tree, self.files, self.folders, others, odd, notes, noted)


def _holds_empty(folder: KnownFolder) -> bool:
    return any(kind == _EMPTY for kind, _, _ in folder.all_notes())


@dataclass(slots=True)
class _Walk:
    """One scan of a folder and all that is in it."""

    store: GitStore
    config: WorkspaceConfig
    clock: Clock
    _ignored_files: tuple[str, ...] = field(init=False)
    _linked: dict[tuple[int, int, int, int], bytes] = field(default_factory=dict)
    _holes: int = 0

    def __post_init__(self) -> None:
        """Find the patterns that can match a file."""
        self._ignored_files = tuple(one for one in self.config.ignore if not one.endswith("/"))

    def folder(
        self, handle: int, path: tuple[str, ...], known: KnownFolder, head: str | None
    ) -> KnownFolder:
        """Store the folder behind ``handle`` and return it; its tree is None where nothing was."""
        status = os.fstat(handle)
        if known.mark[2] != status.st_dev:
            known = NOTHING_KNOWN
        look = _Look(handle, path, known, head, self.store)
        mark = (status.st_ctime_ns, status.st_ino, status.st_dev)
        self.everything(look, mark)
        look.compare()
        if look.is_all_as_known(mark):
            return known
        tree, odd = self.tree(look)
        if tree is None and path and not any(map(_holds_empty, look.folders.values())):
            look.note(_HOLLOW if look.folders or look.others else _EMPTY, "")
        trusted = self.clock.trusted(status.st_ctime_ns, status.st_dev)
        return look.result((trusted, status.st_ino, status.st_dev), tree, odd=odd)

    def everything(self, look: _Look, mark: Mark) -> None:
        """Look at every name of a folder."""
        known = look.known
        changed = look.changed_files()
        if known.mark == mark:  # then it has the same names
            if not changed:
                look.files = known.files
            else:
                for name, seen in known.files.items():
                    if name in changed:
                        self.entry(look, name, is_file=changed[name])
                    else:
                        look.files[name] = seen
            for name in known.folders:
                self.entry(look, name, is_known_folder=True)
            for name in known.others:
                self.entry(look, name)
            return
        for one in _listed(look.handle):
            name = one.name
            if name in known.files and name not in changed:
                look.files[name] = known.files[name]
            else:
                self.entry(look, name, is_file=one.is_file(follow_symlinks=False))

    def tree(self, look: _Look) -> tuple[str | None, bool]:
        """Store the tree of a folder; return it, and whether any of its names is unportable."""
        tree, odd = look.known.tree, look.known.odd
        as_known = look.is_as_known()
        same_names = as_known or look.has_same_names()
        if odd or not same_names:
            odd = self.note_unportable(look)
        if as_known and (tree is None or look.is_sure or self.store.has(tree)):
            return tree, odd
        entries = [
            TreeEntry(_encoded(name), mode_of(seen[4]), seen[5].hex())
            for name, seen in look.files.items()
        ]
        entries += [
            TreeEntry(_encoded(name), FOLDER, folder.tree)
            for name, folder in look.folders.items()
            if folder.tree is not None
        ]
        return (self.store.write_tree(entries) if entries else None), odd

    def entry(
        self,
        look: _Look,
        name: str,
        *,
        is_file: bool = False,
        is_known_folder: bool = False,
    ) -> None:
        """Store one entry of a folder, or note why it cannot be; ``is_file`` if that is known."""
        path = (*look.path, name)
        try:
            if is_known_folder:
                self.subfolder(look, name, path)
                return
            status = None
            if not is_file:
                with _READING:
                    status = os.lstat(name, dir_fd=look.handle)
            is_folder = status is not None and stat.S_ISDIR(status.st_mode)
            ignored = self.config.ignore if is_folder else self._ignored_files
            if ignored and _is_ignored(ignored, path, folder=is_folder):
                look.note(_IGNORED, name)
                self.leave(look, name)
                return
            plain = is_plain(name)
            verdict = GOOD if plain else check_element(name)
            if verdict.kind == "refused":
                raise _NotStorableError(verdict.reason)
            if len(look.where) + len(name) > _SURELY_SHORT and (
                len(_encoded("/".join(path))) > MAX_PATH_BYTES
            ):
                raise _NotStorableError("its path is too long")
            if is_folder:
                reason = "" if plain else why_git_refuses(name, FOLDER, b"")
                if reason:
                    raise _NotStorableError(reason)
                self.subfolder(look, name, path)
            else:
                look.files[name] = self.file(look, name, status, plain=plain)
        except _GoneError:
            return
        except _NotStorableError as error:
            look.note(_NOT_STORED, name, str(error))
            self.leave(look, name)

    def leave(self, look: _Look, name: str) -> None:
        """Leave an entry in place, which the tree lacks."""
        look.others.append(name)
        set_id.clear(look.handle, name)

    def subfolder(self, look: _Look, name: str, path: tuple[str, ...]) -> None:
        if len(path) > _MAX_DEPTH:
            raise _NotStorableError(f"it lies deeper than {_MAX_DEPTH} folders")
        known = look.known.folders.get(name, NOTHING_KNOWN)
        with _READING:
            handle = os.open(name, _DIRECTORY, dir_fd=look.handle)
        try:
            look.folders[name] = self.folder(handle, path, known, look.head_of(name))
        finally:
            os.close(handle)

    def file(self, look: _Look, name: str, status: os.stat_result | None, *, plain: bool) -> Seen:
        if status is None:
            with _READING:
                status = os.lstat(name, dir_fd=look.handle)
        content_id = (status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size)
        if status.st_nlink != 1 and plain and (oid := self._linked.get(content_id)) is not None:
            return self.seen(status, oid)
        self.check_sparse(status)
        try:
            with _READING:
                found = read_entry(look.handle, name, status, most=self.config.max_file_mb << 20)
        except TooLargeError:
            raise _NotStorableError(f"it is larger than {self.config.max_file_mb} MiB") from None
        if found is None:
            raise _NotStorableError("it is neither a file, a folder nor a link")
        status, content = found
        if status.st_mode & set_id.BITS:
            set_id.clear(look.handle, name)
        mode = mode_of(status.st_mode)
        if mode == LINK and not link_stays_inside(content, depth=len(look.path)):
            raise _NotStorableError("it is a link that may lead outside")
        reason = "" if plain else why_git_refuses(name, mode, content)
        if reason:
            raise _NotStorableError(reason)
        oid = bytes.fromhex(self.store.write_blob(content))
        if status.st_nlink != 1:
            # Its other names are not read: many of a large file would take as long as many large files.
            self._linked[content_id] = oid
        return self.seen(status, oid)

    def seen(self, status: os.stat_result, oid: bytes) -> Seen:
        """Return what is known of a file from now on."""
        changed = self.clock.trusted(status.st_ctime_ns, status.st_dev)
        return changed, status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode, oid

    def check_sparse(self, status: os.stat_result) -> None:
        """Make sure that a file may be read, though much of it may be no more than its length.

        Such files take no space on the disk, so that no limit stops a tool from making very many.
        """
        size, used = status.st_size, status.st_blocks * 512
        small, share = _DENSE
        if size <= small or used * share >= size or size > self.config.max_file_mb << 20:
            return
        self._holes += size - used
        if self._holes > _MOST_HOLES:
            raise _NotStorableError(
                f"it is sparse, and the scan has read {_MOST_HOLES >> 20} MiB of such files"
            )

    def note_unportable(self, look: _Look) -> bool:
        """Note the names of a folder that some system cannot have; return whether there are any."""
        stored = [name for name, folder in look.folders.items() if folder.tree is not None]
        names = sorted([*look.files, *stored])
        distinct = len({name.lower() for name in names}) == len(names)
        if distinct and all(map(is_plain, names)):
            return False
        verdicts = [(name, check_element(name)) for name in names]
        found = [(name, one.reason) for name, one in verdicts if one.kind == "unportable"]
        found += [
            (second, f"some systems take it for {first!r}") for first, second in collisions(names)
        ]
        for name, reason in found:
            look.note(_UNPORTABLE, name, reason)
        return bool(found)


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _listed(handle: int) -> list[os.DirEntry[str]]:
    """Return what is in an open folder, sorted by name."""
    with os.scandir(handle) as listing:
        return sorted(listing, key=_NAME)


def link_stays_inside(target: bytes, *, depth: int) -> bool:
    """Tell whether a link in a folder ``depth`` levels down provably stays in the workspace.

    Only leading ``..`` are allowed, at most one for each level: the folders above a stored link are
    real ones, so those steps cannot leave; a later ``..`` could follow another link first.
    """
    try:
        text = target.decode("utf-8")
    except UnicodeDecodeError:
        return False
    elements = [element for element in text.split("/") if element not in {"", "."}]
    steps = [element == ".." for element in elements]
    up = steps.index(False) if False in steps else len(steps)
    inside = up <= depth and not any(steps[up:])
    return inside and bool(text) and "\0" not in text and not text.startswith("/")


def _is_ignored(patterns: tuple[str, ...], path: tuple[str, ...], *, folder: bool) -> bool:
    """Tell whether a name matches; with a ``/`` in its middle a pattern stands for a whole path."""
    for pattern in patterns:
        plain = pattern.rstrip("/")
        if pattern.endswith("/") and not folder:
            continue
        if matches_text(plain, "/".join(path) if "/" in plain else path[-1]):
            return True
    return False
