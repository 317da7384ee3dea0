"""Engine that makes calls: access check, validation, approval, run, and one commit by compare-and-swap.

A call is stored as running before it starts, and reported as finished only after its commit.  If its process is
killed in between, the next writer records the call as interrupted.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from covalt_git import timestamps
from covalt_git.access import security
from covalt_git.audit.refusals import Decisions
from covalt_git.calls import (
    builtin_calls,
    concurrent_reads,
    http_calls,
    preconditions,
    python_calls,
    tool_grants,
)
from covalt_git.calls.idempotency import IdempotencyKey
from covalt_git.calls.outcomes import (
    CallOutcome,
    as_recorded,
    encodable,
    has_workspace,
    read_only_violation,
    record_of,
    record_of_problem,
    returned_files,
    unrecorded,
    why_failed,
)
from covalt_git.calls.running import RUNNING, Follower, Started
from covalt_git.calls.servers import mcp_calls
from covalt_git.calls.servers.held_task import HeldTask
from covalt_git.calls.telemetry import observe_call, step, waiting
from covalt_git.calls.tool_run import ToolRun
from covalt_git.catalog.catalog import Catalog, Found
from covalt_git.catalog.current_config import current_config
from covalt_git.conversations import conversation
from covalt_git.elicitation.requests import waiting_for_user
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import Approval, CallError, PendingCall, TokenRecord, ToolsetVersion
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.models.outcomes import Outcome
from covalt_git.names import check_new_id, new_id
from covalt_git.runtime import sandbox_levels
from covalt_git.system.node_folder import commit_of
from covalt_git.toolsets.tool_arguments import check_arguments
from covalt_git.toolsets.toolset_copies import ToolsetChangedError
from covalt_git.workspaces import commits
from covalt_git.workspaces.lock import CancelledError, ChatBusyError
from covalt_git.workspaces.writing import (
    PATIENCE_S,
    REPEATS,
    follow_server,
    repeatable,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from covalt_git.access import Principal
    from covalt_git.calls.script_place import ScriptPlace
    from covalt_git.issuers.spent_tokens import SpentTokens
    from covalt_git.json_values import JsonObject
    from covalt_git.models.access_token import AccessToken
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.commit_record import CallRecord
    from covalt_git.models.elicitation import Question
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot
    from covalt_git.workspaces.trees import FolderState
    from covalt_git.workspaces.writer import Writer


_logger = logging.getLogger(__name__)

ASKS = "it asks a question"
"""Reason of the approval of a call of a script that was stopped at its question."""

_LAST_S = 253_402_300_799
"""The last second that a timestamp can have, at the end of the year 9999."""

_READINGS = 3
"""Number of times that a toolset is read if it changes meanwhile."""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """Request to call a tool, before any check.

    ``call_id`` is an idempotency key: a repeated request with it makes no second call.  A ``fresh`` id was
    generated for this request, so that no earlier call can have it.  An id that is ``only_in_chat`` can be that of an
    earlier call of this chat alone, so the other chats are not searched.  ``script`` is the place in a script that
    makes the call.
    """

    tool_id: str
    args: JsonObject
    message_id: str | None = None
    call_id: str | None = None
    fresh: bool = False
    only_in_chat: bool = False
    script: ScriptPlace | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """Makes calls for one principal.

    While a call waits for the chat lock, ``waiting`` is called with each process that holds it.  ``follower``
    receives the events of calls and may cancel them.  Python tools run at the sandbox level ``level``, by default
    the strongest of this machine.
    """

    root: Path
    config: ProjectConfig
    principal: Principal
    waiting: Callable[[str], None] | None = None
    follower: Follower = field(default_factory=Follower, compare=False)
    level: SandboxLevel | None = None

    def call(
        self, chat: ChatStore, request: CallRequest, target: Found | None = None
    ) -> CallOutcome:
        """Make a call: run it to its end, or store it as pending if it needs approval.

        If a call with the request's id already exists, return that call and run nothing.  ``target`` is the
        result of :meth:`check` for the request, if the caller has already called it.

        Raises:
            BadNameError: if the call's id is invalid.
            IdTakenError: if another call has the id.
            UnknownNameError: if the tool is not visible to the principal, or the message does not exist.
            CovaltError: if the message is not on the active branch.
            InvalidArgumentsError: with all problems of the arguments; nothing is recorded.
            PolicyDeniedError: if a rule denies the call; nothing is recorded.
            SandboxNeededError: if the toolset needs a stronger sandbox than this machine has.
            CovaltError: as :func:`.check_space`.
            CannotInstallError: if the toolset's dependencies cannot be installed.
            CancelledError: if the follower cancels while the call waits for its chat.
        """
        # Tracked until it is recorded, because a server that stops waits for tracked calls.  A client that sent the id of
        # its call can cancel the call already here, while it waits for its chat.  The new id of another call is only an
        # entry to wait for: its client learns the id of the call when it starts.
        with (
            observe_call(chat.id, request.tool_id, request.call_id) as observed,
            self._tracked(request.call_id or new_id(), chat.id, request.tool_id),
        ):
            outcome = self._run_call(chat, request, target)
            observed.set_outcome(outcome)
            return outcome

    def _run_call(self, chat: ChatStore, request: CallRequest, target: Found | None) -> CallOutcome:
        repeated = self.earlier_outcome(chat, request)
        if repeated is not None:
            return repeated
        target = target or self.check(request)
        self._check_can_sign(chat)
        if not self.reasons(target, request):
            self._prepare(chat, target)
        # If the chat is busy, a read-only call runs on a copy of the last commit. Otherwise one long call blocks each
        # read until it ends (tests/calls/test_concurrent_reads.py).
        if self._may_run_concurrently(target, request):
            repeats = self._may_repeat(request)
            with repeatable(), ExitStack() as stack:
                try:
                    writer = stack.enter_context(self.writing(chat, timeout_s=0, repeats=repeats))
                except ChatBusyError:
                    outcome = self._call_on_copy(chat, target, request)
                    if outcome is not None:
                        return outcome
                else:
                    return self._call(writer, request, target)
        return self._call_in_turn(chat, request, target)

    def _call_in_turn(self, chat: ChatStore, request: CallRequest, target: Found) -> CallOutcome:
        """Make a call when the chat is free."""
        for _ in range(REPEATS if self._may_repeat(request) else 0):
            with repeatable(), self.writing(chat, repeats=True) as writer:
                return self._call(writer, request, target)
        with self.writing(chat) as writer:
            return self._call(writer, request, target)

    def _may_repeat(self, request: CallRequest) -> bool:
        """Return whether a call that has not started can be made again.

        A token, or an allowance of a script, may be spent before the tool starts.
        """
        return self.principal.token is None and request.script is None

    @staticmethod
    def _check_can_sign(chat: ChatStore) -> None:
        """Check that the commit of a call can be signed: after the tool has run, it would be too late.

        Raises:
            SigningKeyError: if the key cannot be used; :attr:`.ChatStore.signing_key` raises NotTrustedError too.
        """
        _ = chat.signing_key

    def _prepare(self, chat: ChatStore, target: Found) -> None:
        """Install dependencies or start the MCP server before the chat is locked, because it may take long."""
        if target.tool.kind == "python":
            python_calls.prepare(self.job(target, chat))
        elif target.tool.kind == "mcp":
            mcp_calls.prepare(self.job(target, chat))

    def job(self, target: Found, chat: ChatStore) -> ToolRun:
        """Return the run of a tool in a chat."""

        def check_again() -> None:
            engine = self.as_of_now()
            current = engine.catalog.find_callable(target.tool_id)
            preconditions.check_found(current, engine.root, engine.config, at=engine.level)

        return ToolRun(target, chat, self.root, self.config, self.follower, check_again)

    def _call(self, writer: Writer, request: CallRequest, target: Found) -> CallOutcome:
        """Make a call in the locked chat."""
        self._check_not_cancelled()
        # Looked up again under the lock: a repeated request that waited here must find the call that held the lock,
        # or the tool runs twice (test_several_processes_run_a_call_once).
        repeated = self.earlier_outcome(writer.chat, request)
        if repeated is not None:
            return repeated
        if not self.reasons(target, request):
            # Before anything is written: a call that fills the disk leaves a chat in which each later command fails
            # with ENOSPC.
            preconditions.check_space(target.tool, writer.chat)
        if request.script is not None:
            request.script.check_branch(writer.chat)
        base = writer.commit_changes()
        # The wait and the commit may take long.  Meanwhile roles, rules, trust, grants and the toolset may change.
        engine, target = self.decide_again(request)
        call = engine.new_call(writer.chat, target, request, base=base)
        # Before an approval is requested, which a spent token could never use.
        engine._check_not_spent(target)  # noqa: SLF001 - of the same class
        reasons = engine.reasons(target, request)
        if not reasons:
            return engine.run(writer, call, target, place=request.script)
        # After the rights and the rules: an allowance is an approval in advance, and gives no right to the caller.
        allowed = request.script and request.script.allow(writer, call, target)
        if allowed:
            return engine.run(writer, allowed, target, confirmed=True)
        return engine.ask(writer, call, target, reasons)

    def _check_not_cancelled(self) -> None:
        if self.follower.cancel.is_set():
            raise CancelledError(f"the call did not begin: {self.follower.cancel.why}")

    def as_of_now(self) -> Self:
        """Return the engine with the current configuration; use it for each decision after a wait.

        Raises:
            BrokenConfigError: if ``covalt.yaml`` has errors now.
        """
        return replace(self, config=current_config(self.root))

    def decide_again(self, request: CallRequest) -> tuple[Self, Found]:
        """Return the engine with the current configuration, and the tool that the call runs now.

        Raises:
            CovaltError: as :meth:`check`, and as :meth:`as_of_now`.
        """
        engine = self.as_of_now()
        target = engine.check(request)
        # The rules once more: a pull that comes after their trust was decided may have brought the tool.
        engine = engine.as_of_now()
        engine.catalog.check_rules(target.tools, request.args)
        return engine, target

    def new_call(
        self, chat: ChatStore, target: Found, request: CallRequest, *, base: str | None
    ) -> PendingCall:
        """Return the call of a request, which begins now on the files of the commit ``base``."""
        message_id, toolset = request.message_id, target.toolset
        return PendingCall(
            id=request.call_id or new_id(),
            chat_id=chat.id,
            branch=chat.active_branch(),
            tool_id=target.tool_id,
            args=request.args,
            status="running",
            by=self.principal.id,
            role=self.principal.role,
            started_at=commits.now(),
            message_id=None if message_id is None else conversation.of_call(chat, message_id),
            base=base,
            toolset=ToolsetVersion(
                id=toolset.id,
                version=toolset.manifest.version if toolset.manifest else "",
                digest=toolset.digest,
                commit=commit_of(self.root),
            ),
            parent=request.script and request.script.script_id,
            line=request.script and request.script.line,
            token=self._token_record(target),
        )

    def _token_record(self, target: Found) -> TokenRecord | None:
        token = self.principal.token
        if token is None:
            return None
        checks = security.checks_passed(target.tools)
        return TokenRecord(issuer=token.issuer, subject=token.subject, jti=token.jti, checks=checks)

    def spend_token(
        self, target: Found, chat: ChatStore, call_id: str, *, again: bool = False
    ) -> None:
        """Spend the token of a call that is for a single execution, before the tool runs; others are not spent.

        Arguments as of :meth:`.SpentTokens.spend`.

        Raises:
            TokenRefusedError: if another call has spent it, or it cannot be noted as spent.
        """
        self._with_spent_tokens(
            target, lambda spent, token: spent.spend(token, chat.id, call_id, again=again)
        )

    def _check_not_spent(self, target: Found) -> None:
        """Check that no call has spent the token of a new one.

        Raises:
            TokenRefusedError: if one has.
        """
        self._with_spent_tokens(target, lambda spent, token: spent.check(token))

    def _with_spent_tokens(
        self, target: Found, work: Callable[[SpentTokens, AccessToken], None]
    ) -> None:
        token = self.principal.token
        if token is None or not security.is_bound(target.tools):
            return
        from covalt_git.issuers import spent_tokens  # noqa: PLC0415 - few calls spend tokens
        from covalt_git.issuers.spent_tokens import SpentTokenError, SpentTokens  # noqa: PLC0415
        from covalt_git.workspaces.server_notes import notes_of  # noqa: PLC0415

        notes = notes_of(self.config.workspace, spent_tokens.PREFIX)
        try:
            work(SpentTokens(self.root, notes), token)
        except SpentTokenError as error:
            raise security.not_bound(target.tools[0], str(error)) from None

    def _may_run_concurrently(self, target: Found, request: CallRequest) -> bool:
        """Return whether a call need not wait for another call of its chat.

        A call with an idempotency key has to wait, because the running call may be the same one.  A call of the queue
        is made a second time only if its first worker has died or lost its connection.
        """
        may_repeat = request.call_id is not None and not (request.fresh or request.only_in_chat)
        return (
            preconditions.is_read_only(target.tool)
            and not may_repeat
            # The token is spent by one attempt, and a call on a copy may be made a second time.
            and not security.is_bound(target.tools)
            and not self.reasons(target, request)
        )

    def _call_on_copy(
        self, chat: ChatStore, target: Found, request: CallRequest
    ) -> CallOutcome | None:
        """Make a read-only call on a copy of the branch's files, while another call has the chat's lock.

        Return None if the tool's decorator requires approval, which is not known before the tool's module is imported,
        or if the call may not run concurrently any more.
        """
        if not chat.is_followed:
            follow_server(chat)
        base = chat.head()
        with concurrent_reads.copy_of(chat, base) as copy:
            # The installation of dependencies and the copy may take long, as in _call.
            engine, target = self.decide_again(request)
            if not engine._may_run_concurrently(target, request):  # noqa: SLF001 - as above
                return None
            call = engine.new_call(chat, target, request, base=base)
            begin = partial(self.follower.report, Started(call.id))
            with self._tracked(call.id, chat.id, call.tool_id), step("run", call.id):
                # Not warm: a sandbox serves calls in one folder only, and each copy is a new folder.
                outcome = engine._outcome(copy, call, target, begin=begin, warm=False)  # noqa: SLF001 - as above
            outcome = concurrent_reads.outcome_with_home_paths(outcome, copy, chat)
            # The call needs an approval or an answer. It cannot be pending on a copy, so it is made in the chat instead.
            if outcome.status in {"confirmation", "question"}:
                return None
            if outcome.status == "invalid_arguments":
                raise preconditions.refused(call.tool_id, outcome.problems, target)
            error = why_failed(outcome, target, call.args, self.follower.cancel)
            files = copy.state(call.base)
            # A copy has no writer, whose scan would create the missing folder.
            if not has_workspace(copy.workspace):
                copy.workspace.mkdir()
            with step("snapshot"), copy.scan_in_memory() as after:
                added = {}
                if not after.holds(files):
                    if error is None:
                        added = returned_files(copy, files, after, outcome.result)
                    if not added:
                        error = read_only_violation(copy, files, after, error)
        # Without cancellation, because a call that has run must be recorded.  It is not if the chat stays busy for
        # PATIENCE_S: then the caller gets that error, and the call may be repeated, because it changed nothing.
        not_cancellable = replace(self, follower=Follower(self.follower.report))
        with not_cancellable.writing(chat) as writer:
            # Another worker may have recorded this call of the queue meanwhile; it changed nothing either.
            repeated = self.earlier_outcome(chat, request)
            if repeated is not None:
                return repeated
            # The branch may have moved while the tool ran on its copy. The record is added to the new head, and its
            # base says which files the tool read.
            head = writer.commit_changes()
            with_id = replace(request, call_id=call.id)
            finished = self.new_call(chat, target, with_id, base=head)
            finished = finished.model_copy(
                update={"started_at": call.started_at, "toolset": call.toolset}
            )
            read = None if head == call.base else call.base
            change = None
            if added:
                # Another call may have put a file in the same place meanwhile.
                try:
                    change = builtin_calls.returned(chat, head, finished, added)
                except CovaltError as problem:
                    error = CallError(code=problem.code, message=problem.message, hint=problem.hint)
            record = self._record_of(writer, finished, target, outcome, error, read=read)
            if change is None:
                return self._commit(chat, writer, finished, record)
            with step("commit"):
                record = encodable(record)
                manifest_id = builtin_calls.commit_change(writer, finished, record, change, head)
            return as_recorded(chat, chat.manifest(manifest_id))

    @property
    def catalog(self) -> Catalog:
        """The toolsets that are visible to the principal."""
        return Catalog(self.config, self.principal, self.root)

    @contextmanager
    def writing(
        self, chat: ChatStore, *, timeout_s: float = PATIENCE_S, repeats: bool = False
    ) -> Iterator[Writer]:
        """Lock the chat for writing; wait at most ``timeout_s`` seconds for it; ``repeats`` as of :func:`.writing`."""
        with ExitStack() as stack:
            with waiting(self.waiting) as report_holder:
                writer = stack.enter_context(
                    writing(
                        chat,
                        by=self.principal.id,
                        timeout_s=timeout_s,
                        waiting=report_holder,
                        cancel=self.follower.cancel,
                        repeats=repeats,
                    )
                )
            yield writer

    @property
    def decisions(self) -> Decisions:
        """Records the refused and asked calls of the principal."""
        return Decisions(self.root, self.catalog)

    def check(self, request: CallRequest, target: Found | None = None) -> Found:
        """Check that a call can be made now, and return its tool; ``target``, if the caller has it.

        A refusal is recorded.

        Raises:
            CovaltError: as :meth:`call` before it waits for the chat.
        """
        parent = request.script and request.script.script_id
        with self.decisions.recording(request.tool_id, request.args, parent=parent):
            return self.find_checked(request, target)

    def find_checked(self, request: CallRequest, target: Found | None = None) -> Found:
        """Return the tool of a call as :meth:`check` does, for a caller after which :meth:`check` is called anyway.

        Raises:
            CovaltError: as :meth:`check`.
        """
        target = target or self.catalog.find_callable(request.tool_id)
        # The author may save a file between the reading of the toolset and the copy of its files, which must match
        # the digest. The limit is for a file that a program writes all the time.
        for retries in reversed(range(_READINGS)):
            try:
                preconditions.check_found(target, self.root, self.config, at=self.level)
                break
            except ToolsetChangedError:
                if not retries:
                    raise
                target = self.catalog.find_callable(request.tool_id)
        for tool in target.tools:
            preconditions.check_caller(tool, "direct" if request.script is None else "script")
            check_arguments(tool, request.args)
        self.catalog.check_rules(target.tools, request.args)
        self._check_binding(target, request)
        return target

    def _check_binding(self, target: Found, request: CallRequest) -> None:
        """Check what ``security`` requires of this one call, after everything about its token and tool.

        Raises:
            TokenRefusedError: if the token is not bound to the call, or a script makes it.
        """
        refusal = security.script_refusal(target.tools) if request.script is not None else None
        for tool in target.tools:
            refusal = refusal or security.binding_refusal(tool, self.principal.token, request.args)
        if refusal is not None:
            raise refusal

    def earlier_outcome(self, chat: ChatStore, request: CallRequest) -> CallOutcome | None:
        """Return the earlier call with the request's id, which :meth:`call` would return; None while it runs.

        Raises:
            CovaltError: as :meth:`call` if the id is invalid or that of another call.
        """
        # This is checked before the call is looked up.  An id with other arguments is an error, so a role that does
        # not see the tool could guess the arguments of its calls.
        if request.call_id is None or request.fresh or not self.catalog.sees(request.tool_id):
            return None
        key = IdempotencyKey(check_new_id(request.call_id, "call"), request.tool_id, request.args)
        elsewhere = not request.only_in_chat
        earlier = key.find_call(self.root, self.config.workspace, chat, elsewhere=elsewhere)
        if earlier is None:
            return None
        if isinstance(earlier, WorkspaceManifest):
            return as_recorded(chat, earlier)._replace(repeated=True)
        approval = chat.approval(earlier.execution_id) if earlier.execution_id else None
        if earlier.status == "pending" and earlier.server_task is not None:
            # It would run a second time: its server may still work on the first call.
            raise CovaltError(
                "the call waits for its MCP server, because the process that made it has ended",
                hint="make the request again later: a server of covalt-git fetches the answer when it starts",
                code="still_running",
                http_status=409,
            )
        if approval is None or approval.state != "pending":
            return None  # the call runs or is about to run; it has ended when this request gets the lock
        return CallOutcome(earlier.tool_call, approval, repeated=True)

    def reasons(self, target: Found, request: CallRequest) -> tuple[str, ...]:
        """Return why a call needs approval, as far as is known before it runs; empty if it needs none."""
        return self.catalog.decide_call(target.tools, request.args).reasons

    def ask(
        self,
        writer: Writer,
        call: PendingCall,
        target: Found,
        reasons: tuple[str, ...],
        questions: Mapping[str, Question] = MappingProxyType({}),
    ) -> CallOutcome:
        """Store the call as pending, with an approval for exactly this call on the current files.

        ``questions`` are those of the call that its reviewer will answer while it runs.
        """
        created = commits.now()
        lifetime = timedelta(seconds=self.config.limits.approval_expires_s)
        expires = datetime.now(UTC) + lifetime
        token = self.principal.token
        if token is not None and security.needs_token(target.tools):
            # The approval ends with the token: later, the caller must come with a new one and ask again.
            expires = min(expires, datetime.fromtimestamp(min(token.expires, _LAST_S), UTC))
        approval = Approval(
            execution_id=new_id(),
            call_id=call.id,
            chat_id=call.chat_id,
            branch=call.branch,
            tool_id=call.tool_id,
            args=call.args,
            args_digest=canonical_json.digest(call.args),
            definition_digest=target.definition_digest,
            by=call.by,
            role=call.role,
            reasons=reasons,
            message_id=call.message_id,
            base=call.base,
            token=call.token,
            token_digest=token.digest if token else None,
            unstored=writer.scan().unstored_digest(writer.chat.workspace),
            commits=builtin_calls.named_commits(writer.chat, target.tool.tool_id, call.args),
            questions=dict(questions),
            created_at=created,
            expires_at=timestamps.written(expires),
        )
        pending = call.model_copy(
            update={"status": "pending", "execution_id": approval.execution_id}
        )
        # First: a request that cannot be recorded must not become a call that waits and may run.
        self.decisions.asked(
            call.tool_id,
            call.args,
            reasons,
            chat_id=call.chat_id,
            call_id=call.id,
            execution_id=approval.execution_id,
            parent=call.parent,
        )
        # Here, where the end of the token is known: another call with it can then be neither made nor approved.
        self.spend_token(target, writer.chat, call.id, again=True)
        # The call first: if the process is killed in between, the call is recorded as one without approval.
        writer.put_call(pending)
        writer.put_approval(approval)
        return CallOutcome(pending.tool_call, approval)

    def run(
        self,
        writer: Writer,
        call: PendingCall,
        target: Found,
        *,
        confirmed: bool = False,
        place: ScriptPlace | None = None,
    ) -> CallOutcome:
        """Run the call on the current files, and commit its outcome.

        If ``confirmed``, the decorator of the tool cannot require approval, because a reviewer has given it.  ``place``
        is the place in the script that makes the call, which may be allowed there.
        """
        # Until it is recorded: a server that stops waits for what is tracked, and its process ends the threads of
        # requests (test_a_call_that_runs_when_the_server_stops_is_recorded).
        with self._tracked(call.id, call.chat_id, call.tool_id):
            return self._run(writer, call, target, confirmed=confirmed, place=place)

    def _run(
        self,
        writer: Writer,
        call: PendingCall,
        target: Found,
        *,
        confirmed: bool,
        place: ScriptPlace | None,
    ) -> CallOutcome:
        # Approved calls, replays and calls of scripts come here too.
        self._check_can_sign(writer.chat)
        # Nothing below is for our own code: it has no sandbox, limits or decorator. The call is not stored as running
        # either: it makes no effect before its commit, so a killed one has not happened and can be repeated.
        if target.tool.kind == "builtin":
            self.spend_token(target, writer.chat, call.id, again=confirmed)
            with step("run", call.id):
                self.follower.report(Started(call.id))
                return builtin_calls.run(writer, call, target)
        chat = writer.chat
        # Only a read-only tool must leave the files as they were; for all others, the lookup would be a wasted read.
        files_before = chat.state(chat.head()) if preconditions.is_read_only(target.tool) else None
        started = call
        # An approved call is stored as pending until now.
        if call.status != "running":
            started = call.model_copy(update={"status": "running"})

        has_begun = False

        # Stored just before the tool's code runs. A call that cannot start leaves nothing; a call whose process is
        # killed from here on is recorded as interrupted and never runs again
        # (test_a_call_killed_while_it_runs_is_interrupted_and_never_runs_again).
        def begin() -> None:
            nonlocal has_begun
            # A server that stops waits for the calls that have begun, and for no other.
            self._check_not_cancelled()
            # Before the call is stored: one whose token is spent has not begun.
            self.spend_token(target, chat, call.id, again=confirmed)
            # First: if this fails, nothing has begun, and no follower hears of the call.
            writer.put_call(started)
            has_begun = True
            self.follower.report(Started(call.id))

        task = HeldTask(writer, started)
        # Both are measured before the tool runs. The limits permit a folder that was already too large, and only
        # files that existed before can be lost.
        usage = writer.snapshot.usage(chat.workspace)
        before_call = writer.snapshot.unstored_files(chat.workspace)
        try:
            with step("run", call.id):
                outcome = self._outcome(
                    chat, started, target, begin=begin, confirmed=confirmed, held=task
                )
        # Not KeyboardInterrupt: commands turn Ctrl-C into a cancellation, so that it cannot come between the end of the
        # tool and its record (cli/terminal/interrupt.py).
        except Exception as problem:
            # No code of the tool has run, so the error is the caller's and there is nothing to record.
            if not has_begun:
                raise
            # The tool may have had its effect. Without this record, the next writer would say that the process was
            # killed (test_a_failure_while_the_tool_runs_is_recorded).
            _logger.exception("a call of %s failed because of a bug", call.tool_id)
            outcome = Outcome("error", error=unrecorded(problem))
        task.end(self.follower.cancel)
        # Pydantic refused the arguments before the function ran, so the call is not recorded, as if the schema had
        # refused it. An approved call stays: its approval is decided, so its end has to be recorded too.
        if outcome.status == "invalid_arguments" and call.execution_id is None:
            # `begin` has stored it as running, which the next writer would record as interrupted.
            writer.drop_call(call.id)
            raise preconditions.refused(call.tool_id, outcome.problems, target)
        # Only the import of the module shows what a decorator requires, and the function has not begun. So the running
        # call becomes the pending one.
        if outcome.status == "confirmation":
            allowed = place and place.allow(writer, started, target)
            if allowed:
                return self.run(writer, allowed, target, confirmed=True)
            return self.ask(writer, started, target, ("its decorator requires it",))
        if outcome.status == "question":
            # After the answer, the tool runs again from its start, so the files must be as they were before this run.
            files = chat.state(chat.head())
            if not (snapshot := writer.scan()).holds(files):
                writer.put_back(snapshot)
            return self.ask(writer, started, target, (ASKS,), outcome.unanswered)
        # The tool has run: no exception may leave before its call is recorded, or the record would say "interrupted".
        try:
            error, snapshot = self._end(writer, started, target, outcome, files_before, usage)
            # No commit has the earlier content of these files: undo cannot restore them, so the record names them.
            snapshot = snapshot.with_lost(before_call, chat.workspace)
            record = self._record_of(writer, started, target, outcome, error)
        except Exception as problem:
            # The result is known, and only its record failed. It is committed with the result, so that no agent
            # repeats an effect that happened
            # (test_a_failure_at_each_line_after_the_tool_is_recorded_with_its_result).
            _logger.exception("a call of %s cannot be recorded as it ended", call.tool_id)
            # Again, because the failure may have come before it, and what is forbidden must not be committed.
            snapshot, _ = self._undo_forbidden(writer, target, files_before, None)
            record = record_of_problem(started, outcome, problem)
        return self._commit(chat, writer, started, record, snapshot)

    def _end(
        self,
        writer: Writer,
        call: PendingCall,
        target: Found,
        outcome: Outcome,
        files_before: FolderState | None,
        usage: tuple[int, int],
    ) -> tuple[CallError | None, Snapshot]:
        """Return the error of a call that has run, if any, and the workspace; undo what it was not allowed to change.

        ``files_before`` is the workspace of a read-only call before it ran, ``usage`` its number of files and bytes.
        """
        chat = writer.chat
        error = why_failed(outcome, target, call.args, self.follower.cancel)
        if outcome.status == "invalid_arguments":
            # The approved call is already stored, so that its end is recorded too.
            problems = "; ".join(f"{path}: {message}" for path, message in outcome.problems)
            error = CallError(code="invalid_arguments", message=problems)
        # Before the scan, which creates a missing folder again: an empty folder would look like a tool that deleted
        # its files.
        if not has_workspace(chat.workspace):
            head = chat.head()
            command = f"covalt-git chat branch {chat.id} before --from {head}"
            error = CallError(
                code="workspace_deleted",
                message="the tool deleted the workspace folder",
                hint=f"its files are in the history: {command}" if head else "",
            )
        result = outcome.result if error is None else None
        snapshot, forbidden = self._undo_forbidden(writer, target, files_before, result)
        if files_before is not None and forbidden is not None:
            return read_only_violation(chat, files_before, forbidden, error), snapshot
        # While the tool runs, large limits are only sampled; the scan has counted every file that is stored.
        if error is None and target.tool.kind in {"python", "mcp"}:
            limits = self.job(target, chat).limits
            error = python_calls.limit_exceeded(limits, usage, snapshot.usage(chat.workspace))
        return error, snapshot

    def _undo_forbidden(
        self, writer: Writer, target: Found, files_before: FolderState | None, result: Any
    ) -> tuple[Snapshot, Snapshot | None]:
        """Undo what a call was not allowed to change; return the workspace, and what it was before, if it was undone.

        ``files_before`` is the workspace of a read-only call before it ran, whose files of ``result`` stay.
        """
        with step("snapshot"):
            snapshot = writer.scan()
            # The seccomp filter refuses set-ID bits in a sandbox. Elsewhere the tool can leave a set-ID program in an
            # ignored folder, which the scan does not read, and another user of the machine could run it
            # (tests/security/test_set_id_files.py).
            if self._may_set_modes(target):
                snapshot.clear_set_id(writer.chat.workspace)
        if files_before is None or snapshot.holds(files_before):
            return snapshot, None
        if returned_files(writer.chat, files_before, snapshot, result):
            return snapshot, None
        # Scanned again, because the record describes the files after the undo.
        writer.put_back(snapshot)
        return writer.scan(), snapshot

    def _tracked(self, call_id: str, chat_id: str, tool_id: str) -> AbstractContextManager[None]:
        return RUNNING.track(call_id, self.follower.cancel, chat_id=chat_id, tool_id=tool_id)

    def _record_of(
        self,
        writer: Writer,
        call: PendingCall,
        target: Found,
        outcome: Outcome,
        error: CallError | None,
        *,
        read: str | None = None,
    ) -> CallRecord:
        """Return the record of a call that read the files of the commit ``read``, by default the branch's newest."""
        level = self._level() if target.tool.kind == "python" else None
        if target.tool.kind == "mcp":
            level = tool_grants.program_level(target.toolset, target.tool)
        return record_of(writer, call, target, outcome, error, level=level, read=read)

    def _commit(
        self,
        chat: ChatStore,
        writer: Writer,
        call: PendingCall,
        record: CallRecord,
        snapshot: Snapshot | None = None,
    ) -> CallOutcome:
        """Commit the record of a call; if JSON cannot represent it, in a form that JSON can represent."""
        with step("commit"):
            try:
                manifest_id = writer.finish_call(call, record, snapshot=snapshot)
            except (canonical_json.NotJsonError, ValueError):
                # A result such as 2**60 or a lone surrogate has no form in canonical JSON. Only then is the record
                # changed, with a note (test_a_result_that_json_cannot_represent_is_recorded).
                manifest_id = writer.finish_call(call, encodable(record), snapshot=snapshot)
        return as_recorded(chat, chat.manifest(manifest_id))

    def _level(self) -> SandboxLevel:
        return self.level or sandbox_levels.level()

    def _may_set_modes(self, target: Found) -> bool:
        """Return whether the code of a call runs without the seccomp filter, so that it can set mode bits."""
        if target.tool.kind == "mcp":
            return tool_grants.server_of(target.toolset, target.tool.server).command is not None
        return target.tool.kind == "python" and self._level() not in {"full", "landlock"}

    def _outcome(
        self,
        chat: ChatStore,
        call: PendingCall,
        target: Found,
        *,
        begin: Callable[[], None],
        confirmed: bool = False,
        warm: bool = True,
        held: HeldTask | None = None,
    ) -> Outcome:
        """Run a call; ``begin`` is called just before, and ``hold`` with the task that an MCP server makes of it."""
        job = self.job(target, chat)
        # A script waits for a user as for an approval; the caller of any other call gets the error.
        if call.parent is not None:
            respondent = waiting_for_user(self.follower.respondent)
            job = job._replace(follower=replace(self.follower, respondent=respondent))
        if target.tool.kind == "python":
            waived = preconditions.is_waived(self.catalog.rules, target.tool, call.args)
            return python_calls.run(
                job,
                call,
                level=self._level(),
                confirmed=confirmed or waived,
                begin=begin,
                warm=warm,
            )
        begin()
        if target.tool.kind == "http":
            return http_calls.run(job, call.args)
        return mcp_calls.run(job, call.args, held)
