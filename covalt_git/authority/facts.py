"""A fact of what is permitted, a change of one, and the place in a file that says it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Verdict = Literal["widening", "narrowing", "neutral"]

Loc = tuple[str | int, ...]


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where something stands: a file of the project, line and column from 1; 0 without a line."""

    path: str
    line: int = 0
    col: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.col}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that holds of a subject.

    Attributes:
        subject: who it is about: ``web-fetch``, ``web-fetch:search``, ``role 'reviewer'``.
        kind: what kind of thing, a key of :data:`covalt_git.authority.kinds.KINDS`.
        item: which one of that kind, as a host or a pattern; empty where there is one only.
        value: what it is, where an item does not tell all; a JSON value, or what its kind compares.
        place: what says so.
        implied: whether it follows from another fact, which is the one that people are told.
        locate: the place of a part of the value.
    """

    subject: str
    kind: str
    item: str
    value: Any
    place: Place
    implied: bool = False
    locate: Callable[[Loc], Place] | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """What the fact is found by in another state of the project."""
        return self.subject, self.kind, self.item


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two states, judged.

    Attributes:
        verdict: whether more is permitted than before, less, or neither.
        certain: false where nobody can tell, which counts as a widening.
        subject: as of the fact that changed.
        kind: as of the fact that changed.
        message: in words, what is permitted now and was not, or the other way round.
        at: the place in HEAD; None where nothing of it is left there.
        was: the place in BASE; None where nothing of it was there.
        near: where in HEAD to look for what is gone from there, as the tool that it was of.
        details: more lines of words, such as what comes along with a new tool.
    """

    verdict: Verdict
    certain: bool
    subject: str
    kind: str
    message: str
    at: Place | None
    was: Place | None
    details: tuple[str, ...] = ()
    near: Place | None = None


class Judged(NamedTuple):
    """What became of one value: whether that is wider, in words, and at which part of the value."""

    verdict: Verdict
    words: str
    certain: bool = True
    loc: Loc = ()


def unclear(words: str, loc: Loc = ()) -> Judged:
    """Return the judgement of what nobody can tell: it counts as a widening."""
    return Judged("widening", words, certain=False, loc=loc)
