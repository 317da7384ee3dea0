"""Comparison of a bundle or an installed toolset with the digests recorded at its import.  Read-only.

A digest shows that files changed, but not which ones.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.grants.status import changes
from covalt_git.installs.signatures import SignerChangedError, check_signer
from covalt_git.installs.staging import stage
from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_ids
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.tool_locks import locks_of_toolset
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from covalt_git.models.toolset_state import Signer
    from covalt_git.toolsets.toolset import Toolset


class VerifiedBundle(NamedTuple):
    """A bundle that can be imported; ``installed`` is the project's toolset with the same id."""

    toolset: Toolset
    signer: Signer | None
    installed: Toolset | None
    signer_changed: SignerChangedError | None

    @property
    def is_recorded(self) -> bool | None:
        """Whether it is the bundle that was imported; None if no toolset of its id was imported."""
        if self.installed is None or not self.installed.state.imported:
            return None
        return self.installed.state.digest == self.toolset.digest


class VerifiedToolset(NamedTuple):
    """An installed toolset; ``grants`` and ``locked`` map each key to whether it is valid."""

    toolset: Toolset
    grants: dict[str, bool]
    locked: dict[str, bool]

    @property
    def is_recorded(self) -> bool | None:
        """Whether its files are the imported ones; None for the project's own toolsets."""
        if not self.toolset.state.imported:
            return None
        return self.toolset.state.digest == self.toolset.digest


def verify_file(root: Path, file: Path, signature: Path | None = None) -> VerifiedBundle:
    """Check a ZIP as an import does, and compare it with the installed toolset.

    Raises:
        BadBundleError: if the bundle is invalid; it has all problems.
        SignatureError: if the signature is not a valid one by one of the project's ``signers``.
        CovaltError: if the state file of the installed toolset cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as folder:
        staged = stage(root, file, Path(folder), signature)
    toolset = staged.toolset
    installed = None
    changed = None
    if toolset.id in toolset_ids(root / "toolsets"):
        installed = _check_state(root, read_toolset(root, toolset.id))
        try:
            check_signer(installed.state.signer, staged.signer, accept=False)
        except SignerChangedError as error:
            changed = error
    return VerifiedBundle(toolset, staged.signer, installed, changed)


def verify_toolset(root: Path, toolset_id: str) -> VerifiedToolset:
    """Compare the files of a toolset with the recorded digest, and with its grants and locks.

    Raises:
        UnknownNameError: if the id does not exist; the hint has the most similar one.
        CovaltError: if its state file, which contains the digest, cannot be read.
    """
    toolset = _check_state(root, find_toolset(root, toolset_id))
    grants = {
        key: not changes(toolset, grant) for key, grant in sorted(toolset.state.grants.items())
    }
    definitions = _locked(root, toolset_id)
    locked = {
        name: definitions.get(name) == digest
        for name, digest in sorted(toolset.state.accepted.items())
    }
    return VerifiedToolset(toolset, grants, locked)


def _check_state(root: Path, toolset: Toolset) -> Toolset:
    """Return the toolset if its state is readable; otherwise it would count as the project's own."""
    path = shown_path(root / "toolsets" / STATE_FOLDER / f"{toolset.id}.yaml", root)
    errors = [
        problem
        for problem in toolset.problems
        if problem.path == path and problem.severity == "error"
    ]
    if errors:
        raise CovaltError(
            "the state of the toolset cannot be read", hint="covalt-git validate", problems=errors
        )
    return toolset


def _locked(root: Path, toolset_id: str) -> dict[str, str]:
    """Return the digests of the locked definitions of a toolset's servers and sources, by tool id."""
    digests: dict[str, str] = {}
    for lock in (reading.value for reading in locks_of_toolset(root, toolset_id)):
        if lock is not None:
            for name, entry in lock.entries.items():
                digests[f"{lock.namespace}:{name}"] = entry.computed_digest
    return digests
