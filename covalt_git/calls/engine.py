"""Making a call: decided, checked, asked about, run, and committed in one compare-and-swap.

The steps are those of DESIGN section 4.  Between the note that a call runs and its commit nothing is
acknowledged; a process killed there leaves a call that the next writer records as interrupted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from covalt_git import timestamps
from covalt_git.access import Principal, confirmation
from covalt_git.calls import concurrent_reads, http_calls, mcp_calls, python_calls, tool_grants
from covalt_git.calls.idempotency import IdempotencyKey
from covalt_git.calls.outcomes import (
    CallOutcome,
    as_recorded,
    has_workspace,
    record_of,
    why_failed,
    wrote_though_read_only,
)
from covalt_git.calls.preconditions import check_arguments, check_found, is_read_only, is_waived
from covalt_git.calls.running import RUNNING, Follower, Started
from covalt_git.calls.telemetry import observed, step, waiting
from covalt_git.catalog.catalog import Catalog, Found
from covalt_git.conversations import conversation
from covalt_git.credentials.command import SecretCommand
from covalt_git.json_values import canonical_json, json_schema
from covalt_git.models.calls import (
    Approval,
    CallError,
    PendingCall,
    ToolsetVersion,
)
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.models.project_config import effective_limits
from covalt_git.names import check_new_id, new_id
from covalt_git.runtime import sandbox_levels
from covalt_git.toolsets.toolset_copies import ToolsetChangedError
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import waiting_call
from covalt_git.workspaces.lock import CancelledError, ChatBusyError
from covalt_git.workspaces.writing import PATIENCE_S, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.outcomes import Outcome
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Limits
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot
    from covalt_git.workspaces.writer import Writer


_READINGS = 3
"""How often a toolset is read that changes while it is read."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be called, before anything is decided about it.

    ``call_id`` is the id that the caller wants for it; the same id again makes no second call.  One
    that is ``fresh`` was made just now for this call, so that there can be none of that id.
    """

    tool_id: str
    args: JsonObject
    message_id: str | None = None
    call_id: str | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """Makes calls for one principal.

    ``waiting`` is called with each holder of a busy chat; ``follower`` is told what a call does, and may cancel it.
    Python runs at ``level``, or at the strongest that this machine has.
    """

    root: Path
    config: ProjectConfig
    principal: Principal
    waiting: Callable[[str], None] | None = None
    follower: Follower = field(default_factory=Follower, compare=False)
    level: SandboxLevel | None = None

    def call(self, chat: ChatStore, request: Request, found: Found | None = None) -> CallOutcome:
        """Make a call; it runs to its end, or waits for a person where one has to be asked.

        One whose id was given before is returned as it stands, and does not run again.  ``found`` is
        what :meth:`check` returned for the request, where somebody has checked it already.

        Raises:
            BadNameError: when the id given for the call is none.
            IdTakenError: when that is another call's.
            UnknownNameError: when the principal can see no such tool, or the chat has no such message.
            MessageElsewhereError: when the active branch does not go through the message.
            InvalidArgumentsError: with everything that is wrong; nothing is recorded.
            SandboxNeededError: when the toolset may not run here.
            DiskFullError: when there is too little space for a tool that writes.
            CannotInstallError: when what the toolset's Python needs cannot be installed.
            CancelledError: when the follower cancels while this waits for the chat.
        """
        # By an id that was given it can be cancelled while it waits for the chat, too.
        with (
            observed(chat.id, request.tool_id, request.call_id) as call,
            self._named(request.call_id, chat.id, request.tool_id)
            if request.call_id
            else nullcontext(),
        ):
            outcome = self._run_call(chat, request, found)
            call.ended(outcome)
            return outcome

    def _run_call(self, chat: ChatStore, request: Request, found: Found | None) -> CallOutcome:
        repeated = self._earlier_outcome(chat, request)
        if repeated is not None:
            return repeated
        found = found or self.check(request)
        if not self._reasons(found, request):
            self._prepare(chat, found)
        if self._may_run_beside(found, request):
            with ExitStack() as held:
                try:
                    writer = held.enter_context(self.writing(chat, timeout_s=0))
                except ChatBusyError:
                    done = self._call_beside(chat, found, request)
                    if done is not None:
                        return done
                else:
                    return self._call(writer, request, found)
        with self.writing(chat) as writer:
            return self._call(writer, request, found)

    def _prepare(self, chat: ChatStore, found: Found) -> None:
        """Have there what a run needs and may take long the first time, while nobody waits for the chat."""
        if found.tool.kind == "python":
            python_calls.prepare(found, self.follower)
        elif found.tool.kind == "mcp":
            mcp_calls.prepare(found, chat, self.root, self._secret_command(), self.follower)

    def _secret_command(self) -> SecretCommand | None:
        return SecretCommand.of(self.root, self.config.secret_command)

    def _call(self, writer: Writer, request: Request, found: Found) -> CallOutcome:
        """Make a call in the chat that is held."""
        if self.follower.cancel.is_set():
            raise CancelledError("it was cancelled before it began")
        repeated = self._earlier_outcome(writer.chat, request)
        if repeated is not None:
            return repeated
        # The toolset may have been edited while this waited for the chat.
        if not self.catalog.holds(found):
            found = self.check(request)
        reasons = self._reasons(found, request)
        if not reasons:
            python_calls.check_space(found.tool, writer.chat)
        call = self._new_call(writer.chat, found, request, base=writer.commit_changes())
        if reasons:
            return self.ask(writer, call, found.tool, reasons)
        waived = is_waived(self.config, found.tool, request.args)
        return self.run(writer, call, found, confirmed=waived)

    def _new_call(
        self, chat: ChatStore, found: Found, request: Request, *, base: str | None
    ) -> PendingCall:
        said = request.message_id
        return PendingCall(
            id=request.call_id or new_id(),
            chat_id=chat.id,
            branch=chat.active_branch(),
            tool_id=found.tool.tool_id,
            args=request.args,
            status="running",
            by=self.principal.id,
            role=self.principal.role,
            started_at=commits.now(),
            message_id=None if said is None else conversation.of_call(chat, said),
            base=base,
            toolset=version_of(found),
        )

    def _may_run_beside(self, found: Found, request: Request) -> bool:
        """Tell whether a call need not wait for another one of its chat.

        One under an id that was given has to: whether it was made before is known only then.
        """
        unknown = request.call_id is not None and not request.fresh
        return is_read_only(found.tool) and not unknown and not self._reasons(found, request)

    def _call_beside(self, chat: ChatStore, found: Found, request: Request) -> CallOutcome | None:
        """Make a call that only reads on a copy of the branch's files, while the chat is another's.

        None where its decorator asks, which only running it could tell.
        """
        call = self._new_call(chat, found, request, base=chat.head())
        with concurrent_reads.copied(chat, call.base) as copy:
            waived = is_waived(self.config, found.tool, request.args)
            begin = partial(self.follower.report, Started(call.id))
            with self._running(call):
                outcome = self._ran_python(
                    copy, call, found, begin=begin, confirmed=waived, warm=False
                )
            outcome = concurrent_reads.at_home(outcome, copy, chat)
            if outcome.status == "confirmation":
                return None
            if outcome.status == "invalid_arguments":
                raise json_schema.InvalidArgumentsError(call.tool_id, outcome.problems)
            error, before = why_failed(outcome, found, self.follower.cancel), copy.state(call.base)
            if not has_workspace(copy.workspace):
                copy.workspace.mkdir()
            with step("snapshot"), copy.scan_in_memory() as seen:
                if not seen.holds(before):
                    error = wrote_though_read_only(copy, before, seen, error)
        # It has run, so that it is recorded though it was cancelled meanwhile.
        patient = replace(self, follower=Follower(self.follower.report))
        with patient.writing(chat) as writer:
            head = writer.commit_changes()
            named = replace(request, call_id=call.id)
            now = self._new_call(chat, found, named, base=head)
            now = now.model_copy(update={"started_at": call.started_at, "toolset": call.toolset})
            read = None if head == call.base else call.base
            return self._record(writer, now, found, outcome, error, read=read)

    @property
    def catalog(self) -> Catalog:
        """What this engine's principal may see and call."""
        return Catalog(self.root, self.config, self.principal)

    @contextmanager
    def writing(self, chat: ChatStore, *, timeout_s: float = PATIENCE_S) -> Iterator[Writer]:
        """Hold the chat's lock, after the calls that came before."""
        with ExitStack() as held:
            with waiting(self.waiting) as waits:
                writer = held.enter_context(
                    writing(
                        chat,
                        by=self.principal.id,
                        timeout_s=timeout_s,
                        waiting=waits,
                        cancel=self.follower.cancel,
                    )
                )
            yield writer

    def check(self, request: Request, found: Found | None = None) -> Found:
        """Return the tool of a call that could be made now; ``found``, where somebody found it already.

        Raises:
            UnknownNameError: and what else :meth:`call` raises before it waits for the chat.
        """
        found = found or self.catalog.find_callable(request.tool_id)
        for left in reversed(range(_READINGS)):
            try:
                check_found(found, at=self.level)
                break
            except ToolsetChangedError:
                if not left:
                    raise
                found = self.catalog.find_callable(request.tool_id)
        check_arguments(found.tool, request.args)
        return found

    def is_made(self, chat: ChatStore, request: Request) -> bool:
        """Tell whether :meth:`call` would return a call that was made before.

        Raises:
            IdTakenError: as :meth:`call`; BadNameError.
        """
        return self._earlier_outcome(chat, request) is not None

    def _earlier_outcome(self, chat: ChatStore, request: Request) -> CallOutcome | None:
        """Return the call that stands under the id given for this one, unless it still runs."""
        if request.call_id is None or request.fresh:
            return None
        given = IdempotencyKey(check_new_id(request.call_id, "call"), request.tool_id, request.args)
        made = given.find_call(self.root, self.config.workspace, chat)
        if made is None or not self.catalog.sees(request.tool_id):
            return None
        if isinstance(made, WorkspaceManifest):
            return as_recorded(chat, made)._replace(repeated=True)
        approval = chat.approval(made.execution_id) if made.execution_id else None
        if approval is None or approval.state != "pending":
            return None  # it runs, or is about to: whoever waits for the chat sees its end
        return CallOutcome(waiting_call(made), approval, repeated=True)

    def _reasons(self, found: Found, request: Request) -> tuple[str, ...]:
        return confirmation(self.config, found.tool, request.args)

    def ask(
        self, writer: Writer, call: PendingCall, tool: Tool, reasons: tuple[str, ...]
    ) -> CallOutcome:
        """Let the call wait for a person: an approval bound to exactly this call on these files."""
        created = commits.now()
        lifetime = timedelta(seconds=self.config.limits.approval_expires_s)
        expires = datetime.now(UTC) + lifetime
        approval = Approval(
            execution_id=new_id(),
            call_id=call.id,
            chat_id=call.chat_id,
            branch=call.branch,
            tool_id=call.tool_id,
            args=call.args,
            args_digest=canonical_json.digest(call.args),
            definition_digest=tool.definition_digest,
            by=call.by,
            role=call.role,
            reasons=reasons,
            message_id=call.message_id,
            base=call.base,
            unstored=writer.unstored()[0],
            created_at=created,
            expires_at=timestamps.written(expires),
        )
        waits = call.model_copy(update={"status": "pending", "execution_id": approval.execution_id})
        # The call first: killed in between, it is a call whose approval is gone, and recorded so.
        writer.put_call(waits)
        writer.put_approval(approval)
        return CallOutcome(waiting_call(waits), approval)

    def run(
        self, writer: Writer, call: PendingCall, found: Found, *, confirmed: bool
    ) -> CallOutcome:
        """Run the call on the files as they are, and commit what came of it.

        ``confirmed`` tells that its decorator need not ask: a person or the project said yes.
        """
        chat = writer.chat
        before = chat.state(chat.head()) if is_read_only(found.tool) else None
        started = call
        if call.status != "running":
            started = call.model_copy(update={"status": "running"})

        def begin() -> None:
            writer.put_call(started)
            self.follower.report(Started(call.id))

        held = writer.usage()
        with self._running(call):
            outcome = self._outcome(chat, started, found, begin=begin, confirmed=confirmed)
        error = why_failed(outcome, found, self.follower.cancel)
        if outcome.status == "invalid_arguments" and call.execution_id is None:
            writer.drop_call(call.id)
            raise json_schema.InvalidArgumentsError(call.tool_id, outcome.problems)
        if outcome.status == "invalid_arguments":
            # Somebody approved it, so that it is known and has to have an end.
            said = "; ".join(f"{path}: {message}" for path, message in outcome.problems)
            error = CallError(code="invalid_arguments", message=said)
        if outcome.status == "confirmation":
            return self.ask(writer, started, found.tool, ("its decorator asks",))
        if not has_workspace(chat.workspace):
            head = chat.head()
            back = f"covalt-git chat branch {chat.id} before --from {head}"
            error = CallError(
                code="workspace_deleted",
                message="it deleted the workspace folder itself",
                hint=f"its files are in the history: {back}" if head else "",
            )
        with step("snapshot"):
            seen = writer.scan()
            if self._may_set_modes(found):
                seen.clear_set_id(chat.workspace)
        if error is None and found.tool.kind == "python":
            limits = limits_of(found.tool, self.config)
            error = python_calls.limit_exceeded(limits, held, writer.usage())
        if before is not None and not seen.holds(before):
            error = wrote_though_read_only(chat, before, seen, error)
            writer.put_back(seen)
            seen = writer.scan()
        return self._record(writer, started, found, outcome, error, seen=seen)

    def _named(self, call_id: str, chat_id: str, tool_id: str) -> AbstractContextManager[None]:
        return RUNNING.named(call_id, self.follower.cancel, chat_id=chat_id, tool_id=tool_id)

    @contextmanager
    def _running(self, call: PendingCall) -> Iterator[None]:
        with self._named(call.id, call.chat_id, call.tool_id), step("run", call.id):
            yield

    def _record(
        self,
        writer: Writer,
        call: PendingCall,
        found: Found,
        outcome: Outcome,
        error: CallError | None,
        *,
        seen: Snapshot | None = None,
        read: str | None = None,
    ) -> CallOutcome:
        """Commit what came of a call; ``seen`` and ``read`` as the writer and the record have them."""
        chat = writer.chat
        level = self._level() if found.tool.kind == "python" else None
        record = record_of(writer, call, found, outcome, error, level=level, read=read)
        with step("commit"):
            manifest_id = writer.finish_call(call, record, snapshot=seen)
        return as_recorded(chat, chat.manifest(manifest_id))

    def _level(self) -> SandboxLevel:
        return self.level or sandbox_levels.level()

    def _may_set_modes(self, found: Found) -> bool:
        """Return whether the code of a call runs without the seccomp filter, so that it can set mode bits."""
        if found.tool.kind == "mcp":
            return tool_grants.server_of(found.toolset, found.tool.server).command is not None
        return found.tool.kind == "python" and self._level() not in {"full", "landlock"}

    def _outcome(
        self,
        chat: ChatStore,
        call: PendingCall,
        found: Found,
        *,
        begin: Callable[[], None],
        confirmed: bool,
    ) -> Outcome:
        """Run a call; ``begin`` is called before anything of it happens."""
        if found.tool.kind == "python":
            return self._ran_python(chat, call, found, begin=begin, confirmed=confirmed)
        begin()
        if found.tool.kind == "http":
            return http_calls.run(
                found,
                call.args,
                chat,
                limits=limits_of(found.tool, self.config),
                config=self.config.workspace,
                command=self._secret_command(),
                report=self.follower.report,
                cancel=self.follower.cancel,
            )
        return mcp_calls.run(
            found,
            call.args,
            chat,
            root=self.root,
            limits=limits_of(found.tool, self.config),
            config=self.config.workspace,
            command=self._secret_command(),
            follower=self.follower,
        )

    def _ran_python(
        self,
        chat: ChatStore,
        call: PendingCall,
        found: Found,
        *,
        begin: Callable[[], None],
        confirmed: bool,
        warm: bool = True,
    ) -> Outcome:
        return python_calls.run(
            found,
            call,
            chat,
            level=self._level(),
            limits=limits_of(found.tool, self.config),
            confirmed=confirmed,
            follower=self.follower,
            begin=begin,
            warm=warm,
            command=self._secret_command(),
        )


def limits_of(tool: Tool, config: ProjectConfig) -> Limits:
    """Return the limits that a call of a tool is held to."""
    return effective_limits(tool.limits, config.limits)


def version_of(found: Found) -> ToolsetVersion:
    """Return which code a call of the tool runs."""
    manifest = found.toolset.manifest
    version = manifest.version if manifest else ""
    return ToolsetVersion(id=found.toolset.id, version=version, digest=found.toolset.digest)
