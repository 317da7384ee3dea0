"""Operations on the policy of a project: explain a decision, list who may call a tool, and run the cases."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from covalt_git.access import Principal, UnknownRoleError, decide, has_admin_role
from covalt_git.authority import read_commit
from covalt_git.authority.explanation import explain
from covalt_git.authority.policy_cases import deciding_rules, run_cases
from covalt_git.authority.policy_outcomes import policy_decision, possible_effects
from covalt_git.authority.project_tools import ProjectTools
from covalt_git.errors import Problem
from covalt_git.manifests.project_config import BrokenConfigError, config_reading
from covalt_git.models.policy_tests import PolicyOutcome
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Request, Result, operation
from covalt_git.toolsets.tool_arguments import problems_of, problems_of_function
from covalt_git.trust.consents import Consents
from covalt_git.trust.permissions import trusted_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.manifests.reading import Reading
    from covalt_git.models.calls import ToolCall
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool

_MOST_CALLS: Final = 500
"""Number of recorded calls with which rules are tried or compared."""


class ExplainPolicy(Request):
    """Request: a call to explain."""

    tool_id: str = Field(max_length=200)
    role: str | None = Field(
        None, max_length=200, description="Role of the caller; default: the role of the request."
    )
    args: dict[str, Any] | None = Field(None, description="Arguments of the call; default: any.")


class ListToolRoles(Request):
    """Request: a tool."""

    tool_id: str = Field(max_length=200)


class PolicyPlace(Result):
    """A place in a file of the project; line and column are 0 for the whole file."""

    path: str
    line: int
    col: int

    def __str__(self) -> str:
        """Return the place as in messages."""
        return f"{self.path}:{self.line}:{self.col}" if self.line else self.path


class PolicyLine(PolicyPlace):
    """A line that took part in a decision."""

    words: str
    decides: bool


class PolicyExplained(Result):
    """What is decided about a call, and why."""

    tool_id: str
    role: str | None
    decision: PolicyOutcome | Literal["invalid", "depends"] = Field(
        description="hidden, invalid: the arguments do not match the schema, denied, asks, runs, or depends: on the arguments."
    )
    reasons: tuple[str, ...]
    lines: tuple[PolicyLine, ...] = Field(
        description="The lines that took part, in the order of the decision."
    )


class RoleOfTool(Result):
    """What a role may do with a tool."""

    role: str | None = Field(description="The role; null: a user without a role.")
    sees: bool
    calls: bool = Field(description="Whether it may call the tool, if it is enabled and can run.")
    asked: Literal["always", "never", "for some arguments"] = Field(
        description="Whether its calls require approval."
    )
    denied: bool = Field(description="Whether a rule denies some of its calls.")
    approves: bool


class ToolRoles(Result):
    """What each role may do with a tool."""

    tool_id: str
    roles: tuple[RoleOfTool, ...]


class UnreachedPolicyRule(PolicyPlace):
    """A rule that decides about no case."""

    calls: int = Field(description="Number of the recorded calls that it decides about.")


class PolicyTested(Result):
    """Result of the cases of ``policy_tests.yaml``."""

    cases: int
    problems: tuple[Problem, ...]
    unreached: tuple[UnreachedPolicyRule, ...] = Field(
        description="Rules that decide about no case."
    )
    calls: int = Field(description="Number of recorded calls that these rules were tried with.")


class ComparePolicy(Request):
    """Request: how many recorded calls to decide about, and by which two versions of the rules."""

    history: int = Field(_MOST_CALLS, ge=1, le=100_000, description="Number of the last calls.")
    revision: str = Field(
        "HEAD",
        max_length=200,
        description="Git revision whose covalt.yaml is compared with the file.",
    )
    role: str | None = Field(
        None, max_length=200, description="Role of the calls; default: the default role."
    )


class CallDecidedOtherwise(Result):
    """A recorded call about which two versions of the rules decide differently."""

    chat_id: str
    call_id: str
    tool_id: str
    revision: PolicyOutcome = Field(description="Decision by the revision.")
    files: PolicyOutcome = Field(description="Decision by the current file.")
    reasons: tuple[str, ...] = Field(description="Reasons of the decision by the current file.")


class PolicyCompared(Result):
    """The recorded calls about which two versions of the rules decide differently, newest first."""

    calls: int = Field(description="Number of calls that were decided about.")
    skipped: int = Field(description="Number of calls of tools that do not exist any more.")
    changed: tuple[CallDecidedOtherwise, ...]


@operation(local=True)
def compare_policy(context: Context, request: ComparePolicy) -> PolicyCompared:
    """List the recorded calls that the rules of a git revision and the current rules decide differently.

    Records do not have the role of the caller, so all calls are decided about as calls of one role.  The tools are those
    of the current files.
    """
    base = read_commit(context.root, request.revision).config
    if base.value is None:
        raise BrokenConfigError(
            f"covalt.yaml of {request.revision} has errors",
            hint="name another revision by --with",
            problems=base.problems,
        )
    config, tools = _config(context).valid, ProjectTools(context.root)
    for where, roles in ((f"of {request.revision}", base.value.roles), ("", config.roles)):
        if request.role is not None and request.role not in roles:
            error = UnknownRoleError(request.role, roles)
            error.message += f" in covalt.yaml {where}".rstrip()
            if where:
                error.hint = "name a role that both have, or another revision by --with"
            raise error
    index, visibility = context.chat_index(), context.visibility
    index.sync_chats()
    changed, count, skipped = [], 0, 0
    for call in index.recent_calls(request.history):
        if not visibility.sees(call.tool_id):
            continue
        tool = tools.find(call.tool_id)
        if tool is None:
            skipped += 1
            continue
        count += 1
        called = tools.called(tool)
        earlier_decision = policy_decision(base.value, request.role, called, call.args)
        current_decision = policy_decision(config, request.role, called, call.args)
        if earlier_decision.outcome != current_decision.outcome:
            changed.append(
                CallDecidedOtherwise(
                    chat_id=call.chat_id,
                    call_id=call.id,
                    tool_id=call.tool_id,
                    revision=earlier_decision.outcome,
                    files=current_decision.outcome,
                    reasons=current_decision.reasons,
                )
            )
    return PolicyCompared(calls=count, skipped=skipped, changed=tuple(changed))


@operation(changes=True, errors=(404,))
def explain_policy(context: Context, request: ExplainPolicy) -> PolicyExplained:
    """Explain what is decided about a call: each line of each file that took part, in order.

    A role can only ask about itself and about the tools that it sees; admins can ask about each role.
    """
    tool, _ = _tool(context, request.tool_id)
    own = context.project.principal.role or context.project.config.default_role
    role = own if request.role is None else request.role
    if role != own:
        context.require(partial(_check_admin_role, context, "explain decisions about other roles"))
    reading, tools = _config(context), ProjectTools(context.root)
    called = tuple(tools.called(tool)) if context.is_admin else context.catalog.called(tool)
    whole = reading.valid
    acting = {id(rule) for rule in trusted_config(whole, Consents.of(context.root)).rules}
    untrusted = {at for at, rule in enumerate(whole.rules) if id(rule) not in acting}
    named = request.role if request.role is not None else context.project.principal.role
    args = request.args
    invalid = [] if args is None else problems_of(called, args)
    explained = explain(reading, tools, called, named, {} if invalid else args, untrusted=untrusted)
    decision = explained.decision.outcome if explained.decision else "depends"
    reasons = explained.decision.reasons if explained.decision else ()
    # A call that is denied or pending does not get to the function.
    if args is not None and decision == "runs":
        invalid = invalid or problems_of_function(called[-1], args)
    if invalid and decision != "hidden":
        why = tuple(f"{path}: {message}" for path, message in invalid)
        return PolicyExplained(
            tool_id=tool.tool_id, role=role, decision="invalid", reasons=why, lines=()
        )
    return PolicyExplained(
        tool_id=tool.tool_id,
        role=role,
        decision=decision,
        reasons=reasons,
        lines=tuple(
            PolicyLine(
                path=line.place.path,
                line=line.place.line,
                col=line.place.col,
                words=line.words,
                decides=line.decides,
            )
            for line in explained.lines
        ),
    )


@operation(errors=(404,))
def list_tool_roles(context: Context, request: ListToolRoles) -> ToolRoles:
    """List the roles that see, call and approve a tool, and whether their calls require approval; for admin roles only."""
    context.require(partial(_check_admin_role, context, "list what roles may do"))
    tool, config = _tool(context, request.tool_id)
    called = ProjectTools(context.root).called(tool)
    names: list[str | None] = [*config.roles] or [None]
    return ToolRoles(
        tool_id=tool.tool_id, roles=tuple(_role_of_tool(config, name, called) for name in names)
    )


@operation(local=True)
def run_policy_tests(context: Context, _: EmptyRequest) -> PolicyTested:
    """Decide about each case of policy_tests.yaml by the files of the project; no tool runs.

    The rules that no case reaches are tried with the last recorded calls.
    """
    reading, tools = _config(context), ProjectTools(context.root)
    result = run_cases(context.root, reading, tools)
    calls: list[ToolCall] = []
    if result.unreached:
        index = context.chat_index()
        index.sync_chats()
        visibility = context.visibility
        recorded = index.recent_calls(_MOST_CALLS)
        calls = [call for call in recorded if visibility.sees(call.tool_id)]
    reached = Counter(
        position
        for call in calls
        for position in deciding_rules(reading.valid, tools, call.tool_id, call.args)
    )
    return PolicyTested(
        cases=result.cases,
        problems=result.problems,
        unreached=tuple(
            UnreachedPolicyRule(
                path=rule.place.path,
                line=rule.place.line,
                col=rule.place.col,
                calls=reached[rule.position],
            )
            for rule in result.unreached
        ),
        calls=len(calls),
    )


def _check_admin_role(context: Context, action: str) -> None:
    """Check that the principal has an admin role, also one from which tools are hidden: it sees the tool in question."""
    if not has_admin_role(context.project.config, context.project.principal):
        raise context.refusal(f"may not {action}")


def _tool(context: Context, tool_id: str) -> tuple[Tool, ProjectConfig]:
    """Return a tool that the principal sees, and the configuration that acts on this machine."""
    return context.catalog.find(tool_id).tool, context.project.config


def _config(context: Context) -> Reading[ProjectConfig]:
    reading = config_reading(context.root)
    if reading.value is None:
        raise BrokenConfigError(
            "covalt.yaml has errors", hint="covalt-git validate", problems=reading.problems
        )
    return reading


def _role_of_tool(config: ProjectConfig, name: str | None, called: Sequence[Tool]) -> RoleOfTool:
    principal = Principal("", name)
    effects = possible_effects(config, name, called)
    calls = bool(effects & {"allow", "ask"})
    asked: Literal["always", "never", "for some arguments"] = "never"
    if "ask" in effects:
        asked = "for some arguments" if "allow" in effects else "always"
    return RoleOfTool(
        role=name,
        sees=decide(config, principal, "see", called[0]).allowed,
        calls=calls,
        asked=asked,
        denied="deny" in effects,
        approves=all(decide(config, principal, "approve", tool).allowed for tool in called),
    )
