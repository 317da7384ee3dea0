"""The project that a node follows: its state, and the root of the commit that new calls run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git.errors import CovaltError
from covalt_git.manifests.project_config import BrokenConfigError, unchanged_config
from covalt_git.models.project_source import ProjectState
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import CHECKOUTS, checkout

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_source import ProjectSource

_STATE = f"{CHECKOUTS}/state.json"


class NoProjectCommitError(CovaltError):
    """A node has no commit of its project that it can run."""

    code = "no_project_commit"
    http_status = 503

    def __init__(self, node: Path, source: ProjectSource) -> None:
        waiting = project_state(node, source).waiting
        if waiting is None:
            message = f"this node has not fetched its project from {source.url} yet"
            hint = "covalt-git trust, then covalt-git serve or covalt-git worker"
        else:
            message = (
                f"the commit {waiting.commit[:12]} of the project cannot be used: {waiting.why}"
            )
            hint = f"push a commit without errors to {source.ref}"
        super().__init__(message, hint=hint)


def source_of(node: Path) -> ProjectSource | None:
    """Return the repository from which a folder gets its project; None for a project of its own.

    Raises:
        BrokenConfigError: if ``covalt.yaml`` has errors.
    """
    return unchanged_config(node).project


def current_root(root: Path) -> Path:
    """Return the root of the project for new calls: of a node, the checkout of its commit.

    Without a commit, and with errors in ``covalt.yaml``, it is ``root``, and opening the project reports that.
    """
    try:
        source = source_of(root)
    except BrokenConfigError:
        return root
    state = None if source is None else project_state(root, source)
    return root if state is None or state.current is None else checkout(root, state.current)


def project_state(node: Path, source: ProjectSource) -> ProjectState:
    """Return the state of a node; without commits, if it has none of this source."""
    with suppress(OSError, ValidationError):  # missing, or of another version
        state = ProjectState.model_validate_json((node / _STATE).read_bytes())
        if state.is_of(source):
            return state
    return ProjectState(url=source.url, ref=source.ref)


def write_project_state(node: Path, state: ProjectState) -> None:
    """Write the state of a node, whose lock the caller has."""
    text = state.model_dump_json(exclude_none=True)
    atomic_write.replace(node / _STATE, f"{text}\n", private=True)
