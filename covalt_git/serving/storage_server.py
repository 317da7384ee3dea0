"""Server of a folder of bare repositories, in which the nodes of projects store their chats."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.project_config import ServerConfig
from covalt_git.models.storage_config import CHAT_ID
from covalt_git.serving.body_timeout import with_body_timeout
from covalt_git.serving.listen_socket import ListenSocket, listen
from covalt_git.serving.router import router, with_access_log
from covalt_git.serving.server import GIT_THREADS, server_token
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import WSGIBridge
from covalt_git.system import programs
from covalt_server.git.storage_http import create_storage_app
from covalt_server.security import Guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp

PORT = 8788
"""The default port."""


_PUSH_S = 10.0
"""Longest time for which a push that a killed server left holds the lock of a ref, in seconds."""


class ServedStorage(NamedTuple):
    """A folder that is being served, its socket and its token."""

    folder: Path
    listener: ListenSocket
    token: str

    @property
    def url(self) -> str:
        """The value of ``storage.url`` in ``covalt.yaml``."""
        return f"{self.listener.url}/{CHAT_ID}.git"


def storage_app(folder: Path, guard: Guard) -> ASGIApp:
    """Return the ASGI app of the repositories in a folder."""
    bridge = WSGIBridge(create_storage_app(folder, guard), threads=GIT_THREADS)
    return with_body_timeout(router(bridge, {}))


def clear_left_locks(folder: Path, before: float) -> int:
    """Remove the locks of refs that killed pushes left before a time, and return their number.

    Git refuses each later push to a ref with such a file.
    """
    number = 0
    for pattern in ("*.git/*.lock", "*.git/refs/**/*.lock"):
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):  # of a push that runs
                if path.stat().st_mtime < before:
                    path.unlink()
                    number += 1
    return number


def serve_storage(
    folder: Path,
    *,
    on_ready: Callable[[ServedStorage], None],
    on_request: Callable[[str], None] | None = None,
    host: str,
    port: int,
    names: tuple[str, ...] = (),
) -> None:
    """Serve the repositories in a folder until Ctrl-C or SIGTERM; create the folder if it does not exist.

    ``names`` are further host names that requests can use.

    Raises:
        CannotListenError: if the server cannot listen on the host or port.
        WeakTokenError: if ``COVALT_GIT_TOKEN`` is not a valid token.
        CovaltError: if git is not installed, or the folder cannot be created.
    """
    if programs.find("git") is None:
        raise CovaltError("a storage server needs git", hint="apt install git", code="no_git")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CovaltError(
            f"the folder {str(folder)!r} cannot be created: {(error.strerror or '').lower()}",
            hint="choose another folder",
        ) from None
    token = server_token()
    # The user's own command names the host, so requests to it are allowed.
    config = ServerConfig(host=host, port=port, allowed_hosts=(host, *names))
    listener = listen(config, host=host, port=port)
    with listener.socket:
        served = ServedStorage(folder, listener, token)
        app = storage_app(folder.absolute(), Guard(token, listener.port, config.allowed_hosts))
        server = Server(
            app if on_request is None else with_access_log(app, on_request, str),
            lambda: on_ready(served),
        )
        # Later, because a push that outlived an earlier server may still move refs one by one.
        timer = threading.Timer(_PUSH_S, clear_left_locks, (folder.absolute(), time.time()))
        timer.daemon = True
        timer.start()
        server.run([listener.socket])
        timer.cancel()
