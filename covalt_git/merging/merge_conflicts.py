"""Conflicts of a merge: the decisions about them, and the paths at which other versions are saved.

If both versions are kept, the version of the active branch stays at its path.  The other version is saved in
the same folder, as ``report.md.theirs-idea``; if the other branch deleted the file, the old version is saved as
``report.md.deleted-in-idea``.  No conflict markers are written, so that tools and users can read every file.  The
added ending prevents a tool that reads ``*.csv`` from reading both versions.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, StaleError, UnknownNameError
from covalt_git.git_store.objects import FILE, FOLDER, LINK, TreeEntry
from covalt_git.merging import line_merge
from covalt_git.models.commit_record import MergeConflict, MergeDecision, MergeSide
from covalt_git.paths import MAX_ELEMENT_BYTES, collisions
from covalt_git.workspaces import trees
from covalt_git.workspaces.rules import check_storable, why_not_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.git_store.store import GitStore
    from covalt_git.merging.line_merge import HunkDecision
    from covalt_git.merging.tree_merge import Clash, Entry, MergedTree
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import Edits

_LONGEST_LABEL = 60  # the label, the file's name and a number share the 255 bytes of a name
_MOST_BYTES = 512 << 10
_MOST_LINES = 400


class NotMergeableError(CovaltError):
    """A conflict cannot have this decision."""

    code = "not_mergeable"


class Choice(NamedTuple):
    """Decision about one conflict; ``content`` is the new content of the file if the decision is ``content``.

    If there are ``hunks``, the content is the merged text with these decisions about its hunks.  ``versions`` are the
    versions that the decision is about, as in :class:`Hunks`; None: the current ones.
    """

    decision: MergeDecision
    content: bytes = b""
    hunks: tuple[HunkDecision, ...] = ()
    versions: str | None = None


class Hunks(NamedTuple):
    """The hunks of a conflict, the number of changes that were merged, and an id of the three versions."""

    hunks: list[line_merge.Hunk]
    merged: int
    versions: str


Choices = Mapping[str | None, Choice]
"""Decisions about conflicts by path; the one at None is about all other conflicts."""


def decide(
    chat: ChatStore,
    branch: str,
    merged: MergedTree,
    choices: Choices,
    unstored: Iterable[str],
    *,
    list_with: str,
) -> tuple[Edits, tuple[MergeConflict, ...]]:
    """Return the edits of a merged tree that carry out all decisions, and each conflict with its decision.

    ``unstored`` are the untracked paths of the workspace and the empty folders.  ``list_with`` is the command that
    lists the conflicts.

    Raises:
        UnknownNameError: if a choice is for a path without a conflict.
        NotMergeableError: if a choice is not possible at its path.
    """
    paths = [clash.path for clash in merged.clashes]
    for path in choices:
        if path is not None and path not in paths:
            raise UnknownNameError("conflict", path, paths, list_with=list_with)
    edits: Edits = {}
    conflicts = []
    for clash in merged.clashes:
        path, saved_as = clash.path, None
        choice = choices.get(path) or choices.get(None)
        if choice is not None and choice.decision == "both":
            others = (*edits, *unstored, *paths)
            saved_as, version = _other_version(chat, branch, clash, merged.tree, others)
            edits[saved_as] = version
        elif choice is not None and choice.decision != "ours":
            try:
                edits[path] = chosen(chat, clash, choice)
            except NotMergeableError:
                # A decision for all other conflicts, such as `union`, is not possible for each of them: those
                # stay undecided.
                if path in choices:
                    raise
                choice = None
        conflicts.append(
            MergeConflict(
                path=path,
                kind=clash.kind,
                deleted=_deleted_by(clash),
                decision=choice and choice.decision,
                saved_as=saved_as,
            )
        )
    return edits, tuple(conflicts)


def _other_version(
    chat: ChatStore, branch: str, clash: Clash, tree: str | None, others: Iterable[str]
) -> tuple[str, TreeEntry]:
    """Return an available path for the other version in the same folder, and that version.

    ``others`` are the paths that do not exist in ``tree`` and are not available either.

    Raises:
        NotMergeableError: if the workspace cannot store it.
    """
    version, role = (clash.theirs, "theirs") if clash.theirs else (clash.base, "deleted-in")
    assert version is not None  # a deleted file is in the base
    folder, slash, name = clash.path.rpartition("/")
    above = folder + slash
    names = {*trees.names(chat.store, tree, folder)}
    # The tree does not show untracked files, which must not be overwritten, nor the versions that this merge saves.
    names |= {other[len(above) :].split("/")[0] for other in others if other.startswith(above)}
    path = above + next(
        saved
        for saved in _names(name, f".{role}-{_label(branch)}")
        if saved not in names and not any(saved in pair for pair in collisions([*names, saved]))
    )
    # An ignored name or a path that is too long would be left out of the next commit, and the version would be lost.
    if version.mode == FOLDER:
        reason = why_not_stored(f"{path}/x", b"", chat.config)
    else:
        reason = why_not_stored(path, chat.store.read_blob(version.oid), chat.config)
    if reason:
        raise NotMergeableError(
            f"the other version of {clash.path!r} cannot be saved as {path!r}: {reason}",
            hint="resolve it now: keep ours or theirs, or give the new content",
        )
    return path, version


def conflicting_lines(store: GitStore, clash: Clash, names: tuple[str, str]) -> str | None:
    """Return the lines in conflict, as :func:`covalt_git.merging.line_merge.conflicting` does.

    Returns None if a side is deleted, not text, or larger than 512 KiB.  The text is cut off after 400 lines.
    """
    sides = _texts(store, clash)
    if sides is None or any(len(side) > _MOST_BYTES for side in sides):
        return None
    lines = line_merge.conflicting(*sides, names)
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"... {len(lines) - _MOST_LINES} more lines\n".encode()]
    return b"".join(lines).decode("utf-8", "replace")


def hunks(store: GitStore, clash: Clash) -> Hunks | None:
    """Return the hunks of a conflict; None where :func:`conflicting_lines` does, or if they have more than 400 lines."""
    sides = _texts(store, clash)
    if sides is None or any(len(side) > _MOST_BYTES for side in sides):
        return None
    conflicts, merged = line_merge.hunks(*sides)
    if sum(len(lines) for hunk in conflicts for lines in hunk[1:]) > _MOST_LINES:
        return None
    return Hunks(conflicts, merged, _versions(clash))


def with_markers(store: GitStore, clash: Clash, names: tuple[str, str]) -> bytes | None:
    """Return the merged text with git's conflict markers; None if a side is not text or larger than 512 KiB.

    If one side deleted the file, it is the text of the other side, without markers.
    """
    if clash.kind == "modify_delete":
        return _remaining(store, clash)
    sides = _texts(store, clash)
    if sides is None or any(len(side) > _MOST_BYTES for side in sides):
        return None
    return line_merge.decided(*sides, (), names)


def _remaining(store: GitStore, clash: Clash) -> bytes | None:
    """Return the text of the side that did not delete the file; None if it is not a text, or too large."""
    side = clash.theirs if clash.ours is None else clash.ours
    if side is None or not _is_file(side):
        return None
    text = store.read_blob(side.oid)
    return text if len(text) <= _MOST_BYTES and line_merge.is_text(b"", text, text) else None


def _versions(clash: Clash) -> str:
    """Return an id of the three versions of a file."""
    sides = (clash.base, clash.ours, clash.theirs)
    ids = " ".join("-" if side is None else side.oid for side in sides)
    return hashlib.sha256(ids.encode()).hexdigest()[:16]


def _texts(store: GitStore, clash: Clash) -> tuple[bytes, bytes, bytes] | None:
    """Return the contents of three versions of a file, or None if a version is not a text."""
    base, mine, other = (
        store.read_blob(side.oid) if side is not None and _is_file(side) else None
        for side in (clash.base, clash.ours, clash.theirs)
    )
    if mine is None or other is None or not line_merge.is_text(base or b"", mine, other):
        return None
    return base or b"", mine, other


def chosen(chat: ChatStore, clash: Clash, choice: Choice) -> Entry:
    """Return the entry at the path of a conflict after the decision ``theirs``, ``union`` or ``content``.

    New content is stored with the mode of the first side that is a file.

    Raises:
        NotMergeableError: for ``union``, when a side is not text.
        CovaltError: when the workspace cannot store the content.
    """
    if choice.versions not in {None, _versions(clash)}:
        raise StaleError(
            f"{clash.path!r} has changed since its conflict was shown",
            hint="list the conflicts again, and decide about the current ones",
        )
    if choice.decision == "theirs":
        return clash.theirs
    if choice.hunks:
        content = _decided(chat, clash, choice.hunks)
    else:
        content = _union(chat, clash) if choice.decision == "union" else choice.content
    # A scan would leave such a file out, so the next commit would delete what was chosen
    # (test_a_content_that_cannot_be_stored_is_refused_and_nothing_merged).
    check_storable(clash.path, content, chat.config)
    sides = (clash.ours, clash.theirs)
    mode = next((side.mode for side in sides if side is not None and _is_file(side)), FILE)
    return TreeEntry(b"", mode, chat.store.write_blob(content))


def _decided(chat: ChatStore, clash: Clash, decisions: Sequence[HunkDecision]) -> bytes:
    """Return the merged text with a decision about each hunk.

    Raises:
        NotMergeableError: when a side is not text, or the number of hunks is another one.
    """
    texts = _lines_of(chat.store, clash)
    number = len(line_merge.hunks(*texts)[0])
    if number != len(decisions):
        raise NotMergeableError(
            f"{clash.path!r} has {number} changes in conflict, and there are {len(decisions)} decisions",
            hint="decide about each of them: ours, theirs or both",
        )
    return line_merge.decided(*texts, decisions)


def _union(chat: ChatStore, clash: Clash) -> bytes:
    """Return the lines of both sides.

    Raises:
        NotMergeableError: when a side is not text.
    """
    return line_merge.union(*_lines_of(chat.store, clash))


def _lines_of(store: GitStore, clash: Clash) -> tuple[bytes, bytes, bytes]:
    texts = _texts(store, clash)
    if texts is None:
        raise NotMergeableError(
            f"{clash.path!r} is not text on both sides, so there are no lines to unite",
            hint="keep ours or theirs, or give the new content",
        )
    return texts


def can_unite(chat: ChatStore, clash: Clash) -> bool:
    """Return whether a conflict can have the decision ``union``."""
    try:
        check_storable(clash.path, _union(chat, clash), chat.config)
    except CovaltError:
        return False
    return True


def can_keep_both(
    chat: ChatStore, branch: str, clash: Clash, tree: str | None, others: Iterable[str]
) -> bool:
    """Return whether a conflict can have the decision ``both``; ``tree`` and ``others`` as in a merge."""
    try:
        _other_version(chat, branch, clash, tree, others)
    except NotMergeableError:
        return False
    return True


def _names(name: str, ending: str) -> Iterator[str]:
    """Yield the name with the ending, and then the same with a number at the end."""
    raw = name.encode("utf-8", "surrogateescape")
    for number in itertools.count(1):
        full = ending if number == 1 else f"{ending}-{number}"
        # Cut off in bytes, as file systems count; `ignore` drops half a character at the cut.
        yield raw[: MAX_ELEMENT_BYTES - len(full)].decode("utf-8", "ignore") + full


def _label(branch: str) -> str:
    """Return the part of a file name that names a branch: ``try-blue`` for ``try/blue``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", branch)[:_LONGEST_LABEL].strip(".-") or "branch"


def _deleted_by(clash: Clash) -> MergeSide | None:
    if clash.kind != "modify_delete":
        return None
    return "ours" if clash.ours is None else "theirs"


def _is_file(side: TreeEntry) -> bool:
    return side.mode not in {FOLDER, LINK}
