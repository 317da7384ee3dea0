"""Entering the walls: the steps of each level, in their order."""

from __future__ import annotations

import os
import socket
import stat
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox import (
    control_groups,
    generations,
    landlock,
    limits,
    loopback,
    new_root,
    privileges,
    seatbelt,
    seccomp,
    stepping_down,
    system_calls,
    system_files,
    way_out,
)
from covalt_git.runtime.sandbox.walls import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.sandbox.walls import Walls

_USER = 1000
"""The id of the one user inside; on the host it is whoever entered, or nobody for root."""
_BESIDE = 2
"""The waiter outside and the init are counted with the tool."""


def enter(walls: Walls, level: SandboxLevel) -> None:
    """Put this process, and all that it starts, behind the walls of a level; see the package.

    Raises:
        SandboxError: the walls do not stand; nothing of the tool may run.
    """
    _check_descriptors()
    if threading.active_count() > 1:
        raise SandboxError("be entered", "this process has more than one thread")
    if walls.egress is not None and level != "full":
        os.close(walls.egress)  # only a network namespace can be held to one way out
    if level == "full":
        _enter_namespaces(walls)
    elif level == "landlock":
        _stay(walls)
    else:
        with _step("set its limits"):
            limits.apply(walls.limits, beside=limits.processes_of_the_user())
        _settle(walls, str(walls.scratch))
        if level == "seatbelt":
            seatbelt.restrict(walls)


def _enter_namespaces(walls: Walls) -> None:
    known = landlock.version()
    death = generations.DeathSignal()
    folders = new_root.folders(walls)
    owned: dict[str, int] = {}
    if privileges.is_root():
        with _step("show root's files as nobody's"):
            owned = stepping_down.root_s_trees((*folders, walls.scratch))
        with _step("put down root's id"):
            stepping_down.become_nobody()
    with _step("make a user namespace"):
        _become_the_only_user()
    with _step("make namespaces"):
        system_calls.unshare(
            system_calls.CLONE_NEWPID
            | system_calls.CLONE_NEWNET
            | system_calls.CLONE_NEWIPC
            | system_calls.CLONE_NEWUTS
            | system_calls.CLONE_NEWCGROUP
        )
    death.restore()
    tell = generations.become_init()
    with _step("make a root of its own"):
        system_calls.unshare(system_calls.CLONE_NEWNS)
        system_calls.make_mounts_private()
        new_root.enter(walls, folders, owned)
    with _step("make a host of its own"):
        socket.sethostname("sandbox")
        loopback.bring_up()
        if walls.egress is not None and walls.hosts:
            proxy = way_out.hand_out(walls.egress)
            os.environ |= way_out.variables(proxy, walls.hosts)
    generations.become_tool(tell)
    with _step("set its limits"):
        limits.apply(walls.limits, beside=_BESIDE)
    _settle(walls, new_root.HOME)
    with _step("give up its powers"):
        privileges.drop()
    if known:
        with _step("shut its files in"):
            landlock.restrict(landlock.Places(("/",), new_root.writable(walls)), known, tcp=True)
    with _step("filter its system calls"):
        seccomp.restrict(alone=False)


def _stay(walls: Walls) -> None:
    """Enter the level ``landlock``, which needs no namespace and no other process."""
    known = landlock.version()
    places = landlock.Places(_readable(walls), _writable(walls))
    # The file is there and may not be read, which ends git unless it is told not to look for it.
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    if privileges.is_root() and not control_groups.join(walls.limits):
        raise SandboxError(
            "hold its processes",
            "root's are not counted, and no control group can be made here",
            hint="run covalt-git as an ordinary user",
        )
    with _step("set its limits"):
        limits.apply(walls.limits, beside=limits.processes_of_the_user())
    _settle(walls, str(walls.scratch))
    with _step("give up its powers"):
        privileges.drop()
    with _step("shut its files in"):
        landlock.restrict(places, known, tcp=False)
    with _step("filter its system calls"):
        holds_signals = known >= landlock.HOLDS_SIGNALS
        seccomp.restrict(alone=True, signals_of=None if holds_signals else os.getpid())


def _become_the_only_user() -> None:
    user, group = os.geteuid(), os.getegid()
    system_calls.unshare(system_calls.CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_USER} {user} 1"),
        ("gid_map", f"{_USER} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text, encoding="utf-8")


def _readable(walls: Walls) -> tuple[str, ...]:
    system = (*system_files.FOLDERS, *system_files.SETTINGS, "/etc/passwd", "/etc/group")
    own = (str(path) for path in (*new_root.readable(walls), walls.workspace))
    return (*filter(os.path.exists, system), *own)


def _writable(walls: Walls) -> tuple[str, ...]:
    own = (str(walls.workspace),) if walls.writable_workspace else ()
    return (*own, str(walls.scratch), *system_files.DEVICES)


def _settle(walls: Walls, home: str) -> None:
    with _step("enter its workspace"):
        os.chdir(walls.workspace)
    os.environ |= {"HOME": home, "TMPDIR": home}


def _check_descriptors() -> None:
    """Refuse a descriptor that is a way around the walls: a folder is one, whatever path it has."""
    for entry in Path("/dev/fd").iterdir():
        number = int(entry.name)
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue  # the one that read the list
        if stat.S_ISDIR(mode) or stat.S_ISBLK(mode):
            raise SandboxError("be entered", f"descriptor {number} is open on a folder or a disk")


@contextmanager
def _step(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise SandboxError(what, f"{error.strerror or error}{place}") from error
