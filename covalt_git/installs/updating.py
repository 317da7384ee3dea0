"""Update of an imported toolset: a three-way merge of the imported, the current and the new version.

Local overrides, enabled tools and grants are not part of the files and stay; a grant remains valid if the
files that it covers did not change.  The new folder replaces the old one atomically.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git import timestamps
from covalt_git.bundles.archive_reader import Entry, digest_of_entries, read_folder
from covalt_git.checks.text_files import find_conflict
from covalt_git.errors import CovaltError
from covalt_git.grants.status import changes
from covalt_git.installs.pending_imports import Bundle
from covalt_git.installs.signatures import check_signer
from covalt_git.installs.staging import fsync_all, incoming, staging, write_entries
from covalt_git.installs.three_way import UpdateStep, merge_files, take_theirs
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import replace, toolsets_lock
from covalt_git.toolsets.version_store import find_version, store_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.installs.staging import Incoming
    from covalt_git.models.toolset_state import ToolsetState

_LONGEST_NAME = 60


class NotUpdatedError(CovaltError):
    """A toolset that cannot be updated in its current state or from the given source."""

    code = "not_updated"
    http_status = 409


class Update(NamedTuple):
    """Result of an update or of its dry run.

    Attributes:
        old_version: the version that was imported last.
        new_version: the version of the update.
        steps: the changes, a file each.
        before: the toolset before the update.
        toolset: the toolset after the update.
        theirs: the new version without local changes.
        ended_grants: the grants that are no longer valid: key, and the changes that ended it.
        base_known: false if the imported version no longer exists, so that every difference conflicts.
        replaced: a bundle of the replaced files, if the update discarded local changes.
    """

    old_version: str | None
    new_version: str | None
    steps: tuple[UpdateStep, ...]
    before: Toolset
    toolset: Toolset
    theirs: Toolset
    ended_grants: dict[str, tuple[str, ...]]
    base_known: bool = True
    replaced: Path | None = None

    @property
    def conflicts(self) -> list[UpdateStep]:
        """The files that the user has to resolve."""
        return [step for step in self.steps if step.kind == "conflict"]


def update(
    root: Path,
    toolset_id: str,
    source: Path | str | Bundle | None = None,
    *,
    signature: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    accept_signer: bool = False,
    reason: str | None = None,
) -> Update:
    """Merge a newer version of an imported toolset with the current files.

    ``source`` is by default the source of the last import.  With ``force``, the new files replace the
    current ones, including local changes.  ``reason`` is why a script accepts another signer, or none.

    Raises:
        UnknownNameError: if the id does not exist; the hint has the most similar one.
        NotUpdatedError: if it was not imported, its source is unknown or has another toolset, or a
            conflict of the last update is unresolved.
        CovaltError: if the new version is invalid, or a file cannot be written.
    """
    installed = find_toolset(root, toolset_id)
    if not installed.state.imported:
        raise NotUpdatedError(
            f"the toolset {toolset_id!r} is the project's own; only imported toolsets can be updated"
        )
    # The file name of a document is not the id that the user may have imported it under.
    own_id = toolset_id if isinstance(source, Bundle) and source.converted else None
    staging_of = incoming(root, source or source_of(root, installed), signature, own_id)
    with staging_of as new, toolsets_lock(root):
        if new.toolset.id != toolset_id:
            raise NotUpdatedError(
                f"{new.name!r} is the toolset {new.toolset.id!r}, not {toolset_id!r}",
                hint=f"covalt-git bundle import {new.name}",
            )
        ref = new.source_ref if source else installed.state.source_ref or ""
        staged = new._replace(source_ref=ref)
        return merge_incoming(
            root, staged, dry_run=dry_run, force=force, accept_signer=accept_signer, reason=reason
        )


def merge_incoming(
    root: Path,
    new: Incoming,
    *,
    dry_run: bool,
    force: bool,
    accept_signer: bool,
    reason: str | None = None,
) -> Update:
    """Merge a staged toolset with the installed one of the same id; the caller holds the toolsets lock.

    Raises:
        SignerChangedError: if it is signed by another key or unsigned, unless ``accept_signer`` is set.
        NotUpdatedError: if a conflict of the last update is unresolved.
        CovaltError: if a file cannot be written.
    """
    old = find_toolset(root, new.toolset.id)
    check_signer(old.state.signer, new.signer, accept=accept_signer)
    ours = read_folder(old.folder)
    digest = digest_of_entries(ours)
    base = _base(root, old, ours)
    if force:
        merged, steps = take_theirs(ours, new.entries)
    else:
        _check_resolved(old.id, ours)
        version = " ".join((_version(new.toolset) or "").split())  # markers are single lines
        names = ("yours", version[:_LONGEST_NAME] or "theirs")
        merged, steps = merge_files(base or (), ours, new.entries, names)
    with staging(root) as folder:
        staged = folder / "toolsets" / old.id
        write_entries(staged, merged)
        toolset = read_toolset(folder, old.id)
        replaced = None
        if not dry_run and (merged != ours or new.toolset.digest != old.state.digest):
            if force and digest not in {old.state.digest, new.toolset.digest}:
                replaced = store_version(root, old.id, ours)
            # Before the state names its digest: the next update needs this version as its base, and it may never be
            # committed.
            store_version(root, old.id, new.entries)
            # Before the exchange: after a power cut, the name must not lead to empty files.
            fsync_all(staged)
            state = state_of(new, old.state)
            if new.signer != old.state.signer:
                state = state.model_copy(update={"signer_reason": reason})
            replace(root, old.id, staged, state)
        return Update(
            old_version=old.state.version,
            new_version=_version(new.toolset),
            steps=tuple(steps),
            before=old,
            toolset=toolset,
            theirs=new.toolset,
            ended_grants=_ended_grants(old, toolset),
            base_known=base is not None or force,
            replaced=replaced,
        )


def imported_entries(root: Path, installed: Toolset) -> list[Entry]:
    """Return the files of a toolset as they were imported; if these no longer exist, as they are."""
    ours = read_folder(installed.folder)
    return list(_base(root, installed, ours) or ours)


def _base(root: Path, installed: Toolset, ours: list[Entry]) -> list[Entry] | None:
    digest = installed.state.digest
    if digest_of_entries(ours) == digest:
        return ours
    return find_version(root, installed.id, digest or "")


def state_of(new: Incoming, earlier: ToolsetState) -> ToolsetState:
    """Return the state of a toolset imported now, with the overrides and grants of an ``earlier`` one."""
    timestamp = timestamps.now()
    return earlier.model_copy(
        update={
            "source_type": new.source_type,
            "source_ref": new.source_ref,
            "version": _version(new.toolset),
            "installed_at": timestamp,
            "digest": new.toolset.digest,
            "signer": new.signer,
        }
    )


def source_of(root: Path, toolset: Toolset) -> Path | str:
    """Return the file, folder or URL that a toolset was imported from.

    Raises:
        NotUpdatedError: if it does not exist.
    """
    kind, ref = toolset.state.source_type, toolset.state.source_ref or ""
    if kind == "url":
        return ref
    path = root / ref
    if ref and path.exists():
        return path
    raise NotUpdatedError(
        f"{toolset.id!r} was imported from {ref!r}, which does not exist",
        hint=f"covalt-git toolset update {toolset.id} --from FILE|DIR|URL",
    )


def _check_resolved(toolset_id: str, ours: Sequence[Entry]) -> None:
    texts = {entry.path: entry.content.decode("utf-8", "replace") for entry in ours}
    paths = [path for path, text in texts.items() if find_conflict(text) is not None]
    if paths:
        raise NotUpdatedError(
            f"the last update left unresolved conflicts in {', '.join(paths)}",
            hint="edit the files, or replace them with the new version:"
            f" covalt-git toolset update {toolset_id} --force",
        )


def _ended_grants(old: Toolset, new: Toolset) -> dict[str, tuple[str, ...]]:
    """Return the grants that are valid for the old files and not for the new ones."""
    return {
        key: changed
        for key, grant in sorted(old.state.grants.items())
        if not changes(old, grant) and (changed := changes(new, grant))
    }


def _version(toolset: Toolset) -> str | None:
    return toolset.manifest.version if toolset.manifest else None
