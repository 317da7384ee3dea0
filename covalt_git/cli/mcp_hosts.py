"""The files in which agents' hosts name their MCP servers, and our server in them.

As their documentation has them: Claude Code's ``.mcp.json``, VS Code's ``.vscode/mcp.json``, Cursor's
``.cursor/mcp.json``, each of a project; and Claude Desktop's, which is one for a person.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject

Host = Literal["claude-code", "claude-desktop", "vscode", "cursor"]

_FILES = {"claude-code": ".mcp.json", "vscode": ".vscode/mcp.json", "cursor": ".cursor/mcp.json"}
_PROGRAM = "covalt-git"
TOKEN_VARIABLE = "COVALT_GIT_AGENT_TOKEN"  # noqa: S105 - where a token is found, not one
"""The variable that a host has its token from.

Not the one of ``covalt-git serve``, whose token opens everything.
"""


class HostFileError(CovaltError):
    """A host's file is not one that a server can be put into."""

    code = "host_file"


class HostFile(NamedTuple):
    """A host's file as it is and as it would be, with our server in it under ``name``."""

    path: Path
    name: str
    entry: JsonObject
    before: str
    after: str


def with_server(host: Host, root: Path, server: Sequence[str] | str, name: str) -> HostFile:
    """Return the file of a host with the server of the project at ``root``.

    ``server`` are the arguments that the host starts it with, or the address that it is served at.  What
    else is in the file stays.  The host's PATH is rarely the user's, so the entry has the program's path.

    Raises:
        HostFileError: when the file holds something else than an object of JSON, or the host knows no
            addresses.
    """
    entry = _served(host, server) if isinstance(server, str) else _started(host, root, server)
    path = _desktop_file() if host == "claude-desktop" else root / _FILES[host]
    key = "servers" if host == "vscode" else "mcpServers"
    before = _read(path)
    said = _parsed(path, before)
    servers = said.setdefault(key, {})
    if not isinstance(servers, dict):
        raise HostFileError(f"{key!r} in {str(path)!r} is no object", hint=f"look at it: {path}")
    servers[name] = entry
    after = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
    return HostFile(path, name, entry, before, before if _parsed(path, before) == said else after)


def write(file: HostFile) -> None:
    """Write a host's file, whole or not at all, if it is still as it was read.

    Raises:
        HostFileError: when it is another by now, or cannot be written.
    """
    if _read(file.path) != file.before:
        raise HostFileError(f"{str(file.path)!r} has changed meanwhile", hint="try again")
    try:
        atomic_write.replace(file.path, file.after)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HostFileError(f"{str(file.path)!r} cannot be written: {why}") from None


def _served(host: Host, address: str) -> JsonObject:
    """Return the entry of a server at an address; the host has its token from its environment."""
    if host == "claude-desktop":
        raise HostFileError(
            "claude-desktop reaches no server of this machine by its address",
            hint="leave --http out: it starts the server itself",
        )
    token = f"${{{TOKEN_VARIABLE}}}" if host == "claude-code" else f"${{env:{TOKEN_VARIABLE}}}"
    entry: JsonObject = {"url": address, "headers": {"Authorization": f"Bearer {token}"}}
    return entry if host == "cursor" else {"type": "http", **entry}


def _started(host: Host, root: Path, args: Sequence[str]) -> JsonObject:
    """Return the entry of a server that the host starts for itself."""
    own = Path(sys.executable).with_name(_PROGRAM)
    program = str(own) if own.exists() else shutil.which(_PROGRAM) or _PROGRAM
    if host == "claude-desktop":  # it starts servers anywhere
        return {"command": program, "args": ["-C", str(root), "mcp", *args]}
    if host == "claude-code":  # which starts them in the project
        return {"type": "stdio", "command": program, "args": ["mcp", *args]}
    where = ["-C", "${workspaceFolder}"]
    return {"type": "stdio", "command": program, "args": [*where, "mcp", *args]}


def _desktop_file() -> Path:
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        config = os.environ.get("XDG_CONFIG_HOME", "")
        folder = Path(config) if Path(config).is_absolute() else Path.home() / ".config"
    return folder / "Claude" / "claude_desktop_config.json"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise HostFileError(f"{str(path)!r} cannot be read: {error}") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        said = canonical_json.loads(text) if text.strip() else {}
    except canonical_json.NotJsonError as error:
        why = f"is not JSON as it is written here: {error.message}"
        raise HostFileError(
            f"{str(path)!r} {why}", hint="add what --print prints to it by hand"
        ) from None
    if not isinstance(said, dict):
        raise HostFileError(f"{str(path)!r} holds no object", hint=f"look at it: {path}")
    return said
