"""One change of the toolsets at a time, and whatever was cut short brought to its end before it.

The lock is on the folder ``toolsets`` itself, so that it leaves no file and goes with its process.
Putting a new folder in the place of one and writing its state are two steps; what makes them one is
a note of both beside the toolsets, written before and removed after them.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from pydantic import ValidationError

from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.toolset_files import STATE_FOLDER, read_bundle_files
from covalt_git.models.base import StrictModel
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id
from covalt_git.system import atomic_write, file_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Given = ParamSpec("Given")
Result = TypeVar("Result")

GONE = ".gone-"
"""How the names of folders begin that are being removed."""

STAGED = ".incoming-"
"""How the names of folders begin that hold what may become a toolset, in ``toolsets`` and ``data``."""

_AN_HOUR = 3600
"""Putting a toolset together takes less, and a bundle that waits longer for its review has expired."""

_NOTE = ".update-"
_EXCHANGE, _SWAP = 2, 2
"""``RENAME_EXCHANGE`` of ``renameat2(2)``, Linux, and ``RENAME_SWAP`` of ``renamex_np(2)``, macOS."""

_HERE = -100  # AT_FDCWD


class _Note(StrictModel):
    """A new folder that takes the place of a toolset, and the state that comes with it."""

    digest: str
    folder: str
    state: ToolsetState


@contextmanager
def changing(root: Path) -> Iterator[None]:
    """Let nobody else change the project's toolsets during the block."""
    toolsets = root / "toolsets"
    toolsets.mkdir(exist_ok=True)
    with file_lock.held(toolsets):
        _finish(root)
        _clear(toolsets, root / "data")
        yield


def one_at_a_time(
    change: Callable[Concatenate[Path, Given], Result],
) -> Callable[Concatenate[Path, Given], Result]:
    """Let nobody else change a project's toolsets while the function runs; it takes the root first."""

    @functools.wraps(change)
    def alone(root: Path, /, *args: Given.args, **named: Given.kwargs) -> Result:
        with changing(root):
            return change(root, *args, **named)

    return alone


def replace(root: Path, toolset_id: str, new: Path, state: ToolsetState) -> None:
    """Put the folder ``new`` in the place of a toolset, with its state; the old one is then ``new``.

    Raises:
        OSError: when that cannot be done; all is as it was, or as it should be.
    """
    folder, note = root / "toolsets" / toolset_id, root / "toolsets" / f"{_NOTE}{toolset_id}.json"
    digest = read_bundle_files(new, "").digest
    told = _Note(digest=digest, folder=new.relative_to(root).as_posix(), state=state)
    atomic_write.replace(note, told.model_dump_json(exclude_defaults=True))
    _exchange(new, folder)
    atomic_write.fsync(folder.parent)
    _finish(root)


def _finish(root: Path) -> None:
    """Bring what was cut short to its end: the new folder has its state, or the old one is back."""
    toolsets = root / "toolsets"
    for note in toolsets.glob(f"{_NOTE}*.json"):
        toolset_id = note.name.removeprefix(_NOTE).removesuffix(".json")
        folder, told = toolsets / toolset_id, _read_note(note)
        new = None if told is None else _staged(root, toolset_id, told.folder)
        if told is None or new is None:
            with contextlib.suppress(OSError):  # a folder of that name is nothing to us
                note.unlink()
            continue
        if not folder.exists() and new.is_dir():  # where folders cannot be exchanged at once
            atomic_write.rename(new, folder)
        if folder.is_dir() and read_bundle_files(folder, "").digest == told.digest:
            write_state(toolsets / STATE_FOLDER / f"{toolset_id}.yaml", told.state)
        note.unlink()


def _read_note(note: Path) -> _Note | None:
    """Return what a note says; one that we did not write, which a pull may bring, says nothing."""
    if note.is_symlink() or not note.is_file():
        return None
    try:
        return _Note.model_validate_json(note.read_bytes())
    except ValidationError:
        return None


def _staged(root: Path, toolset_id: str, said: str) -> Path | None:
    """Return the folder that was put together for a toolset, which lies nowhere but in a staging folder."""
    staging = rf"toolsets/{re.escape(STAGED)}[0-9a-z-]+/toolsets/{re.escape(toolset_id)}"
    if toolset_id in RESERVED_TOOLSET_IDS or not (
        is_id(toolset_id) and re.fullmatch(staging, said)
    ):
        return None
    folder = root / said
    links = (one.is_symlink() for one in (folder, *folder.parents[:2]))
    return None if any(links) else folder


def _clear(toolsets: Path, data: Path) -> None:
    """Remove what killed processes left and staged bundles that expired; the caller holds the lock."""
    for half in (*toolsets.glob(f".{_NOTE}*.tmp"), *toolsets.glob(f"{STATE_FOLDER}/.*.tmp")):
        with contextlib.suppress(OSError):
            half.unlink()
    staged = (*toolsets.glob(f"{STAGED}*"), *data.glob(f"{STAGED}*"))
    for left in (*toolsets.glob(f"{GONE}*"), *staged):
        if left.is_symlink():
            left.unlink()
        elif left.name.startswith(GONE) or left.stat().st_mtime < time.time() - _AN_HOUR:
            shutil.rmtree(left, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Give two folders each other's names at once, or where that is not possible, nearly so."""
    with contextlib.suppress(OSError, AttributeError):
        _exchange_at_once(os.fsencode(one), os.fsencode(other))
        return
    aside = one.with_name(f"{one.name}.old")
    for old, new in ((other, aside), (one, other), (aside, one)):
        atomic_write.rename(old, new)


def _exchange_at_once(one: bytes, other: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        failed = libc.renamex_np(one, other, _SWAP)
    else:
        failed = libc.renameat2(_HERE, one, _HERE, other, _EXCHANGE)
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
