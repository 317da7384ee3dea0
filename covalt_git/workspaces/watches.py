"""What may have changed in a workspace since it was seen, so that only that is looked at again.

It is an accelerator of :mod:`.snapshot` for a process that lives long (:func:`begin`), and never the
truth.  From its second look at a folder on, the process watches it, and the next look asks by stat
for the names that events tell and believes the rest to be as it was.  It looks at everything, as
without a watch, whenever there is doubt:

- when the kernel's queue was full, the folder is another one or on a file system that others may
  write to, other settings are in force, or it cannot be watched;
- when there is a folder that was not, or under another name: what was done in it before it was
  watched no event told;
- when a file has a hard link that is new, or may have had one: a name came and went.  An event tells
  only the name by which a file was written.

What a switch replaced is not looked at where the events tell of nothing but that (see
:mod:`.foreseen`).  What it looks at by name, events or not, are files that have a hard link, and files that somebody has
open: no event tells what they store through a mapping.

What none of this can show is found by stat only: stores through a mapping that was there before the
watch, or was opened at the very moment at which somebody else opened the file, and writing by a hard
link made since where nothing is watched.  So a look at everything follows when the last is
:data:`TRUSTED_S` seconds old, or twenty times as long as it took.  Until then such a change may be
missing in a manifest, and is in the next; it is never lost, as a switch reads every file that it
replaces.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.system.file_events import CannotWatchError, FolderEvents, reports_all_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from covalt_git.system.file_events import Event
    from covalt_git.workspaces.stat_cache import KnownFolder

TRUSTED_S = 2.0
"""How long the watch is believed after everything was looked at."""

_QUICK_S = 0.1  # looking at everything is to take no more of the time than a twentieth
_IDLE_S = 600
_MOST = 16  # a queue each, of which a user has 128

_logger = logging.getLogger(__name__)
_watches: OrderedDict[tuple[str, bytes], Watch] = OrderedDict()
_lock = threading.Lock()
_told = threading.Event()
os.register_at_fork(after_in_child=_watches.clear)  # a queue has one reader


@dataclass(slots=True)
class _Settings:
    """Whether this process watches, and for how long it believes what it is told."""

    on: bool = False
    trusted_s: float = TRUSTED_S


_settings = _Settings()


def begin(*, trusted_s: float = TRUSTED_S) -> None:
    """Watch from now on the workspaces that this process looks at more than once."""
    _settings.on, _settings.trusted_s = True, trusted_s


def end() -> None:
    """Watch none any more, and forget what was seen."""
    _settings.on = False
    with _lock:
        ended = list(_watches.values())
        _watches.clear()
    for watch in ended:
        with watch.lock:
            watch.stop()


@contextlib.contextmanager
def watch_of(workspace: Path, settings: bytes) -> Iterator[Watch | None]:
    """Yield the watch of a workspace; None where there is none, or another thread is using it."""
    if not _settings.on:
        yield None
        return
    key = (str(workspace), settings)
    with _lock:
        watch = _watches.get(key)
        if watch is None:
            watch = _watches[key] = Watch(str(workspace))
        _watches.move_to_end(key)
        idle = _idle_ones()
    for one in idle:
        with one.lock:
            one.stop()
    if not watch.lock.acquire(blocking=False):
        yield None
        return
    try:
        yield watch
    finally:
        watch.used_at, watch.was_used = time.monotonic(), True
        watch.lock.release()


def _idle_ones() -> list[Watch]:
    """Take the watches that nobody uses out of those that are kept, and return them."""
    now = time.monotonic()
    idle = [
        key
        for number, (key, watch) in enumerate(reversed(_watches.items()))
        if number and (number >= _MOST or watch.used_at < now - _IDLE_S)
    ]
    return [_watches.pop(key) for key in idle]


@dataclass(slots=True, eq=False)
class Watch:
    """The watch of one workspace: what was seen last, and the names that may be otherwise by now.

    ``root`` is what was seen; ``doubts`` says that only a look at everything will do.  Whoever uses it
    holds ``lock``.  Folders are named by their paths in the workspace, ``a/b``, the workspace itself by
    the empty one.
    """

    path: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    used_at: float = field(default_factory=time.monotonic)
    was_used: bool = False
    root: KnownFolder | None = None
    doubts: bool = False
    _events: FolderEvents | None = None
    _gone: bool = False
    _moved: bool = False
    _identity: tuple[int, int] = (0, 0)
    _trusted_until: float = 0.0
    _paths: dict[int, str] = field(default_factory=dict)
    _touched: dict[str, set[str]] = field(default_factory=dict)
    _made: set[tuple[str, str]] = field(default_factory=set)
    _leaving: set[int] = field(default_factory=set)
    _linked: dict[str, set[str]] = field(default_factory=dict)
    _links: dict[str, set[str]] = field(default_factory=dict)
    _open: dict[tuple[str, str], int] = field(default_factory=dict)

    def since(self) -> dict[str, set[str]] | None:
        """Return the names in each folder that may not be as :attr:`root` has them.

        None says that everything has to be looked at.
        """
        self._links.clear()
        if self._events is None:
            if self.was_used:
                self._start()
            return None
        events = self._events.drain()
        for event in events or ():
            self._note(event)
        self.doubts = self.doubts or bool(self._leaving)
        if events is None or self._is_elsewhere():
            self.stop()
            self._start()
            return None
        if self.root is None or self.doubts or self._gone or time.monotonic() > self._trusted_until:
            return None
        names = {path: set(found) for path, found in self._touched.items()}
        for path, found in self._linked.items():
            names.setdefault(path, set()).update(found)
        for path, name in self._open:
            names.setdefault(path, set()).add(name)
        return names

    def enter(self, path: str, handle: int, status: os.stat_result) -> None:
        """Watch a folder, before anything of it is looked at."""
        if self._events is None:
            return
        if not path:
            self._identity = (status.st_dev, status.st_ino)
        try:
            if status.st_dev != self._identity[0] or not (
                path or reports_all_changes(status.st_dev)
            ):
                raise CannotWatchError(
                    "the kernel does not see all that happens on its file system"
                )
            self._paths[self._events.watch(handle)] = path
        except CannotWatchError as error:
            self._give_up(str(error))
        except OSError as error:
            self._give_up(os.strerror(error.errno or 0).lower())

    def root_at(self, head: str | None) -> KnownFolder | None:
        """Return :attr:`root` if it is known to be of the tree of the manifest ``head``."""
        anchor = None if self.root is None else self.root.anchor
        return self.root if anchor is not None and anchor.manifest == head else None

    def folders(self) -> set[str] | None:
        """Return the folders of which it hears of everything that was done since :meth:`since`.

        The others it has to :meth:`enter` before anything of them is looked at; None says that it
        hears of nothing yet, and need not.
        """
        return None if self._events is None else set(self._paths.values())

    def link(self, path: str, names: set[str]) -> None:
        """Take note of the files of a folder that have other names, too."""
        new = names - self._linked.get(path, set())
        self.doubts = self.doubts or bool(new)  # their other names may be here, too
        self._links[path] = names

    def saw(self, root: KnownFolder, *, everything_in: float | None) -> None:
        """Take what was seen for what is there, but what was done since :meth:`since`.

        ``everything_in`` are the seconds in which everything was looked at; None if it was not.
        """
        self.root = root
        self._touched.clear()
        self._made.clear()
        self._leaving.clear()
        known = self._linked | self._links
        self._linked = {path: names for path, names in known.items() if names and root.below(path)}
        for path, name in list(self._open):  # those that are gone, or of which nothing is stored
            folder = root.below(path)
            if folder is None or name not in folder.files:
                del self._open[path, name]
        if everything_in is not None:
            self.doubts = False
            trusted_s = _settings.trusted_s * max(1.0, everything_in / _QUICK_S)
            self._trusted_until = time.monotonic() + trusted_s

    def replaced(self, root: KnownFolder, paths: Iterable[str]) -> None:
        """Take ``root`` for what is there, if since it was seen only files at ``paths`` were replaced.

        Where more was done, it is looked at.
        """
        if self._events is None:
            return
        awaited, more = set(paths), bool(self._touched)  # somebody else may have asked meanwhile
        events = self._events.drain()
        if events is None:
            self.stop()
            return
        for event in events:
            folder = self._paths.get(event.watch, "")
            path = f"{folder}/{event.name}" if folder else event.name
            # What is replaced is read first; whoever opens the new one may write to it.
            more = more or path not in awaited or event.kind not in {"opened", "closed", "made"}
            if event.kind == "made":
                awaited.discard(path)
            self._note(event)
        if not (more or awaited or self.doubts or self._open):
            self.saw(root, everything_in=None)

    def stop(self) -> None:
        """Watch no more."""
        if self._events is not None:
            self._events.close()
        self._events, self.root = None, None
        self._identity, self._moved = (0, 0), False
        for known in (self._paths, self._touched, self._linked, self._links, self._open):
            known.clear()
        for noted in (self._made, self._leaving):
            noted.clear()

    def _start(self) -> None:
        if self._gone:
            return
        try:
            self._events = FolderEvents()
        except CannotWatchError as error:
            self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        """Never watch this workspace again, and tell why, once for all of them."""
        self.stop()
        self._gone = True
        if not _told.is_set():
            _told.set()
            _logger.warning("no watch of %s, so every look is at everything: %s", self.path, reason)

    def _is_elsewhere(self) -> bool:
        """Tell whether another folder is at the path now than the one that is watched."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return True
        return self._moved or self._identity not in {(0, 0), (status.st_dev, status.st_ino)}

    def _note(self, event: Event) -> None:
        path = self._paths.get(event.watch)
        if path is None:
            return
        kind, entry = event.kind, (path, event.name)
        if kind == "ended":
            del self._paths[event.watch]
            self._moved = self._moved or not path
            if any(f"{made}/".startswith(f"{path}/") for made, _ in self._made):
                self.doubts = True  # names that are new went with it
            return
        if kind == "opened":
            # Of events that are alike the kernel keeps one; then the file seems to stay open.
            self._open[entry] = self._open.get(entry, 0) + 1
        elif kind in {"closed", "written"} and entry in self._open:
            self._open[entry] -= 1
            if not self._open[entry]:
                del self._open[entry]
        elif kind == "folder":
            self.doubts = True
        elif kind == "made":
            self._leaving.discard(event.move)
            self._come(entry)
        elif kind in {"moved", "deleted"} and entry in self._made:
            self._go(entry, event.move)
        if kind not in {"opened", "closed"}:
            self._touched.setdefault(path, set()).add(event.name)

    def _come(self, entry: tuple[str, str]) -> None:
        """Take note of a name that is new, and may be another one of a file that is known."""
        if entry in self._made:
            self.doubts = True  # what it was first is gone, and may have been written by this name
        self._made.add(entry)

    def _go(self, entry: tuple[str, str], move: int) -> None:
        """Take note that a name is gone that was new."""
        self._made.discard(entry)
        if move:
            self._leaving.add(move)  # until it comes to another name
        else:
            self.doubts = True
