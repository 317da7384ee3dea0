"""Configuration files of MCP clients on this machine, and the servers in them.

The paths are those in each host's documentation of November 2026.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from covalt_git.errors import UnknownNameError
from covalt_git.formats.mcp_clients.hosts import HOSTS
from covalt_git.templating.references import texts

if TYPE_CHECKING:
    from covalt_git.formats.documents import Document
    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

Scope = Literal["project", "user"]

_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "claude-desktop": ("{config}/Claude/claude_desktop_config.json",),
    "claude-code": ("{project}/.mcp.json", "{home}/.claude.json"),
    "vscode": ("{project}/.vscode/mcp.json", "{config}/Code/User/mcp.json"),
    "vscode-settings": ("{project}/.vscode/settings.json", "{config}/Code/User/settings.json"),
    "cursor": ("{project}/.cursor/mcp.json", "{home}/.cursor/mcp.json"),
    "windsurf": ("{home}/.codeium/windsurf/mcp_config.json",),
    "opencode": ("{project}/opencode.json", "{home}/.config/opencode/opencode.json"),
    "codex": ("{home}/.codex/config.toml",),
    "gemini-cli": ("{project}/.gemini/settings.json", "{home}/.gemini/settings.json"),
    "zed": ("{project}/.zed/settings.json", "{xdg}/zed/settings.json"),
    "cline": (
        "{config}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "{home}/.cline/data/settings/cline_mcp_settings.json",
    ),
    "continue": ("{project}/.continue/mcpServers/*.yaml", "{home}/.continue/config.yaml"),
    "goose": ("{xdg}/goose/config.yaml",),
    "lm-studio": ("{home}/.lmstudio/mcp.json",),
}
"""The files of each host.

``{config}`` is the user's folder for configuration of the system, and ``{xdg}`` that of programs that have the same on
Linux and macOS.  A folder of files has ``*``.
"""

_ON_WINDOWS: Final = {
    "{xdg}/zed/settings.json": "{config}/Zed/settings.json",
    "{xdg}/goose/config.yaml": "{config}/Block/goose/config/config.yaml",
}

INSTALLABLE: Final = tuple(name for name in _PATHS if name != "vscode-settings")
"""The hosts with a file of their own, to which a server can be added; VS Code has a newer file than its settings."""

TOKEN_VARIABLE: Final = "COVALT_GIT_AGENT_TOKEN"  # noqa: S105 - where a token is found, not one
"""The environment variable with a host's token.

It is not the variable of ``covalt-git serve``, whose token permits everything.
"""

_OWN_PROGRAMS: Final = frozenset({"covalt-git", "covalt_git"})
_SETTINGS: Final = "settings.json"
_DISABLED: Final = ("disabledMcpServers", "disabledMcpjsonServers")
"""What Claude Code has for one folder beside its servers: those that the user has disabled there."""


@dataclass(frozen=True, slots=True)
class HostFileRow:
    """A configuration file of an MCP client, in a project or of the user."""

    host: str
    title: str
    path: Path
    scope: Scope


def config_path(host: str, project: Path, name: str) -> Path:
    """Return the path of a host's file: that of a project, or that of the user if it has none for projects.

    In a folder with a file for each server, it is that of the server ``name``.
    """
    path = _located(_PATHS[host][0], project)
    return path.with_name(path.name.replace("*", name))


def existing_files(project: Path) -> list[HostFileRow]:
    """Return the files that exist; a file of all settings of a program only if it names servers."""
    titles = {host.name: host.title for host in HOSTS}
    return [
        HostFileRow(name, titles[name], file, "project" if path.startswith("{project}") else "user")
        for name, paths in _PATHS.items()
        for path in paths
        for file in _files(_located(path, project))
        if file.name != _SETTINGS or _names_servers(file)
    ]


def _names_servers(file: Path) -> bool:
    """Return whether a file of settings may have servers: every user of an editor has one, and few have servers in it."""
    try:
        text = file.read_bytes()
    except OSError:  # its import says why
        return True
    return b"mcp" in text or b"context_servers" in text


def _files(path: Path) -> list[Path]:
    """Return the file at a path, or the files in a folder that match it."""
    candidates = sorted(path.parent.glob(path.name)) if "*" in path.name else [path]
    return [file for file in candidates if file.is_file()]


def _located(path: str, project: Path) -> Path:
    home = Path.home()
    xdg = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative path is ignored, as the XDG Base Directory Specification says.
    xdg = xdg if xdg.is_absolute() else home / ".config"
    config = xdg
    if sys.platform == "darwin":
        config = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        config = Path(os.environ.get("APPDATA", home / "AppData" / "Roaming"))
        path = _ON_WINDOWS.get(path, path)
    return Path(path.format(project=project, home=home, config=config, xdg=xdg))


def servers(document: Document, host: Host) -> list[str]:
    """Return the names of a file's servers that can be imported."""
    entries = host.servers(document.value) or {}
    return [
        name
        for name, server in entries.items()
        if isinstance(server, dict) and host.has_server(server)
    ]


def with_local_servers(document: Document, folder: Path) -> Document:
    """Return a document whose servers are also those that Claude Code has for one folder only, which come first.

    ``claude mcp add`` writes them to ``projects`` of the user's file by default.
    """
    value = document.value
    projects = value.get("projects") if isinstance(value, dict) else None
    for name, project in projects.items() if isinstance(projects, dict) else ():
        servers = project.get("mcpServers") if isinstance(project, dict) else None
        if isinstance(servers, dict) and servers and Path(name).resolve() == folder.resolve():
            others = value.get("mcpServers")
            merged = {**(others if isinstance(others, dict) else {}), **servers}
            disabled = {key: project[key] for key in _DISABLED if key in project}
            return replace(document, value={**value, **disabled, "mcpServers": merged})
    return document


def is_own(host: Host, server: JsonObject) -> bool:
    """Return whether a server of a host is covalt-git itself: its command, or its URL with the token for agents."""
    arguments = [
        word for _, word in texts({key: server.get(key) for key in (host.command, "args")})
    ]
    names = {re.split(r"[/\\]", word)[-1].removesuffix(".exe") for word in arguments}
    is_program = "mcp" in arguments and not _OWN_PROGRAMS.isdisjoint(names)
    return is_program or any(TOKEN_VARIABLE in text for _, text in texts(server))


def _refers_to(server: JsonObject, item: object) -> bool:
    """Return whether a server refers to an item of ``inputs``."""
    name = item.get("id") if isinstance(item, dict) else None
    return any(f"${{input:{name}}}" in text for _, text in texts(server))


def only_server(document: Document, host: Host, name: str) -> Document:
    """Return a document with one server of a file, and with the ``inputs`` that it refers to.

    Raises:
        UnknownNameError: with the most similar name.
    """
    entries = host.servers(document.value) or {}
    if name not in entries:
        raise UnknownNameError("server", name, list(entries), list_with="covalt-git mcp import")
    # Without the rest of the file: an error or a report about it would show other settings of the user.
    value = host.document({name: entries[name]})
    around = host.around(document.value)
    positions: dict[Loc, list[int]] = {}
    if isinstance(around.get("inputs"), list):
        inputs = around["inputs"]
        used = [at for at, item in enumerate(inputs) if _refers_to(entries[name], item)]
        host.around(value)["inputs"] = [inputs[at] for at in used]
        positions[*host.path[:-1], "inputs"] = used
    # The text is only for the places of problems: `mcp import` names the user's own file.
    at = list(entries).index(name)
    return replace(
        document,
        value=value,
        positions={**positions, **({host.path: [at]} if host.lists_servers else {})},
        name=name.replace(".", "-"),
        file_value=document.value,
    )
