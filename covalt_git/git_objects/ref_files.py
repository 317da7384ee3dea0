"""Refs as they lie in files of their own: read and moved in a fraction of the time dulwich takes.

Only what is plain is done here: a name of plain letters, an id in its file.  Packed, symbolic and
odd refs are dulwich's, and so is removing any.  The lock is git's: a file of the ref's name and
``.lock`` that becomes the ref.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from dulwich.refs import Ref, check_ref_format

from covalt_git.git_objects.objects import is_object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

_PLAIN = re.compile(r"refs(?:[./][\w-]+)+", re.ASCII)
_LONGEST = 128


def read_id(store: str, ref: str) -> str | None:
    """Return the id in the file of a ref; None where there is no such file, or it is not plain."""
    if _PLAIN.fullmatch(ref) is None:
        return None
    try:
        handle = os.open(f"{store}/{ref}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(handle, _LONGEST).decode("ascii", "replace").rstrip("\r\n")
    except OSError:
        return None
    finally:
        os.close(handle)
    return text if is_object_id(text) else None


def swap_id(
    store: str,
    ref: str,
    old: str | None,
    new: str,
    *,
    packed: Callable[[], Container[bytes]],
    durable: bool,
) -> bool | None:
    """Move a plain ref from ``old`` (None: there is none) to ``new``; return whether it moved.

    None says that nothing was done: whether it moves is for dulwich to find out.
    """
    if _PLAIN.fullmatch(ref) is None:
        return None
    path = f"{store}/{ref}"
    lock = f"{path}.lock"
    try:
        handle = _open_new(lock)
    except FileExistsError:
        return False  # somebody is moving it at this moment
    except OSError:
        return None
    moved: bool | None = False
    try:
        with os.fdopen(handle, "wb") as file:
            now = read_id(store, ref)
            if now is None and (os.path.lexists(path) or ref.encode() in packed()):
                moved = None
            elif now == old:
                file.write(f"{new}\n".encode())
                file.flush()
                if durable:
                    os.fsync(handle)
                moved = True
        if moved:
            os.rename(lock, path)  # noqa: PTH104 - beside the other calls on such names
    except BaseException:
        moved = False
        raise
    finally:
        if not moved:
            os.unlink(lock)  # noqa: PTH108
    return moved


def names_below(store: str, base: str) -> Iterator[str]:
    """Yield the names of the refs that have a file below ``base``, such as ``refs/heads``."""
    try:
        with os.scandir(f"{store}/{base}") as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return
    for name, is_folder in found:
        ref = f"{base}/{name}"
        if is_folder:
            yield from names_below(store, ref)
        elif not name.endswith(".lock") and (_PLAIN.fullmatch(ref) or _is_well_formed(ref)):
            yield ref


def locks_of(store: str) -> Iterator[str]:
    """Yield the paths of all lock files on refs, and of those on HEAD and its like."""
    with os.scandir(store) as entries:
        yield from [entry.path for entry in entries if entry.name.endswith(".lock")]
    for folder, _, names in os.walk(f"{store}/refs"):
        yield from (f"{folder}/{name}" for name in names if name.endswith(".lock"))


def _is_well_formed(ref: str) -> bool:
    try:
        return check_ref_format(Ref(ref.encode("utf-8")))
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return False


def _open_new(path: str) -> int:
    """Make a file and the folders above it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        return os.open(path, flags, 0o666)
