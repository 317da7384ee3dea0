"""Edits of a text: which characters are replaced by what, and what the text then says."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - NamedTuple reads it
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.files.model_errors import Loc  # noqa: TC001 - NamedTuple reads it

if TYPE_CHECKING:
    from collections.abc import Sequence


class Edit(NamedTuple):
    """The characters from ``start`` to ``end`` become ``new``; equal ends insert."""

    start: int
    end: int
    new: str


class Mend(NamedTuple):
    """One problem that is mended: the edits of the text, and ``change`` that does it to the data."""

    code: str
    loc: Loc
    words: str
    edits: tuple[Edit, ...]
    change: Callable[[Any], None]


def edited(text: str, mends: Sequence[Mend]) -> str:
    """Return the text with all edits made; those of one place in their order, equal ones once."""
    parts = []
    done = 0
    edits = dict.fromkeys(edit for mend in mends for edit in mend.edits)
    for edit in sorted(edits, key=lambda one: one.start):
        parts += [text[done : edit.start], edit.new]
        done = max(done, edit.end)
    return "".join([*parts, text[done:]])
