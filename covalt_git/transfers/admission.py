"""Inspection of received commits, before a chat may have them: of all objects, paths and links.

Imports and pushes call :func:`admit` before a ref of the chat refers to a received object.  An admitted history
contains only files that a scan could have stored, and passes ``git fsck --strict``.  Paths that only some
systems can check out are admitted, and listed in ``Admitted.unportable``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, Problem
from covalt_git.git_store.checking import why_bad_commit, why_bad_tree
from covalt_git.git_store.graph import parents_first
from covalt_git.git_store.objects import FOLDER, LINK, SUBMODULE, BrokenStoreError
from covalt_git.paths import MAX_DEPTH, Verdict, check_element
from covalt_git.workspaces.commits import looks_like_record
from covalt_git.workspaces.rules import (
    link_climb,
    path_note,
    unportable,
    why_git_refuses,
    why_not_stored,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.git_store.graph import CommitGraph
    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.objects import TreeEntry
    from covalt_git.models.commit_record import WorkspaceNote
    from covalt_git.models.project_config import WorkspaceConfig

MOST_FILES = 1_000_000
"""Paths of one commit; a few small trees can have any number of them."""

MOST_BYTES = 64 << 30
"""Total size of the files of one commit."""

_MOST_MESSAGE = 16 << 20
_MOST_REFUSED = 20  # a history of others can have a million problems, and the client prints them


class NotAdmittedError(CovaltError):
    """A received history that is refused; ``problems`` names the paths and commits."""

    code = "not_admitted"


class Admitted(NamedTuple):
    """A history that is admitted.

    Attributes:
        commits: the ids of the new commits, each after its parents.
        lookalikes: those of them whose messages look like records of covalt-git.
        objects: the ids of all inspected objects, including these commits, and of the commits that they continue.
        unportable: the paths that some system cannot check out, each where it occurs first.
    """

    commits: tuple[str, ...]
    lookalikes: frozenset[str]
    objects: frozenset[str]
    unportable: tuple[WorkspaceNote, ...]


def admit(
    graph: CommitGraph, new: Iterable[str], known: Iterable[str] = (), *, config: WorkspaceConfig
) -> Admitted:
    """Inspect all objects that the received commits ``new`` reach and the chat's commits ``known`` do not reach.

    Each object is inspected once, and verified against its id.

    Raises:
        NotAdmittedError: with the refused paths and commits, at most about twenty.
    """
    new = tuple(new)
    commits = _new_commits(graph, new, known)
    parents = {parent for oid in commits for parent in graph.commit(oid).parents}
    inspection = _Inspection(graph.reader, config)
    for oid in sorted(parents.difference(commits)):
        # The chat has these trees, so they are not inspected; the new trees that contain them need their extents.
        inspection.extent(graph.commit(oid).tree)
    for oid in commits:  # the oldest first, where a path occurs first
        inspection.commit(oid)
        if len(inspection.refused) >= _MOST_REFUSED:
            break
    if refused := inspection.refused:
        count = "something" if len(refused) == 1 else f"{len(refused)} things"
        raise NotAdmittedError(
            f"the history contains {count} that a chat cannot have",
            hint="fix every commit that has it with git, and try again",
            problems=refused,
        )
    return Admitted(
        tuple(commits),
        frozenset(oid for oid in commits if looks_like_record(graph.commit(oid).message)),
        frozenset(inspection.objects.union(parents, new)),
        tuple(inspection.unportable.values()),
    )


def _new_commits(graph: CommitGraph, new: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the commits that only ``new`` reaches, parents first."""
    own = graph.ancestors(known)
    try:
        oids = sorted(graph.ancestors(new, without=own))
        return list(parents_first({oid: graph.commit(oid).parents for oid in oids}))
    except BrokenStoreError:
        raise NotAdmittedError(
            "a commit of the history is missing or damaged",
            hint="a chat needs the complete history, but a shallow clone has only a part of it:  "
            "git fetch --unshallow",
        ) from None


class _Extent(NamedTuple):
    """Number of files, size and worst paths of a tree, independent of its path.

    ``worst`` are its longest path, its deepest path, and the link with the most ``..``; each with a number: of its bytes,
    of its elements, and of the folders that must be above the tree, so that the link stays inside of the workspace.
    """

    files: int = 0
    size: int = 0
    worst: tuple[tuple[int, bytes], ...] = ((0, b""),) * 3

    def plus(self, other: _Extent) -> _Extent:
        """Return the extent of a tree that contains both."""
        worst = tuple(map(max, self.worst, other.worst))
        return _Extent(self.files + other.files, self.size + other.size, worst)

    def below(self, name: bytes) -> _Extent:
        """Return the extent of a tree that contains this one under ``name``."""
        start, steps = name + b"/", (len(name) + 1, 1, -1)
        pairs = zip(self.worst, steps, strict=True)
        worst = tuple((number + step, start + path) for (number, path), step in pairs)
        return self._replace(worst=worst) if self.files else self


@dataclass(slots=True)
class _Inspection:
    """Inspection of one history; each tree and each blob is inspected once, whatever paths it has."""

    reader: ObjectReader
    config: WorkspaceConfig
    objects: set[str] = field(default_factory=set)
    refused: list[Problem] = field(default_factory=list)
    unportable: dict[str, WorkspaceNote] = field(default_factory=dict)
    _commit: str = ""
    _trees: set[str] = field(default_factory=set)
    _extents: dict[str, _Extent] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    def extent(self, tree: str) -> _Extent:
        """Return the extent of a tree that is inspected, or that the chat already has."""
        # Once for each tree, wherever it is: nine trees that each contain the next one ten times have a billion files
        # (test_a_few_trees_that_spell_a_billion_files_are_refused).
        if tree not in self._extents:
            extent = _Extent()
            for name, mode, oid in self.reader.read_tree(tree):
                if mode == FOLDER:
                    extent = extent.plus(self.extent(oid).below(name))
                elif mode != SUBMODULE:
                    if oid not in self._sizes:
                        self._sizes[oid] = self.reader.blob_size(oid)
                    climb = link_climb(self.reader.read_blob(oid)) if mode == LINK else 0
                    worst = (len(name), name), (1, name), (climb, name)
                    extent = extent.plus(_Extent(1, self._sizes[oid], worst))
            self._extents[tree] = extent
        return self._extents[tree]

    def commit(self, oid: str) -> None:
        """Inspect a commit, and the objects of its tree that are not inspected yet."""
        self._commit = oid
        self.objects.add(oid)
        commit = self.reader.read_commit(oid)
        reason = why_bad_commit(self.reader, oid)
        if not reason and len(commit.message) > _MOST_MESSAGE:
            reason = f"its message is longer than {_MOST_MESSAGE >> 20} MiB"
        if reason:
            self._refuse("", reason)
            return
        self.tree(commit.tree, ())
        # An extent is only computed of trees that can be read, whose names and objects are valid.
        if not self.refused:
            self._check_extent(commit.tree)

    def tree(self, oid: str, path: tuple[str, ...]) -> None:
        """Inspect a tree whose first path is ``path``."""
        if oid in self._extents or oid in self._trees:
            return
        self._trees.add(oid)
        self.objects.add(oid)
        # Before its entries: this method calls itself, and trees can be nested deeper than Python's stack.
        if len(path) > MAX_DEPTH:
            self._refuse("/".join(path), "its path is too long")
            return
        entries = [(os.fsdecode(entry.name), entry) for entry in self._entries(oid, path)]
        for name, reason in unportable([name for name, _ in entries]):
            note = path_note("/".join((*path, name)), reason)
            self.unportable.setdefault(note.path, note)
        for name, entry in entries:
            if len(self.refused) >= _MOST_REFUSED:
                break
            self.entry(entry, (*path, name))

    def entry(self, entry: TreeEntry, path: tuple[str, ...]) -> None:
        """Inspect one entry of a tree."""
        verdict, special = _verdict(path[-1])
        if verdict.kind == "refused":
            self._refuse("/".join(path), verdict.reason)
        elif entry.mode == SUBMODULE:
            reason = "it is a submodule, another repository, which a chat cannot contain"
            self._refuse("/".join(path), reason)
        elif entry.mode == FOLDER:
            if special and (reason := why_git_refuses(path[-1], FOLDER, b"")):
                self._refuse("/".join(path), reason)
            self.tree(entry.oid, path)
        else:
            self._file(entry, path, special=special)

    def _file(self, entry: TreeEntry, path: tuple[str, ...], *, special: bool) -> None:
        self.objects.add(entry.oid)
        try:
            if special or entry.oid not in self._sizes:
                content = self.reader.read_blob(entry.oid)
                self._sizes[entry.oid] = len(content)
                if special and (reason := why_git_refuses(path[-1], entry.mode, content)):
                    self._refuse("/".join(path), reason)
        except BrokenStoreError:
            self._refuse("/".join(path), "its content is missing or damaged")
            return
        if self._sizes[entry.oid] > self.config.max_file_mb << 20:
            self._refuse("/".join(path), f"it is larger than {self.config.max_file_mb} MiB")

    def _entries(self, oid: str, path: tuple[str, ...]) -> list[TreeEntry]:
        try:
            reason = why_bad_tree(self.reader, oid)
            if not reason:
                return self.reader.read_tree(oid)
        except BrokenStoreError:
            reason = "its tree is missing or damaged"
        self._refuse("/".join(path), reason)
        return []

    def _check_extent(self, tree: str) -> None:
        """Check a whole tree: paths and links that are valid in one folder may not be in another."""
        extent = self.extent(tree)
        (_, longest), (_, deepest), (climb, link) = extent.worst
        if climb > 0:
            self._refuse(os.fsdecode(link), "it is a link that may lead outside")
        # An ignored path is no reason to refuse a history; it is reported after the import (left_out() of
        # importing.py).
        everything = self.config.model_copy(update={"ignore": ()})
        # If the longest and the deepest path may be stored, so may all others: their names were checked in
        # their trees.
        for path in {os.fsdecode(longest), os.fsdecode(deepest)} - {""}:
            if reason := why_not_stored(path, b"", everything):
                self._refuse(path, reason)
        if extent.files > MOST_FILES:
            self._refuse("", f"it has more than {MOST_FILES:,} files")
        if extent.size > MOST_BYTES:
            self._refuse("", f"its files have more than {MOST_BYTES >> 30} GiB together")

    def _refuse(self, path: str, reason: str) -> None:
        note = path_note(path, f"{reason} (commit {self._commit[:12]})")
        self.refused.append(Problem(note.path or self._commit, 0, 0, "not_admitted", note.reason))


@lru_cache(maxsize=1 << 16)
def _verdict(name: str) -> tuple[Verdict, bool]:
    """Return the verdict on a name, and whether it is a file that git reads, such as ``.gitmodules``."""
    return check_element(name), bool(why_git_refuses(name, LINK, b""))
