"""A room: the process that stands between a tool's walls, imports its module, and forks its workers."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import mmap
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
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

from covalt_git.runtime import child, offspring, sandbox, wire
from covalt_git.system.remove_tree import remove_tree

_DOOR = 3
"""The descriptor of a room's connection; but for the streams, workers have no other."""

_MOST_DESCRIPTORS = 1 << 16


class Room:
    """The process that imports a tool's module, and forks a worker for each call."""

    def __init__(self, asked: dict[str, Any], scratch: Path) -> None:
        self._asked = asked
        self._scratch = scratch
        self._folder = Path(asked["toolset_dir"])

    def live(self, keeper: int, door: int, output: int, way_out: int | None = None) -> NoReturn:
        """Put up the walls, import the module, and make workers until nobody calls any more."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Interpreters that a tool starts by multiprocessing would look for this program as its own.
        sys.modules["__main__"] = ModuleType("__main__")
        os.setsid()
        offspring.die_with(keeper)
        _point_streams_at(output)
        self._way_out = _settle_descriptors(door, way_out)
        self._door = socket.socket(fileno=_DOOR)
        tool = self._load()
        if tool.failure is None and self._asked["kept"] and self._can_be_forked():
            gc.freeze()
            self._make_workers(tool)
        # It serves the one call itself: a fork would lack the threads, or the files would be gone.
        self._serve(tool, _marks())

    def _load(self) -> child.Tool:
        tool = child.Tool(self._folder, self._asked["module"])
        try:
            self._put_up_walls()
        except sandbox.SandboxError as error:
            tool.failure = {"status": "error", "code": error.code, "message": error.message}
            return tool
        # Not in the workspace: what a module reads of it on import would be old at the next call.
        os.chdir("/")
        offspring.adopt_orphans()
        try:
            _import(self._folder, self._asked["module"])
        except BaseException as error:  # noqa: BLE001 - whatever somebody's module raises on import
            tool.failure = child.failure("cannot_load", error, self._folder)
            return tool
        tool.read_signatures(self._asked["function"])
        return tool

    def _put_up_walls(self) -> None:
        asked = self._asked
        walls = sandbox.Walls(
            workspace=Path(asked["workspace"]),
            toolset=self._folder,
            readable=tuple(Path(path) for path in asked["readable"]),
            scratch=self._scratch,
            hosts=tuple(asked["hosts"]),
            limits=sandbox.RunLimits(**asked["limits"]),
            writable_workspace=asked["writable_workspace"],
            egress=self._way_out,
        )
        sandbox.enter(walls, asked["level"])
        tempfile.tempdir = None
        _read_no_bytecode((*sandbox.interpreter_paths(), *walls.readable))
        # The same for the Pythons that it starts: they find, and leave, bytecode there alone.
        os.environ["PYTHONPYCACHEPREFIX"] = f"{os.environ['TMPDIR']}/bytecode"
        # What a call can leave files in beside the workspace.
        self._private = [Path(os.environ["TMPDIR"])]
        if asked["level"] == "full":
            self._private.append(Path(sandbox.SHARED_MEMORY))
        self._mounted = {path for folder in self._private for path in folder.iterdir()}

    def _can_be_forked(self) -> bool:
        """Tell whether a fork is as good as this process: nothing runs beside it, no file is its own."""
        return threading.active_count() == 1 and not offspring.has_children() and not self._held()

    def _held(self) -> set[Path]:
        """Return what lies in the private folders, but for the folders that are shown in them."""
        return {path for folder in self._private for path in folder.iterdir()} - self._mounted

    def _clear(self) -> bool:
        """Empty the private folders; False where something of them stays."""
        for path in self._held():
            remove_tree(path)
        return not self._held()

    def _is_worn(self) -> bool:
        """Tell whether this process may run out of its own processor time in a call to come."""
        most = self._asked["limits"]["cpu_s"]
        return most is not None and time.process_time() > most / 2

    def _serve(self, tool: child.Tool, marks: mmap.mmap) -> NoReturn:
        workspace, idle_s = self._asked["workspace"], self._asked["idle_s"]
        child.serve(self._door, tool, workspace=workspace, idle_s=idle_s, marks=marks)

    def _make_workers(self, tool: child.Tool) -> NoReturn:
        room = os.getpid()
        marks = _marks()
        _flush()
        while True:
            marks[child.CALLED] = 0
            pid = os.fork()
            if pid == 0:
                offspring.die_with(room)
                self._serve(tool, marks)
            _point_streams_at(0)  # what the first call prints is not held open here
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
            if not marks[child.CALLED]:  # nobody did for a while, or it was killed before
                os._exit(wire.NOT_CALLED)
            again = not offspring.has_children() and not self._is_worn() and self._clear()
            self._door.sendall(wire.ENDED.pack(code, again))
            if not again:
                os._exit(0)


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


def _marks() -> mmap.mmap:
    """Return a little memory that this process shares with all that it will fork."""
    return mmap.mmap(-1, 2)


def _settle_descriptors(door: int, way_out: int | None) -> int | None:
    """Give the room's own descriptors their numbers, and close all others; return the way out's."""
    last = _DOOR
    high = [None if end is None else os.dup(end) for end in (door, way_out)]
    for end in high:
        if end is not None:
            os.dup2(end, last, inheritable=False)
            last += 1
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST_DESCRIPTORS)
    os.closerange(last, most)
    return _DOOR + 1 if way_out is not None else None


def _flush() -> None:
    with contextlib.suppress(Exception):  # whatever the module put in the place of its streams
        sys.stdout.flush()
        sys.stderr.flush()


def _point_streams_at(end: int) -> None:
    os.dup2(end, 1)
    os.dup2(end, 2)
