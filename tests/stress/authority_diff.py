"""Whether a change of rules or roles that lets any of many random calls do more is reported as wider."""

import json
from random import Random
from typing import Any

from covalt_git import yaml_text
from covalt_git.access import Principal, decide
from covalt_git.authority import ProjectSnapshot
from covalt_git.authority.comparison import compare
from covalt_git.authority.policy_outcomes import policy_decision
from covalt_git.manifests.reading import check
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from tests.stress.figures import Proof
from tests.stress.rules import ROLES, TOOLS, loaded, random_call, random_rule, random_rules

PROMISE = (
    "If a change of rules or roles lets any call run, or run without approval, that did not before, or "
    "lets a role approve more, `authority diff` reports that the project permits more."
)
COUNT = 100_000

_CALLS = 10
"""How many calls are decided about by two files."""
_ORDER = ("hidden", "denied", "asks", "runs")
_PARTS: tuple[dict[str, Any], ...] = (
    {},
    {"allow": ["a.*"]},
    {"allow": ["a.*", "b.**"], "deny": ["a.x"]},
    {"allow": ["**"], "approve": ["a.*"]},
    {"allow": ["*.x"], "approve": ["**"]},
    {"admin": True},
    {"admin": True, "deny": ["b.*"]},
)


def prove(proof: Proof, count: int, seed: int) -> None:
    """Compare pairs of files with what they decide about ``count`` calls."""
    random = Random(seed)
    tools = [loaded(tool) for tool in TOOLS]
    wider = reported = narrower = 0
    for begin in range(0, count, _CALLS):
        old = random_file(random)
        new = edited(random, old)
        base, head = snapshot(old), snapshot(new)
        comparison = compare(base, head)
        grows = False
        for _ in range(min(_CALLS, count - begin)):
            role, place, args = random_call(random)
            named = None if random.random() < 0.2 else role
            ranks = [rank(one.settings, named, tools[place], args) for one in (base, head)]
            grows = grows or any(new > old for old, new in zip(*ranks, strict=True))
            told = json.dumps([old, new, named, TOOLS[place]["tool_id"], args])
            proof.check(comparison.grown or not grows, f"a wider change is not reported: {told}")
        wider += grows
        reported += comparison.grown
        narrower += not comparison.grown and bool(comparison.changes)
        proof.progress(begin + _CALLS, count)
    proof.note("pairs of files", -(-count // _CALLS))
    proof.note("calls", count)
    proof.note("pairs in which a call may do more", wider)
    proof.note("of them not reported", 0)
    proof.note("pairs reported as wider", reported)
    proof.note("pairs reported as narrower only", narrower)


def rank(
    config: ProjectConfig, role: str | None, tool: Tool, args: dict[str, Any]
) -> tuple[int, bool]:
    """Return how much a role may do with a call, and whether it may approve it; a role that does not exist may nothing."""
    if role is not None and role not in config.roles:
        return 0, False
    outcome = policy_decision(config, role, [tool], args).outcome
    approves = decide(config, Principal("", role), "approve", tool).allowed
    return _ORDER.index(outcome), approves


def random_file(random: Random) -> dict[str, Any]:
    roles = {name: random.choice(_PARTS) for name in ROLES}
    file = {"version": 1, "roles": roles, "rules": random_rules(random, 4)}
    return file | ({"default_role": random.choice(sorted(roles))} if random.random() < 0.7 else {})


def edited(random: Random, file: dict[str, Any]) -> dict[str, Any]:
    """Return a file after one to three edits, as users make them: of the order, of one rule, or of a role."""
    rules, roles = list(file["rules"]), dict(file["roles"])
    more = {}
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(rules) + 1)
        match random.choice(("insert", "remove", "change", "change", "move", "role", "default")):
            case "insert":
                rules.insert(at, random_rule(random))
            case "remove" if at < len(rules):
                del rules[at]
            case "change" if at < len(rules):
                rules[at] = changed(random, rules[at])
            case "move" if at < len(rules):
                rules.insert(random.randrange(len(rules)), rules.pop(at))
            case "role":
                roles[random.choice(sorted(roles))] = random.choice(_PARTS)
            case "default" if "default_role" in file:
                more = {"default_role": random.choice(sorted(roles))}
    return file | {"rules": rules, "roles": roles} | more


def changed(random: Random, rule: dict[str, Any]) -> dict[str, Any]:
    """Return a rule with one part of another one; the condition may get or lose an argument."""
    other = random_rule(random)
    key = random.choice(("pattern", "effect", "roles", "when", "add", "remove"))
    args = dict(rule["when"]["args"])
    if key == "add":
        return rule | {"when": rule["when"] | {"args": other["when"]["args"] | args}}
    if key == "remove" and args:
        del args[random.choice(sorted(args))]
        return rule | {"when": rule["when"] | {"args": args}}
    if key == "roles":
        rule = {name: value for name, value in rule.items() if name != "roles"}
    return rule | {name: other[name] for name in (key,) if name in other}


def snapshot(file: dict[str, Any]) -> ProjectSnapshot:
    reading = check(yaml_text.load(json.dumps(file), "covalt.yaml"), ProjectConfig)
    return ProjectSnapshot(None, reading, (), (), {})
