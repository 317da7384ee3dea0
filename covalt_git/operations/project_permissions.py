"""The permissions in the files of a project, and whether its user has trusted them on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.credentials.command import SecretCommand
from covalt_git.manifests.machine_folders import check_links
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.system.node_folder import node_of
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import Consents, Permission, config_permissions, foreign_data, own_code

if TYPE_CHECKING:
    from pathlib import Path

SECRET_COMMAND = "secret_command"  # noqa: S105 - a key of covalt.yaml


def project_permissions(root: Path) -> list[tuple[Permission, bool]]:
    """Return the permissions of ``covalt.yaml`` and of all toolsets, and whether each is trusted.

    The project's own Python tools are one of them if this machine has no sandbox.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` has errors.
        LinkedFolderError: as :func:`.check_links`.
    """
    from covalt_git.runtime import sandbox_levels  # noqa: PLC0415 - it loads the runtime

    # Before data/ is created: it may be a link to another folder (tests/security/test_links_of_a_clone.py).
    check_links(root)
    if node_of(root) != root:
        check_links(node_of(root))
    config = read_config(root)
    consents = Consents.of(root)
    permissions = config_permissions(config)
    toolsets = [read_toolset(root, toolset_id) for toolset_id in toolset_ids(root / "toolsets")]
    for toolset in toolsets:
        permissions += permissions_of(toolset, config)
    own_python = any(
        toolset.has_python_tools and not toolset.state.imported for toolset in toolsets
    )
    if own_python and not sandbox_levels.is_sandbox():
        permissions.append(own_code())
    lacking = {part.key: part for part in consents.lacking(permissions)}
    decided = [
        # If a permission has grown, the user has already decided about the rest, and reviews only the new part.
        (lacking.get(permission.key, permission), permission.key not in lacking)
        for permission in permissions
    ]
    if not consents.has_own_data():
        decided.insert(0, (foreign_data(), False))
    command = SecretCommand.of(root, config.secret_command)
    if command is not None:
        words = f"covalt.yaml: run {command} for granted secrets"
        # It runs outside of the sandbox, so a trusted folder does not cover it.
        permission = Permission({SECRET_COMMAND: list(command.argv)}, words)
        decided.append((permission, command.is_allowed))
    # What runs outside of the sandbox comes last, next to the question, however long the list is.
    return sorted(decided, key=lambda row: _runs_programs(row[0]))


def _runs_programs(permission: Permission) -> bool:
    fact = permission.fact
    is_program = fact.get("kind") == "process" and "sandbox" not in fact
    return (
        is_program
        or fact.get("kind") == "unsandboxed"
        or not {
            SECRET_COMMAND,
            "unsandboxed",
        }.isdisjoint(fact)
    )
