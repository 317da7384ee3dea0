"""Installed packages of MCP servers, one folder for each tree, in the user's cache.

The folder is made under another name and renamed when it is complete, and read-only from then on.  Beside it is the
record of its files.  Not in the project: a clone could bring a folder with this name, and Node would load
``node_modules`` of the project's folders.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import sysconfig
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.runtime.environments import CannotInstallError, install_lock
from covalt_git.runtime.server_packages import npm, pypi
from covalt_git.system import atomic_write, file_lock, locked_folder, private_files
from covalt_git.system.remove_tree import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.models.sources.package_command import PackageCommand
    from covalt_git.models.sources.tool_lock import LockedPackages
    from covalt_git.runtime.server_packages.steps import Installer

FORMAT = 1
"""Version of the layout; a new one makes old installations unused."""

_ECOSYSTEMS = {"npm": npm, "pypi": pypi}
_BYTECODE = "__pycache__"
_USED = ".used"
"""End of the name of a file that is locked while a program runs; its time is that of the last start."""

_NEW = ".new-"
"""Beginning of the names of folders that are not complete."""


class Installed(NamedTuple):
    """An installation: its folder, and the beginning of the command that starts the program."""

    folder: Path
    argv: tuple[str, ...]


def cache_folder() -> Path:
    return private_files.cache_folder() / "server-packages"


def resolve(
    command: PackageCommand, installer: Installer, previous: LockedPackages | None = None
) -> LockedPackages:
    """Resolve a command to packages with their hashes, and install them; none of their code runs.

    Packages that are still those of ``previous``, the result of the last time, are not installed again.

    Raises:
        CannotInstallError: if they cannot be resolved or installed.
        SandboxNeededError: as :meth:`Installer.run`.
    """
    # The lock is a file that a pull can change: with another start file, it has no installation of this name.
    if previous is not None and not _is_intact(_target(previous)):
        previous = None
    with _new_folder(installer) as folder:
        chosen: LockedPackages = _ECOSYSTEMS[command.ecosystem].resolve(
            command, installer, folder, previous
        )
        if chosen is previous:
            return chosen
        program = chosen.model_copy(update={"files": _count(folder)}).pinned()
        target = _target(program)
        with install_lock(target.with_suffix(".lock"), installer.report, installer.cancel):
            if not _is_intact(target):
                _publish(folder, target)
    return program


def installed(program: LockedPackages, installer: Installer) -> Installed:
    """Return the installation of a lock's packages; install them from the registry if they are not in the cache.

    Their files are not compared with those that were installed: :func:`check` does, before each start.

    Raises:
        CannotInstallError: if they cannot be installed, or the registry has other bytes.
        SandboxNeededError: as :meth:`Installer.run`.
    """
    target = _target(program)
    if not target.is_dir():
        check(program, installer)
    path = target / program.program
    # The lock is a file that a pull can change; only a file of the packages is started.
    if not path.is_file() or not path.resolve().is_relative_to(target.resolve()):
        raise CannotInstallError(
            f"the packages of {installer.name} have no file {program.program!r}",
            hint=f"covalt-git source refresh {installer.name}",
        )
    return Installed(target, _ECOSYSTEMS[program.kind].start(program, target))


def check(program: LockedPackages, installer: Installer) -> None:
    """Check that the installed files are those that were installed; otherwise install them again.

    Raises:
        CannotInstallError: as :func:`installed`.
        SandboxNeededError: as :meth:`Installer.run`.
    """
    target = _target(program)
    if _is_intact(target):
        return
    try:
        target.parent.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(installer, error) from None
    with install_lock(target.with_suffix(".lock"), installer.report, installer.cancel):
        if not _is_intact(target):  # no other process was first
            with _new_folder(installer) as folder:
                _ECOSYSTEMS[program.kind].install(program, installer, folder)
                _publish(folder, target)


@contextlib.contextmanager
def held(program: LockedPackages, installer: Installer) -> Iterator[None]:
    """Check the installed files as :func:`check`; :func:`remove_unused` leaves them during the block.

    Raises:
        CannotInstallError: as :func:`installed`.
        SandboxNeededError: as :meth:`Installer.run`.
    """
    target = _target(program)
    with contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(0o700, parents=True, exist_ok=True)
            used = target.with_suffix(_USED)
            stack.enter_context(file_lock.held(used, create=True, shared=True))
            os.utime(used)
        except OSError as error:
            raise _not_written(installer, error) from None
        check(program, installer)
        yield


class Removed(NamedTuple):
    """Installations that were removed, and their size in bytes."""

    installations: int = 0
    size: int = 0


def remove_unused(named: Iterable[LockedPackages], *, unused_s: float) -> Removed:
    """Remove the installations that no lock in ``named`` has, and that no program was started from for ``unused_s``.

    Those that a program runs from, and those that are being installed, stay.
    """
    targets = {_target(program) for program in named}
    removed = Removed()
    if not cache_folder().is_dir():
        return removed
    locked_folder.clear(cache_folder(), _NEW)
    latest = time.time() - unused_s
    for target in sorted(cache_folder().iterdir()):
        if target in targets or target.suffix or not target.is_dir():
            continue
        with contextlib.suppress(OSError):
            if _last_use(target) > latest:
                continue
            # Their files stay: another process may wait for the lock of one that it has opened.
            with (
                file_lock.held(target.with_suffix(".lock"), create=True, wait=False),
                file_lock.held(target.with_suffix(_USED), create=True, wait=False),
            ):
                size = sum(facts.st_blocks * 512 for _, facts in _walk(target))
                remove_tree(target)
                target.with_suffix(".json").unlink(missing_ok=True)
                removed = Removed(removed.installations + 1, removed.size + size)
    return removed


def _last_use(target: Path) -> float:
    """Return the time of the last start of a program of an installation, or of the installation."""
    for file in (target.with_suffix(_USED), target.with_suffix(".json"), target):
        with contextlib.suppress(FileNotFoundError):
            return file.stat().st_mtime
    return time.time()


def _target(program: LockedPackages) -> Path:
    """Return the folder of a tree, whose name depends on all that the installed files depend on."""
    content = {
        "format": FORMAT,
        "digest": program.computed_digest,
        "platform": sysconfig.get_platform(),
        "python": [sys.version, sys.base_prefix] if program.kind == "pypi" else [],
    }
    return cache_folder() / canonical_json.digest(content).removeprefix("sha256:")[:24]


@contextlib.contextmanager
def _new_folder(installer: Installer) -> Iterator[Path]:
    """Yield a new folder beside the installations, which is removed afterwards if it was not renamed."""
    parent = cache_folder()
    try:
        parent.mkdir(0o700, parents=True, exist_ok=True)
        locked_folder.clear(parent, _NEW)  # of killed processes
        with locked_folder.create(parent, _NEW) as folder:
            yield folder
    except OSError as error:
        raise _not_written(installer, error) from None


def _not_written(installer: Installer, error: OSError) -> CannotInstallError:
    reason = (error.strerror or str(error)).lower()
    return CannotInstallError(
        f"the packages of {installer.name} cannot be installed: {reason}",
        hint=f"df -h {cache_folder()}; or set XDG_CACHE_HOME to a folder that you can write",
    )


def _publish(folder: Path, target: Path) -> None:
    """Make a folder read-only, rename it, and record its files."""
    # First the files, as nothing can be renamed in a folder that is read-only.
    for path, _, files in os.walk(folder, topdown=False):
        for name in files:
            file = Path(path, name)
            if not file.is_symlink():
                file.chmod(stat.S_IMODE(file.lstat().st_mode) & ~0o222)
        Path(path).chmod(0o555)
    remove_tree(target)
    atomic_write.rename(folder, target)
    _record(target, _contents(target))


def _record(target: Path, contents: str) -> None:
    facts = {"facts": _facts(target), "contents": contents}
    atomic_write.replace(target.with_suffix(".json"), json.dumps(facts))


def _is_intact(target: Path) -> bool:
    """Return whether an installation has exactly the files that were installed.

    The stat results are compared, with the change time, which only root can set; the contents are hashed if they
    differ, such as after a restored backup.
    """
    try:
        recorded = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
        if recorded["facts"] == _facts(target):
            return True
        contents = _contents(target)
    except (OSError, ValueError, KeyError):
        return False
    if recorded["contents"] != contents:
        return False
    _record(target, contents)
    return True


def _facts(target: Path) -> str:
    """Return a digest of the names and stat results of all files."""
    paths: list[str] = []
    numbers = array("q")
    for path, facts in _walk(target):
        paths.append(path)
        numbers.extend(
            (facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
        )
    names = "\0".join(paths).encode("utf-8", "surrogateescape")
    return hashlib.sha256(names + numbers.tobytes()).hexdigest()


def _contents(target: Path) -> str:
    """Return a digest of the names, modes and contents of all files."""
    digest = hashlib.sha256()
    for path, facts in _walk(target):
        if stat.S_ISREG(facts.st_mode):
            with Path(target, path).open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        elif stat.S_ISLNK(facts.st_mode):
            content = str(Path(target, path).readlink())
        else:
            content = ""
        digest.update(f"{path}\0{facts.st_mode}\0{content}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _walk(target: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths and stat results of everything in a folder, in the order of the names.

    Raises:
        OSError: if the folder does not exist.
    """
    waiting = [""]
    while waiting:
        at = waiting.pop()
        with os.scandir(f"{target}/{at}") as listing:
            entries = sorted((entry.name, entry) for entry in listing)
        for name, entry in entries:
            yield f"{at}{name}", entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{at}{name}/")


def _count(folder: Path) -> int:
    """Return the number of installed files, without bytecode."""
    return sum(
        stat.S_ISREG(facts.st_mode) and _BYTECODE not in path for path, facts in _walk(folder)
    )
