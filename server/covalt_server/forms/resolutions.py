"""The fields of a form about a conflict, whose edited text must not drop a change that came later."""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from covalt_git.errors import CovaltError, listed
from covalt_git.git_store.objects import FILE
from covalt_git.git_store.patches import file_patch
from covalt_git.merging.merge_conflicts import NotMergeableError
from covalt_server.render import differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

    from covalt_git.operations.chats.merges import Conflict, ConflictHunks, WaitingConflict


class Chosen(NamedTuple):
    """The fields of a form about one conflict: the decision, those about hunks by number, and the edited text.

    Attributes:
        merged: digest of the merged text that the edited text began with; empty without one.
        stale: whether the merged text has changed since then.
        replaces: whether the user has confirmed that the edited text replaces the newer merged text.
        newer: the merged text as it is now.
        ids: what the page showed of each hunk, by number (``versions`` of a hunk).
        moved: whether the file has changed since its hunks were shown.
        hint: a sentence for the page that says how many decisions still apply after the file has changed.
    """

    decision: str
    hunks: dict[int, str]
    versions: str | None
    content: str | None
    merged: str = ""
    stale: bool = False
    replaces: bool = False
    newer: str = ""
    ids: Mapping[int, str] = MappingProxyType({})
    moved: bool = False
    hint: str = ""

    def resolution(self) -> dict[str, Any]:
        """Return the fields of a request; hunks without a decision are left out, which the operation refuses."""
        if self.decision == "content":
            return {
                "decision": "content",
                "content": self.content or "",
                "versions": self.versions,
            }
        if self.decision == "hunks":
            hunks = [self.hunks[number] for number in sorted(self.hunks)]
            return {"decision": "hunks", "hunks": hunks, "versions": self.versions}
        return {"decision": self.decision}

    def edits(self, content: str, merged: str, versions: str | None) -> Chosen:
        """Return this with a text to edit, which was made of the ``merged`` text of these versions."""
        return self._replace(
            decision="content",
            content=content,
            merged=digest(merged),
            versions=versions,
            stale=False,
        )

    def compared(self, merged: str, conflict: ConflictHunks | None) -> Chosen:
        """Return this for a page with the ``merged`` text and the hunks as they are now.

        Decisions about the hunks of other versions stay with the hunks that have the same lines on all three sides, which
        can have other numbers now.
        """
        is_newer = bool(self.merged) and self.merged != digest(merged)
        same = self.versions in {None, conflict.versions if conflict else None}
        ids = {
            number: hunk.versions
            for number, hunk in enumerate(conflict.hunks if conflict else (), 1)
        }
        hunks = self.hunks if same else self._applying(ids)
        return self._replace(
            hunks=hunks,
            ids=ids,
            merged=digest(merged),
            # It stays so, although the next page is compared with the newer text: the edited text still lacks the change.
            stale=self.stale or is_newer,
            # The user has confirmed this for the text on the page, not for one that came later
            # (test_an_edited_result_does_not_drop_a_line_that_comes_later).
            replaces=self.replaces and not is_newer,
            newer=merged,
            moved=not same,
            hint="" if same else _hint(len(self.hunks), hunks, len(ids)),
        )

    def _applying(self, ids: Mapping[int, str]) -> dict[int, str]:
        """Return the decisions about the hunks that have these ids now."""
        old, new = _numbers(self.ids), _numbers(ids)
        return {
            number: self.hunks[earlier]
            for hunk_id, numbers in new.items()
            # If one of several equal hunks is gone, it is not known which one.
            if len(old.get(hunk_id, ())) == len(numbers)
            for earlier, number in zip(old[hunk_id], numbers, strict=True)
            if earlier in self.hunks
        }

    def difference(self, path: str) -> Markup:
        """Return what the edited text changes in the newer merged text."""
        sides = ((FILE, text.encode()) for text in (self.newer, self.content or ""))
        return differences.diff(file_patch(path, *sides).decode("utf-8", "replace"))


class UndecidedError(NotMergeableError):
    """A conflict without a choice; ``anchor`` is its place on the page, and ``label`` the words of the link to it."""

    anchor = label = ""

    def at(self, anchor: str, label: str) -> Self:
        """Return this error with the place to go to."""
        self.anchor, self.label = anchor, label
        return self


class NewerTextError(CovaltError):
    """A choice would drop a later change that the page did not show."""

    code = "moved"
    http_status = 409


def check_newest(choices: Mapping[str, Chosen]) -> None:
    """Check that no choice drops a change that came after its page was shown, unless the user has confirmed that.

    Raises:
        NewerTextError: with the first file where it would.
    """
    for path, choice in choices.items():
        if choice.decision == "hunks" and choice.moved:
            raise NewerTextError(
                f"{path!r} has changed since this page was shown", hint=choice.hint
            )
        if choice.decision == "content" and choice.stale and not choice.replaces:
            raise NewerTextError(
                f"the merge of {path!r} has changed since you began to edit its result",
                hint="add the other change to your text, or confirm that your text replaces it",
            )


def _numbers(ids: Mapping[int, str]) -> dict[str, list[int]]:
    """Return the numbers of hunks by their ids, in order."""
    numbers: dict[str, list[int]] = {}
    for number in sorted(ids):
        numbers.setdefault(ids[number], []).append(number)
    return numbers


def _hint(count: int, hunks: Mapping[int, str], total: int) -> str:
    """Return how many of ``count`` decisions still apply, and which of ``total`` hunks have none."""
    if len(hunks) == count:
        words = "your choices still apply, because their changes are the same" if count else ""
    elif hunks:
        verb = "applies" if len(hunks) == 1 else "apply"
        words = f"{len(hunks)} of your {count} choices still {verb}, because the change is the same"
    else:
        words = "no choice applies any more, because the changes are different now"
    missing = [str(number) for number in range(1, total + 1) if number not in hunks]
    if not missing:
        return words
    return f"{words}{'; ' if words else ''}choose for {'change' if len(missing) == 1 else 'changes'} {', '.join(missing)}"


def check_hunks(
    choices: dict[str, Chosen], conflicts: Sequence[Conflict | WaitingConflict]
) -> None:
    """Check that each hunk of a file that is decided by hunks has a choice.

    Raises:
        NotMergeableError: with those of the first file that have none.
    """
    for position, conflict in enumerate(conflicts, 1):
        choice = choices.get(conflict.path) or choices.get(conflict.saved_as or "")
        if conflict.hunks is None or choice is None or choice.decision != "hunks":
            continue
        missing = [
            str(number)
            for number in range(1, len(conflict.hunks.hunks) + 1)
            if number not in choice.hunks
        ]
        if missing:
            which = "change" if len(missing) == 1 else "changes"
            raise UndecidedError(
                f"{which} {', '.join(missing)} of {conflict.path!r} {'has' if len(missing) == 1 else 'have'} no choice",
                hint="choose the lines of one version or of both, or a choice for the whole file",
                http_status=400,
            ).at(f"change-{position}-{missing[0]}", f"Go to change {missing[0]}")


def undecided(conflicts: Sequence[Conflict], choices: Mapping[str, Chosen]) -> UndecidedError:
    """Return the error of conflicts without a choice, which may be new since the page was shown."""
    paths = [conflict.path for conflict in conflicts if conflict.path not in choices]
    position = next(
        (at for at, conflict in enumerate(conflicts, 1) if conflict.path not in choices), 1
    )
    return UndecidedError(
        f"{listed(paths)} {'has a conflict' if len(paths) == 1 else 'have conflicts'} without a choice",
        hint="make a choice for each conflict below",
    ).at(f"conflict-{position}", "Go to this conflict")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
