"""The keeper: the process that rooms are forked from, so that a call waits for no import.

Three kinds of process, each a fork of the one before:

- The *keeper* has imported what every tool needs: Python's library, pydantic, the SDK.  It never runs
  a line of a tool, so a fork of it is as good as a new interpreter, and what it says can be trusted.
- A *room* (:mod:`covalt_git.runtime.room`) belongs to one module of one toolset and to one workspace.
  It puts up its walls first, then imports the module: nobody else's files are in reach of what runs
  then.  Then it makes workers.
- A *worker* (:mod:`covalt_git.runtime.child`) is forked ahead of its call, waits for it, makes it and
  ends.  What a call leaves in memory ends with its worker, so the next one starts as the first.

Only the keeper ends rooms: when their side of the connection says so, when they have ended, and when
the process that started the keeper is gone, however that ended.  Nothing of a room is left then.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime import offspring, private_folder, wire
from covalt_git.runtime.room import Room
from covalt_git.system.remove_tree import remove_tree

if TYPE_CHECKING:
    import resource

_END_S = 5.0
"""How long the keeper tries to end what a room has left, before it goes on with other rooms."""

_FAILED = 70


@dataclass(eq=False, slots=True)
class _Kept:
    """A room, as the keeper knows it."""

    pid: int
    life: socket.socket
    private: Path
    held: int


class Keeper:
    """Forks rooms when asked and ends them; asks nothing of them, for they are not to be trusted."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._rooms: list[_Kept] = []
        self._selector = selectors.DefaultSelector()
        self._cleared: set[Path] = set()

    def run(self) -> None:
        """Serve until the other side of the control connection is gone."""
        offspring.adopt_orphans()
        ended, wake = os.pipe()
        for end in (ended, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(ended, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._open():
                        return
                elif isinstance(key.data, _Kept):
                    self._end(key.data)
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(ended, 4096)
                    self._reap()

    def _open(self) -> bool:
        """Fork the room that is asked for; return False where nobody asks any more."""
        try:
            asked = wire.receive_with_descriptors(self._control)
        except (EOFError, OSError):
            asked = None
        if asked is None:
            for room in list(self._rooms):
                self._end(room)
            return False
        wanted, (life_end, door, output, *way_out) = asked
        life = socket.socket(fileno=life_end)
        place = Path(wanted["scratch_in"])
        private, held = private_folder.make(place)
        scratch = private_folder.inside(private)
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                Room(wanted, scratch).live(keeper, door, output, *way_out)
            os._exit(_FAILED)
        for end in (door, output, *way_out):
            os.close(end)
        room = _Kept(pid, life, private, held)
        self._rooms.append(room)
        self._selector.register(life, selectors.EVENT_READ, room)
        with contextlib.suppress(OSError):  # nobody listens any more
            wire.send(life, {"pid": pid, "scratch": str(scratch)})
        if place not in self._cleared:
            self._cleared.add(place)
            private_folder.clear_left(place)
        return True

    def _reap(self) -> None:
        """Take note of every process that has ended; what is no room was left by one."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for room in self._rooms:
                if room.pid == pid:
                    self._end(room, (status, used))
                    break

    def _end(self, room: _Kept, ended: tuple[int, resource.struct_rusage] | None = None) -> None:
        """End a room and all that it started, and tell how it ended once nothing of it is left."""
        if room not in self._rooms:
            return
        self._rooms.remove(room)
        self._selector.unregister(room.life)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(room.pid, signal.SIGKILL)
        if ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(room.pid, signal.SIGKILL)
            ended = os.wait4(room.pid, 0)[1:]
        # What outlived its room has come to the keeper, and brings its own when it ends.
        offspring.end_all_but({one.pid for one in self._rooms}, within_s=_END_S)
        remove_tree(room.private)
        os.close(room.held)
        status, used = ended
        told = wire.STATUS.pack(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)
        with room.life, contextlib.suppress(OSError):  # nobody listens any more
            room.life.sendall(told)
