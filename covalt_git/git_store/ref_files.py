"""Refs as they lie in files of their own: read and moved in a fraction of the time dulwich takes.

Only what is plain is done here: a name of plain letters, an id in its file.  Packed, symbolic and
odd refs are dulwich's, and so is removing any.  The lock is git's: a file of the ref's name and
``.lock`` that becomes the ref.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from dulwich.refs import Ref, check_ref_format

from covalt_git.git_store.objects import is_object_id
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

_PLAIN = re.compile(r"refs(?:[./][\w-]+)+", re.ASCII)
_LONGEST = 1024


def read_id(store: str, ref: str) -> str | None:
    """Return the id in the file of a ref; None where there is no such file, or it is not plain."""
    if _PLAIN.fullmatch(ref) is None:
        return None
    text = read_small(f"{store}/{ref}").decode("ascii", "replace").rstrip("\r\n")
    return text if is_object_id(text) else None


def read_small(path: str) -> bytes:
    """Return the beginning of a file, long enough for any ref; nothing where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(handle)


def swap_id(
    store: str,
    ref: str,
    old: str | None,
    new: str,
    *,
    packed: Callable[[], Container[bytes]],
    first: Callable[[int], None],
) -> bool | None:
    """Move a plain ref from ``old`` (None: there is none) to ``new``; return whether it moved.

    None says that nothing was done: whether it moves is for dulwich to find out.  Before it moves,
    ``first`` stores what it will reach; it is given the descriptor of the lock, which will be the
    ref and is not flushed.  A lock that replaces a ref has its place on the disk before it has its
    content, or a file system that fears for that would begin to write it as soon as it is renamed.
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
        try:
            is_there = os.access(path, os.F_OK)
            now = read_id(store, ref) if is_there else None
            if now is None and (is_there or ref.encode() in packed()):
                moved = None
            elif now == old:
                line = f"{new}\n".encode()
                if is_there:
                    with contextlib.suppress(AttributeError, OSError):  # macOS, some file systems
                        os.posix_fallocate(handle, 0, len(line))
                os.write(handle, line)  # so few bytes are written whole or not at all
                first(handle)
                moved = True
        finally:
            os.close(handle)
        if moved:
            os.rename(lock, path)  # noqa: PTH104 - beside the other calls on such names
    except BaseException:
        moved = False
        raise
    finally:
        if not moved:
            with contextlib.suppress(FileNotFoundError):  # stopped when it had become the ref
                os.unlink(lock)  # noqa: PTH108
    return moved


def put_id(store: str, ref: str, oid: str) -> None:
    """Have a plain ref at an id, whatever is in its file; its name is not durable yet.

    Raises:
        OSError: when it cannot have a file, as where a folder is in its place.
    """
    path = f"{store}/{ref}"
    lock = f"{path}.lock"
    write_new(lock, f"{oid}\n".encode())
    try:
        fsync(lock)
        os.rename(lock, path)  # noqa: PTH104
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # stopped when it had become the ref
            os.unlink(lock)  # noqa: PTH108
        raise


def remove_id(store: str, ref: str, old: str) -> bool | None:
    """Remove the file of a plain ref that is at ``old``; return whether it was.

    None says that nothing was done: it is not plain, or may be packed as well.
    """
    path = f"{store}/{ref}"
    if _PLAIN.fullmatch(ref) is None or os.path.lexists(f"{store}/packed-refs"):
        return None
    lock = f"{path}.lock"
    try:
        os.close(_open_new(lock))
    except OSError:
        return None
    try:
        if read_id(store, ref) != old:
            return False
        os.unlink(path)  # noqa: PTH108
    finally:
        os.unlink(lock)  # noqa: PTH108
    return True


@dataclass(slots=True)
class NewHead:
    """A HEAD that names another ref, beside the one that it is to replace.

    After its block nothing is left of it, unless it was :meth:`put`.
    """

    path: str
    is_put: bool = False

    def __enter__(self) -> Self:
        """Begin what it is put in the course of."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it where it was not put."""
        if not self.is_put:
            os.unlink(self.lock)  # noqa: PTH108

    @property
    def lock(self) -> str:
        """The path of the file that is to become HEAD."""
        return f"{self.path}.lock"

    def put(self) -> None:
        """Put it in the place of the other; its name is not durable yet."""
        os.rename(self.lock, self.path)  # noqa: PTH104
        self.is_put = True


def new_head(store: str, ref: str) -> NewHead:
    """Make a HEAD that names a ref.

    Raises:
        FileExistsError: when somebody is moving HEAD at this moment.
    """
    head = NewHead(f"{store}/HEAD")
    write_new(head.lock, f"ref: {ref}\n".encode())
    return head


def write_new(path: str, content: bytes, *, mode: int = 0o666) -> None:
    """Make a file where none is.

    Raises:
        FileExistsError: when there is one.
    """
    handle = _open_new(path, mode)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)
    except BaseException:
        os.unlink(path)  # noqa: PTH108
        raise


def names_below(store: str, base: str) -> Iterator[str]:
    """Yield the names of the refs that have a file below ``base``, such as ``refs/heads``."""
    folder = f"{store}/{base}"
    if not os.access(folder, os.F_OK):  # as mostly, and quicker told than by an error
        return
    try:
        with os.scandir(folder) as entries:
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
    yield from _locks_in(store, below=False)
    yield from _locks_in(f"{store}/refs", below=True)


def _locks_in(folder: str, *, below: bool) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except FileNotFoundError:
        return
    for path, is_folder in found:
        if is_folder and below:
            yield from _locks_in(path, below=True)
        elif path.endswith(".lock") and not is_folder:
            yield path


def _is_well_formed(ref: str) -> bool:
    try:
        return check_ref_format(Ref(ref.encode("utf-8")))
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return False


def _open_new(path: str, mode: int = 0o666) -> int:
    """Make a file and the folders above it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileNotFoundError:
        os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103
        return os.open(path, flags, mode)
