"""Run of a script: answers its calls from records, makes the others, pauses, and records the end.

The id of each call follows from the script's seed and the number of the call.  So a call that ended just before a crash
is found by its id, as one with an idempotency key, and never runs a second time.  Calls that a script issues together
are answered together: otherwise the order of the next calls would depend on how long each of them took.
"""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from covalt_git.calls import preconditions
from covalt_git.calls.engine import CallRequest
from covalt_git.calls.idempotency import IdTakenError
from covalt_git.calls.outcomes import CallOutcome, as_recorded, encodable
from covalt_git.calls.running import RUNNING, Cancel, Follower, Started
from covalt_git.calls.script_place import OtherBranchError, ScriptPlace
from covalt_git.conversations import commit_names
from covalt_git.elicitation.requests import MOST_MESSAGE
from covalt_git.errors import CovaltError
from covalt_git.git_store.server_repository import ServerError
from covalt_git.json_values import canonical_json
from covalt_git.json_values.difference import same
from covalt_git.json_values.storable import storable
from covalt_git.models.calls import CallError, PendingCall, ToolCall
from covalt_git.models.commit_record import CallRecord
from covalt_git.models.scripts import (
    LoggedLine,
    PausedCall,
    ScriptedCall,
    ScriptFailure,
    ScriptRecord,
    ScriptResult,
    SettledCall,
)
from covalt_git.runtime.scripts.steps import (
    CallReply,
    ScriptCall,
    ScriptEnd,
    ScriptError,
    ScriptFault,
    ScriptLimits,
    ScriptSource,
)
from covalt_git.scripts import tool_paths
from covalt_git.scripts.tool_paths import UnknownToolError
from covalt_git.text import display
from covalt_git.toolsets.builtin_tools import is_recorded
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import HEADS, MovedError
from covalt_git.workspaces.lock import (
    CancelledError,
    ChatBusyError,
    ChatGoneError,
    LeaseLostError,
)
from covalt_git.workspaces.script_claim import ScriptBusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from covalt_git.calls.engine import Engine
    from covalt_git.catalog.catalog import Catalog, Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.scripts import Allowance, OpenScript
    from covalt_git.scripts.stored_script import StoredScript
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

_MOST_THREADS = 4
_MOST_KNOWN = 1 << 20
"""Most characters of the answers that a process gets at its start."""

_STOPS = (
    *(ChatBusyError, ChatGoneError, CancelledError, OtherBranchError, MovedError),
    *(ScriptBusyError, LeaseLostError, ServerError),
)
"""Errors that are not the answer to a call: the script stays as it is, and can be continued."""


class DivergedError(CovaltError):
    """A script made another call than in its earlier run."""

    code = "script_diverged"
    http_status = 409

    def __init__(self, call: ScriptCall, why: str) -> None:
        super().__init__(
            f"call {call.index} of the script ({call.path}) {why}; nothing ran",
            hint="start the script again; its finished calls are in the log of the chat",
        )
        self.line = call.line


class _PausedError(Exception):
    """A call needs approval."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(approval.execution_id)
        self.approval = approval


class _EndedError(Exception):
    """The script ends with an error that it cannot catch."""

    def __init__(self, error: ScriptError) -> None:
        super().__init__(error.message)
        self.error = error


def call_id(script: OpenScript, index: int) -> str:
    """Return the id of a call of a script: a UUIDv7 of the script's start that only its seed predicts."""
    digest = hashlib.sha256(f"{script.id} {script.seed} {index}".encode()).digest()
    random = int.from_bytes(digest[:8]) & (1 << 62) - 1
    value = script.started_ms << 80 | 0x7 << 76 | (index & 0xFFF) << 64 | 0b10 << 62 | random
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def arguments_digest(args: JsonObject) -> str:
    """Return the digest of arguments, also of those that canonical JSON cannot represent and a call refuses."""
    try:
        return canonical_json.digest(args)
    except canonical_json.NotJsonError:
        text = json.dumps(args, sort_keys=True).encode("utf-8", "surrogatepass")
        return f"sha256:{hashlib.sha256(text).hexdigest()}"


@dataclass(slots=True)
class ScriptRun:
    """One run of a script, whose lock the caller holds.

    Attributes:
        engine: makes calls for the principal that started the script.
        stored: the script with its settled calls.
        make_unrecorded: makes a call of a built-in tool whose calls are not recorded.
        open_chat: opens the chat once more, for a call in another thread.
        page: returns the URL of the page of an approval, if there is a server.
        continues: whether an earlier run may have made calls.
        recorded: the commits of its calls by their ids, if the caller has them.
    """

    chat: ChatStore
    engine: Engine
    stored: StoredScript
    make_unrecorded: Callable[[ChatStore, CallRequest, Found], CallOutcome]
    open_chat: Callable[[], AbstractContextManager[ChatStore]]
    page: Callable[[str], str | None] = lambda _: None
    continues: bool = False
    recorded: dict[str, str] | None = None
    _logs: list[LoggedLine] = field(default_factory=list)
    _waivers: dict[str, str] = field(default_factory=dict)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    @property
    def script(self) -> OpenScript:
        return self.stored.script

    def run(self) -> CallOutcome:
        """Run the script until it ends or pauses; return the outcome of its call of ``workspace:run_script``.

        Raises:
            CovaltError: if it can do neither now, such as on another branch; it can be continued.
        """
        script, cancel = self.script, self.engine.follower.cancel
        with RUNNING.track(script.id, cancel, chat_id=self.chat.id, tool_id=script.tool_id):
            self.engine.follower.report(Started(script.id))
            try:
                end = self._run()
            except _PausedError as paused:
                self._save()
                return self._paused(paused.approval)
            except _EndedError as ended:
                end = ScriptEnd(None, ended.error)
            except DivergedError as diverged:
                error = ScriptError(diverged.code, diverged.message, diverged.line)
                end = ScriptEnd(None, error)
            except CancelledError:
                # A server that stops leaves the script as it is: it continues as after a crash.
                if cancel.why != Cancel.why:
                    self._save()
                    raise
                end = ScriptEnd(None, ScriptError("cancelled", cancel.why))
            except CovaltError:
                if self.stored.calls or self.continues:
                    self._save()
                else:
                    # Nothing has happened, and the caller gets the reason: there is nothing to continue.
                    self._forget()
                raise
            return self.finish(end)

    def _run(self) -> ScriptEnd:
        from covalt_git.runtime.scripts.process import ScriptProcess  # noqa: PLC0415 - it loads an interpreter

        script = self.script
        source = ScriptSource(
            script.source, script.language, script.args, script.started_ms, script.seed
        )
        limits = limits_of(self.engine.as_of_now().config)
        replies = self._known_replies()
        with ScriptProcess(source, limits, level=self.engine.level, known=replies) as process:
            step = process.advance(())
            while True:
                # Before any other call is made, and before an end that followed from these answers.
                for call in step.answered:
                    check_same(self.stored.calls[call.index], call)
                self._logs += [
                    LoggedLine(level=log.level, message=log.message) for log in step.logs
                ]
                if step.end is not None:
                    return step.end
                step = process.advance(self._replies(step.calls))

    def _known_replies(self) -> list[CallReply]:
        """Return the answers to the first calls of the earlier run, which its process gets at the start.

        Without them, each call is an exchange of 0.2 ms.  Large answers are sent when they are needed.
        """
        replies, left = list[CallReply](), _MOST_KNOWN
        for index in range(len(self.stored.calls)):
            settled = self.stored.calls.get(index)
            if settled is None:
                break
            call = ScriptCall(index, settled.path, settled.args, settled.line)
            try:
                reply = self._settled_reply(settled, call)
            # This call ends the script, but only when the script reaches it.
            except (_EndedError, DivergedError):
                break
            left -= len(json.dumps(reply.value))
            if left < 0:
                break
            replies.append(reply)
        return replies

    def _replies(self, calls: Sequence[ScriptCall]) -> list[CallReply]:
        """Return the answers to calls that were issued together; make those that have none."""
        replies: dict[int, CallReply] = {}
        new = []
        for call in calls:
            settled = self.stored.calls.get(call.index)
            if settled is None:
                new.append(call)
            else:
                check_same(settled, call)
                replies[call.index] = self._settled_reply(settled, call)
        was_made = False
        for is_parallel, group in groupby(new, self._may_run_concurrently):
            if self.engine.follower.cancel.is_set():
                raise CancelledError("the script was cancelled")
            for reply, repeated in self._make_each([*group], parallel=is_parallel):
                replies[reply.index] = reply
                was_made = was_made or not repeated
        # All calls of the next steps come after these, so none of them was made before.
        self.continues = self.continues and not was_made
        return [replies[call.index] for call in calls]

    def _make_each(
        self, calls: list[ScriptCall], *, parallel: bool
    ) -> list[tuple[CallReply, bool]]:
        if self.stored.has_unrecorded:
            self._save()
        if not parallel or len(calls) == 1:
            # In order: a call that needs approval is decided before the next one changes the files.
            return [self._make(self.chat, call) for call in calls]

        def make(call: ScriptCall) -> tuple[CallReply, bool]:
            with self.open_chat() as chat:
                return self._make(chat, call)

        with ThreadPoolExecutor(_MOST_THREADS) as threads:
            return [future.result() for future in [threads.submit(make, call) for call in calls]]

    def _may_run_concurrently(self, call: ScriptCall) -> bool:
        if call.path in {tool_paths.SEARCH, tool_paths.DESCRIBE}:
            return False
        try:
            return preconditions.is_read_only(tool_paths.find(self._catalog(), call.path).tool)
        except CovaltError:
            return False

    def _catalog(self) -> Catalog:
        return self.engine.as_of_now().catalog

    # Calls

    def _make(self, chat: ChatStore, call: ScriptCall) -> tuple[CallReply, bool]:
        """Make a call; return its answer, and whether it was made before."""
        target: Found | None = None
        try:
            if call.path == tool_paths.SEARCH:
                listed = tool_paths.search(self._catalog(), call.arguments)
                return self._answered(
                    call, listed, named=tuple(tool["path"] for tool in listed["tools"])
                )
            if call.path == tool_paths.DESCRIBE:
                described = tool_paths.describe(self._catalog(), call.arguments)
                return self._answered(call, described, named=(described["path"],))
            try:
                target = tool_paths.find(self._catalog(), call.path)
            except CovaltError as error:
                # Of the tool that the path means: a rule about `a-b.c` is not about the name `a_b.c`.
                meant = tool_paths.recorded_id(self._catalog(), call.path)
                self.engine.decisions.refused(error, meant, call.arguments, parent=self.script.id)
                raise
            request = self._request(call, target)
            if not is_recorded(target.tool_id):
                return self._make_unrecorded(chat, call, request, target)
            outcome = self.engine.call(chat, request)
        except IdTakenError:
            raise DivergedError(call, "differs from the recorded one") from None
        except _STOPS:
            raise
        except CovaltError as error:
            # Who may not see the tools that an error names may not see the script either.
            tool_id = target and target.tool_id
            named = error.near if isinstance(error, UnknownToolError) else None
            if call.path in {tool_paths.SEARCH, tool_paths.DESCRIBE}:
                named = named or ()
            self._settle(call, status="error", error=_error(error), tool_id=tool_id, named=named)
            return CallReply(call.index, error=_fault(_error(error))), False
        if outcome.approval is not None:
            raise _PausedError(outcome.approval)
        ended = outcome.call
        self._settle(
            call,
            status=ended.status,
            call_id=ended.id,
            tool_id=ended.tool_id,
            waived_by=self._waivers.get(ended.id),
        )
        return self._reply(chat, call, outcome), outcome.repeated

    def _request(self, call: ScriptCall, target: Found) -> CallRequest:
        script = self.script
        return CallRequest(
            target.tool_id,
            call.arguments,
            script.message_id,
            call_id(script, call.index),
            fresh=not self.continues,
            script=ScriptPlace(script.id, script.branch, call.line, self._allow),
        )

    def _make_unrecorded(
        self, chat: ChatStore, call: ScriptCall, request: CallRequest, target: Found
    ) -> tuple[CallReply, bool]:
        assert request.script is not None
        request.script.check_branch(chat)
        self.engine.as_of_now().check(request)
        if target.tool.annotations.read_only is not True:
            # Saved before the call: this call makes no commit that would show after a crash that it was made.
            self._settle(call, status="begun", tool_id=target.tool_id)
            self._save()
        outcome = self.make_unrecorded(chat, request, target)
        return self._answered(call, outcome.call.returned, tool_id=target.tool_id)

    def _answered(self, call: ScriptCall, value: Any, **fields: Any) -> tuple[CallReply, bool]:
        self._settle(call, status="success", answer=value, **fields)
        return CallReply(call.index, value), False

    def _settle(self, call: ScriptCall, **fields: Any) -> None:
        settled = SettledCall(
            index=call.index,
            path=call.path,
            digest=arguments_digest(call.arguments),
            args=storable(call.arguments).value,
            line=call.line,
            **fields,
        )
        with self._mutex:
            self.stored.add(settled)

    def _reply(self, chat: ChatStore, call: ScriptCall, outcome: CallOutcome) -> CallReply:
        error = outcome.error
        if error is None:
            return CallReply(call.index, outcome.call.returned)
        manifest_id = outcome.call.post_manifest_id
        record = None if manifest_id is None else chat.manifest(manifest_id).record.call
        approval_id = None if record is None else record.execution_id
        if error.code == "expired" and approval_id is not None:
            raise _EndedError(ScriptError(error.code, error.message, call.line))
        return CallReply(call.index, error=_fault(with_reason(chat, approval_id, error)))

    def _settled_reply(self, settled: SettledCall, call: ScriptCall) -> CallReply:
        """Return the answer to a call of an earlier run."""
        if settled.status == "begun":
            message = (
                "the process that ran the script ended meanwhile; the call may have had its effect"
            )
            return CallReply(call.index, error=ScriptFault("interrupted", message))
        if settled.call_id is not None:
            return self._reply(self.chat, call, self._outcome_of(settled.call_id, call))
        if settled.error is not None:
            return CallReply(call.index, error=_fault(settled.error))
        return CallReply(call.index, settled.answer)

    def _outcome_of(self, recorded_id: str, call: ScriptCall) -> CallOutcome:
        if self.recorded is None:
            ids = [settled.call_id for settled in self.stored.calls.values() if settled.call_id]
            self.recorded = recorded_calls(self.chat, self.script, ids)
        oid = self.recorded.get(recorded_id)
        try:
            oid = oid or commit_names.of_call(self.chat, recorded_id)
        except CovaltError:
            raise DivergedError(call, "has lost its record") from None
        manifest = self.chat.manifest(oid)
        tool_call, record = manifest.tool_call, manifest.record.call
        assert tool_call is not None
        assert record is not None
        # Without the changed files, which no script gets: to compare 200 trees takes as long as all the rest.
        return CallOutcome(tool_call, error=record.error)

    # Allowances

    def _allow(self, writer: Writer, call: PendingCall, target: Found) -> PendingCall | None:
        """Return a call with the approval that allowed it in advance, which counts it durably; None without one."""
        with self._mutex:
            # As stored: a reviewer may have given it after this run began.
            script = self.script
            for place, allowance in enumerate(script.allowances):
                if _allows(allowance, script, call, target):
                    less = allowance.model_copy(update={"left": allowance.left - 1})
                    rest = (*script.allowances[:place], less, *script.allowances[place + 1 :])
                    # Before the call: a crash must not make it free.
                    self.stored.save(writer, script.model_copy(update={"allowances": rest}))
                    self._waivers[call.id] = allowance.execution_id
                    return call.model_copy(update={"waived_by": allowance.execution_id})
        return None

    # State and end

    def _save(self) -> None:
        # Also after a cancellation, and without its events: what has ended must be known to the next run.
        engine = replace(self.engine, follower=Follower())
        with engine.writing(self.chat) as writer, self._mutex:
            logs = tuple(self._logs)
            changed = self.script.model_copy(update={"logs": logs})
            self.stored.save(writer, changed if logs != self.script.logs else None)

    def _forget(self) -> None:
        with replace(self.engine, follower=Follower()).writing(self.chat) as writer:
            self.stored.delete(writer)

    def _paused(self, approval: Approval) -> CallOutcome:
        return paused_outcome(self.stored, approval, self.page)

    def finish(self, end: ScriptEnd) -> CallOutcome:
        """Record the end of the script, and remove its state."""
        error = end.error
        failure = None
        if error is not None:
            failure = ScriptFailure(code=error.code, message=error.message, line=error.line)
        result = ScriptResult(
            success=failure is None,
            value=end.value,
            error=failure,
            calls=scripted_calls(self.stored),
            logs=tuple(self._logs),
        )
        engine = replace(self.engine, follower=Follower())
        with engine.writing(self.chat) as writer:
            return record_end(writer, self.stored, result)


def record_end(writer: Writer, stored: StoredScript, result: ScriptResult) -> CallOutcome:
    """Record the end of a script in a commit on its branch, if that still exists, and remove the script."""
    script, chat, failure = stored.script, writer.chat, result.error
    error = None if failure is None else CallError(code=failure.code, message=failure.message)
    called = {call.path for call in result.calls}
    unreached = tuple(path for path in script.names if path not in called)
    result = result.model_copy(update={"unreached": unreached})
    call = call_of(script)
    record = CallRecord(
        tool_id=script.tool_id,
        args=script.request,
        result=result.as_json(),
        status="success" if error is None else "error",
        error=error,
        started_at=script.started_at,
        finished_at=commits.now(),
        toolset=script.toolset,
        role=call.role,
        script=ScriptRecord(
            branch=script.branch,
            language=script.language,
            started_ms=script.started_ms,
            seed=script.seed,
            calls=tuple(stored.calls[index] for index in sorted(stored.calls)),
        ).model_dump(mode="json", exclude_none=True),
    )
    if is_branch_gone(chat, script):
        stored.delete(writer)
        ended = call.tool_call.model_copy(
            update={"status": record.status, "result": record.result, "error": error and str(error)}
        )
        return CallOutcome(ended, error=error)
    try:
        manifest_id = writer.finish_call(call, record)
    except (canonical_json.NotJsonError, ValueError):
        manifest_id = writer.finish_call(call, encodable(record))
    # After the commit: a process that is killed in between leaves a script that is found as ended.
    stored.delete(writer)
    return as_recorded(chat, chat.manifest(manifest_id))


def is_branch_gone(chat: ChatStore, script: OpenScript) -> bool:
    """Return whether the branch of a script was deleted."""
    if chat.store.read_ref(HEADS + script.branch) is not None:
        return False
    return script.base is not None or chat.active_branch() != script.branch


def call_of(script: OpenScript) -> PendingCall:
    """Return the call of ``workspace:run_script`` that started a script."""
    return PendingCall(
        id=script.id,
        chat_id=script.chat_id,
        branch=script.branch,
        tool_id=script.tool_id,
        args=script.request,
        status="running",
        by=script.by,
        role=script.role,
        started_at=script.started_at,
        message_id=script.message_id,
        base=script.base,
        toolset=script.toolset,
    )


def paused_outcome(
    stored: StoredScript,
    approval: Approval,
    page: Callable[[str], str | None],
) -> CallOutcome:
    """Return the outcome of a script that waits for an approval: its call is pending."""
    script = stored.script
    message = f"{approval.tool_id} needs approval: {', '.join(approval.reasons)}"
    if approval.questions:
        asked = "; ".join(question.message for question in approval.questions.values())
        message = (
            f"{approval.tool_id} asks: {display.shorten(display.in_line(asked), MOST_MESSAGE)}"
        )
    result = ScriptResult(
        success=False,
        calls=(
            *scripted_calls(stored),
            ScriptedCall(
                path=tool_path(approval.tool_id),
                args=approval.args,
                status="pending",
                call_id=approval.call_id,
            ),
        ),
        logs=script.logs,
        paused=PausedCall(
            execution_id=approval.execution_id,
            tool_path=tool_path(approval.tool_id),
            message=message,
            args=approval.args,
            url=page(approval.execution_id),
        ),
    )
    call: ToolCall = call_of(script).tool_call.model_copy(
        update={"status": "pending", "result": result.as_json()}
    )
    return CallOutcome(call, approval, parent=script.id)


def scripted_calls(stored: StoredScript) -> tuple[ScriptedCall, ...]:
    """Return the settled calls of a script for its reader, in order."""
    calls = [stored.calls[index] for index in sorted(stored.calls)]
    return tuple(
        ScriptedCall(
            path=call.path if call.tool_id is None else tool_path(call.tool_id),
            args=call.args,
            status=call.status,
            call_id=call.call_id,
            named=call.named,
        )
        for call in calls
    )


def recorded_calls(chat: ChatStore, script: OpenScript, ids: Sequence[str]) -> dict[str, str]:
    """Return the commits of calls by their ids, as far as the first parents of the script's branch have them."""
    missing, commits_by_id = {*ids}, dict[str, str]()
    oid = chat.store.read_ref(HEADS + script.branch)
    while oid is not None and missing and oid != script.base:
        commit = chat.store.read_commit(oid)
        ref = commits.source_ref(commit.message)
        # Anyone can write such a message with git, so the record is read, which is that of this chat.
        if ref in missing and chat.outline(oid).record.id == ref:
            missing.discard(ref)
            commits_by_id[ref] = oid
        oid = next(iter(commit.parents), None)
    return commits_by_id


def with_reason(chat: ChatStore, approval_id: str | None, error: CallError) -> CallError:
    """Return the error of a call as its script gets it: a denial has the reason of the reviewer."""
    if error.code != "denied" or approval_id is None:
        return error
    approval = chat.approval(approval_id)
    # Records since rules have the reason in the error of the call itself.
    if (
        approval is None
        or not approval.decision_reason
        or approval.decision_reason in error.message
    ):
        return error
    return error.model_copy(update={"message": f"{error.message}: {approval.decision_reason}"})


def check_same(settled: SettledCall, call: ScriptCall) -> None:
    """Check that a script issued the call that it issued in an earlier run.

    Raises:
        DivergedError: if the path or the arguments differ.
    """
    if settled.path != call.path:
        raise DivergedError(call, f"was a call of {settled.path}")
    if settled.digest != arguments_digest(call.arguments):
        raise DivergedError(call, "had other arguments")


def limits_of(config: ProjectConfig) -> ScriptLimits:
    """Return the limits of scripts in a project."""
    limits = config.limits.script
    return ScriptLimits(limits.time_s, limits.memory_mb, limits.calls, limits.output_kb)


def check_size(config: ProjectConfig, source: str) -> None:
    """Check that the source of a script is not too large, before it is stored or parsed.

    Raises:
        CovaltError: ``script_too_large``.
    """
    most, size = config.limits.script.source_kb, len(source.encode("utf-8", "replace"))
    if size > most << 10:
        raise CovaltError(
            f"the source of the script has {size:,} bytes, and the limit is {most} KiB (limits.script.source_kb)",
            hint="pass data in `args`, or write it to a file of the workspace",
            code="script_too_large",
            http_status=413,
        )


def _allows(allowance: Allowance, script: OpenScript, call: PendingCall, target: Found) -> bool:
    is_same_script = (allowance.script_digest, allowance.branch, allowance.by, allowance.role) == (
        script.digest,
        call.branch,
        call.by,
        call.role,
    )
    return (
        allowance.left > 0
        and is_same_script
        and allowance.tool_id == call.tool_id
        and allowance.definition_digest == target.definition_digest
        # Not ==, for which True equals 1 in Python.
        and all(
            name in call.args and same(call.args[name], value)
            for name, value in allowance.same.items()
        )
    )


def _error(error: CovaltError) -> CallError:
    """Return the error of a call that was refused, with its problems in one line."""
    problems = "; ".join(f"{problem.path}: {problem.message}" for problem in error.problems)
    message = f"{error.message}: {problems}" if problems else error.message
    return CallError(code=error.code, message=message, hint=error.hint)


def _fault(error: CallError) -> ScriptFault:
    return ScriptFault(error.code, error.message)


def tool_path(tool_id: str) -> str:
    """Return the path of a tool in scripts."""
    return tool_id.replace(":", ".", 1)
