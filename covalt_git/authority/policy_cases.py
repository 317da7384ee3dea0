"""The cases of ``policy_tests.yaml``, and the rules that none of them reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.authority.facts import place_in
from covalt_git.authority.policy_outcomes import policy_decision
from covalt_git.errors import nearest_name
from covalt_git.manifests.machine_folders import link_problem
from covalt_git.manifests.project_root import POLICY_TESTS
from covalt_git.manifests.reading import Reading, read_yaml, shown_path
from covalt_git.models.policy_tests import PolicyTests
from covalt_git.problems import codes
from covalt_git.toolsets.tool_arguments import problems_of, problems_of_function

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.authority.facts import Place
    from covalt_git.authority.project_tools import ProjectTools
    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.models.policy_tests import PolicyCase
    from covalt_git.models.project_config import ProjectConfig


class UnreachedRule(NamedTuple):
    """A rule that decides about no case: its place, and its position in the file."""

    place: Place
    position: int


class CasesRun(NamedTuple):
    """The number of cases, the problems of those that failed, and the rules that no case reaches."""

    cases: int
    problems: tuple[Problem, ...]
    unreached: tuple[UnreachedRule, ...]


def read_cases(root: Path) -> Reading[PolicyTests] | None:
    """Return the cases of the project; None if it has no such file.

    A link, which may lead to any file, is an error: without its cases, the project would pass.
    """
    file = root / POLICY_TESTS
    link = link_problem(root, POLICY_TESTS)
    if link is not None:
        return Reading(POLICY_TESTS, None, None, (link,))
    if not file.exists():
        return None
    return read_yaml(file, shown_path(file, root), PolicyTests)


def run_cases(root: Path, config: Reading[ProjectConfig], tools: ProjectTools) -> CasesRun:
    """Decide about each case by the files of the project; no tool runs.

    Whether the user of this machine trusts the rules is not considered, so that the result is the same in CI.
    """
    reading = read_cases(root)
    reached: set[int] = set()
    problems: list[Problem] = []
    cases: tuple[PolicyCase, ...] = ()
    if reading is not None:
        problems += reading.problems
        cases = reading.value.cases if reading.value else ()
        for position, case in enumerate(cases):
            problem, rule = _run(reading.below("cases", position), config, tools, case)
            problems += [] if problem is None else [problem]
            reached |= set() if rule is None else {rule}
    unreached = tuple(
        UnreachedRule(place_in(config, config.valid.rule_place(position)), position)
        for position in range(len(config.valid.rules))
        if position not in reached
    )
    return CasesRun(len(cases), tuple(problems), unreached)


def deciding_rules(
    config: ProjectConfig, tools: ProjectTools, tool_id: str, args: JsonObject
) -> set[int]:
    """Return the positions of the rules that decide about a call of any role, because records have no role."""
    tool = tools.find(tool_id)
    if tool is None:
        return set()
    roles: set[str | None] = {*config.roles} or {None}
    decisions = (policy_decision(config, role, tools.called(tool), args) for role in roles)
    return {decision.rule for decision in decisions if decision.rule is not None}


def _run(
    reading: Reading[PolicyTests],
    config: Reading[ProjectConfig],
    tools: ProjectTools,
    case: PolicyCase,
) -> tuple[Problem | None, int | None]:
    """Return the problem of a case that fails, and the position of the rule that decides about it."""
    roles = config.valid.roles
    if case.role is not None and case.role not in roles:
        near = nearest_name(case.role, roles)
        hint = f"write {near}" if near else "covalt-git role list"
        message = f"there is no role {case.role!r}"
        return reading.problem(codes.FAILED_CASE, ("role",), message, hint=hint), None
    tool = tools.find(case.tool)
    if tool is None:
        message, hint = f"there is no tool {case.tool!r}", "covalt-git tool list"
        unread = tools.unread(case.tool)
        if unread is not None:
            # The case can be right, so its line is not what to fix.
            message = f"not decided, because toolsets/{unread}/toolset.yaml has errors"
            hint = f"covalt-git validate toolsets/{unread}"
        return reading.problem(codes.FAILED_CASE, ("tool",), message, hint=hint), None
    called = tools.called(tool)
    decision = policy_decision(config.valid, case.role, called, {})
    if decision.outcome != "hidden":
        # Without this, a case with a misspelt argument passes: no rule is about it.
        invalid = problems_of(called, case.args) or problems_of_function(called[-1], case.args)
        if invalid:
            why = "; ".join(f"{path}: {message}" for path, message in invalid)
            message = f"the call is refused, because its arguments are invalid: {why}"
            hint = f"covalt-git tool schema {case.tool}"
            return reading.problem(codes.FAILED_CASE, ("args",), message, hint=hint), None
        decision = policy_decision(config.valid, case.role, called, case.args)
    if decision.outcome == case.expect:
        return None, decision.rule
    by = "; ".join(decision.reasons)
    if decision.rule is not None:
        rule = config.valid.rules[decision.rule]
        # A rule that allows a call waives approvals, so it gives no reason.
        by = by or f"rule {rule.pattern} allows it"
        by += f" ({place_in(config, config.valid.rule_place(decision.rule))})"
    by = by or "no rule applies"
    message = f"expected {case.expect}, but the call {_WORDS[decision.outcome]}: {by}"
    role = f" --role {case.role}" if case.role else ""
    hint = f"covalt-git policy explain {case.tool}{role}"
    return reading.problem(codes.FAILED_CASE, ("expect",), message, hint=hint), decision.rule


_WORDS = {
    "hidden": "is of a hidden tool",
    "denied": "is denied",
    "asks": "asks",
    "runs": "runs",
}
