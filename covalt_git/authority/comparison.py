"""Two states of a project, compared: what HEAD permits that BASE did not, and the other way round."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.authority.config_changes import person_changes, rule_changes, tools_gained
from covalt_git.authority.facts import Change, Fact, Place
from covalt_git.authority.kinds import KINDS, OPPOSITE, judge
from covalt_git.credentials.leaks import blotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from covalt_git.authority.facts import Verdict
    from covalt_git.authority.snapshots import Part, State
    from covalt_git.errors import Problem

_ORDER: dict[Verdict, int] = {"widening": 0, "narrowing": 1, "neutral": 2}
_OF_ONE_SERVER = frozenset({"process", "server_grant"})
_WHOLE = frozenset({"approvals", "default_role"})
"""Kinds of facts that are compared together with others, by :mod:`~covalt_git.authority.approval_rules` and ``default_role``."""


class Comparison(NamedTuple):
    """All that differs between BASE and HEAD, sorted, widenings first; and what is wrong in either."""

    base: State
    head: State
    changes: tuple[Change, ...]

    @property
    def grown(self) -> bool:
        """Whether anything is permitted in HEAD that was not in BASE, or nobody can tell."""
        return any(change.verdict == "widening" for change in self.changes)

    def of(self, verdict: Verdict) -> tuple[Change, ...]:
        """Return the changes of one verdict."""
        return tuple(change for change in self.changes if change.verdict == verdict)

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """The errors of either state, each with ``BASE`` or ``HEAD``."""
        named = (("BASE", self.base), ("HEAD", self.head))
        return tuple(
            (name, one)
            for name, state in named
            for one in state.problems
            if one.severity == "error"
        )


def compare(base: State, head: State) -> Comparison:
    """Return how what is permitted differs between two states of a project."""
    known = base.config.value is not None and head.config.value is not None
    before = base.parts(base.config.value if known else None)
    now = head.parts(head.config.value if known else None)
    changes = list(_unreadable(before, now))
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if any(part is not None and not part.readable for part in (old, new)):
            continue
        changes += _differences(old.facts if old else (), new.facts if new else ())
    if base.config.value is not None and head.config.value is not None:
        if not (
            base.config.value.roles and head.config.value.roles
        ):  # where none is defined, everybody may do everything
            changes = [
                replace(one, verdict="neutral") if one.kind == "role" else one for one in changes
            ]
        changes += rule_changes(base, head)
        changes += person_changes(base, head)
        changes = [
            replace(one, details=(*one.details, *tools_gained(base, head, one.subject)))
            if one.kind in {"allow", "admin", "deny"} and one.verdict == "widening"
            else one
            for one in changes
        ]
    found = dict.fromkeys(_blotted(one) for one in changes)
    return Comparison(base, head, tuple(sorted(found, key=_sorting)))


def _blotted(change: Change) -> Change:
    """Return a change without the credentials that somebody wrote into a file."""
    details = tuple(blotted(line) for line in change.details)
    return replace(change, message=blotted(change.message), details=details)


def _sorting(change: Change) -> tuple[int, str, Place, str]:
    place = change.at or change.was or Place("")
    return _ORDER[change.verdict], change.subject, place, change.message


# What cannot be read


def _unreadable(before: Mapping[str, Part], now: Mapping[str, Part]) -> Iterator[Change]:
    """Tell of each part with errors in either state that nobody can tell what it permits.

    One whose files are the same in both is as it was.
    """
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        broken = [
            (word, part)
            for word, part in (("BASE", old), ("HEAD", new))
            if part is not None and (part.problems or not part.readable)
        ]
        if not broken or (old is not None and new is not None and old.digest == new.digest):
            continue
        if new is None:
            message = f"{name} is gone, which had errors"
            yield Change("narrowing", True, name, "unreadable", message, None, _problem_place(old))
            continue
        where = " and ".join(word for word, _ in broken)
        whole = all(part.readable for _, part in broken)
        words = f"has errors in {where}: nobody can tell " + (
            "all that it permits" if whole else "what it permits"
        )
        yield Change(
            "widening",
            certain=False,
            subject=name,
            kind="unreadable",
            message=f"{name} {words}",
            at=_problem_place(new),
            was=_problem_place(old),
            details=tuple(f"{word}: {one}" for word, part in broken for one in _lines(part)),
        )


def _problem_place(part: Part | None) -> Place | None:
    if part is None:
        return None
    if not part.problems:
        return Place(part.name)
    return Place(part.problems[0].path, part.problems[0].line, part.problems[0].col)


def _lines(part: Part) -> list[str]:
    return [str(one).partition("\n")[0] for one in part.problems]


# What can


def _differences(before: Sequence[Fact], now: Sequence[Fact]) -> Iterator[Change]:
    old, new = _numbered(before), _numbered(now)
    gone = _existing(before) - _existing(now)
    came = _existing(now) - _existing(before)
    for key, fact in new.items():
        if key in old:
            yield from _changed(old[key], fact)
        elif not _folded(fact, came | gone):
            yield from _added(fact, before, _along(fact, now) if KINDS[fact.kind].exists else ())
    for key, fact in old.items():
        if key not in new and not _folded(fact, came | gone):
            yield from _removed(fact, now)


def _numbered(facts: Sequence[Fact]) -> dict[tuple[str, str, str, int], Fact]:
    """Return the facts by their keys, those of one key numbered by what they say; none is lost."""
    found: dict[tuple[str, str, str, int], Fact] = {}
    for key, alike in groupby(sorted(facts, key=lambda one: one.key), key=lambda one: one.key):
        values = {repr(one.value): one for one in alike}
        for number, value in enumerate(sorted(values)):
            found[*key, number] = values[value]
    return found


def _existing(facts: Iterable[Fact]) -> set[str]:
    return {fact.subject for fact in facts if KINDS[fact.kind].exists}


def _folded(fact: Fact, subjects: set[str]) -> bool:
    """Tell whether a fact only comes or goes because its subject does, or what that is part of."""
    kind = KINDS[fact.kind]
    if kind.alone:
        return False
    above = fact.subject.partition(", ")[0]
    if above != fact.subject and above in subjects:
        return True
    return fact.subject in subjects and not kind.exists


def _along(fact: Fact, facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return what comes with a subject, in words, what it does before how much of it."""
    order = {kind: position for position, kind in enumerate(KINDS)}
    along = [
        one
        for one in facts
        if one.subject.partition(", ")[0] == fact.subject and one is not fact and not one.implied
    ]
    told = []
    for one in sorted(along, key=lambda one: order[one.kind]):
        whose = one.subject.removeprefix(fact.subject).removeprefix(", ")
        words = KINDS[one.kind].words(one)
        if words and not KINDS[one.kind].alone:
            told.append(f"{whose} {words}".strip())
    return tuple(told)


def _added(fact: Fact, before: Sequence[Fact], details: tuple[str, ...]) -> Iterator[Change]:
    kind = KINDS[fact.kind]
    if fact.kind in _WHOLE or fact.implied:
        return
    verdict = "neutral" if _covered(fact, before) else kind.came
    message = f"{fact.subject} {kind.words(fact)}"
    yield Change(
        verdict, not kind.unclear, fact.subject, fact.kind, message, fact.place, None, details
    )


def _removed(fact: Fact, now: Sequence[Fact]) -> Iterator[Change]:
    kind = KINDS[fact.kind]
    if fact.kind in _WHOLE or fact.implied:
        return
    verdict = kind.came if kind.unclear else OPPOSITE[kind.came]
    if _covered(fact, now):
        verdict = "neutral"
    message = f"{fact.subject} {kind.lost_words(fact)}"
    near = next(
        (one.place for one in now if one.subject == fact.subject and KINDS[one.kind].exists), None
    )
    stale = f"{fact.kind} {fact.item}"
    if any(one.kind == "stale" and one.item == stale for one in now):
        message += (
            ": it is another than was granted"
            if fact.kind in _OF_ONE_SERVER
            else ": a file of it has changed since that was granted"
        )
    yield Change(
        verdict, not kind.unclear, fact.subject, fact.kind, message, None, fact.place, near=near
    )


def _covered(fact: Fact, others: Sequence[Fact]) -> bool:
    """Tell whether another fact of the same kind says as much or more."""
    within = KINDS[fact.kind].within
    if within is None:
        return False
    return any(
        one.subject == fact.subject
        and one.kind == fact.kind
        and one.value == fact.value
        and within(fact.item, one.item)
        for one in others
    )


def _changed(old: Fact, new: Fact) -> Iterator[Change]:
    if new.kind in _WHOLE:
        return
    for found in judge(old, new):
        at = new.locate(found.loc) if new.locate else new.place
        was = old.locate(found.loc) if old.locate else old.place
        words = f"{new.subject} {found.words}"
        if new.kind == "schema":
            words = f"{new.subject}: {found.words}"
        yield Change(found.verdict, found.certain, new.subject, new.kind, words, at, was)
