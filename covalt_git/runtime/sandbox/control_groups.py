"""Control groups: a limit for a whole tree of processes, where the system lets this user make one.

Root may nearly everywhere, other users where a part of the second hierarchy was delegated to them, as
systemd does for a user's own services.  A group is left empty when its tool ends; whoever makes the
next one removes it.
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox.walls import RunLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "covalt-git-"
_MIB = 1 << 20
_NEEDED = frozenset({"memory", "pids"})
_TRIES = 3
_NEW_S = 2.0
_MOST_TOLD = 4096
_COUNTED = (
    ("memory", "memory.events", b"oom_kill"),
    ("memory", "memory.oom_control", b"oom_kill"),
    ("pids", "pids.events", b"max"),
)
"""What each limit's hits are counted in, in either hierarchy."""


@dataclass(frozen=True, slots=True)
class _Parent:
    """A folder of a hierarchy that groups can be made in."""

    folder: Path
    settings: dict[str, str]
    """What is written to the files of a new group; one that starts with ``?`` may be missing."""
    holds: frozenset[str]


def join(limits: RunLimits, *, beside: int) -> frozenset[str]:
    """Move this process into groups of its own, and return what they hold: ``memory``, ``pids``.

    ``beside`` is how many processes are in it and are not the tool's.
    """
    held: frozenset[str] = frozenset()
    with suppress(OSError):
        for parent in _parents(limits, beside):
            if not parent.holds <= held and _join(parent):
                held |= parent.holds
    return held


class Counts:
    """How often the system enforced a limit of the groups that a process joined.

    Nothing where it could join none.  It may have ended: its groups stay until somebody makes the next.
    """

    def __init__(self, joined: int) -> None:
        self._files: list[tuple[str, bytes, int]] = []
        with suppress(OSError):
            for parent in _parents(RunLimits(memory_mb=1), beside=0):
                for group in parent.folder.glob(f"{_NAME}{joined}-*"):
                    self._open(group)
        self._before = [0] * len(
            self._files
        )  # of groups that are the process's own, from its start

    def _open(self, group: Path) -> None:
        for limit, name, key in _COUNTED:
            with suppress(OSError):
                end = os.open(group / name, os.O_RDONLY | os.O_CLOEXEC)
                self._files.append((limit, key, end))

    @property
    def are_there(self) -> bool:
        """Whether it joined any group that counts."""
        return bool(self._files)

    def risen(self) -> str:
        """Return a limit whose count has risen since it was last asked: ``memory``, ``pids``."""
        before, self._before = self._before, self._now()
        rose = (now > was for was, now in zip(before, self._before, strict=True))
        return next((one[0] for one, did in zip(self._files, rose, strict=True) if did), "")

    def close(self) -> None:
        """Let go of the counts."""
        files, self._files, self._before = self._files, [], []
        for _, _, end in files:
            os.close(end)

    def _now(self) -> list[int]:
        return [_count(end, key) for _, key, end in self._files]


def _count(end: int, key: bytes) -> int:
    with suppress(OSError):  # its group is gone
        for line in os.pread(end, _MOST_TOLD, 0).splitlines():
            name, _, count = line.partition(b" ")
            if name == key:
                return int(count)
    return 0


def _join(parent: _Parent) -> bool:
    _sweep(parent.folder)
    for _ in range(_TRIES):
        group = parent.folder / f"{_NAME}{os.getpid()}-{uuid.uuid4().hex}"
        try:
            group.mkdir()
            for name, value in parent.settings.items():
                if not name.startswith("?"):
                    (group / name).write_text(value, encoding="utf-8")
                elif (group / name[1:]).exists():
                    (group / name[1:]).write_text(value, encoding="utf-8")
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
        except FileNotFoundError:
            continue  # somebody else's sweep took it for an old one
        except OSError:
            with suppress(OSError):
                group.rmdir()
            return False
        return True
    return False


def _sweep(folder: Path) -> None:
    """Remove the groups that nothing is in; the kernel keeps the others.

    Not the newest, which somebody is about to join.
    """
    for old in folder.glob(f"{_NAME}*"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _NEW_S:
                old.rmdir()


def _parents(limits: RunLimits, beside: int) -> Iterator[_Parent]:
    own = dict(_own_groups())
    bytes_ = "max" if limits.memory_mb is None else str(limits.memory_mb * _MIB)
    processes = str(limits.processes + beside)
    for kind, root, mounted, controllers in _hierarchies():
        if kind == "cgroup2" and (path := own.get("")):
            settings = {"pids.max": processes, "memory.max": bytes_}
            if limits.memory_mb is not None:
                settings |= {"?memory.swap.max": "0", "?memory.oom.group": "1"}
            if folder := _delegated(mounted, path, root):
                yield _Parent(folder, settings, _NEEDED)
        for controller in _NEEDED & controllers:
            if controller == "memory" and limits.memory_mb is None:
                continue  # counting pages takes its time
            if (path := own.get(controller)) and (folder := _below(mounted, path, root)):
                settings = {"pids.max": processes}
                if controller == "memory":
                    settings = {"memory.limit_in_bytes": bytes_.replace("max", "-1")}
                yield _Parent(folder, settings, frozenset({controller}))


def _delegated(mounted: Path, path: str, root: str) -> Path | None:
    """Return the nearest folder at or above this process's group that it may make groups in."""
    folder = _below(mounted, path, root)
    while folder is not None and folder.is_relative_to(mounted):
        given = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
        may = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
        if may and _NEEDED.issubset(given):
            return folder
        folder = folder.parent
    return None


def _below(mounted: Path, path: str, root: str) -> Path | None:
    """Return where the group ``path`` is, of a hierarchy mounted from its folder ``root`` on."""
    if not Path(path).is_relative_to(root):
        return None
    return mounted / Path(path).relative_to(root)


def _own_groups() -> Iterator[tuple[str, str]]:
    """Yield each controller with this process's group; the second hierarchy's name is empty."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _hierarchies() -> Iterator[tuple[str, str, Path, frozenset[str]]]:
    """Yield each mounted hierarchy: its kind, the folder it shows, where, and its controllers."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        mount, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            _, _, _, root, mounted, *_ = mount.split(" ")
            yield kind, root, Path(mounted), frozenset(options.split(","))
