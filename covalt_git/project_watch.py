"""A project followed while people edit it: what changed, what is wrong now, and when to look again.

:class:`WatchedProject` keeps a reading of all that is checked in and reads again only the toolsets
whose files changed.  :class:`Changes` tells when that is worth while: after the kernel's events, once
they have been quiet for a moment; or at intervals, where events do not come.  An event is a reason to
look and no more, so that nothing is lost with a queue that was full: every look compares all files.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.index.toolset_signatures import ToolsetSignature, is_unchanged, read_with_signature
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.names import new_id
from covalt_git.system.file_events import CannotWatchError, FolderEvents, reports_all_changes
from covalt_git.toolsets.project_files import CheckedToolset, ProjectReading, read_around

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.errors import Problem

QUIET_S = 0.1
"""How long nothing has to happen before a look: a save is several events, a checkout thousands."""

STORM_S = 1.0
"""How long a look is put off at most while things go on happening."""

POLL_S = 0.5
"""How long lies between two looks where events do not come; more where a look takes long."""

_REST = 10
"""Looking takes at most one part in so many of the time."""

_IGNORED = {"__pycache__", ".git"}


class ProjectScan(NamedTuple):
    """What a look at the project found.

    Attributes:
        version: names this state of the files, for whoever shows it.
        reading: everything that is checked in.
        changed: the toolsets that came, went or are others now, sorted.
        mended: those of them that had errors before and have none now.
    """

    version: str
    reading: ProjectReading
    changed: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()

    @property
    def broken(self) -> dict[str, Problem]:
        """The first error of each toolset that has some, by its id."""
        found = {}
        for toolset in self.reading.toolsets:
            errors = [one for one in toolset.problems if one.severity == "error"]
            if errors:
                found[toolset.id] = errors[0]
        return found


class WatchedProject:
    """The project at ``root`` as its files were at the last look; for use by many threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._seen: dict[str, ToolsetSignature] = {}
        self._toolsets: dict[str, CheckedToolset] = {}
        self._looking = threading.Lock()
        self._last = ProjectScan("", ProjectReading(root, None, (), ()))
        self.look()

    @property
    def last(self) -> ProjectScan:
        """What the last look found."""
        return self._last

    def look(self) -> ProjectScan | None:
        """Scan the files; return the scan if anything changed since the last one."""
        with self._looking:
            changed = self._read_changed()
            before, first = self._last, not self._last.version
            reading = read_around(self.root, tuple(self._toolsets.values()))
            if not (first or changed or _differ(before.reading, reading)):
                return None
            was, now = before.broken, ProjectScan("", reading).broken
            mended = tuple(sorted(name for name in was if name not in now and name in changed))
            self._last = ProjectScan(new_id(), reading, tuple(sorted(changed)), mended)
            return self._last

    def _read_changed(self) -> set[str]:
        """Read the toolsets whose files are others; return their ids, and those that are gone."""
        folder = self.root / "toolsets"
        ids = toolset_ids(folder)
        gone = self._toolsets.keys() - set(ids)
        changed = set(gone)
        if ids:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                changed |= {
                    name
                    for name in ids
                    if name not in self._seen or not is_unchanged(handle, self._seen[name])
                }
            finally:
                os.close(handle)
        for name in changed - gone:
            self._seen[name], toolset = read_with_signature(self.root, name)
            self._toolsets[name] = CheckedToolset.of(toolset)
        for name in gone:
            del self._toolsets[name], self._seen[name]
        self._toolsets = dict(sorted(self._toolsets.items()))
        return changed


def _differ(before: ProjectReading, now: ProjectReading) -> bool:
    """Tell whether what stands beside the toolsets is another: covalt.yaml, and what all are together."""
    return (before.config, before.problems) != (now.config, now.problems)


class Changes:
    """Waits for a reason to look at a project; :meth:`close` it from any thread to end the waiting.

    ``why_polling`` says why it looks at intervals instead of waiting for events, if it does.
    """

    def __init__(self, root: Path, *, poll: bool = False) -> None:
        self._root = root
        self._ended, self._end = os.pipe()
        self._held = threading.Lock()
        self._waits = self._closed = False
        self._interval_s = POLL_S
        self._events: FolderEvents | None = None
        self._stale = False
        self.why_polling = "as you said" if poll else ""
        if not poll:
            try:
                self._watch(root)
            except CannotWatchError as error:
                self.why_polling = str(error)

    def wait(self) -> bool:
        """Wait until a look is worth while; False once it was closed."""
        with self._held:
            if self._closed:
                return False
            self._waits = True
        try:
            return self._wait_for_event()
        finally:
            with self._held:
                self._waits = False
                if self._closed:
                    self._release()

    def _wait_for_event(self) -> bool:
        events = self._events
        if events is None:
            return not self._is_closed(self._interval_s)
        while not events.wait(60, self._ended):
            if self._is_closed(0):
                return False
        began = time.monotonic()
        while self._take_events(events, began):
            pass
        if self._stale:
            try:
                self._watch_folders(events)
            except CannotWatchError as error:
                events.close()
                self._events, self.why_polling = None, str(error)
        return not self._is_closed(0)

    def looked(self, took_s: float) -> None:
        """Take note of how long a look took, so that polling leaves the machine to others."""
        self._interval_s = max(POLL_S, took_s * _REST)

    def close(self) -> None:
        """End the waiting, and give back what it took of the system: whoever waits does, else this."""
        with self._held:
            if self._closed:
                return
            self._closed = True
            os.write(self._end, b"\0")
            if not self._waits:
                self._release()

    def _release(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None
        for one in (self._ended, self._end):
            os.close(one)

    def _is_closed(self, timeout_s: float) -> bool:
        return bool(select.select([self._ended], [], [], timeout_s)[0])

    def _take_events(self, events: FolderEvents, began: float) -> bool:
        """Take the events that came; False when it is quiet, or has not been for too long."""
        self._stale |= events.read()
        left_s = began + STORM_S - time.monotonic()
        return left_s > 0 and events.wait(min(QUIET_S, left_s), self._ended)

    def _watch(self, root: Path) -> None:
        if not reports_all_changes(root.stat().st_dev):
            raise CannotWatchError("others may write to this file system, and no event tells of it")
        events = FolderEvents()
        try:
            self._watch_folders(events)
        except CannotWatchError:
            events.close()
            raise
        self._events = events

    def _watch_folders(self, events: FolderEvents) -> None:
        """Watch every folder there is; those that are watched already stay so."""
        self._stale = False
        _watch_one(events, self._root)
        waiting = [self._root / "toolsets"]
        while waiting:
            folder = waiting.pop()
            # Before it is listed, so that what comes into it later is told.
            if _watch_one(events, folder):
                with contextlib.suppress(OSError), os.scandir(folder) as entries:
                    waiting += [
                        folder / entry.name
                        for entry in entries
                        if entry.name not in _IGNORED and entry.is_dir(follow_symlinks=False)
                    ]


def _watch_one(events: FolderEvents, folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone, or not for us: its parent tells when that changes
        return False
    try:
        events.watch(handle)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
