"""One-line form of calls and commits: icon, action, and rows that fold to one line."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.commit_record import Source
    from covalt_git.operations.calls.calls import CallAnswer
    from covalt_git.operations.chats.conversation import ConversationPage
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.results import CallLine

FEWEST_FOLDED = 3
MOST_OBJECTS = 3
"""Number of objects that the line of folded calls names."""

_PAGES = frozenset({"html", "frame"})

Icon = Literal[
    "tool", "file", "read", "edit", "run", "search", "web", "page", "merge", "undo", "message"
]

_VERBS: dict[Icon, str] = {
    "file": "write create save add make new copy upload import",
    "read": "read get show open load view list report describe",
    "edit": "edit replace patch update rename move change set delete remove",
    "run": "run exec execute command shell bash start test",
    "search": "search find grep query select filter count",
    "web": "fetch download request http browse forecast send",
}
_ICONS = {verb: icon for icon, verbs in _VERBS.items() for verb in verbs.split()}
_SOURCES: dict[Source, Icon] = {
    "user_upload": "file",
    "push": "file",
    "edit": "edit",
    "restore": "undo",
    "merge": "merge",
    "message": "message",
}


class Fold(NamedTuple):
    """Consecutive rows of a turn: equal successful calls, which fold from three on, or one other row."""

    rows: tuple[ManifestRow, ...]

    @property
    def is_folded(self) -> bool:
        """Whether the rows are shown as one line that can be opened."""
        return len(self.rows) >= FEWEST_FOLDED

    @property
    def objects(self) -> str:
        """The objects of the calls, each once: the first ones, and how many others there are."""
        names = dict.fromkeys(row.call.object for row in self.rows if row.call and row.call.object)
        rest = [f"+{len(names) - MOST_OBJECTS}"] if len(names) > MOST_OBJECTS else []
        return ", ".join([*names][:MOST_OBJECTS] + rest)


def folds(rows: Sequence[ManifestRow], open_call: str | None) -> list[Fold]:
    """Return the rows of a turn in order; ``open_call`` is the id of a call that is not folded."""

    def key(row: ManifestRow) -> tuple[str, ...]:
        call = row.call
        is_alone = row.undone_by is not None  # so that its row says that it was undone
        if call is None or call.status != "success" or call.id == open_call or is_alone:
            return ("row", row.id)
        return ("calls", call.tool_id)

    lines = []
    for _, group in groupby(rows, key):
        fold = Fold(tuple(group))
        lines += [fold] if fold.is_folded else [Fold((row,)) for row in fold.rows]
    return lines


def opened(page: ConversationPage) -> str | None:
    """Return the id of the call whose result is open: the last that failed, or that has a page."""
    calls = [row.call for turn in page.turns for row in turn.rows if row.call is not None]
    last = (
        call.id for call in reversed(calls) if call.status == "error" or call.renderer in _PAGES
    )
    return next(last, None)


def action(tool_id: str) -> str:
    """Return what a call of a tool does: ``Write file`` for ``app-builder:write_file``."""
    words = re.sub(r"[_\W]+", " ", tool_id.rpartition(":")[2]).strip()
    return words[:1].upper() + words[1:] or tool_id


def call_state(call: CallLine | CallAnswer) -> str:
    """Return the word for the state of a call: that of its approval if this is why it did not run."""
    code = (call.error or "").partition(":")[0]
    return code if code in {"denied", "expired"} else call.status


def call_icon(call: CallLine) -> Icon:
    """Return the icon of a call: of a page, or of the first verb in the name of the tool."""
    if call.renderer in _PAGES:
        return "page"
    words = re.findall("[a-z]+", call.tool_id.rpartition(":")[2].lower())
    return next((_ICONS[word] for word in words if word in _ICONS), "tool")


def commit_icon(row: ManifestRow) -> Icon:
    return _SOURCES.get(row.source, "tool") if row.call is None else call_icon(row.call)
