"""Control groups, which limit the processes and the memory of root's tools at the level ``landlock``.

The kernel does not count root's processes for ``RLIMIT_NPROC``, and at ``landlock`` root stays root.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.runtime.sandbox.policy import RunLimits

_NAME = "covalt-git-"
_EVENTS = (
    ("limit_memory", "memory.events", "oom_kill"),
    ("limit_memory", "memory.oom_control", "oom_kill"),
    ("limit_processes", "pids.events", "max"),
)
"""The code of a limit, the file of a group that counts how often it was enforced, and its key."""


def join(limits: RunLimits) -> bool:
    """Move this process into new groups; return whether they limit its processes."""
    settings = {"pids.max": str(limits.processes)}
    # Only for a limit: a process in a group that counts memory pays for each page that it touches.
    if limits.memory_mb is not None:
        size = str(limits.memory_mb << 20)
        settings |= {"memory.max": size, "memory.limit_in_bytes": size}
        # Without these, a tool would use swap instead, or continue without the one process that the kernel kills.
        settings |= {"memory.swap.max": "0", "memory.oom.group": "1"}
    holds = [_join(folder, settings) for folder in _folders()]
    return any(holds)


def enforced(pid: int) -> dict[str, int]:
    """Return how often the groups of a process enforced each limit, by its code."""
    counts = dict.fromkeys((limit for limit, _, _ in _EVENTS), 0)
    for group in (folder / f"{_NAME}{pid}" for folder in _folders()):
        for limit, name, key in _EVENTS:
            with suppress(OSError):  # this version has no such file, or the group was removed
                text = (group / name).read_text(encoding="ascii")
                counters = dict(line.split(" ", 1) for line in text.splitlines())
                counts[limit] += int(counters.get(key, 0))
    return counts


def _join(folder: Path, settings: dict[str, str]) -> bool:
    """Join a new group in ``folder``; return whether it limits processes."""
    group = folder / f"{_NAME}{os.getpid()}"
    # No process can remove the group that it is in, so the next one does.  Its own name may be that of an old process
    # with the same id.
    for old in folder.glob(f"{_NAME}*"):
        if old == group or not Path(f"/proc/{old.name.removeprefix(_NAME)}").exists():
            with suppress(OSError):  # the kernel keeps a group that has processes
                old.rmdir()
    with suppress(OSError):
        group.mkdir()
        # Each version, and each hierarchy of version 1, has some of these files.
        if names := [name for name in settings if (group / name).exists()]:
            for name in names:
                (group / name).write_text(settings[name], encoding="ascii")
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            return "pids.max" in names
    with suppress(OSError):
        group.rmdir()
    return False


def _folders() -> Iterator[Path]:
    """Yield the nearest folder for new groups in each hierarchy that limits processes or memory."""
    own: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), Path(path))
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        mount, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        names = [""] if kind == "cgroup2" else {"pids", "memory"} & {*options.split(",")}
        root, mounted = map(Path, mount.split(" ")[3:5])
        for own_path in [own[name] for name in names if name in own and "cgroup" in kind]:
            # In a container, the mount may begin below the path that /proc names.
            is_visible = own_path.is_relative_to(root)
            folder = mounted / own_path.relative_to(root) if is_visible else mounted
            # A group of version 2 that has processes cannot limit groups in it (cgroups(7), "no internal processes").
            while kind == "cgroup2" and folder != mounted and not _passes_on(folder):
                folder = folder.parent
            yield folder


def _passes_on(folder: Path) -> bool:
    """Return whether the groups in a folder of version 2 can limit processes."""
    return "pids" in (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
