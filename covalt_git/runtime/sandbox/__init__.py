"""Sandbox of a tool: restrictions that the operating system enforces.

The levels are ``full`` (namespaces, landlock, seccomp, limits), ``landlock`` (without user namespaces),
``seatbelt`` (macOS, never tested on a Mac) and ``process`` (limits only: it bounds accidents, not attacks).
The page ``docs/explanation/runtime.md`` has what each level bounds.  A weaker level is never used silently::

    pid = os.fork()                     # in a process with one thread that never ran code of a tool,
    if pid == 0:                        # has a clean environment and knows no secret
        os.setsid()                     # `enter` expects the leader of a session
        enter(policy, level)            # SandboxError: report it and exit
        ...                             # from here on, import the tool and call it

``enter`` returns once, in the tool's process.  At ``full`` this is a grandchild of its caller: the caller waits
and never returns, its child is the init (pid 1) of a pid namespace, and pid 2 is the tool.  The process that
forked the caller sees one process, which ends when the tool and all its processes have ended, with the tool's
exit code or signal; a signal that ends it ends all of them.  At the other levels
``enter`` returns in its caller, whose process group ``os.killpg`` ends.

- Descriptors stay open in the tool only.  ``enter`` rejects a descriptor of a folder, which would bypass the sandbox.
- ``HOME``, ``TMPDIR`` and the current folder are set.  The rest of the environment stays as the caller made it,
  and ``/proc/self/environ`` shows the environment that the process was started with.
- At ``full``, all of these processes end with the parent of the caller; elsewhere, if the caller asked the
  kernel for that (:func:`.system_calls.die_with`).
- Afterwards modules can be imported only from the folders of the policy and of the interpreter.
- Exceeding limits: ``SIGXCPU`` for processor time, ``MemoryError`` (:func:`.limits.open_reserve` gives the memory to report
  it), ``OSError`` with ``EFBIG`` for a file, ``BlockingIOError`` for a process.  One process and one byte more
  than the limit are allowed, so that an observer can see that it was exceeded; :func:`.control_groups.enforced` counts as well.
"""
