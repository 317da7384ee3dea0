"""Lock on the toolsets of a project, and atomic replacement of a toolset with its state file.

The lock is on the folder ``toolsets`` itself: it needs no file, and ends with its process.  To replace
a toolset, its folder is exchanged and its state file is written.  A journal file next to the
toolsets records both steps before the first one.  If the process dies, the next one that takes the lock
completes them.
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
from contextvars import ContextVar
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from pydantic import ValidationError

from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.toolset_files import REGISTRY_FOLDER, STATE_FOLDER, read_bundle_files
from covalt_git.models.base import StrictModel
from covalt_git.models.toolset_state import ToolsetState
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id
from covalt_git.system import atomic_write, file_lock
from covalt_git.system.node_folder import check_changeable, data_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Params = ParamSpec("Params")
Result = TypeVar("Result")

REMOVED = ".gone-"
"""Prefix of the names of toolset folders that are being removed."""

STAGED = ".incoming-"
"""Prefix of the names of staging folders of imports, in ``toolsets`` and ``data``."""

_STAGED_S = 3600
"""The age at which a staging folder is removed: imports take less, and pending reviews expire."""

_JOURNAL = ".update-"
_EXCHANGE, _SWAP = 2, 2
"""``RENAME_EXCHANGE`` of ``renameat2(2)``, Linux, and ``RENAME_SWAP`` of ``renamex_np(2)``, macOS."""

_HERE = -100  # AT_FDCWD


class _Note(StrictModel):
    """Journal entry of a replacement: the digest and path of the new folder, and its state."""

    digest: str
    folder: str
    state: ToolsetState


_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def checked_after_wait(check: Callable[[], None]) -> Iterator[None]:
    """Have each change of toolsets in the block call ``check`` when it has the lock.

    The wait for the lock may take long, and meanwhile its caller may lose the right to the change.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


@contextmanager
def toolsets_lock(root: Path) -> Iterator[None]:
    """Hold the exclusive lock on the project's toolsets during the block.

    Raises:
        CovaltError: of the check of :func:`checked_after_wait`.
        FollowedProjectError: if the toolsets are those of a commit that a node follows.
    """
    check_changeable(root)
    toolsets = root / "toolsets"
    toolsets.mkdir(exist_ok=True)
    with file_lock.held(toolsets):
        check = _CHECK.get()
        if check is not None:
            check()
        _finish(root)
        _clear(toolsets, data_of(root))
        yield


def locks_toolsets(
    change: Callable[Concatenate[Path, Params], Result],
) -> Callable[Concatenate[Path, Params], Result]:
    """Decorate a function to hold the lock on the toolsets while it runs; its first argument is the project's root."""

    @functools.wraps(change)
    def with_lock(root: Path, /, *args: Params.args, **named: Params.kwargs) -> Result:
        with toolsets_lock(root):
            return change(root, *args, **named)

    return with_lock


def replace(root: Path, toolset_id: str, new: Path, state: ToolsetState) -> None:
    """Exchange the folders of a toolset and ``new``, and write the toolset's state.

    Raises:
        OSError: when a file cannot be written; both folders are then unchanged, or the change completed.
    """
    folder = root / "toolsets" / toolset_id
    journal = root / "toolsets" / f"{_JOURNAL}{toolset_id}.json"
    digest = read_bundle_files(new, "").digest
    note = _Note(digest=digest, folder=new.relative_to(root).as_posix(), state=state)
    # The journal is on the disk before the exchange: without it, a crash leaves the new files with the state, and so
    # with the digest and signer, of the old ones.
    atomic_write.replace(journal, note.model_dump_json(exclude_defaults=True))
    _exchange(new, folder)
    atomic_write.fsync(folder.parent)
    _finish(root)


def _finish(root: Path) -> None:
    """Complete interrupted replacements: write the state of each folder that was exchanged."""
    toolsets = root / "toolsets"
    for journal in toolsets.glob(f"{_JOURNAL}*.json"):
        toolset_id = journal.name.removeprefix(_JOURNAL).removesuffix(".json")
        folder, note = toolsets / toolset_id, _read_note(journal)
        new = None if note is None else _staged_folder(root, toolset_id, note.folder)
        if note is None or new is None:
            with contextlib.suppress(OSError):  # it may be a folder, which we did not create
                journal.unlink()
            continue
        if not folder.exists() and new.is_dir():  # died between the renames of _exchange
            atomic_write.rename(new, folder)
        # By the digest: if the process died before the exchange, the old folder is still there and its state is
        # right.
        if folder.is_dir() and read_bundle_files(folder, "").digest == note.digest:
            write_state(toolsets / STATE_FOLDER / f"{toolset_id}.yaml", note.state)
        journal.unlink()


def _read_note(journal: Path) -> _Note | None:
    """Return the entry of a journal file, or None if we did not write it (a ``git pull`` may add one)."""
    if journal.is_symlink() or not journal.is_file():
        return None
    try:
        return _Note.model_validate_json(journal.read_bytes())
    except ValidationError:
        return None


def _staged_folder(root: Path, toolset_id: str, path: str) -> Path | None:
    """Return the staged folder of a toolset, or None if ``path`` is not in a staging folder."""
    # A pull can add a journal. Its path may only be that of a staged folder, or it would move any folder into the
    # toolsets (test_a_forged_note_of_an_update_moves_nothing).
    staging = rf"toolsets/{re.escape(STAGED)}[0-9a-z-]+/toolsets/{re.escape(toolset_id)}"
    if toolset_id in RESERVED_TOOLSET_IDS or not (
        is_id(toolset_id) and re.fullmatch(staging, path)
    ):
        return None
    folder = root / path
    links = (part.is_symlink() for part in (folder, *folder.parents[:2]))
    return None if any(links) else folder


def _clear(toolsets: Path, data: Path) -> None:
    """Remove files of killed processes and expired staging folders; the caller holds the lock."""
    temporary = [
        *toolsets.glob(f".{_JOURNAL}*.tmp"),
        *toolsets.glob(f"{STATE_FOLDER}/.*.tmp"),
        *toolsets.glob(f"{REGISTRY_FOLDER}/.*.tmp"),
    ]
    for file in temporary:
        with contextlib.suppress(OSError):
            file.unlink()
    staged = (*toolsets.glob(f"{STAGED}*"), *data.glob(f"{STAGED}*"))
    for folder in (*toolsets.glob(f"{REMOVED}*"), *staged):
        if folder.is_symlink():
            folder.unlink()
        elif folder.name.startswith(REMOVED) or folder.stat().st_mtime < time.time() - _STAGED_S:
            shutil.rmtree(folder, ignore_errors=True)


def _exchange(first: Path, second: Path) -> None:
    """Exchange the names of two folders: atomically, or by three renames where that is not supported."""
    with contextlib.suppress(OSError, AttributeError):
        _exchange_atomically(os.fsencode(first), os.fsencode(second))
        return
    aside = first.with_name(f"{first.name}.old")
    for old, new in ((second, aside), (first, second), (aside, first)):
        atomic_write.rename(old, new)


def _exchange_atomically(first: bytes, second: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        failed = libc.renamex_np(first, second, _SWAP)
    else:
        failed = libc.renameat2(_HERE, first, _HERE, second, _EXCHANGE)
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
