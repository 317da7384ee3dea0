"""Lookup of toolsets and servers, and updates of the state files in ``toolsets/state``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.manifests.state_files import read_state, write_state
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_ids
from covalt_git.toolsets.permissions import withdraw_removed
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.toolset_manifest import McpServer


def find_toolset(root: Path, toolset_id: str) -> Toolset:
    """Return a toolset of the project.

    Raises:
        UnknownNameError: if the name does not exist; the hint has the most similar one.
    """
    existing = toolset_ids(root / "toolsets")
    if toolset_id not in existing:
        raise UnknownNameError("toolset", toolset_id, existing, list_with="covalt-git toolset list")
    return read_toolset(root, toolset_id)


def find_server(toolset: Toolset, server_id: str) -> McpServer:
    """Return an MCP server that a toolset declares.

    Raises:
        UnknownNameError: if the name does not exist; the hint has the most similar one.
    """
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    for server in servers:
        if server.id == server_id:
            return server
    names = [server.id for server in servers]
    list_with = f"covalt-git toolset show {toolset.id}"
    raise UnknownNameError("server", server_id, names, list_with=list_with)


def changeable(root: Path, toolset_id: str) -> Toolset:
    """Return a toolset if its state file is valid: writing an invalid one would lose data.

    Raises:
        UnknownNameError: if the toolset does not exist; the hint has the most similar one.
        CovaltError: when the state file has errors, with its problems.
    """
    toolset = find_toolset(root, toolset_id)
    file = state_file(root, toolset_id)
    display_path = file.relative_to(root).as_posix()
    broken = read_state(file, display_path)
    if broken.value is None:
        raise CovaltError(
            f"{display_path} has errors and was not changed",
            hint=f"fix the errors, or restore the file: git checkout HEAD -- {display_path}",
            problems=broken.problems,
        )
    return toolset


def state_file(root: Path, toolset_id: str) -> Path:
    return root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml"


@locks_toolsets
def set_enabled(root: Path, toolset_id: str, *, enabled: bool) -> bool:
    """Enable or disable a toolset; return whether that changed anything.

    Only ``toolsets/state/<id>.yaml`` is written.

    Raises:
        CovaltError: when the state file is invalid; it is not changed.
    """
    toolset = changeable(root, toolset_id)
    if toolset.enabled == enabled:
        return False
    # Enabled is the default of the project's own toolsets, and is not written.
    value = None if enabled and not toolset.state.imported else enabled
    update_state(root, toolset, {"enabled": value})
    return True


def update_state(root: Path, toolset: Toolset, facts: dict[str, Any]) -> None:
    """Change fields of a toolset's state file; the caller holds the lock of the toolsets.

    Removed permissions are no longer trusted on this machine, so that a pull that restores them needs trust again.
    The caller trusts the added ones, because only it knows which the user has decided.
    """
    state = toolset.state.model_copy(update=facts)
    write_state(state_file(root, toolset.id), state)
    withdraw_removed(toolset, read_toolset(root, toolset.id))
