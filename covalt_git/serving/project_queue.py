"""Queue of a project, as its servers and its workers use it."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.broker.call_queue import CallQueue
from covalt_git.broker.connection import Broker, BrokerError
from covalt_git.broker.open_calls import REPORT_S, OpenCalls
from covalt_git.calls.celery_executor import CeleryExecutor
from covalt_git.system.node_folder import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.project import Project

_LOG = logging.getLogger(__name__)


class ProjectQueue:
    """The queue of a project at ``url``: its calls, and the sending of them.

    Raises:
        BrokerUrlError: if the URL cannot be used.
        ScaleNotInstalledError: if celery or redis is not installed.
    """

    def __init__(self, project: Project, url: str) -> None:
        storage = project.config.storage
        # All nodes of a project have one git server. Without one, all processes have one folder.
        place = storage.url or str(node_of(project.root).resolve())
        self.open_calls = OpenCalls(Broker(url, place))
        self.queue = CallQueue(self.open_calls)
        self.executor = CeleryExecutor(self.open_calls, self.queue)

    def gauges(self) -> list[tuple[str, str, float]]:
        """Return the numbers of calls and of workers, for metrics; none while Redis cannot be reached."""
        try:
            workers = self.open_calls.workers()
            running = sum(len(facts["running"]) for facts in workers.values())
            return [
                (
                    "open_calls",
                    "Calls of the project that have not ended.",
                    self.open_calls.number_open(),
                ),
                ("running_calls", "Calls that the workers make now.", running),
                ("workers", "Living workers of the project.", len(workers)),
            ]
        except BrokerError:
            return []

    @contextmanager
    def maintained(self, report: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Send calls again whose worker has died, in a thread, while the block runs; call ``report`` regularly."""
        ended = threading.Event()

        def maintain() -> None:
            while not ended.wait(REPORT_S):
                try:
                    report()
                    self.send_lost()
                except BrokerError as error:
                    _LOG.warning("%s", error.message)
                except Exception:  # noqa: BLE001 - the next check must come
                    _LOG.exception("calls of the queue could not be checked")

        thread = threading.Thread(target=maintain, name="queue", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(1)

    def send_lost(self) -> None:
        """Send the calls again whose worker has died, and those that Redis has lost.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        for described in self.open_calls.lost():
            call = described.call
            _LOG.warning(
                "the call %s is sent again: its worker has died, or no worker has taken it",
                call.call_id,
                extra={"facts": {"call_id": call.call_id, "chat_id": call.chat_id}},
            )
            self.queue.send(call)

    def close(self) -> None:
        """Close the connections."""
        self.queue.close()
        self.open_calls.broker.close()
