"""Read-only copies of toolsets: ``<project>/toolsets/<digest>/`` in the user's cache has the files with this digest.

A toolset is checked, granted and recorded by its digest, but its folder can change at any time.
Therefore tools and MCP servers run from the copy, never from the folder.  A process compares a copy
with its digest before it first uses it.  A copy contains no bytecode, which the digest does not cover.

Copies are not in the project: node, npx and uv also load files of the folders above a program or its current folder
(``node_modules``, ``.npmrc``, ``uv.toml``), which no digest covers, and which a pull can change.

``<digest>.lock`` contains the id of the toolset.  A process that uses the copy holds a shared lock
(``flock(2)``) on that file.  An unused copy is removed when its toolset is removed or has another
digest.  Copies are written and removed under a lock on the cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.names import new_id
from covalt_git.system import atomic_write, file_lock, private_files
from covalt_git.system.argument_paths import BETWEEN_PATHS
from covalt_git.system.file_cache import Facts, walk
from covalt_git.system.node_folder import node_of
from covalt_git.system.remove_tree import remove_tree

if TYPE_CHECKING:
    from io import BufferedReader

    from covalt_git.manifests.toolset_files import BundleFile
    from covalt_git.toolsets.toolset import Toolset

_NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags for opening files of a toolset: a link is an error, and a pipe does not block."""

_Listing = dict[str, Facts]
"""The stat results of a folder and everything below it, by path."""

_VERIFIED: dict[Path, _Listing] = {}
"""The copies that this process has compared with their digests, as they were at that time."""


class ToolsetChangedError(CovaltError):
    """The folder of a toolset no longer has the files that were checked."""

    code = "toolset_changed"
    http_status = 409


@dataclass(slots=True)
class HeldCopy:
    """A copy that other processes do not remove before :meth:`close`."""

    folder: Path
    _lock: int

    def close(self) -> None:
        """Allow the removal of the copy; a second call does nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


@dataclass(frozen=True, slots=True)
class ToolsetCopy:
    """The copy of a toolset for one digest.

    Attributes:
        cache: the folder of all copies of a project.
        digest: ``sha256:<hex>``, the digest of ``files``.
        source: the toolset's own folder.
        files: all files of the copy.
    """

    cache: Path
    toolset_id: str
    digest: str
    source: Path = field(compare=False)
    files: tuple[BundleFile, ...] = field(compare=False, repr=False)

    @classmethod
    def of(cls, toolset: Toolset) -> ToolsetCopy:
        """Return the copy for the digest that a toolset had when it was read."""
        source = toolset.folder.absolute()
        return cls(
            _cache(node_of(source.parent.parent)),
            toolset.id,
            toolset.digest,
            source,
            toolset.files.files,
        )

    @property
    def folder(self) -> Path:
        """The folder of the copy, which may not exist yet."""
        return self.cache / self.digest.removeprefix("sha256:")

    @property
    def bytecode(self) -> Path:
        """The folder where unsandboxed programs store the bytecode of this copy and of their imports."""
        return self.cache.with_name("bytecode")

    def in_copy(self, text: str) -> str:
        """Return a text in which the paths of the toolset's own folder are those of the copy.

        A path that leaves the folder by ``..`` stays, and so does another one that leads there by a link, unless it is
        all of the text.
        """
        if text.startswith("/") and "\0" not in text:
            end = Path(os.path.realpath(text))
            if end.is_relative_to(self.source.resolve()):
                return str(self.folder / end.relative_to(self.source.resolve()))
        for source in {str(self.source), str(self.source.resolve())}:
            path = rf"(\A-\w|\A|[{BETWEEN_PATHS}]|file://[^/]*){re.escape(source)}((?:/[^{BETWEEN_PATHS}]*)?)"
            text = re.sub(rf"{path}(?=\Z|[{BETWEEN_PATHS}])", self._moved, text)
        return text

    def _moved(self, path: re.Match[str]) -> str:
        return path[0] if ".." in path[2].split("/") else f"{path[1]}{self.folder}{path[2]}"

    def make(self) -> None:
        """Write the copy, unless this process has already verified it.

        Raises:
            ToolsetChangedError: when the source does not have this digest any more.
            CovaltError: ``no_toolset_copy``, when the copy cannot be written.
        """
        if self.folder not in _VERIFIED or not self.folder.exists():
            self.hold().close()

    def hold(self) -> HeldCopy:
        """Return the copy; write it first if it is missing or damaged.

        Raises:
            ToolsetChangedError: when the source does not have this digest any more.
            CovaltError: ``no_toolset_copy``, when the copy cannot be written.
        """
        try:
            self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file_lock.held(self.cache):  # no other process writes or removes copies
                lock = os.open(self.folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    # Taken while the folder's lock is held, so that no other process removes the copy between its
                    # check and its first use.
                    file_lock.acquire(lock, shared=True)
                    if not self._is_intact():
                        os.pwrite(lock, self.toolset_id.encode(), 0)
                        self._write()
                        _remove_unused(self.cache, self.source.parent, self.toolset_id)
                except BaseException:
                    os.close(lock)
                    raise
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CovaltError(
                f"the toolset {self.toolset_id!r} cannot be copied to {self.cache}: {reason}",
                hint=f"df -h {self.cache}; or set XDG_CACHE_HOME to a folder that you can write",
                code="no_toolset_copy",
                http_status=500,
            ) from None
        return HeldCopy(self.folder, lock)

    def read(self, path: str) -> bytes:
        """Return the bytes of one of the files.

        Raises:
            FileNotFoundError: when the toolset does not have the file.
            CovaltError: as :meth:`hold`.
        """
        if not any(file.path == path for file in self.files):
            raise FileNotFoundError(path)
        with contextlib.closing(self.hold()) as held:
            return (held.folder / path).read_bytes()

    def _is_intact(self) -> bool:
        listing = _list(self.folder)
        # The facts include the change time, which only root can set back, so equal facts replace the hash of each
        # file.
        if listing and _VERIFIED.get(self.folder) == listing:
            return True
        paths = {path for path, facts in listing.items() if not stat.S_ISDIR(facts[0])}
        if paths != {file.path for file in self.files}:
            return False
        for file in self.files:
            mode = listing[file.path][0]
            if not stat.S_ISREG(mode) or bool(mode & stat.S_IXUSR) != file.executable:
                return False
            with _open(self.folder / file.path) as content:
                if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
                    return False
        _VERIFIED[self.folder] = listing
        return True

    def _write(self) -> None:
        temporary = self.cache / f".{new_id()}"
        try:
            temporary.mkdir()
            for file in self.files:
                target = temporary / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                self._copy(file, target)
                target.chmod(0o555 if file.executable else 0o444)
            for folder, _, _ in os.walk(temporary):
                Path(folder).chmod(0o555)
            remove_tree(self.folder)
            atomic_write.rename(temporary, self.folder)
            _VERIFIED[self.folder] = _list(self.folder)
        finally:
            remove_tree(temporary)

    def _copy(self, file: BundleFile, target: Path) -> None:
        """Copy one file; raise an error if its content does not have the recorded hash."""
        content = b""
        with contextlib.suppress(OSError), _open(self.source / file.path) as source:
            # One byte more than recorded, so that a file that grew has another hash and a huge one is not read.
            content = source.read(file.size + 1) or b""  # an empty pipe returns None
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise ToolsetChangedError(
                f"toolsets/{self.toolset_id}/{file.path} changed while the call was prepared;"
                " the tool did not run",
                hint="call it again",
            )
        target.write_bytes(content)


def _cache(root: Path) -> Path:
    """Return the folder of all copies of the project in ``root``."""
    key = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    return private_files.cache_folder() / "projects" / key / "toolsets"


def _open(path: Path) -> BufferedReader:
    return os.fdopen(os.open(path, _NO_LINK), "rb")


def _list(folder: Path) -> _Listing:
    """Return the stat results of a folder and everything below it; empty if it does not exist."""
    below = walk(os.fsencode(folder))
    return {os.fsdecode(path).removeprefix(f"{folder}/"): facts for path, facts in below if facts}


def _remove_unused(cache: Path, toolsets: Path, changed: str) -> None:
    """Remove unused copies of ``changed`` and of removed toolsets, and unfinished copies."""
    for path in cache.iterdir():
        if path.name.startswith("."):
            remove_tree(path)
        if path.suffix != ".lock":
            continue
        # A process that uses the copy holds a shared lock, so this one fails at once and the copy stays.
        with contextlib.suppress(BlockingIOError), file_lock.held(path, wait=False):
            named = path.read_text(encoding="utf-8")
            if named in {changed, ""} or not (toolsets / named).exists():
                copy = path.with_suffix("")
                remove_tree(copy)
                remove_tree(cache.with_name("bytecode") / copy.relative_to(copy.anchor))
                path.unlink()
