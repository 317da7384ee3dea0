"""Taking in a toolset that somebody else made: read once, checked whole, and inert when it is here.

Nothing of it runs, connects or is imported.  It is staged in a hidden folder beside the toolsets,
flushed, and appears by one rename; its state file is there before, so that it is never taken for one
of the project's own, which would be on.  Who is killed in between leaves the state of no toolset and a
hidden folder at most: the next import replaces the one and clears the other away.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git import yaml_text
from covalt_git.errors import CovaltError
from covalt_git.files.bundle_files import MANIFEST
from covalt_git.files.bundle_reading import BadBundleError, Entry, read_folder, read_zip, unpack
from covalt_git.files.state_files import write_state
from covalt_git.files.toolsets import STATE_FOLDER, Toolset, read_toolset, toolset_ids
from covalt_git.installs.removing import clear_gone
from covalt_git.models import problems as codes
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id, new_id
from covalt_git.new_file import flush

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_UNNAMED = "unnamed"
_STAGING = ".incoming-"
_AN_HOUR = 3600

_NEVER_TAKEN = frozenset({codes.FORBIDDEN_FILE, codes.SHADOWED_MODULE})
"""What may be an oversight in a toolset of our own, and is a trap in somebody else's."""


class InstalledError(CovaltError):
    """There is a toolset of that id already."""

    code = "already_installed"
    http_status = 409


@dataclass(frozen=True, slots=True)
class Imported:
    """A toolset that came here, or would come: as it was read, and where it came from."""

    toolset: Toolset
    source_type: Literal["zip", "local", "url"]
    source_ref: str


def import_toolset(root: Path, source: Path | str, *, dry_run: bool = False) -> Imported:
    """Take in the toolset of a ZIP, a directory or an address (a text), off, with nothing granted.

    With ``dry_run`` all is read and checked, and nothing stays.

    Raises:
        BadBundleError: with everything that is wrong with it.
        InstalledError: when there is a toolset of its id.
        CovaltError: when it cannot be fetched or written.
    """
    kind, name, ref, entries = _read(source)
    toolset_id = _id_of(entries)
    staging = root / "toolsets" / f"{_STAGING}{new_id()}"
    try:
        _clear(staging.parent)
        _stage(staging / "toolsets" / toolset_id, entries)
        toolset = _sound(staging, toolset_id, name)
        found = Imported(toolset, kind, ref)
        _check_free(root, toolset_id)
        if not dry_run:
            _flush(staging)
            _put(root, found)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{str(error.filename or root)!r}: {reason}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return found


class _Source(NamedTuple):
    kind: Literal["zip", "local", "url"]
    name: str
    ref: str
    entries: list[Entry]


def _read(source: Path | str) -> _Source:
    if isinstance(source, str):
        from covalt_git.installs.fetching import fetch  # noqa: PLC0415 - few imports fetch anything

        plain = source.partition("#")[0].partition("?")[0]  # what follows may be a credential
        name = plain.rpartition("/")[2] or "bundle"
        return _Source("url", name, plain, unpack(fetch(source), name))
    # A checked-in file is no place for the folders of one machine.
    ref = source.name if source.is_absolute() else source.as_posix()
    if source.is_dir():
        return _Source("local", source.name, ref, read_folder(source))
    return _Source("zip", source.name, ref, read_zip(source))


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


def _clear(toolsets: Path) -> None:
    """Remove what others staged or began to remove who were killed: nobody needs an hour to stage."""
    clear_gone(toolsets)
    for left in toolsets.glob(f"{_STAGING}*"):
        if left.stat().st_mtime < time.time() - _AN_HOUR:
            shutil.rmtree(left, ignore_errors=True)


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


def _check_free(root: Path, toolset_id: str) -> None:
    folder = root / "toolsets"
    if os.path.lexists(folder / toolset_id):
        raise InstalledError(
            f"there is a toolset {toolset_id!r}", hint=f"covalt-git toolset show {toolset_id}"
        )
    for other in toolset_ids(folder):
        if other.replace("-", "_") == toolset_id.replace("-", "_"):
            raise InstalledError(f"there is a toolset {other!r}, which agents take for the same")


def _stage(folder: Path, entries: Sequence[Entry]) -> None:
    folder.mkdir(parents=True)
    for one in entries:
        path = folder / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.content)
        path.chmod(0o755 if one.executable else 0o644)


def _flush(staging: Path) -> None:
    for path in (*staging.rglob("*"), staging):
        flush(path)


def _put(root: Path, found: Imported) -> None:
    toolset = found.toolset
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    state = ToolsetState(
        source_type=found.source_type,
        source_ref=found.source_ref,
        version=toolset.manifest.version if toolset.manifest else None,
        installed_at=now,
        digest=toolset.digest,
    )
    folder = root / "toolsets"
    write_state(folder / STATE_FOLDER / f"{toolset.id}.yaml", state)
    toolset.folder.rename(folder / toolset.id)
    flush(folder)
