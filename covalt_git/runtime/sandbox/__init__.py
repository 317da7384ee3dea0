"""The sandbox: the walls around a tool, made by the operating system.

A level says how strong they are: ``full`` (namespaces, landlock, seccomp, limits), ``landlock`` (where
user namespaces are closed), ``seatbelt`` (macOS), ``process`` (a process of its own: keeps accidents
apart, not malice).  Nothing here ever takes a weaker level than the one it was asked for.

How the worker uses it::

    pid = os.fork()                     # by a process with one thread that never ran a tool's code,
    if pid == 0:                        # was started with a clean environment and holds no secret
        os.setsid()                     # `enter` wants to be the leader of a session of its own
        enter(walls, level)             # SandboxError: report it and exit, nothing may run
        ...                             # from here on, and only here: import the tool and call it

What ``enter`` promises:

- It returns (or raises) once, in one process, which is the tool's.  At ``full`` that is not the process
  that called it: the caller becomes a waiter that never returns, its child is the ``init`` (pid 1) of a
  new pid namespace, and its grandchild (pid 2) is the tool.  Whoever forked the caller sees one
  process: it ends when the tool and everything that the tool started are gone, and it ends as the tool
  ended, by the same exit code or the same signal (``SIGXCPU``, ``SIGKILL``, ...).  ``SIGKILL`` to it ends
  the whole tree at once.  ``SIGTERM`` and ``SIGINT`` are passed on to the tool.
- At the other levels it returns in the process that called it, which cannot leave its session and
  process group: ``os.killpg`` reaches the whole tree.
- Descriptors stay open in the tool, and only there, so a pipe's other end sees its end in time.  One
  that is open on a folder is an error: it would be a door through the walls.
- ``HOME``, ``TMPDIR`` and the current folder are set to what the tool sees: ``/tmp`` at ``full``, the
  scratch folder itself at the others.  The rest of the environment is the worker's to choose (but
  ``GIT_CONFIG_NOSYSTEM`` at ``landlock``).  The environment that the process was *started* with stays
  readable (``/proc/self/environ``).
- A parent-death signal (``PR_SET_PDEATHSIG``) that the caller had set still holds afterwards.
- The network is there only at ``full``, only for ``walls.hosts``, and only through ``walls.egress`` (see
  :mod:`covalt_git.runtime.egress`), whose address is then in ``HTTP_PROXY`` and ``HTTPS_PROXY``.
- Everything ``enter`` needs is imported with this package; afterwards a module can be imported only
  from ``walls.readable``, ``walls.toolset`` and the folders of the interpreter that runs.
- ``SIGXCPU`` ends a process that used ``cpu_s`` and a second; memory runs out as ``MemoryError``, and
  :func:`open_reserve` gives the little that it takes to say so; a file too large as ``OSError`` with
  ``EFBIG``; a process too many as ``BlockingIOError`` (``EAGAIN``).  A process and a byte more than the
  limit are let through, by which those outside can tell that it was hit; so does :func:`enforced`.
"""

from __future__ import annotations

from covalt_git.runtime.sandbox.control_groups import enforced
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.levels import Available, level, levels
from covalt_git.runtime.sandbox.limits import open_reserve
from covalt_git.runtime.sandbox.new_root import SHARED_MEMORY
from covalt_git.runtime.sandbox.system_files import interpreter_paths
from covalt_git.runtime.sandbox.trust import SandboxNeededError, check_trust
from covalt_git.runtime.sandbox.walls import RunLimits, SandboxError, Walls

__all__ = [
    "SHARED_MEMORY",
    "Available",
    "RunLimits",
    "SandboxError",
    "SandboxNeededError",
    "Walls",
    "check_trust",
    "enforced",
    "enter",
    "interpreter_paths",
    "level",
    "levels",
    "open_reserve",
]
