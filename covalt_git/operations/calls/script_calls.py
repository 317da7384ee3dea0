"""Calls of ``workspace:run_script``, and decisions about the calls that a script makes.

A script runs without the lock of its chat: its calls take it, one after another.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.access import NamedTool, Principal
from covalt_git.calls.approvals import MayNotApproveError
from covalt_git.calls.executors import Work, executor
from covalt_git.calls.idempotency import IdTakenError
from covalt_git.calls.outcomes import CallOutcome, as_recorded
from covalt_git.calls.running import Follower
from covalt_git.calls.servers import left_tasks
from covalt_git.calls.telemetry import observe_call
from covalt_git.conversations import conversation
from covalt_git.errors import CovaltError
from covalt_git.json_values.difference import same
from covalt_git.models.calls import ToolsetVersion
from covalt_git.models.scripts import (
    MOST_ALLOWED,
    Allowance,
    OpenScript,
    ScriptFailure,
    ScriptResult,
)
from covalt_git.names import check_new_id, new_id
from covalt_git.operations.context import Context
from covalt_git.runtime.scripts.steps import ScriptEnd, ScriptError
from covalt_git.scripts import stored_script, tool_paths
from covalt_git.scripts.script_run import (
    ScriptRun,
    check_size,
    is_branch_gone,
    paused_outcome,
    record_end,
    recorded_calls,
    scripted_calls,
)
from covalt_git.scripts.stored_script import StoredScript
from covalt_git.system.node_folder import commit_of
from covalt_git.workspaces import commits
from covalt_git.workspaces.registry import OneChat
from covalt_git.workspaces.script_claim import ScriptBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.access.visibility import Visibility
    from covalt_git.calls.approvals import Approvals
    from covalt_git.calls.engine import CallRequest
    from covalt_git.catalog.catalog import Found
    from covalt_git.models.calls import Approval, PendingCall
    from covalt_git.models.queued_call import QueuedCall
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore

_LOG = logging.getLogger(__name__)

State = Literal["running", "paused", "interrupted"]


class AllowedNext(NamedTuple):
    """Further calls of a tool in a script: their number, and the arguments that must stay as they are."""

    calls: int
    same: tuple[str, ...] = ()


def run_script(
    context: Context, chat: ChatStore, request: CallRequest, entry: Found
) -> CallOutcome:
    """Make a call of ``workspace:run_script``; ``entry`` is the result of :meth:`.Engine.check`.

    The outcome is pending while the script waits for an approval, and has that approval.

    Raises:
        CovaltError: ``needs_person``, if a rule of the project requires approval of it.
        CovaltError: ``script_too_large``, as :func:`.check_size`.
        CovaltError: ``too_many_scripts``, if the chat has too many that have not ended.
        CovaltError: as :meth:`.ScriptRun.run`.
    """
    repeated = _earlier(context, chat, request)
    if repeated is not None:
        return repeated
    check_size(context.project.config, str(request.args["script"]))
    script_id = request.call_id or new_id()
    with observe_call(chat.id, request.tool_id, script_id) as observed:
        with stored_script.held(chat, script_id, wait=False):
            stored = _begin(context, chat, request, entry, script_id)
            outcome = _run(context.project, context, chat, stored)
        observed.set_outcome(outcome)
        return outcome


def _earlier(context: Context, chat: ChatStore, request: CallRequest) -> CallOutcome | None:
    """Return the script with the request's id, if there is one: its end, or what it waits for."""
    repeated = context.engine().earlier_outcome(chat, request)
    if repeated is not None or request.call_id is None or request.fresh:
        return repeated
    stored = StoredScript.read(chat, request.call_id)
    if stored is not None and not same(stored.script.request, request.args):
        raise IdTakenError(request.call_id, "a script with other arguments")
    outcome = outcome_of(chat, check_new_id(request.call_id, "call"), context.page)
    return None if outcome is None else outcome._replace(repeated=True)


def _begin(
    context: Context, chat: ChatStore, request: CallRequest, entry: Found, script_id: str
) -> StoredScript:
    engine = context.engine()
    with engine.writing(chat) as writer:
        # Again under the lock, as for each call.
        engine, entry = engine.decide_again(request)
        reasons = engine.reasons(entry, request)
        if reasons:
            # The source of a script says too little to approve it; each of its calls is decided.
            raise CovaltError(
                f"{request.tool_id} needs approval ({', '.join(reasons)}), but only the calls of a script can be pending",
                hint="write rules about the tools that scripts call",
                code="needs_person",
                http_status=403,
            )
        most = engine.config.limits.script.waiting
        if len(stored_script.script_ids(chat)) >= most:
            raise CovaltError(
                f"the chat {chat.id} has {most} scripts that have not ended (limits.script.waiting)",
                hint=f"covalt-git script list --chat {chat.id}",
                code="too_many_scripts",
                http_status=409,
            )
        message_id, principal = request.message_id, context.project.principal
        toolset = entry.toolset
        stored = StoredScript(
            OpenScript(
                id=script_id,
                chat_id=chat.id,
                branch=chat.active_branch(),
                tool_id=entry.tool_id,
                request=request.args,
                by=principal.id,
                role=principal.role,
                protocol=principal.protocol,
                started_at=commits.now(),
                started_ms=time.time_ns() // 1_000_000,
                seed=secrets.randbits(53),
                message_id=None if message_id is None else conversation.of_call(chat, message_id),
                base=chat.head(),
                toolset=ToolsetVersion(
                    id=toolset.id, version="", digest=toolset.digest, commit=commit_of(engine.root)
                ),
                names=tool_paths.named_in(engine.catalog, request.args),
            )
        )
        stored.save(writer)
        return stored


def _run(
    project: Project,
    context: Context,
    chat: ChatStore,
    stored: StoredScript,
    *,
    continues: bool = False,
    recorded: dict[str, str] | None = None,
) -> CallOutcome:
    """Run a script whose lock is held, with the calls of the context's principal."""

    def make_unrecorded(of: ChatStore, request: CallRequest, target: Found) -> CallOutcome:
        from covalt_git.operations.calls import builtin_tools  # noqa: PLC0415 - as in make_call

        return builtin_tools.make_unrecorded_call(context, of, request, target)

    run = ScriptRun(
        chat,
        context.engine(),
        stored,
        make_unrecorded,
        lambda: project.chats.open(chat.id),
        context.page,
        continues=continues,
        recorded=recorded,
    )
    if is_branch_gone(chat, stored.script):
        why = f"the branch {stored.script.branch!r} of the script was deleted"
        return run.finish(ScriptEnd(None, ScriptError("branch_deleted", why)))
    return run.run()


def continue_script(
    context: Context, chat: ChatStore, script_id: str, *, wait: bool = False
) -> CallOutcome:
    """Continue a script as the principal that started it, until it ends or pauses again.

    Raises:
        ScriptBusyError: without ``wait``, if another process runs it.
        UnknownNameError: if it is unknown.
        CovaltError: as :meth:`.ScriptRun.run`.
    """
    with stored_script.held(chat, script_id, wait=wait):
        return _continue_held(context, chat, script_id)


def _continue_held(context: Context, chat: ChatStore, script_id: str) -> CallOutcome:
    project = context.project
    # A writer records the call that a killed process ran as interrupted, and approvals that have expired.
    with context.engine().writing(chat):
        pass
    stored = StoredScript.read(chat, script_id)
    if stored is None:
        return _ended(chat, script_id)
    call_ids = [call.call_id for call in stored.calls.values() if call.call_id is not None]
    recorded = recorded_calls(chat, stored.script, [script_id, *call_ids])
    end = recorded.get(script_id)
    if end is not None:
        with context.engine().writing(chat) as writer:
            stored.delete(writer)
        return as_recorded(chat, chat.manifest(end))
    script = stored.script
    starter = Principal(script.by, script.role, script.protocol)
    only = OneChat(chat.id, chat.card().created_at)
    own = replace(project, principal=starter, only_chat=only)
    # The questions of its calls are for the starter, whose client is not here.
    follower = Follower(context.follower.report, context.follower.cancel)
    with Context(
        project.root, lambda: own, waiting=context.waiting, follower=follower, page=context.page
    ) as theirs:
        return _run(own, theirs, chat, stored, continues=True, recorded=recorded)


def _ended(chat: ChatStore, script_id: str) -> CallOutcome:
    from covalt_git.conversations import commit_names  # noqa: PLC0415 - the script has ended, which is rare

    return as_recorded(chat, chat.manifest(commit_names.of_call(chat, script_id)))


def decide(
    context: Context,
    execution_id: str,
    reason: str | None,
    *,
    approved: bool,
    approvals: Approvals | None = None,
    allow: AllowedNext | None = None,
    later: bool = False,
) -> CallOutcome:
    """Approve or deny a call; if a script made it, continue the script in this process.

    ``approvals`` are those of the context, unless a decision needs more.  With ``allow``, further calls of the same
    tool in the script need no approval.  If ``later``, the script continues in a thread of this process.

    Raises:
        CovaltError: as :meth:`.Approvals.approve`, or :meth:`.Approvals.deny`.
        MayNotAllowError: if the principal runs the script itself.
    """
    approvals = approvals or context.approvals()
    here = partial(
        _decide_here,
        context,
        execution_id,
        reason,
        approvals,
        approved=approved,
        allow=allow,
        later=later,
    )
    if not approved:
        return here()
    follower = approvals.engine.follower

    def prepare() -> QueuedCall | None:
        from covalt_git.operations.calls import queued_calls  # noqa: PLC0415 - of servers with a queue

        approval = approvals.find(execution_id)
        if approval.state != "pending":
            return None  # the error is the same here
        decision = queued_calls.decision_of(execution_id, reason, allow, later=later)
        return queued_calls.described_decision(context, approval, decision, follower)

    work = Work(here, prepare, context.project.chats.open)
    return executor().submit(work).follow(follower, context.waiting)


def _decide_here(
    context: Context,
    execution_id: str,
    reason: str | None,
    approvals: Approvals,
    *,
    approved: bool,
    allow: AllowedNext | None,
    later: bool,
) -> CallOutcome:
    act = partial(approvals.approve if approved else approvals.deny, execution_id, reason)
    approval = approvals.find(execution_id)
    with context.project.chats.open(approval.chat_id) as chat:
        call = chat.call(approval.call_id)
        parent = None if call is None else call.parent
        if parent is None and allow is not None:
            raise CovaltError(
                f"{approval.tool_id} was not called by a script, so no further calls can be allowed",
                hint=f"covalt-git approval approve {execution_id}",
            )
        if parent is None or approval.state != "pending":
            return act()
        # The script's lock first, as its runner does: the runner has then stored that it waits.
        with stored_script.held(chat, parent, wait=True):
            if allow is not None:
                with approvals.recording(approval):
                    _check_may_allow(context, chat, parent, approval, allow)
            outcome = act()
            if allow is not None:
                _store_allowance(context, chat, parent, approval, allow)
            if not later:
                _continue_after(parent, lambda: _continue_held(context, chat, parent))
    if later:
        project, page = context.project, context.page
        threading.Thread(
            target=_continue_in_thread, args=(project, chat.id, parent, page), daemon=True
        ).start()
    return outcome


def _continue_in_thread(
    project: Project, chat_id: str, script_id: str, page: Callable[[str], str | None]
) -> None:
    with Context.of(project.as_of_now(), page=page) as context:
        _continue_after(
            script_id,
            lambda: continue_script(context, context.chat(chat_id), script_id, wait=True),
        )
        context.update_index(context.chat(chat_id))


def _continue_after(script_id: str, proceed: Callable[[], CallOutcome]) -> None:
    """Continue a script after a decision, which is made and recorded whatever becomes of the script."""
    try:
        proceed()
    except CovaltError as error:
        _LOG.warning("the script %s did not continue: %s", script_id, error.message)
    # Also after a bug: the decided call has run, and its caller must learn how it ended.
    except Exception:  # noqa: BLE001 - see above
        _LOG.exception("the script %s did not continue", script_id)


class MayNotAllowError(MayNotApproveError):
    """The principal that runs a script may not allow its next calls."""

    code = "may_not_allow"

    def __init__(self, script_id: str) -> None:
        CovaltError.__init__(
            self,
            "the principal that runs a script may not allow its next calls",
            hint=f"another user or role may; this call alone: covalt-git script show {script_id}",
        )


def _check_may_allow(
    context: Context, chat: ChatStore, script_id: str, approval: Approval, allow: AllowedNext
) -> None:
    stored = StoredScript.read(chat, script_id)
    if stored is None:
        raise CovaltError(f"the script {script_id} has ended", code="script_ended", http_status=409)
    if _is_own(context, stored.script):
        raise MayNotAllowError(script_id)
    if not context.visibility.may_approve(NamedTool(approval.tool_id)).allowed:
        raise MayNotApproveError(context.engine(), NamedTool(approval.tool_id))
    if approval.commits:
        named = ", ".join(f"{name!r}" for name in approval.commits)
        raise CovaltError(
            f"the next calls of {approval.tool_id} cannot be allowed: {named} means a commit, and could mean another one then",
            hint="approve each call",
        )
    if not 1 <= allow.calls <= MOST_ALLOWED:
        raise CovaltError(f"the next calls are 1 to {MOST_ALLOWED} (got {allow.calls})")
    for name in allow.same:
        if name not in approval.args:
            raise CovaltError(
                f"the call has no argument {name!r}",
                hint=f"its arguments: {', '.join(approval.args)}",
            )


def may_allow(context: Context, chat: ChatStore, call: PendingCall) -> bool:
    """Return whether the principal may allow the next calls of the script that made a call, if it may approve them."""
    stored = None if call.parent is None else StoredScript.read(chat, call.parent)
    return stored is not None and not _is_own(context, stored.script)


def is_visible(visibility: Visibility, chat: ChatStore, stored: StoredScript) -> bool:
    """Return whether a role may see a script: its source and its calls name the tools that it calls."""
    script = stored.script
    made = ScriptResult(
        success=False, calls=scripted_calls(stored), unreached=script.names
    ).as_json()
    waiting = [call.tool_id for call in chat.calls() if call.parent == script.id]
    return visibility.sees_call(script.tool_id, made) and all(map(visibility.sees, waiting))


def _is_own(context: Context, script: OpenScript) -> bool:
    """Return whether the principal runs a script."""
    principal = context.project.principal
    is_same = (script.by, script.role) == (principal.id, principal.role)
    # A token with a role is the same principal over MCP and the API.  Without a role, pages are the user's, who may
    # have started the script by a command.
    return is_same and (principal.role is not None or script.protocol == principal.protocol)


def _store_allowance(
    context: Context, chat: ChatStore, script_id: str, approval: Approval, allow: AllowedNext
) -> None:
    with context.engine().writing(chat) as writer:
        stored = StoredScript.read(chat, script_id)
        if stored is None:
            return
        script = stored.script
        allowance = Allowance(
            execution_id=approval.execution_id,
            tool_id=approval.tool_id,
            definition_digest=approval.definition_digest,
            script_digest=script.digest,
            branch=approval.branch,
            by=script.by,
            role=script.role,
            decided_by=context.project.principal.id,
            left=allow.calls,
            same={name: approval.args[name] for name in allow.same},
        )
        allowances = (*script.allowances, allowance)
        stored.save(writer, script.model_copy(update={"allowances": allowances}))


def outcome_of(
    chat: ChatStore, script_id: str, page: Callable[[str], str | None] = lambda _: None
) -> CallOutcome | None:
    """Return what a script that has not ended waits for; None if it has ended or never began.

    Raises:
        ScriptBusyError: while it runs.
        CovaltError: ``script_interrupted``, if its process has ended.
    """
    stored = StoredScript.read(chat, script_id)
    if stored is None:
        return None
    state, approval = state_of(chat, stored)
    if approval is not None:
        return paused_outcome(stored, approval, page)
    if state == "running":
        raise ScriptBusyError(script_id)
    raise CovaltError(
        f"the process that ran the script {script_id} has ended",
        hint=f"covalt-git script continue {script_id}",
        code="script_interrupted",
        http_status=409,
    )


def state_of(chat: ChatStore, stored: StoredScript) -> tuple[State, Approval | None]:
    """Return the state of a script that has not ended, and the approval for which it waits."""
    script = stored.script
    for call in chat.calls():
        if call.parent == script.id and call.execution_id is not None and call.status == "pending":
            approval = chat.approval(call.execution_id)
            if approval is not None and approval.state == "pending":
                return "paused", approval
    return ("running" if stored_script.is_held(chat, script.id) else "interrupted"), None


def cancel_script(context: Context, chat: ChatStore, script_id: str) -> CallOutcome:
    """End a script that does not run: its pending calls never run, and the end is recorded.

    Raises:
        ScriptBusyError: while it runs.
    """
    with stored_script.held(chat, script_id, wait=False):
        by = context.project.principal.id
        why = f"{by} cancelled the script"
        if StoredScript.read(chat, script_id) is not None:
            left_tasks.end_all(context.engine(), chat, lambda call: call.parent == script_id, why)
        with context.engine().writing(chat) as writer:
            stored = StoredScript.read(chat, script_id)
            if stored is None:
                return _ended(chat, script_id)
            for call in chat.calls():
                if call.parent != script_id or call.status != "pending":
                    continue
                # An answer that was received is recorded once the branch of the call is active.
                if call.server_answer is not None:
                    continue
                approval = chat.approval(call.execution_id) if call.execution_id else None
                if approval is not None and approval.state == "pending":
                    writer.decide(approval, "denied", decided_by=by, decision_reason=why)
                if not is_branch_gone(chat, stored.script):
                    writer.finish_call(call, commits.unfinished(call, "cancelled", why))
            return record_end(
                writer,
                stored,
                ScriptResult(
                    success=False,
                    error=ScriptFailure(code="cancelled", message=why),
                    calls=scripted_calls(stored),
                    logs=stored.script.logs,
                ),
            )
