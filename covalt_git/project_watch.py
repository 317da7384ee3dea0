"""Watch of a project's own files on disk, covalt.yaml and toolsets, for ``covalt-git dev``.

:class:`WatchedProject` has the last scan of the project and reads only toolsets whose files changed.
:class:`Changes` waits for the next scan: until file events of the kernel have paused for a moment, or for
a fixed interval if the file system reports no events.  Events only trigger a scan.  Each scan compares all
files, so that an overflow of the event queue loses no change.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.index.toolset_signatures import (
    ToolsetSignature,
    changed_toolsets,
    read_with_signature,
)
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.names import new_id
from covalt_git.system.file_events import CannotWatchError, FolderEvents, reports_all_changes
from covalt_git.system.node_folder import CHECKOUTS
from covalt_git.toolsets.project_files import CheckedToolset, ProjectReading, read_around

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.errors import Problem

QUIET_S = 0.1
"""Pause in the events before a scan: saving a file causes several events, a checkout thousands."""

STORM_S = 1.0
"""Longest delay of a scan while events continue."""

POLL_S = 0.5
"""Shortest interval between scans where the file system reports no events."""

_REST = 10
"""Without events, the interval is at least this many times as long as a scan takes."""

_IGNORED = {"__pycache__", ".git"}


class ProjectScan(NamedTuple):
    """Result of a scan.

    Attributes:
        version: id of this state of the files.
        reading: covalt.yaml and all toolsets.
        changed: ids of the toolsets that were added, removed or changed, sorted.
        fixed: ids of the changed toolsets that had errors before and have none now.
    """

    version: str
    reading: ProjectReading
    changed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    @property
    def broken(self) -> dict[str, Problem]:
        """The first error of each toolset that has errors, by its id."""
        first_errors = {}
        for toolset in self.reading.toolsets:
            errors = [problem for problem in toolset.problems if problem.severity == "error"]
            if errors:
                first_errors[toolset.id] = errors[0]
        return first_errors


class WatchedProject:
    """The project at ``root`` as of the last scan; thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._signatures: dict[str, ToolsetSignature] = {}
        self._toolsets: dict[str, CheckedToolset] = {}
        self._scanning = threading.Lock()
        self._last = ProjectScan("", ProjectReading(root, None, (), ()))
        self.scan()

    @property
    def last(self) -> ProjectScan:
        """The last scan."""
        return self._last

    def scan(self) -> ProjectScan | None:
        """Scan the files; return the scan if anything changed since the last one."""
        # Two scans at once would each report the same change as new.
        with self._scanning:
            changed = self._read_changed()
            previous, first = self._last, not self._last.version
            reading = read_around(self.root, tuple(self._toolsets.values()))
            if not (first or changed or _differ(previous.reading, reading)):
                return None
            was, scan = previous.broken, ProjectScan("", reading).broken
            fixed = tuple(sorted(name for name in was if name not in scan and name in changed))
            self._last = ProjectScan(new_id(), reading, tuple(sorted(changed)), fixed)
            return self._last

    def _read_changed(self) -> set[str]:
        """Read the toolsets whose files changed; return their ids, and the ids of deleted toolsets."""
        folder = self.root / "toolsets"
        ids = toolset_ids(folder)
        gone = self._toolsets.keys() - set(ids)
        changed = set(gone).union(changed_toolsets(folder, ids, self._signatures))
        for name in changed - gone:
            self._signatures[name], toolset = read_with_signature(self.root, name)
            self._toolsets[name] = CheckedToolset.of(toolset)
        for name in gone:
            del self._toolsets[name], self._signatures[name]
        self._toolsets = dict(sorted(self._toolsets.items()))
        return changed


def _differ(old: ProjectReading, new: ProjectReading) -> bool:
    """Return whether covalt.yaml changed, or the problems that do not belong to a single toolset."""
    return (old.config, old.problems) != (new.config, new.problems)


class Changes:
    """Source of the times to scan a project; any thread may :meth:`close` it, which ends the wait.

    ``why_polling`` is the reason if it waits for intervals instead of file events.
    """

    def __init__(self, root: Path, *, poll: bool = False) -> None:
        self._root = root
        # A pipe, because the wait is for file events, which only a descriptor can interrupt.
        self._ended, self._end = os.pipe()
        self._held = threading.Lock()
        self._waits = self._closed = False
        self._interval_s = POLL_S
        self._events: FolderEvents | None = None
        self._stale = False
        self.why_polling = "--poll was used" if poll else ""
        if not poll:
            try:
                self._watch(root)
            except CannotWatchError as error:
                self.why_polling = str(error)

    def wait(self) -> bool:
        """Wait until the project should be scanned; return False once it is closed."""
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
                # The watches of a user are limited; polling needs none.
                events.close()
                self._events, self.why_polling = None, str(error)
        return not self._is_closed(0)

    def scanned(self, took_s: float) -> None:
        """Set the polling interval from the duration of a scan, so that polling uses little of the CPU."""
        self._interval_s = max(POLL_S, took_s * _REST)

    def close(self) -> None:
        """End the wait and free the descriptors; the waiting thread frees them if there is one."""
        with self._held:
            if self._closed:
                return
            self._closed = True
            os.write(self._end, b"\0")
            # The waiting thread still uses the descriptors; after a close, their numbers may be those of other
            # files.
            if not self._waits:
                self._release()

    def _release(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None
        for descriptor in (self._ended, self._end):
            os.close(descriptor)

    def _is_closed(self, timeout_s: float) -> bool:
        return bool(select.select([self._ended], [], [], timeout_s)[0])

    def _take_events(self, events: FolderEvents, began: float) -> bool:
        """Read the pending events; return False after a pause, or when the longest delay is over."""
        self._stale |= events.read()
        left_s = began + STORM_S - time.monotonic()
        return left_s > 0 and events.wait(min(QUIET_S, left_s), self._ended)

    def _watch(self, root: Path) -> None:
        # On NFS and in shared folders of virtual machines, the kernel sees its own changes only.
        if not reports_all_changes(root.stat().st_dev):
            raise CannotWatchError(
                "other machines may write to this file system, and it does not report that"
            )
        events = FolderEvents()
        try:
            self._watch_folders(events)
        except CannotWatchError:
            events.close()
            raise
        self._events = events

    def _watch_folders(self, events: FolderEvents) -> None:
        """Watch every folder of the toolsets; folders that are watched already stay watched."""
        self._stale = False
        _watch_one(events, self._root)
        _watch_one(events, self._root / CHECKOUTS)  # a node moves to another commit there
        waiting = [self._root / "toolsets"]
        while waiting:
            folder = waiting.pop()
            # Before it is listed, so that the kernel reports what is added after the listing.
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
    except OSError:  # deleted, or not readable: the watch of its parent reports when that changes
        return False
    try:
        events.watch(handle)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
