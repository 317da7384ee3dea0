"""Root never runs a tool: it becomes ``nobody`` first, and hands over its files as nobody's own.

The kernel does not count root's processes (``RLIMIT_NPROC``) and lets root's id alone open some doors, so
the walls are the same for both only when root puts its id down.  The files stay root's on the disk:
mounts that map their owner show them as nobody's, and what nobody writes there is root's again.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox import system_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOBODY = 65534


def root_s_trees(paths: Iterable[Path]) -> dict[str, int]:
    """Return a copy of the mounts at each path, in which what is root's is nobody's."""
    namespace = _owners()
    try:
        trees = {}
        for path in paths:
            trees[str(path)] = tree = system_calls.clone_tree(str(path))
            system_calls.restrict_tree(tree, system_calls.NO_SUID, namespace=namespace)
        return trees
    finally:
        os.close(namespace)


def become_nobody() -> None:
    """Put down root's id, its groups and with them its powers."""
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    # The kernel hides a process that changed its id from its own user, who has to map it next.
    system_calls.prctl(system_calls.PR_SET_DUMPABLE, 1)


def _owners() -> int:
    """Return a descriptor on a user namespace in which root is nobody, for mounts to map owners by."""
    told, tell = os.pipe()
    holder = os.fork()
    if holder == 0:
        try:
            system_calls.unshare(system_calls.CLONE_NEWUSER)
            os.write(tell, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        if not os.read(told, 1):
            raise PermissionError(1, "user namespaces are closed")
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{holder}/{kind}").write_text(f"0 {_NOBODY} 1", encoding="utf-8")
        return os.open(f"/proc/{holder}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(told)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
