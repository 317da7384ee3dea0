"""Which calls a person is asked about: approval rules compared for all tools and arguments at once.

Rules are read from the top, the first that applies decides, and where none does the tool itself
says.  Each condition is a thing that holds of a call or does not (:data:`Atom`); two lists of rules are
compared for every way in which these can hold together.  A way that could not come about makes the
answer more careful, never wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations, product
from typing import TYPE_CHECKING

from covalt_git import canonical_json
from covalt_git.access.confirmation import is_about, with_normal_paths
from covalt_git.authority.facts import Judged, unclear
from covalt_git.authority.languages import text_within, tools_within
from covalt_git.names import beginning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.models.project_config import ApprovalRule
    from covalt_git.models.tool import Tool

Atom = tuple[str, str, str, bool]
"""A condition: ``tool`` and a pattern, ``annotation``, its name and value, or ``argument`` and the like.

The last part is whether an argument has to match both as written and as its normal path, as it has to
for a rule that lowers; for one that requires approval either is enough.
"""

_OWN: Atom = ("own", "", "", False)
"""The tool's own wish, where no rule decides."""

_MAX_ATOMS = 12
"""Conditions that are compared in every way they can hold; more are not decided about."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its conditions, which all must hold, and whether it asks."""

    conditions: frozenset[Atom]
    asks: bool


def read_rules(rules: Sequence[ApprovalRule]) -> tuple[Rule, ...]:
    """Return the project's rules, about all tools."""
    return tuple(Rule(frozenset(_atoms(rule)), rule.require) for rule in rules)


def rules_for(rules: Sequence[ApprovalRule], tool: Tool) -> tuple[Rule, ...]:
    """Return the rules that one tool's calls can meet, about their arguments; the last is its own wish."""
    found = []
    for rule in rules:
        wanted = rule.when.annotations
        given = wanted.model_dump(exclude_none=True) if wanted else {}
        if not is_about(rule, tool):
            continue
        if any(getattr(tool.annotations, name) != value for name, value in given.items()):
            continue
        found.append(Rule(frozenset(_arguments(rule)), rule.require))
        if not found[-1].conditions:
            return tuple(found)
    return (*found, Rule(frozenset(), tool.requires_confirmation))


def _atoms(rule: ApprovalRule) -> list[Atom]:
    wanted = rule.when.annotations
    given = wanted.model_dump(exclude_none=True) if wanted else {}
    said: list[Atom] = [("annotation", name, str(value), False) for name, value in given.items()]
    if rule.pattern != "**":
        said.append(("tool", "", rule.pattern, False))
    return [*said, *_arguments(rule)]


def _arguments(rule: ApprovalRule) -> list[Atom]:
    return [
        (
            "argument",
            path,
            f"={value}" if isinstance(value, str) else canonical_json.dumps(value).decode(),
            not rule.require and isinstance(value, str | list | dict),
        )
        for path, value in rule.when.args.items()
    ]


def judge_rules(old: Sequence[Rule], new: Sequence[Rule]) -> Judged:
    """Return whether fewer calls ask a person than before, which is wider."""
    if tuple(old) == tuple(new):
        return Judged("neutral", "")
    old, new = _concerned(old, new)
    atoms = sorted({atom for rule in (*old, *new) for atom in rule.conditions} | {_OWN})
    if len(atoms) > _MAX_ATOMS:
        return unclear("other rules decide who is asked")
    fewer = more = False
    impossible = _impossible(atoms)
    for values in product((True, False), repeat=len(atoms)):
        holds = dict(zip(atoms, values, strict=True))
        if any(holds[one] is a and holds[other] is b for one, a, other, b in impossible):
            continue
        before, now = _asks(old, holds), _asks(new, holds)
        fewer |= before and not now
        more |= now and not before
    if fewer and more:
        return unclear("asks a person about other calls")
    if fewer:
        return Judged("widening", "asks a person about fewer calls")
    return Judged("narrowing" if more else "neutral", "asks a person about more calls")


def _concerned(old: Sequence[Rule], new: Sequence[Rule]) -> tuple[list[Rule], list[Rule]]:
    """Return the rules that can decide about a call which a changed rule applies to.

    About every other call the rules that stayed decide, in the same order, as they did.
    """
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    kept = [old[block.a + at] for block in blocks for at in range(block.size)]
    changed = [*(Counter(old) - Counter(kept)), *(Counter(new) - Counter(kept))]

    def is_concerned(rule: Rule) -> bool:
        return any(
            not any(
                one[:2] == other[:2] and one != other and _apart(one, other)
                for one in rule.conditions
                for other in meant.conditions
            )
            for meant in changed
        )

    return [rule for rule in old if is_concerned(rule)], [
        rule for rule in new if is_concerned(rule)
    ]


def always(rules: Sequence[Rule]) -> bool | None:
    """Return whether all calls ask or none does, and None where it depends on the arguments."""
    said = {rule.asks for rule in rules}
    return said.pop() if len(said) == 1 else None


def _asks(rules: Sequence[Rule], holds: Mapping[Atom, bool]) -> bool:
    for rule in rules:
        if all(holds[atom] for atom in rule.conditions):
            return rule.asks
    return holds[_OWN]


def _impossible(atoms: Sequence[Atom]) -> list[tuple[Atom, bool, Atom, bool]]:
    """Return the pairs of conditions that cannot hold together, or not the one without the other."""
    found = []
    for one, other in combinations(atoms, 2):
        if one[:2] != other[:2]:
            continue
        if _within(one, other):
            found.append((one, True, other, False))
        if _within(other, one):
            found.append((other, True, one, False))
        if _apart(one, other):
            found.append((one, True, other, True))
    return found


def _within(one: Atom, other: Atom) -> bool:
    if one[0] == "tool":
        return tools_within(one[2], other[2])
    if one[0] != "argument" or (other[3] and not one[3]):
        return False
    if not _are_texts(one, other):
        return one[2] == other[2]
    return all(text_within(*pair) for pair in _readings(one, other))


def _apart(one: Atom, other: Atom) -> bool:
    if one[0] == "tool":
        return _begin_apart(beginning(one[2]), beginning(other[2]))
    if one[0] == "annotation":
        return True
    if not _are_texts(one, other) or "*" not in one[2] + other[2]:
        return _normal(one[2]) != _normal(other[2])
    # Where either reading is enough, `a/../b` is like `a/*` by the one and like `b` by the other.
    return (one[3] or other[3]) and all(
        _begin_apart(first.partition("*")[0], second.partition("*")[0])
        for first, second in _readings(one, other)
    )


def _are_texts(*atoms: Atom) -> bool:
    return all(atom[2].startswith("=") for atom in atoms)


def _readings(one: Atom, other: Atom) -> list[tuple[str, str]]:
    """Return two conditions on texts, as they are written and as normal paths."""
    return [(one[2][1:], other[2][1:]), (_normal(one[2])[1:], _normal(other[2])[1:])]


def _normal(value: str) -> str:
    if value.startswith("="):
        return f"={with_normal_paths(value[1:])}"
    return canonical_json.dumps(with_normal_paths(json.loads(value))).decode()


def _begin_apart(one: str, other: str) -> bool:
    return not one.startswith(other) and not other.startswith(one)
