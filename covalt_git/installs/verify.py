"""Whether a bundle, or a toolset that is here, is what was recorded when it came.  Nothing is written.

Files that changed cannot be named: a digest says that they did, and Git says how.
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
    """A bundle that would be taken: ``here`` is the toolset of its id, if this project has one."""

    toolset: Toolset
    signer: Signer | None
    here: Toolset | None
    signer_changed: SignerChangedError | None

    @property
    def is_recorded(self) -> bool | None:
        """Whether it is what was imported here; None where nothing of its id was."""
        if self.here is None or not self.here.state.imported:
            return None
        return self.here.state.digest == self.toolset.digest


class VerifiedToolset(NamedTuple):
    """A toolset that is here, its grants by their keys, and its locked tools, each with whether it holds."""

    toolset: Toolset
    grants: dict[str, bool]
    locked: dict[str, bool]

    @property
    def is_recorded(self) -> bool | None:
        """Whether its files are those that were imported; None for one of the project's own."""
        if not self.toolset.state.imported:
            return None
        return self.toolset.state.digest == self.toolset.digest


def verify_file(root: Path, file: Path, signature: Path | None = None) -> VerifiedBundle:
    """Check a ZIP as an import would, and compare it with what this project recorded.

    Raises:
        BadBundleError: with everything that is wrong with it.
        SignatureError: when it is signed, and not by one of ``signers`` as it is.
        CovaltError: when the state file of what is here cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as folder:
        found = stage(root, file, Path(folder), signature)
    toolset = found.toolset
    here = None
    changed = None
    if toolset.id in toolset_ids(root / "toolsets"):
        here = _with_its_state(root, read_toolset(root, toolset.id))
        try:
            check_signer(here.state.signer, found.signer, accept=False)
        except SignerChangedError as error:
            changed = error
    return VerifiedBundle(toolset, found.signer, here, changed)


def verify_toolset(root: Path, toolset_id: str) -> VerifiedToolset:
    """Compare the files of a toolset with what was recorded, and with what was granted to it.

    Raises:
        UnknownNameError: naming the nearest one.
        CovaltError: when its state file cannot be read, which says what was recorded.
    """
    toolset = _with_its_state(root, find_toolset(root, toolset_id))
    grants = {
        key: not changes(toolset, grant) for key, grant in sorted(toolset.state.grants.items())
    }
    definitions = _locked(root, toolset_id)
    locked = {
        name: definitions.get(name) == digest
        for name, digest in sorted(toolset.state.accepted.items())
    }
    return VerifiedToolset(toolset, grants, locked)


def _with_its_state(root: Path, toolset: Toolset) -> Toolset:
    """Return a toolset whose state was read: one that was not would look like one of our own."""
    shown = shown_path(root / "toolsets" / STATE_FOLDER / f"{toolset.id}.yaml", root)
    broken = [one for one in toolset.problems if one.path == shown and one.severity == "error"]
    if broken:
        raise CovaltError(
            "what was recorded cannot be read", hint="covalt-git validate", problems=broken
        )
    return toolset


def _locked(root: Path, toolset_id: str) -> dict[str, str]:
    """Return the digests of the definitions that servers and sources of a toolset gave, by the tools' ids."""
    found: dict[str, str] = {}
    for lock in (one.value for one in locks_of_toolset(root, toolset_id)):
        if lock is not None:
            for name, tool in lock.tools.items():
                found[f"{lock.namespace}:{name}"] = tool.computed_digest
    return found
