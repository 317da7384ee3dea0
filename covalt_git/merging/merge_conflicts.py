"""Deciding the conflicts of a merge, and where a version goes that does not stay at its path.

Where both versions are kept, the active branch's stays at the path, and no conflict markers are
written into it: every file stays one that tools and people can read.  The other version stands beside
it as ``report.md.theirs-idea`` or, where that branch deleted the file, what it deleted as
``report.md.deleted-in-idea``.  That is at the end of the name, so that no tool which asks for
``*.csv`` takes both.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store import FILE, FOLDER, LINK, TreeEntry
from covalt_git.merging import line_merge
from covalt_git.models.commit_record import ConflictKind, MergeConflict, MergeDecision, MergeSide
from covalt_git.paths import MAX_ELEMENT_BYTES, collisions
from covalt_git.workspaces import trees
from covalt_git.workspaces.rules import check_storable, why_not_stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.merging.resolving import Waiting
    from covalt_git.merging.tree_merge import Clash, Entry, MergedTree
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import Edits

SAVED = re.compile(r"\.(?:theirs|deleted-in)-")
"""What is in the name of every version that was saved beside its path."""

_LONGEST_LABEL = 60
_ABOUT: dict[ConflictKind, str] = {
    "text": "both changed the same lines",
    "binary": "both changed it, and it has no lines",
    "add_add": "both added it, each with another content",
    "modify_delete": "one deleted it, the other changed it",
    "link": "both changed where the link leads",
    "type": "it is a file on one of them, a link on the other",
    "file_folder": "it is a file on one of them, a folder on the other",
}

Rest = Literal["ours", "theirs", "union", "both"]
"""How all conflicts are decided that are not decided one by one."""


class NotMergeableError(CovaltError):
    """A conflict cannot be decided that way."""

    code = "not_mergeable"


@dataclass(frozen=True, slots=True)
class Choice:
    """How one conflict is decided; ``content`` is what the file is to be, where it is ``content``."""

    decision: MergeDecision
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Choices:
    """How conflicts are decided: by their paths, and the rest all alike, or not at all."""

    by_path: Mapping[str, Choice] = field(default_factory=dict)
    rest: Rest | None = None

    def of(self, path: str) -> Choice | None:
        """Return how the conflict at a path is decided; None where nobody said."""
        return self.by_path.get(path) or (Choice(self.rest) if self.rest else None)


@dataclass(frozen=True, slots=True)
class Deciding:
    """The clashes of one merge of a branch, on their way to a decision.

    ``taken`` are paths of the folder that no tree has: what is not stored, and empty folders.
    """

    chat: ChatStore
    branch: str
    choices: Choices
    merged: MergedTree
    taken: tuple[str, ...]
    edits: Edits = field(default_factory=dict)

    def decide(self) -> tuple[str | None, tuple[MergeConflict, ...]]:
        """Return the tree as it was decided, and each conflict with its decision.

        Raises:
            UnknownNameError: when something is decided that is no conflict.
            NotMergeableError: when a decision cannot be made at its path.
        """
        paths = [clash.path for clash in self.merged.clashes]
        for path in self.choices.by_path:
            if path not in paths:
                dry = f"covalt-git chat merge {self.chat.id} {self.branch} --dry-run"
                raise UnknownNameError("conflict", path, paths, list_with=dry)
        conflicts = tuple(self._decided(clash) for clash in self.merged.clashes)
        return trees.edited(self.chat.store, self.merged.tree, self.edits), conflicts

    def _decided(self, clash: Clash) -> MergeConflict:
        path, ours, theirs = clash.path, clash.ours, clash.theirs
        choice = self.choices.of(path)
        decided = MergeConflict(
            path=path,
            kind=clash.kind,
            deleted=_deleted_by(clash),
            decision=choice.decision if choice else None,
        )
        match choice:
            case Choice("theirs"):
                self.edits[path] = theirs
            case Choice("content", content):
                self.edits[path] = written(self.chat, path, content, ours, theirs)
            case Choice("union"):
                try:
                    self.edits[path] = united(self.chat, path, clash.base, ours, theirs)
                except NotMergeableError:
                    if path in self.choices.by_path:
                        raise
                    return decided.model_copy(update={"decision": None})
            case Choice("both"):
                return decided.model_copy(update={"saved_as": self._saved(clash)})
        return decided

    def _saved(self, clash: Clash) -> str:
        """Put the other version beside the path, and return where."""
        version, role = (clash.theirs, "theirs") if clash.theirs else (clash.base, "deleted-in")
        assert version is not None  # whoever deleted a path had it from the base
        path = self._free_path(clash.path, f".{role}-{_label(self.branch)}")
        reason = self._why_not(path, version)
        if reason:
            raise NotMergeableError(
                f"the other version of {clash.path!r} cannot be saved as {path!r}: {reason}",
                hint="decide it now: with ours, theirs, or a content of its own",
            )
        self.edits[path] = version
        return path

    def _free_path(self, path: str, ending: str) -> str:
        """Return the path beside ``path`` that ends so, with a number where that is taken."""
        folder, slash, name = path.rpartition("/")
        above = folder + slash
        there = {*trees.names(self.chat.store, self.merged.tree, folder)}
        other = (*self.edits, *self.taken, *(clash.path for clash in self.merged.clashes))
        there |= {one[len(above) :].split("/")[0] for one in other if one.startswith(above)}
        for saved in _names(name, ending):
            if not any(saved in pair for pair in collisions([*there, saved])) | (saved in there):
                return above + saved
        raise AssertionError  # there is always a next number

    def _why_not(self, path: str, version: TreeEntry) -> str:
        """Return why a snapshot would leave the version out there, or nothing."""
        if version.mode == FOLDER:
            return why_not_stored(f"{path}/x", b"", self.chat.config)
        content = self.chat.store.read_blob(version.oid)
        return why_not_stored(path, content, self.chat.config)


def told(conflict: MergeConflict | Waiting, *, ours: str, theirs: str) -> str:
    """Return what a conflict is about, in words, between two branches of those names."""
    if conflict.deleted is not None:
        gone, there = (ours, theirs) if conflict.deleted == "ours" else (theirs, ours)
        return f"{gone} deleted it, {there} changed it"
    return _ABOUT[conflict.kind]


def written(chat: ChatStore, path: str, content: bytes, *sides: Entry) -> TreeEntry:
    """Store what a file is to be, and return it; it has the mode of the first side that is one.

    Raises:
        CovaltError: when no such file can be stored.
    """
    check_storable(path, content, chat.config)
    mode = next((side.mode for side in sides if side is not None and _is_file(side)), FILE)
    return TreeEntry(b"", mode, chat.store.write_blob(content))


def united(chat: ChatStore, path: str, base: Entry, ours: Entry, theirs: Entry) -> TreeEntry:
    """Store a file that has the lines of both sides, and return it.

    Raises:
        NotMergeableError: when they have none.
        CovaltError: when no such file can be stored.
    """
    contents = [
        chat.store.read_blob(side.oid) if side is not None and _is_file(side) else None
        for side in (base, ours, theirs)
    ]
    before, mine, other = contents
    if mine is None or other is None or not line_merge.is_text(before or b"", mine, other):
        raise NotMergeableError(
            f"{path!r} is not text on both sides, so there are no lines to unite",
            hint="decide it with ours, theirs, or a content of its own",
        )
    return written(chat, path, line_merge.union(before or b"", mine, other), ours, theirs)


def _names(name: str, ending: str) -> Iterator[str]:
    """Yield the names that a version may have: with the ending, then with numbers behind it."""
    raw = name.encode("utf-8", "surrogateescape")
    for number in itertools.count(1):
        full = ending if number == 1 else f"{ending}-{number}"
        yield raw[: MAX_ELEMENT_BYTES - len(full)].decode("utf-8", "ignore") + full


def _label(branch: str) -> str:
    """Return a branch's name as it can stand in a file's: ``try-blue`` for ``try/blue``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", branch)[:_LONGEST_LABEL].strip(".-") or "branch"


def _deleted_by(clash: Clash) -> MergeSide | None:
    if clash.kind != "modify_delete":
        return None
    return "ours" if clash.ours is None else "theirs"


def _is_file(side: TreeEntry) -> bool:
    return side.mode not in {FOLDER, LINK}
