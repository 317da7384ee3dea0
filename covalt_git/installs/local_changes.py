"""What was changed here of a toolset since it was imported, or since something was granted to it."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.bundles.archive_reader import read_folder
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.patches import file_patch
from covalt_git.models.toolset_state import ProcessGrant, ServerGrant
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.version_store import find_version

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.bundles.archive_reader import Entry
    from covalt_git.git_store.patches import Side
    from covalt_git.toolsets.toolset import Toolset


class VersionGoneError(CovaltError):
    """Nobody has the version any more that a toolset is to be compared with."""

    code = "version_gone"
    http_status = 409


class Difference(NamedTuple):
    """A file that is not as it was, with git's patch of it from then to now."""

    path: str
    kind: Literal["added", "modified", "deleted"]
    patch: bytes


def differences(root: Path, toolset_id: str, grant: str | None = None) -> list[Difference]:
    """Return what changed since the import, or since what stands under the key ``grant`` was granted.

    Raises:
        UnknownNameError: naming the nearest toolset or grant.
        VersionGoneError: when it was not imported, or nobody has that version any more.
        CovaltError: when its files cannot be read.
    """
    toolset = find_toolset(root, toolset_id)
    digest = _digest(toolset, grant)
    before = find_version(root, toolset_id, digest)
    if before is None:
        raise VersionGoneError(
            f"{digest} of {toolset_id!r} is neither in Git nor in data/toolsets any more"
        )
    was = {one.path: one for one in before}
    now = {one.path: one for one in read_folder(toolset.folder)}
    return [
        Difference(
            path,
            "added" if path not in was else "modified" if path in now else "deleted",
            file_patch(f"toolsets/{toolset_id}/{path}", _side(was.get(path)), _side(now.get(path))),
        )
        for path in sorted({*was, *now})
        if was.get(path) != now.get(path)
    ]


def _digest(toolset: Toolset, grant: str | None) -> str:
    if grant is not None:
        list_with = f"covalt-git grant list {toolset.id}"
        if grant not in toolset.state.grants:
            raise UnknownNameError("grant", grant, toolset.state.grants, list_with=list_with)
        given = toolset.state.grants[grant]
        if isinstance(given, ProcessGrant | ServerGrant):
            raise VersionGoneError(
                f"{grant!r} was granted for what the MCP server is, whatever else changes",
                hint=f"what is otherwise: {list_with}",
            )
        return given.digest
    if toolset.state.digest is None:
        raise VersionGoneError(
            f"the toolset {toolset.id!r} is the project's own, and its history is Git's",
            hint=f"git log -p -- toolsets/{toolset.id}",
        )
    return toolset.state.digest


def _side(entry: Entry | None) -> Side | None:
    if entry is None:
        return None
    return stat.S_IFREG | (0o755 if entry.executable else 0o644), entry.content
