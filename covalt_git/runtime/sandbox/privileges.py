"""Dropping privileges: root's user id, capabilities, and every way to regain them.

At ``full``, root becomes the user 65534 first: the kernel does not count root's processes (``RLIMIT_NPROC``), and
some checks pass root's id alone.  Files stay root's on the disk: mounts that map owners show them as
files of that user, and its new files belong to root.
"""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox import system_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNPRIVILEGED = 65534
_EVERY_ID = ["0", "0", "4294967295"]
"""The id map of the first user namespace, and of containers without their own."""

_LOCKED_BITS = 0b1110_1111
"""Secure bits: root has no special rights, keeps and raises no capability, and cannot change that."""


def is_root() -> bool:
    """Return whether this is the machine's root, not root of a user namespace such as a container's."""
    if os.geteuid() != 0:
        return False
    return Path("/proc/self/uid_map").read_text(encoding="utf-8").split() == _EVERY_ID


def drop() -> None:
    """Drop all capabilities, also for programs that are started later."""
    # In this order: the first two steps need a capability (CAP_SETPCAP) that the third gives up.
    try:
        system_calls.prctl(system_calls.PR_SET_SECUREBITS, _LOCKED_BITS)
    except PermissionError:
        pass  # an ordinary user has none, and gets none under `no_new_privs`
    else:
        _empty_bounding_set()
    system_calls.give_up_capabilities()
    system_calls.prctl(system_calls.PR_SET_NO_NEW_PRIVS, 1)


def _empty_bounding_set() -> None:
    for capability in range(64):
        try:
            system_calls.prctl(system_calls.PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return  # this kernel has no more capabilities
            raise


def mapped_trees(paths: Iterable[Path]) -> dict[str, int]:
    """Return a copy of the mounts at each path that shows root's files as files of user 65534."""
    namespace = _owners()
    try:
        trees = {}
        for path in paths:
            trees[str(path)] = tree = system_calls.clone_tree(str(path))
            system_calls.restrict_tree(tree, system_calls.NO_SUID, namespace=namespace)
        return trees
    finally:
        os.close(namespace)


def drop_root() -> None:
    """Drop root's id and groups, and with them its capabilities."""
    # The user last: only root may change the groups.
    os.setgroups([])
    os.setresgid(_UNPRIVILEGED, _UNPRIVILEGED, _UNPRIVILEGED)
    os.setresuid(_UNPRIVILEGED, _UNPRIVILEGED, _UNPRIVILEGED)
    # The kernel hides a process that changed its id from its own user, who has to map it next.
    system_calls.prctl(system_calls.PR_SET_DUMPABLE, 1)


def _owners() -> int:
    """Return a descriptor of a user namespace that maps root to user 65534, for mounts with mapped owners."""
    # A namespace lasts as long as a process is in it or has it open, and only a process outside may map an id that is
    # not the other one's own.
    ready, end = os.pipe()
    holder = os.fork()
    if holder == 0:
        try:
            system_calls.unshare(system_calls.CLONE_NEWUSER)
            os.write(end, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(end)
    try:
        if not os.read(ready, 1):
            raise PermissionError(1, "user namespaces are closed")
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{holder}/{kind}").write_text(f"0 {_UNPRIVILEGED} 1", encoding="utf-8")
        return os.open(f"/proc/{holder}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
