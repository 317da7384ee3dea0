"""Follower of the git repository of a node's project, in a server or a worker."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.manifests.followed_project import current_root, source_of
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.operations.project_updates import behind, update
from covalt_git.system.metrics import Counter
from covalt_git.system.node_folder import commit_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    Gauge = tuple[str, str, float]

MOVES = Counter("project_updates_total", "Moves of this node to another commit of its project.")
_LOG = logging.getLogger(__name__)


class ProjectFollower:
    """Moves a node to new commits of its project, at intervals and at SIGHUP; ``node`` is its folder.

    For a folder with a project of its own, it does nothing.
    """

    def __init__(self, node: Path) -> None:
        self._node = node
        self._wake = threading.Event()
        self._ended = False
        self._problem: str | None = None
        self._reported = ""
        self._current: str | None = None

    @property
    def follows(self) -> bool:
        """Whether the project comes from a git repository; with errors in ``covalt.yaml``, that is not known."""
        try:
            return source_of(self._node) is not None
        except BrokenConfigError:
            return False

    def start(self) -> None:
        """Fetch the project before anything needs it; a node that has a commit starts without its git server.

        Raises:
            CovaltError: as :func:`.update`, if the node has no commit.
        """
        if not self.follows:
            return
        if current_root(self._node) == self._node:
            update(self._node, again=True)
        self._current = commit_of(current_root(self._node))
        self._update(again=True)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the repository, in a thread, while the block runs."""
        if not self.follows:
            yield
            return
        thread = threading.Thread(target=self._follow, name="project", daemon=True)
        thread.start()
        try:
            with self._woken_by_sighup():
                yield
        finally:
            self._ended = True
            self._wake.set()
            thread.join(1)

    @contextmanager
    def _woken_by_sighup(self) -> Iterator[None]:
        # A terminal sends SIGHUP when it is closed, and its server has to end then.  Python sets signal handlers in the main
        # thread only; tests run servers in others.
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or (sys.stdin is not None and sys.stdin.isatty()):
            yield
            return

        def wake(_number: int, _frame: FrameType | None) -> None:
            self._wake.set()

        earlier = signal.signal(signal.SIGHUP, wake)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, earlier)

    def _follow(self) -> None:
        while not self._ended:
            source = None
            try:
                source = source_of(self._node)
                was_woken = self._wake.wait(source.every_s if source else None)
                self._wake.clear()
                if not self._ended:
                    self._update(again=was_woken)
            except Exception:  # noqa: BLE001 - the next check must come
                _LOG.exception("the project could not be updated")
                if source is None:
                    self._wake.wait(1)

    def _update(self, *, again: bool) -> None:
        """Update the node; report each new problem once."""
        try:
            current = update(self._node, again=again).current
        except (CovaltError, OSError) as error:
            self._problem = error.message if isinstance(error, CovaltError) else str(error)
            self._report(self._problem, error.hint if isinstance(error, CovaltError) else "")
            return
        self._problem = None
        # Compared with the last value, because another process of the node may have moved the project.
        if current not in {None, self._current}:
            MOVES.add()
            facts = {"commit": current}
            _LOG.info("new calls run the commit %s of the project", current, extra={"facts": facts})
        self._current = current
        waits = behind(self._node)
        if waits is None:
            self._reported = ""
        else:
            self._report(*waits)

    def _report(self, problem: str, hint: str) -> None:
        # The ref is checked every few seconds, and one line of the log is enough.
        if problem != self._reported:
            self._reported = problem
            _LOG.warning("%s%s", problem, f" (hint: {hint})" if hint else "")

    @property
    def detail(self) -> str | None:
        """Why the node may not be at the newest commit of its ref; None if it is."""
        waits = behind(self._node)
        return self._problem if waits is None else waits.why

    def gauges(self) -> list[Gauge]:
        """Return whether the node is behind, for metrics; none for a project of its own."""
        if not self.follows:
            return []
        about = (
            "1 if the node does not run the newest commit of its project's ref, or cannot know it."
        )
        return [("project_behind", about, float(self.detail is not None))]
