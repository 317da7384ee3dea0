"""Taking in a toolset that somebody else made: inert when it is here, and whole or not there.

It appears by one rename; its state file is there before, so that it is never taken for one of the
project's own, which would be on.  Who is killed in between leaves the state of no toolset, which the
next import replaces.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.installs.staging import fsync_all, incoming
from covalt_git.installs.updating import merge_incoming, state_of
from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_ids
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.system import atomic_write
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.update_lock import toolsets_lock
from covalt_git.toolsets.version_store import store_version

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.installs.pending_imports import Bundle
    from covalt_git.installs.staging import Incoming
    from covalt_git.installs.updating import Update
    from covalt_git.models.toolset_state import Signer
    from covalt_git.toolsets.toolset import Toolset


class InstalledError(CovaltError):
    """There is a toolset of that id already, or one that is taken for the same."""

    code = "already_installed"
    http_status = 409


class Imported(NamedTuple):
    """A toolset that came here, or would come: as it was read, and where it came from.

    ``update`` says what came of one that was here already.
    """

    toolset: Toolset
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    signer: Signer | None = None
    update: Update | None = None


def import_toolset(
    root: Path,
    source: Path | str | Bundle,
    *,
    signature: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    accept_signer: bool = False,
) -> Imported:
    """Take in the toolset of a ZIP, a directory or an address (a text), off, with nothing granted.

    A :class:`Bundle` is a ZIP whose bytes are here already.  A ``signature``, or one that lies beside
    it, has to be good.  One that was imported before is updated: see
    :func:`covalt_git.installs.updating.update`, also for ``force`` and ``accept_signer``.  With
    ``dry_run`` all is read and checked, and nothing stays.

    Raises:
        BadBundleError: with everything that is wrong with it.
        SignatureError: when it is signed, and not by one of ``signers`` as it is.
        InstalledError: when there is one of its id that is the project's own.
        CovaltError: when it cannot be fetched or written, or not be merged with what is here.
    """
    with incoming(root, source, signature) as found, toolsets_lock(root):
        update = None
        if os.path.lexists(root / "toolsets" / found.toolset.id):
            _check_theirs(root, found.toolset.id)
            update = merge_incoming(
                root, found, dry_run=dry_run, force=force, accept_signer=accept_signer
            )
        else:
            _check_free(root, found.toolset.id)
            if not dry_run:
                _write_files(root, found)
        return Imported(found.toolset, found.source_type, found.source_ref, found.signer, update)


def _check_theirs(root: Path, toolset_id: str) -> None:
    if not find_toolset(root, toolset_id).state.imported:
        raise InstalledError(
            f"the toolset {toolset_id!r} is the project's own, and not updated by an import",
            hint=f"covalt-git toolset uninstall {toolset_id}",
        )


def _check_free(root: Path, toolset_id: str) -> None:
    for other in toolset_ids(root / "toolsets"):
        if other.replace("-", "_") == toolset_id.replace("-", "_"):
            raise InstalledError(f"there is a toolset {other!r}, which agents take for the same")


def _write_files(root: Path, found: Incoming) -> None:
    folder = root / "toolsets"
    store_version(root, found.toolset.id, found.entries)
    fsync_all(found.toolset.folder)
    # That it is off is said, so that switching it on changes a line, at which no grant stands.
    state = state_of(found, ToolsetState(enabled=False))
    write_state(folder / STATE_FOLDER / f"{found.toolset.id}.yaml", state)
    atomic_write.rename(found.toolset.folder, folder / found.toolset.id)
