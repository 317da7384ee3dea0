"""Connection to Redis: keys of one project, publishing and subscribing.

Everything that is stored here can be lost: the git repositories of the chats are the truth.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from covalt_git.errors import CovaltError
from covalt_git.hosts import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    import redis

    from covalt_git.json_values import JsonObject

INSTALL = "pip install 'covalt-git[scale]'"
TIMEOUT_S = 10.0
"""Time limit of a request to Redis, in seconds; longer than each blocking read (:data:`READ_S`)."""

READ_S = 5.0
"""Longest time that a blocking read waits, in seconds."""

_LOG = logging.getLogger(__name__)
_SCHEMES = ("redis", "rediss")
_OF_RABBITMQ = ("amqp", "amqps", "pyamqp")
_RETRY_S = 0.5


class ScaleNotInstalledError(CovaltError):
    """The libraries of the extra ``scale`` are not installed."""

    code = "not_installed"
    http_status = 501

    def __init__(self) -> None:
        super().__init__("a queue needs celery and redis, which are not installed", hint=INSTALL)


class BrokerUrlError(CovaltError):
    """The URL of a broker cannot be used."""

    code = "bad_queue"
    exit_code = 2


class BrokerError(CovaltError):
    """Redis cannot be reached, or refuses a request."""

    code = "queue_unavailable"
    http_status = 503


def check_url(url: str) -> None:
    """Check the URL of a broker.

    Raises:
        BrokerUrlError: if it is not one of Redis, or if other machines could write to it without a password.
    """
    hint = "write redis://127.0.0.1:6379/0, or rediss://:PASSWORD@HOST:6379/0"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise BrokerUrlError("the URL of the queue is invalid", hint=hint) from None
    if parts.scheme in _OF_RABBITMQ:
        raise BrokerUrlError(
            "the queue must be in Redis: RabbitMQ has messages, but cannot store the state of calls",
            hint=hint,
        )
    if parts.scheme not in _SCHEMES or not host:
        raise BrokerUrlError(
            "the URL of the queue must begin with redis:// or rediss://", hint=hint
        )
    # A client of Redis can make calls as any role.
    if not is_loopback(host) and not parts.password:
        raise BrokerUrlError(
            "the URL of a queue on another machine needs a password, because each client of the queue can make calls",
            hint=hint,
        )


def redis_library() -> ModuleType:
    """Return the module ``redis``.

    Raises:
        ScaleNotInstalledError: if it is not installed.
    """
    try:
        import redis  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError:
        raise ScaleNotInstalledError from None
    return redis


class Broker:
    """Connection of one process to the broker of a project; thread-safe.

    ``project`` identifies the project, equally on all nodes: projects that share a Redis server do not see each other.
    """

    def __init__(self, url: str, project: str) -> None:
        check_url(url)
        library = redis_library()
        self.url = url
        self.prefix = f"covalt-git:{hashlib.sha256(project.encode()).hexdigest()[:16]}:"
        self._errors = library.RedisError
        self.client: redis.Redis = library.Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            health_check_interval=30,
        )

    @property
    def place(self) -> str:
        """The URL without the user and the password, for messages and logs."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path}"

    def key(self, name: str) -> str:
        """Return the key or channel of this project with a name."""
        return self.prefix + name

    @contextmanager
    def requests(self) -> Iterator[redis.Redis]:
        """Yield the client; its errors are raised as :class:`BrokerError`.

        Raises:
            BrokerError: if Redis cannot be reached, or refuses a request.
        """
        try:
            yield self.client
        except self._errors as error:
            # The message of a connection error has the host, and no password.
            raise BrokerError(
                f"the queue at {self.place} does not answer: {error}",
                hint="check that Redis runs, and then repeat the request with the same call id",
            ) from None

    def check(self) -> None:
        """Check that Redis answers.

        Raises:
            BrokerError: if it does not.
        """
        with self.requests() as client:
            client.ping()

    def publish(self, channel: str, message: JsonObject) -> None:
        """Send a message to all processes that subscribe to a channel now.

        Raises:
            BrokerError: if Redis cannot be reached.
        """
        with self.requests() as client:
            client.publish(self.key(channel), json.dumps(message))

    @contextmanager
    def subscribed(
        self,
        handlers: Mapping[str, Callable[[JsonObject], None]],
        *,
        on_connect: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Call the handler of a channel with each of its messages, in a thread, while the block runs.

        Messages that are sent while the connection is interrupted are lost; ``on_connect`` is called after each
        connection, to read what may have been missed.  The block begins after the first one.

        Raises:
            BrokerError: if Redis cannot be reached at the beginning.
        """
        self.check()
        ended, connected = threading.Event(), threading.Event()
        names = {self.key(channel): handler for channel, handler in handlers.items()}

        def listen() -> None:
            while not ended.is_set():
                try:
                    with redis_library().client.PubSub(self.client.connection_pool) as pubsub:
                        pubsub.subscribe(*names)
                        self._deliver(pubsub, names, ended, connected, on_connect)
                # ``on_connect`` reads from Redis, which may have been killed again, or still load its data.
                except (BrokerError, self._errors) as error:
                    _LOG.warning("the connection to the queue was interrupted: %s", error)
                    ended.wait(_RETRY_S)

        thread = threading.Thread(target=listen, name="broker", daemon=True)
        thread.start()
        try:
            connected.wait(TIMEOUT_S)
            yield
        finally:
            ended.set()
            thread.join(1)

    def _deliver(
        self,
        pubsub: Any,
        handlers: Mapping[str, Callable[[JsonObject], None]],
        ended: threading.Event,
        connected: threading.Event,
        on_connect: Callable[[], None],
    ) -> None:
        subscriptions = 0
        while not ended.is_set():
            message = pubsub.get_message(timeout=0.2)
            if message is None:
                continue
            if message["type"] == "subscribe":
                subscriptions += 1
                if subscriptions == len(handlers):
                    on_connect()
                    connected.set()
            elif message["type"] == "message":
                # One bad message, or a bug in one handler, must not end the thread that delivers all others.
                try:
                    handlers[message["channel"]](json.loads(message["data"]))
                except Exception:  # noqa: BLE001 - see above
                    _LOG.exception("a message of the queue cannot be handled")

    def close(self) -> None:
        """Close all connections."""
        with suppress(self._errors, OSError):
            self.client.close()
