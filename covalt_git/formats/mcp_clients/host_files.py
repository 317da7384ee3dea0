"""Configuration files of MCP clients on this machine, and the servers in them.

The paths are those in each host's documentation of November 2026.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from covalt_git.errors import UnknownNameError
from covalt_git.formats.documents import Document
from covalt_git.formats.mcp_clients.mcp_configs import HOSTS, is_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.formats.mcp_clients.mcp_configs import Host
    from covalt_git.json_values import JsonObject

Scope = Literal["project", "user"]

_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "claude-desktop": ("{config}/Claude/claude_desktop_config.json",),
    "claude-code": ("{project}/.mcp.json", "{home}/.claude.json"),
    "vscode": ("{project}/.vscode/mcp.json", "{config}/Code/User/mcp.json"),
    "cursor": ("{project}/.cursor/mcp.json", "{home}/.cursor/mcp.json"),
    "windsurf": ("{home}/.codeium/windsurf/mcp_config.json",),
    "opencode": ("{project}/opencode.json", "{home}/.config/opencode/opencode.json"),
    "codex": ("{home}/.codex/config.toml",),
    "gemini-cli": ("{project}/.gemini/settings.json", "{home}/.gemini/settings.json"),
}
"""The files of each host; ``{config}`` is the user's folder for configuration."""


class HostConfigFile(NamedTuple):
    """A configuration file of a host, in a project or of the user."""

    host: str
    title: str
    path: Path
    scope: Scope


def user_config_folder() -> Path:
    """Return the user's folder for configuration: ``$XDG_CONFIG_HOME``, or that of macOS."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(config) if Path(config).is_absolute() else Path.home() / ".config"


def existing_files(project: Path) -> list[HostConfigFile]:
    """Return the files that exist, without opening them."""
    folders = {"project": project, "home": Path.home(), "config": user_config_folder()}
    titles = {host.name: host.title for host in HOSTS}
    found = [
        HostConfigFile(name, titles[name], Path(path.format(**folders)), _scope(path))
        for name, paths in _PATHS.items()
        for path in paths
    ]
    return [one for one in found if one.path.is_file()]


def _scope(path: str) -> Scope:
    return "project" if path.startswith("{project}") else "user"


def servers(document: Document, host: Host) -> list[str]:
    """Return the names of a file's servers that can be imported."""
    return [name for name, one in _servers(document, host) if is_server(host, one)]


def only_server(document: Document, host: Host, name: str) -> Document:
    """Return a document with one server of a file, and with the ``inputs`` that it can refer to.

    Raises:
        UnknownNameError: with the most similar name.
    """
    known = dict(_servers(document, host))
    if name not in known:
        raise UnknownNameError("server", name, list(known), list_with="covalt-git mcp import")
    value: JsonObject = {name: known[name]}
    for key in reversed(host.path):
        value = {key: value}
    if isinstance(document.value.get("inputs"), list):
        value = {"inputs": document.value["inputs"], **value}
    return Document(f"{name.replace('.', '-')}.json", document.kind, value)


def _servers(document: Document, host: Host) -> Iterator[tuple[str, JsonObject]]:
    found = document.value
    for key in host.path:
        found = found.get(key) if isinstance(found, dict) else None
    for name, one in found.items() if isinstance(found, dict) else ():
        if isinstance(one, dict):
            yield name, one
