"""Local changes of a toolset since its import or since one of its grants."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from covalt_git.bundles.archive_reader import read_folder
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.patches import file_patch
from covalt_git.models.toolset_state import ProcessGrant, ServerGrant
from covalt_git.toolsets.permissions import is_trusted
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.version_store import find_version

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.bundles.archive_reader import Entry
    from covalt_git.git_store.patches import Side
    from covalt_git.toolsets.toolset import Toolset


class VersionGoneError(CovaltError):
    """The version to compare with no longer exists, or the user has not trusted the grant that names it."""

    code = "version_gone"
    http_status = 409


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that has changed, with git's patch of it."""

    path: str
    kind: Literal["added", "modified", "deleted"]
    patch: str


def differences(root: Path, toolset_id: str, grant: str | None = None) -> list[FileDifference]:
    """Return the changes since the import, or since the grant with the key ``grant``.

    Raises:
        UnknownNameError: with the nearest toolset or grant.
        VersionGoneError: if the toolset was not imported, the version no longer exists, or the grant is not trusted.
        CovaltError: if its files cannot be read.
    """
    toolset = find_toolset(root, toolset_id)
    digest = _digest(toolset, grant)
    recorded = find_version(root, toolset_id, digest)
    if recorded is None:
        raise VersionGoneError(f"{digest} of {toolset_id!r} is no longer in Git or data/toolsets")
    old = {entry.path: entry for entry in recorded}
    new = {entry.path: entry for entry in read_folder(toolset.folder)}
    return [
        FileDifference(
            path,
            "added" if path not in old else "modified" if path in new else "deleted",
            file_patch(
                f"toolsets/{toolset_id}/{path}", _side(old.get(path)), _side(new.get(path))
            ).decode(errors="replace"),
        )
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    ]


def _digest(toolset: Toolset, key: str | None) -> str:
    if key is not None:
        list_with = f"covalt-git grant list {toolset.id}"
        if key not in toolset.state.grants:
            raise UnknownNameError("grant", key, toolset.state.grants, list_with=list_with)
        grant = toolset.state.grants[key]
        if isinstance(grant, ProcessGrant | ServerGrant):
            raise VersionGoneError(
                f"the grant {key!r} is for the definition of an MCP server, so it has no changed files to show",
                hint=f"to see what changed in the definition: {list_with}",
            )
        if not is_trusted(toolset, key):
            # Its author chose the version, and could choose the one from which nothing seems to have changed.
            raise VersionGoneError(
                f"the grant {key!r} is not trusted on this machine, so it does not say which version you know",
                hint=f"read the files: covalt-git toolset show {toolset.id}",
            )
        return grant.digest
    if toolset.state.digest is None:
        raise VersionGoneError(
            f"the toolset {toolset.id!r} is the project's own, so there is no imported version to compare with",
            hint=f"git log -p -- toolsets/{toolset.id}",
        )
    return toolset.state.digest


def _side(entry: Entry | None) -> Side | None:
    if entry is None:
        return None
    return stat.S_IFREG | (0o755 if entry.executable else 0o644), entry.content
