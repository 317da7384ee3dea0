"""Files of a toolset: their kinds, hashes and contents, and the digest of the toolset."""

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
from covalt_git.names import REGISTRY_NAMESPACE, RESERVED_TOOLSET_IDS
from covalt_git.paths import check_path
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterable

MANIFEST = "toolset.yaml"
STATE_FOLDER = "state"
REGISTRY_FOLDER = f"{STATE_FOLDER}/{REGISTRY_NAMESPACE}"
"""The folder of the entries of registered tools, below ``toolsets/``."""

MAX_FILES = 5_000
MAX_FILE_BYTES = 64 << 20

_CACHED_FILE_BYTES = 4 << 20
_CACHED_BYTES = 16 << 20
"""The most bytes of a toolset that are in memory while it is checked; enough for most toolsets."""

PYCACHE = "__pycache__"
"""The folder of Python's bytecode."""

BYTECODE = "a toolset cannot contain compiled Python, which can differ from the source"

FileKind = Literal["python", "artifact", "asset", "config"]


class BundleFile(NamedTuple):
    """One file: its path in the toolset, its kind, its hexadecimal SHA-256, its size in bytes."""

    path: str
    kind: FileKind
    executable: bool
    sha256: str
    size: int


@dataclass(frozen=True)
class BundleFiles:
    """All files of a toolset, sorted by path, and their problems."""

    files: tuple[BundleFile, ...]
    problems: tuple[Problem, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The toolset's digest: that of the canonical JSON of the sorted ``[mode, path, sha256]``."""
        return digest_of((file.path, file.sha256, file.executable) for file in self.files)

    @property
    def hashes(self) -> dict[str, str]:
        """The hexadecimal SHA-256 of every file, by path."""
        return {file.path: file.sha256 for file in self.files}

    @cached_property
    def modules(self) -> dict[str, None]:
        """The paths of the Python files, in order."""
        return {file.path: None for file in self.files if file.path.endswith(".py")}

    def module_path(self, module: str) -> str | None:
        """Return the file that Python imports for a module: a package takes precedence over a file."""
        stem = module.replace(".", "/")
        candidates = (f"{stem}/__init__.py", f"{stem}.py")
        return next((path for path in candidates if path in self.modules), None)

    def get(self, path: str) -> BundleFile | None:
        """Return the file at a path, or None."""
        return next((file for file in self.files if file.path == path), None)


@dataclass(slots=True)
class Contents:
    """Contents of a toolset's files, cached so that the checks read the same bytes as the digest.

    Large files are read again.  The cache lives while the toolset is read.
    """

    folder: Path
    _cache: dict[str, bytes] = field(default_factory=dict)
    _size: int = 0

    def cached(self, path: str) -> bytes | None:
        """Return the cached content of a file, or None."""
        return self._cache.get(path)

    def has_all(self, files: BundleFiles) -> bool:
        """Return whether no content has to be read again, which could be another one than that of the digest."""
        return all(file.path in self._cache for file in files.files)

    def read(self, path: str, most: int = -1) -> bytes:
        """Return the content of a file, or its first ``most`` bytes.

        Raises:
            OSError: when it cannot be read, or was removed since it was listed.
        """
        content = self._cache.get(path)
        if content is not None:
            return content if most < 0 else content[:most]
        with (self.folder / path).open("rb") as file:
            return file.read(most)

    def cache(self, path: str, content: bytes) -> None:
        """Cache the content of a file, if it is small enough."""
        if self._size + len(content) <= _CACHED_BYTES:
            self._cache[path] = content
            self._size += len(content)


def digest_of(files: Iterable[tuple[str, str, bool]]) -> str:
    """Return the digest of a toolset with these files: path, hexadecimal SHA-256, is executable."""
    rows = [
        ["100755" if executable else "100644", path, sha256]
        for path, sha256, executable in sorted(files)
    ]
    return canonical_json.digest(rows)


def read_bundle_files(folder: Path, display_path: str) -> BundleFiles:
    """List and hash the files below ``folder``, as :func:`read_bundle` does."""
    return read_bundle(folder, display_path)[0]


def read_bundle(folder: Path, display_path: str) -> tuple[BundleFiles, Contents]:
    """List, hash and read the files below ``folder``.  Links, devices and names of git are problems.

    A folder that does not exist has no files.

    ``__pycache__`` is left out, as toolsets never run from their folder
    (:mod:`covalt_git.toolsets.toolset_copies`).  Bytecode in other folders is a problem.  A toolset
    folder that is a link is not followed, because its files are not in the repository.
    """
    files: list[BundleFile] = []
    problems: list[Problem] = []
    contents = Contents(folder)
    if folder.is_symlink():
        hint = "replace the link with the folder"
        problem = Problem(
            display_path, 0, 0, codes.FORBIDDEN_FILE, "a toolset cannot be a link", hint
        )
        return BundleFiles((), (problem,)), contents
    for path, status in _walk(str(folder), "", problems, display_path):
        if len(files) == MAX_FILES:
            message = f"a toolset can have at most {MAX_FILES} files"
            hint = "move other files out of the toolset's folder"
            problems.append(Problem(display_path, 0, 0, codes.TOO_LARGE, message, hint))
            break
        if status.st_size > MAX_FILE_BYTES:
            message = f"the file is larger than {MAX_FILE_BYTES >> 20} MiB"
            hint = "store large data in the workspace of a chat"
            problems.append(Problem(f"{display_path}/{path}", 0, 0, codes.TOO_LARGE, message, hint))
            continue
        try:
            # Hashed from the bytes that are cached: a file that is swapped meanwhile has one content for both.
            with open(f"{folder}/{path}", "rb", buffering=0) as file:  # noqa: PTH123 - of thousands
                if status.st_size <= _CACHED_FILE_BYTES:
                    content = file.read()
                    digest = hashlib.sha256(content).hexdigest()
                    contents.cache(path, content)
                else:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            message = f"the file cannot be read: {os.strerror(error.errno or 0).lower()}"
            problems.append(Problem(f"{display_path}/{path}", 0, 0, codes.UNREADABLE, message))
            continue
        executable = bool(status.st_mode & stat.S_IXUSR)
        files.append(BundleFile(path, _kind(path), executable, digest, status.st_size))
    files.sort(key=lambda file: file.path)
    return BundleFiles(tuple(files), tuple(problems)), contents


def _walk(
    folder: str, prefix: str, problems: list[Problem], display_path: str
) -> list[tuple[str, os.stat_result]]:
    files: list[tuple[str, os.stat_result]] = []
    try:
        entries = sorted(os.scandir(f"{folder}/{prefix}"), key=lambda entry: entry.name)
    except FileNotFoundError:
        # No tool is registered yet, or the folder was removed since it was listed.
        return []
    except OSError as error:
        message = f"the folder cannot be read: {os.strerror(error.errno or 0).lower()}"
        place = f"{display_path}/{prefix}".rstrip("/")
        problems.append(Problem(place, 0, 0, codes.UNREADABLE, message))
        return []
    for entry in entries:
        path = prefix + entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # removed since the folder was listed
            continue
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder and entry.name == PYCACHE:
            continue
        verdict = check_path(path)
        reason = verdict.reason if verdict.kind == "refused" else ""
        hint = "rename it" if reason else "replace it with a regular file"
        if not reason and is_bytecode(path):
            reason, hint = BYTECODE, f"rm {shlex.quote(f'{display_path}/{readable(path)}')}"
        if is_folder and not reason:
            files += _walk(folder, f"{path}/", problems, display_path)
        elif stat.S_ISREG(status.st_mode) and not reason:
            files.append((path, status))
        else:
            reason = reason or "a toolset can only contain files and folders, not links or devices"
            place = f"{display_path}/{readable(path)}"
            problems.append(Problem(place, 0, 0, codes.FORBIDDEN_FILE, reason, hint))
    return files


def is_bytecode(path: str) -> bool:
    """Return whether Python can load compiled code from a path."""
    return PYCACHE in path.split("/") or path.lower().endswith((".pyc", ".pyo"))


def readable(name: str) -> str:
    """Return a file name as text, with escape sequences for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _kind(path: str) -> FileKind:
    if path == MANIFEST:
        return "config"
    if path.endswith(".py"):
        return "python"
    return "artifact" if path.startswith("artifacts/") else "asset"


def toolset_folder(toolset_id: str) -> str:
    """Return the path of a toolset's folder below ``toolsets/``: its id, except for registered tools."""
    return REGISTRY_FOLDER if toolset_id == REGISTRY_NAMESPACE else toolset_id


def toolset_ids(folder: Path) -> list[str]:
    """Return the names of the toolset folders, valid or not, sorted; with the one of registered tools, if any.

    Folders whose names are not UTF-8 are left out, as their ids could not be written.
    """
    # A linked toolsets/ is reported by machine_folders.py, and nothing behind it is read.
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        ids = [
            entry.name
            for entry in entries
            if _is_folder(entry)
            and entry.name not in RESERVED_TOOLSET_IDS
            and not entry.name.startswith((".", "__"))
            and readable(entry.name) == entry.name
        ]
    if any((folder / REGISTRY_FOLDER).glob("*.yaml")):
        ids.append(REGISTRY_NAMESPACE)
    return sorted(ids)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one; links can be dangling or circular."""
    if entry.is_symlink():
        return Path(entry.path).is_dir()
    return entry.is_dir()
