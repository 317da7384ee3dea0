"""The fields of a form about a conflict, whose edited text must not drop a change that came later."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import FILE
from covalt_git.git_store.patches import file_patch
from covalt_server.render import differences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from markupsafe import Markup


class Chosen(NamedTuple):
    """The fields of a form about one conflict: the decision, those about hunks by number, and the edited text.

    Attributes:
        merged: digest of the merged text that the edited text began with; empty without one.
        stale: whether the merged text has changed since then.
        replaces: whether the user has confirmed that the edited text replaces the newer merged text.
        newer: the merged text as it is now.
        moved: whether the file has changed since its hunks were shown.
    """

    decision: str
    hunks: dict[int, str]
    versions: str | None
    content: str | None
    merged: str = ""
    stale: bool = False
    replaces: bool = False
    newer: str = ""
    moved: bool = False

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

    def compared(self, merged: str, versions: str | None) -> Chosen:
        """Return this for a page with the ``merged`` text as it is now, of these versions.

        Decisions about the hunks of other versions are dropped: the same number is another hunk.
        """
        is_newer = bool(self.merged) and self.merged != digest(merged)
        same = self.versions in {None, versions}
        return self._replace(
            hunks=self.hunks if same else {},
            merged=digest(merged),
            # It stays so, although the next page is compared with the newer text: the edited text still lacks the change.
            stale=self.stale or is_newer,
            # The user has confirmed this for the text on the page, not for one that came later
            # (test_an_edited_result_does_not_drop_a_line_that_comes_later).
            replaces=self.replaces and not is_newer,
            newer=merged,
            moved=not same,
        )

    def difference(self, path: str) -> Markup:
        """Return what the edited text changes in the newer merged text."""
        sides = ((FILE, text.encode()) for text in (self.newer, self.content or ""))
        return differences.diff(file_patch(path, *sides).decode("utf-8", "replace"))


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
                f"{path!r} has changed since its hunks were shown",
                hint="decide about the hunks as they are now",
            )
        if choice.decision == "content" and choice.stale and not choice.replaces:
            raise NewerTextError(
                f"the merge of {path!r} has changed since you began to edit its result",
                hint="add the other change to your text, or confirm that your text replaces it",
            )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
