"""Worker of a project: makes the calls that servers put in the queue."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from covalt_git.broker.call_queue import QueueWorker
from covalt_git.broker.connection import BrokerError
from covalt_git.broker.open_calls import CONTROL, MOST_TAKES, WAITS
from covalt_git.calls.running import RUNNING, WORKER_STOPPED, Cancel
from covalt_git.calls.worker_follower import WorkerFollower
from covalt_git.catalog.current_config import current_config
from covalt_git.errors import CovaltError, InternalError, UnknownNameError
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_root import find_root
from covalt_git.models.project_config import ServerConfig
from covalt_git.names import new_id
from covalt_git.operations.calls.queued_calls import perform, refused
from covalt_git.project import Project
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.monitoring import Readiness, monitoring
from covalt_git.serving.project_follower import ProjectFollower
from covalt_git.serving.project_queue import ProjectQueue
from covalt_git.serving.router import router
from covalt_git.serving.uvicorn_server import Server
from covalt_git.system.metrics import Histogram
from covalt_git.system.node_folder import node_of
from covalt_git.trust import NotTrustedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from covalt_git.json_values import JsonObject
    from covalt_git.models.queued_call import QueuedCall, QueuedEnd

DRAIN_S = 30.0
"""Time that running calls have when a worker stops, in seconds; then they are cancelled and recorded."""

WAITED = Histogram("queue_wait_seconds", "Time from the request of a call until a worker took it.")
_PAUSE_S = 0.5
_LOG = logging.getLogger(__name__)


class UnknownTagError(UnknownNameError):
    """``covalt.yaml`` does not define a tag of workers."""

    def __init__(self, tag: str, tags: Iterable[str]) -> None:
        super().__init__("tag", tag, tags, list_with="covalt-git explain covalt.yaml")
        self.hint = f"write workers: {{tags: {{{tag}: [PATTERN]}}}} into covalt.yaml"


class Worker:
    """Worker of the queue of one project.

    Args:
        start: a folder of the project.
        url: the URL of the queue.
        concurrency: the number of calls that it makes at a time.
        tags: it makes only the calls of tools with these tags; without tags, those of tools that have none.
        drain_s: the time that running calls have when it is stopped, in seconds.
        monitor: the host and the port of health checks and metrics.
    """

    def __init__(
        self,
        start: Path,
        url: str,
        *,
        concurrency: int,
        tags: Sequence[str] = (),
        drain_s: float = DRAIN_S,
        monitor: tuple[str, int] | None = None,
    ) -> None:
        self._follower = ProjectFollower(find_root(start))
        self._follower.start()
        self.project = Project.open(start)
        self._node = node_of(self.project.root)
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_id()[-6:]}"
        self._queue = ProjectQueue(self.project, url)
        self._concurrency = concurrency
        self._tags = tuple(tags)
        self._monitor = monitor
        self.monitor_url = ""
        defined = self.project.config.workers.tags
        for tag in self._tags:
            if tag not in defined:
                raise UnknownTagError(tag, defined)
        self._drain_s = drain_s
        self._running: dict[str, tuple[QueuedCall, Cancel]] = {}
        self._stopping = threading.Event()
        self._received: QueueWorker | None = None

    def run(self, on_ready: Callable[[Worker], None]) -> None:
        """Make calls until SIGTERM or Ctrl-C; then finish those that run, or cancel them after the time for that.

        Raises:
            BrokerError: if Redis cannot be reached at the start.
        """
        open_calls = self._queue.open_calls
        open_calls.broker.check()
        open_calls.report_worker(self.name, self._facts())
        # Chats that a killed worker of this machine left are finished before others need them.
        self.project.chats.finish_left()
        received = self._received = QueueWorker(
            open_calls,
            self._make,
            tags=self._tags,
            concurrency=self._concurrency,
            on_ready=lambda: on_ready(self),
        )
        with (
            self._follower.following(),
            self._monitored(),
            open_calls.broker.subscribed({CONTROL: self._control}, on_connect=self._cancel_missed),
            self._queue.maintained(self._report),
            self._stopped_by_signals(),
            RUNNING.served(WORKER_STOPPED),
        ):
            received.run()
        with suppress(BrokerError):
            open_calls.forget_worker(self.name)
        self._queue.close()

    @contextmanager
    def _monitored(self) -> Iterator[None]:
        """Answer health checks and requests for metrics while the block runs."""
        if self._monitor is None:
            yield
            return
        host, port = self._monitor
        # A request for metrics needs a token, and one without a token gets only the state of the parts.  So any name of this
        # host is accepted.
        listener = listen(ServerConfig(allowed_hosts=(host,)), host=host, port=port)
        self.monitor_url = listener.url
        readiness = Readiness(
            {
                "worker": self._check_stopping,
                "queue": self._queue.open_calls.broker.check,
                "configuration": lambda: current_config(current_root(self._node)),
            }
        )
        watched = monitoring(
            readiness,
            gauges=lambda: [*self._queue.gauges(), *self._follower.gauges()],
            project=lambda: self._follower.detail,
        )
        app = router(watched, {})
        server = Server(app, lambda: None)
        thread = threading.Thread(
            target=server.run, args=([listener.socket],), name="monitoring", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(2)
            listener.socket.close()

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise CovaltError("the worker stops")

    def _facts(self) -> JsonObject:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "tags": [*self._tags],
            "concurrency": self._concurrency,
            "running": [*self._running],
        }

    def _report(self) -> None:
        self._queue.open_calls.report_worker(self.name, self._facts())
        self._cancel_missed()

    def _control(self, message: JsonObject) -> None:
        call_id = str(message.get("cancel"))
        why = str(message.get("why", Cancel.why))
        for call, cancel in [*self._running.values()]:
            if call.call_id == call_id:
                cancel.set_as(why)
        # The calls of scripts are in no queue.
        with suppress(CovaltError):
            RUNNING.cancel(call_id, why)

    def _cancel_missed(self) -> None:
        """Cancel the calls whose cancellation was sent while this worker was not connected."""
        for call, cancel in [*self._running.values()]:
            why = self._queue.open_calls.why_cancelled(call.key)
            if why is not None:
                cancel.set_as(why)

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(_number: int, _frame: FrameType | None) -> None:
            self.stop()

        earlier = {
            number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        """Stop receiving calls; a second time, cancel those that run."""
        if self._received is None:
            return
        self._received.stop()
        if self._stopping.is_set():
            self._cancel_all()
            return
        self._stopping.set()
        timer = threading.Timer(self._drain_s, self._cancel_all)
        timer.daemon = True
        timer.start()

    def _cancel_all(self) -> None:
        for _, cancel in [*self._running.values()]:
            cancel.set_as(WORKER_STOPPED)

    def _make(self, call: QueuedCall) -> None:
        """Make a call of the queue, and report its end."""
        cancel = Cancel()
        # Before it is taken: a cancellation that arrives after that finds it, and an earlier one is read.
        self._running[call.key] = (call, cancel)
        try:
            takes = self._queue.open_calls.take(call, self.name)
            if takes == WAITS:
                self._queue.open_calls.report(call, "waits", "another call of the chat")
            if takes <= 0:
                return
            why = self._queue.open_calls.why_cancelled(call.key)
            if why is not None:
                cancel.set_as(why)
            WAITED.observe(max(0.0, time.time() - call.queued_at))
            facts = {"call_id": call.call_id, "chat_id": call.chat_id, "worker": self.name}
            _LOG.info("%s was taken from the queue", call.tool_id, extra={"facts": facts})
            self._end(call, self._performed(call, cancel, takes))
        except BrokerError as error:
            # The call is sent again when Redis is back, and found in its chat.
            _LOG.warning("the call %s could not be reported: %s", call.call_id, error.message)
        finally:
            del self._running[call.key]

    def _performed(self, call: QueuedCall, cancel: Cancel, takes: int) -> QueuedEnd:
        if takes > MOST_TAKES:
            error = CovaltError(
                f"{MOST_TAKES} workers died before they could begin the call",
                hint="read the logs of the workers",
                code="workers_died",
                http_status=500,
            )
            return refused(error)
        follower = WorkerFollower(self._queue.open_calls, call, cancel)
        try:
            # Another worker may have written to the chat meanwhile, and the server of the call before that.
            newest = self._queue.open_calls.newest_refs(call.chat_id, call.reported)
            call = call.model_copy(update={"reported": newest})
            return perform(self._node, call, follower.follower, follower.waits)
        except NotTrustedError as error:
            # Each node trusts for itself, and the client does not know which worker had the call.
            error.message = (
                f"the worker on {socket.gethostname()} refuses the call: {error.message}"
            )
            error.hint = (
                f"on {socket.gethostname()}: covalt-git -C {shlex.quote(str(self._node))} trust"
            )
            return refused(error)
        except CovaltError as error:
            return refused(error)
        except Exception:  # noqa: BLE001 - the worker makes the next call
            _LOG.exception("the call %s failed because of a bug", call.call_id)
            return refused(InternalError())

    def _end(self, call: QueuedCall, end: QueuedEnd) -> None:
        """Report the end of a call, also if Redis is restarted meanwhile."""
        until = time.monotonic() + self._drain_s
        while True:
            try:
                if end.reported is not None:  # before the next call of the chat
                    self._queue.open_calls.newest_refs(call.chat_id, end.reported)
                waiting = self._queue.open_calls.end(call, end)
                if waiting is not None:
                    self._queue.queue.send(waiting)
            except BrokerError:
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return
