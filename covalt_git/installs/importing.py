"""Atomic import of a third-party toolset, which stays disabled and without grants.

The toolset appears by one rename.  Its state file is written first: a toolset without one counts as the
project's own, which is enabled.  If the process dies in between, the next import replaces the state file.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import CovaltError, StaleError, listed
from covalt_git.installs.additions import added_entries, replaced_parts
from covalt_git.installs.pending_imports import Bundle
from covalt_git.installs.staging import fsync_all, incoming, with_entries
from covalt_git.installs.updating import imported_entries, merge_incoming, state_of
from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.toolset_files import STATE_FOLDER, toolset_ids
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.names import MAX_ID, id_key
from covalt_git.runtime.sandbox_levels import check_trust
from covalt_git.system import atomic_write
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.update_lock import toolsets_lock
from covalt_git.toolsets.version_store import store_version

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.installs.staging import Incoming
    from covalt_git.installs.updating import Update
    from covalt_git.models.toolset_state import Signer
    from covalt_git.toolsets.toolset import Toolset


class InstalledError(CovaltError):
    """A toolset whose id already exists, or differs from another one only in ``-`` and ``_``."""

    code = "already_installed"
    http_status = 409

    free_id = ""
    """An id that no toolset has, under which it can be imported."""


Existing = Literal["add", "replace"]
"""What an import does with a toolset that exists: add to it, or make it that of the document."""


class ReplacesError(InstalledError):
    """A document that would remove or change parts of a toolset, without a user's choice."""


class ImportedToolset(NamedTuple):
    """Result of an import or of its dry run; ``update`` is set if the toolset already existed.

    ``replaces`` are the parts of an existing toolset that a document removes or changes, and ``free_id`` an id
    that no toolset has.
    """

    toolset: Toolset
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    signer: Signer | None = None
    update: Update | None = None
    replaces: tuple[str, ...] = ()
    free_id: str = ""


def import_toolset(
    root: Path,
    source: Path | str | Bundle,
    *,
    dry_run: bool = False,
    force: bool = False,
    accept_signer: bool = False,
    reason: str | None = None,
    reviewed: str | None = None,
    existing: Existing | None = None,
    toolset_id: str | None = None,
) -> ImportedToolset:
    """Import a toolset from a ZIP, a directory, a URL (a ``str``) or the bytes of a ZIP (:class:`Bundle`).

    The signature in the file ``SOURCE.sig`` must be valid, if it exists.  If the toolset was imported before,
    it is updated as by :func:`covalt_git.installs.updating.update`, with ``force`` and
    ``accept_signer`` and the ``reason`` for it.  A ``dry_run`` checks everything and writes nothing.  ``reviewed`` is the digest of the
    toolset if the user has reviewed it in order to trust it.

    The file name of a converted document decides its id, so two different documents can have the same one.  If the
    second would remove or change parts of the first, ``existing`` says what to do, or ``toolset_id`` is another id.

    Raises:
        CovaltError: ``trust_refused``, with ``reviewed``, if the toolset was imported before.
        StaleError: with ``reviewed``, if it is not the digest of the toolset.
        SandboxNeededError: with ``reviewed``, if this machine has no sandbox.
        BadBundleError: if the bundle is invalid; it has all problems.
        SignatureError: if the signature is not a valid one by one of the project's ``signers``.
        InstalledError: if the project has its own toolset with this id.
        ReplacesError: if a document would remove or change parts of an imported toolset, without ``existing`` or ``force``.
        NotAddedError: if it cannot be added, because both have a part with the same name.
        CovaltError: if it cannot be downloaded, merged or written.
    """
    # The lock comes after the download and the checks, which take long and need no other process to wait.
    with (
        incoming(root, source, toolset_id=toolset_id) as staged,
        toolsets_lock(root),
        ExitStack() as additions,
    ):
        update = None
        replaces: tuple[str, ...] = ()
        is_document = isinstance(source, Bundle) and source.converted
        free_id = _free_id(root, staged.toolset.id)
        # lexists, because a link to nothing is a name that exists, too.
        if os.path.lexists(root / "toolsets" / staged.toolset.id):
            _check_imported(root, staged.toolset.id)
            if reviewed is not None:
                raise CovaltError(
                    f"{staged.toolset.id!r} was imported before, and an update adds no grants",
                    hint=f"covalt-git grant add {staged.toolset.id} --requested",
                    code="trust_refused",
                    http_status=409,
                )
            if is_document:
                installed = find_toolset(root, staged.toolset.id)
                replaces = replaced_parts(installed, staged.toolset)
                if existing == "add":
                    entries = added_entries(imported_entries(root, installed), staged.entries)
                    staged = additions.enter_context(with_entries(root, staged, entries))  # noqa: PLW2901 - the staged toolset is the sum
                elif replaces and existing is None and not force and not dry_run:
                    raise _replaces_error(staged, replaces, free_id)
            elif existing == "add":
                raise CovaltError(
                    f"{staged.name!r} is a bundle of a whole toolset, so it cannot be added to one",
                    hint=f"import it under another name: --as {free_id}",
                )
            update = merge_incoming(
                root,
                staged,
                dry_run=dry_run,
                force=force,
                accept_signer=accept_signer,
                reason=reason,
            )
        else:
            _check_available(root, staged.toolset.id)
            if reviewed is not None:
                # The source may have changed since the review.  Only what is staged here is imported and trusted.
                _check_reviewed(staged.toolset, reviewed)
            if not dry_run:
                _write_files(root, staged)
        return ImportedToolset(
            staged.toolset,
            staged.source_type,
            staged.source_ref,
            staged.signer,
            update,
            replaces,
            free_id,
        )


def _replaces_error(staged: Incoming, replaces: tuple[str, ...], free_id: str) -> ReplacesError:
    toolset_id = staged.toolset.id
    return ReplacesError(
        f"the toolset {toolset_id!r} exists, and {staged.name!r} would replace {listed(replaces)}; nothing was imported",
        hint=f"add one of: --existing add, --existing replace, --as {free_id}",
    )


def _free_id(root: Path, toolset_id: str) -> str:
    """Return the id, with a number if a toolset has it or one that agents could not distinguish from it."""
    existing = {id_key(other) for other in toolset_ids(root / "toolsets")}
    numbered = (f"{toolset_id[: MAX_ID - 8]}-{at}" for at in range(2, len(existing) + 3))
    return next(name for name in (toolset_id, *numbered) if id_key(name) not in existing)


def _check_imported(root: Path, toolset_id: str) -> None:
    if not find_toolset(root, toolset_id).state.imported:
        raise _taken(
            root,
            toolset_id,
            f"the toolset {toolset_id!r} is the project's own; an import cannot update it",
        )


def _check_reviewed(toolset: Toolset, digest: str) -> None:
    if toolset.digest != digest:
        raise StaleError(
            f"{toolset.id!r} has the digest {toolset.digest}, not the reviewed one",
            hint="covalt-git bundle import --dry-run SOURCE",
        )
    check_trust(toolset.id, ToolsetState(source_type="zip"))


def _check_available(root: Path, toolset_id: str) -> None:
    for other in toolset_ids(root / "toolsets"):
        if id_key(other) == id_key(toolset_id):
            raise _taken(
                root,
                toolset_id,
                f"a toolset {other!r} already exists, and agents could not distinguish the two",
            )


def _taken(root: Path, toolset_id: str, message: str) -> InstalledError:
    free_id = _free_id(root, toolset_id)
    error = InstalledError(message, hint=f"import it under another name: --as {free_id}")
    error.free_id = free_id
    return error


def _write_files(root: Path, staged: Incoming) -> None:
    folder = root / "toolsets"
    store_version(root, staged.toolset.id, staged.entries)
    # Before the rename: after a power cut, the name must not lead to empty files.
    fsync_all(staged.toolset.folder)
    # Write `enabled: false`, so that enabling the toolset changes a line that contains no grant.
    state = state_of(staged, ToolsetState(enabled=False))
    write_state(folder / STATE_FOLDER / f"{staged.toolset.id}.yaml", state)
    atomic_write.rename(staged.toolset.folder, folder / staged.toolset.id)
