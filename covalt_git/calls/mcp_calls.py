"""Calls of the tools of MCP servers."""

from __future__ import annotations

import sys
import tempfile
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.access.grants import granted
from covalt_git.calls import call_secrets
from covalt_git.calls.running import Installing
from covalt_git.calls.tool_grants import check_server_grant, server_of
from covalt_git.elicitation.requests import inquire, question_records
from covalt_git.errors import CovaltError
from covalt_git.http_tools.files import WorkspaceFiles
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.manifests.toolset_files import STATE_FOLDER
from covalt_git.models.elicitation import Question
from covalt_git.models.outcomes import Outcome
from covalt_git.models.project_config import DEFAULT_ANSWER_S
from covalt_git.models.server_definition import references_of
from covalt_git.models.tool_lock import locked_tool
from covalt_git.system.file_cache import signature
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.workspaces.lock import CancelledError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Found
    from covalt_git.connections.connection import Health
    from covalt_git.connections.definition import Definition
    from covalt_git.credentials.command import SecretCommand
    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.models.tool_lock import LockedTool
    from covalt_git.models.tool_properties import Limits
    from covalt_git.models.toolset_manifest import McpServer
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
) -> Definition:
    """Return how a granted server is reached, every reference looked up.

    Raises:
        GrantNeededError: as :func:`.tool_grants.check_server_grant`.
        ToolsetChangedError: when the toolset's files changed since they were read.
        CovaltError: when a reference stands for nothing.
    """
    from covalt_git.runtime import mcp_servers  # noqa: PLC0415 - it loads the SDK

    check_server_grant(toolset, server)
    may = granted(toolset.id, toolset.state, toolset.digest)
    names = {one.name for one in references_of(server)}
    store = call_secrets.store(command, may, also=names)
    defined = mcp_servers.definition(
        toolset,
        server,
        root=root,
        workspace=workspace,
        chat_id=chat_id,
        may=may,
        lookup=Lookup(_declared(toolset, names), store),
    )
    if defined.toolset is not None:
        defined.toolset.make()  # here, for the event loop of the connections must not wait for a disk
    return defined


def prepare(
    found: Found, chat: ChatStore, root: Path, command: SecretCommand | None, follower: Follower
) -> None:
    """Have the server of a tool there before the chat is held, which may take long the first time.

    Raises:
        CovaltError: when it cannot be started or reached.
        CancelledError: when the follower cancels meanwhile.
    """
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    defined = _of_call(found, chat, root, command)
    try:
        mcp_tool.prepare(
            defined,
            _still_granted(root, found, defined),
            lambda line: follower.report(Installing(line)),
            follower.cancel,
        )
    except futures.CancelledError:
        raise CancelledError("it was cancelled before it began") from None


def run(
    found: Found,
    args: JsonObject,
    chat: ChatStore,
    *,
    root: Path,
    limits: Limits,
    config: WorkspaceConfig,
    command: SecretCommand | None,
    follower: Follower,
) -> Outcome:
    """Call a tool of an MCP server once."""
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    try:
        defined = _of_call(found, chat, root, command)
    except CovaltError as error:
        return Outcome.failed(error)

    inquiries: list[Inquiry] = []

    def ask(method: str, params: JsonObject, wanted: futures.Future[None]) -> JsonObject:
        question = Question.model_validate({"method": method, "params": params})
        inquiry = inquire(follower.respondent, {"asked": question}, any_form=True)
        inquiries.append(inquiry)
        wanted.add_done_callback(lambda _: inquiry.withdraw())
        return inquiry.wait(limits.answer_s or DEFAULT_ANSWER_S, follower.cancel)["asked"]

    outcome = mcp_tool.run(
        mcp_tool.McpJob(
            tool=found.tool,
            args=args,
            definition=defined,
            digest=found.toolset.state.accepted.get(found.tool.tool_id, ""),
            files=WorkspaceFiles(chat.workspace, config, chat.store.object_format),
            limits=limits,
            wanted=_still_granted(root, found, defined),
            report=follower.report,
            ask=ask,
            cancel=follower.cancel,
        )
    )
    return outcome._replace(
        asked=tuple(one for inquiry in inquiries for one in question_records(inquiry))
    )


def _of_call(
    found: Found, chat: ChatStore, root: Path, command: SecretCommand | None
) -> Definition:
    return definition(
        found.toolset,
        server_of(found.toolset, found.tool.server),
        root=root,
        workspace=chat.workspace.absolute(),
        chat_id=chat.id,
        command=command,
    )


def _declared(toolset: Toolset, names: set[str]) -> frozenset[str]:
    """Return the secrets that a toolset declares; all ``names`` where it has no such list."""
    manifest = toolset.manifest
    if manifest is None or "secrets" not in manifest.model_fields_set:
        return frozenset(names)
    return frozenset(manifest.secrets)


def _still_granted(root: Path, found: Found, defined: Definition) -> Callable[[], bool]:
    """Return what tells whether a server may still be there: nobody took back what it needs.

    It looks at the files only when they have changed.  A manifest that is not sound is taken at its word
    when it is so for the second time: at the first somebody may just be writing it.
    """
    toolset_id, server_id = found.toolset.id, defined.name.server_id
    files = (
        root / "toolsets" / toolset_id,
        root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml",
    )
    seen = signature(*files)
    declared = server_of(found.toolset, server_id)
    is_doubted = False

    def wanted() -> bool:
        nonlocal seen, is_doubted
        now = signature(*files)
        if now is not None and now == seen:
            return True
        toolset = read_toolset(root, toolset_id)
        if not toolset.sound and not is_doubted:
            is_doubted = True
            return True
        try:
            server = server_of(toolset, server_id)
            check_server_grant(toolset, server)
        except CovaltError:
            return False
        if not (toolset.sound and toolset.enabled and server == declared):
            return False
        seen, is_doubted = now, False
        return True

    return wanted


_LIVE = "covalt_git.connections.pool"


def health(root: Path) -> tuple[Health, ...]:
    """Return the connections of a project that were used in this process: by server, then by chat."""
    if _LIVE not in sys.modules:  # where nothing loaded the SDK, nothing is connected
        return ()
    from covalt_git.connections.pool import CONNECTIONS  # noqa: PLC0415

    found = CONNECTIONS.health(root)
    return tuple(sorted(found, key=lambda one: (one.toolset_id, one.server_id, one.chat_id or "")))


def listed(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    command: SecretCommand | None = None,
    tell: Callable[[str], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[LockedTool, ...]:
    """Return the tools of a granted server as it lists them now; ``tell`` is called with its log messages.

    It is offered an empty folder as its workspace, and told to end afterwards.

    Raises:
        GrantNeededError: when it was not granted as it is declared now.
        BadDefinitionError: when what it gives is no tool.
        CovaltError: when it cannot be started, reached or understood.
    """
    from covalt_git.connections.pool import CONNECTIONS  # noqa: PLC0415 - it loads the SDK
    from covalt_git.connections.thread_bridge import EventHandlers  # noqa: PLC0415

    # It may still live, and write, when its folder goes.
    with tempfile.TemporaryDirectory(prefix="covalt-git-", ignore_cleanup_errors=True) as folder:
        defined = definition(
            toolset,
            server,
            root=root,
            workspace=Path(folder).resolve(),
            chat_id=None,
            command=command,
        )
        try:
            said = CONNECTIONS.tools(defined, handlers=EventHandlers(starting=tell), cancel=cancel)
        finally:
            CONNECTIONS.end(defined.name)
    return tuple(locked_tool(one) for one in said)
