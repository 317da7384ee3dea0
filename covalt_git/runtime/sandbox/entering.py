"""Entering the sandbox: the steps of each level, in their order."""

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
    landlock,
    limits,
    namespace_processes,
    network,
    new_root,
    privileges,
    seatbelt,
    seccomp,
    system_calls,
    system_files,
)
from covalt_git.runtime.sandbox.policy import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.sandbox.policy import Policy

_USER = 1000
"""Id of the only user inside; outside it is the user who entered, or user 65534 for root."""
_OTHERS = 2
"""The kernel counts the waiter and the init with the tool."""
_REPORT = "this is a bug in covalt-git; please report it"


def enter(policy: Policy, level: SandboxLevel) -> int | None:
    """Restrict this process and its children to a policy; see the package.

    Returns:
        The descriptor for :func:`.seccomp.refused_call`, if the policy ``listens`` and the kernel has listeners.

    Raises:
        SandboxError: if a step fails; no code of the tool may run then.
    """
    _check_descriptors()
    # Landlock, seccomp and capabilities are of the calling thread: another one would stay unrestricted.
    if threading.active_count() > 1:
        raise SandboxError("be entered", "this process has more than one thread", hint=_REPORT)
    if policy.egress is not None and level != "full":
        os.close(policy.egress)  # without a network namespace, no proxy can be enforced
    if level == "full":
        return _enter_namespaces(policy)
    if level == "landlock":
        return _stay(policy)
    with _step("set its limits"):
        limits.apply(policy.limits, others=limits.processes_of_the_user())
    _settle(policy, str(policy.scratch))
    if level == "seatbelt":
        seatbelt.restrict(policy)
    return None


def _enter_namespaces(policy: Policy) -> int | None:
    # First: a parent that ends from here on is noticed by the change of this id.
    parent = os.getppid()
    folders = new_root.folders(policy)
    owned: dict[str, int] = {}
    if privileges.is_root():
        # Before its id is dropped: only root may map the owners of mounts.
        with _step("map the owner of root's files"):
            owned = privileges.mapped_trees((*folders, policy.scratch))
        with _step("drop root's id"):
            privileges.drop_root()
    # In it, an ordinary user has the capabilities that the other namespaces need.
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
    # Again: the kernel forgets it when a process changes its user, as above.
    system_calls.die_with(parent)
    report = namespace_processes.become_init()
    # In the init: a new /proc shows the processes of the namespace that its maker is in, and the waiter outside stays
    # in its own.
    with _step("make a root of its own"):
        system_calls.unshare(system_calls.CLONE_NEWNS)
        system_calls.make_mounts_private()
        new_root.enter(policy, folders, owned)
    with _step("make a host of its own"):
        socket.sethostname("sandbox")
        network.bring_up_loopback()
        if policy.egress is not None:
            proxy = network.send_listener(policy.egress)
            os.environ |= network.variables(proxy, policy.hosts)
    namespace_processes.become_tool(report)
    # Last: landlock and seccomp refuse the mounts that the steps above make.
    return _restrict(policy, new_root.HOME, ("/",), new_root.writable(policy), alone=False)


def _stay(policy: Policy) -> int | None:
    """Enter the level ``landlock``, which needs no namespaces."""
    scratch = str(policy.scratch)
    writable = (
        *map(str, (policy.workspace, *policy.writable)),
        scratch,
        *system_files.DEVICES,
    )
    # git fails if it may not read this file, unless it is configured not to.
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    if privileges.is_root() and not control_groups.join(policy.limits):
        raise SandboxError(
            "limit its processes",
            "the kernel does not count root's, and no control group can be created",
            hint="run covalt-git as an ordinary user",
        )
    # The rest of /etc stays closed; programs look up the names of users in these two.
    accounts = ("/etc/passwd", "/etc/group")
    system = (*system_files.FOLDERS, *system_files.SETTINGS, *accounts)
    own = (str(path) for path in (*new_root.readable(policy), policy.workspace, *policy.writable))
    paths = (*filter(os.path.exists, system), *own)
    return _restrict(policy, scratch, paths, writable, alone=True)


def _restrict(
    policy: Policy, home: str, readable: Sequence[str], writable: Sequence[str], *, alone: bool
) -> int | None:
    """Restrict this process by what needs no namespaces; ``alone`` if it has none."""
    version = landlock.version()
    # Before landlock hides /proc, in which the user's processes are counted.
    with _step("set its limits"):
        others = limits.processes_of_the_user() if alone else _OTHERS
        limits.apply(policy.limits, others=others)
    _settle(policy, home)
    # It sets `no_new_privs`, without which an ordinary user may enter neither landlock nor seccomp.
    with _step("drop its privileges"):
        privileges.drop()
    if alone or version:  # namespaces hide files too
        with _step("restrict its files"):
            landlock.restrict(readable, writable, version, tcp=not alone)
    with _step("filter its system calls"):
        is_scoped = not alone or version >= landlock.RESTRICTS_SIGNALS
        own = None if is_scoped else os.getpid()
        return seccomp.restrict(
            alone=alone, signals_of=own, listens=policy.listens, observes=policy.observes
        )


def _become_the_only_user() -> None:
    user, group = os.geteuid(), os.getegid()
    system_calls.unshare(system_calls.CLONE_NEWUSER)
    # In this order: an ordinary user may map a group only once setgroups(2) is denied, by which a process could leave
    # a group that has fewer rights (user_namespaces(7)).
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_USER} {user} 1"),
        ("gid_map", f"{_USER} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text, encoding="utf-8")


def _settle(policy: Policy, home: str) -> None:
    with _step("enter its workspace"):
        os.chdir(policy.workspace)
    os.environ |= {"HOME": home, "TMPDIR": home}


def _check_descriptors() -> None:
    """Reject descriptors of folders and disks, which would bypass the sandbox."""
    for entry in Path("/dev/fd").iterdir():
        number = int(entry.name)
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue  # of the list itself
        if stat.S_ISDIR(mode) or stat.S_ISBLK(mode):
            raise SandboxError(
                "be entered", f"descriptor {number} is open on a folder or a disk", hint=_REPORT
            )


@contextmanager
def _step(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        raise SandboxError(what, f"{error.strerror or error}{place}") from error
