"""One change of the toolsets at a time, and whatever was cut short brought to its end before it.

The lock is on the folder ``toolsets`` itself, so that it leaves no file and goes with its process.
Putting a new folder in the place of one and writing its state are two steps; what makes them one is
a note of both beside the toolsets, written before and removed after them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from covalt_git.files.bundle_files import read_bundle_files
from covalt_git.files.state_files import write_state, write_whole
from covalt_git.files.toolsets import STATE_FOLDER
from covalt_git.flushing import flush
from covalt_git.models.toolset_state import ToolsetState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Given = ParamSpec("Given")
Result = TypeVar("Result")

GONE = ".gone-"
"""How the names of folders begin that are being removed."""

STAGED = ".incoming-"
"""How the names of folders begin that hold what may become a toolset."""

_AN_HOUR = 3600
"""Nobody takes longer to put a toolset together."""

_NOTE = ".update-"
_EXCHANGE, _SWAP = 2, 2
"""``RENAME_EXCHANGE`` of ``renameat2(2)``, Linux, and ``RENAME_SWAP`` of ``renamex_np(2)``, macOS."""

_HERE = -100  # AT_FDCWD


@contextmanager
def changing(root: Path) -> Iterator[None]:
    """Let nobody else change the project's toolsets during the block."""
    toolsets = root / "toolsets"
    toolsets.mkdir(exist_ok=True)
    handle = os.open(toolsets, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _finish(root)
        _clear(toolsets)
        yield
    finally:
        os.close(handle)


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
    told = {
        "digest": read_bundle_files(new, "").digest,
        "folder": new.relative_to(root).as_posix(),
        "state": state.model_dump(mode="json", exclude_defaults=True),
    }
    write_whole(note, json.dumps(told))
    _exchange(new, folder)
    flush(folder.parent)
    _finish(root)


def _finish(root: Path) -> None:
    """Bring what was cut short to its end: the new folder has its state, or the old one is back."""
    toolsets = root / "toolsets"
    for note in toolsets.glob(f"{_NOTE}*.json"):
        toolset_id = note.name.removeprefix(_NOTE).removesuffix(".json")
        told = json.loads(note.read_text(encoding="utf-8"))
        folder, new = toolsets / toolset_id, root / told["folder"]
        if not folder.exists() and new.is_dir():  # where folders cannot be exchanged at once
            new.rename(folder)
            flush(toolsets)
        if read_bundle_files(folder, "").digest == told["digest"]:
            state = ToolsetState.model_validate(told["state"])
            write_state(toolsets / STATE_FOLDER / f"{toolset_id}.yaml", state)
        note.unlink()


def _clear(toolsets: Path) -> None:
    """Remove what those left who were killed; only who holds the lock writes notes and states."""
    for half in (*toolsets.glob(f".{_NOTE}*.tmp"), *toolsets.glob(f"{STATE_FOLDER}/.*.tmp")):
        half.unlink()
    for left in (*toolsets.glob(f"{GONE}*"), *toolsets.glob(f"{STAGED}*")):
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
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def _exchange_at_once(one: bytes, other: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        failed = libc.renamex_np(one, other, _SWAP)
    else:
        failed = libc.renameat2(_HERE, one, _HERE, other, _EXCHANGE)
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
