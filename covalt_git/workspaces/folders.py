"""Access to a folder by directory handles, so that no link can redirect a read or a write.

Each path is opened element by element from an open handle with ``O_NOFOLLOW``.  If a tool puts a link into
the path, the access fails.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import EXECUTABLE, FILE, LINK, blob_id
from covalt_git.models.chats import FileState
from covalt_git.system.atomic_write import FEW, fsync_file_system

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator
    from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A file can become a pipe between lstat and open: to open one without O_NONBLOCK would wait for a writer, under
# the lock.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

SET_ID = stat.S_ISUID | stat.S_ISGID
_CHANGED = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST}


@contextlib.contextmanager
def unless_changed() -> Iterator[None]:
    """Ignore the errors that occur if a folder of the path is gone, or was replaced by another kind of file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CHANGED:
            raise


class Folder(NamedTuple):
    """An open folder; paths are relative to it and use ``/``."""

    handle: int

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path) -> Iterator[Folder]:
        """Open the folder at ``path``, which must not be a link, and close it again."""
        handle = os.open(path, _DIRECTORY)
        try:
            yield cls(handle)
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def parent_of(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the handle of the parent folder of ``path``, and the last element of ``path``.

        Raises:
            OSError: if an element is missing, a link, or not a folder.
        """
        *elements, name = path.split("/")
        # O_NOFOLLOW does not stop `..`, and a commit that was pushed can have such a name.
        if ".." in elements or name == "..":
            raise OSError(errno.EINVAL, "a path in a workspace must not contain ..", path)
        handle = self.handle
        try:
            for element in elements:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(element, dir_fd=handle)
                above, handle = handle, os.open(element, _DIRECTORY, dir_fd=handle)
                if above != self.handle:
                    os.close(above)
            yield handle, name
        finally:
            if handle != self.handle:
                os.close(handle)

    def state(self, path: str, object_format: str, *, most: int | None = None) -> FileState | None:
        """Return git's mode and id of the file or link at ``path``; None if a file can be created there.

        Anything else in its place has an empty id: another kind of file, a parent that is a file or link, or a file
        that cannot be read or is larger than ``most`` bytes.
        """
        try:
            entry = self.read(path, most=most)
        except FileNotFoundError:
            return None
        except OSError:
            entry = None
        if entry is None:
            return FileState(mode=0, oid="")
        status, content = entry
        return FileState(mode=mode_of(status.st_mode), oid=blob_id(content, object_format))

    @contextlib.contextmanager
    def inside(self, path: str) -> Iterator[Folder]:
        """Yield the folder at ``path``; the empty path is this folder.

        Raises:
            OSError: as :meth:`parent_of`.
        """
        with self.parent_of(f"{path}/." if path else ".") as (handle, _):
            yield Folder(handle)

    def read(self, path: str, *, most: int | None = None) -> tuple[os.stat_result, bytes] | None:
        """Return the status and the content of the file or link at ``path``; None for other entries.

        Raises:
            OSError: as :meth:`parent_of` and :func:`read_entry`.
        """
        with self.parent_of(path) as (parent, name):
            return read_entry(parent, name, os.lstat(name, dir_fd=parent), most=most)

    def files_below(self, paths: Iterable[str]) -> Iterator[tuple[str, int, str, os.stat_result]]:
        """Yield each entry at and below ``paths`` that is not a folder: path, handle of its folder, name, status.

        Entries that are gone or cannot be read are skipped.
        """
        # Each folder is opened from the top again.  With one handle a level, a tool that nests folders in an
        # ignored one, whose depth no rule limits, would use up the handles of this process.
        parents = (path.rpartition("/") for path in paths)
        waiting: list[tuple[str, list[str]]] = [(above, [name]) for above, _, name in parents]
        while waiting:
            above, names = waiting.pop()
            with contextlib.suppress(OSError), self.inside(above) as folder:
                for name in names or [entry.name for entry in os.scandir(folder.handle)]:
                    path = f"{above}/{name}" if above else name
                    with contextlib.suppress(OSError):
                        status = os.lstat(name, dir_fd=folder.handle)
                        if stat.S_ISDIR(status.st_mode):
                            waiting.append((path, []))
                        else:
                            yield path, folder.handle, name, status

    def move_in(self, file: Path, path: str) -> bool:
        """Rename a file to ``path``, and create the folders above it; return False if one is another kind of file."""
        with unless_changed(), self.parent_of(path, create=True) as (parent, name):
            os.rename(file, name, dst_dir_fd=parent)
            return True
        return False

    def unlink(self, path: str) -> None:
        """Remove the file or link at ``path``; not if it is gone, or a folder replaced it."""
        with unless_changed(), self.parent_of(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def remove_empty(self, path: str, *, but: Container[str] = ()) -> None:
        """Remove the folder at ``path`` and its parents, as long as they are empty and not in ``but``."""
        while path and path not in but:
            try:
                with self.parent_of(path) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except FileNotFoundError:
                pass
            except OSError as error:
                # A user or a tool can put a file into the folder, or a link in its place, at this moment
                # (test_what_takes_the_place_of_a_folder_at_that_moment_is_somebodys_edit).
                if error.errno in _NOT_EMPTY | _CHANGED:
                    return
                raise
            path = path.rpartition("/")[0]

    def fsync(self, paths: Collection[str]) -> None:
        """Fsync the folders at ``paths``; skip those that do not exist or cannot be opened."""
        if len(paths) > FEW and fsync_file_system(self.handle):
            return
        for path in sorted(paths):
            with contextlib.ExitStack() as stack:
                try:
                    folder = stack.enter_context(self.inside(path))
                except OSError:
                    continue
                os.fsync(folder.handle)

    def make(self, path: str) -> bool:
        """Create the folder at ``path`` and its parents; return False if one of them is another kind of file."""
        with unless_changed(), self.parent_of(f"{path}/.", create=True):
            return True
        return False


def folders_above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first, without the root."""
    return [path[:at] for at, letter in enumerate(path) if letter == "/"]


def create(name: str, mode: int, content: bytes, *, parent: int | None = None) -> None:
    """Create a file or link at ``name``: a path, or a name in ``parent``, which must not exist."""
    if mode == LINK:
        os.symlink(os.fsdecode(content), name, dir_fd=parent)
        return
    with os.fdopen(os.open(name, _CREATE, 0o666, dir_fd=parent), "wb") as file:
        file.write(content)
        if mode == EXECUTABLE:
            # The new file's mode shows the umask; os.umask() would change that of all threads for a moment.
            umask = ~os.fstat(file.fileno()).st_mode & 0o666
            os.fchmod(file.fileno(), default_mode(umask, program=True))


def default_mode(umask: int, *, folder: bool = False, program: bool = False) -> int:
    """Return the mode of a new file or folder; who may not read a program may not execute it either."""
    readable = 0o666 & ~umask
    if folder:
        return 0o777 & ~umask
    return (readable | (readable & 0o444) >> 2) & 0o755 if program else readable


def clear_set_id(parent: int, name: str) -> None:
    """Clear the set-user-ID and set-group-ID bits of a regular file in an open folder.

    Scans call it for such files.  The sandbox prevents tools from setting these bits, but MCP servers and
    tools at the level ``process`` run without its filter.  With these bits, other users of the machine could run
    the program with the rights of the owner.  Folders keep the set-group-ID bit: new entries inherit the
    group, which users rely on.  A file of another user keeps its bits.
    """
    with contextlib.suppress(OSError, NotImplementedError):  # the latter: glibc before 2.32
        mode = os.lstat(name, dir_fd=parent).st_mode
        if stat.S_ISREG(mode) and mode & SET_ID:
            mode = stat.S_IMODE(mode) & ~SET_ID
            # By path, not by descriptor: the mode of the file may forbid its owner to open it.
            os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)


def read_entry(
    parent: int, name: str, status: os.stat_result, *, most: int | None = None
) -> tuple[os.stat_result, bytes] | None:
    """Return the status of a regular file or link when it was read, and its content; None for other entries.

    Raises:
        OSError: when it does not exist, cannot be read, or is larger than ``most`` bytes (``EFBIG``).
    """
    if stat.S_ISLNK(status.st_mode):
        return status, os.fsencode(os.readlink(name, dir_fd=parent))
    if not stat.S_ISREG(status.st_mode):
        return None
    handle = os.open(name, _READ, dir_fd=parent)
    content = b""
    try:
        # Another file may have got the name since lstat, and its stat must be that of the content.
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        if most is None or status.st_size <= most:
            # Read to the end, because the file may have grown.
            content = b"".join(iter(functools.partial(os.read, handle, status.st_size + 1), b""))
    finally:
        os.close(handle)
    if most is not None and max(status.st_size, len(content)) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return status, content


@functools.cache
def mode_of(status_mode: int) -> int:
    """Return git's mode of a file or link."""
    if stat.S_ISLNK(status_mode):
        return LINK
    return EXECUTABLE if status_mode & stat.S_IXUSR else FILE
