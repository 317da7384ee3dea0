"""Access check for one principal: what it may see, call and approve; also for a tool of which only the id is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git.access.approval_required import decide_call
from covalt_git.access.decisions import decide, rules_of, sees_everything
from covalt_git.access.subject import NamedTool
from covalt_git.errors import CovaltError
from covalt_git.models.calls import MAY_BE_SCRIPTS
from covalt_git.names import BadNameError, is_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.access.decisions import Action, Decision, Principal
    from covalt_git.access.subject import Subject
    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import CallDecision, PolicyRule
    from covalt_git.models.tool import Tool


class PolicyDeniedError(CovaltError):
    """A rule of ``covalt.yaml`` denies a call."""

    code = "policy_denied"
    http_status = 403

    def __init__(self, tool_id: str, reasons: Iterable[str]) -> None:
        self.reasons = (*reasons,)
        super().__init__(
            f"this call of {tool_id} is denied: {', '.join(self.reasons)}",
            hint=f"covalt-git policy explain {tool_id}",
        )


class HiddenTargetError(CovaltError):
    """A registered tool forwards its calls to a tool that does not exist for the role."""

    code = "unknown_tool"
    http_status = 404


@dataclass(frozen=True, slots=True)
class Visibility:
    """What one principal may see, call and approve under a configuration."""

    config: ProjectConfig
    principal: Principal

    def visible(self, tools: Iterable[Tool]) -> list[Tool]:
        return [tool for tool in tools if self.decide("see", tool).allowed]

    def sees(self, tool_id: str) -> bool:
        """Return whether the principal may see a tool of that id, which may have been deleted."""
        try:
            return self.decide("see", NamedTool(tool_id)).allowed
        except BadNameError:  # the id is from a record that was edited by hand
            return sees_everything(self.config, self.principal)

    def sees_call(self, tool_id: str, result: Any) -> bool:
        """Return whether the principal may see a call: its tool, and those that it called if it is a script.

        The result of a script has the arguments of its calls, and its source names the tools.
        """
        called = called_tools(result) if tool_id.startswith(MAY_BE_SCRIPTS) else ()
        return self.sees(tool_id) and all(map(self.sees, called))

    def sees_one_of(self, toolset_id: str, tool_ids: Sequence[str] | None) -> bool:
        """Return whether a toolset is visible: whether the principal may see one of its tools.

        ``tool_ids`` are the tools that it declares; None if its manifest cannot be read.
        """
        if not is_id(toolset_id):  # no pattern of a role can match the name of this folder
            return sees_everything(self.config, self.principal)
        # Any name represents the tools of a manifest that cannot be read, so that a role whose pattern is about all
        # tools of the toolset sees that it is broken.
        return any(self.sees(tool_id) for tool_id in tool_ids or (f"{toolset_id}:tool",))

    def sees_all_of(self, toolset_id: str, tool_ids: Sequence[str] | None) -> bool:
        """Return whether all tools of a toolset are visible, so that its files and errors may be shown."""
        if sees_everything(self.config, self.principal):
            return True
        # Errors and files may name any tool, so a manifest that cannot be read is shown to roles that see everything
        # only.
        if tool_ids is None or not is_id(toolset_id):
            return False
        return all(self.sees(tool_id) for tool_id in tool_ids)

    def may_call(self, tool: Subject) -> Decision:
        return self.decide("call", tool)

    def may_approve(self, tool: Subject) -> Decision:
        return self.decide("approve", tool)

    def decide(self, action: Action, tool: Subject) -> Decision:
        """Decide as :func:`.decisions.decide` does."""
        return decide(self.config, self.principal, action, tool)

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The rules about the calls of the principal."""
        return rules_of(self.config, self.principal)

    def decide_call(self, tools: Sequence[Tool], args: JsonObject) -> CallDecision:
        """Decide about a call of visible tools as :func:`.approval_required.decide_call` does."""
        return decide_call(self.rules, tools, args)

    def check_rules(self, tools: Sequence[Tool], args: JsonObject) -> None:
        """Check that no rule denies a call.

        Raises:
            PolicyDeniedError: with the reason of the rule.
        """
        decision = self.decide_call(tools, args)
        if decision.effect == "deny":
            raise PolicyDeniedError(tools[0].tool_id, decision.reasons)


def called_tools(result: Any) -> list[str]:
    """Return the ids of the tools that a script called or named, or whose names it got; of any other result, none."""
    if not isinstance(result, dict) or not result.keys() >= {"success", "calls", "logs"}:
        return []
    listed = result["calls"] if isinstance(result["calls"], list) else []
    unreached = result.get("unreached")
    paths: list[Any] = [*unreached] if isinstance(unreached, list) else []
    for call in listed:
        if isinstance(call, dict):
            named = call.get("named")
            # If the call has `named`, its path is that of a search, or of no tool.
            paths += named if isinstance(named, list) else [call.get("path")]
    return [path.replace(".", ":", 1) for path in paths if isinstance(path, str)]
