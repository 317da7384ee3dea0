"""Switching toolsets on and off: the state file first, then whoever reads it sees the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.files.state_files import write_state
from covalt_git.files.toolsets import STATE_FOLDER, Toolset, read_toolset, toolset_ids

if TYPE_CHECKING:
    from pathlib import Path


def find_toolset(root: Path, toolset_id: str) -> Toolset:
    """Return a toolset of the project.

    Raises:
        UnknownNameError: naming the nearest one.
    """
    known = toolset_ids(root / "toolsets")
    if toolset_id not in known:
        raise UnknownNameError("toolset", toolset_id, known, list_with="covalt-git toolset list")
    return read_toolset(root, toolset_id)


def set_enabled(root: Path, toolset_id: str, *, enabled: bool) -> bool:
    """Switch a toolset on or off; return whether that changed anything.

    Only ``toolsets/state/<id>.yaml`` is written.

    Raises:
        CovaltError: when the state file cannot be read; it is left as it is.
    """
    toolset = find_toolset(root, toolset_id)
    if toolset.enabled == enabled:
        return False
    file = root / "toolsets" / STATE_FOLDER / f"{toolset_id}.yaml"
    broken = [one for one in toolset.problems if one.path == file.relative_to(root).as_posix()]
    if any(one.severity == "error" for one in broken):
        raise CovaltError("the state file has errors", hint="mend it first", problems=broken)
    # A toolset of our own is on without a word, so that switching it on again leaves no file.
    said = None if enabled and not toolset.state.imported else enabled
    write_state(file, toolset.state.model_copy(update={"enabled": said}))
    return True
