"""A toolset that somebody else made, read once and checked whole, in a hidden folder beside the toolsets.

Nothing of it runs, connects or is imported.  Whoever is killed leaves a hidden folder at most, which
the next one clears away.
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
from covalt_git.installs.pending_imports import Bundle, shown_source
from covalt_git.installs.signatures import verify
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id, new_id
from covalt_git.problems import codes
from covalt_git.system import atomic_write
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import STAGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.models.toolset_state import Signer

_UNNAMED = "unnamed"

_NEVER_TAKEN = frozenset({codes.FORBIDDEN_FILE, codes.SHADOWED_MODULE})
"""What may be an oversight in a toolset of our own, and is a trap in somebody else's."""


class Incoming(NamedTuple):
    """A toolset in its hidden folder, and where it came from; ``name`` is how the source is shown."""

    toolset: Toolset
    entries: tuple[Entry, ...]
    source_type: Literal["zip", "local", "url"]
    source_ref: str
    name: str
    signer: Signer | None


@contextmanager
def incoming(
    root: Path, source: Path | str | Bundle, signature: Path | None = None
) -> Iterator[Incoming]:
    """Yield the toolset of a ZIP, a directory or an address (a text), which is gone after the block.

    A ``signature``, or one that lies beside it, has to be good.

    Raises:
        BadBundleError: with everything that is wrong with it.
        SignatureError: when it is signed, and not by one of ``signers`` as it is.
        CovaltError: when it cannot be fetched or written.
    """
    with staging(root) as folder:
        yield stage(root, source, folder, signature)


def stage(
    root: Path, source: Path | str | Bundle, folder: Path, signature: Path | None = None
) -> Incoming:
    """Read and check what :func:`incoming` yields in an empty ``folder``, and leave it there.

    Raises:
        CovaltError: as that.
    """
    kind, name, ref, entries, signer = _read(root, source, signature)
    toolset_id = _id_of(entries)
    write_entries(folder / "toolsets" / toolset_id, entries)
    toolset = _sound(folder, toolset_id, name)
    return Incoming(toolset, tuple(entries), kind, ref, name, signer)


@contextmanager
def staging(root: Path) -> Iterator[Path]:
    """Yield the name of a hidden folder beside the toolsets, which is gone after the block.

    Raises:
        CovaltError: when something cannot be written in the block.
    """
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
    for one in entries:
        path = folder / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.content)
        path.chmod(0o755 if one.executable else 0o644)


def fsync_all(folder: Path) -> None:
    """Wait until a folder and all that is in it are on the disk."""
    for path in (*folder.rglob("*"), folder):
        atomic_write.fsync(path)


class _Source(NamedTuple):
    kind: Literal["zip", "local", "url"]
    name: str
    ref: str
    entries: list[Entry]
    signer: Signer | None = None


def _read(root: Path, source: Path | str | Bundle, signature: Path | None) -> _Source:
    if isinstance(source, Path) and source.is_dir():
        if signature:
            raise CovaltError("a directory cannot be signed", hint="bundle it, and sign that")
        return _Source("local", source.name, shown_source(source), read_folder(source))
    if isinstance(source, str):
        source = Bundle.fetched(source, signature)
    elif isinstance(source, Path):
        source = Bundle.read(source, signature)
    entries = unpack(source.content, source.name)
    signer = None
    if source.signature is not None:
        signer = verify(source.content, source.signature, read_config(root).signers)
    return _Source(source.source_type, source.name, source.source_ref, entries, signer)


def _sound(staging: Path, toolset_id: str, shown: str) -> Toolset:
    toolset = read_toolset(staging, toolset_id)
    staged = f"toolsets/{toolset_id}"
    broken = [
        dataclasses.replace(one, path=shown + one.path.removeprefix(staged), severity="error")
        for one in toolset.problems
        if one.severity == "error" or one.code in _NEVER_TAKEN
    ]
    if not broken:
        return toolset
    raise BadBundleError(f"{shown!r} is not taken", problems=broken)


def _id_of(entries: Sequence[Entry]) -> str:
    """Return the id that the manifest says, as far as it can be a folder's name."""
    manifest = next((one for one in entries if one.path == MANIFEST), None)
    if manifest is None:
        inner = sorted(one.path for one in entries if one.path.endswith(f"/{MANIFEST}"))
        hint = (
            f"bundle the files of {inner[0].rpartition('/')[0]!r}, not the folder" if inner else ""
        )
        raise BadBundleError(f"there is no {MANIFEST} at its top", hint=hint)
    try:
        said = yaml_text.load(manifest.content, MANIFEST).data
    except yaml_text.YamlProblems:
        return _UNNAMED  # whoever reads the manifest tells why
    found = said.get("id") if isinstance(said, dict) else None
    usable = isinstance(found, str) and is_id(found) and found not in RESERVED_TOOLSET_IDS
    return found if usable and isinstance(found, str) else _UNNAMED
