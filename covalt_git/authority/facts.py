"""Facts about permissions, their changes, and the places in files that define them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.manifests.reading import Reading

Verdict = Literal["widening", "narrowing", "neutral"]

Loc = tuple[str | int, ...]


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """A place in a file of the project; line and column count from 1, and are 0 for the whole file."""

    path: str
    line: int = 0
    col: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.col}" if self.line else self.path


def place_in(reading: Reading[Any], loc: Loc, *, key: bool = False) -> Place:
    """Return the place of a value in a file, or of its parent if the file does not contain it."""
    if reading.document is None:
        return Place(reading.path)
    return Place(reading.path, *reading.document.locate(loc, key=key))


@dataclass(frozen=True, slots=True)
class Fact:
    """One permission or property of a subject.

    Attributes:
        subject: ``web-fetch``, ``web-fetch:search``, ``role 'reviewer'``.
        kind: a key of :data:`covalt_git.authority.kinds.KINDS`.
        item: distinguishes facts of the same kind, such as a host or a pattern; may be empty.
        value: a JSON value, or a value that the kind's ``judge`` compares.
        place: the place that defines it.
        implied: whether it follows from another fact, which is reported in its place.
        locate: returns the place of a part of the value.
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
        """Identity of the fact in other snapshots of the project."""
        return self.subject, self.kind, self.item


@dataclass(frozen=True, slots=True)
class FactChange:
    """One difference between two snapshots, with its verdict.

    Attributes:
        verdict: whether more is permitted than before, less, or neither.
        certain: false if this cannot be decided, which counts as a widening.
        subject: subject of the changed fact.
        kind: kind of the changed fact.
        message: what is newly permitted or no longer permitted.
        at: the place in HEAD; None if the fact is removed.
        was: the place in BASE; None if the fact is new.
        details: further lines, such as the permissions of a new tool.
        near: for a removed fact, the place of its subject in HEAD.
        item: item of the changed fact; never output, because it may have a credential.
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
    item: Annotated[str, Field(exclude=True)] = field(default="", compare=False, repr=False)


class Judgement(NamedTuple):
    """The verdict on one changed value, its description, and the part of the value that changed.

    Attributes:
        reason: the end of the description, if it says why other facts of the subject changed too; they are one line.
    """

    verdict: Verdict
    words: str
    certain: bool = True
    loc: Loc = ()
    reason: str = ""


def unclear(words: str, loc: Loc = ()) -> Judgement:
    """Return the verdict on an undecidable change, which counts as a widening."""
    return Judgement("widening", words, certain=False, loc=loc)
