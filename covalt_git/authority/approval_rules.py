"""Approval rules of two versions of ``covalt.yaml``: which calls they require approval for.

The first rule that applies to a call decides, and where none does the tool itself.  So a rule with
``require: true`` that is inserted anywhere, or one with ``require: false`` that is removed, can only add
calls that require approval.  Any other change counts as wider.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.access.approval_required import is_about
from covalt_git.authority.facts import Judged, unclear
from covalt_git.authority.project_facts import EVERYTHING
from covalt_git.json_values import canonical_json
from covalt_git.models.project_config import ApprovalCondition, ApprovalRule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from covalt_git.models.tool import Tool


def rules_for(rules: Sequence[ApprovalRule], tool: Tool) -> tuple[ApprovalRule, ...]:
    """Return the rules that calls of one tool can meet, by their arguments; the last is its own wish."""
    found = []
    for rule in rules:
        wanted = required_annotations(rule)
        is_like = wanted.items() <= tool.annotations.model_dump().items()
        if is_about(rule, tool) and is_like and all(_may_have(tool, one) for one in rule.when.args):
            found.append(_about_all(rule.require, rule.when.args))
            if not rule.when.args:
                return tuple(found)
    return (*found, _about_all(tool.requires_confirmation, {}))


def _may_have(tool: Tool, path: str) -> bool:
    """Return whether the schema of a tool permits an argument at a dotted path."""
    schema = tool.input_schema
    is_open = schema.get("additionalProperties") is not False or "patternProperties" in schema
    return is_open or path.partition(".")[0] in schema.get("properties", {})


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
    went, came = rules_beyond(old, new), rules_beyond(new, old)
    stayed, stay = (
        [_key(rule) for at, rule in enumerate(rules) if at not in changed]
        for rules, changed in ((old, went), (new, came))
    )
    inserted = all(new[at].require for at in came)
    return stayed == stay and inserted and not any(old[at].require for at in went)


def rules_beyond(rules: Sequence[ApprovalRule], others: Sequence[ApprovalRule]) -> list[int]:
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


def required_annotations(rule: ApprovalRule) -> dict[str, Any]:
    """Return the annotations of a tool that a rule needs to be about it."""
    return rule.when.annotations.model_dump(exclude_none=True) if rule.when.annotations else {}
