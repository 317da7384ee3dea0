"""A project for MCP clients, and the SDK's own client to talk to it, in both eras."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from covalt_git.gateway.client_chats import ClientChats
from covalt_git.gateway.mcp_server import Faces
from covalt_git.gateway.service import Gateway
from covalt_git.toolsets.new_project import create_project

Result = TypeVar("Result")

ERAS = ("2026-07-28", "legacy")
eras = pytest.mark.parametrize("era", ERAS)
REPOSITORY = Path(__file__).parent.parent

CONFIG = """\
version: 1
default_role: owner
roles:
  owner: {admin: true}
  reader: {allow: ["demo.read", "workspace.read_*", "workspace.list_files"]}
"""
MANIFEST = """\
id: demo
name: Demo
version: "1"
tools:
  - {id: read, entrypoint: tools.demo:read, annotations: {read_only: true}}
  - {id: write, entrypoint: tools.demo:write}
  - {id: steps, entrypoint: tools.demo:steps}
  - {id: slow, entrypoint: tools.demo:slow}
  - {id: fails, entrypoint: tools.demo:fails}
  - {id: numbers, entrypoint: tools.demo:numbers}
  - {id: off, entrypoint: tools.demo:read, enabled: false}
  - {id: asks, entrypoint: tools.demo:write, requires_confirmation: true}
"""
TOOLS = '''\
import time
from pathlib import Path

from covalt_toolset import get_context


def read(workspace: Path, path: str) -> str:
    """Read a file."""
    return (workspace / path).read_text()


def write(workspace: Path, path: str, content: str) -> dict[str, str]:
    """Write a file."""
    (workspace / path).write_text(content)
    print("printed")
    return {"written": path}


def steps() -> str:
    """Tell how far it is."""
    context = get_context()
    context.progress(1, 2, "first")
    context.progress(2, 2, "last")
    return "done"


def slow(workspace: Path) -> str:
    """Begin, and never end."""
    (workspace / "begun.txt").write_text("x")
    get_context().progress(1, 2, "begun")
    time.sleep(60)
    return "done"


def fails() -> str:
    """Fail."""
    raise ValueError("no such luck")


def numbers() -> list[int]:
    """Count."""
    return [1, 2]
'''


def make_project(root: Path, *, roles: str = "") -> Path:
    """Make a project with a toolset of every kind of tool, and two roles; ``roles`` are lines of more."""
    create_project(root)
    (root / "covalt.yaml").write_text(CONFIG + roles)
    for name in ("app-builder", "data-lab", "text-kit"):
        _remove(root / "toolsets" / name)
    add_toolset(root, "demo", MANIFEST, TOOLS)
    return root


def add_toolset(
    root: Path, name: str, manifest: str, code: str, files: Mapping[str, bytes] | None = None
) -> None:
    """Write a toolset with one file of Python; ``files`` are further ones."""
    folder = root / "toolsets" / name
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / f"{name}.py").write_text(code)
    (folder / "toolset.yaml").write_text(manifest)
    for path, content in (files or {}).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def talk(
    root: Path,
    said: Callable[[Client], Awaitable[Result]],
    *,
    era: str = ERAS[0],
    role: str | None = None,
    chat: str | None = None,
    hears: Any = None,
    can: dict[str, Any] | None = None,
    apps: bool = False,
    **how: Any,
) -> Result:
    """Return what somebody says to a server in this process that is there for nobody else.

    ``can`` are the callbacks of a client that can be asked.  With ``apps``, it is a host of MCP Apps.
    """
    extensions = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})] if apps else None

    async def main() -> Result:
        gateway = Gateway(root, role, chats=ClientChats(chat), **how)
        server = Faces(gateway, only_client="here").server()
        async with Client(
            server,
            mode=era,
            cache=None,
            message_handler=hears,
            extensions=extensions,
            **(can or {}),
        ) as client:
            return await said(client)

    return anyio.run(main)


class ToolNews:
    """Whether a client was told that its tools have changed; ``hear`` is for it as message handler."""

    def __init__(self) -> None:
        self._told = anyio.Event()

    async def hear(self, message: Any) -> None:
        """Take note of what the client is told."""
        if "tools/list_changed" in str(message):
            self._told.set()

    async def wait(self) -> None:
        """Wait until it was."""
        with anyio.fail_after(20):
            await self._told.wait()


def listening(client: Client, era: str) -> AbstractAsyncContextManager[object]:
    """Have a client told meanwhile of changed tools: before 2026-07-28 it need not ask for that."""
    return nullcontext() if era == "legacy" else client.listen(tools_list_changed=True)


def over_stdio(
    root: Path,
    said: Callable[[Client], Awaitable[Result]],
    *args: str,
    era: str = ERAS[0],
    **how: Any,
) -> Result:
    """Return what somebody says to a server that is started as hosts start it."""

    async def main() -> Result:
        async with Client(command(root, *args), mode=era, cache=None, **how) as client:
            return await said(client)

    return anyio.run(main)


def command(root: Path, *args: str) -> StdioServerParameters:
    """Return how a host starts the server."""
    program = ["-c", "from covalt_git.cli import main; main()", "-C", str(root), "mcp", *args]
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    return StdioServerParameters(command=sys.executable, args=program, env={"PYTHONPATH": paths})


def text(result: Any) -> str:
    """Return the words of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")
