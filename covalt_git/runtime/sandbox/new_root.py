"""The file system that a tool sees at the level ``full``: made of nothing but what it may touch.

An empty root in memory gets the system's programs and libraries, the policy's folders at their own
paths, a few devices, the processes of its own namespace and a private ``/tmp``.  All of it is
read-only but the workspace, ``/tmp`` and ``/dev/shm``; nothing else of the host has a path in it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from covalt_git.runtime.sandbox import system_calls, system_files
from covalt_git.runtime.sandbox.system_calls import NO_DEVICES, NO_PROGRAMS, NO_SUID, READ_ONLY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.runtime.sandbox.policy import Policy

HOME: Final = "/tmp"  # noqa: S108 - a mount of the tool's own
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - as above
_BASE: Final = "/tmp"  # noqa: S108 - any folder that each system has: it is covered, not written to
_SHARED_MEMORY_MB: Final = 256

_ACCOUNTS: Final = {
    "passwd": "tool:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "group": "tool:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def readable(policy: Policy) -> tuple[Path, ...]:
    """Return the folders to read, the interpreter's own among them."""
    return (*system_files.interpreter_paths(), *policy.readable, policy.toolset)


def folders(policy: Policy) -> dict[Path, bool]:
    """Return the folders that are shown at their own paths, and whether each is writable."""
    may_write = dict.fromkeys(system_files.outermost(readable(policy)), False)
    system = tuple(path for path in map(Path, system_files.FOLDERS) if not path.is_symlink())
    for path in list(may_write):
        if any(path.is_relative_to(folder) for folder in system):
            del may_write[path]
    return may_write | dict.fromkeys((policy.workspace, *policy.writable), True)


def writable(policy: Policy) -> tuple[str, ...]:
    """Return the writable paths, as seen inside."""
    return (
        *map(str, (policy.workspace, *policy.writable)),
        HOME,
        SHARED_MEMORY,
        *system_files.DEVICES,
    )


def enter(policy: Policy, folders: Mapping[Path, bool], owned: Mapping[str, int]) -> None:
    """Make the new root in this mount namespace and move into it.

    ``folders`` are those that ``folders`` returns, found while all of them could be seen; ``owned`` has
    the trees of folders that were copied before.
    """
    links, trees = _system()
    for path, may_write in folders.items():
        trees[str(path)] = _tree(path, owned, 0 if may_write else READ_ONLY)
    scratch = _tree(policy.scratch, owned, 0)
    memory = policy.limits.memory_mb or _SHARED_MEMORY_MB
    trees |= {HOME: scratch, SHARED_MEMORY: _in_memory(f"{memory}m", "1777")}
    with contextlib.suppress(PermissionError):
        # Not to be had where the host's own /proc is covered in parts, as in many containers.
        attributes = READ_ONLY | NO_SUID | NO_DEVICES | NO_PROGRAMS
        trees["/proc"] = system_calls.new_file_system("proc", attributes, subset="pid")
    # All that is wanted of the old root is in hand, so it may be covered from here on.
    system_calls.attach(_in_memory("1m", "0755"), _BASE)
    # Outer folders first: a mount covers what was mounted below its path.
    for target, tree in sorted(trees.items()):
        _mount_point(Path(_BASE + target), tree)
        system_calls.attach(tree, _BASE + target)
    for link, to in links.items():
        place = Path(_BASE + link)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(to)
    for name, text in _ACCOUNTS.items():
        (Path(_BASE) / "etc" / name).write_text(text, encoding="utf-8")
    # After the files above are written.  Only this mount: those of the workspace and of /tmp stay writable.
    system_calls.make_read_only(_BASE)
    system_calls.change_root(_BASE)


def _system() -> tuple[dict[str, str], dict[str, int]]:
    """Return the links and the trees of the system's own files."""
    links, trees = {}, {}
    for path in map(Path, system_files.FOLDERS):
        if path.is_symlink():
            links[str(path)] = str(path.readlink())
        elif path.exists():
            tree = system_calls.clone_tree(str(path))
            trees[str(path)] = _restricted(tree, READ_ONLY | NO_DEVICES)
    for setting in filter(os.path.exists, system_files.SETTINGS):
        # The name of the time zone is that of the link's target (localtime(5)), so the link must stay a link.
        if (path := Path(setting)).is_symlink() and _is_shown(path):
            links[setting] = str(path.readlink())
            continue
        tree = system_calls.clone_tree(setting)
        trees[setting] = _restricted(tree, READ_ONLY | NO_DEVICES | NO_PROGRAMS)
    for device in system_files.DEVICES:
        trees[device] = _restricted(system_calls.clone_tree(device), NO_PROGRAMS)
    links |= {"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0"}
    links |= {"/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"}
    return links, trees


def _is_shown(link: Path) -> bool:
    """Return whether a link leads directly into a folder of the system."""
    target = Path(os.path.normpath(link.parent / link.readlink()))
    folders = (path for path in map(Path, system_files.FOLDERS) if not path.is_symlink())
    return any(map(target.is_relative_to, folders))


def _tree(path: Path, owned: Mapping[str, int], attributes: int) -> int:
    tree = owned[str(path)] if str(path) in owned else system_calls.clone_tree(str(path))
    return _restricted(tree, attributes | NO_DEVICES)


def _restricted(tree: int, attributes: int) -> int:
    system_calls.restrict_tree(tree, attributes | NO_SUID)
    return tree


def _in_memory(size: str, mode: str) -> int:
    attributes = NO_SUID | NO_DEVICES | NO_PROGRAMS
    return system_calls.new_file_system("tmpfs", attributes, size=size, mode=mode)


def _mount_point(path: Path, tree: int) -> None:
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch()
