"""Staging of a third-party toolset: it is read once and checked in a hidden folder of ``toolsets/``.

None of its code runs, and none of its servers is connected.  If the process dies, the next change of the
toolsets removes the hidden folder.
"""

from __future__ import annotations

import dataclasses
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git import yaml_text
from covalt_git.bundles.archive_reader import BadBundleError, Entry, read_folder, unpack
from covalt_git.errors import CovaltError
from covalt_git.installs.additions import renamed_entries
from covalt_git.installs.pending_imports import Bundle, bundle_or_folder, shown_source
from covalt_git.installs.signatures import verify
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.reading import Reading
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id, new_id
from covalt_git.problems import codes
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import check_changeable
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import STAGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.models.toolset_state import Signer

_UNNAMED = "unnamed"

_ALWAYS_ERRORS = frozenset({codes.FORBIDDEN_FILE, codes.SHADOWED_MODULE})
"""Warnings in the project's own toolsets that are errors in third-party ones."""


class Incoming(NamedTuple):
    """A staged toolset with its source; ``name`` is the source in messages."""

    toolset: Toolset
    entries: tuple[Entry, ...]
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    name: str
    signer: Signer | None


@contextmanager
def incoming(
    root: Path,
    source: Path | str | Bundle,
    signature: Path | None = None,
    toolset_id: str | None = None,
) -> Iterator[Incoming]:
    """Yield the toolset of a ZIP, a directory or a URL (a ``str``); its folder is removed after the block.

    A ``signature``, or else the file ``SOURCE.sig``, must be valid.  With ``toolset_id``, it gets this id instead of its own.

    Raises:
        BadBundleError: if the bundle is invalid; it has all problems.
        SignatureError: if the signature is invalid, or its key is not in the project's ``signers``.
        CovaltError: if it cannot be downloaded or written.
    """
    with staging(root) as folder:
        yield stage(root, source, folder, signature, toolset_id)


def stage(
    root: Path,
    source: Path | str | Bundle,
    folder: Path,
    signature: Path | None = None,
    toolset_id: str | None = None,
) -> Incoming:
    """Write a toolset to an empty ``folder`` and check it; arguments and errors as :func:`incoming`."""
    if not isinstance(source, Bundle):
        source = bundle_or_folder(source, signature)
    signer = None
    kind: Literal["zip", "local", "url"] = "local"
    if isinstance(source, Path):
        ref, entries = shown_source(source), read_folder(source)
    else:
        kind, ref = source.source_type, source.source_ref
        entries = unpack(source.content, source.name)
        if source.signature is not None:
            # The bytes that are verified are those that were unpacked: a file that is read twice can change in
            # between.
            signer = verify(source.content, source.signature, read_config(root).signers)
    own_id = _id_of(entries)
    # Without a valid id of its own it is refused anyway, with all problems of its manifest.
    if toolset_id is not None and toolset_id != own_id != _UNNAMED:
        if signer is not None:
            # The signature is for the files with the id that the signer wrote.
            raise CovaltError(f"{source.name!r} is signed, so it keeps the name {own_id!r}")
        entries = renamed_entries(entries, toolset_id)
        own_id = toolset_id
    write_entries(folder / "toolsets" / own_id, entries)
    toolset = _check(folder, own_id, source.name, kind)
    return Incoming(toolset, tuple(entries), kind, ref, source.name, signer)


@contextmanager
def with_entries(root: Path, new: Incoming, entries: Sequence[Entry]) -> Iterator[Incoming]:
    """Yield a staged toolset with other files; its folder is removed after the block."""
    with staging(root) as folder:
        toolset_id = new.toolset.id
        write_entries(folder / "toolsets" / toolset_id, entries)
        toolset = _check(folder, toolset_id, new.name, new.source_type)
        yield new._replace(toolset=toolset, entries=tuple(entries))


@contextmanager
def staging(root: Path) -> Iterator[Path]:
    """Yield the path of a hidden folder in ``toolsets/`` that is removed after the block.

    Raises:
        CovaltError: if the block raises an OSError.
        FollowedProjectError: if the toolsets are those of a commit that a node follows.
    """
    check_changeable(root)
    folder = root / "toolsets" / f"{STAGED}{new_id()}"
    try:
        yield folder
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{str(error.filename or root)!r}: {reason}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_entries(folder: Path, entries: Iterable[Entry]) -> None:
    """Write the files of a toolset into a new folder."""
    folder.mkdir(parents=True)
    for entry in entries:
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(entry.content)
        path.chmod(0o755 if entry.executable else 0o644)


def fsync_all(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        atomic_write.fsync(path)


def _check(root: Path, toolset_id: str, name: str, kind: Literal["zip", "local", "url"]) -> Toolset:
    # An imported toolset cannot waive the approval of its destructive tools.
    state = ToolsetState(enabled=False, source_type=kind)
    toolset = read_toolset(root, toolset_id, state=Reading("", state, None))
    folder = f"toolsets/{toolset_id}"
    errors = [
        dataclasses.replace(
            problem, path=name + problem.path.removeprefix(folder), severity="error"
        )
        for problem in toolset.problems
        if problem.severity == "error" or problem.code in _ALWAYS_ERRORS
    ]
    if not errors:
        return toolset
    raise BadBundleError(f"{name!r} cannot be imported", problems=errors)


def _id_of(entries: Sequence[Entry]) -> str:
    """Return the id in the manifest, or a placeholder if it is not a valid folder name."""
    manifest = next((entry for entry in entries if entry.path == MANIFEST), None)
    if manifest is None:
        inner = sorted(entry.path for entry in entries if entry.path.endswith(f"/{MANIFEST}"))
        hint = (
            f"bundle the files of {inner[0].rpartition('/')[0]!r}, not the folder" if inner else ""
        )
        raise BadBundleError(f"it has no {MANIFEST} at the top level", hint=hint)
    try:
        data = yaml_text.load(manifest.content, MANIFEST).data
    except yaml_text.YamlProblems:
        return _UNNAMED  # `read_toolset` reports the problems
    toolset_id = data.get("id") if isinstance(data, dict) else None
    usable = (
        isinstance(toolset_id, str) and is_id(toolset_id) and toolset_id not in RESERVED_TOOLSET_IDS
    )
    return toolset_id if usable and isinstance(toolset_id, str) else _UNNAMED
