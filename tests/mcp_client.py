"""A project for MCP clients, and the SDK's own client to talk to it, in both protocol versions."""

import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp_types import ErrorData

from covalt_git.gateway.mcp_server import RequestHandlers
from covalt_git.gateway.service import Gateway
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.models.commit_record import CallRecord
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests.examples import rest

Result = TypeVar("Result")

VERSIONS = ("2026-07-28", "legacy")
"""The stateless protocol, and the newest with sessions."""
versions = pytest.mark.parametrize("version", VERSIONS)
one_version = pytest.mark.parametrize("version", [VERSIONS[0], rest(VERSIONS[1])])
"""For what both versions do by the same code; with sessions, it runs with ``make test-rest``."""


def by_turns(names: str | Sequence[str], rows: Sequence[Any]) -> pytest.MarkDecorator:
    """Run a test with each row in one of the versions, by turns, and with ``make test-rest`` in both."""
    parameters = [
        pytest.param(
            version,
            *(row if isinstance(row, tuple) else (row,)),
            marks=() if (turn + place) % len(VERSIONS) == 0 else pytest.mark.rest,
        )
        for turn, version in enumerate(VERSIONS)
        for place, row in enumerate(rows)
    ]
    named = (names,) if isinstance(names, str) else names
    return pytest.mark.parametrize(("version", *named), parameters)


REPOSITORY = Path(__file__).parent.parent

CONFIG = """\
version: 1
workspace: {durability: fast}
default_role: owner
roles:
  owner: {admin: true}
  reader: {allow: ["demo.read", "workspace.read_*", "workspace.list_files"]}
"""
TOOLSETS = REPOSITORY / "fixtures" / "mcp_toolsets"
"""Toolsets for tests of MCP; ``demo`` has a tool of every kind."""


def make_project(root: Path, *toolsets: str, roles: str = "") -> Path:
    """Make a project with ``demo``, the named toolsets and two roles; ``roles`` are more lines of YAML."""
    create_project(root)
    (root / "covalt.yaml").write_text(CONFIG + roles)
    shutil.rmtree(root / "toolsets")
    for name in ("demo", *toolsets):
        shutil.copytree(TOOLSETS / name, root / "toolsets" / name)
    return root


def add_toolset(root: Path, name: str, manifest: str, code: str) -> None:
    """Write a toolset with one file of Python."""
    folder = root / "toolsets" / name
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / f"{name}.py").write_text(code)
    (folder / "toolset.yaml").write_text(manifest)


def talk(
    root: Path,
    say: Callable[[Client], Awaitable[Result]],
    *,
    version: str = VERSIONS[0],
    role: str | None = None,
    chat: str | None = None,
    message_handler: Any = None,
    callbacks: Mapping[str, Any] | None = None,
    apps: bool = False,
    extensions: Any = None,
    only_client: str | None = "here",
    **options: Any,
) -> Result:
    """Return what ``say`` returns, which talks to a server in this process that has no other client.

    ``callbacks`` answer elicitation requests and the like.  With ``apps``, the client is a host of MCP Apps.
    Without ``only_client``, the server does not know that it has no other client, as over HTTP.
    """
    if apps:
        extensions = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})]

    async def main() -> Result:
        only = None if chat is None else Project.open(root).chats.one(chat)
        gateway = Gateway(root, role, only=only, **options)
        server = RequestHandlers(gateway, only_client=only_client).server()
        async with Client(
            server,
            mode=version,
            cache=None,
            message_handler=message_handler,
            extensions=extensions,
            **(callbacks or {}),
        ) as client:
            return await say(client)

    return anyio.run(main)


def call(root: Path, name: str, args: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """Return the result of one call; the options are those of :func:`talk`."""

    async def say(client: Client) -> Any:
        return await client.call_tool(name, {**(args or {})})

    return talk(root, say, **options)


def error_of(result: Any) -> Any:
    """Return the facts of a failed or pending call, which are in ``_meta`` also if its tool has an output schema."""
    return result.meta["covalt-git/error"]


async def refused(request: Awaitable[object]) -> ErrorData:
    """Return the protocol error of a request."""
    with pytest.raises(MCPError) as raised:
        await request
    return raised.value.error


async def tool_names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


async def resource_uris(client: Client) -> list[str]:
    return [one.uri for one in (await client.list_resources()).resources]


async def read(client: Client, uri: str) -> Any:
    """Return the content of a resource."""
    return (await client.read_resource(uri)).contents[0]


def commits(root: Path, chat_id: str = "c1") -> list[WorkspaceManifest]:
    """Return the commits of a chat, the newest first."""
    with Project.open(root).chats.open(chat_id) as chat:
        return [chat.manifest(one.id) for one in chat.log(chat.head())]


def recorded(root: Path, result: Any = None) -> CallRecord:
    """Return the record of the newest call of a chat, the one of a result or c1."""
    chat_id = "c1" if result is None else result.meta["covalt-git/chat"]
    call = commits(root, chat_id)[0].record.call
    assert call is not None
    return call


def request(method: str = "server/discover", **params: Any) -> dict[str, Any]:
    """Return a request of 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSIONS[0],
        "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


class Requests:
    """Calls that a client of 2026-07-28 requests itself, each going on with the state of the last one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.state: Any = None

    async def send(self, tool: str, answers: Any = None, args: Any = None) -> Any:
        """Return the result, or the questions that have to be answered first."""
        result: Any = await self._client.session.call_tool(
            tool,
            args or {},
            allow_input_required=True,
            input_responses=answers,
            request_state=self.state,
        )
        self.state = getattr(result, "request_state", None) or self.state
        return result


def with_requests(
    root: Path, say: Callable[[Requests], Awaitable[Result]], **options: Any
) -> Result:
    """Return what ``say`` returns, which requests calls itself; the options are those of :func:`talk`."""

    async def talks(client: Client) -> Result:
        return await say(Requests(client))

    return talk(root, talks, **options)


class Progress:
    """A progress callback that collects the reports of a call."""

    def __init__(self) -> None:
        self.reports: list[tuple[float, float | None, str | None]] = []
        self.began = anyio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, total, message))
        self.began.set()


class ToolNews:
    """Whether a client was notified that its tools have changed; ``handle`` is a message handler."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    async def handle(self, message: Any) -> None:
        if "tools/list_changed" in str(message):
            self._changed.set()

    def has_come(self) -> bool:
        return self._changed.is_set()

    async def wait(self) -> None:
        with anyio.fail_after(20):
            await self._changed.wait()


def listening(client: Client, version: str) -> AbstractAsyncContextManager[object]:
    """Let a client be notified of changed tools; before 2026-07-28 it need not subscribe to that."""
    if version == "legacy":
        return nullcontext()
    return client.listen(tools_list_changed=True)


def over_stdio(
    root: Path,
    say: Callable[[Client], Awaitable[Result]],
    *args: str,
    version: str = VERSIONS[0],
    **callbacks: Any,
) -> Result:
    """Return what ``say`` returns, which talks to a server that is started as hosts start it."""

    async def main() -> Result:
        async with Client(command(root, *args), mode=version, cache=None, **callbacks) as client:
            return await say(client)

    return anyio.run(main)


def command(root: Path, *args: str) -> StdioServerParameters:
    """Return how a host starts the server."""
    program = ["-c", "from covalt_git.cli import main; main()", "-C", str(root), "mcp", *args]
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    config = os.environ[
        "XDG_CONFIG_HOME"
    ]  # what the user trusts; the SDK passes on no such variable
    env = {"PYTHONPATH": paths, "XDG_CONFIG_HOME": config}
    return StdioServerParameters(command=sys.executable, args=program, env=env)


def text(result: Any) -> str:
    """Return the text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")
