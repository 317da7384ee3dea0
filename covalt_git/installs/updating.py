"""Updating a toolset that was imported: what was imported, what is here, and what is new, merged.

Local overrides and switches stay, as they are no part of the files; a grant stays and holds where what
was granted did not change.  The new folder takes the place of the old one at once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import timestamps
from covalt_git.bundles.archive_reader import Entry, digest_of_entries, read_folder
from covalt_git.errors import CovaltError
from covalt_git.grants.status import changes
from covalt_git.installs.signatures import check_signer
from covalt_git.installs.staging import fsync_all, incoming, staging, write_entries
from covalt_git.installs.three_way import Step, merge_files, take_theirs
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import replace, toolsets_lock
from covalt_git.toolsets.version_store import find_version, store_version

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.installs.staging import Incoming
    from covalt_git.models.toolset_state import ToolsetState

_MARKS = re.compile(rb"^(?:(<)<{6} |(=)={6}\r?$|(>)>{6} )", re.MULTILINE)
_LONGEST_NAME = 60


class NotUpdatedError(CovaltError):
    """A toolset cannot be updated as it is, or from what was named."""

    code = "not_updated"
    http_status = 409


class Update(NamedTuple):
    """What an update did, or would do: from the toolset that was here ``before`` to ``toolset``.

    ``theirs`` is the newer version, as it came.
    Without ``base_known`` nobody has what was imported, so that every difference is a conflict.  With
    ``replaced`` local changes were given up, and what was here is that bundle.
    """

    old_version: str | None
    new_version: str | None
    steps: tuple[Step, ...]
    before: Toolset
    toolset: Toolset
    theirs: Toolset
    ended_grants: tuple[str, ...]
    base_known: bool = True
    replaced: Path | None = None

    @property
    def conflicts(self) -> list[Step]:
        """What somebody has to decide."""
        return [step for step in self.steps if step.kind == "conflict"]


def update(
    root: Path,
    toolset_id: str,
    source: Path | str | None = None,
    *,
    signature: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    accept_signer: bool = False,
) -> Update:
    """Merge a newer version of an imported toolset into what is here.

    It comes from ``source``, else from where the toolset came from.  With ``force`` their files
    replace what is here, local changes and all.

    Raises:
        UnknownNameError: naming the nearest one.
        NotUpdatedError: when it was not imported, its source is not known any more or gives another
            toolset, or a conflict of the last update is still there.
        CovaltError: when the new version is not taken, or something cannot be written.
    """
    found = find_toolset(root, toolset_id)
    if not found.state.imported:
        raise NotUpdatedError(
            f"the toolset {toolset_id!r} is the project's own, so that there is nothing newer of it"
        )
    with incoming(root, source or _source(root, found), signature) as new, toolsets_lock(root):
        if new.toolset.id != toolset_id:
            raise NotUpdatedError(
                f"{new.name!r} is the toolset {new.toolset.id!r}, not {toolset_id!r}",
                hint=f"covalt-git bundle import {new.name}",
            )
        ref = new.source_ref if source else found.state.source_ref or ""
        named = new._replace(source_ref=ref)
        return merge_incoming(
            root, named, dry_run=dry_run, force=force, accept_signer=accept_signer
        )


def merge_incoming(
    root: Path, new: Incoming, *, dry_run: bool, force: bool, accept_signer: bool
) -> Update:
    """Merge what came into the toolset of its id, which was imported; the caller keeps others out.

    Raises:
        SignerChangedError: when another signed it than before, or nobody, unless ``accept_signer``.
        NotUpdatedError: when a conflict of the last update is still there.
        CovaltError: when something cannot be written.
    """
    old = find_toolset(root, new.toolset.id)
    check_signer(old.state.signer, new.signer, accept=accept_signer)
    ours = read_folder(old.folder)
    digest = digest_of_entries(ours)
    base = (
        ours if digest == old.state.digest else find_version(root, old.id, old.state.digest or "")
    )
    if force:
        merged, steps = take_theirs(ours, new.entries)
    else:
        _check_decided(old.id, ours)
        named = " ".join((_version(new.toolset) or "").split())  # it stands in one line
        names = ("yours", named[:_LONGEST_NAME] or "theirs")
        merged, steps = merge_files(base or (), ours, new.entries, names)
    with staging(root) as folder:
        staged = folder / "toolsets" / old.id
        write_entries(staged, merged)
        toolset = read_toolset(folder, old.id)
        replaced = None
        if not dry_run and (merged != ours or new.toolset.digest != old.state.digest):
            if force and digest not in {old.state.digest, new.toolset.digest}:
                replaced = store_version(root, old.id, ours)
            store_version(root, old.id, new.entries)
            fsync_all(staged)
            replace(root, old.id, staged, state_of(new, old.state))
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


def state_of(new: Incoming, before: ToolsetState) -> ToolsetState:
    """Return the state of a toolset that came here now, with what was decided about it before."""
    now = timestamps.now()
    return before.model_copy(
        update={
            "source_type": new.source_type,
            "source_ref": new.source_ref,
            "version": _version(new.toolset),
            "installed_at": now,
            "digest": new.toolset.digest,
            "signer": new.signer,
        }
    )


def _source(root: Path, toolset: Toolset) -> Path | str:
    kind, ref = toolset.state.source_type, toolset.state.source_ref or ""
    if kind == "url":
        return ref
    path = root / ref
    if ref and path.exists():
        return path
    raise NotUpdatedError(
        f"{toolset.id!r} came from {ref!r}, which is not here",
        hint=f"covalt-git toolset update {toolset.id} --from FILE|DIR|URL",
    )


def _check_decided(toolset_id: str, ours: Sequence[Entry]) -> None:
    marked = [one.path for one in ours if _has_conflict(one.content)]
    if marked:
        raise NotUpdatedError(
            f"nobody decided the conflicts of the last update in {', '.join(marked)}",
            hint=f"edit it, or take theirs: covalt-git toolset update {toolset_id} --force",
        )


def _has_conflict(content: bytes) -> bool:
    """Tell whether the three marks of a conflict stand in a text, one behind the other."""
    awaited = 0
    for mark in _MARKS.finditer(content):
        if mark.lastindex == awaited + 1:
            awaited += 1
        if awaited == _MARKS.groups:
            return True
    return False


def _ended_grants(old: Toolset, new: Toolset) -> tuple[str, ...]:
    """Return the keys of the grants that held for the old files and do not for the new ones."""
    given = sorted(old.state.grants.items())
    return tuple(key for key, grant in given if not changes(old, grant) and changes(new, grant))


def _version(toolset: Toolset) -> str | None:
    return toolset.manifest.version if toolset.manifest else None
