"""Approvals of calls: each is approved or denied once, by a reviewer whose role permits it.

An approval is for one call on exactly the files that the reviewer saw, including files that are not committed.
If the files or the tool have changed, approving runs nothing and requests a new approval, which shows the
difference.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Self

from covalt_git.access import NamedTool, Principal, Subject, acting, allowed_roles
from covalt_git.calls.builtin_calls import named_commits
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.preconditions import check_found, check_space
from covalt_git.calls.script_place import OtherBranchError
from covalt_git.calls.telemetry import observe_call
from covalt_git.elicitation.requests import answered_before, check_answerable, check_answers
from covalt_git.errors import NEEDS_APPROVAL, CovaltError, UnknownNameError, listed
from covalt_git.json_values import canonical_json
from covalt_git.manifests.toolset_files import readable
from covalt_git.models.access_token import AccessToken
from covalt_git.names import LOCAL_USER, REGISTRY_NAMESPACE, is_new_id
from covalt_git.system.node_folder import commit_of
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import APPROVALS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from covalt_git.calls.engine import Engine
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval, ApprovalState, PendingCall
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats
    from covalt_git.workspaces.writer import Writer


_WHERE_TO_ANSWER = (
    "answer at a terminal, on the page of the approval, by `resume` of an MCP client with elicitation,"
    " or by `answers` of approve_call"
)


class AlreadyDecidedError(CovaltError):
    """The approval is no longer pending."""

    code = "already_settled"
    http_status = 409


class MayNotApproveError(CovaltError):
    """The principal's role may not approve calls of this tool."""

    code = "may_not_approve"
    http_status = 403

    def __init__(self, engine: Engine, tool: Subject) -> None:
        super().__init__(
            f"{acting(engine.config, engine.principal)} may not approve or deny calls of {tool.tool_id}",
            hint=allowed_roles(engine.config, "approve", tool),
        )


class NoLongerCallableError(CovaltError):
    """The caller can no longer make the call: the tool is deleted, or hidden from the caller."""

    code = "no_longer_callable"
    http_status = 409


class ApprovalMismatchError(CovaltError):
    """The pending call differs from the approved one."""

    code = "not_what_was_asked"
    http_status = 409


class ApprovalRenewedError(CovaltError):
    """The files or the tool have changed; a new approval with the difference is pending."""

    code = "asked_again"
    exit_code = NEEDS_APPROVAL
    http_status = 409

    def __init__(self, why: str, outcome: CallOutcome) -> None:
        assert outcome.approval is not None
        super().__init__(
            f"{why} since this approval was requested; nothing ran, and a new approval is pending",
            hint=f"covalt-git approval show {outcome.approval.execution_id}",
        )
        self.outcome = outcome
        self.execution_id = outcome.approval.execution_id


def find_approval(chats: Chats, execution_id: str) -> Approval | None:
    """Return the approval with an id, of any tool; None if no chat has it."""
    for chat_id in chats.first_with_ref(APPROVALS + execution_id):
        with chats.open(chat_id) as chat:
            if (approval := chat.approval(execution_id)) is not None:
                return approval
    return None


class Approvals(NamedTuple):
    """The approvals of all chats that are visible to the engine's principal.

    An approval is visible if the principal may see the tool, or approve its calls.
    """

    engine: Engine
    chats: Chats
    may_also: Callable[[ProjectConfig, Approval], bool] | None = None
    """What else a decision needs, such as over MCP; asked again after each wait."""

    def find(self, text: str) -> Approval:
        """Return the approval whose id is or ends with ``text``.

        Raises:
            CovaltError: if no id or several ids match.
        """
        if is_new_id(text):
            approval = find_approval(self.chats, text)
            if approval is not None and self.exists(approval.tool_id):
                return approval
        every: list[Approval] = []
        for chat_id in self.chats.ids():
            with self.chats.open(chat_id) as chat:
                every += chat.approvals()
        visible = [approval for approval in every if self.exists(approval.tool_id)]
        matches = [approval for approval in visible if approval.execution_id == text]
        if not matches and len(text) >= 4:  # noqa: PLR2004 - shorter suffixes match by chance
            matches = [approval for approval in visible if approval.execution_id.endswith(text)]
        if len(matches) > 1:
            raise CovaltError(
                f"the ids of several approvals end in {text!r}", hint="use the full id"
            )
        if not matches:
            pending = [approval.execution_id for approval in visible if approval.state == "pending"]
            raise UnknownNameError("approval", text, pending, list_with="covalt-git approval list")
        return matches[0]

    def answering(self, approval: Approval, answers: Mapping[str, JsonObject]) -> Self:
        """Return the approvals with a user's answers to the questions of one of them.

        Raises:
            CannotAskError: if an answer is missing.
            InvalidAnswerError: if one does not match its question.
        """
        check_answers(approval.questions, answers)
        follower = replace(self.engine.follower, respondent=answered_before(answers))
        return self._replace(engine=replace(self.engine, follower=follower))

    def approve(self, execution_id: str, reason: str | None = None) -> CallOutcome:
        """Approve a call and run it now; record the ``reason``.

        Raises:
            MayNotApproveError: if the principal's role may not approve it.
            AlreadyDecidedError: if it is no longer pending.
            NoLongerCallableError: if the caller can no longer make the call.
            ApprovalMismatchError: if the stored call was altered.
            OtherBranchError: if another branch is active.
            ApprovalRenewedError: if the files or the tool have changed; nothing ran.
        """
        approval = self.find(execution_id)
        with self.recording(approval):
            self._check_may_decide(self.engine, approval)
        with observe_call(approval.chat_id, approval.tool_id, approval.call_id) as observed:
            outcome = self._run_approved(approval, reason)
            observed.set_outcome(outcome)
            return outcome

    def _run_approved(self, approval: Approval, reason: str | None) -> CallOutcome:
        with self.chats.open(approval.chat_id) as chat, self.engine.writing(chat) as writer:
            approval, call = _current(chat, approval)
            _check_same_call(approval, call)
            # Before the decision: without an answer, the call would only run up to its question again.
            check_answerable(self.engine.follower.respondent, approval.questions, _WHERE_TO_ANSWER)
            with self.recording(approval):
                _, target = self._check_callable(approval)
            check_space(target.tool, chat)
            if chat.active_branch() != approval.branch:
                raise OtherBranchError(chat.id, approval.branch)
            head = writer.commit_changes()
            snapshot = writer.scan()
            # Again: a commit and a scan of many files take long.
            with self.recording(approval):
                caller, target = self._check_callable(approval)
            why = ""
            if approval.token and target.definition_digest != approval.definition_digest:
                # Only its digest is stored, so what the tool requires of it now cannot be checked.
                raise NoLongerCallableError(
                    f"{_changed(target)}, so the access token of the call has to be checked again",
                    hint=f"covalt-git approval deny {approval.execution_id}; the caller makes the call again",
                )
            if target.definition_digest != approval.definition_digest:
                why = _changed(target)
            elif chat.state(head) != chat.state(approval.base):
                why = "the workspace has changed"
            # The commits are equal, but a program in node_modules/ or in another ignored folder can be a different
            # one.
            elif snapshot.unstored_digest(chat.workspace) != approval.unstored:
                paths = snapshot.unstored()
                names = f" ({listed([readable(path) for path in paths])})" if paths else ""
                why = f"the uncommitted part of the workspace{names} has changed"
            # A branch has moved, or an agent has made one whose name is what the reviewer took for another commit.
            elif named_commits(chat, target.tool.tool_id, approval.args) != approval.commits:
                why = "a name of a commit in the arguments means another commit"
            if why:
                renewed = self._request_again(writer, approval, call, head, caller, target)
                raise ApprovalRenewedError(why, renewed)
            # Stored before the run: a process that is killed while the tool runs must not leave an approval that runs
            # it a second time (tests/calls/test_approvals_once.py).
            self._decide(writer, approval, "approved", reason)
            return caller.run(writer, _at_commit(call, caller), target, confirmed=True)

    def _check_callable(self, approval: Approval) -> tuple[Engine, Found]:
        """Check that the approved call may run now; return the caller's engine and the tool.

        Roles, trust and the toolset may have changed while the decision waited for the chat.
        """
        engine = self.engine.as_of_now()
        self._check_may_decide(engine, approval)
        caller = replace(engine, principal=_caller_of(approval, engine.config))
        target = _find_callable(caller, approval)
        caller.catalog.check_rules(target.tools, approval.args)
        # The reviewer decides about both tools of an alias. Otherwise an alias would give a role the right to approve
        # calls of a tool that its approve patterns do not name.
        if target.alias and not engine.catalog.may_approve(target.tool).allowed:
            raise MayNotApproveError(engine, NamedTool(target.tool.tool_id))
        check_found(target, engine.root, engine.config)
        return caller, target

    def _check_may_decide(self, engine: Engine, approval: Approval) -> None:
        # By the id alone, so that a call of a broken or deleted tool can be denied.
        tool = NamedTool(approval.tool_id)
        may_also = self.may_also is None or self.may_also(engine.config, approval)
        if not may_also or not engine.catalog.may_approve(tool).allowed:
            raise MayNotApproveError(engine, tool)

    def deny(self, execution_id: str, reason: str | None = None) -> CallOutcome:
        """Deny a call; it is recorded as an error, with the ``reason``, and never runs.

        Raises:
            MayNotApproveError: if the principal's role may not deny it.
            AlreadyDecidedError: if it is no longer pending.
        """
        approval = self.find(execution_id)
        with self.recording(approval):
            self._check_may_decide(self.engine, approval)
        with self.chats.open(approval.chat_id) as chat, self.engine.writing(chat) as writer:
            approval, call = _current(chat, approval)
            with self.recording(approval):
                self._check_may_decide(self.engine.as_of_now(), approval)
            self._decide(writer, approval, "denied", reason)
            why = f": {reason}" if reason else ""
            by = self.engine.principal.id
            record = commits.unfinished(call, "denied", f"{by} denied it{why}")
            tool_call = chat.manifest(writer.finish_call(call, record)).tool_call
            assert tool_call is not None
            return CallOutcome(tool_call, error=record.error, parent=call.parent)

    def withdraw(self, execution_id: str, why: str) -> None:
        """End a pending call of the principal itself, which needs no right to decide; it never runs.

        Raises:
            MayNotApproveError: if another principal requested it.
            AlreadyDecidedError: if it is no longer pending.
        """
        approval = self.find(execution_id)
        principal = self.engine.principal
        if (approval.by, approval.role) != (principal.id, principal.role):
            raise MayNotApproveError(self.engine, NamedTool(approval.tool_id))
        with self.chats.open(approval.chat_id) as chat, self.engine.writing(chat) as writer:
            approval, call = _current(chat, approval)
            self._decide(writer, approval, "denied", why)
            writer.finish_call(call, commits.unfinished(call, "cancelled", why))

    def recording(self, approval: Approval) -> AbstractContextManager[None]:
        """Record that the reviewer may not decide, or that the call may no longer be made."""
        return self.engine.decisions.recording(
            approval.tool_id,
            approval.args,
            chat_id=approval.chat_id,
            call_id=approval.call_id,
            execution_id=approval.execution_id,
        )

    def _decide(
        self, writer: Writer, approval: Approval, state: ApprovalState, reason: str | None
    ) -> None:
        by = self.engine.principal.id
        if not writer.decide(approval, state, decided_by=by, decision_reason=reason):
            raise AlreadyDecidedError("another user approved or denied it just now")

    def exists(self, tool_id: str) -> bool:
        """Return whether approvals of that tool's calls are visible to the principal."""
        catalog, tool = self.engine.catalog, NamedTool(tool_id)
        return catalog.decide("see", tool).allowed or catalog.may_approve(tool).allowed

    def _request_again(
        self,
        writer: Writer,
        approval: Approval,
        call: PendingCall,
        head: str | None,
        caller: Engine,
        target: Found,
    ) -> CallOutcome:
        """Request approval of the call on the current files; return the call and a description of the changes."""
        chat = writer.chat
        current = call.model_copy(
            update={
                "base": head,
                "toolset": call.toolset.model_copy(
                    update={"digest": target.toolset.digest, "commit": commit_of(caller.root)}
                ),
            }
        )
        outcome = caller.ask(writer, current, target, approval.reasons, approval.questions)
        assert outcome.approval is not None
        by, newer = self.engine.principal.id, outcome.approval.execution_id
        # Only after the new approval is stored. If the process is killed in between, the next writer expires the old
        # approval, and the call still has one
        # (test_a_call_killed_while_its_approval_is_renewed_runs_by_the_new_approval_only).
        writer.decide(approval, "superseded", decided_by=by, superseded_by=newer)
        return outcome._replace(changes=tuple(chat.changes(approval.base, head)))


def _at_commit(call: PendingCall, caller: Engine) -> PendingCall:
    """Return a call with the commit of the project that it runs, to which a node may have moved since it was requested."""
    toolset = call.toolset.model_copy(update={"commit": commit_of(caller.root)})
    return call.model_copy(update={"toolset": toolset})


def _caller_of(approval: Approval, config: ProjectConfig) -> Principal:
    """Return the principal that requested a call, with the facts of its access token.

    Raises:
        NoLongerCallableError: if the issuer of the token is no longer accepted.
    """
    record, digest = approval.token, approval.token_digest
    if record is None or digest is None:
        return Principal(approval.by, approval.role)
    if record.issuer not in {issuer.issuer for issuer in config.issuers}:
        raise NoLongerCallableError(
            "tokens of the issuer with which the call was requested are no longer accepted",
            hint=f"covalt-git approval deny {approval.execution_id}",
        )
    token = AccessToken(
        record.issuer,
        record.subject,
        approval.role or "",
        digest,
        int(datetime.fromisoformat(approval.expires_at).timestamp()),
        record.jti,
        approved=True,
    )
    return Principal(approval.by, approval.role, token=token)


def _find_callable(caller: Engine, approval: Approval) -> Found:
    """Return the tool if the caller may still call it: the policy may have changed since."""
    try:
        return caller.catalog.find_callable(approval.tool_id)
    except UnknownNameError:
        # The original error would suggest to the reviewer names of tools that only the caller may see.
        by = "" if approval.by == LOCAL_USER else f" for {approval.by}, who requested the call"
        raise NoLongerCallableError(
            f"{approval.tool_id} no longer exists{by}",
            hint=f"covalt-git approval deny {approval.execution_id}",
        ) from None


def _changed(target: Found) -> str:
    """Return what differs from the requested call: its digest covers the tool, and an entry that forwards to it."""
    if target.alias is not None:
        return f"the registered tool {target.tool_id!r}, or the tool that it calls, has changed"
    if target.toolset.id == REGISTRY_NAMESPACE:
        return f"the registered tool {target.tool_id!r} has changed"
    return f"the toolset {target.toolset.id!r} has changed"


def _current(chat: ChatStore, reviewed: Approval) -> tuple[Approval, PendingCall]:
    """Return the pending approval and its call as stored, while the chat is locked."""
    approval = chat.approval(reviewed.execution_id)
    call = next((call for call in chat.calls() if call.id == reviewed.call_id), None)
    if approval is None or approval.state != "pending" or call is None:
        state = (
            f"already {approval.state}" if approval and approval.state != "pending" else "deleted"
        )
        hint = "covalt-git approval list"
        if approval is not None and approval.superseded_by:
            hint = f"covalt-git approval show {approval.superseded_by}"
        raise AlreadyDecidedError(f"this approval is {state}", hint=hint)
    return approval, call


def _check_same_call(approval: Approval, call: PendingCall) -> None:
    """Check that the reviewer saw this pending call."""
    # Any program of the user can alter the stored call, so it is compared with what the reviewer saw
    # (test_a_stored_call_that_was_altered_does_not_run).
    reviewed = (
        approval.by,
        approval.role,
        approval.branch,
        approval.tool_id,
        approval.args_digest,
        approval.token,
    )
    pending = (
        call.by,
        call.role,
        call.branch,
        call.tool_id,
        canonical_json.digest(call.args),
        call.token,
    )
    if reviewed != pending:
        raise ApprovalMismatchError(
            "the pending call differs from the one that this approval is about; nothing ran",
            hint=f"covalt-git approval deny {approval.execution_id}",
        )
