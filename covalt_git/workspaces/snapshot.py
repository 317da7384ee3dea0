"""Taking a snapshot: a folder becomes a tree, byte for byte, and a list of what a tree cannot hold.

Nothing found in the folder changes how it is read: no ``.gitignore``, attribute, filter, hook or
nested repository.  What cannot be stored stays in place and is named; nothing is left out silently
but what ``workspace.ignore`` says.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_objects import FILE, FOLDER, LINK, BrokenStoreError, GitStore, TreeEntry
from covalt_git.models.commit_record import PathNote, WorkspaceNotes
from covalt_git.names import matches_text
from covalt_git.paths import GOOD, MAX_PATH_BYTES, check_element, check_path, collisions
from covalt_git.workspaces.folders import Folder, mode_of, read_entry
from covalt_git.workspaces.git_files import why_git_refuses
from covalt_git.workspaces.stat_cache import KnownFolder, StatCache

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.stat_cache import Clock, Mark, Seen

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 100
_PLAIN = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$))[a-z0-9_]+(?:[-_.][a-z0-9_]+){0,50}",
    re.ASCII | re.IGNORECASE,
)
"""Names that are good everywhere and none of git's own; most are, and this tells it ten times as fast."""
_UNKNOWN = KnownFolder((0, 0, 0), None, {}, {}, (), odd=False)


class _NotStorableError(Exception):
    """Why one entry of a folder cannot be part of a tree."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A folder as it was: its tree (None: no file), the notes for the record, the paths left out.

    ``hollow`` names the folders that are not empty and of which nothing was stored: whether there
    is one, such as around a ``__pycache__``, is no change of the workspace.
    """

    tree: str | None
    notes: WorkspaceNotes
    ignored: tuple[str, ...] = ()
    hollow: tuple[str, ...] = ()

    @property
    def left_in_place(self) -> tuple[str, ...]:
        """The paths that are in the folder and not in the tree."""
        return self.ignored + tuple(note.path for note in self.notes.not_stored)


def take(store: GitStore, path: Path, config: WorkspaceConfig) -> Snapshot:
    """Store the folder at ``path`` and return its snapshot; objects are durable after a flush.

    What has not changed since it was last read is not read again (see :mod:`.stat_cache`).
    """
    cache = StatCache.beside(path, config, store.object_format)
    known, clock = cache.recall()
    walk = _Walk(store, config, clock)
    with Folder.opened(path) as folder, store.together():
        root = walk.folder(folder.handle, (), known or _UNKNOWN, _head_tree(store))
    if not store.in_scratch:
        cache.remember(root)
    notes = WorkspaceNotes(
        empty_folders=tuple(sorted(walk.empty)),
        not_stored=tuple(sorted(walk.not_stored, key=lambda note: note.path)),
        unportable=tuple(sorted(walk.unportable, key=lambda note: note.path)),
    )
    return Snapshot(
        tree=root.tree,
        notes=notes,
        ignored=tuple(sorted(walk.ignored)),
        hollow=tuple(sorted(walk.hollow)),
    )


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


def _head_tree(store: GitStore) -> str | None:
    """Return the tree of the active branch; None where there is none that can be read."""
    try:
        oid = store.read_ref(store.head())
        return None if oid is None else store.read_commit(oid).tree
    except BrokenStoreError:
        return None


@dataclass(slots=True)
class _Look:
    """One folder that is being looked at: an open handle, what was known of it, what was found.

    ``head`` is the tree that the active branch has of it.  All that hangs on it is in the store;
    whatever else is known may have been pruned since.
    """

    handle: int
    path: tuple[str, ...]
    known: KnownFolder
    head: str | None
    store: GitStore
    files: dict[str, Seen] = field(default_factory=dict)
    folders: dict[str, KnownFolder] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    _branch: dict[str, str] | None = None

    @property
    def is_sure(self) -> bool:
        """Whether all that is known hangs on the active branch."""
        return self.known.tree is not None and self.known.tree == self.head

    def changed_files(self) -> set[str]:
        """Return the known files that are not what they were, or whose content may be gone."""
        changed = set()
        for name, seen in self.known.files.items():
            try:
                now = os.stat(name, dir_fd=self.handle, follow_symlinks=False)
            except OSError:
                changed.add(name)
                continue
            if seen != (
                now.st_ctime_ns,
                now.st_mtime_ns,
                now.st_ino,
                now.st_size,
                now.st_mode,
                seen[5],
            ):
                changed.add(name)
        if not self.is_sure:
            for name, seen in self.known.files.items():
                if name not in changed and not self._is_stored(name, seen[5].hex()):
                    changed.add(name)
        return changed

    def head_of(self, name: str) -> str | None:
        """Return what the active branch has under a name."""
        if self.is_sure and name in self.known.folders:
            return self.known.folders[name].tree
        if self._branch is None:
            self._branch = {}
            with contextlib.suppress(BrokenStoreError):
                for entry in self.store.read_tree(self.head) if self.head else ():
                    self._branch[os.fsdecode(entry.name)] = entry.oid
        return self._branch.get(name)

    def _is_stored(self, name: str, oid: str) -> bool:
        return self.head_of(name) == oid or self.store.has(oid)

    def is_as_known(self) -> bool:
        """Tell whether the same entries were found, whatever may have become of the folder's own."""
        known = self.known.folders
        return (
            self.files is self.known.files
            and known.keys() == self.folders.keys()
            and all(folder.tree == known[name].tree for name, folder in self.folders.items())
        )

    def result(self, mark: Mark, tree: str | None, *, odd: bool) -> KnownFolder:
        """Return the folder as it is now: the very same, where nothing at all is new."""
        known = self.known
        others = tuple(self.others)
        if (
            self.files is known.files
            and (mark, tree, odd, others) == (known.mark, known.tree, known.odd, known.others)
            and known.folders.keys() == self.folders.keys()
            and all(folder is known.folders[name] for name, folder in self.folders.items())
        ):
            return known
        return KnownFolder(mark, tree, self.files, self.folders, others, odd)


@dataclass(slots=True)
class _Walk:
    """One look at a folder and all that is in it."""

    store: GitStore
    config: WorkspaceConfig
    clock: Clock
    empty: list[str] = field(default_factory=list)
    not_stored: list[PathNote] = field(default_factory=list)
    unportable: list[PathNote] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    hollow: list[str] = field(default_factory=list)

    def folder(
        self, handle: int, path: tuple[str, ...], known: KnownFolder, head: str | None
    ) -> KnownFolder:
        """Store the folder behind ``handle`` and return it; its tree is None where nothing was."""
        status = os.fstat(handle)
        if known.mark[2] != status.st_dev:
            known = _UNKNOWN
        look = _Look(handle, path, known, head, self.store)
        held_empty = len(self.empty)
        changed = look.changed_files()
        if known.mark == (status.st_ctime_ns, status.st_ino, status.st_dev) and not changed:
            look.files = known.files
            for name in known.folders:
                self.entry(look, name, is_known_folder=True)
            for name in known.others:
                self.entry(look, name)
        else:
            for name in sorted(os.listdir(handle)):
                if name in known.files and name not in changed:
                    look.files[name] = known.files[name]
                else:
                    self.entry(look, name)
        tree, odd = self.tree(look)
        if tree is None and path and len(self.empty) == held_empty:
            is_hollow = look.folders or look.others
            (self.hollow if is_hollow else self.empty).append("/".join(path))
        mark = (self.clock.trusted(status), status.st_ino, status.st_dev)
        return look.result(mark, tree, odd=odd)

    def tree(self, look: _Look) -> tuple[str | None, bool]:
        """Store the tree of a folder; return it, and whether any of its names is unportable."""
        tree, odd = look.known.tree, look.known.odd
        as_known = look.is_as_known()
        if not as_known or odd:
            odd = self.note_unportable(look)
        if as_known and (tree is None or look.is_sure or self.store.has(tree)):
            return tree, odd
        entries = [
            TreeEntry(os.fsencode(name), mode_of(seen[4]), seen[5].hex())
            for name, seen in look.files.items()
        ]
        entries += [
            TreeEntry(os.fsencode(name), FOLDER, folder.tree)
            for name, folder in look.folders.items()
            if folder.tree is not None
        ]
        return (self.store.write_tree(entries) if entries else None), odd

    def entry(self, look: _Look, name: str, *, is_known_folder: bool = False) -> None:
        """Store one entry of a folder, or note why it cannot be."""
        path = (*look.path, name)
        try:
            if is_known_folder:
                self.subfolder(look, name, path)
                return
            status = os.lstat(name, dir_fd=look.handle)
            if _is_ignored(self.config.ignore, path, folder=stat.S_ISDIR(status.st_mode)):
                self.ignored.append("/".join(path))
                look.others.append(name)
                return
            plain = _PLAIN.fullmatch(name) is not None
            verdict = GOOD if plain else check_element(name)
            if verdict.kind == "refused":
                raise _NotStorableError(verdict.reason)
            if len(os.fsencode("/".join(path))) > MAX_PATH_BYTES:
                raise _NotStorableError("its path is too long")
            if stat.S_ISDIR(status.st_mode):
                reason = "" if plain else why_git_refuses(name, FOLDER, b"")
                if reason:
                    raise _NotStorableError(reason)
                self.subfolder(look, name, path)
            else:
                look.files[name] = self.file(look, name, status, plain=plain)
        except FileNotFoundError:
            return  # gone since the listing: then it is not part of this state
        except _NotStorableError as error:
            look.others.append(name)
            self.note(self.not_stored, path, str(error))
        except OSError as error:
            look.others.append(name)
            reason = f"it cannot be read: {os.strerror(error.errno or 0).lower()}"
            self.note(self.not_stored, path, reason)

    def subfolder(self, look: _Look, name: str, path: tuple[str, ...]) -> None:
        if len(path) > _MAX_DEPTH:
            raise _NotStorableError(f"it lies deeper than {_MAX_DEPTH} folders")
        known = look.known.folders.get(name, _UNKNOWN)
        handle = os.open(name, _DIRECTORY, dir_fd=look.handle)
        try:
            look.folders[name] = self.folder(handle, path, known, look.head_of(name))
        finally:
            os.close(handle)

    def file(self, look: _Look, name: str, status: os.stat_result, *, plain: bool) -> Seen:
        try:
            found = read_entry(look.handle, name, status, most=self.config.max_file_mb << 20)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise _NotStorableError(f"it is larger than {self.config.max_file_mb} MiB") from None
        if found is None:
            raise _NotStorableError("it is neither a file, a folder nor a link")
        status, content = found
        mode = mode_of(status.st_mode)
        if mode == LINK and not link_stays_inside(content, depth=len(look.path)):
            raise _NotStorableError("it is a link that may lead outside")
        reason = "" if plain else why_git_refuses(name, mode, content)
        if reason:
            raise _NotStorableError(reason)
        oid = bytes.fromhex(self.store.write_blob(content))
        changed = self.clock.trusted(status)
        return changed, status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode, oid

    def note_unportable(self, look: _Look) -> bool:
        """Note the names of a folder that some system cannot have; return whether there are any."""
        stored = [name for name, folder in look.folders.items() if folder.tree is not None]
        names = sorted([*look.files, *stored])
        distinct = len({name.lower() for name in names}) == len(names)
        if distinct and all(_PLAIN.fullmatch(name) for name in names):
            return False
        before = len(self.unportable)
        for name in names:
            verdict = check_element(name)
            if verdict.kind == "unportable":
                self.note(self.unportable, (*look.path, name), verdict.reason)
        for first, second in collisions(names):
            self.note(self.unportable, (*look.path, second), f"some systems take it for {first!r}")
        return len(self.unportable) > before

    def note(self, notes: list[PathNote], path: tuple[str, ...], reason: str) -> None:
        """Add a note on a path, its name readable whatever bytes it is made of."""
        readable = os.fsencode("/".join(path)).decode("utf-8", "backslashreplace")
        notes.append(PathNote(path=readable, reason=reason))


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
