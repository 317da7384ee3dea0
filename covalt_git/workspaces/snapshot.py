"""Taking a snapshot: a folder becomes a tree, byte for byte, and a list of what a tree cannot hold.

Nothing found in the folder changes how it is read: no ``.gitignore``, attribute, filter, hook or
nested repository.  What cannot be stored stays in place and is named; nothing is left out silently
but what ``workspace.ignore`` says.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.git_objects import FILE, FOLDER, LINK, GitStore, TreeEntry
from covalt_git.models.commit_record import PathNote, WorkspaceNotes
from covalt_git.names import matches_text
from covalt_git.paths import MAX_PATH_BYTES, check_element, check_path, collisions
from covalt_git.workspaces.folders import Folder, read_entry
from covalt_git.workspaces.git_files import why_git_refuses

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 100


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
    """Store the folder at ``path`` and return its snapshot; objects are durable after a flush."""
    walk = _Walk(store, config)
    with Folder.opened(path) as folder:
        tree = walk.folder(folder.handle, ())
    notes = WorkspaceNotes(
        empty_folders=tuple(sorted(walk.empty)),
        not_stored=tuple(sorted(walk.not_stored, key=lambda note: note.path)),
        unportable=tuple(sorted(walk.unportable, key=lambda note: note.path)),
    )
    return Snapshot(
        tree=tree,
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


@dataclass(slots=True)
class _Walk:
    store: GitStore
    config: WorkspaceConfig
    empty: list[str] = field(default_factory=list)
    not_stored: list[PathNote] = field(default_factory=list)
    unportable: list[PathNote] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    hollow: list[str] = field(default_factory=list)

    def folder(self, handle: int, above: tuple[str, ...]) -> str | None:
        """Store the folder behind ``handle``; return its tree, None where nothing was stored."""
        entries: list[TreeEntry] = []
        held_empty = len(self.empty)
        names = sorted(os.listdir(handle))
        for name in names:
            entry = self.entry(handle, name, above)
            if entry is not None:
                entries.append(entry)
        for first, second in collisions(os.fsdecode(entry.name) for entry in entries):
            self.note(self.unportable, (*above, second), f"some systems take it for {first!r}")
        if entries:
            return self.store.write_tree(entries)
        if above and len(self.empty) == held_empty:
            (self.hollow if names else self.empty).append("/".join(above))
        return None

    def entry(self, parent: int, name: str, above: tuple[str, ...]) -> TreeEntry | None:
        """Store one entry of a folder, or note why it cannot be."""
        path = (*above, name)
        try:
            mode = os.lstat(name, dir_fd=parent).st_mode
            if _is_ignored(self.config.ignore, path, folder=stat.S_ISDIR(mode)):
                self.ignored.append("/".join(path))
                return None
            verdict = check_element(name)
            if verdict.kind == "refused":
                raise _NotStorableError(verdict.reason)
            if len(os.fsencode("/".join(path))) > MAX_PATH_BYTES:
                raise _NotStorableError("its path is too long")
            if stat.S_ISDIR(mode):
                entry = self.subfolder(parent, name, path)
            else:
                entry = self.file(parent, name, path)
        except FileNotFoundError:
            return None  # gone since the listing: then it is not part of this state
        except _NotStorableError as error:
            self.note(self.not_stored, path, str(error))
            return None
        except OSError as error:
            reason = f"it cannot be read: {os.strerror(error.errno or 0).lower()}"
            self.note(self.not_stored, path, reason)
            return None
        if entry is not None and verdict.kind == "unportable":
            self.note(self.unportable, path, verdict.reason)
        return entry

    def subfolder(self, parent: int, name: str, path: tuple[str, ...]) -> TreeEntry | None:
        if len(path) > _MAX_DEPTH:
            raise _NotStorableError(f"it lies deeper than {_MAX_DEPTH} folders")
        reason = why_git_refuses(name, FOLDER, b"")
        if reason:
            raise _NotStorableError(reason)
        handle = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            tree = self.folder(handle, path)
        finally:
            os.close(handle)
        return None if tree is None else TreeEntry(os.fsencode(name), FOLDER, tree)

    def file(self, parent: int, name: str, path: tuple[str, ...]) -> TreeEntry | None:
        try:
            found = read_entry(parent, name, most=self.config.max_file_mb << 20)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise _NotStorableError(f"it is larger than {self.config.max_file_mb} MiB") from None
        if found is None:
            raise _NotStorableError("it is neither a file, a folder nor a link")
        mode, content = found
        if mode == LINK and not link_stays_inside(content, depth=len(path) - 1):
            raise _NotStorableError("it is a link that may lead outside")
        reason = why_git_refuses(name, mode, content)
        if reason:
            raise _NotStorableError(reason)
        return TreeEntry(os.fsencode(name), mode, self.store.write_blob(content))

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
