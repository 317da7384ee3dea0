"""Comparison of the rules of two versions of ``covalt.yaml``.

The first rule that applies to a call decides; without one, the tool decides.  So these changes never let more calls run
without approval, or at all: an inserted rule that denies, a removed rule that allows, a rule that allows under
more conditions, and an inserted rule that asks, unless a rule below it denies the same calls.  Any other change counts as wider.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.access.approval_required import is_about
from covalt_git.access.argument_conditions import matches_missing
from covalt_git.authority.facts import Judgement, unclear
from covalt_git.authority.project_facts import EVERYTHING
from covalt_git.json_values import canonical_json
from covalt_git.json_values.difference import same
from covalt_git.models.rules import PolicyRule, RuleCondition
from covalt_git.names import beginning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from covalt_git.models.rules import Effect
    from covalt_git.models.tool import Tool


def rules_for(rules: Sequence[PolicyRule], tool: Tool) -> tuple[PolicyRule, ...]:
    """Return the rules that can apply to calls of one tool; the last is the tool's own setting."""
    applicable = []
    for rule in rules:
        annotations = required_annotations(rule)
        is_like = annotations.items() <= tool.annotations.model_dump().items()
        if (
            is_about(rule, tool)
            and is_like
            and all(
                _may_have(tool, path) or matches_missing(condition)
                for path, condition in rule.when.args.items()
            )
        ):
            applicable.append(_about_all(rule.effect, rule.when.args, rule.roles))
            # It applies to every call, so no later rule is ever asked.
            if not rule.when.args and not rule.roles:
                return tuple(applicable)
    return (*applicable, _about_all("ask" if tool.requires_confirmation else "allow", {}))


def _may_have(tool: Tool, path: str) -> bool:
    """Return whether the schema of a tool permits an argument at a dotted path."""
    schema = tool.input_schema
    # A rule about an argument that no call can have was reported as if users were asked no more.
    is_open = schema.get("additionalProperties") is not False or "patternProperties" in schema
    return is_open or path.partition(".")[0] in schema.get("properties", {})


def _about_all(effect: Effect, args: dict[str, Any], roles: tuple[str, ...] = ()) -> PolicyRule:
    return PolicyRule(pattern=EVERYTHING, roles=roles, when=RuleCondition(args=args), effect=effect)


def always(rules: Sequence[PolicyRule]) -> Effect | None:
    """Return what is decided about all calls; None if the arguments or the role decide."""
    effects = {rule.effect for rule in rules}
    return effects.pop() if len(effects) == 1 else None


def judge_rules(old: Sequence[PolicyRule], new: Sequence[PolicyRule]) -> Judgement:
    """Judge a change of rules: it is wider if fewer calls require approval."""
    if list(map(_key, old)) == list(map(_key, new)):
        return Judgement("neutral", "")
    if _is_stricter(old, new):
        return Judgement("narrowing", "requires approval for more calls")
    if _is_stricter(new, old):
        return Judgement("widening", "requires approval for fewer calls")
    return unclear("requires approval for other calls")


def _is_stricter(old: Sequence[PolicyRule], new: Sequence[PolicyRule]) -> bool:
    """Return whether no change between two lists lets more calls run, or run without approval."""
    removed, inserted = dict(rules_beyond(old, new)), dict(rules_beyond(new, old))
    # The order of the others has to be the same, because the first rule that applies decides.
    old_rest, new_rest = (
        [_key(rule) for at, rule in enumerate(rules) if at not in changed]
        for rules, changed in ((old, removed), (new, inserted))
    )
    if old_rest != new_rest or any(rule.requires for rule in removed.values()):
        return False
    tightened = _tightened(removed, inserted)
    return all(
        rule.effect == "deny"
        or at in tightened
        or (rule.effect == "ask" and not any(_denies_same(rule, later) for later in new[at + 1 :]))
        for at, rule in inserted.items()
    )


def _tightened(removed: Mapping[int, PolicyRule], inserted: Mapping[int, PolicyRule]) -> set[int]:
    """Return the positions of the inserted rules that allow a part of what a removed rule between the same others did."""
    by_gap: dict[int, list[PolicyRule]] = {}
    for number, (at, rule) in enumerate(sorted(removed.items())):
        by_gap.setdefault(at - number, []).append(rule)
    return {
        at
        for number, (at, rule) in enumerate(sorted(inserted.items()))
        if any(_is_part_of(rule, wider) for wider in by_gap.get(at - number, ()))
    }


def _is_part_of(rule: PolicyRule, wider: PolicyRule) -> bool:
    """Return whether a rule applies only to calls of the same tools to which another one applies too."""
    if (rule.effect, rule.pattern) != (wider.effect, wider.pattern):
        return False
    args, wider_args = rule.condition.get("args", {}), wider.condition.get("args", {})
    has_roles = not wider.roles or (rule.roles and set(rule.roles) <= set(wider.roles))
    return (
        bool(has_roles)
        and required_annotations(wider).items() <= required_annotations(rule).items()
        and all(path in args and same(args[path], value) for path, value in wider_args.items())
    )


def _denies_same(rule: PolicyRule, later: PolicyRule) -> bool:
    """Return whether a later rule may deny calls that a rule is about."""
    if later.effect != "deny":
        return False
    shares_role = not rule.roles or not later.roles or set(rule.roles) & set(later.roles)
    beginnings = beginning(rule.pattern), beginning(later.pattern)
    is_apart = not any(one.startswith(other) for one, other in (beginnings, beginnings[::-1]))
    return bool(shares_role) and not is_apart


def rules_beyond(
    rules: Sequence[PolicyRule], others: Sequence[PolicyRule]
) -> Iterator[tuple[int, PolicyRule]]:
    """Yield the rules that ``others`` does not contain as often, with their positions."""
    left = Counter(map(_key, others))
    for at, rule in enumerate(rules):
        key = _key(rule)
        left[key] -= 1
        if left[key] < 0:
            yield at, rule


def _key(rule: PolicyRule) -> bytes:
    """Return what a rule decides as bytes: without its reason, and in one order of its roles."""
    parts = [rule.pattern, rule.condition, rule.effect, sorted(rule.roles)]
    return canonical_json.dumps(parts)


def required_annotations(rule: PolicyRule) -> dict[str, Any]:
    """Return the annotations that a tool must have for a rule to apply to it."""
    return rule.when.annotations.model_dump(exclude_none=True) if rule.when.annotations else {}
