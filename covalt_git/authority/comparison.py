"""Comparison of two snapshots of a project: what HEAD permits and BASE does not, and the reverse."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.authority.config_changes import (
    default_role_changes,
    details_of_gained,
    rule_changes,
    tools_gained,
)
from covalt_git.authority.facts import Fact, FactChange, Place
from covalt_git.authority.kinds import KINDS, OPPOSITE, judge
from covalt_git.authority.project_facts import EVERYTHING
from covalt_git.credentials.leaks import blotted
from covalt_git.names import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from covalt_git.authority.facts import Judgement, Verdict
    from covalt_git.authority.snapshots import ProjectSnapshot, SnapshotPart
    from covalt_git.errors import Problem
    from covalt_git.models.tool import Tool

_ORDER: dict[Verdict, int] = {"widening": 0, "narrowing": 1, "neutral": 2}
_Key = tuple[str, str, str, int]
_OF_ONE_SERVER = frozenset({"process", "server_grant", "server_use"})


class Comparison(NamedTuple):
    """Changes between BASE and HEAD, sorted, widenings first; and the problems of both."""

    base: ProjectSnapshot
    head: ProjectSnapshot
    changes: tuple[FactChange, ...]

    @property
    def grown(self) -> bool:
        """Whether HEAD permits, or may permit, something that BASE does not."""
        return any(change.verdict == "widening" for change in self.changes)

    @property
    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """The errors of both snapshots, each with ``BASE`` or ``HEAD``."""
        named = (("BASE", self.base), ("HEAD", self.head))
        return tuple(
            (name, problem)
            for name, snapshot in named
            for problem in snapshot.problems
            if problem.severity == "error"
        )


def compare(base: ProjectSnapshot, head: ProjectSnapshot) -> Comparison:
    """Return the changes of permissions between two snapshots of a project."""
    has_config = base.config.value is not None and head.config.value is not None
    # One unreadable covalt.yaml would make all limits and rules of tools look changed, so both get the
    # defaults.
    base_parts = base.parts(base.config.value if has_config else None)
    head_parts = head.parts(head.config.value if has_config else None)
    changes = list(_unreadable(base_parts, head_parts))
    for name in sorted(base_parts.keys() | head_parts.keys()):
        old, new = base_parts.get(name), head_parts.get(name)
        # Compared with nothing, each of its permissions would look new, or removed.
        if any(part is not None and not part.readable for part in (old, new)):
            continue
        changes += _differences(old.facts if old else (), new.facts if new else ())
    if has_config:
        if not (base.settings.roles and head.settings.roles):
            # Without roles, every user may do everything.
            changes = [
                replace(change, verdict="neutral") if change.kind == "role" else change
                for change in changes
            ]
        changes += rule_changes(base, head)
        changes += default_role_changes(base, head)
    reported = sorted(dict.fromkeys(_blotted(change) for change in changes), key=_sorting)
    if has_config:
        reported = list(_with_gained_tools(base, head, reported))
    return Comparison(base, head, tuple(reported))


def _with_gained_tools(
    base: ProjectSnapshot, head: ProjectSnapshot, changes: Iterable[FactChange]
) -> Iterator[FactChange]:
    """Add the tools that a role may newly call to the changes: each to the first wider pattern that matches it."""
    left: dict[str, list[Tool]] = {}
    for change in changes:
        if change.kind not in {"allow", "admin", "deny"} or change.verdict != "widening":
            yield change
            continue
        if change.subject not in left:
            left[change.subject] = tools_gained(base, head, change.subject)
        pattern = change.item or EVERYTHING
        gained = [tool for tool in left[change.subject] if matches(pattern, tool.path)]
        left[change.subject] = [
            tool for tool in left[change.subject] if not matches(pattern, tool.path)
        ]
        yield replace(change, details=(*change.details, *details_of_gained(gained)))


def _blotted(change: FactChange) -> FactChange:
    """Return a change without the credentials that a file contains."""
    # The report goes into the summary of a pull request, which more people read than the files.
    details = tuple(blotted(line) for line in change.details)
    return replace(change, message=blotted(change.message), details=details)


def _sorting(change: FactChange) -> tuple[int, str, Place, str]:
    place = change.at or change.was or Place("")
    return _ORDER[change.verdict], change.subject, place, change.message


# Unreadable parts


def _unreadable(
    base: Mapping[str, SnapshotPart], head: Mapping[str, SnapshotPart]
) -> Iterator[FactChange]:
    """Yield a change for each part with errors in either snapshot, unless its files are unchanged."""
    for name in sorted(base.keys() | head.keys()):
        old, new = base.get(name), head.get(name)
        broken = [
            (word, part)
            for word, part in (("BASE", old), ("HEAD", new))
            if part is not None and (part.problems or not part.readable)
        ]
        # An error that both have, in unchanged files, permits what it permitted.
        if not broken or (old is not None and new is not None and old.digest == new.digest):
            continue
        if new is None:
            message = f"{name}, which had errors, is removed"
            yield FactChange(
                "narrowing", True, name, "unreadable", message, None, _problem_place(old)
            )
            continue
        where = " and ".join(word for word, _ in broken)
        some = "some of " if all(part.readable for _, part in broken) else ""
        yield FactChange(
            "widening",
            certain=False,
            subject=name,
            kind="unreadable",
            message=f"{name} has errors in {where}, so {some}its permissions are unknown",
            at=_problem_place(new),
            was=_problem_place(old),
            # The first lines only: the others are hints, which are for the author of the file.
            details=tuple(
                f"{word}: {problem}".partition("\n")[0]
                for word, part in broken
                for problem in part.problems
            ),
        )


def _problem_place(part: SnapshotPart | None) -> Place | None:
    if part is None:
        return None
    if not part.problems:
        return Place(part.name)
    return Place(part.problems[0].path, part.problems[0].line, part.problems[0].col)


# Readable parts


def _differences(base: Sequence[Fact], head: Sequence[Fact]) -> Iterator[FactChange]:
    old, new = _by_key(base), _by_key(head)
    subjects = _existing(base) ^ _existing(head)
    yield from _changes(old, new)
    for key, fact in new.items():
        if key in old:
            continue
        # A new toolset is one change with details: a line for each of its facts would hide what matters.
        if not (fact.implied or _is_implied_by(fact, subjects)):
            yield _added(fact, base, head)
    ended: list[Fact] = []
    for key, fact in old.items():
        if key in new or fact.implied or _is_implied_by(fact, subjects):
            continue
        # The grant is still in the state file, so "removed" would be wrong: it ended with the files.
        if _is_stale(fact, head):
            ended.append(fact)
        else:
            yield _removed(fact, head)
    yield from _ended_grants(ended, base, head)


def _is_stale(fact: Fact, head: Iterable[Fact]) -> bool:
    """Return whether a fact is that of a grant that changed files have ended."""
    item = f"{fact.kind} {fact.item}"
    return any(
        other.kind == "stale" and (other.subject, other.item) == (fact.subject, item)
        for other in head
    )


def _ended_grants(
    ended: Iterable[Fact], base: Sequence[Fact], head: Sequence[Fact]
) -> Iterator[FactChange]:
    """Yield the changes of grants that changed files have ended: one for all of a subject, and one for each program.

    Code of a program that was granted decides what it does, as its arguments do, so its change cannot be decided.
    """
    others: dict[str, list[Fact]] = {}
    for fact in ended:
        server = f"server {fact.subject}:{fact.item}"
        definition = _definition(server, head)
        is_same = definition == _definition(server, base) and _has_same_grant(fact, head)
        if fact.kind == "process" and definition and is_same:
            place = next(other.place for other in head if other.subject == server)
            message = f"{server} has a grant for all files of {fact.subject}: some have changed, so it ends"
            yield FactChange(
                *("widening", False, fact.subject, fact.kind, message, place, fact.place),
                item=fact.item,
            )
        elif not _is_covered(fact, head):
            others.setdefault(fact.subject, []).append(fact)
    for subject, facts in others.items():
        lost = [KINDS[fact.kind].lost_words(fact) for fact in facts]
        words = [lost[0], *(text.removeprefix("may no longer ") for text in lost[1:])]
        is_server = all(fact.kind in _OF_ONE_SERVER for fact in facts)
        reason = "the server has changed" if is_server else "its files have changed"
        message = f"{subject} {', '.join(words)}: {reason} since the grant"
        if is_server and not any(
            _definition(f"server {subject}:{fact.item}", head) for fact in facts
        ):
            message = f"{subject} {', '.join(words)}: it has no such server any more"
        places = (
            other.place for other in head if other.subject == subject and KINDS[other.kind].exists
        )
        yield FactChange(
            *("narrowing", True, subject, facts[0].kind, message, None, facts[0].place),
            item=facts[0].item,
            near=next(places, None),
        )


def _has_same_grant(fact: Fact, head: Iterable[Fact]) -> bool:
    """Return whether a grant that has ended is the same in the state file."""
    item = f"{fact.kind} {fact.item}"
    return any(
        (other.kind, other.item, other.value) == ("stale", item, fact.value) for other in head
    )


def _definition(server: str, facts: Iterable[Fact]) -> list[tuple[str, str, str]]:
    """Return what defines a server: its command, and its variables."""
    return sorted(
        (fact.kind, fact.item, repr(fact.value))
        for fact in facts
        if fact.subject == server and fact.kind in {"server", "variable"}
    )


def _by_key(facts: Sequence[Fact]) -> dict[_Key, Fact]:
    """Return the facts by their keys; facts with equal keys are numbered in the order of their values."""
    numbered: dict[_Key, Fact] = {}
    for key, group in groupby(sorted(facts, key=lambda fact: fact.key), key=lambda fact: fact.key):
        values = {repr(fact.value): fact for fact in group}
        for number, value in enumerate(sorted(values)):
            numbered[*key, number] = values[value]
    return numbered


def _existing(facts: Iterable[Fact]) -> set[str]:
    return {fact.subject for fact in facts if KINDS[fact.kind].exists}


def _is_implied_by(fact: Fact, subjects: set[str]) -> bool:
    """Return whether a fact is new or removed only because its subject, one of ``subjects``, is.

    A subject such as ``notes:write, its token`` is a part of the subject ``notes:write``.
    """
    kind = KINDS[fact.kind]
    if kind.alone:
        return False
    above = fact.subject.partition(", ")[0]
    if above != fact.subject and above in subjects:
        return True
    return fact.subject in subjects and not kind.exists


def _details(fact: Fact, facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return a line for each other fact of a new subject, in the order of :data:`KINDS`."""
    order = {kind: position for position, kind in enumerate(KINDS)}
    others = [
        other
        for other in facts
        if other.subject.partition(", ")[0] == fact.subject
        and other is not fact
        and not other.implied
    ]
    lines = []
    for other in sorted(others, key=lambda other: order[other.kind]):
        part = other.subject.removeprefix(fact.subject).removeprefix(", ")
        words = KINDS[other.kind].words(other)
        if words and not KINDS[other.kind].alone:
            lines.append(f"{part} {words}".strip())
    return tuple(lines)


def _added(fact: Fact, base: Sequence[Fact], head: Sequence[Fact]) -> FactChange:
    kind = KINDS[fact.kind]
    change = _one_sided(fact, base, kind.added, kind.words(fact))
    return replace(change, at=fact.place, details=_details(fact, head) if kind.exists else ())


def _removed(fact: Fact, head: Sequence[Fact]) -> FactChange:
    kind = KINDS[fact.kind]
    words = kind.lost_words(fact)
    places = (
        other.place for other in head if other.subject == fact.subject and KINDS[other.kind].exists
    )
    verdict = kind.added if kind.unclear else OPPOSITE[kind.added]
    change = _one_sided(fact, head, verdict, words)
    return replace(change, was=fact.place, near=next(places, None))


def _one_sided(fact: Fact, others: Sequence[Fact], verdict: Verdict, words: str) -> FactChange:
    """Return the change of a fact that the other snapshot lacks; ``others`` are its facts."""
    if _is_covered(fact, others):
        verdict = "neutral"
    certain, message = not KINDS[fact.kind].unclear, f"{fact.subject} {words}"
    return FactChange(
        verdict, certain, fact.subject, fact.kind, message, None, None, item=fact.item
    )


def _is_covered(fact: Fact, others: Sequence[Fact]) -> bool:
    """Return whether another fact of the same kind permits as much or more."""
    within = KINDS[fact.kind].within
    if within is None:
        return False
    return any(
        other.subject == fact.subject
        and other.kind == fact.kind
        and other.value == fact.value
        and within(fact.item, other.item)
        for other in others
    )


def _changes(old: Mapping[_Key, Fact], new: Mapping[_Key, Fact]) -> Iterator[FactChange]:
    """Yield the changes of facts that both snapshots have: one for all of a subject that have the same reason."""
    joined: dict[tuple[str, Verdict, bool, str], list[tuple[Fact, Fact, Judgement]]] = {}
    for key, fact in new.items():
        for judgement in judge(old[key], fact) if key in old else ():
            if judgement.reason:
                same = (fact.subject, judgement.verdict, judgement.certain, judgement.reason)
                joined.setdefault(same, []).append((old[key], fact, judgement))
            else:
                yield _changed(old[key], fact, judgement)
    for (*_, reason), changed in joined.items():
        first, *others = (judgement.words for _, _, judgement in changed)
        words = ", ".join([first, *(text.removeprefix("may ") for text in others)])
        old_fact, new_fact, judgement = changed[0]
        yield _changed(old_fact, new_fact, judgement._replace(words=f"{words}: {reason}"))


def _changed(old: Fact, new: Fact, judgement: Judgement) -> FactChange:
    at = new.locate(judgement.loc) if new.locate else new.place
    was = old.locate(judgement.loc) if old.locate else old.place
    words = f"{new.subject} {judgement.words}"
    if new.kind == "schema":
        words = f"{new.subject}: {judgement.words}"
    return FactChange(judgement.verdict, judgement.certain, new.subject, new.kind, words, at, was)
