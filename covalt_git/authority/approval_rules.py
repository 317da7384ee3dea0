"""Comparison of the approval rules of two versions of ``covalt.yaml``.

The first rule that applies to a call decides; without one, the tool decides.  So inserting a rule with
``require: true`` or removing one with ``require: false`` can only add calls that require approval.  Any
other change counts as wider.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.access.approval_required import is_about
from covalt_git.authority.facts import Judgement, unclear
from covalt_git.authority.project_facts import EVERYTHING
from covalt_git.json_values import canonical_json
from covalt_git.models.project_config import ApprovalCondition, ApprovalRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from covalt_git.models.tool import Tool


def rules_for(rules: Sequence[ApprovalRule], tool: Tool) -> tuple[ApprovalRule, ...]:
    """Return the rules that can apply to calls of one tool; the last is the tool's own setting."""
    applicable = []
    for rule in rules:
        annotations = required_annotations(rule)
        is_like = annotations.items() <= tool.annotations.model_dump().items()
        if (
            is_about(rule, tool)
            and is_like
            and all(_may_have(tool, path) for path in rule.when.args)
        ):
            applicable.append(_about_all(rule.require, rule.when.args))
            # It applies to every call, so no later rule is ever asked.
            if not rule.when.args:
                return tuple(applicable)
    return (*applicable, _about_all(tool.requires_confirmation, {}))


def _may_have(tool: Tool, path: str) -> bool:
    """Return whether the schema of a tool permits an argument at a dotted path."""
    schema = tool.input_schema
    # A rule about an argument that no call can have was reported as if users were asked no more.
    is_open = schema.get("additionalProperties") is not False or "patternProperties" in schema
    return is_open or path.partition(".")[0] in schema.get("properties", {})


def _about_all(require: bool, args: dict[str, Any]) -> ApprovalRule:  # noqa: FBT001 - the rule's value
    return ApprovalRule(pattern=EVERYTHING, when=ApprovalCondition(args=args), require=require)


def always(rules: Sequence[ApprovalRule]) -> bool | None:
    """Return True if all calls require approval, False if none does, None if the arguments decide."""
    values = {rule.require for rule in rules}
    return values.pop() if len(values) == 1 else None


def judge_rules(old: Sequence[ApprovalRule], new: Sequence[ApprovalRule]) -> Judgement:
    """Judge a change of rules: it is wider if fewer calls require approval."""
    if list(map(_key, old)) == list(map(_key, new)):
        return Judgement("neutral", "")
    if _is_stricter(old, new):
        return Judgement("narrowing", "requires approval for more calls")
    if _is_stricter(new, old):
        return Judgement("widening", "requires approval for fewer calls")
    return unclear("requires approval for other calls")


def _is_stricter(old: Sequence[ApprovalRule], new: Sequence[ApprovalRule]) -> bool:
    """Return whether only rules that require approval were inserted, and only others removed."""
    removed, inserted = dict(rules_beyond(old, new)), dict(rules_beyond(new, old))
    # The order of the others has to be the same, because the first rule that applies decides.
    old_rest, new_rest = (
        [_key(rule) for at, rule in enumerate(rules) if at not in changed]
        for rules, changed in ((old, removed), (new, inserted))
    )
    adds = all(rule.require for rule in inserted.values())
    return old_rest == new_rest and adds and not any(rule.require for rule in removed.values())


def rules_beyond(
    rules: Sequence[ApprovalRule], others: Sequence[ApprovalRule]
) -> Iterator[tuple[int, ApprovalRule]]:
    """Yield the rules that ``others`` does not contain as often, with their positions."""
    left = Counter(map(_key, others))
    for at, rule in enumerate(rules):
        key = _key(rule)
        left[key] -= 1
        if left[key] < 0:
            yield at, rule


def _key(rule: ApprovalRule) -> bytes:
    return canonical_json.dumps(rule.model_dump(mode="json"))


def required_annotations(rule: ApprovalRule) -> dict[str, Any]:
    """Return the annotations that a tool must have for a rule to apply to it."""
    return rule.when.annotations.model_dump(exclude_none=True) if rule.when.annotations else {}
