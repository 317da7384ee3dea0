"""Approval rules of two versions of ``covalt.yaml``: which calls they require approval for.

The first rule that applies to a call decides, and where none does the tool itself.  So a rule with
``require: true`` that is inserted anywhere, or one with ``require: false`` that is removed, can only add
calls that require approval.  Any other change counts as wider.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.access.approval_required import is_about
from covalt_git.authority.facts import Change, Judged, Place, unclear
from covalt_git.authority.project_facts import EVERYTHING, PROJECT
from covalt_git.json_values import canonical_json
from covalt_git.models.project_config import ApprovalCondition, ApprovalRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from covalt_git.authority.facts import Verdict
    from covalt_git.authority.snapshots import State
    from covalt_git.models.tool import Tool

_MANY = 8
"""Tools that are named where more are concerned."""


def rules_for(rules: Sequence[ApprovalRule], tool: Tool) -> tuple[ApprovalRule, ...]:
    """Return the rules that calls of one tool can meet, by their arguments; the last is its own wish."""
    found = []
    for rule in rules:
        wanted = _annotations(rule)
        if is_about(rule, tool) and wanted.items() <= tool.annotations.model_dump().items():
            found.append(_about_all(rule.require, rule.when.args))
            if not rule.when.args:
                return tuple(found)
    return (*found, _about_all(tool.requires_confirmation, {}))


def _about_all(require: bool, args: dict[str, Any]) -> ApprovalRule:  # noqa: FBT001 - as of the rule
    return ApprovalRule(pattern=EVERYTHING, when=ApprovalCondition(args=args), require=require)


def always(rules: Sequence[ApprovalRule]) -> bool | None:
    """Return whether all calls require approval or none does; None where the arguments decide."""
    said = {rule.require for rule in rules}
    return said.pop() if len(said) == 1 else None


def judge_rules(old: Sequence[ApprovalRule], new: Sequence[ApprovalRule]) -> Judged:
    """Return whether fewer calls require approval than before, which is wider."""
    if list(map(_key, old)) == list(map(_key, new)):
        return Judged("neutral", "")
    if _is_stricter(old, new):
        return Judged("narrowing", "asks a person about more calls")
    if _is_stricter(new, old):
        return Judged("widening", "asks a person about fewer calls")
    return unclear("asks a person about other calls")


def _is_stricter(old: Sequence[ApprovalRule], new: Sequence[ApprovalRule]) -> bool:
    """Return whether only rules that require approval were inserted, and only others removed."""
    went, came = _beyond(old, new), _beyond(new, old)
    stayed, stay = (
        [_key(rule) for at, rule in enumerate(rules) if at not in changed]
        for rules, changed in ((old, went), (new, came))
    )
    inserted = all(new[at].require for at in came)
    return stayed == stay and inserted and not any(old[at].require for at in went)


def _beyond(rules: Sequence[ApprovalRule], others: Sequence[ApprovalRule]) -> list[int]:
    """Return the positions of the rules that the others lack, counted."""
    left = Counter(map(_key, others))
    found = []
    for at, key in enumerate(map(_key, rules)):
        left[key] -= 1
        if left[key] < 0:
            found.append(at)
    return found


def _key(rule: ApprovalRule) -> bytes:
    return canonical_json.dumps(rule.model_dump(mode="json"))


def _annotations(rule: ApprovalRule) -> dict[str, Any]:
    return rule.when.annotations.model_dump(exclude_none=True) if rule.when.annotations else {}


# Two versions of covalt.yaml


def rule_changes(base: State, head: State) -> Iterator[Change]:
    """Yield the rules that were removed and inserted, if other calls require approval for it.

    A rule that requires approval is narrower when it is inserted and wider when it is removed.  Where
    all changes together are plainly one of both, only those are reported that are the same.
    """
    old, new = base.settings.approvals, head.settings.approvals
    whole = judge_rules(old, new)
    if whole.verdict == "neutral":
        return
    where = _place(base, None)
    found = [
        _change(
            "has no rule any more that", old[at], None, _place(base, at), asks=not old[at].require
        )
        for at in _beyond(old, new)
    ]
    found += [
        _change("has a new rule that", new[at], _place(head, at), where, asks=new[at].require)
        for at in _beyond(new, old)
    ]
    if whole.certain:
        found = [one for one in found if one.verdict == whole.verdict]
    if all(one.verdict != whole.verdict for one in found):
        message = f"{PROJECT} {whole.words}: its approval rules are in another order"
        at = _place(head, None)
        found.append(Change(whole.verdict, whole.certain, PROJECT, "approvals", message, at, where))
    details = tuple(_tools_concerned(base, head))
    for one in found:
        if one.verdict == whole.verdict:
            yield replace(one, certain=whole.certain, details=details)
        else:
            yield one


def _change(words: str, rule: ApprovalRule, at: Place | None, was: Place, *, asks: bool) -> Change:
    when = [f"{name} {str(value).lower()}" for name, value in _annotations(rule).items()]
    when += [f"{path} is {value!r}" for path, value in rule.when.args.items()]
    said = f" where {', '.join(when)}" if when else ""
    rule_words = (
        f"asks for {rule.pattern}{said}" if rule.require else f"lets {rule.pattern} pass{said}"
    )
    verdict: Verdict = "narrowing" if asks else "widening"
    return Change(verdict, True, PROJECT, "approvals", f"{PROJECT} {words} {rule_words}", at, was)


def _place(state: State, at: int | None) -> Place:
    reading = state.config
    if reading.document is None:
        return Place(reading.path)
    loc: tuple[str | int, ...] = ("approvals",) if at is None else ("approvals", at)
    return Place(reading.path, *reading.document.locate(loc, key=at is None))


def _tools_concerned(base: State, head: State) -> Iterator[str]:
    """Yield the tools in both states whose calls require approval otherwise, by the rules alone."""
    before, now = base.tools(), head.tools()
    found: dict[str, list[str]] = {"less": [], "more": [], "for other calls": []}
    for tool_id in sorted(before.keys() & now.keys()):
        tool = before[tool_id]
        new = rules_for(head.settings.approvals, tool)
        judged = judge_rules(rules_for(base.settings.approvals, tool), new)
        some = "" if always(new) is not None else " for some arguments"
        if judged.verdict != "neutral":
            word = "less" if judged.verdict == "widening" else "more"
            found[word if judged.certain else "for other calls"].append(tool_id + some)
    for word, names in found.items():
        if names:
            yield f"asks {word}: {some_of(names)}"


def some_of(names: Sequence[str]) -> str:
    """Return the first names of many, and how many more there are."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more
