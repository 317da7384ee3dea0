"""The files of a toolset's directory: which there are, of which kind, and their one digest."""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import Problem
from covalt_git.json_values import canonical_json
from covalt_git.names import RESERVED_TOOLSET_IDS
from covalt_git.paths import check_path
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterable

MANIFEST = "toolset.yaml"
STATE_FOLDER = "state"
MAX_FILES = 5_000
MAX_FILE_BYTES = 64 << 20

_KEPT_FILE_BYTES = 4 << 20
_KEPT_BYTES = 16 << 20
"""How much of a toolset is held while it is checked: most of them, whole."""

PYCACHE = "__pycache__"
"""The folder that Python writes bytecode to, beside the source."""

BYTECODE = "compiled Python may do anything, whatever the source beside it says"

FileKind = Literal["python", "artifact", "asset", "config"]


class BundleFile(NamedTuple):
    """One file: its path in the toolset, what it is for, its hash in hex and its size in bytes."""

    path: str
    kind: FileKind
    executable: bool
    sha256: str
    size: int


@dataclass(frozen=True)
class BundleFiles:
    """All files of a toolset, sorted by path, and what is wrong with any of them."""

    files: tuple[BundleFile, ...]
    problems: tuple[Problem, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The toolset's digest: of the canonical JSON of the sorted ``[mode, path, sha256]``."""
        return digest_of((file.path, file.sha256, file.executable) for file in self.files)

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file in hex, by its path."""
        return {file.path: file.sha256 for file in self.files}

    def get(self, path: str) -> BundleFile | None:
        """Return the file at a path, or None."""
        return next((file for file in self.files if file.path == path), None)


@dataclass(slots=True)
class Contents:
    """What a toolset's files hold, as it was when they were hashed; of large ones as it is now.

    It is for the time of one reading: what is checked is what the digest is of.
    """

    folder: Path
    _kept: dict[str, bytes] = field(default_factory=dict)
    _size: int = 0

    def kept(self, path: str) -> bytes | None:
        """Return the bytes of a file that was hashed and is not large, else None."""
        return self._kept.get(path)

    def read(self, path: str, most: int = -1) -> bytes:
        """Return the bytes of a file, or the first ``most`` of them.

        Raises:
            OSError: when it has gone since it was listed, or cannot be read.
        """
        kept = self._kept.get(path)
        if kept is not None:
            return kept if most < 0 else kept[:most]
        with (self.folder / path).open("rb") as file:
            return file.read(most)

    def keep(self, path: str, content: bytes) -> None:
        """Keep what a file holds, where that is little."""
        if self._size + len(content) <= _KEPT_BYTES:
            self._kept[path] = content
            self._size += len(content)


def digest_of(files: Iterable[tuple[str, str, bool]]) -> str:
    """Return the digest of a toolset of these files: path, SHA-256 in hex, whether it may be run."""
    rows = [
        ["100755" if executable else "100644", path, sha256]
        for path, sha256, executable in sorted(files)
    ]
    return canonical_json.digest(rows)


def read_bundle_files(folder: Path, shown: str) -> BundleFiles:
    """List and hash the files below ``folder``, as :func:`read_bundle` does."""
    return read_bundle(folder, shown)[0]


def read_bundle(folder: Path, shown: str) -> tuple[BundleFiles, Contents]:
    """List, hash and read the files below ``folder``; links, devices and git's own names are problems.

    The folders ``__pycache__`` that Python writes are not part of a toolset: it never runs from here
    (:mod:`covalt_git.toolsets.toolset_copies`).  Bytecode elsewhere is a problem.  A folder that is a
    link itself is not followed: what it leads to is not checked in here.
    """
    files: list[BundleFile] = []
    problems: list[Problem] = []
    contents = Contents(folder)
    if folder.is_symlink():
        hint = "put the folder itself here"
        problem = Problem(shown, 0, 0, codes.FORBIDDEN_FILE, "a toolset is no link", hint)
        return BundleFiles((), (problem,)), contents
    for path, status in _walk(str(folder), "", problems, shown):
        if len(files) == MAX_FILES:
            message = f"there are more than {MAX_FILES} files in it"
            hint = "keep what is no part of the toolset elsewhere"
            problems.append(Problem(shown, 0, 0, codes.TOO_LARGE, message, hint))
            break
        if status.st_size > MAX_FILE_BYTES:
            message = f"the file is larger than {MAX_FILE_BYTES >> 20} MiB"
            hint = "a chat's workspace is the place for large data"
            problems.append(Problem(f"{shown}/{path}", 0, 0, codes.TOO_LARGE, message, hint))
            continue
        try:
            with open(f"{folder}/{path}", "rb", buffering=0) as file:  # noqa: PTH123 - of thousands
                if status.st_size <= _KEPT_FILE_BYTES:
                    content = file.read()
                    digest = hashlib.sha256(content).hexdigest()
                    contents.keep(path, content)
                else:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            message = f"the file cannot be read: {os.strerror(error.errno or 0).lower()}"
            problems.append(Problem(f"{shown}/{path}", 0, 0, codes.UNREADABLE, message))
            continue
        executable = bool(status.st_mode & stat.S_IXUSR)
        files.append(BundleFile(path, _kind(path), executable, digest, status.st_size))
    files.sort(key=lambda file: file.path)
    return BundleFiles(tuple(files), tuple(problems)), contents


def _walk(
    folder: str, prefix: str, problems: list[Problem], shown: str
) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    try:
        entries = sorted(os.scandir(f"{folder}/{prefix}"), key=lambda entry: entry.name)
    except OSError as error:
        message = f"the folder cannot be read: {os.strerror(error.errno or 0).lower()}"
        place = f"{shown}/{prefix}".rstrip("/")
        problems.append(Problem(place, 0, 0, codes.UNREADABLE, message))
        return []
    for entry in entries:
        path = prefix + entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # gone since the folder was listed
            continue
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder and entry.name == PYCACHE:
            continue
        verdict = check_path(path)
        reason = verdict.reason if verdict.kind == "refused" else ""
        hint = "rename it" if reason else "put the file itself there"
        if not reason and is_bytecode(path):
            reason, hint = BYTECODE, f"rm {shlex.quote(f'{shown}/{readable(path)}')}"
        if is_folder and not reason:
            found += _walk(folder, f"{path}/", problems, shown)
        elif stat.S_ISREG(status.st_mode) and not reason:
            found.append((path, status))
        else:
            reason = reason or "a toolset holds files and folders only, no links or devices"
            place = f"{shown}/{readable(path)}"
            problems.append(Problem(place, 0, 0, codes.FORBIDDEN_FILE, reason, hint))
    return found


def is_bytecode(path: str) -> bool:
    """Return whether Python may load compiled code from a path."""
    return PYCACHE in path.split("/") or path.lower().endswith((".pyc", ".pyo"))


def readable(name: str) -> str:
    """Return a file's name as text, what is not UTF-8 in it written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _kind(path: str) -> FileKind:
    if path == MANIFEST:
        return "config"
    if path.endswith(".py"):
        return "python"
    return "artifact" if path.startswith("artifacts/") else "asset"


def toolset_ids(folder: Path) -> list[str]:
    """Return the names of the folders that are toolsets or want to be, sorted.

    A folder whose name is not text is none: nobody could write its id.
    """
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if _is_folder(entry)
            and entry.name not in RESERVED_TOOLSET_IDS
            and not entry.name.startswith((".", "__"))
            and readable(entry.name) == entry.name
        )


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell a folder, or a link to one; a link may also lead nowhere, or in a circle."""
    if entry.is_symlink():
        return Path(entry.path).is_dir()
    return entry.is_dir()
