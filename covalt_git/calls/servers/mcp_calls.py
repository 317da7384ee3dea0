"""Calls of the tools of MCP servers."""

from __future__ import annotations

import sys
import tempfile
import threading
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from covalt_git.access.grants import granted
from covalt_git.calls.running import Installing
from covalt_git.calls.servers.server_programs import pinned_program
from covalt_git.calls.tool_grants import check_server_grant, server_of
from covalt_git.calls.tool_run import secret_store, sign_ins_of
from covalt_git.credentials.command import SecretCommand
from covalt_git.elicitation.requests import UserNeededError, inquire, question_records
from covalt_git.errors import CovaltError, StaleError
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.toolset_files import STATE_FOLDER
from covalt_git.models.elicitation import Question
from covalt_git.models.outcomes import Outcome
from covalt_git.models.project_config import DEFAULT_ANSWER_S, effective_limits
from covalt_git.models.sources.server_definition import references_of
from covalt_git.models.sources.tool_lock import (
    BadDefinitionError,
    LockedTool,
    OfferKind,
    locked_offer,
    locked_tool,
)
from covalt_git.models.tool_properties import Limits
from covalt_git.system.file_cache import signature
from covalt_git.toolsets.permissions import check_servers_trusted
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.lock import CancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from covalt_git.calls.servers.held_task import HeldTask
    from covalt_git.calls.tool_run import ToolRun
    from covalt_git.catalog.catalog import Found
    from covalt_git.connections.connection import Health
    from covalt_git.connections.definition import Definition
    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.sources.tool_lock import LockedOffer
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ProgramSandbox
    from covalt_git.runtime.mcp_tool import McpJob
    from covalt_git.toolsets.toolset import Toolset
    from covalt_git.workspaces.chat import ChatStore


def definition(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    workspace: Path,
    chat_id: str | None,
    command: SecretCommand | None,
    check_again: Callable[[], None] = lambda: None,
    config: ProjectConfig | None = None,
    report: Callable[[str], None] = lambda _: None,
    cancel: threading.Event | None = None,
    confinement: ProgramSandbox | None = None,
) -> Definition:
    """Return the definition of a granted server, with the values of its references.

    ``config`` has the limits of a program in the sandbox; without it, it is read.  ``confinement`` is what its program
    may use in the sandbox, in place of its grant.

    After ``command`` has printed a value, the server must still be granted and trusted, and pass ``check_again``.

    Raises:
        GrantNeededError: as :func:`.tool_grants.check_server_grant`.
        ToolsetChangedError: if the toolset's files have changed since they were read.
        CovaltError: if a reference has no value, or as :func:`.server_programs.pinned_program`.
    """
    from covalt_git.runtime import mcp_servers  # noqa: PLC0415 - it loads the SDK

    check_server_grant(toolset, server)
    may = granted(toolset.id, toolset.state, toolset.digest)
    names = {reference.name for reference in references_of(server)}
    program = may.program(server, toolset.files.hashes)
    of_grant = program.confinement if program is not None else None
    sandbox = confinement or of_grant
    extra = sandbox.secrets if sandbox is not None else ()

    # secret_command may wait for its user, who withdraws the trust meanwhile
    # (tests/security/test_rights_that_end_during_a_wait.py). The toolset is read again, because the grant is about
    # its current definition.
    def check_all_again() -> None:
        current = read_toolset(root, toolset.id)
        check_server_grant(current, server_of(current, server.id))
        check_again()

    store = secret_store(command, may, check_all_again, also=names | {*extra})
    resolved = mcp_servers.definition(
        toolset,
        server,
        root=root,
        workspace=workspace,
        chat_id=chat_id,
        may=may,
        lookup=Lookup(
            _declared(toolset, server) | {*extra},
            store,
            # Only a request has a host that the entry can be compared with; a program could send a token anywhere.
            sign_ins_of(root, toolset, may) if server.url is not None else None,
        ),
        limits=effective_limits(Limits(), (config or read_config(root)).limits),
        pinned=pinned_program(toolset, server, report=report, cancel=cancel),
        confinement=confinement,
    )
    tokens = sign_ins_of(root, toolset, may).stored_values()
    if tokens:
        resolved = replace(resolved, secrets=(*resolved.secrets, *tokens))
    if resolved.toolset is not None:
        resolved.toolset.make()  # here, because the event loop of the connections must not wait for the disk
    return resolved


def prepare(job: ToolRun) -> None:
    """Start the server of a tool or connect to it before the chat is locked, because it may take long.

    Raises:
        CovaltError: if it cannot be started or reached.
        CancelledError: if the caller cancels the call meanwhile.
    """
    from covalt_git.connections import event_handlers, pool  # noqa: PLC0415 - they load the SDK

    follower = job.follower
    server = _server_of_call(job, lambda line: follower.report(Installing(line)))
    handlers = event_handlers.EventHandlers(starting=lambda line: follower.report(Installing(line)))
    is_granted = grant_check(job.root, job.found.toolset, server)
    try:
        pool.CONNECTIONS.begin(server, handlers=handlers, wanted=is_granted, cancel=follower.cancel)
    except futures.CancelledError:
        raise CancelledError("the call was cancelled before it began") from None


_CANCELLED_S = 5.0
"""Time for the cancellation of a call to reach its server."""


class _Stop(threading.Event):
    """Event of one call that is also set when its follower cancels."""

    def __init__(self, cancel: threading.Event) -> None:
        super().__init__()
        self._cancel = cancel

    def is_set(self) -> bool:
        return super().is_set() or self._cancel.is_set()


def _ignore(_: str) -> None:
    pass


def run(job: ToolRun, args: JsonObject, held: HeldTask | None = None) -> Outcome:
    """Call a tool of an MCP server once; ``held`` gets the id of its task, if that outlives this process."""
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    try:
        server = _server_of_call(job)
    except CovaltError as error:
        return Outcome.failed(error)

    target, follower = job.found, job.follower
    inquiries: list[Inquiry] = []
    unanswered: dict[str, Question] = {}
    stop = _Stop(follower.cancel)

    def ask(method: str, params: JsonObject, waiting: futures.Future[None]) -> JsonObject:
        question = Question.model_validate({"method": method, "params": params})
        try:
            inquiry = inquire(follower.respondent, {"asked": question}, any_form=True)
        except UserNeededError as error:
            unanswered.update(error.questions)
            stop.set()
            # With an error, the server's tool would continue, so its cancellation is sent first.
            futures.wait([waiting], _CANCELLED_S)
            raise
        inquiries.append(inquiry)
        # A server can end while it waits. Without this, the user would answer a question that no process reads.
        waiting.add_done_callback(lambda _: inquiry.withdraw())
        return inquiry.wait(job.limits.answer_s or DEFAULT_ANSWER_S, follower.cancel)["asked"]

    outcome = mcp_tool.run(
        mcp_tool.McpJob(
            tool=target.tool,
            args=args,
            definition=server,
            digest=target.toolset.state.accepted.get(target.tool.tool_id, ""),
            files=job.files,
            limits=job.limits,
            wanted=grant_check(job.root, target.toolset, server),
            report=follower.report,
            # A program ends with this process, and its tasks with it.
            held=_ignore if held is None or server.transport == "stdio" else held.hold,
            ended=(lambda: None) if held is None else held.has_ended.set,
            leaves=lambda: server.transport != "stdio" and follower.cancel.is_stop,
            ask=ask,
            cancel=stop,
        )
    )
    if unanswered and not follower.cancel.is_set():
        return Outcome("question", unanswered=unanswered)
    return outcome._replace(
        asked=tuple(record for inquiry in inquiries for record in question_records(inquiry))
    )


def task_job(job: ToolRun, args: JsonObject) -> McpJob:
    """Return a job for :func:`mcp_tool.task_end`: a call whose server made a task of it in an earlier process.

    Raises:
        CovaltError: if the server is not granted.
    """
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    server, target = _server_of_call(job), job.found
    return mcp_tool.McpJob(
        tool=target.tool,
        args=args,
        definition=server,
        digest="",
        files=job.files,
        limits=job.limits,
        wanted=grant_check(job.root, target.toolset, server),
        report=job.follower.report,
    )


class ServerAccess(NamedTuple):
    """A granted server that is read, in the chat ``chat``; without a chat, it runs in an empty folder and then ends.

    ``check_again`` raises an error if the caller may not read any more: a ``secret_command`` may wait for its user, and
    the server's start may take minutes.
    """

    root: Path
    config: ProjectConfig
    toolset: Toolset
    server_id: str
    check_again: Callable[[], None]
    chat: ChatStore | None = None

    def read_resource(self, uri: str) -> list[JsonObject]:
        """Return the contents of a resource as the protocol has them.

        Raises:
            CovaltError: if the server is not granted, cannot be started or reached, or does not return the resource.
        """
        from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

        with self._opened() as (server, is_granted):
            return mcp_tool.read_resource(
                server, uri, self._limits, is_granted, self._check_all_again
            )

    def get_prompt(self, name: str, args: Mapping[str, str]) -> JsonObject:
        """Return a prompt with its arguments as the protocol has it.

        Raises:
            CovaltError: as :meth:`read_resource`.
        """
        from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

        with self._opened() as (server, is_granted):
            return mcp_tool.get_prompt(
                server, name, args, self._limits, is_granted, self._check_all_again
            )

    def complete(self, request: JsonObject) -> JsonObject:
        """Return the completion of an argument as the protocol has it; ``request`` has the parameters of its request.

        Raises:
            CovaltError: as :meth:`read_resource`.
        """
        from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

        with self._opened() as (server, is_granted):
            return mcp_tool.complete(
                server, request, self._limits, is_granted, self._check_all_again
            )

    def _check_all_again(self) -> None:
        """Check that the server is still granted and trusted with the same declaration, and that the caller may read."""
        current = read_toolset(self.root, self.toolset.id)
        server = server_of(current, self.server_id)
        check_server_grant(current, server)
        if server != server_of(self.toolset, self.server_id) or not current.enabled:
            raise StaleError(f"the MCP server {self.server_id!r} has changed while it was started")
        self.check_again()

    @property
    def _limits(self) -> Limits:
        return effective_limits(Limits(), self.config.limits)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Definition, Callable[[], bool]]]:
        from covalt_git.connections import pool  # noqa: PLC0415 - it loads the SDK

        with empty_workspace() as folder:
            chat = self.chat
            server = definition(
                self.toolset,
                server_of(self.toolset, self.server_id),
                root=self.root,
                workspace=folder if chat is None else chat.workspace.absolute(),
                chat_id=None if chat is None else chat.id,
                command=SecretCommand.of(self.root, self.config.secret_command),
                check_again=self.check_again,
                config=self.config,
            )
            try:
                yield server, grant_check(self.root, self.toolset, server)
            finally:
                if chat is None:
                    pool.CONNECTIONS.end(server.name)


def read_linked(
    root: Path,
    config: ProjectConfig,
    target: Found,
    chat: ChatStore,
    uri: str,
    check_again: Callable[[], None],
) -> list[JsonObject]:
    """Return the contents of a resource to which the result of a server's tool links, as the protocol has them.

    The server is that of the chat, so it may know the resource only as long as it runs.

    Raises:
        CovaltError: as ``check_again``, which is called just before the request; if the server is not granted, cannot be started or reached, or does not return the resource.
    """
    server_id = target.tool.server or ""
    access = ServerAccess(root, config, target.toolset, server_id, check_again, chat)
    return access.read_resource(uri)


def _server_of_call(job: ToolRun, report: Callable[[str], None] = lambda _: None) -> Definition:
    toolset = job.found.toolset
    return definition(
        toolset,
        server_of(toolset, job.found.tool.server),
        root=job.root,
        workspace=job.chat.workspace.absolute(),
        chat_id=job.chat.id,
        command=job.command,
        check_again=job.check_again,
        config=job.config,
        report=report,
        cancel=job.follower.cancel,
    )


def _declared(toolset: Toolset, server: McpServer) -> frozenset[str]:
    """Return the names that a server may refer to: all of them if its toolset has no list of secrets.

    Variables of the environment need no declaration, because the server's grant covers their names.
    """
    used = references_of(server)
    manifest = toolset.manifest
    if manifest is None or "secrets" not in manifest.model_fields_set:
        return frozenset(reference.name for reference in used)
    return frozenset(
        {*manifest.secrets, *(reference.name for reference in used if reference.place == "env")}
    )


def grant_check(root: Path, used: Toolset, server: Definition) -> Callable[[], bool]:
    """Return a function that returns whether a server is still granted, trusted, enabled and unchanged.

    ``used`` is the toolset that the server was defined from.  Its files are read only if they have changed.  The server
    stays when the manifest is invalid for the first time, because the author may just be saving it.
    """
    toolset_id, server_id = used.id, server.name.server_id
    files = (
        root / "toolsets" / toolset_id,
        root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml",
    )
    latest = used
    declared = server_of(latest, server_id)
    # The files may have changed while a secret_command waited, so the first check reads them.
    checked: str | None = None
    was_invalid = False

    def is_granted() -> bool:
        nonlocal latest, checked, was_invalid
        try:
            facts = signature(*files)
            if facts is None or facts != checked:
                toolset = read_toolset(root, toolset_id)
                if toolset.sound or was_invalid:
                    current = server_of(toolset, server_id)
                    check_server_grant(toolset, current)
                    if not (toolset.sound and toolset.enabled and current == declared):
                        return False
                    latest, checked = toolset, facts
                was_invalid = not toolset.sound
            # Asked each time, even if no file changed: trust also depends on the history of the repository and on
            # other files (tests/security/test_processes_that_run_for_long.py).
            check_servers_trusted(latest)
        except CovaltError:
            return False
        return True

    return is_granted


_POOL = "covalt_git.connections.pool"


def health(root: Path) -> tuple[Health, ...]:
    """Return the health of the connections of a project in this process, by server and chat."""
    pool = sys.modules.get(_POOL)
    if pool is None:  # without the SDK there are no connections
        return ()
    states: Sequence[Health] = pool.CONNECTIONS.health(root)
    return tuple(
        sorted(states, key=lambda state: (state.toolset_id, state.server_id, state.chat_id or ""))
    )


@contextmanager
def empty_workspace() -> Iterator[Path]:
    """An empty folder, as the workspace of a server that is opened outside of a chat."""
    # The server may still run and write while its folder is deleted.
    with tempfile.TemporaryDirectory(prefix="covalt-git-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def list_tools(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    command: SecretCommand | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[LockedTool | LockedOffer, ...]:
    """Return the tools, resources, templates, prompts and skills that a granted server lists now; ``report`` receives its log messages.

    Its workspace is an empty folder, and its connection is closed afterwards.

    Raises:
        GrantNeededError: if it is not granted with its current definition.
        CovaltError: if it cannot be started or reached, or violates the protocol.
    """
    from covalt_git.connections import event_handlers, pool, server_texts  # noqa: PLC0415 - they load the SDK

    with empty_workspace() as workspace:
        opened = definition(
            toolset,
            server,
            root=root,
            workspace=workspace,
            chat_id=None,
            command=command,
            report=report,
        )
        try:
            handlers = event_handlers.EventHandlers(starting=report)
            tools = pool.CONNECTIONS.tools(opened, handlers=handlers)
            try:
                offers, failed = pool.CONNECTIONS.offers(opened, handlers=handlers)
            except CovaltError as error:
                report(f"its resources, prompts and skills cannot be listed: {error.message}")
                offers, failed = [], get_args(OfferKind)
        finally:
            pool.CONNECTIONS.end(opened.name)
    locked: list[LockedTool | LockedOffer] = []
    reasons = []
    entries: list[Callable[[], LockedTool | LockedOffer]] = [
        *(partial(locked_tool, tool) for tool in tools),
        *(partial(locked_offer, kind, offer) for kind, offer in offers),
    ]
    for entry in entries:
        try:
            locked.append(entry())
        except BadDefinitionError as error:  # the others are refreshed
            reasons.append(f"{error.message}; it is not listed")
    listed, twice = _without_contradictions(locked)
    for note in server_texts.notes_of_a_listing([*reasons, *twice]):
        report(note)
    lock = toolset.locks.get(server.id)
    stored = lock.value.offers.values() if lock and lock.value else ()
    # A list that failed does not say that what it had is gone.
    return (*listed, *(offer for offer in stored if offer.kind in failed))


def _without_contradictions(
    locked: Sequence[LockedTool | LockedOffer],
) -> tuple[list[LockedTool | LockedOffer], list[str]]:
    """Return entries without those of one name and different contents, and why they are left out.

    None of them stays: a server could replace an accepted definition by another one before it.
    """
    by_name: dict[tuple[str, str], dict[str, LockedTool | LockedOffer]] = {}
    for entry in locked:
        kind = "tool" if isinstance(entry, LockedTool) else entry.kind
        by_name.setdefault((kind, entry.upstream), {})[entry.digest] = entry
    notes = [
        f"the {kind} {name!r} is not listed, because the server lists it twice with different contents"
        for (kind, name), entries in by_name.items()
        if len(entries) > 1
    ]
    definite = [entries for entries in by_name.values() if len(entries) == 1]
    return [entry for entries in definite for entry in entries.values()], notes
