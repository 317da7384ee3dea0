"""Configuration files of agents' hosts, with an entry for our MCP server.

According to their documentation: Claude Code's ``.mcp.json``, VS Code's ``.vscode/mcp.json`` and Cursor's
``.cursor/mcp.json`` of a project, and Claude Desktop's file of a user.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.formats.documents import FormatError
from covalt_git.formats.mcp_clients import json_edit
from covalt_git.formats.mcp_clients.host_files import config_path
from covalt_git.formats.mcp_clients.mcp_configs import HOSTS
from covalt_git.system import atomic_write, programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject

Host = Literal["claude-code", "claude-desktop", "vscode", "cursor"]

_PROGRAM = "covalt-git"
TOKEN_VARIABLE = "COVALT_GIT_AGENT_TOKEN"  # noqa: S105 - where a token is found, not one
"""The environment variable with a host's token.

It is not the variable of ``covalt-git serve``, whose token permits everything.
"""


class HostFileError(CovaltError):
    """A configuration file to which a server cannot be added."""

    code = "host_file"


class HostFile(NamedTuple):
    """A host's file before and after the entry ``name`` of our server is added."""

    path: Path
    name: str
    entry: JsonObject
    before: str
    after: str


def with_server(host: Host, root: Path, server: Sequence[str] | str, name: str) -> HostFile:
    """Return the file of a host with the server of the project at ``root``.

    ``server`` are the arguments with which the host starts it, or its URL.  Other content of the file, and its
    comments, do not change.  The entry has the program's absolute path, because the host's PATH often differs.

    Raises:
        HostFileError: if the file is not a JSON object (comments are allowed), or the host does not support URLs.
    """
    entry = _served(host, server) if isinstance(server, str) else _started(host, root, server)
    path = config_path(host, root)
    key = next(one.path for one in HOSTS if one.name == host)
    before = _read(path)
    try:
        after = json_edit.with_value(before, (*key, name), entry, str(path))
    except FormatError as error:
        why = error.problems[0].message if error.problems else error.message
        raise HostFileError(why, hint="add the output of --print by hand") from None
    return HostFile(path, name, entry, before, after)


def write(file: HostFile) -> None:
    """Write a host's file atomically, if it has not changed since it was read.

    Raises:
        HostFileError: if it has changed or cannot be written.
    """
    if _read(file.path) != file.before:
        raise HostFileError(f"{str(file.path)!r} has changed meanwhile", hint="try again")
    try:
        atomic_write.replace(file.path, file.after)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HostFileError(f"{str(file.path)!r} cannot be written: {why}") from None


def _served(host: Host, address: str) -> JsonObject:
    """Return the entry of a server with a URL; the host reads the token from its environment."""
    if host == "claude-desktop":
        raise HostFileError(
            "claude-desktop does not support URLs of this machine",
            hint="leave out --http, so that it starts the server",
        )
    token = f"${{{TOKEN_VARIABLE}}}" if host == "claude-code" else f"${{env:{TOKEN_VARIABLE}}}"
    entry: JsonObject = {"url": address, "headers": {"Authorization": f"Bearer {token}"}}
    return entry if host == "cursor" else {"type": "http", **entry}


def _started(host: Host, root: Path, args: Sequence[str]) -> JsonObject:
    """Return the entry of a server that the host starts."""
    own = Path(sys.executable).with_name(_PROGRAM)
    program = str(own) if own.exists() else programs.find(_PROGRAM) or _PROGRAM
    if host == "claude-desktop":  # it starts servers in any folder
        return {"command": program, "args": ["-C", str(root), "mcp", *args]}
    if host == "claude-code":  # it starts servers in the project
        return {"type": "stdio", "command": program, "args": ["mcp", *args]}
    where = ["-C", "${workspaceFolder}"]
    return {"type": "stdio", "command": program, "args": [*where, "mcp", *args]}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise HostFileError(f"{str(path)!r} cannot be read: {error}") from None
