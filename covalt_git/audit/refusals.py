"""Record of the calls that roles, rules, tokens and approvals stop, at the places where an engine decides about them.

Interfaces do not log: they all ask the same engine.  What is not a decision about the caller is not logged, such as
invalid arguments, a missing grant or a disabled tool.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.access import NamedTool, PolicyDeniedError, UnknownRoleError
from covalt_git.access.security import TokenRefusedError
from covalt_git.access.visibility import HiddenTargetError
from covalt_git.audit.decision_log import DecisionLog, DecisionLogError
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.names import BadNameError, ToolId

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.access import Visibility
    from covalt_git.json_values import JsonObject

_LOG = logging.getLogger(__name__)

_UNKNOWN_TOOL = "unknown_tool"
REFUSED_CODES = frozenset(
    {"forbidden", "may_not_allow", "may_not_approve", "needs_person", "no_longer_callable"}
)
"""Codes of refusals by roles and rules whose errors higher packages define."""


class Decisions(NamedTuple):
    """Records the decisions about the calls of one principal of the project in ``root``."""

    root: Path
    visibility: Visibility

    @contextmanager
    def recording(
        self, tool_id: str, args: JsonObject | None, **fields: str | None
    ) -> Iterator[None]:
        """Record a refusal that the block raises, and raise it.

        ``fields`` are further fields of the record.  The caller gets the refusal also if it cannot be recorded.
        """
        try:
            yield
        except CovaltError as error:
            self.refused(error, tool_id, args, **fields)
            raise

    def refused(
        self, error: CovaltError, tool_id: str, args: JsonObject | None, **fields: str | None
    ) -> None:
        """Record the error of a call, if it is a refusal of its caller."""
        refusal = self._refusal(error, tool_id)
        if refusal is None:
            return
        try:
            self._add(tool_id, args, **refusal, **fields)
        except DecisionLogError as problem:
            # Another answer would say that the tool exists; without the refusal, a full disk would be a way around
            # each rule.  The operator finds this line in the log of the server or on stderr.
            _LOG.error("the refusal of a call of %s is not recorded: %s", tool_id, problem.message)

    def asked(
        self, tool_id: str, args: JsonObject, reasons: tuple[str, ...], **fields: str | None
    ) -> None:
        """Record that a call requires approval, before the approval is stored.

        Raises:
            DecisionLogError: if it cannot be recorded; the caller must not store the approval then.
        """
        self._add(tool_id, args, decision="asked", reasons=reasons, **fields)

    def _add(self, tool_id: str, args: JsonObject | None, **fields: Any) -> None:
        principal = self.visibility.principal
        DecisionLog(self.root).add(
            by=principal.id,
            role=principal.role,
            protocol=principal.protocol,
            tool_id=_in_one_spelling(tool_id),
            args_digest=_digest(args),
            **fields,
        )

    def _refusal(self, error: CovaltError, tool_id: str) -> dict[str, Any] | None:
        """Return the fields of an error that refuses a call; None for other errors."""
        denied: dict[str, Any] = {"decision": "denied", "code": error.code}
        if isinstance(error, PolicyDeniedError):
            return denied | {"reasons": tuple(error.reasons)}
        if isinstance(error, HiddenTargetError):
            return denied | {"decision": "hidden"}
        if isinstance(error, TokenRefusedError | UnknownRoleError) or error.code in REFUSED_CODES:
            return denied
        if error.code != _UNKNOWN_TOOL:
            return None
        try:
            decision = self.visibility.decide("see", NamedTool(_in_one_spelling(tool_id)))
        except BadNameError:
            # It names no tool, so nothing is decided; it can be any text of the caller, also an argument.
            return None
        # By the name alone, as for the caller: a tool that a role may see and that does not exist is no decision.
        if decision.allowed:
            return None
        return denied | {"decision": "hidden", "reasons": (decision.reason,)}


def _in_one_spelling(tool_id: str) -> str:
    return str(ToolId.parse(tool_id))


def _digest(args: JsonObject | None) -> str | None:
    try:
        return None if args is None else canonical_json.digest(args)
    except canonical_json.NotJsonError:
        return None
