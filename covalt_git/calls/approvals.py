"""Settling the approvals that calls wait for: each once, by somebody who may, on what they saw.

An approval answers for one call on one state of the files, those included that no commit holds.  When
the files or the tool are not what was asked about, approving asks again, under a new id and with the
difference; nothing runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access import Principal, acting, allowed_roles
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.preconditions import check_found
from covalt_git.calls.python_calls import check_space
from covalt_git.calls.telemetry import observed
from covalt_git.catalog.catalog import named_tool
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.manifests.toolset_files import readable
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import finished_call
from covalt_git.workspaces.writer import listed

if TYPE_CHECKING:
    from covalt_git.calls.engine import Engine
    from covalt_git.catalog.catalog import Found
    from covalt_git.models.calls import Approval, PendingCall
    from covalt_git.models.tool import Tool
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats
    from covalt_git.workspaces.writer import Writer


class AlreadySettledError(CovaltError):
    """Somebody settled the approval before, or it ran out."""

    code = "already_settled"
    http_status = 409


class MayNotApproveError(CovaltError):
    """The principal's role may not approve calls of this tool."""

    code = "may_not_approve"
    http_status = 403

    def __init__(self, engine: Engine, tool: Tool) -> None:
        super().__init__(
            f"{acting(engine.config, engine.principal)} may not approve or deny calls of {tool.tool_id}",
            hint=allowed_roles(engine.config, "approve", tool),
        )


class NoLongerCallableError(CovaltError):
    """Whoever asked for the call could not make it now: the tool is gone, or hidden from them."""

    code = "no_longer_callable"
    http_status = 409


class ApprovalMismatchError(CovaltError):
    """The waiting call is not the one that the approval is about."""

    code = "not_what_was_asked"
    http_status = 409


class ApprovalRenewedError(CovaltError):
    """What was asked about has changed; a new approval waits with the difference."""

    code = "asked_again"
    http_status = 409

    def __init__(self, why: str, outcome: CallOutcome) -> None:
        assert outcome.approval is not None
        super().__init__(
            f"{why} since this was asked, so nothing ran; it is asked again",
            hint=f"covalt-git approval show {outcome.approval.execution_id}",
        )
        self.outcome = outcome
        self.execution_id = outcome.approval.execution_id


class Approvals(NamedTuple):
    """The approvals of all chats, as far as they exist for the engine's principal.

    That is where the principal may see the tool, or settle its calls.
    """

    engine: Engine
    chats: Chats

    def find(self, text: str) -> Approval:
        """Return the approval whose id is or ends with ``text``.

        Raises:
            UnknownNameError: naming the nearest; CovaltError where several end so.
        """
        every = [one for chat_id in self.chats.ids() for one in self._of(chat_id)]
        known = [one for one in every if self.exists(one.tool_id)]
        found = [one for one in known if one.execution_id == text]
        if not found and len(text) >= 4:  # noqa: PLR2004 - fewer would hit by chance
            found = [one for one in known if one.execution_id.endswith(text)]
        if len(found) > 1:
            raise CovaltError(f"several approvals end in {text!r}", hint="write the whole id")
        if not found:
            waiting = [one.execution_id for one in known if one.state == "pending"]
            raise UnknownNameError("approval", text, waiting, list_with="covalt-git approval list")
        return found[0]

    def approve(self, execution_id: str, reason: str | None = None) -> CallOutcome:
        """Approve a call and run it, at once and once; record the ``reason``.

        Raises:
            MayNotApproveError: when the principal's role may not.
            AlreadySettledError: when somebody was first, or it ran out.
            NoLongerCallableError: when whoever asked for the call could not make it now.
            ApprovalMismatchError: when the stored call was altered.
            ApprovalRenewedError: when the files or the tool changed since; nothing ran.
        """
        asked = self.find(execution_id)
        self._check_may_settle(asked)
        with observed(asked.chat_id, asked.tool_id, asked.call_id) as call:
            outcome = self._approved(asked, reason)
            call.ended(outcome)
            return outcome

    def _approved(self, asked: Approval, reason: str | None) -> CallOutcome:
        caller = replace(self.engine, principal=Principal(asked.by, asked.role))
        with self.chats.open(asked.chat_id) as chat, self.engine.writing(chat) as writer:
            approval, call = _current(chat, asked)
            _check_bound(approval, call)
            # Read only now: the toolset may have been edited while this waited for the chat.
            found = _still_callable(caller, asked)
            check_found(found)
            check_space(found.tool, chat)
            if chat.active_branch() != approval.branch:
                raise CovaltError(
                    f"the call belongs to the branch {approval.branch!r}",
                    hint=f"covalt-git chat checkout {chat.id} {approval.branch}",
                )
            head = writer.commit_changes()
            unstored, paths = writer.unstored()
            why = ""
            if found.tool.definition_digest != approval.definition_digest:
                why = f"the toolset {found.toolset.id!r} has changed"
            elif chat.state(head) != chat.state(approval.base):
                why = "the workspace has changed"
            elif unstored != approval.unstored:
                named = f" ({listed([readable(path) for path in paths])})" if paths else ""
                why = f"what no commit holds of the workspace{named} has changed"
            if why:
                again = self._request_again(writer, approval, call, head, caller, found)
                raise ApprovalRenewedError(why, again)
            decided = _decided(approval, "approved", self.engine.principal, reason)
            if not writer.put_approval(decided, before=approval):
                raise AlreadySettledError("somebody else settled it just now")
            return caller.run(writer, call, found, confirmed=True)

    def deny(self, execution_id: str, reason: str | None = None) -> CallOutcome:
        """Deny a call; it is recorded as an error, with the ``reason``, and never runs.

        Raises:
            MayNotApproveError: when the principal's role may not settle it.
            AlreadySettledError: when somebody was first, or it ran out.
        """
        asked = self.find(execution_id)
        self._check_may_settle(asked)
        with self.chats.open(asked.chat_id) as chat, self.engine.writing(chat) as writer:
            approval, call = _current(chat, asked)
            decided = _decided(approval, "denied", self.engine.principal, reason)
            if not writer.put_approval(decided, before=approval):
                raise AlreadySettledError("somebody else settled it just now")
            record = commits.unfinished(call, "denied", f"{self.engine.principal.id} denied it")
            done = finished_call(chat.manifest(writer.finish_call(call, record)))
            assert done is not None
            return CallOutcome(done, error=record.error)

    def _check_may_settle(self, asked: Approval) -> None:
        # The id alone decides, so that a call can be denied whose tool is broken or gone.
        tool = named_tool(asked.tool_id)
        if not self.engine.catalog.may_approve(tool).allowed:
            raise MayNotApproveError(self.engine, tool)

    def exists(self, tool_id: str) -> bool:
        """Tell whether approvals of that tool's calls exist for the principal."""
        catalog, tool = self.engine.catalog, named_tool(tool_id)
        return bool(catalog.visible([tool])) or catalog.may_approve(tool).allowed

    def _of(self, chat_id: str) -> list[Approval]:
        with self.chats.open(chat_id) as chat:
            return chat.approvals()

    def _request_again(
        self,
        writer: Writer,
        approval: Approval,
        call: PendingCall,
        head: str | None,
        caller: Engine,
        found: Found,
    ) -> CallOutcome:
        """Ask about the call as it would run now, with what changed on the way here."""
        chat = writer.chat
        moved = call.model_copy(
            update={
                "base": head,
                "toolset": call.toolset.model_copy(update={"digest": found.toolset.digest}),
            }
        )
        outcome = caller.ask(writer, moved, found.tool, approval.reasons)
        assert outcome.approval is not None
        superseded = _decided(approval, "superseded", self.engine.principal)
        superseded = superseded.model_copy(update={"superseded_by": outcome.approval.execution_id})
        writer.put_approval(superseded, before=approval)
        return outcome._replace(changes=tuple(chat.changes(approval.base, head)))


def _still_callable(caller: Engine, asked: Approval) -> Found:
    """Return the tool if whoever asked could still call it: the policy may have changed since."""
    try:
        return caller.catalog.find_callable(asked.tool_id)
    except UnknownNameError:
        # Not its own words: they would offer one person the tools that another one may see.
        raise NoLongerCallableError(
            f"{asked.tool_id} no longer exists for {asked.by}, who asked for the call",
            hint=f"covalt-git approval deny {asked.execution_id}",
        ) from None


def _current(chat: ChatStore, asked: Approval) -> tuple[Approval, PendingCall]:
    """Return the approval and its call as they are now that the chat is held."""
    approval = chat.approval(asked.execution_id)
    call = next((one for one in chat.calls() if one.id == asked.call_id), None)
    if approval is None or approval.state != "pending" or call is None:
        state = approval.state if approval and approval.state != "pending" else "gone with its call"
        hint = "covalt-git approval list"
        if approval is not None and approval.superseded_by:
            hint = f"covalt-git approval show {approval.superseded_by}"
        raise AlreadySettledError(f"this approval is {state}", hint=hint)
    return approval, call


def _check_bound(approval: Approval, call: PendingCall) -> None:
    """Make sure that what would run is what a person was shown."""
    asked = (approval.by, approval.role, approval.branch, approval.tool_id, approval.args_digest)
    waits = (call.by, call.role, call.branch, call.tool_id, canonical_json.digest(call.args))
    if asked != waits:
        raise ApprovalMismatchError(
            "the call that waits is not the one this approval is about, so nothing ran",
            hint=f"covalt-git approval deny {approval.execution_id}",
        )


def _decided(
    approval: Approval, state: str, principal: Principal, reason: str | None = None
) -> Approval:
    return approval.model_copy(
        update={
            "state": state,
            "decided_by": principal.id,
            "decided_at": commits.now(),
            "decision_reason": reason,
        }
    )
