"""Warm sandbox: a process that enters the sandbox, imports a tool's module, and forks a process for each call."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import resource
import select
import signal
import site
import socket
import sys
import tempfile
import threading
import time
import warnings
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    PathFinder,
    SourceFileLoader,
)
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from covalt_git.runtime.processes import child_processes, tool_process, wire
from covalt_git.runtime.sandbox import system_calls
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.new_root import SHARED_MEMORY
from covalt_git.runtime.sandbox.policy import Policy, RunLimits, SandboxError
from covalt_git.runtime.sandbox.system_files import interpreter_paths
from covalt_git.system.remove_tree import remove_tree

_CALLS = 3
"""The descriptor of the connection that calls come from."""

_MOST_DESCRIPTORS = 1 << 16


class WarmSandbox:
    """Sandbox of one module and one workspace; ``request`` is that of :class:`..pool.ForkServerProcess`."""

    def __init__(self, request: dict[str, Any], scratch: Path) -> None:
        self._request = request
        self._scratch = scratch
        self._folder = Path(request["toolset_dir"])

    def run(self, parent: int, calls: int, printed: int, *egress: int) -> NoReturn:
        """Enter the sandbox, import the module and serve calls until none comes for ``idle_s``."""
        # A fork of the fork server has its handlers, and would wake it by the pipe that they share.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Interpreters that a tool starts by multiprocessing would import this program as its own.
        sys.modules["__main__"] = ModuleType("__main__")
        # A process group of its own, which the fork server kills: without namespaces, processes of the tool would stay.
        # Before `enter`: the seccomp filter denies setsid, so that a tool cannot leave the group.
        os.setsid()
        system_calls.die_with(parent)
        # Before the next step, which closes `printed`.
        tool_process.redirect_streams(printed)
        settle_descriptors(calls, *egress)
        self._egress = _CALLS + 1 if egress else None
        self._calls = socket.socket(fileno=_CALLS)
        tool = self._load()
        if tool.failure is None and self._request["warm"] and self._can_be_forked():
            # A collection in a fork would write to the objects of the module, and so copy the pages that forks share.
            gc.freeze()
            # Each fork would print what is buffered again.
            tool_process.flush_streams()
            self._fork_for_each_call(tool)
        # It makes a single call itself.  A failed import is the answer of that call, and a sandbox that is not warm leaves
        # no process behind; of other modules, a fork would lack the threads, or their files would be removed.
        connection, output = self._next_call()
        self._make_call(connection, output, tool)

    def _next_call(self) -> tuple[socket.socket, int | None]:
        """Wait for a call; return its connection and its output, None for that of the import."""
        received = None
        if select.select([self._calls], [], [], self._request["idle_s"])[0]:
            received = wire.receive_with_descriptors(self._calls)
        if received is None:
            os._exit(wire.NOT_CALLED)
        connection, *output = received[1]
        return socket.socket(fileno=connection), output[0] if output else None

    def _fork_for_each_call(self, tool: tool_process.LoadedTool) -> NoReturn:
        own = os.getpid()
        while True:
            connection, output = self._next_call()
            pid = _fork()
            if pid == 0:
                system_calls.die_with(own)
                self._make_call(connection, output, tool)
            connection.close()
            if output is not None:
                os.close(output)
            # To /dev/null (descriptor 0). The first call printed to the pipe of the import, and a copy of it here would
            # leave the pipe without an end for its reader.
            tool_process.redirect_streams(0)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            # First whether a process is left: it could write new files while the old ones are removed.
            is_reusable = (
                not child_processes.has_children() and not self._is_worn() and self._clear()
            )
            self._calls.sendall(wire.ENDED.pack(status, is_reusable))
            if not is_reusable:
                os._exit(0)

    def _make_call(
        self, connection: socket.socket, output: int | None, tool: tool_process.LoadedTool
    ) -> NoReturn:
        # The tool could write a false end of the call to it.
        self._calls.close()
        # Threads and exit handlers of a tool must not delay its answer.
        os._exit(tool_process.make_call(connection, output, tool))

    def _load(self) -> tool_process.LoadedTool:
        tool = tool_process.LoadedTool(self._folder, self._request["module"])
        try:
            self._enter_sandbox()
        except SandboxError as error:
            tool.failure = {"status": "error", "code": error.code, "message": error.message}
            return tool
        # Not in the workspace: a file that the module reads on import would be outdated at the next call.
        os.chdir("/")
        # After entering, which forks at `full`: a fork does not inherit this.
        child_processes.adopt_orphans()
        try:
            if sys.flags.no_site:  # see `program`: packages of an environment run only from here on
                site.main()
                importlib.import_module("covalt_toolset")
            _import(self._folder, self._request["module"])
        except BaseException as error:  # noqa: BLE001 - code of a toolset can raise anything
            tool.failure = tool_process.failure("cannot_load", error, self._folder)
            return tool
        tool.read_signatures(self._request["function"])
        return tool

    def _enter_sandbox(self) -> None:
        request = self._request
        policy = Policy(
            workspace=Path(request["workspace"]),
            toolset=self._folder,
            readable=(Path(request["sdk_dir"]),),
            scratch=self._scratch,
            hosts=tuple(request["hosts"]),
            limits=RunLimits(**request["limits"]),
            egress=self._egress,
        )
        enter(policy, request["level"])
        # The fork server has used tempfile for its trials, and tempfile keeps the folder of its first use.
        tempfile.tempdir = None
        _read_no_bytecode((*interpreter_paths(), *policy.readable))
        # The same for Python programs that it starts: they read and write bytecode only there, and
        # it is removed after each call.
        os.environ["PYTHONPYCACHEPREFIX"] = f"{os.environ['TMPDIR']}/bytecode"
        # Writable folders of a call, except the workspace.
        self._private = [Path(os.environ["TMPDIR"])]
        # Elsewhere this folder is the machine's, and has files of other programs.
        if request["level"] == "full":
            self._private.append(Path(SHARED_MEMORY))
        # At `full`, TMPDIR is /tmp, so a workspace or a toolset below /tmp is mounted in it.
        self._mounted = {path for folder in self._private for path in folder.iterdir()}

    def _can_be_forked(self) -> bool:
        """Return whether a fork is as good as this process: no other thread or process, and no files."""
        is_alone = threading.active_count() == 1 and not child_processes.has_children()
        return is_alone and not self._private_files()

    def _private_files(self) -> set[Path]:
        """Return the contents of the private folders, except for folders that are mounted in them."""
        return {path for folder in self._private for path in folder.iterdir()} - self._mounted

    def _clear(self) -> bool:
        """Empty the private folders; return False if something cannot be removed."""
        for path in self._private_files():
            remove_tree(path)
        return not self._private_files()

    def _is_worn(self) -> bool:
        """Return whether this process could exceed its own processor time in a later call."""
        # The kernel's limit counts from its start: the import, and each fork.
        most = self._request["limits"]["cpu_s"]
        return most is not None and time.process_time() > most / 2


class _SourceLoader(SourceFileLoader):
    """Source loader that ignores bytecode: it always compiles the source."""

    def path_stats(self, path: str) -> NoReturn:
        """Refuse, as a loader does that has no bytecode (``importlib.abc.SourceLoader``)."""
        raise OSError(errno.ENOTSUP, "bytecode is not read", path)


def _read_no_bytecode(trusted: tuple[Path, ...]) -> None:
    """Load bytecode from ``trusted`` folders only; elsewhere, compile the source at each import.

    No digest covers bytecode in a workspace, and Python prefers it to the source.  Installed packages
    are trusted because compiling them takes seconds.
    """
    sourced = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES)
    )
    usual = sys.path_hooks[-1]  # that of folders; the other is for archives

    def hook(path: str) -> Any:
        is_trusted = any(Path(path).is_relative_to(folder) for folder in trusted)
        return (usual if is_trusted else sourced)(path)

    sys.path_hooks[-1] = hook
    sys.path_importer_cache.clear()


def _import(folder: Path, module: str) -> None:
    """Import a module so that the toolset's own packages win over installed ones of a name."""
    # Last, so that no file of a toolset shadows a module that the SDK or a library imports.  The package of the
    # entrypoint is therefore found here (test_package_of_the_toolset_wins_over_an_installed_one_of_its_name).
    sys.path.append(str(folder))
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top, [str(folder)])
    if spec is not None:
        package = module_from_spec(spec)
        sys.modules[top] = package
        if spec.loader is not None:
            spec.loader.exec_module(package)
        else:
            # A folder without an __init__.py: Python would look for others of its name as well.
            package.__path__ = [str(folder / top)]
    importlib.import_module(module)


def _fork() -> int:
    """Fork; a library's own threads, such as OpenBLAS's, handle forks themselves, so Python need not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def settle_descriptors(*ends: int) -> None:
    """Move descriptors to the numbers from ``_CALLS`` on, and close all above them."""
    # Those above are connections of the fork server: with them, a tool could answer for other sandboxes.  Copied
    # first, as a descriptor may have the number that another one gets.
    for number, end in enumerate([os.dup(end) for end in ends], _CALLS):
        os.dup2(end, number, inheritable=False)
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST_DESCRIPTORS)
    os.closerange(_CALLS + len(ends), most)
