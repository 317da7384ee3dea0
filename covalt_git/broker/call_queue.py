"""Queue of calls in Celery: servers send, workers receive.

A worker runs calls in threads: a fork of a process with threads can deadlock, and the tools have processes of their own
anyway.  A message is acknowledged after its call (``acks_late``).  A message that comes twice is dropped by
:meth:`.OpenCalls.take`, so the visibility timeout of Redis needs no tuning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from covalt_git.broker.connection import BrokerError, ScaleNotInstalledError
from covalt_git.models.queued_call import QueuedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celery import Celery

    from covalt_git.broker.open_calls import OpenCalls

TASK = "covalt_git.call"
VISIBLE_S = 3600
"""Time after which Redis delivers a message again that was not acknowledged, in seconds."""

_LOG = logging.getLogger(__name__)


def _app(open_calls: OpenCalls) -> Celery:
    try:
        from celery import Celery  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError:
        raise ScaleNotInstalledError from None
    app = Celery("covalt_git", broker=open_calls.broker.url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": VISIBLE_S,
            "socket_timeout": 10,
            "socket_connect_timeout": 10,
            "global_keyprefix": "",
        },
        # A worker that has lost the connection to Redis completes its calls, whose records are in git.  If Redis delivers the
        # message of such a call again, it is dropped.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        task_acks_late=True,
        task_default_queue=open_calls.queue(""),
        task_ignore_result=True,
        task_serializer="json",
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
    )
    return app


class CallQueue:
    """Sends calls to the workers."""

    def __init__(self, open_calls: OpenCalls) -> None:
        self.open_calls = open_calls
        self._app = _app(open_calls)

    def send(self, call: QueuedCall) -> None:
        """Send a call to the workers with its tag.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        try:
            try:
                self._publish(call)
            except AttributeError:
                # kombu 5.7 can use a channel whose connection was lost (seen in tests.stress cluster).
                with self._app.connection_for_write() as connection:
                    self._publish(call, connection=connection)
        except self._errors as error:
            place = self.open_calls.broker.place
            raise BrokerError(
                f"the queue at {place} does not answer: {error}",
                hint="check that Redis runs, and then repeat the request with the same call id",
            ) from None

    def _publish(self, call: QueuedCall, **options: Any) -> None:
        self._app.send_task(
            TASK,
            [call.model_dump(mode="json")],
            queue=self.open_calls.queue(call.tag),
            retry=True,
            retry_policy={"max_retries": 3, "interval_start": 0, "interval_step": 0.3},
            **options,
        )

    @property
    def _errors(self) -> tuple[type[BaseException], ...]:
        from kombu.exceptions import OperationalError  # noqa: PLC0415 - of an extra

        return (OperationalError, OSError)

    def close(self) -> None:
        """Close the connections."""
        self._app.close()


class QueueWorker:
    """Receives calls until it is stopped; ``make`` makes each of them in a thread."""

    def __init__(
        self,
        open_calls: OpenCalls,
        make: Callable[[QueuedCall], None],
        *,
        tags: Sequence[str],
        concurrency: int,
        on_ready: Callable[[], None],
    ) -> None:
        app = _app(open_calls)

        @app.task(name=TASK, acks_late=True, ignore_result=True)  # type: ignore[untyped-decorator]
        def _call(fields: dict[str, Any]) -> None:
            make(QueuedCall.model_validate(fields))

        app.finalize()
        queues = [open_calls.queue(tag) for tag in tags] or [open_calls.queue("")]
        controller: Any = app.WorkController

        class Controller(controller):  # type: ignore[misc]
            def on_consumer_ready(self, _consumer: Any) -> None:
                on_ready()

        self._app = app
        self._controller = Controller(
            app=app,
            concurrency=concurrency,
            pool_cls="threads",
            queues=queues,
            # Workers do not need to know each other: that costs messages, and time at the start.
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            loglevel=logging.WARNING,
        )

    def run(self) -> None:
        """Receive calls until :meth:`stop`, and then wait for the calls that run."""
        self._controller.start()

    @staticmethod
    def stop() -> None:
        """Stop receiving; can be called in a signal handler."""
        from celery.worker import state  # noqa: PLC0415 - of an extra

        state.should_stop = 0
