"""Server of one project: its pages, HTTP API, git repositories and MCP endpoint, and their token."""

from __future__ import annotations

import os
import re
import secrets
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access import UnknownRoleError
from covalt_git.calls.executors import executed_by
from covalt_git.calls.running import RUNNING
from covalt_git.catalog.current_config import current_config
from covalt_git.catalog.token_holders import TokenHolders
from covalt_git.credentials.agent_tokens import PREFIX
from covalt_git.errors import CovaltError
from covalt_git.gateway.http import PLACE
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_config import (
    BrokenConfigError,
    begin_alone,
    is_alone,
    startup_config,
)
from covalt_git.manifests.project_root import find_root
from covalt_git.project import Project
from covalt_git.serving.body_timeout import TIMEOUT_S, with_body_timeout
from covalt_git.serving.forwarded_scheme import with_forwarded_scheme
from covalt_git.serving.listen_socket import OWN_HOSTS, ListenSocket, listen
from covalt_git.serving.mcp_endpoint import (
    WELL_KNOWN,
    AuthMiddleware,
    McpEndpoint,
    resource_metadata,
)
from covalt_git.serving.monitoring import HEALTH, METRICS, READY, Readiness, monitoring
from covalt_git.serving.project_follower import ProjectFollower
from covalt_git.serving.router import router, with_access_log
from covalt_git.serving.server_registry import register
from covalt_git.serving.uvicorn_server import GRACE_S, Server
from covalt_git.serving.wsgi_bridge import WSGIBridge
from covalt_git.system.node_folder import node_of
from covalt_git.workspaces.storage import storage_of
from covalt_server.app import create_app, create_git_app
from covalt_server.security import Guard, masked_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp

    from covalt_git.project_watch import WatchedProject
    from covalt_git.serving.project_queue import ProjectQueue

GIT_THREADS = 8
"""Maximum number of concurrent fetches and pushes; pages have their own threads."""

TOKEN_VARIABLE = "COVALT_GIT_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,}")


class WeakTokenError(CovaltError):
    """A token in ``COVALT_GIT_TOKEN`` that is too short, has invalid characters, or belongs to an agent."""

    code = "weak_token"


class ServedProject(NamedTuple):
    """Project that is being served, its socket and its token."""

    root: Path
    listener: ListenSocket
    token: str
    is_broken: bool = False
    """Whether ``covalt.yaml`` has errors, so that the server has default settings, and its pages repair the file."""

    @property
    def url(self) -> str:
        """The URL that opens the pages in a browser; its token gives full access."""
        return f"{self.listener.url}/?token={self.token}"


def serve(
    start: Path,
    *,
    on_ready: Callable[[ServedProject], None],
    on_request: Callable[[str], None] | None = None,
    host: str | None = None,
    port: int | None = None,
    role: str | None = None,
    watch: WatchedProject | None = None,
    queue: str | None = None,
    drain_s: float | None = None,
) -> None:
    """Serve the project that contains ``start`` until Ctrl-C or SIGTERM, which cancel all running calls.

    ``on_ready`` is called when the server accepts requests, ``on_request`` with a log line for each request.
    With ``watch``, the pages show the project's problems, and reload when it changes.  With the URL of a ``queue``,
    workers make the calls.  When it is stopped, running requests have ``drain_s`` seconds, 2 by default.

    Raises:
        BrokerError: if the queue cannot be reached at the start.
        BrokerUrlError: if its URL cannot be used.
        NotAProjectError: if there is no project.
        BrokenConfigError: if its ``covalt.yaml`` has errors, with a ``role`` or ``queue``, or if the chats or the project may
            be on a git server.
        UnknownRoleError: if ``covalt.yaml`` does not define ``role``.
        CannotListenError: if the server cannot listen on the host or port.
        WeakTokenError: if ``COVALT_GIT_TOKEN`` is not a valid token.
    """
    root = find_root(start)
    project = None
    try:
        follower = ProjectFollower(root)
        follower.start()
        project = Project.open(start, role=role)
    except BrokenConfigError:
        # Its pages repair the file.  A node of several machines, and a role, depend on what the file says.
        if role is not None or queue is not None or not is_alone(root):
            raise
        begin_alone(root)
    node = root if project is None else node_of(project.root)
    settings = startup_config(root) if project is None else project.config
    if project is not None and role is not None and role not in project.config.roles:
        raise UnknownRoleError(role, project.config.roles)
    token = server_token()
    listener = listen(settings.server, host=host, port=port)
    stopping = threading.Event()
    project_queue = None if queue is None or project is None else _queue_of(project, queue)
    # The file has the name of the port, which is bound for as long as the file exists: no other server has it.
    with listener.socket, register(node, listener.url):
        served = ServedProject(node, listener, token, is_broken=project is None)
        app = project_app(
            node,
            token=token,
            port=listener.port,
            role=role,
            watch=watch,
            host=listener.host,
            stopping=stopping,
            queue=project_queue,
            follower=follower,
        )

        def stop() -> None:
            stopping.set()
            if project_queue is not None:
                project_queue.executor.leave_calls()

        server = Server(
            app if on_request is None else with_access_log(app, on_request, masked_path),
            lambda: on_ready(served),
            on_stop=stop,
            grace_s=GRACE_S if drain_s is None else drain_s,
        )
        # Pages only read, so until the next write they would show a call that a killed process left as
        # running, and an unfinished checkout as edits of the user.
        if project is not None:
            project.chats.finish_left()
        # Here, not at the end of the process: that does not wait for the daemon threads of requests, and from Python
        # 3.12 on it refuses the others new threads and programs, which the record of a call may need
        # (test_a_call_that_runs_when_the_server_stops_is_recorded).
        with follower.following(), _calls_by_workers(project_queue), RUNNING.served():
            server.run([listener.socket])


def _queue_of(project: Project, url: str) -> ProjectQueue:
    from covalt_git.serving.project_queue import ProjectQueue  # noqa: PLC0415 - it loads Celery

    project_queue = ProjectQueue(project, url)
    project_queue.open_calls.broker.check()
    return project_queue


@contextmanager
def _calls_by_workers(queue: ProjectQueue | None) -> Iterator[None]:
    """Make the calls of this process by the workers of a queue, if there is one, while the block runs."""
    if queue is None:
        yield
        return
    with queue.maintained(), executed_by(queue.executor):
        yield
    queue.close()


def _checks(
    root: Path, queue: ProjectQueue | None, stopping: threading.Event | None
) -> dict[str, Callable[[], object]]:
    """Return the checks of the parts that a server needs."""

    def check_stopping() -> None:
        if stopping is not None and stopping.is_set():
            raise CovaltError("the server stops")

    def check_storage() -> None:
        storage_of(current_config(current_root(root)).workspace).chat_ids()

    checks: dict[str, Callable[[], object]] = {
        "server": check_stopping,
        "configuration": lambda: current_config(current_root(root)),
        "storage": check_storage,
    }
    if queue is not None:
        checks["queue"] = queue.open_calls.broker.check
    return checks


def project_app(
    root: Path,
    *,
    token: str,
    port: int,
    role: str | None = None,
    watch: WatchedProject | None = None,
    host: str = OWN_HOSTS[0],
    timeout_s: float = TIMEOUT_S,
    stopping: threading.Event | None = None,
    queue: ProjectQueue | None = None,
    follower: ProjectFollower | None = None,
) -> ASGIApp:
    """Return the ASGI app of the project at ``root``: pages, HTTP API, git and MCP.

    ``host`` is the host in URLs of the server.  A client has ``timeout_s`` seconds for the next part of a
    request's body.  When ``stopping`` is set, event streams of open pages end.  The metrics have those of a ``queue``, and
    of the ``follower`` of the project.
    """
    config = startup_config(current_root(root))
    allowed_hosts = config.server.allowed_hosts
    guard = Guard(token, port, allowed_hosts)
    # Without the token, which agents must not see: the user's browser has it from an earlier visit.
    approvals = f"http://{host}:{port}/approvals"
    holders = TokenHolders(root)
    mcp = McpEndpoint(
        root, role, pages=lambda execution_id: f"{approvals}/{execution_id}", holders=holders
    )

    def check(headers: Mapping[str, str]) -> object:
        return guard.check_client(headers, mcp.find_token)

    is_shared = config.storage.type == "git"
    checked_mcp = AuthMiddleware(mcp, check, metadata=f"{WELL_KNOWN}{PLACE}", fetches=is_shared)
    # Clients read the metadata before they have a token (RFC 9728), so only host and origin are checked.
    metadata = AuthMiddleware(resource_metadata(["", PLACE], holders.issuers), guard.check_from)
    pages = create_app(
        root,
        token=token,
        port=port,
        role=role,
        followed=watch,
        stopping=stopping,
        holders=holders,
    )
    git = create_git_app(root, token=token, port=port, role=role)
    follows = follower or ProjectFollower(root)
    watched = monitoring(
        Readiness(_checks(root, queue, stopping)),
        token=token,
        gauges=lambda: [*(() if queue is None else queue.gauges()), *follows.gauges()],
        project=lambda: follows.detail,
    )
    mounts: dict[str, ASGIApp] = {
        **dict.fromkeys((HEALTH, READY, METRICS), watched),
        "/git": WSGIBridge(git, threads=GIT_THREADS),
        PLACE: checked_mcp,
        WELL_KNOWN: metadata,
    }
    # The time limit is before the router because it must hold for /mcp too: the SDK holds up to 16 MiB of
    # an unfinished body in memory.
    app = with_body_timeout(router(WSGIBridge(pages), mounts, mcp.running), timeout_s)
    return with_forwarded_scheme(app, allowed_hosts)


def server_token() -> str:
    """Return the token of the environment, or a new one."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return secrets.token_urlsafe(32)
    if token.startswith(PREFIX):
        raise WeakTokenError(
            f"{TOKEN_VARIABLE} is an agent token; as the server's token it would give the agent full access",
            hint=f"unset {TOKEN_VARIABLE}",
        )
    if not _TOKEN.fullmatch(token):
        raise WeakTokenError(
            f"{TOKEN_VARIABLE} must have at least 16 characters: letters, digits or -._~",
            hint=f"export {TOKEN_VARIABLE}=$(openssl rand -hex 32)",
        )
    return token
