"""What rules decide about random calls, compared with a second implementation that is read in a minute."""

import json
from random import Random
from typing import Any

from covalt_git.authority.policy_outcomes import policy_decision, possible_effects
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from tests.access.rule_reference import decision
from tests.stress.figures import Proof

PROMISE = "Roles, rules and tools decide about calls as a second implementation without caches."
COUNT = 1_000_000

_OF_A_LIST = 40
"""How many calls are decided about by the rules of one file."""
_PATTERNS = ("*", "**", "a.*", "a.x", "a.**", "*.x", "a.y*", "b.*", "**.z")
_TEXTS = ("a", "a/b", "a/../c", "./a", "c", "a/", "b/../a/b", "5", "a/b/../../c", "", "null")
_WANTED: tuple[Any, ...] = ("a", "a/*", "*", "c", "*/b", "5", 0, 1, 5, None, True)
_SCALARS: tuple[Any, ...] = (*_TEXTS, 0, 1, 5, -1, None, True)
_ANNOTATIONS = ({"destructive": True}, {"read_only": True}, {"destructive": False})
_EFFECTS = {"deny": "denied", "ask": "asks", "allow": "runs"}

ROLES: dict[str, Any] = {
    "reader": {"allow": ["**"]},
    "some": {"allow": ["a.*"], "deny": ["a.y*"]},
    "owner": {"admin": True},
    "none": {},
}
TOOLS: tuple[dict[str, Any], ...] = tuple(
    {
        "tool_id": tool_id,
        "annotations": annotations,
        "annotations_are_own": own,
        "confirmation": confirmation,
    }
    for tool_id in ("a:x", "a:yes", "b:x", "b:z")
    for annotations, own in (
        ({}, True),
        ({"destructive": True}, True),
        ({"read_only": True}, False),
    )
    for confirmation in ((), ("toolset",))
)


def prove(proof: Proof, count: int, seed: int) -> None:
    """Decide about ``count`` random calls by random rules, and compare."""
    random = Random(seed)
    tools = [loaded(tool) for tool in TOOLS]
    outcomes = dict.fromkeys(("hidden", "denied", "asks", "runs"), 0)
    lists = 0
    for begin in range(0, count, _OF_A_LIST):
        lists += 1
        rules = random_rules(random)
        config = project_config(rules)
        for _ in range(min(_OF_A_LIST, count - begin)):
            role, place, args = random_call(random)
            decided = policy_decision(config, role, [tools[place]], args).outcome
            expected = decision({"roles": ROLES, "rules": rules}, role, TOOLS[place], args)
            told = json.dumps([rules, role, TOOLS[place]["tool_id"], args])
            proof.check(decided == expected, f"{decided} instead of {expected}: {told}")
            possible = {
                _EFFECTS[effect] for effect in possible_effects(config, role, [tools[place]])
            }
            is_listed = decided == "hidden" or decided in possible
            proof.check(is_listed, f"policy who does not list that a call is {decided}: {told}")
            outcomes[decided] += 1
        proof.progress(begin + _OF_A_LIST, count)
    proof.check(count < _OF_A_LIST or all(outcomes.values()), f"an outcome is missing: {outcomes}")
    proof.note("lists of rules", lists)
    proof.note("calls", count)
    for outcome, number in outcomes.items():
        proof.note(f"of them {outcome}", number)
    proof.note("differences", 0)


def project_config(rules: list[dict[str, Any]], roles: dict[str, Any] = ROLES) -> ProjectConfig:
    return ProjectConfig.model_validate({"version": 1, "roles": roles, "rules": rules})


def loaded(tool: dict[str, Any]) -> Tool:
    """Return the tool that a project with these facts has."""
    fields = {name: value for name, value in tool.items() if name != "annotations_are_own"}
    made = Tool.model_validate(
        {"toolset_id": tool["tool_id"][0], "name": "x", "input_schema": {}, "kind": "http"} | fields
    )
    return made.model_copy(update={"annotations_are_own": tool["annotations_are_own"]})


def random_rules(random: Random, most: int = 5) -> list[dict[str, Any]]:
    return [random_rule(random) for _ in range(random.randint(0, most))]


def random_rule(random: Random) -> dict[str, Any]:
    """Return a rule as in a file."""
    names = random.sample(("p", "q", "o.p"), random.choice((0, 1, 1, 1, 2)))
    rule: dict[str, Any] = {
        "pattern": random.choice(_PATTERNS),
        "effect": random.choice(("allow", "ask", "deny")),
        "when": {"args": {name: random_condition(random) for name in names}},
    }
    if random.random() < 0.2:
        rule["when"]["annotations"] = random.choice(_ANNOTATIONS)
    if random.random() < 0.4:
        rule["roles"] = random.sample(sorted(ROLES), random.randint(1, 2))
    return rule


def random_condition(random: Random, depth: int = 2) -> Any:
    """Return a value, a text pattern or a condition."""
    kind = random.choice(("value", "value", "in", "min", "max", "range", "under", "exists", "not"))
    match kind:
        case "in":
            return {"in": random.choices(_WANTED, k=random.randint(1, 3))}
        case "min" | "max":
            return {kind: random.choice((0, 1, 4))}
        case "range":
            return {"min": 1, "max": random.choice((1, 4))}
        case "under":
            return {"under": random.choice(("a", "a/b"))}
        case "exists":
            return {"exists": random.random() < 0.5}
        case "not" if depth:
            return {"not": random_condition(random, depth - 1)}
    return random.choice(_WANTED)


def random_call(random: Random) -> tuple[str, int, dict[str, Any]]:
    """Return a role, the position of a tool, and arguments."""
    args = {name: random_value(random) for name in ("p", "q", "o") if random.random() < 0.6}
    if "o" in args and random.random() < 0.8:
        inner = {"p": random_value(random)} if random.random() < 0.8 else {}
        args["o"] = random.choice((inner, [inner], [inner, {"p": random.choice(_SCALARS)}]))
    return random.choice((*sorted(ROLES), "reader", "owner")), random.randrange(len(TOOLS)), args


def random_value(random: Random) -> Any:
    value = random.choice(_SCALARS)
    if random.random() < 0.15:
        return [value, random.choice(_SCALARS)]
    return (
        {value: random.choice(_SCALARS)}
        if isinstance(value, str) and random.random() < 0.1
        else value
    )
