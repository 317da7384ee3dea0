"""Our side of the processes that tools run in: which are there, which are idle, which are to end.

A keeper for each interpreter and, forked from it, rooms that stand behind their walls and have the
module imported (:mod:`covalt_git.runtime.worker` tells of both).  A room that was kept serves the next
call of the same place at once; a place names all that makes a room: the copy of the toolset, so that a
changed file makes another, its walls, and the workspace, so that nothing passes between two chats.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import covalt_git
import covalt_toolset
from covalt_git.errors import CovaltError
from covalt_git.runtime import wire
from covalt_git.runtime.egress import Egress
from covalt_git.runtime.sandbox import Counts, RunLimits

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.toolsets.toolset_copies import HeldCopy, ToolsetCopy

IDLE_S = 60.0
"""How long a room waits for its next call."""

MOST_IDLE = 16
"""How many rooms wait; the one that has waited longest makes place."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PROGRAM = Path(__file__).with_name("worker.py")
_PACKAGES = (Path(covalt_toolset.__file__).parent, Path(covalt_git.__file__).parent)
_END_S = 10.0


class NoWorkerError(CovaltError):
    """The process that tools are forked from could not be started, or has ended."""

    code = "no_worker"
    http_status = 500


@dataclass(frozen=True, slots=True)
class Place:
    """All that makes a room; calls of one place may follow each other in one room.

    ``kept`` tells whether the room may serve a second call.
    """

    toolset: ToolsetCopy
    module: str
    workspace: Path
    level: SandboxLevel
    python: Path = Path(sys.executable)
    readable: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    limits: RunLimits = field(default_factory=RunLimits)
    writable_workspace: bool = True
    kept: bool = False


@dataclass(slots=True)
class Room:
    """A room, held by one caller at a time.

    Attributes:
        life: the keeper's side of it: at the end it tells how the room ended.
        scratch: its private folder, which is all that its tool can write to beside the workspace.
        counts: of the limits that the system enforced in it, once somebody asked for them.
        door: where calls go in, and where the end of each comes out.
        first_output: both ends of the pipe that the import prints to, until the first call has it.
        announced: our ends of the next call's connection and output, once they are handed in.
        folder: what the workspace was when the walls were put up around it.
        toolset: the copy that its module is imported from.
        egress: its way to the hosts that were granted, if any were.
    """

    place: Place
    life: socket.socket
    door: socket.socket
    pid: int
    first_output: tuple[int, int] | None
    folder: tuple[int, int]
    toolset: HeldCopy
    egress: Egress | None = None
    announced: tuple[socket.socket, int] | None = None
    scratch: Path = Path()
    counts: Counts | None = None

    def limit_hit(self, *, is_over: bool) -> str:
        """Return a limit that the system enforced since it was last asked: ``memory``, ``pids``.

        Until a call is over, its room may not stand yet.
        """
        if self.counts is None:
            if self.place.level != "landlock" and not self.place.limits.grouped:
                return ""
            counts = Counts(self.pid)
            if not (counts.are_there or is_over):
                return ""
            self.counts = counts
        return self.counts.risen()

    def announce(self) -> None:
        """Hand in the next call's connection and output: a worker takes them while it waits."""
        if self.announced is not None:
            return
        ours, theirs = socket.socketpair()
        ends, self.first_output = self.first_output, None
        printed, output = ends or os.pipe()
        with theirs, contextlib.suppress(OSError):  # where the room has ended, its life tells
            wire.send(self.door, None, (theirs.fileno(), output))
        os.close(output)
        ours.setblocking(False)
        os.set_blocking(printed, False)
        self.announced = ours, printed

    def next_call(self) -> tuple[socket.socket, int]:
        """Return our ends of the next call's connection and output; the caller closes them."""
        self.announce()
        assert self.announced is not None
        ends, self.announced = self.announced, None
        return ends

    def is_usable(self) -> bool:
        """Tell whether it still waits for a call, on the workspace that is there now."""
        ready, _, _ = select.select([self.life, self.door], [], [], 0)
        return not ready and _identity(self.place.workspace) == self.folder

    def end(self) -> None:
        """End the room; nothing that ran in it is left when this returns."""
        with self.life:
            self.door.close()
            for descriptor in self.first_output or ():
                os.close(descriptor)
            self.first_output = None
            if self.announced is not None:
                connection, printed = self.next_call()
                connection.close()
                os.close(printed)
            with contextlib.suppress(OSError):
                self.life.shutdown(socket.SHUT_WR)
                self.life.settimeout(_END_S)
                while self.life.recv(wire.STATUS.size):
                    pass
        self.toolset.close()
        if self.egress is not None:
            self.egress.close()
        if self.counts is not None:
            self.counts.close()


class Keeper:
    """The process that rooms are forked from, for one interpreter."""

    def __init__(self, python: Path) -> None:
        self._asking = threading.Lock()
        self._was_asked = False
        self._control, theirs = socket.socketpair()
        # Isolated, so that no variable and no folder of the user's has a say; unbuffered, so that
        # both streams of a tool stand in its record in order, and to the last byte.
        argv = [str(python), "-I", "-B", "-u", "-X", "utf8", str(_PROGRAM), str(theirs.fileno())]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*argv, *map(str, _PACKAGES)],
                    cwd="/",
                    env={"PATH": PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                raise NoWorkerError(
                    f"the interpreter {str(python)!r} cannot be started: {error}"
                ) from None

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def open(self, place: Place, function: str, *, idle_s: float = IDLE_S) -> Room:
        """Fork a room that ends by itself once nobody has called it for so many seconds.

        Raises:
            NoWorkerError: where the keeper is gone.
            FileNotFoundError: where the workspace is.
            ToolsetChangedError: where the toolset no longer has the files of the place's digest.
        """
        folder = _identity(place.workspace)
        if folder is None:
            raise FileNotFoundError(place.workspace)
        toolset = place.toolset.hold()
        self._was_asked = True
        asked = {
            "toolset_dir": str(toolset.folder),
            "module": place.module,
            "function": function,
            "workspace": str(place.workspace),
            "level": place.level,
            "readable": [str(path) for path in place.readable],
            "hosts": list(place.hosts),
            "limits": dataclasses.asdict(place.limits),
            "writable_workspace": place.writable_workspace,
            "kept": place.kept,
            "scratch_in": tempfile.gettempdir(),
            "idle_s": idle_s,
        }
        life, their_life = socket.socketpair()
        door, their_door = socket.socketpair()
        read, write = os.pipe()
        egress = Egress(place.hosts) if place.hosts and place.level == "full" else None
        room = Room(place, life, door, 0, (read, write), folder, toolset, egress)
        with their_life, their_door:
            ends = [their_life.fileno(), their_door.fileno(), write]
            ends += [egress.descriptor] if egress else []
            # Where it cannot be sent, nobody says below that there is a room.
            with self._asking, contextlib.suppress(OSError):
                wire.send(self._control, asked, ends)
        if egress is not None:
            egress.hand_over()
        try:
            told = wire.receive(life)
        except (EOFError, OSError):
            told = None
        if told is None:
            room.end()
            self.close()
            raise NoWorkerError("the process that tools are forked from has ended")
        room.pid, room.scratch = told["pid"], Path(told["scratch"])
        return room

    def kill(self) -> None:
        """End the keeper at once, as somebody else might; its rooms end with it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End every room, and the keeper."""
        self._control.close()
        if not self._was_asked:  # it may still be loading, and has nothing to end
            self._process.kill()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Workers:
    """The keepers and the idle rooms of a process; for use by many threads."""

    def __init__(self, *, idle_s: float = IDLE_S, most_idle: int = MOST_IDLE) -> None:
        self._idle_s = idle_s
        self._most_idle = most_idle
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._keepers: dict[Path, Keeper] = {}
        self._idle: list[Room] = []

    def start(self, python: Path = Path(sys.executable)) -> Keeper:
        """Return the keeper of an interpreter, started where there is none."""
        with self._lock:
            keeper = self._keepers.get(python)
            if keeper is None or not keeper.is_alive:
                if keeper is not None:
                    keeper.close()
                keeper = self._keepers[python] = Keeper(python)
            return keeper

    def take(self, place: Place) -> Room | None:
        """Return a room that waited for a call of its place, or None where none did."""
        with self._lock:
            over = [room for room in self._idle if _is_over(room, place)]
            self._idle = [room for room in self._idle if room not in over]
            fitting = [room for room in self._idle if room.place == place]
            if fitting:
                self._idle.remove(fitting[-1])
        for room in over:
            room.end()
        return fitting[-1] if fitting else None

    def open(self, place: Place, function: str) -> Room:
        """Return a new room.

        Raises:
            NoWorkerError: where no process can be started.
            FileNotFoundError: where the workspace is gone.
            ToolsetChangedError: as :meth:`Keeper.open`.
        """
        try:
            return self.start(place.python).open(place, function, idle_s=self._idle_s)
        except NoWorkerError:  # it was killed, and a new one will do
            return self.start(place.python).open(place, function, idle_s=self._idle_s)

    def give_back(self, room: Room) -> None:
        """Keep a room for the next call of its place."""
        room.announce()
        with self._lock:
            self._idle.append(room)
            over = self._idle[: -self._most_idle]
            self._idle = self._idle[-self._most_idle :]
        for old in over:
            old.end()

    def idle(self) -> list[Room]:
        """Return the rooms that wait for a call, the one that has waited longest first."""
        with self._lock:
            return list(self._idle)

    def end_idle(self) -> None:
        """End the rooms that wait for a call."""
        with self._lock:
            rooms, self._idle = self._idle, []
        for room in rooms:
            room.end()

    def close(self) -> None:
        """End all of it; nothing of a tool runs afterwards.  A fork of the process ends nothing."""
        if os.getpid() != self._owner:
            return
        self.end_idle()
        with self._lock:
            keepers, self._keepers = self._keepers, {}
        for keeper in keepers.values():
            keeper.close()


@functools.cache
def shared() -> Workers:
    """Return this process's own; they end with it."""
    workers = Workers()
    atexit.register(workers.close)
    return workers


# A fork of ours has copies of the connections, and would answer for calls that are not its own.
os.register_at_fork(after_in_child=shared.cache_clear)


def _is_over(room: Room, place: Place) -> bool:
    """Tell whether a room is of no more use: it has ended, or its toolset has changed."""
    same = room.place.toolset.source == place.toolset.source
    return (same and room.place.toolset != place.toolset) or not room.is_usable()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
